"""File blocks are looked up in what was collected; no path leads anywhere else."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentv_sandbox.base.deadline import Deadline
from agentv_sandbox.containers.blobs import container_name, container_path
from agentv_sandbox.models.case import CaseOutput, FileEntry
from agentv_sandbox.models.content import AnswerMessage, FileBlock, OutputFile
from agentv_sandbox.workspace.collect.answer import (
    REMOTE,
    PathIndex,
    collected_file,
    declared_files,
    with_collected_files,
    with_declared_files,
)
from agentv_sandbox.workspace.collect.globs import Glob
from tests.answers import message, said
from tests.collect.helpers import file_block, says


def entry(path: bytes, kind: str = "file") -> FileEntry:
    return FileEntry(path=path, kind=kind, sha256="a" * 64, size=3)  # type: ignore[arg-type]


WORKSPACE = {e.path: e for e in (entry(b"out/r.csv"), entry("ü b.txt".encode()), entry(b"caf\xe9"))}
WORKSPACE[b"link"] = entry(b"link", "symlink")
ROOTS = {"/workspace": WORKSPACE, "/output": {b"o.txt": entry(b"o.txt")}}
LEFT_OUT = {"/workspace/pipe": "named pipe", "/workspace/repo/.git": "folder .git is not collected"}
OUTSIDE = "not collected: outside of the workspace"


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("out/r.csv", ""),
        ("./out/r.csv", ""),
        ("out/../out//r.csv", ""),
        ("/workspace/out/r.csv", ""),
        ("file:///workspace/out/r.csv", ""),
        ("file:///workspace/%C3%BC%20b.txt", ""),
        ("ü b.txt", ""),
        ("caf\udce9", ""),
        ("/output/o.txt", ""),
        ("/etc/passwd", OUTSIDE),
        ("../../etc/shadow", OUTSIDE),
        ("file:///etc/shadow", OUTSIDE),
        ("file:///workspace/%2e%2e/etc/passwd", OUTSIDE),
        ("//workspace/out/r.csv", OUTSIDE),
        ("/workspace", OUTSIDE),
        ("~/secret", "ENOENT: no such file or directory, open '/workspace/~/secret'"),
        ("a\0b", "ENOENT: no such file or directory, open '/workspace/a\0b'"),
        ("bad\ud800", "ENOENT: no such file or directory, open '/workspace/bad?'"),
        ("ou", "ENOENT: no such file or directory, open '/workspace/ou'"),
        ("out", "EISDIR: illegal operation on a directory, read"),
        ("link", "not collected: a symbolic link"),
        ("pipe", "not collected: named pipe"),
        ("repo/.git/config", "not collected: folder .git is not collected"),
        ("https://example.org/x", REMOTE),
        ("s3://bucket/x", REMOTE),
    ],
)
def test_a_path_is_only_a_key(path: str, refused: str) -> None:
    block = FileBlock(path=path, media_type="text/plain", raw={})
    file = collected_file(block, PathIndex(ROOTS, LEFT_OUT), Deadline())
    assert file.refused == refused
    assert (file.blob is None) == bool(refused)
    assert file.path == path
    assert (file.workspace_path is None) == (bool(refused) or path.startswith("/output"))


def test_only_the_last_answer_counts_and_unknown_blocks_void_a_message() -> None:
    first = message("first")
    assert answer(first, *says({"type": "text", "text": "a"}, {"type": "text", "text": "b"})) == "a\nb"
    assert answer(first, *says({"type": "text", "text": "a"}, {"type": "video"})) == "first"
    assert answer(first, message(""), message("u", role="user")) == "first"
    assert answer(first, AnswerMessage(role="assistant", content="")) == "first"
    assert answer() == ""
    assert answer(*says(file_block("x"))) == ""
    for content in ([], [None], [{"type": "file", "path": 1, "media_type": "x"}], {"a": 1}, 5):
        assert CaseOutput(messages=(message(content),)).content == ""


def answer(*messages: AnswerMessage) -> str:
    return CaseOutput(messages=messages).answer


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.csv", ["a.csv"]),
        ("**/*.csv", ["a.csv", "out/b.csv", "out/deep/c.csv"]),
        ("out/*", ["out/b.csv"]),
        ("out/**", ["out/b.csv", "out/deep/c.csv"]),
        ("./a.csv", ["a.csv"]),
        ("out/?.csv", ["out/b.csv"]),
        ("[!b]*.csv", ["a.csv"]),
        ("[^a]*.csv", ["a.csv"]),
        ("a.csv\n", []),
        ("[z-a]", []),
        ("A.csv", []),
    ],
)
def test_declared_outputs(glob: str, found: list[str]) -> None:
    entries = [entry(name) for name in (b"out/b.csv", b"a.csv", b"out/deep/c.csv")]
    files, notes = declared_files([glob], entries, [], Deadline())
    assert [f.path for f in files] == found
    assert all(f.declared and f.media_type == "text/csv" for f in files)
    assert not notes


@pytest.mark.parametrize("glob", ["**a" * 12 + "b", "**/" * 12 + "b", "*a" * 30 + "b", "[a-z]*" * 12 + "9"])
def test_many_stars_cost_no_more_than_few(glob: str) -> None:
    """A regular expression that tries all places for each star takes years for these."""
    entries = [entry(b"a/" * 1000 + b"a" * 200 + b"%d" % n) for n in range(20)]
    files, notes = declared_files([glob], entries, [], Deadline(10))
    assert files == []
    assert not notes


@example("[]*", "[]a")
@example("[!]?", "[!]a")
@example("[!]]*[]]", "ab]")
@given(st.text("ab/*?[]!-", max_size=8), st.text("ab/[]!", max_size=8))
def test_globs_match_what_a_regular_expression_would(pattern: str, path: str) -> None:
    assert Glob(pattern).matches(path) == (as_expression(pattern).fullmatch(path) is not None)


@example("[]*", "[]a")
@example("[!]?", "[!]a")
@given(
    st.text("ab*?[]!^-&|~", max_size=8).filter(lambda pattern: "**" not in pattern),
    st.text("ab[]!^-", max_size=6),
)
def test_globs_match_within_a_folder_what_shells_do(pattern: str, name: str) -> None:
    assert Glob(pattern).matches(name) == fnmatch.fnmatchcase(name, pattern)


def as_expression(pattern: str) -> re.Pattern[str]:
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|\[!?+(?:\][^\]]*|[^\]]+)\]|.", pattern.removeprefix("./"))
    sets = {token: fnmatch.translate(token).removesuffix(r"\Z") for token in tokens if token[0] == "["}
    return re.compile(
        "".join({**sets, **known}.get(token) or re.escape(token) for token in tokens), re.DOTALL
    )


def test_a_file_that_the_answer_names_is_not_declared_too() -> None:
    entries = [entry(b"a.csv"), entry(b"b.csv")]
    named = OutputFile(path="./a.csv", media_type="csv", workspace_path=b"a.csv")
    assert [f.path for f in declared_files(["*"], entries, [named], Deadline())[0]] == ["b.csv"]


def collected(*messages: AnswerMessage) -> CaseOutput:
    index = PathIndex(ROOTS, LEFT_OUT)
    return CaseOutput(
        messages=with_collected_files(messages, lambda block: collected_file(block, index, Deadline()))[0]
    )


def test_each_file_block_of_the_answer_carries_its_own_file() -> None:
    """Also where two blocks, or two files, look alike."""
    again = file_block("gone", "csv")
    output = collected(*says(file_block("out/r.csv"), again, again, file_block("out/r.csv", "csv")))
    assert [(f.number, f.path, f.media_type, f.refused == "") for f in output.files] == [
        (0, "out/r.csv", "text/plain", True),
        (1, "gone", "csv", False),
        (2, "gone", "csv", False),
        (3, "out/r.csv", "csv", True),
    ]
    assert [container_path(f) for f in output.files][::3] == ["/files/0/r.csv", "/files/3/r.csv"]


def test_only_what_the_final_answer_names_is_collected() -> None:
    (earlier,) = says(file_block("out/r.csv"), file_block("ü b.txt"))
    messages = collected(earlier, *says(file_block("link"), file_block("out/r.csv"))).messages
    assert isinstance(messages[0].content, tuple)
    files = [block.file for block in messages[0].content if isinstance(block, FileBlock)]
    assert [file and (file.number, file.path) for file in files] == [(1, "out/r.csv"), None]
    assert messages[0].wire() == earlier.wire()


def test_unknown_keys_of_a_block_are_kept_as_written() -> None:
    rows = [
        {"type": "text", "text": "t", "camelCase": {"innerKey": 1}},
        {"type": "file", "x": [1], "path": "out/r.csv", "media_type": "csv"},
        {"type": "image", "media_type": "png", "source": "p.png", "y": None},
    ]
    (shown,) = collected(*says(*rows)).messages
    assert shown.wire() == {"role": "assistant", "content": rows}
    assert [list(block) for block in shown.wire_content] == [list(row) for row in rows]


def test_declared_files_become_blocks_of_the_answer() -> None:
    file = OutputFile(path="out.csv", media_type="text/csv", declared=True)
    block = {"type": "file", "media_type": "text/csv", "path": "out.csv"}
    text = {"type": "text", "text": "done"}
    user = {"role": "user", "content": "more"}
    for content in ("done", [text]):
        messages = said({"role": "assistant", "content": content, "name": "a"}, user)
        got = CaseOutput(messages=with_declared_files(messages, [file]))
        assert [m.wire() for m in got.messages] == [
            {"role": "assistant", "content": [text, block], "name": "a"},
            user,
        ]
        assert got.answer == "done"
        assert with_declared_files(messages, []) == messages
    alone = with_declared_files(said(user), [file])
    assert [m.wire() for m in alone] == [user, {"role": "assistant", "content": [block]}]
    two = CaseOutput(
        messages=with_declared_files(collected(*says(file_block("link"))).messages, [file, file])
    )
    assert [f.number for f in two.files] == [0, 1, 2]


def test_declared_files_are_bounded() -> None:
    files, notes = declared_files(["*"], [entry(b"%03d" % n) for n in range(150)], [], Deadline())
    assert len(files) == 100
    assert notes[0].path == "… 50 more"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("out/report final.xlsx", "report final.xlsx"),
        ("C:\\out\\r.xlsx", "r.xlsx"),
        ("a/..", "file"),
        ("", "file"),
        ("x\ny.pdf", "file.pdf"),
        ("\u202efdp.exe", "file.exe"),
        ("n" * 300 + ".csv", "file.csv"),
        ("a/", "a"),
    ],
)
def test_names_in_containers(path: str, name: str) -> None:
    assert container_name(path) == name
