"""Makes the documents a site: ``python tools/site.py [FOLDER]`` (``build/site``). Exit status 1 with a warning.

The site is made of a copy of the repository's documents in their places, so that links between them, and to examples,
are the ones that readers of the repository follow. A link that leads nowhere is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
STYLE, SCRIPT = "site.css", "site.js"
_CSS = """\
/* What is copied of a console: its commands, without the prompt and what they print. */
[data-md-copying] :is(.gp, .go) { display: none; }
/* Contrast of small texts, links and code, as WCAG AA has it. */
.md-tabs__link, .md-tabs__item--active .md-tabs__link { opacity: 1; }
.md-typeset a:not(.md-button, .headerlink) { text-decoration: underline; }
.md-typeset a code { color: inherit; }
:root, [data-md-color-scheme] { --md-footer-fg-color--light: #ffffffc8; --md-footer-fg-color--lighter: #ffffffb4; }
[data-md-color-scheme="default"][data-md-color-primary] {
  --md-default-fg-color--light: #000000b3; --md-default-fg-color--lighter: #0000009e; --md-typeset-a-color: #2f3fa0;
  --md-code-hl-comment-color: #5a6270; --md-code-hl-generic-color: #5a6270;
}
[data-md-color-scheme="slate"][data-md-color-primary] {
  --md-default-fg-color--light: #ffffffc4; --md-default-fg-color--lighter: #ffffffb0; --md-typeset-a-color: #9db1ff;
  --md-code-hl-comment-color: #b3b9c9; --md-code-hl-generic-color: #b3b9c9; --md-code-hl-constant-color: #b9adf8;
}
"""
_SCRIPT = """\
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
"""
NAVIGATION: list[dict[str, object]] = [
    {"Start": ["README.md", "docs/tutorial.md"]},
    {"How to": "docs/how-to"},
    {"Reference": "docs/reference"},
    {
        "Explanation": [
            "docs/comparison.md",
            "docs/scale.md",
            "docs/deviations.md",
            "SECURITY.md",
            "ARCHITECTURE.md",
        ]
    },
    {"Decisions": "docs/adr"},
    {"Project": ["CONTRIBUTING.md", "CHANGELOG.md"]},
]


def documents() -> list[Path]:
    """All that the site shows: documents, and what they link to."""
    wanted = [ROOT / name for name in _named()]
    seen: dict[Path, None] = {}
    while wanted:
        path = wanted.pop(0)
        if path in seen or not path.is_file():
            continue
        seen[path] = None
        if path.suffix == ".md":
            wanted += [
                (path.parent / link).resolve() for link in _LINK.findall(path.read_text()) if ":" not in link
            ]
    return list(seen)


def _named() -> list[str]:
    return [name for section in NAVIGATION for value in section.values() for name in _names(value)]


def _names(value: object) -> list[str]:
    if isinstance(value, list):
        return value
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / str(value)).glob("*.md"))


def _configuration(source: Path, target: Path) -> dict[str, object]:
    navigation = [{title: _names(value)} for section in NAVIGATION for title, value in section.items()]
    return {
        "site_name": "agentv-sandbox",
        "docs_dir": str(source),
        "site_dir": str(target),
        "use_directory_urls": False,
        "strict": True,
        "nav": navigation,
        # Nothing from elsewhere: the site works without a network, and tells nobody who reads it.
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.tabs", "content.code.copy"],
            "palette": [_palette("light", "default", "dark"), _palette("dark", "slate", "light")],
        },
        "extra_css": [STYLE],
        "extra_javascript": [SCRIPT],
        "plugins": [{"search": {"separator": r"[\s\-,:!=\[\](){}<>\"`/.|]+"}}],
        "markdown_extensions": [
            "tables",
            {"toc": {"permalink": True}},
            "pymdownx.superfences",
            "pymdownx.highlight",
        ],
        "validation": {"nav": {"omitted_files": "ignore"}, "links": {"anchors": "warn", "not_found": "warn"}},
    }


def _palette(mode: str, scheme: str, other: str) -> dict[str, object]:
    """One of the two colour schemes; the reader's system chooses, and a button changes to the other."""
    toggle = {
        "icon": f"material/weather-{'sunny' if mode == 'light' else 'night'}",
        "name": f"Switch to {other} mode",
    }
    return {"media": f"(prefers-color-scheme: {mode})", "scheme": scheme, "toggle": toggle}


def main(target: Path) -> int:
    source = target.with_name(f"{target.name}-source")
    for folder in (source, target):
        shutil.rmtree(folder, ignore_errors=True)
    for path in documents():
        copy = source / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    (source / STYLE).write_text(_CSS)
    (source / SCRIPT).write_text(_SCRIPT)
    settings = source.with_name(f"{source.name}.yml")
    settings.write_text(yaml.safe_dump(_configuration(source, target), sort_keys=False))
    # Not quietly: what it does not say does not count as a warning either.
    argv = [sys.executable, "-P", "-m", "mkdocs", "build", "-f", str(settings)]
    done = subprocess.run(
        argv,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = [line for line in done.stdout.splitlines() if done.returncode and not line.startswith("INFO")]
    sys.stderr.write("".join(f"{line}\n" for line in said))
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/site").absolute()))
