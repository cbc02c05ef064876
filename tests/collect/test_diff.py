"""The difference of two manifests: git is the oracle, on folders that the test itself made."""

from __future__ import annotations

import hashlib
import random
import resource
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentv_sandbox.containers.volumes import StagedFile
from agentv_sandbox.models.case import Changes, FileEntry
from agentv_sandbox.workspace.collect.baseline import Baseline
from agentv_sandbox.workspace.collect.diff import DiffLimits, difference, quoted

Tree = Mapping[str | bytes, bytes | StagedFile]


def baseline_of(tree: Tree) -> Baseline:
    return Baseline.staged(
        data if isinstance(data, StagedFile) else StagedFile(path=path, data=data)
        for path, data in tree.items()
    )


def changes(old: Tree, new: Tree, **options: object) -> Changes:
    before, after = baseline_of(old), baseline_of(new)
    return difference(
        before.entries,
        after.entries,
        read_old=before.read,
        read_new=after.read,
        **options,  # type: ignore[arg-type]
    )


def applied(diff: str, old: Tree, folder: Path) -> dict[str, bytes]:
    """What ``git apply`` makes of ``old``."""
    for path, data in old.items():
        assert isinstance(path, str)
        assert isinstance(data, bytes)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    done = subprocess.run(  # noqa: PLW1510
        ["git", "apply", "--whitespace=nowarn", "-"], input=diff.encode(), cwd=folder, capture_output=True
    )
    assert done.returncode == 0, (done.stderr, diff)
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("seed", range(25))
def test_git_applies_what_we_print(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)

    def text(lines: list[str]) -> bytes:
        return ("\n".join(lines) + rng.choice(["", "\n"])).encode()

    lines = [rng.choice("abcdefg") * rng.randint(1, 3) for _ in range(rng.randint(0, 40))]
    edited = list(lines)
    for _ in range(rng.randint(1, 8)):
        at = rng.randint(0, len(edited))
        edited[at : at + rng.randint(0, 2)] = [rng.choice("axyz")] * rng.randint(0, 2)
    old = {"with space.txt": text(lines), "tab\tname": b"x\n", "gone": b"1\n2\n", "moved/from": b"same\n"}
    new = {"with space.txt": text(edited), "tab\tname": b"y\r\n", "é\u2028": b"z", "moved/to": b"same\n"}
    assert applied(changes(old, new).diff, old, tmp_path) == new


@pytest.mark.parametrize(
    ("old", "new"), [("aa", "aaa"), ("aaa", "aa"), ("aba", "ababa"), ("ab", "abab"), ("", "aa")]
)
def test_a_start_that_is_also_the_end_is_counted_once(old: str, new: str, tmp_path: Path) -> None:
    before, after = ({"x": "".join(f"{c}\n" for c in text).encode()} for text in (old, new))
    found = changes(before, after).diff
    assert applied(found, before, tmp_path) == after
    assert sum(line[:1] in "+-" for line in found.split("\n")[4:] if line) == abs(len(old) - len(new))


def test_headers_are_those_of_git(tmp_path: Path) -> None:
    old = {"kept": b"same\n", "a.txt": b"one\ntwo\n", "gone.txt": b"x\n", "old-name": b"moved\n"}
    new = {"kept": b"same\n", "a.txt": b"one\n2\n", "new.txt": b"y", "new-name": b"moved\n"}
    old |= {"tab\tand space": b"1\n", "a space": b"1\n"}
    new |= {"tab\tand space": b"2\n", "a space": b"2\n"}
    old |= {"twin-1": b"twins\n", "twin-2": b"twins\n", "b.txt": b"".join(b"%d\n" % n for n in range(30))}
    new |= {"zwin-1": b"twins\n", "zwin-2": b"twins\n", "b.txt": old["b.txt"].replace(b"15\n", b"x\n")}
    for name, tree in (("a", old), ("b", new)):
        (tmp_path / name).mkdir()
        for path, data in tree.items():
            (tmp_path / name / path).write_bytes(data)
    subprocess.run(["git", "init", "-q", tmp_path / "a"], check=True)
    git = ["git", "-C", str(tmp_path / "a"), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    tree = str(tmp_path / "b")
    subprocess.run([*git, "--work-tree", tree, "add", "-A"], check=True)
    expected = subprocess.run([*git, "diff", "--cached", "-M100%"], capture_output=True, check=True).stdout
    assert changes(old, new).diff == expected.decode()


def test_empty_files_have_nothing_that_could_have_moved() -> None:
    found = changes({"a": b"", "b": b"x\n"}, {"c": b"", "d": b"x\n"})
    assert [(c.path, c.kind, c.old_path) for c in found.files] == [
        ("a", "deleted", None),
        ("c", "added", None),
        ("d", "renamed", "b"),
    ]


def test_binary_mode_and_type() -> None:
    tool = StagedFile(path="run.sh", data=b"x\n", mode=0o755)
    link = StagedFile(path="data", kind="symlink", link="/etc/passwd")
    found = changes(
        {"run.sh": b"x\n", "data": b"text\n", "logo.png": b"\x89PNG\0", "latin1": b"ok\n"},
        {"run.sh": tool, "data": link, "logo.png": b"\x89PNG\0\0", "latin1": b"\xe9\n"},
    )
    assert "old mode 100644\nnew mode 100755\n" in found.diff
    assert "deleted file mode 100644" in found.diff
    assert "new file mode 120000\n" in found.diff
    assert "+/etc/passwd\n\\ No newline at end of file\n" in found.diff
    hashes = [hashlib.sha256(data).hexdigest()[:16] for data in (b"\x89PNG\0", b"\x89PNG\0\0")]
    sizes = f"(5 bytes sha256 {hashes[0]} -> 6 bytes sha256 {hashes[1]})"
    assert f"Binary files a/logo.png and b/logo.png differ {sizes}\n" in found.diff
    kinds = {(c.path, c.kind, c.binary) for c in found.files}
    assert kinds == {
        ("run.sh", "mode", False),
        ("data", "deleted", False),
        ("data", "added", False),
        ("logo.png", "modified", True),
        ("latin1", "modified", True),
    }


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"plain-name.txt", "plain-name.txt"),
        ("übung 日本.txt".encode(), "übung 日本.txt"),
        (b"a\n+++ b/tests/x", '"a\\n+++ b/tests/x"'),
        (b'quo"te\\back', '"quo\\"te\\\\back"'),
        (b"\x1b[31mred", '"\\033[31mred"'),
        ("\u202etxt.exe".encode(), '"\\342\\200\\256txt.exe"'),
        ("line\u2028sep".encode(), '"line\\342\\200\\250sep"'),
        (b"caf\xe9", '"caf\\351"'),
        (b"-rf", "-rf"),
    ],
)
def test_names_are_quoted_like_git(name: bytes, shown: str) -> None:
    assert quoted(name) == shown


