"""Fetch the libraries of ``report.html`` from npm and write them, with their licences, beside the page's own scripts.

Which ones, their versions and hashes are pinned in ``vendor.toml`` there. A clean checkout needs none of this: what it
writes is committed. ``python tools/vendor_page.py`` (or ``make vendor``) writes it again.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

HOME = Path(__file__).parents[1] / "agentv_sandbox/report/page/static/vendor"
_SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*\n?", re.MULTILINE)


def main() -> None:
    pinned = tomllib.loads((HOME / "vendor.toml").read_text("utf-8"))
    for name, library in pinned.items():
        files = package_files(f"{library['package']}@{library['version']}", library["integrity"])
        licence = files[library["licence"]]
        code = bundle(library, files)
        (HOME / f"{name}.js").write_text(code, "utf-8")
        (HOME / f"{name}.LICENSE").write_text(licence, "utf-8")
        written = hashlib.sha256(code.encode()).hexdigest()
        note = "" if written == library["sha256"] else f"; vendor.toml has another sha256 than {written}"
        print(f"{name}.js: {library['package']} {library['version']}, {len(code):,} characters{note}")


def package_files(package: str, integrity: str) -> dict[str, str]:
    """Text files of an npm package by their path in it. Raises SystemExit when it is not the pinned one."""
    with tempfile.TemporaryDirectory() as folder:
        argv = ["npm", "pack", "--silent", "--pack-destination", folder, package]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        (archive,) = Path(folder).glob("*.tgz")
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != integrity:
            raise SystemExit(f"{package} has the hash sha512-{digest}, and {integrity} is pinned")
        files: dict[str, str] = {}
        with tarfile.open(archive) as content:
            for member in content:
                stream = content.extractfile(member) if member.isfile() else None
                if stream is not None:
                    path = member.name.partition("/")[2]
                    files[path] = stream.read().decode("utf-8", "replace")
        return files


def bundle(library: Mapping[str, str | list[str]], files: Mapping[str, str]) -> str:
    """One classic script: a file as it is, or CommonJS modules behind the name of the first one's exports."""
    names = [str(name) for name in library["files"]]
    licence = files[str(library["licence"])].strip().replace("*/", "* /")
    about = f"/*! {library['package']} {library['version']}\n\n{licence}\n*/\n"
    if "name" not in library:
        (name,) = names
        return about + _SOURCE_MAP.sub("", files[name]).rstrip() + "\n"
    modules = "".join(
        f'"./{Path(name).name}": (exports, require, process) => {{\n{_SOURCE_MAP.sub("", files[name])}}},\n'
        for name in names
    )
    return f"""{about}const {library["name"]} = (() => {{
const modules = {{
{modules}}};
const loaded = new Map();
const require = (name) => {{
  if (!loaded.has(name)) {{
    const exports = {{}};
    loaded.set(name, exports);
    modules[name](exports, require, {{ env: {{ NODE_ENV: "production" }} }});
  }}
  return loaded.get(name);
}};
return require("./{Path(names[0]).name}");
}})();
"""


if __name__ == "__main__":
    main()
