"""What people and other programs see of a run: views of its folder, one file each, and what is shown while it goes on.

``progress``   events while a run goes on; ``live`` its page; ``summary`` what it came to, and the exit status
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from agentv_sandbox.report import views
from agentv_sandbox.report.view import View
from agentv_sandbox.rows.reader import Run

_MODULES = sorted(module.name for module in iter_modules(views.__path__, f"{views.__name__}."))
VIEWS: Mapping[str, View] = {view.name: view for name in _MODULES for view in import_module(name).VIEWS}
"""Every form in which runs are written, by its name."""


def kept_views() -> Mapping[str, Callable[[Path], str]]:
    """What writes the views that stand in every run's folder, by their names there."""
    return {view.kept: partial(_write_kept, view) for view in VIEWS.values() if view.kept}


def _write_kept(view: View, folder: Path) -> str:
    return view.write([Run.open(folder)], folder / view.kept)


__all__ = ["VIEWS", "View", "kept_views"]
