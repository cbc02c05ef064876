"""What of a run travels to its workers, and what of it cannot."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from agentv_sandbox.base.errors import InputError, Problem
from agentv_sandbox.building.lock import LOCK_NAME
from agentv_sandbox.containers.blobs import BlobStore
from agentv_sandbox.containers.volumes import StagedFile
from agentv_sandbox.loading import LoadResult
from agentv_sandbox.models.content import Blob
from agentv_sandbox.models.suite import Suite
from agentv_sandbox.project import Project
from agentv_sandbox.request import RunRequest
from agentv_sandbox.request.asked import given
from agentv_sandbox.request.clusteraddress import ClusterAddress
from agentv_sandbox.request.travel import KnownSecrets, ParcelFile, RunParcel
from agentv_sandbox.runs.checks import secret_values
from agentv_sandbox.runs.prepare import Prepared
from agentv_sandbox.workspace.kept import copied
from agentv_sandbox.workspace.template import template_files

MOST_BYTES = 2 << 30
"""Of all that travels to a worker."""


def refusals(address: ClusterAddress, prepared: Prepared) -> list[Problem]:
    """Why what is asked cannot be done by the workers at ``address``."""
    refused = [
        Problem(field=option.name, message=option.cluster.says, hint=option.cluster.hint)
        for _, option, _ in given(prepared.request)
        if option.cluster.state == "refused" and (option.cluster.local_too or not address.local)
    ]
    return [*refused, *_refused_suites(prepared.loaded)]


def _refused_suites(loaded: LoadResult) -> Iterator[Problem]:
    for suite in loaded.suites:
        targets = suite.targets_path
        if targets is not None and not targets.is_relative_to(suite.project_root):
            message = f"its targets stand in {targets}, outside of the project, and do not travel to workers"
            yield Problem(path=suite.path, message=message, hint="Move the file into the project.")
        spaces = {id(s): s for s in (suite.workspace, *(case.workspace for case in suite.cases)) if s}
        places = {
            (spec.repo, spec.position): spec
            for space in spaces.values()
            for spec in space.repos
            if spec.repo.startswith(("/", "file:"))
        }
        for spec in places.values():
            yield Problem(
                path=spec.position.path if spec.position else suite.path,
                line=spec.position.line if spec.position else None,
                message=f"the repository {spec.repo} is one of this machine, which workers do not have",
                hint="Name it by an https or ssh URL that workers reach.",
            )


class Packing:
    """The files of a run as they travel, and their contents."""

    def __init__(self, folder: Path) -> None:
        """``folder``: for copies of the contents, as workers come at any time, and files may change meanwhile."""
        self.contents = BlobStore(folder)
        self._known: set[Blob] = set()
        self._files: dict[str, ParcelFile] = {}
        self._total = 0

    def parcel(self, prepared: Prepared) -> RunParcel:
        """Raises InputError where it would be too large."""
        loaded, request, cwd = prepared.loaded, prepared.request, prepared.cwd
        roots = list(dict.fromkeys(suite.project_root for suite in loaded.suites))
        for root in roots:
            self._add(root, Project(root, cwd=cwd).files())
        for suite in loaded.suites:
            for folder, staged in _needed_besides(suite):
                self._add(folder, staged)
        files = tuple(self._files.values())
        recording = self._recording(request.replay) if request.replay is not None else None
        return RunParcel(
            run=secrets.token_hex(8),
            roots=tuple(map(travelling, roots)),
            cwd=travelling(cwd),
            suites={
                travelling(suite.path): travelling(suite.targets_path) if suite.targets_path else None
                for suite in loaded.suites
            },
            request=_without_paths(request),
            run_env=prepared.options.run_env,
            required_tiers=prepared.required_tiers,
            ceilings={travelling(root): each for root, each in prepared.options.ceilings.items()},
            files=files,
            recording=recording,
            secrets=_known(loaded),
        )

    def _recording(self, folder: Path) -> tuple[ParcelFile, ...]:
        before, self._files = self._files, {}
        paths = sorted(path for path in folder.rglob("*.json") if path.is_file() and not path.is_symlink())
        for path in paths:
            name = path.relative_to(folder).as_posix()
            self._put(name, StagedFile(path=name, data=path))
        files, self._files = tuple(self._files.values()), before
        return files

    def _add(self, folder: Path, staged: Iterable[StagedFile]) -> None:
        for file in staged:
            name = f"{travelling(folder)}/{os.fsdecode(file.path)}"
            if name not in self._files:
                self._put(name, file)

    def _put(self, name: str, file: StagedFile) -> None:
        if file.kind != "file":
            self._files[name] = ParcelFile(path=name, link=file.link)
            return
        assert isinstance(file.data, Path)
        blob = copied(file.data, MOST_BYTES, self.contents)
        self._total += 0 if blob in self._known else blob.size
        if self._total > MOST_BYTES:
            message = f"the project is larger than {MOST_BYTES >> 30} GiB, too much to send it to each worker"
            raise InputError([Problem(message=message, path=file.data)])
        self._known.add(blob)
        self._files[name] = ParcelFile(path=name, mode=file.mode, blob=blob)


def _without_paths(request: RunRequest) -> RunRequest:
    """What is asked, as far as it is the same on another machine."""
    here: dict[str, Any] = {
        each.name: each.default
        for each in fields(request)
        if "caller" in each.metadata or ("option" in each.metadata and each.metadata["option"].is_path)
    }
    return replace(request, **here, suites=(), cluster=None, engine=None, runtime=None)


def travelling(path: Path) -> str:
    """An absolute path as it stands in a parcel."""
    return str(path).lstrip("/")


def digest(salt: bytes, secret: str) -> bytes:
    """Says whether two values are the same without saying the value, as far as it cannot be guessed."""
    return hashlib.scrypt(secret.encode("utf-8", "surrogateescape"), salt=salt, n=1 << 12, r=8, p=1)


def locks_of(suites: Iterable[Suite]) -> bool:
    """Whether every suite has its image locked."""
    return all((suite.path.parent / LOCK_NAME).is_file() for suite in suites)


def _known(loaded: LoadResult) -> KnownSecrets:
    salt = secrets.token_bytes(16)
    return KnownSecrets(salt=salt, digests=frozenset(digest(salt, value) for value in secret_values(loaded)))


def _needed_besides(suite: Suite) -> Iterator[tuple[Path, list[StagedFile]]]:
    """Files that a suite names and that a project may leave out for its containers."""
    spaces = {id(s): s for s in (suite.workspace, *(case.workspace for case in suite.cases)) if s}
    for space in spaces.values():
        if space.template is not None:
            yield space.template, template_files(space)
        if space.docker is not None and space.docker.dockerfile is not None:
            folder = space.docker.dockerfile.parent
            yield folder, list(Project(folder, cwd=folder).files())
    paths = {path for case in suite.cases for path in case.input_files}
    paths |= {path for path in (suite.path, suite.targets_path) if path is not None}
    for path in sorted(paths):
        yield path.parent, [StagedFile(path=path.name, data=path)]
