"""Archives made to write outside of their folder, or to take more than there is."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.archives import untrusted_tar
from agentv_sandbox.archives.rooted import Attributes, Disk, RootedFolder
from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.containers.volumes import StagedFile, tar_stream
from agentv_sandbox.engines.native.images.store import ImageStore
from agentv_sandbox.engines.native.images.unpacking import unpack
from tests.engines.native.archives import Row, image, layer, member

FIRST = 700_000
MINE = Attributes(FIRST, FIRST, 0o644)


class Victim:
    """A folder of the host with one file, which nobody may touch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "file").write_bytes(b"host")
        (folder / "file").chmod(0o600)
        os.utime(folder / "file", (5, 5))
        os.utime(folder, (5, 5))

    def state(self) -> list[Any]:
        paths = [self.folder, *sorted(self.folder.rglob("*"))]
        stats = [path.lstat() for path in paths]
        return [
            (str(p), s.st_mode, s.st_uid, s.st_mtime, s.st_nlink) for p, s in zip(paths, stats, strict=True)
        ]


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return Victim(tmp_path / "victim")


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "store", first_id=FIRST)


ATTACKS: dict[str, list[list[Row]]] = {
    "a file below a link": [[("a", "-> {victim}"), ("a/file", b"attack")]],
    "a new file below a link": [[("a", "-> {victim}"), ("a/new", b"attack")]],
    "a folder below a link": [[("a", "-> {victim}"), ("a/new", "dir")]],
    "a folder where a link is": [[("a", "-> {victim}"), ("a", "dir"), ("a/new", b"")]],
    "a link in the next layer": [
        [("a", "dir"), ("a/file", b"")],
        [("a", "-> {victim}")],
        [("a/file", b"attack")],
    ],
    "a relative link": [[("a", "-> ../../../../../../../../{victim}"), ("a/file", b"attack")]],
    "a chain of links": [[("b", "-> {victim}"), ("a", "-> b"), ("a/file", b"attack")]],
    "a file where a link is": [[("a", "-> {victim}/file"), ("a", b"attack")]],
    "a file where a link is, by another name": [[("././a", "-> {victim}/file"), ("a", b"attack")]],
    "a folder where a link is, by another name": [
        [("a", "-> {victim}"), ("././a", "dir"), ("a/file", b"attack")]
    ],
    "a hard link to the host": [[("a", "=> {victim}/file"), ("a", b"attack")]],
    "a hard link over a link": [[("a", "-> {victim}"), ("b", "=> a/file")]],
    "a second name of a link": [[("a", "-> {victim}/file"), ("b", "=> a")]],
    "a hard link to a link": [[("a", "-> {victim}/file"), ("b", "=> a"), ("b", b"attack")]],
    "a name that climbs": [
        [("../../../../victim/file", b"attack")],
        [("a/../../../../../victim/file", b"attack")],
    ],
    "an absolute name": [[("{victim}/file", b"attack")]],
    "a whiteout below a link": [[("a", "-> {victim}")], [("a/.wh.file", b"")]],
    "a link to itself": [[("a", "=> a")]],
    "links in a circle": [[("a", "=> b"), ("b", "=> a")]],
    "nothing but dots": [[("..", "dir"), ("../..", "dir"), ("...", b""), ("./.", "dir")]],
    "a zero byte": [[("a\0b", b"x")]],
    "a long name": [[("n" * 5000, b"x")]],
    "a long link": [[("a", "-> " + "n" * 9000)]],
    "an empty link": [[("a", "-> ")]],
    "a file in a file": [[("a", b"x"), ("a/b", b"y")]],
    "a deep path": [[("d/" * 1000 + "f", b"x")]],
}
FIELDS: dict[str, dict[str, Any]] = {
    "a time that no file has": {"mtime": 2**62},
    "a negative time": {"mtime": -(2**62)},
    "numbers of nobody": {"uid": 2**40, "gid": -5},
    "mode bits beyond all": {"mode": 0o7777777},
    "an unknown kind": {"type": b"Z"},
}


def _filled(layers: list[list[Row]], victim: Victim) -> list[bytes]:
    def fill(what: bytes | str) -> Any:
        return what.replace("{victim}", str(victim.folder)) if isinstance(what, str) else what

    return [layer(*((fill(path), fill(what)) for path, what in rows)) for rows in layers]


