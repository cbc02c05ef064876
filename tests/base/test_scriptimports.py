"""What scripts load from beside them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentv_sandbox.project import Project
from agentv_sandbox.project.scriptimports import imported


def written(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(folder: Path, script: str) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in imported([folder / script], folder)]


@pytest.mark.parametrize(
    ("script", "files", "expected"),
    [
        (
            "run.py",
            {"run.py": "import a", "a.py": "import b", "b.py": "import a", "c.py": ""},
            ["a.py", "b.py"],
        ),
        (
            "run.py",
            {
                "run.py": "from pkg.sub import x",
                "pkg/__init__.py": "",
                "pkg/sub.py": "from . import y",
                "pkg/y.py": "",
            },
            ["pkg/__init__.py", "pkg/sub.py", "pkg/y.py"],
        ),
        ("s/run.py", {"s/run.py": "from .. import up", "up.py": "", "s/up.py": ""}, ["up.py"]),
        ("run.py", {"run.py": "import json, numpy\nfrom os import path"}, []),
        ("run.py", {"run.py": "def broken(:"}, []),
        (
            "run.ts",
            {
                "run.ts": "import {a} from './a.js'\nexport * from \"../t4/x\"\nconst b = require('./lib')",
                "a.ts": "import('./deep/c.mjs')",
                "deep/c.mjs": "",
                "lib/index.ts": "import data from './data.json'",
                "lib/data.json": "{}",
                "other.ts": "",
            },
            ["a.ts", "deep/c.mjs", "lib/data.json", "lib/index.ts"],
        ),
        (
            "run.sh",
            {
                "run.sh": '. ./a.sh\nif true; then source "$(dirname "$0")/lib/b.sh"; fi\n. "${HERE}/c.sh"',
                "a.sh": "",
                "lib/b.sh": "source c.sh",
                "lib/c.sh": "",
                "c.sh": "",
                "d.sh": "",
            },
            ["a.sh", "c.sh", "lib/b.sh", "lib/c.sh"],
        ),
        ("run", {"run": "#!/usr/bin/env python3\nimport a", "a.py": ""}, ["a.py"]),
        (
            "s/t/run.ts",
            {
                "s/t/run.ts": "import x from '.'\nimport y from \"..\"\nconst z = await import(`./z.mjs`)",
                "s/t/index.ts": "",
                "s/index.js": "",
                "s/t/z.mjs": "import(`./${name}.mjs`)",
                "s/t/name.mjs": "",
            },
            ["s/index.js", "s/t/index.ts", "s/t/z.mjs"],
        ),
    ],
)
def test_what_a_script_loads_is_found(
    tmp_path: Path, script: str, files: Mapping[str, str], expected: list[str]
) -> None:
    assert names(written(tmp_path, files), script) == expected


def test_nothing_outside_of_the_project_is_found(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "project", {"run.py": "from .. import out\nimport linked", "run.ts": "import '../out'"}
    )
    written(tmp_path, {"out.py": "", "out.ts": ""})
    (folder / "linked.py").symlink_to(tmp_path / "out.py")
    assert names(folder, "run.py") == names(folder, "run.ts") == []


def test_a_large_or_looping_script_costs_little(tmp_path: Path) -> None:
    written(tmp_path, {"run.py": "import loop\n" + "#" * (1 << 20)})
    (tmp_path / "loop.py").symlink_to("loop.py")
    assert names(tmp_path, "run.py") == []


HOSTILE = {
    "empty lines": ("a.sh", "\n" * (1 << 19)),
    "long lines of blanks": ("a.sh", (" " * 5000 + "\n") * 100),
    "blanks after import": ("a.js", "import" + " " * (1 << 19)),
    "many words": ("a.js", "from\n" * 100_000),
    "a name of many parts": ("a.py", "import " + ".".join(["a"] * 400_000)),
    "such a name over many lines": ("a.py", "import " + ".\\\n".join(["a"] * 200_000)),
    "many imports": ("a.py", "\n".join(f"import m{i}" for i in range(20_000))),
    "a long name in Python": ("a.py", "import " + "a" * 300),
    "a long name in JavaScript": ("a.js", f"require('./{'a' * 300}')"),
    "a name with a null": ("a.js", "require('./\0')"),
    "a long name in a shell": ("a.sh", f". ./{'a' * 300}"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_script_made_to_take_long_or_to_break_the_reader_does_neither(tmp_path: Path, what: str) -> None:
    script, text = HOSTILE[what]
    written(tmp_path, {script: text})
    begin = time.process_time()
    assert names(tmp_path, script) == []
    assert time.process_time() - begin < 20  # the square of half a megabyte would take hours


def test_a_command_sees_what_it_names(tmp_path: Path) -> None:
    project = Project(tmp_path, cwd=tmp_path)
    written(
        tmp_path,
        {
            "h/run.sh": ". ./lib.sh",
            "h/lib.sh": "",
            "h/mod/__init__.py": "",
            "h/mod/__main__.py": "import beside",
            "h/beside.py": "",
            "data/a.csv": "",
            "data/t.eval.yaml": "",
            "more/x.txt": "",
            "secret.txt": "",
        },
    )
    cwd = tmp_path / "h"

    def seen(*argv: str, files: tuple[str, ...] = ()) -> list[str]:
        paths = project.seen_by(
            argv, cwd=cwd, files=files, hidden=lambda path: path.name.endswith("eval.yaml")
        )
        return [path.relative_to(tmp_path).as_posix() for path in paths]

    assert seen("bash", "run.sh") == ["h/lib.sh", "h/run.sh"]
    assert seen("sh", "-c", "cp -r ../data /workspace && bash run.sh") == [
        "data/a.csv",
        "h/lib.sh",
        "h/run.sh",
    ]
    assert seen("cat", "/suite/data/t.eval.yaml") == ["data/t.eval.yaml"]
    assert seen("python3", "-m", "mod") == ["h/beside.py", "h/mod/__init__.py", "h/mod/__main__.py"]
    assert seen("ls", ".", "..", "/suite", "/etc/passwd", "../../etc/passwd") == []
    assert seen("true", files=("more/**",)) == ["more/x.txt"]
