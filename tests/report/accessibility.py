"""What axe finds on a page, in the reader's light and dark colours."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tests.agentv import agentv_modules

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCHEMES = ("light", "dark")
_RUN = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    const why = (node) => node.any.concat(node.all, node.none)[0]?.message;
    return violations.filter((each) => ["serious", "critical"].includes(each.impact))
        .flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.target} (${why(node)})`));
}"""


@functools.cache
def _axe() -> str:
    return (agentv_modules() / "axe-core/axe.min.js").read_text("utf-8")


def serious(tab: Page) -> list[str]:
    """Findings of axe that are serious or critical, one sentence a node; of the page as it stands."""
    tab.evaluate(f"() => {{ {_axe()} }}")
    return list(tab.evaluate(_RUN))
