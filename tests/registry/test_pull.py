"""The native engine pulls by itself: what is fixed, what is refused, who is told a password."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import stat
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard

from agentv_sandbox.base.errors import Cancelled, EngineError
from agentv_sandbox.building.packages.deb import deb_tar
from agentv_sandbox.building.packages.opening import open_cache
from agentv_sandbox.building.store import list_images, stay_within
from agentv_sandbox.cli.inputs import cache_dir
from agentv_sandbox.engines import ContainerEngine
from agentv_sandbox.engines.native.engine import NativeEngine
from agentv_sandbox.fetching.mirror import load_index
from agentv_sandbox.fetching.pipconf import read_pip_settings
from agentv_sandbox.models.container import ImageInfo
from agentv_sandbox.models.image import ImageConfig
from agentv_sandbox.registry import parse_reference
from tests.building.registry import Registry, registry, tiny_image
from tests.harness.processes import DISK
from tests.llm.test_environment import certificate

pytestmark = [pytest.mark.engine, pytest.mark.native, pytest.mark.xdist_group("native registry")]
PASSWORD = "passwordThatMustNotLeak"
_BCRYPT = "$2b$05$abcdefghijklmnopqrstuuTfLd88fckiQBcqVFSbflzAPtQuUY5vq"


@pytest.fixture
def pulling() -> Iterator[ContainerEngine]:
    """An engine with an image store of its own."""
    with tempfile.TemporaryDirectory(prefix="agentv-pulls-", dir=os.environ.get(DISK, "/var/tmp")) as folder:
        Path(folder).chmod(0o711)
        engine = NativeEngine(f"native://{folder}/state")
        yield engine
        engine.release()


def state_of(engine: ContainerEngine) -> Path:
    return Path(engine.address.removeprefix("native://"))


@pytest.fixture(autouse=True)
def logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "docker"
    folder.mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    return folder / "config.json"


def log_in(config: Path, host: str, password: str = PASSWORD) -> None:
    auth = base64.b64encode(f"me:{password}".encode()).decode()
    config.write_text(json.dumps({"auths": {host: {"auth": auth}}}))


def pulled(engine: ContainerEngine, ref: str, *, timeout_s: float = 30) -> ImageInfo:
    assert engine.puller is not None
    return engine.puller.pull(ref, timeout_s=timeout_s)


def hello(engine: ContainerEngine, ref: str) -> str:
    saved = io.BytesIO(b"".join(engine.save_image(ref)))
    with (
        tarfile.open(fileobj=saved) as archive,
        tarfile.open(fileobj=archive.extractfile("layer.tar")) as layer,
    ):
        file = layer.extractfile("hello.txt")
        assert file is not None
        return file.read().decode()


def test_an_image_is_pulled_by_tag_and_by_digest(pulling: ContainerEngine) -> None:
    with registry() as hub:
        digest = hub.add("team/base", "1", *tiny_image("one"))
        by_tag = pulled(pulling, f"{hub.host}/team/base:1")
        assert by_tag.labels == {"text": "one"} and by_tag.digests == (f"{hub.host}/team/base@{digest}",)
        hub.add("team/base", "1", *tiny_image("two"))
        assert pulled(pulling, f"{hub.host}/team/base@{digest}").id == by_tag.id
        assert pulled(pulling, f"{hub.host}/team/base:1").labels == {"text": "two"}
        host = hub.host
    named = pulling.image(f"{host}/team/base@{digest}")  # without the registry
    assert named is not None and named.id == by_tag.id
    assert hello(pulling, f"{host}/team/base:1") == "two"


def test_what_was_pulled_is_listed_and_goes_when_it_was_not_used(
    pulling: ContainerEngine, tmp_path: Path
) -> None:
    with registry() as hub:
        hub.add("team/base", "1", *tiny_image("one"))
        info = pulled(pulling, f"{hub.host}/team/base:1")
        name = f"{hub.host}/team/base:1"
    [listed] = [image for image in list_images(pulling, tmp_path) if image.tag == name]
    assert (listed.kind, listed.id, listed.last_used) == ("pulled", info.id, None)
    assert stay_within(pulling, tmp_path, 0) == (0, 0)  # nobody knows when it was used
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / info.id.removeprefix("sha256:")).touch()
    assert stay_within(pulling, tmp_path, listed.own_bytes) == (0, 0)
    assert stay_within(pulling, tmp_path, listed.own_bytes - 1) == (1, listed.own_bytes)
    assert pulling.image(name) is None


@pytest.mark.parametrize("bearer", [False, True])
def test_the_login_of_docker_is_used(
    pulling: ContainerEngine, logins: Path, bearer: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    with registry() as hub:
        hub.login, hub.bearer = ("me", PASSWORD), bearer
        hub.add("team/base", "1", *tiny_image("one"))
        with pytest.raises(EngineError, match=r"cannot pull .*unauthorized") as caught:
            pulled(pulling, f"{hub.host}/team/base:1")
        assert "docker login" in caught.value.hint
        log_in(logins, hub.host, "wrong")
        with pytest.raises(EngineError, match="unauthorized"):
            pulled(pulling, f"{hub.host}/team/base:1")
        log_in(logins, hub.host)
        assert pulled(pulling, f"{hub.host}/team/base:1").labels == {"text": "one"}
    assert PASSWORD not in "".join(capfd.readouterr())


def test_credential_helpers_are_asked(
    pulling: ContainerEngine, logins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "bin" / "docker-credential-test"
    helper.parent.mkdir()
    helper.write_text(
        f"""#!/bin/sh\ncat > /dev/null\necho '{{"Username": "me", "Secret": "{PASSWORD}"}}'\n"""
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:{os.environ['PATH']}")
    with registry() as hub:
        hub.login = ("me", PASSWORD)
        hub.add("team/base", "1", *tiny_image("one"))
        logins.write_text(json.dumps({"credHelpers": {hub.host: "test"}}))
        assert pulled(pulling, f"{hub.host}/team/base:1").labels == {"text": "one"}
        logins.write_text(json.dumps({"credsStore": "missing"}))
        with pytest.raises(EngineError, match=r"the login of .* cannot be read"):
            pulled(pulling, f"{hub.host}/team/base:1")