def test_no_name_and_no_content_forges_a_file() -> None:
    evil = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n"
    found = changes({}, {b"a\ndiff --git a/tests/x b/tests/x": evil, "b": evil})
    headers = [line for line in found.diff.split("\n") if line.startswith("diff --git ")]
    assert len(headers) == len(found.files) == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["shuffled", "two-valued", "anchored"])
def test_hostile_texts_cost_little(kind: str) -> None:
    rng = random.Random(7)
    old = [f"{n}\n" for n in range(200_000)]
    new = rng.sample(old, len(old))
    if kind != "shuffled":
        for text in (old, new):
            for n in range(len(text)):
                text[n] = f"anchor {n}\n" if kind == "anchored" and n % 450 == 0 else rng.choice("ab") + "\n"
    began = time.process_time()
    found = changes({"x": "".join(old).encode()}, {"x": "".join(new).encode()})
    assert time.process_time() - began < 20
    assert found.diff.count("\n") > 100_000


def test_caps_are_reported() -> None:
    big = changes({}, {"big": b"x\n" * 600}, limits=DiffLimits(file_bytes=1000))
    assert "Binary files /dev/null and b/big differ (1200 bytes sha256 " in big.diff
    many = changes({}, {f"f{n}": b"y\n" * 100 for n in range(5)}, limits=DiffLimits(total_chars=500))
    assert many.truncated
    assert many.diff.count("diff --git ") == 5
    assert many.diff.count("# left out: the whole diff is limited to 500 characters\n") == 4
    lines = changes({}, {"lines": b"\n" * 50}, limits=DiffLimits(file_lines=40))
    assert "Binary files /dev/null and b/lines differ (50 bytes sha256 " in lines.diff


@pytest.mark.slow
def test_many_short_lines_cost_little_memory() -> None:
    files = {f"f{n}": b"ab\n" * 190_000 for n in range(40)} | {"x": b"a\n" * 4_000_000}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = changes({}, files)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 100 << 20
    assert found.truncated
    assert len(found.diff) < 9 << 20


def test_a_binary_file_is_shown_as_text_too() -> None:
    def as_text(entry: FileEntry, data: bytes) -> str | None:
        return data.replace(b"\0", b"").decode() if entry.path.endswith(b".xlsx") else None

    found = changes(
        {"report.xlsx": b"\0a\nb", "logo.png": b"\0"},
        {"report.xlsx": b"\0a\nc", "logo.png": b"\0\0", "new.xlsx": b"\0n\n"},
        as_text=as_text,
    )
    assert (
        "--- a/report.xlsx (as text)\t\n+++ b/report.xlsx (as text)\t\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
        in found.diff
    )
    assert "--- /dev/null\n+++ b/new.xlsx (as text)\t\n@@ -0,0 +1 @@\n+n\n" in found.diff
    assert "logo.png (as text)" not in found.diff


def test_a_text_file_can_be_shown_both_ways() -> None:
    def as_text(_entry: FileEntry, data: bytes) -> str | None:
        return data.decode().strip("{}\n")

    found = changes({"n.ipynb": b"{1}\n"}, {"n.ipynb": b"{2}\n"}, as_text=as_text)
    assert (
        "-{1}\n+{2}\n--- a/n.ipynb (as text)\t\n+++ b/n.ipynb (as text)\t\n@@ -1 +1 @@\n-1\n+2\n"
        in found.diff
    )


def test_a_staged_file_changed_on_the_host_is_noticed(tmp_path: Path) -> None:
    source = tmp_path / "template.txt"
    source.write_text("old\n")
    before = Baseline.staged([StagedFile(path="t", data=source)])
    source.write_text("edited by the user during the run\n")
    after = baseline_of({"t": b"new\n"})
    found = difference(before.entries, after.entries, read_old=before.read, read_new=after.read)
    assert "edited by the user" not in found.diff
    assert "Binary files a/t and b/t differ (4 bytes" in found.diff
