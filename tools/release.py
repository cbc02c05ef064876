"""Write a release into a folder, ``dist``, and check it: ``python tools/release.py [FOLDER]`` (``make release``).

The folder gets the wheel, a CycloneDX bill of materials of what it is tested with and carries, and the sums of both.
The wheel is built twice, from two clones of what is committed, and both must be equal byte by byte. Then it is
installed where no checkout is, by pip and by uv, and has to run the example suite there.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import uuid
import zipfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot5
from packageurl import PackageURL
from packaging.requirements import Requirement
from trove_classifiers import classifiers as known_classifiers

ROOT = Path(__file__).parents[1]
PACKAGE = "agentv_sandbox"
_LOCK = ROOT / "tools/locks/run.txt"
_VENDORED = ROOT / PACKAGE / "report/page/static/vendor/vendor.toml"
_ENTRY_POINTS = {
    "console_scripts": "agentv-sandbox = agentv_sandbox.cli:main",
    "inspect_ai": "agentv_sandbox = agentv_sandbox.plugins.inspect_sandbox",
    "pytest11": "agentv_sandbox = agentv_sandbox.plugins.pytest_plugin",
}
_INDEXES = re.compile(r"pypi\.org|pythonhosted|--(?:extra-)?index-url|pip install agentv|uvx agentv")
"""What would send a reader to an index, where the project is not published yet."""


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist").absolute()
    if left := output(["git", "status", "--porcelain"], ROOT):
        raise SystemExit(f"a release is made of what is committed; this is not:\n{left}")
    with tempfile.TemporaryDirectory() as temporary:
        wheel = reproduced(Path(temporary))
        if problems := list(wheel_problems(wheel)):
            raise SystemExit("\n".join(["the wheel is not what a release is:", *problems]))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        wheel = Path(shutil.copy(wheel, folder))
    bill = write_bill(wheel)
    sums = "".join(f"{digest(path)}  {path.name}\n" for path in (wheel, bill))
    (folder / "SHA256SUMS").write_text(sums)
    print(sums, end="")
    with tempfile.TemporaryDirectory() as temporary:
        run_installed(wheel, Path(temporary))


def output(argv: Sequence[str | Path], cwd: Path, **variables: str) -> str:
    """Standard output of a command. Raises SystemExit, with all that it printed, where it fails."""
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=environment | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        command = " ".join(map(str, argv))
        raise SystemExit(f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(source: Path, folder: Path, **variables: str) -> Path:
    """The wheel of ``source``, in ``folder``."""
    output(
        [sys.executable, "-I", "-m", "hatchling", "build", "-t", "wheel", "-d", folder], source, **variables
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def reproduced(folder: Path) -> Path:
    """A wheel of what is committed, of which a second build gave the same bytes. Raises SystemExit."""
    wheels = []
    for name, zone in (("one", "UTC"), ("two/elsewhere", "Asia/Tokyo")):
        output(["git", "clone", "-q", "--no-hardlinks", ROOT, folder / name], folder)
        wheels.append(build(folder / name, folder / name / "dist", TZ=zone))
    first, second = (wheel.read_bytes() for wheel in wheels)
    if first != second:
        raise SystemExit("two builds of one commit differ: the wheel is not reproducible")
    return wheels[0]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# -- what is in it ------------------------------------------------------------------------------------------


def sources() -> set[str]:
    """Files of the package, by their names in a wheel; its links lead to other folders of the repository."""
    names = set()
    for link in ("", *_links()):
        place = (ROOT / link).resolve() if link else ROOT / PACKAGE
        listed = output(["git", "ls-files", "-z", "--", place], ROOT).split("\0")
        for name in filter(None, listed):
            if (ROOT / name).is_symlink():
                continue
            inside = (ROOT / name).relative_to(place)
            names.add(str(Path(link or PACKAGE) / inside))
    return names


def _links() -> list[str]:
    listed = output(["git", "ls-files", "-z", "--", PACKAGE], ROOT).split("\0")
    return [name for name in listed if name and (ROOT / name).is_symlink()]


def wheel_problems(wheel: Path) -> Iterator[str]:
    """What a wheel lacks, or has too much, in sentences."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        note = next(name.partition("/")[0] for name in names if ".dist-info/" in name)
        packed = {name for name in names if not name.startswith(f"{note}/")}
        yield from (f"{name} is not in the wheel" for name in sorted(sources() - packed))
        yield from (f"{name} is not a file of the repository" for name in sorted(packed - sources()))
        for name in sorted(names):
            if str(ROOT).encode() in archive.read(name):
                yield f"{name} holds the path {ROOT} of this machine"
        about = BytesParser().parsebytes(archive.read(f"{note}/METADATA"))
        entries = archive.read(f"{note}/entry_points.txt").decode()
        licences = [archive.read(name).decode() for name in names if name.startswith(f"{note}/licenses/")]
    yield from _metadata_problems(about)
    for group, entry in _ENTRY_POINTS.items():
        if f"[{group}]\n{entry}\n" not in entries + "\n":
            yield f"the entry point {entry!r} of {group} is missing"
    for text in ("Apache License", *_vendored_licences()):
        if not any(text in licence for licence in licences):
            yield f"no licence file of the wheel has: {text.splitlines()[0]}"