def changed(hub: Registry, change: Mapping[str, Any]) -> None:
    """The manifest of the one image with other values."""
    for key, raw in list(hub.manifests.items()):
        hub.manifests[key] = json.dumps({**json.loads(raw), **change}).encode()


def replaced_layer(hub: Registry, data: bytes, *, keeps_digest: bool = False) -> None:
    """``data`` in the place of the layer."""
    manifest = json.loads(hub.manifests["team/base", "1"])
    digest = manifest["layers"][0]["digest"] if keeps_digest else f"sha256:{hashlib.sha256(data).hexdigest()}"
    hub.blobs[digest] = data
    changed(hub, {"layers": [{"digest": digest, "size": len(data)}]})


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed_layers_are_read(pulling: ContainerEngine, pack: Any) -> None:
    with registry() as hub:
        layers, config = tiny_image("one")
        hub.add("team/base", "1", layers, config)
        replaced_layer(hub, pack(layers[0]))
        pulled(pulling, f"{hub.host}/team/base:1")
        assert hello(pulling, f"{hub.host}/team/base:1") == "one"


def test_wrong_bytes_are_refused_and_nothing_is_left(pulling: ContainerEngine) -> None:
    with registry() as hub:
        ref = f"{hub.host}/team/base:1"

        def refused(says: str) -> None:
            with pytest.raises(EngineError, match=says):
                pulled(pulling, ref)
            assert pulling.image(ref) is None

        layers, config = tiny_image("one")
        hub.add("team/base", "1", layers, config)
        other = tiny_image("two")[0][0]
        replaced_layer(hub, other, keeps_digest=True)
        refused("verification failed")
        replaced_layer(hub, other)  # its digest is right, and the image says something else
        refused("not the one that the image names")
        changed(hub, {"layers": [{"digest": "sha256:../../x", "size": 1}]})
        refused("in an unknown way")
        changed(hub, {"layers": [{"digest": "sha256:" + "0" * 64, "size": 1 << 60}]})
        refused("without a size")
        changed(hub, {"layers": [{"digest": "sha256:" + "0" * 64, "size": 60 << 30}]})
        refused("for which the disk has no room")
        digest = hub.add("team/base", "2", layers, config)
        hub.manifests["team/base", digest] = b'{"schemaVersion": 2}'
        ref = f"{hub.host}/team/base@{digest}"
        refused("verification failed")
    assert not list((state_of(pulling) / "parts").iterdir())


