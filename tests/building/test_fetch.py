"""The cache: nothing is in it that was not asked for by hash, and credentials go to their host alone."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.base.errors import BuildError, Cancelled
from agentv_sandbox.building.packages.install import unpacked_uv
from agentv_sandbox.fetching import fetch
from agentv_sandbox.fetching.credentials import Credentials, without_credentials
from agentv_sandbox.fetching.events import sentence
from agentv_sandbox.fetching.fetch import Cache
from agentv_sandbox.models.image import Artefact
from tests.building.mirrors import Anywhere, FileServer, serving

DATA = b"a package" * 1000


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as state:
        yield state


def artefact(url: str, data: bytes = DATA) -> Artefact:
    return Artefact(name="p", version="1", url=url, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def cache(tmp_path: Path, *urls: str, events: list[str] | None = None, cancelled: bool = False) -> Cache:
    def note(event: str, _values: Any) -> None:
        if events is not None:
            events.append(event)

    return Cache(tmp_path, Credentials(urls), origins=Anywhere(), on_event=note, cancelled=lambda: cancelled)


def test_a_file_is_fetched_once(server: FileServer, tmp_path: Path) -> None:
    server.files["/p.deb"] = DATA
    wanted = artefact(f"{server.url}/p.deb")
    with cache(tmp_path) as store:
        store.ensure([wanted, wanted], what="files")
        store.ensure([wanted], what="files")
        assert store.path(wanted.sha256).read_bytes() == DATA
    assert len(server.asked) == 1


def test_the_program_that_builds_sources_is_fetched_when_it_is_first_needed(
    server: FileServer, tmp_path: Path
) -> None:
    """Nothing else asks for it where a suite has source distributions and no wheels."""
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("uv-1.data/scripts/uv", b"program")
    server.files["/uv.whl"] = wheel.getvalue()
    wanted = artefact(f"{server.url}/uv.whl", wheel.getvalue())
    with cache(tmp_path) as store:
        for _ in range(2):
            assert unpacked_uv(store, wanted, tmp_path / "tools").read_bytes() == b"program"
    assert len(server.asked) == 1


def test_a_changed_byte_in_the_cache_is_not_used(server: FileServer, tmp_path: Path) -> None:
    server.files["/p.deb"] = DATA
    wanted = artefact(f"{server.url}/p.deb")
    events: list[str] = []
    with cache(tmp_path, events=events) as store:
        store.ensure([wanted], what="files")
        broken = bytearray(DATA)
        broken[100] ^= 1
        store.path(wanted.sha256).write_bytes(broken)
        store.ensure([wanted], what="files")
        assert store.path(wanted.sha256).read_bytes() == DATA
        store.path(wanted.sha256).write_bytes(broken)
        del server.files["/p.deb"]
        with pytest.raises(BuildError, match="404"):
            store.ensure([wanted], what="files")
        assert not store.path(wanted.sha256).exists()
    assert events.count("cache.corrupt") == 2


@pytest.mark.parametrize("served", [b"something else", DATA[:-1], DATA + b"x", b""])
def test_what_a_server_sends_instead_is_refused(server: FileServer, tmp_path: Path, served: bytes) -> None:
    server.files["/p.deb"] = served
    wanted = artefact(f"{server.url}/p.deb")
    with cache(tmp_path) as store, pytest.raises(BuildError, match=r"expected"):
        store.ensure([wanted], what="files")
    assert not list((tmp_path / "blobs").rglob("part-*"))


def test_passing_faults_are_retried_and_lasting_ones_named(server: FileServer, tmp_path: Path) -> None:
    server.files["/p.deb"] = DATA
    server.faults["/p.deb"] = [503]
    with cache(tmp_path) as store:
        store.ensure([artefact(f"{server.url}/p.deb")], what="files")
        with pytest.raises(BuildError, match=r"2 of 2 files of things(.|\n)*404"):
            store.ensure([artefact(f"{server.url}/{n}", f"{n}".encode()) for n in "ab"], what="things")


def test_an_absent_server_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with cache(tmp_path) as store, pytest.raises(BuildError) as caught:
        store.ensure([artefact("http://127.0.0.1:9/p.deb")], what="files")
    assert "ConnectError" in caught.value.message
    assert "network" in caught.value.hint


def test_cancelling_ends_a_download(server: FileServer, tmp_path: Path) -> None:
    server.files["/p.deb"] = DATA
    with cache(tmp_path, cancelled=True) as store, pytest.raises(Cancelled):
        store.ensure([artefact(f"{server.url}/p.deb")], what="files")


def test_files_of_this_host_are_taken_by_hash_too(tmp_path: Path) -> None:
    local = tmp_path / "local wheel.whl"
    local.write_bytes(DATA)
    wanted = artefact(local.as_uri())
    with cache(tmp_path) as store:
        store.ensure([wanted], what="files")
        assert store.path(wanted.sha256).read_bytes() == DATA


def test_credentials_go_to_their_host_and_nowhere_else(server: FileServer, tmp_path: Path) -> None:
    token = base64.b64encode(b"me:s3cret").decode()
    server.user = f"Basic {token}"
    server.files["/p.deb"] = DATA
    with serving() as other:
        other.files["/q.deb"] = b"other"
        with cache(tmp_path, server.url.replace("//", "//me:s3cret@")) as store:
            store.ensure([artefact(f"{server.url}/p.deb")], what="files")
            store.ensure([artefact(f"{other.url}/q.deb", b"other")], what="files")
            with pytest.raises(BuildError) as caught:
                store.ensure(
                    [artefact(f"{server.url}/gone".replace("//", "//me:s3cret@"), b"x")], what="files"
                )
        assert other.asked == [("/q.deb", "")]
    assert "s3cret" not in str(caught.value)


def test_user_info_is_taken_out_of_addresses() -> None:
    assert without_credentials("https://me:a%40b@host:8443/x?y=1") == "https://host:8443/x?y=1"
    assert without_credentials("https://host/x@2") == "https://host/x@2"


def test_npm_integrity_is_checked(server: FileServer, tmp_path: Path) -> None:
    server.files["/p.tgz"] = DATA
    good = "sha512-" + base64.b64encode(hashlib.sha512(DATA).digest()).decode()
    weak_right = "sha1-" + base64.b64encode(hashlib.sha1(DATA).digest()).decode()
    with cache(tmp_path) as store:
        sha256, size = store.adopt(f"{server.url}/p.tgz", good)
        assert (sha256, size) == (hashlib.sha256(DATA).hexdigest(), len(DATA))
        bad = "sha512-" + base64.b64encode(bytes(64)).decode()
        with pytest.raises(BuildError, match="wrong sha512"):
            store.adopt(f"{server.url}/p.tgz", f"{bad} {weak_right}")


def test_a_large_fetch_says_what_makes_it_large(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "LARGE_FETCH_BYTES", 20_000)
    told: list[str] = []
    wanted = []
    for name, size in (("torch", 15_000), ("nvidia-cudnn-cu12", 30_000), ("six", 10)):
        data = name.encode() * size
        server.files[f"/{name}.whl"] = data
        # The index of one of them says no size: the server does.
        known = artefact(f"{server.url}/{name}.whl", data)
        wanted.append(replace(known, name=name, size=0 if name == "torch" else known.size))
    with Cache(
        tmp_path,
        Credentials([]),
        origins=Anywhere(),
        on_event=lambda event, values: told.append(sentence(event, values)),
        cancelled=lambda: False,
    ) as store:
        store.ensure(wanted, what="wheels")
        store.ensure(wanted, what="wheels")
    assert told[0] == "fetching 3 files of wheels, 585 kB"
    assert told[1].startswith("this is a large fetch, most of it nvidia-cudnn-cu12, torch, six; it is kept")
    assert "{pip: {torch: torch==VERSION+cpu}}" in told[1]
    assert len(told) == 3
