"""A system that judges what an agent left must not be judged by what it left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources

from agentv_sandbox import masking
from agentv_sandbox.base.errors import SandboxError
from agentv_sandbox.base.logs import safe_name
from agentv_sandbox.containers.policy import PATH
from agentv_sandbox.containers.sandbox import Role, Sandbox, System

_SCRIPT = resources.files("agentv_sandbox") / "data" / "restorer.py"
_MOST_NAMED = 5
_PROGRAMS = (
    *(
        "sh",
        "bash",
        "dash",
        "busybox",
        "env",
        "sudo",
        "su",
        "timeout",
        "git",
        "make",
        "jq",
        "tar",
        "gzip",
        "unzip",
    ),
    *(
        "curl",
        "wget",
        "apt",
        "apt-get",
        "dpkg",
        "apk",
        "pip",
        "pip3",
        "uv",
        "uvx",
        "pipx",
        "conda",
        "npm",
        "npx",
        "node",
    ),
    *(
        "python",
        "python3",
        "pytest",
        "py.test",
        "coverage",
        "tox",
        "nox",
        "perl",
        "ruby",
        "go",
        "cargo",
        "java",
    ),
)
"""What scripts that judge call, beside what the image has."""
_MODULES = (
    *("pytest", "_pytest", "pluggy", "iniconfig", "exceptiongroup", "tomli", "py", "pip", "uv", "coverage"),
    *("pytest_json_ctrf", "ctrf", "pytest_timeout", "pytest_asyncio", "pytest_jsonreport", "xdist"),
)


@dataclass(frozen=True, kw_only=True)
class Restored:
    """Absolute paths, printable, some of them where there are many."""

    restored: Sequence[str] = ()
    """What the image had and is as it had it."""
    hidden: Sequence[str] = ()
    """What was added and is taken away."""
    more: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What the row says of it."""
        if not (self.restored or self.hidden):
            return ()
        named = [*self.restored, *self.hidden]
        rest = len(named) + self.more - _MOST_NAMED
        more = f" and {rest} more" if rest > 0 else ""
        return (
            f"judged with {', '.join(named[:_MOST_NAMED])}{more} as the image has them, not as the agent left them",
        )


def restore(sandbox: Sandbox, judging: System, agents: System, *, also: Sequence[str] = ()) -> Restored:
    """Put ``judging``, a system over ``agents``, in order before anything runs in it: programs, libraries and what they
    load when they start are as the image has them, as far as packages brought them or judging uses them, and what the
    agent's side added in their place is gone. ``also``: patterns of further such paths, without ``/`` at the beginning.

    Raises SandboxError where that fails.
    """
    image = sandbox.engine.image(agents.image)
    given = dict(entry.partition("=")[::2] for entry in image.env) if image is not None else {}
    folders = [folder for folder in f"{given.get('PATH', PATH)}:{PATH}".split(":") if folder.startswith("/")]
    request = {"path": folders, "programs": _PROGRAMS, "modules": _MODULES, "also": list(also)}
    result = sandbox.run(
        Role.RESTORER,
        ["/usr/bin/python3", "-I", "-S", "-X", "utf8", "-c", _SCRIPT.read_text(encoding="utf-8")],
        image=sandbox.tool_image,
        mounts=[replace(judging.files, read_only=False), agents.changes, agents.base],
        stdin=json.dumps(request).encode(),
    )
    if not result.ok:
        said = masking.last(result.stderr.decode("utf-8", "replace"), 500)
        raise SandboxError(
            f"the system could not be put in order for judging ({result.outcome}): {safe_name(said)}"
        )
    found = json.loads(result.stdout)
    return Restored(
        restored=[safe_name(path) for path in found["restored"]],
        hidden=[safe_name(path) for path in found["hidden"]],
        more=int(found["more"]),
    )
