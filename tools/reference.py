"""Writes docs/reference/cli.md from the command line itself. ``--check``: only say whether it is as the code has it.

Usage: ``python tools/reference.py [--check]``. Exit status 1 when it is not.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, get_args

from agentv_sandbox.cli import COMMANDS, imported_command

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
_HEAD = """# Command line

Every command has `--help`, which says the same. `agentv-sandbox --version` prints the version,
`agentv-sandbox --install-completion` sets up completion.
"""


def page() -> str:
    """The whole document."""
    return "\n".join([_HEAD, *(_command(name) for name in COMMANDS)])


def _command(name: str) -> str:
    command = imported_command(name)
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [
        param for param in command.params if param.param_type_name == "option" and "--help" not in param.opts
    ]
    usage = " ".join([f"agentv-sandbox {name}", *(["[OPTIONS]"] if options else []), *map(_usage, arguments)])
    parts = [f"## {name}", "", f"`{usage}`", "", _paragraphs(command.help or ""), ""]
    rows = [(_metavar(param), _text(param)) for param in arguments]
    rows += [(_names(param), _text(param)) for param in options]
    if rows:
        parts += ["| | |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in rows), ""]
    return "\n".join(parts)


def _usage(param: Any) -> str:
    name = _metavar(param) + ("…" if param.nargs == -1 and not _metavar(param).endswith("...") else "")
    return name if param.required else f"[{name}]"


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _names(param: Any) -> str:
    names = ", ".join(sorted(param.opts, key=len, reverse=True))
    if param.is_flag:
        return names
    words = " | ".join(map(str, get_args(param.type_descriptor.annotation)))
    return f"{names} {param.metavar or words or 'VALUE'}"


def _text(param: Any) -> str:
    text = _one_line(param.help or "")
    shown = param.show_default if isinstance(param.show_default, str) else ""
    if (
        not shown
        and param.param_type_name == "option"
        and param.show_default
        and param.default not in (None, False)
    ):
        shown = str(param.default)
    return f"{text} Default: {shown}." if shown else text


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|").replace("<", "&lt;")


def _paragraphs(text: str) -> str:
    return "\n\n".join(_one_line(part) for part in text.replace("\b", "").split("\n\n"))


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        return 0 if PAGE.is_file() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