@pytest.mark.parametrize("name", ATTACKS)
def test_no_image_reaches_the_host(name: str, store: ImageStore, victim: Victim, tmp_path: Path) -> None:
    before = victim.state()
    store_only = {"store", "victim"}
    try:
        root = store.rootfs(store.load(image(*_filled(ATTACKS[name], victim))))
    except EngineError as error:
        assert "\0" not in error.message and len(error.message) < 1000
        assert store.image("one:1") is None
    else:
        inside = root.stat().st_dev
        assert all(path.lstat().st_dev == inside for path in root.rglob("*"))
    assert victim.state() == before
    assert {path.name for path in tmp_path.iterdir()} == store_only
    assert list((tmp_path / "store/parts").iterdir()) == []


@pytest.mark.parametrize("name", FIELDS)
def test_fields_that_no_file_can_have_are_bounded_or_refused(name: str, store: ImageStore) -> None:
    rows = layer(member("a", b"x", **FIELDS[name]))
    try:
        root = store.rootfs(store.load(image(rows)))
    except EngineError:
        return
    made = (root / "a").stat()
    assert FIRST <= made.st_uid <= FIRST + 65535 and FIRST <= made.st_gid <= FIRST + 65535


def test_absolute_names_are_names_in_the_image(store: ImageStore) -> None:
    root = store.rootfs(store.load(image(layer(("/etc/agentv-store-test", b"x")))))
    assert (root / "etc/agentv-store-test").exists() and not Path("/etc/agentv-store-test").exists()


def test_files_with_holes_are_refused(store: ImageStore) -> None:
    info = tarfile.TarInfo("a")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
    with pytest.raises(EngineError, match="a file with holes"):
        store.load(image(layer((info, b"\0" * 512))))


def test_headers_and_members_are_bounded(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="a header of"):
        store.load(image(layer(("n" * (2 << 20), b"x"))))
    monkeypatch.setattr(untrusted_tar, "_MAX_MEMBERS", 100)
    with pytest.raises(EngineError, match="more than 100 members"):
        store.load(image(layer(*((f"f{n}", b"") for n in range(200)))))


def test_bytes_are_bounded(store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted_tar, "MAX_BYTES", 4 << 20)
    with pytest.raises(EngineError, match="holds more than"):
        store.load(image(layer(("a", bytes(5 << 20)))))
    assert list((tmp_path / "store/parts").iterdir()) == []


