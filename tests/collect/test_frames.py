"""The record stream, cut anywhere, and streams that are not what the collector prints."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import pytest

from agentv_sandbox.containers.blobs import BlobStore
from agentv_sandbox.models.case import FileEntry
from agentv_sandbox.models.content import Blob
from agentv_sandbox.workspace.collect.frames import BrokenStreamError, FrameReader, Space

ROOT = "/workspace"


def record(kind: str, value: object = None, *, raw: bytes | None = None) -> bytes:
    data = json.dumps(value).encode() if raw is None else raw
    return kind.encode() + struct.pack(">I", len(data)) + data


def start(path: str = "a") -> bytes:
    return record("F", {"r": ROOT, "p": path, "m": 0o644})


END = record("E", {"why": ""})
DONE = record("Z", {"files": 1, "bytes": 1, "space": {ROOT: [4096, 0, 10, 3]}, "closed": []})


def reader(folder: Path) -> FrameReader:
    known = {b"same": FileEntry(path=b"same", kind="file", sha256="b" * 64, size=9)}
    return FrameReader(BlobStore(folder), {ROOT: known})


def test_any_cut_gives_the_same(tmp_path: Path) -> None:
    content = bytes(200_000) + random.Random(1).randbytes(100_000)
    stream = (
        start("odd\udcff\n")
        + b"".join(record("C", raw=content[n : n + 70_000]) for n in range(0, len(content), 70_000))
        + END
        + record("S", {"r": ROOT, "p": "same", "m": 0o755})
        + record("L", {"r": ROOT, "p": "l", "t": "/etc/passwd"})
        + record("X", {"r": ROOT, "p": "p", "why": "named pipe", "n": 1})
        + DONE
    )
    for seed in range(5):
        rng = random.Random(seed)
        got = reader(tmp_path)
        rest = stream
        while rest:
            n = rng.choice([1, 3, 7, 1000, 65536])
            got.feed(rest[:n])
            rest = rest[n:]
        got.close()
        assert got.complete
        assert got.space == {ROOT: Space(size_bytes=4096, free_bytes=0, inodes=10, free_inodes=3)}
        found = got.roots[ROOT]
        assert set(found) == {b"odd\xff\n", b"same", b"l"}
        odd = found[b"odd\xff\n"]
        assert BlobStore(tmp_path).read(Blob(sha256=odd.sha256, size=odd.size)) == content
        assert found[b"same"].mode == 0o755
        assert found[b"l"].link == b"/etc/passwd"
        assert got.skipped.listed()[0].reason == "named pipe"
    assert [p.name for p in (tmp_path / "sha256").iterdir()] == [odd.sha256]


@pytest.mark.parametrize(
    "stream",
    [
        record("C", raw=b"x"),
        END,
        start() + start(),
        start("../x"),
        start("/x"),
        start("a//b"),
        start(""),
        record("?", {"r": ROOT, "p": "x"}),
        DONE + DONE,
        b"F" + struct.pack(">I", 1 << 30),
    ],
)
def test_a_broken_stream_is_an_error(stream: bytes, tmp_path: Path) -> None:
    got = reader(tmp_path)
    with pytest.raises(BrokenStreamError):
        got.feed(stream)
    got.close()
    assert not list((tmp_path / "sha256").iterdir())


def test_a_stream_that_stops_within_a_file_keeps_nothing_of_it(tmp_path: Path) -> None:
    got = reader(tmp_path)
    got.feed(start("same") + record("C", raw=b"half"))
    got.close()
    assert not got.complete
    assert not list((tmp_path / "sha256").iterdir())
    assert got.skipped.listed()[0].reason == "collection ended within this file"
    assert got.unseen == {b"same"}


def test_what_is_not_known_any_more_is_remembered(tmp_path: Path) -> None:
    got = FrameReader(
        BlobStore(tmp_path),
        {
            ROOT: {
                path: FileEntry(path=path, kind="file", sha256="b" * 64, size=9) for path in (b"a/b/c", b"d")
            }
        },
    )
    for path in (".", "a/b", "a/b/c", "a/b/c/d", "a/", "e", "d"):
        got.feed(record("X", {"r": ROOT, "p": path, "why": "too large", "n": 1}))
    assert got.unseen == {b".", b"a/b", b"a/b/c", b"d"}


def test_many_left_out_paths_are_counted(tmp_path: Path) -> None:
    got = reader(tmp_path)
    for n in range(5000):
        got.feed(record("X", {"r": ROOT, "p": f"p{n}", "why": "named pipe", "n": 1}))
    rows = got.skipped.listed()
    assert len(rows) == 101
    assert rows[-1].path == "… 4900 more"
    got.feed(record("X", {"r": ROOT, "p": "deep", "why": "deeper than 128", "n": 2}))
    assert got.skipped.listed()[100].reason == "2 files left out: deeper than 128"


def test_stored_files_carry_nothing_of_the_agent(tmp_path: Path) -> None:
    got = reader(tmp_path)
    got.feed(record("F", {"r": ROOT, "p": "run.sh", "m": 0o4755}) + record("C", raw=b"x") + END)
    (stored,) = (tmp_path / "sha256").iterdir()
    assert stored.stat().st_mode & 0o7777 == 0o644
    assert len(stored.name) == 64