def test_a_layer_that_leads_out_of_the_image_stays_inside(pulling: ContainerEngine, tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        link = tarfile.TarInfo("way")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        tar.addfile(link)
        for name in ("way/planted", "../planted"):
            info = tarfile.TarInfo(name)
            info.size = 4
            tar.addfile(info, io.BytesIO(b"evil"))
    with registry() as hub:
        hub.add("team/base", "1", [out.getvalue()], tiny_image("x")[1])
        with pytest.raises(EngineError):
            pulled(pulling, f"{hub.host}/team/base:1")
    assert not (tmp_path / "planted").exists() and not list(tmp_path.rglob("planted"))


def test_an_index_gives_the_image_of_this_machine(pulling: ContainerEngine) -> None:
    with registry() as hub:
        digest = hub.add("team/base", "1", *tiny_image("one"))
        rows = [
            {"digest": "sha256:" + "1" * 64, "size": 1, "platform": {"os": "linux", "architecture": "s390x"}},
            {
                "digest": digest,
                "size": 1,
                "platform": {"os": "linux", "architecture": pulling.info().architecture},
            },
        ]
        hub.manifests["team/base", "1"] = json.dumps({"schemaVersion": 2, "manifests": rows}).encode()
        assert pulled(pulling, f"{hub.host}/team/base:1").labels == {"text": "one"}
        hub.manifests["team/base", "1"] = json.dumps({"schemaVersion": 2, "manifests": rows[:1]}).encode()
        with pytest.raises(EngineError, match="there is no image for linux/"):
            pulled(pulling, f"{hub.host}/team/base:1")


def test_nobody_waits_for_a_registry_that_says_nothing(pulling: ContainerEngine) -> None:
    with registry() as hub:
        hub.add("team/base", "1", *tiny_image("one"))
        hub.stalls = {"/manifests/"}
        started = time.monotonic()
        with pytest.raises(EngineError, match="no answer from the registry"):
            pulled(
                pulling, f"{hub.host}/team/base:1", timeout_s=2
            )  # of which a busy machine takes most to connect
        assert time.monotonic() - started < 20
        hub.stalls = set()
        assert pulling.puller is not None
        with pytest.raises(Cancelled):
            pulling.puller.pull(f"{hub.host}/team/base:1", timeout_s=30, cancelled=lambda: True)


@pytest.mark.parametrize(
    ("name", "registry", "repository", "wanted"),
    [
        ("debian", "docker.io", "library/debian", "latest"),
        ("debian:12-slim", "docker.io", "library/debian", "12-slim"),
        ("team/tool:1", "docker.io", "team/tool", "1"),
        ("localhost/tool", "localhost", "tool", "latest"),
        ("ghcr.io/a/b/c:v1", "ghcr.io", "a/b/c", "v1"),
        ("host:5000/x@sha256:" + "a" * 64, "host:5000", "x", "sha256:" + "a" * 64),
    ],
)
def test_names_are_dockers(name: str, registry: str, repository: str, wanted: str) -> None:
    known = parse_reference(name)
    assert (known.registry, known.repository, known.wanted) == (registry, repository, wanted)


@pytest.mark.parametrize(
    "name", ["", "UPPER", "a/../b", "a b", "x@sha256:12", "http://x/y", "x:" + "y" * 300, "-x"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(EngineError, match="is not the name of an image"):
        parse_reference(name)


# -- Debian's own registry --------------------------------------------------------------------------------
@contextmanager
def debian_registry(folder: Path, program: Path) -> Iterator[tuple[str, httpx.Client]]:
    """Debian's docker-registry with TLS and a password: its address, and a client that may push."""
    pem = certificate(folder)
    (folder / "htpasswd").write_text(f"me:{_BCRYPT}\n")
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": "127.0.0.1:0", "tls": {"certificate": str(pem), "key": str(pem)}},
        "auth": {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}},
        "log": {"level": "info"},
    }
    (folder / "config.yml").write_text(json.dumps(config))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, "serve", folder / "config.yml"], stdout=log, stderr=log)
    try:
        host = _address(folder / "log", process)
        with httpx.Client(base_url=f"https://{host}", auth=("me", PASSWORD), verify=str(pem)) as client:
            yield host, client
    finally:
        process.kill()
        process.wait()


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    """Where it listens, which it prints."""
    for _ in range(500):
        text = log.read_text()
        if "listening on " in text:
            return text.partition("listening on ")[2].split('"')[0].split(",")[0].strip()
        assert process.poll() is None, text
        time.sleep(0.02)
    raise AssertionError(log.read_text())