def _vendored_licences() -> list[str]:
    return [path.read_text("utf-8").strip() for path in sorted(_VENDORED.parent.glob("*.LICENSE"))]


def _metadata_problems(about: Message) -> Iterator[str]:
    for key in (
        "Name",
        "Version",
        "Summary",
        "Requires-Python",
        "License-Expression",
        "Description-Content-Type",
    ):
        if not about[key]:
            yield f"the metadata has no {key}"
    classifiers = about.get_all("Classifier", [])
    yield from (f"{name!r} is not a classifier" for name in classifiers if name not in known_classifiers)
    if "Typing :: Typed" not in classifiers:
        yield "nothing says that the package is typed"
    if found := _INDEXES.search(str(about.get_payload())):
        yield f"README.md names an index: {found.group()}"


# -- what it is made of -------------------------------------------------------------------------------------


def write_bill(wheel: Path) -> Path:
    """``NAME.cdx.json`` beside the wheel: what it is tested with, by its lock, and the libraries in it. The same wheel
    and lock give the same file."""
    name, version = wheel.name.split("-")[:2]
    bom = Bom()
    bom.metadata.component = _component("pypi", name.replace("_", "-"), version, [digest(wheel)])
    bom.metadata.timestamp = datetime.fromtimestamp(0, UTC)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, digest(wheel) + digest(_LOCK))
    for component in (*_locked(), *_vendored()):
        bom.components.add(component)
    bom.register_dependency(bom.metadata.component, bom.components)
    path = wheel.with_name(f"{name}-{version}.cdx.json")
    path.write_text(JsonV1Dot5(bom).output_as_string(indent=1) + "\n", encoding="utf-8")
    return path


def _locked() -> Iterator[Component]:
    """Packages of the lock file; one has the hashes of all files in which it is published."""
    text = re.sub(r"^#.*\n", "", _LOCK.read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    for line in filter(None, map(str.strip, text.split("\n"))):
        wanted, *hashes = re.split(r"\s+--hash=sha256:", line)
        requirement = Requirement(wanted)
        (pin,) = requirement.specifier
        yield _component("pypi", requirement.name, pin.version, hashes)


def _vendored() -> Iterator[Component]:
    for library in tomllib.loads(_VENDORED.read_text("utf-8")).values():
        scope, _, name = library["package"].rpartition("/")
        yield _component("npm", name, library["version"], [library["sha256"]], scope or None)


def _component(
    kind: str, name: str, version: str, hashes: Sequence[str], scope: str | None = None
) -> Component:
    purl = PackageURL(kind, scope, name, version)
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        purl=purl,
        bom_ref=str(purl),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=value) for value in hashes],
    )


# -- whether it works ---------------------------------------------------------------------------------------


def run_installed(wheel: Path, folder: Path) -> None:
    """Install it into an environment of its own, without the checkout in sight, and use it. Raises SystemExit."""
    output([sys.executable, "-I", "-m", "venv", folder / "venv"], folder)
    programs = folder / "venv/bin"
    print("installing the wheel with its extras for Inspect and pytest")
    output([programs / "pip", "install", "--quiet", f"{wheel}[inspect,pytest]"], folder)
    place = output([programs / "python", "-I", "-c", f"import {PACKAGE}; print({PACKAGE}.__file__)"], folder)
    if not place.startswith(str(folder)):
        raise SystemExit(f"the installed package was not used, but {place}")
    command = programs / "agentv-sandbox"
    print(output([command, "--version"], folder), end="")
    shutil.copytree(ROOT / "examples/quarterly-report", folder / "demo", symlinks=True)
    for arguments in (["validate", "demo"], ["run", "demo", "--output", "results"]):
        said = output([command, *arguments], folder)
        print(f"agentv-sandbox {' '.join(arguments)}: {said.strip().splitlines()[-1]}")
    output([Path(sys.executable).with_name("uvx"), "--from", wheel, "agentv-sandbox", "doctor"], folder)
    print("uvx --from WHEEL agentv-sandbox doctor: ready")


if __name__ == "__main__":
    main()