@pytest.mark.parametrize(
    "archive",
    [
        pytest.param(io.BytesIO(b""), id="nothing"),
        pytest.param(io.BytesIO(b"\xff" * 2000), id="noise"),
        pytest.param(io.BytesIO(image(layer(("a", b"x"))).getvalue()[:-9000]), id="cut"),
        pytest.param(image(), id="no layers"),
        pytest.param(image(layer(("a", b"")), diff_ids=["sha256:" + "0" * 64]), id="another layer"),
        pytest.param(image(layer(("a", b"")), config={"Env": 5}), id="variables that are a number"),
        pytest.param(image(layer(("a", b"")), config={"Labels": ["x"]}), id="labels in a list"),
        pytest.param(image(layer(("a", b"")), config={"Healthcheck": "x"}), id="a health check in words"),
        pytest.param(image(layer(("a", b"")), tags=["../../x"]), id="a tag that climbs"),
        pytest.param(image(layer(("a", b"")), tags=["a\nb"]), id="a tag of two lines"),
    ],
)
def test_what_is_not_an_image_is_refused(archive: io.BytesIO, store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(EngineError):
        store.load(archive)
    assert list((tmp_path / "store/parts").iterdir()) == list((tmp_path / "store/tags").iterdir()) == []
    assert list((tmp_path / "store/images").iterdir()) == []


@pytest.mark.parametrize(
    "ref", ["", "../x", "sha256:abc", "a@sha256:" + "0" * 64, "0" * 64, "x\0y", "a" * 500]
)
def test_names_that_there_are_not_are_not_there(ref: str, store: ImageStore) -> None:
    assert store.image(ref) is None
    store.remove(ref)
    for verb in (store.rootfs, lambda ref: next(store.save(ref))):
        with pytest.raises(EngineError, match="there is no image"):
            verb(ref)


# -- a builder's files ------------------------------------------------------------------------------
def test_a_committed_link_is_stored_and_not_followed(
    store: ImageStore, victim: Victim, tmp_path: Path
) -> None:
    store.load(image(layer(("etc", "dir"))))
    store.copy("one:1", tmp_path / "copy")
    (tmp_path / "copy/etc").rmdir()
    (tmp_path / "copy/etc").symlink_to(victim.folder)
    (tmp_path / "copy/file").symlink_to(victim.folder / "file")
    before = victim.state()
    with pytest.raises(EngineError, match="below something that is not a folder"):
        RootedFolder(tmp_path / "copy", Disk("x", "")).make_folder("etc/new", MINE)
    made = store.commit(tmp_path / "copy", tag="m:1", labels={}, based_on="one:1", mount_points=["etc/own"])
    assert b"host" not in b"".join(store.save(made)) and victim.state() == before


def test_folders_without_end_are_refused_and_removed(store: ImageStore, tmp_path: Path) -> None:
    store.load(image(layer(("a", b""))))
    copy = tmp_path / "copy"
    store.copy("one:1", copy)
    here = os.open(copy, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    with pytest.raises(EngineError, match="folders in one another"):
        store.commit(copy, tag="m:1", labels={}, based_on="one:1")
    assert list((tmp_path / "store/parts").iterdir()) == [] and not copy.exists()


# -- our own streams into volumes -------------------------------------------------------------------
def _unpacked(into: Path, *staged: StagedFile, uid: int = 0) -> None:
    unpack(tar_stream(staged, uid=uid), into, shift=FIRST)


def test_our_streams_are_unpacked_with_owners_and_modes(tmp_path: Path) -> None:
    _unpacked(
        tmp_path,
        StagedFile(path="a/b/run", data=b"x" * 3_000_000, mode=0o755),
        StagedFile(path=b"a/\xff\xfe", data=b"odd"),
        StagedFile(path="a/link", kind="symlink", link="b/run"),
        StagedFile(path="n" * 200 + "/" + "m" * 200, data=b"long"),
        StagedFile(path="closed", kind="dir", mode=0o700),
        uid=1000,
    )
    run = (tmp_path / "a/b/run").stat()
    assert (run.st_uid, run.st_gid, run.st_mode & 0o7777, run.st_size) == (
        FIRST + 1000,
        FIRST + 1000,
        0o755,
        3_000_000,
    )
    assert Path(os.fsdecode(bytes(tmp_path) + b"/a/\xff\xfe")).read_bytes() == b"odd"
    assert str((tmp_path / "a/link").readlink()) == "b/run"
    assert (tmp_path / ("n" * 200) / ("m" * 200)).read_bytes() == b"long"
    assert (tmp_path / "closed").stat().st_mode & 0o7777 == 0o711


def test_files_are_replaced_and_folders_kept(tmp_path: Path) -> None:
    _unpacked(tmp_path, StagedFile(path="a/x", data=b"old"), StagedFile(path="a/y", data=b"kept"))
    (tmp_path / "a/l").symlink_to(tmp_path / "a/y")
    _unpacked(tmp_path, StagedFile(path="a/x", data=b"new"), StagedFile(path="a/l", data=b"no link"), uid=3)
    assert [(tmp_path / "a" / name).read_bytes() for name in "xyl"] == [b"new", b"kept", b"no link"]
    assert (tmp_path / "a").stat().st_uid == FIRST + 3


def test_a_stream_does_not_go_through_a_link(tmp_path: Path, victim: Victim) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v/a").symlink_to(victim.folder)
    before = victim.state()
    for path in ("a/file", "a/new/file"):
        with pytest.raises(EngineError, match="below something that is not a folder"):
            _unpacked(tmp_path / "v", StagedFile(path=path, data=b"attack"))
    with pytest.raises(EngineError, match="is not a path below the folder"):
        _unpacked(tmp_path / "v", StagedFile(path="../victim/file", data=b"attack"))
    assert victim.state() == before


def test_a_stream_is_bounded_and_has_no_links_to_files(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="more than 10 bytes"):
        unpack(tar_stream([StagedFile(path="a", data=b"x" * 11)], uid=0), tmp_path, shift=0, max_bytes=10)
    with pytest.raises(EngineError, match="is not a folder, a file or a symbolic link"):
        unpack([layer(("a", b""), ("b", "=> a"))], tmp_path, shift=0)
    with pytest.raises(EngineError, match="cannot unpack files"):
        unpack([b"\xff" * 1000], tmp_path, shift=0)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    full = Disk("the disk of images", "make room")
    error = full.error("a", OSError(28, "No space left on device"))
    assert (error.message, error.hint) == ("the disk of images is full", "make room")