def push(client: httpx.Client, repository: str, tag: str) -> str:
    layers, config = tiny_image("from Debian's registry")
    layer = gzip.compress(layers[0])
    diff = f"sha256:{hashlib.sha256(layers[0]).hexdigest()}"
    raw = json.dumps({**config, "rootfs": {"type": "layers", "diff_ids": [diff]}}).encode()
    rows = []
    for data in (raw, layer):
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        place = client.post(f"/v2/{repository}/blobs/uploads/").headers["Location"]
        client.put(
            place, params={**httpx.URL(place).params, "digest": digest}, content=data
        ).raise_for_status()
        rows.append({"digest": digest, "size": len(data)})
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    rows[0]["mediaType"] = "application/vnd.docker.container.image.v1+json"
    rows[1]["mediaType"] = "application/vnd.docker.image.rootfs.diff.tar.gzip"
    manifest = {"schemaVersion": 2, "mediaType": kind, "config": rows[0], "layers": rows[1:]}
    answer = client.put(
        f"/v2/{repository}/manifests/{tag}", content=json.dumps(manifest), headers={"Content-Type": kind}
    )
    answer.raise_for_status()
    return answer.headers["Docker-Content-Digest"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian's docker-registry, kept in the cache of fetched files."""
    config = ImageConfig(release="bookworm")
    target = tmp_path_factory.mktemp("registry") / "docker-registry"
    nothing = lambda *_: None  # noqa: E731
    with open_cache(
        config, read_pip_settings(), cache_dir(), on_event=nothing, cancelled=lambda: False
    ) as cache:
        index = load_index(cache, config, architecture="amd64", on_event=nothing)
        package = index.packages.newest("docker-registry")
        assert package is not None
        deb = package.artefact()
        cache.ensure([deb], what="docker-registry")
        with tarfile.open(fileobj=deb_tar(cache.path(deb.sha256), "data")) as tar:
            file = tar.extractfile("./usr/bin/docker-registry")
            assert file is not None
            target.write_bytes(file.read())
    target.chmod(stat.S_IRWXU)
    return target


def test_debians_registry_gives_an_image_over_tls_to_who_has_the_password(
    pulling: ContainerEngine, program: Path, tmp_path: Path, logins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "registry"
    folder.mkdir()
    with debian_registry(folder, program) as (host, client):
        digest = push(client, "team/base", "1")
        ref = f"{host}/team/base:1"
        with pytest.raises(EngineError, match=r"cannot pull .*certificate"):
            pulled(pulling, ref)
        monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
        with pytest.raises(EngineError, match="unauthorized"):
            pulled(pulling, ref)
        log_in(logins, host)
        info = pulled(pulling, ref)
        assert info.digests == (f"{host}/team/base@{digest}",)
        pulling.remove_image(info.id)
        assert pulled(pulling, f"{host}/team/base@{digest}").id == info.id
    assert hello(pulling, f"{host}/team/base@{digest}") == "from Debian's registry"
