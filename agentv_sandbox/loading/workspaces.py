"""``workspace:`` of suites and tests: read, resolve, merge."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args

from agentv_sandbox.authoring.commands import check_program, check_scripts, check_text, script_index
from agentv_sandbox.authoring.docs import read
from agentv_sandbox.authoring.names import EXPECTED, import_names, split_pin, well_formed
from agentv_sandbox.authoring.references import OUTSIDE, ReferenceScope
from agentv_sandbox.authoring.shadowing import warn_of_agents_code
from agentv_sandbox.authoring.tree import Map, Node, Problems, nearest, position, show
from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.documents.workspaces import (
    HOOK_VALUES,
    DockerDoc,
    EnvDoc,
    HookDoc,
    HooksDoc,
    LimitsDoc,
    RepoDoc,
    SystemDoc,
    WorkspaceDoc,
)
from agentv_sandbox.models.container import LimitOverrides
from agentv_sandbox.models.image import PackageKind, Runtime
from agentv_sandbox.models.suite import (
    DockerSpec,
    Hook,
    Position,
    RepoSpec,
    SystemSpec,
    Workspace,
    WorkspaceEnv,
)
from agentv_sandbox.request.values import size

_URL = re.compile(r"(?:https?|ssh|git|file)://[^\s]+\Z|[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[^\s]+\Z", re.ASCII)
_UNPROTECTED = re.compile(r"(?:http|git)://", re.IGNORECASE)
_FULL_HASH = re.compile(r"[0-9a-f]{40}")
_SHORTHAND = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/(?!\.{1,2}\Z)[A-Za-z0-9_.-]+\Z", re.ASCII)
_SHORT_HASH = re.compile(r"[0-9a-f]{7,39}")
_PINNED = re.compile(r"[0-9a-f]{40,64}|(?:[\w./-]*[/-])?v?\d+(?:\.\d+)+[\w.+-]*", re.ASCII)
"""Hashes, and names of versions, which nobody moves."""
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}\Z", re.ASCII)
_FOLDER = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[^/\0]{1,255}){1,32}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?", re.ASCII)
_READ = frozenset({"template", "isolation", "each_set_up", "system", "repos", "hooks", "docker", "env"})
"""Fields of a workspace that are made of what is written; all others are taken as they are written."""
_AS_WRITTEN = tuple(f.name for f in fields(Workspace) if f.name not in _READ)
_PLACEHOLDER = re.compile(r"\{\{ {0,9}([a-z_]{1,40}) {0,9}\}\}")
_NOUNS = {"command": "a command name", "module": "an import name"}
_SHELL = ("sh", "-ec")
HOOK_NAMES = ("before_all", "before_each", "after_each", "after_all")


@dataclass(frozen=True)
class Part:
    """One level's ``workspace:`` with the folder that its paths are relative to."""

    doc: WorkspaceDoc
    base: Path


@dataclass
class WorkspaceReader:
    project: ReferenceScope
    problems: Problems
    load_file: Callable[[Path], object]

    def part(self, node: Map, key: str, value: Any) -> Part | None:
        """The ``workspace:`` of a suite or test; a string names a file that holds it."""
        if value is None or isinstance(value, WorkspaceDoc):
            return Part(value, self.project.eval_dir) if value is not None else None
        reference = self.project.find(value, base=self.project.eval_dir)
        if reference.path is None or not reference.path.is_file():
            reason = reference.reason or "is not a file"
            self.problems.broken(node, key, f"the workspace file {show(value)} {reason}", hint=reference.hint)
            return None
        content = self.load_file(reference.path)
        if not isinstance(content, Map):
            if content is not None:
                self.problems.error(node, key, f"{reference.display} must hold a mapping")
            return None
        doc = read(WorkspaceDoc, content, self.problems)
        return Part(doc, reference.path.parent) if doc is not None else None

    def merge(self, parts: Sequence[Part | None]) -> Workspace | None:
        """One workspace of the suite's and the test's part: the later one wins field by field, ``env`` is
        joined."""
        levels = [part for part in parts if part is not None]
        if not levels:
            return None
        docker = _last(levels, "docker")
        repos = _last(levels, "repos")
        template = _last(levels, "template")
        for part in levels:
            self._refuse_static(part.doc)
        system = self._system(levels)
        return Workspace(
            template=self._template(*template) if template else None,
            isolation=_isolation(levels),
            # What before_all makes of a system cannot be copied as files of a workspace are.
            each_set_up=_isolation(levels) == "per_test"
            and (system is not None or _last(levels, "isolation") is not None),
            system=system,
            repos=tuple(self._repos(*repos)) if repos else (),
            hooks=self._hooks(levels, shared=_isolation(levels) == "shared"),
            docker=self._docker(*docker) if docker else None,
            env=self._env([part.doc.env for part in levels if part.doc.env is not None]),
            **{name: last[1] for name in _AS_WRITTEN if (last := _last(levels, name)) is not None},
        )

    def _system(self, levels: list[Part]) -> SystemSpec | None:
        last = _last(levels, "system")
        if last is None or last[1] is False:
            return None
        part, value = last
        doc = value if isinstance(value, SystemDoc) else SystemDoc(src=part.doc.src)
        node, key = (doc.src, "workdir") if isinstance(value, SystemDoc) else (part.doc.src, "system")
        # Reported together: none of these follows from another.
        if _isolation(levels) == "shared":
            message = "a whole system cannot be shared by tests: each begins with the image"
            self.problems.error(part.doc.src, "system", message, hint="leave out isolation: shared")
        if doc.workdir is not None and not _FOLDER.fullmatch(doc.workdir):
            hint = "expected an absolute path, such as /app"
            self.problems.error(node, key, f"{show(doc.workdir)} is not a folder of the image", hint=hint)
        if doc.user is not None and not _USER.fullmatch(doc.user):
            hint = "expected a name or a number of the image, also with a group, as in postgres or 1000:1000"
            self.problems.error(node, "user", f"{show(doc.user)} is not a user", hint=hint)
        default = SystemSpec()
        return SystemSpec(
            size_bytes=doc.size_mb << 20 if doc.size_mb is not None else default.size_bytes,
            files=doc.files or default.files,
            user=doc.user or "",
            workdir=doc.workdir or "",
            position=position(part.doc.src, "system"),
        )

    def _refuse_static(self, doc: WorkspaceDoc) -> None:
        if doc.mode == "static" or doc.path is not None:
            key = "path" if doc.path is not None else "mode"
            message = "a static workspace would let the agent write into a folder of this machine"
            hint = "name the folder in template; each test then gets a copy of it"
            self.problems.error(doc.src, key, message, hint=hint)

    def _template(self, part: Part, value: str) -> Path | None:
        reference = self.project.find(value, base=part.base)
        if reference.path is not None and reference.path.is_dir():
            return reference.path
        reason, hint = reference.reason, reference.hint
        if reference.path is not None:
            reason, hint = "is not a folder", "name one; each test's workspace begins as a copy of it"
        self.problems.broken(part.doc.src, "template", f"the template {show(value)} {reason}", hint=hint)
        return None

    def _on_github(self, repo: str, part: Part) -> bool:
        """Whether ``repo`` is AgentV's ``owner/name``: a folder of the owner's name makes it a local path."""
        if not _SHORTHAND.match(repo):
            return False
        owner = self.project.find(repo.partition("/")[0], base=part.base)
        return owner.path is None and owner.reason != OUTSIDE

    def _check_commit(self, doc: RepoDoc, repo: str) -> None:
        commit = doc.commit or ""
        if commit and not _REVISION.match(commit):
            self.problems.error(doc.src, "commit", f"{show(commit)} is not a commit, tag or branch")
        elif _UNPROTECTED.match(repo) and not _FULL_HASH.fullmatch(commit):
            key = "commit" if commit else "repo"
            message = "is fetched without protection, so its commit must be pinned by its full 40-digit hash"
            self.problems.error(doc.src, key, message, hint="write the hash as commit, or use https or ssh")
        elif commit and (_SHORT_HASH.fullmatch(commit) or not _PINNED.fullmatch(commit)):
            short = _SHORT_HASH.fullmatch(commit) is not None
            message = f"{show(commit)} is " + (
                "the beginning of a hash, which more than one commit may have later, and a branch may be called so"
                if short
                else "a branch, or a tag that may be moved: what agents work on changes with it"
            )
            hint = "write the full hash, which " + (
                f"`git rev-parse {commit}` prints in a clone"
                if short
                else f"`git ls-remote REPOSITORY {commit}` prints"
            )
            self.problems.warn(doc.src, "commit", message, hint=hint)

    def _repos(self, part: Part, docs: list[RepoDoc]) -> list[RepoSpec]:
        specs = []
        for doc in docs:
            repo = doc.repo
            reference = None if _URL.match(repo) else self.project.find(repo, base=part.base)
            if reference is not None and reference.path is None and self._on_github(repo, part):
                repo, reference = f"https://github.com/{repo}.git", None
            if reference is not None:
                if reference.path is None or not reference.path.is_dir():
                    hint = "write an https, ssh or file URL, or the path of a local repository"
                    reason = reference.reason or "is not a folder"
                    self.problems.broken(doc.src, "repo", f"the repository {show(repo)} {reason}", hint=hint)
                    continue
                repo = str(reference.path)
            self._check_commit(doc, repo)
            path = doc.path or re.split(r"[/:]", repo.rstrip("/"))[-1].removesuffix(".git")
            if path.startswith(("/", "\\")) or ".." in path.replace("\\", "/").split("/"):
                self.problems.error(doc.src, "path", f"{show(path)} must be a folder inside the workspace")
            specs.append(
                RepoSpec(
                    path=path,
                    repo=repo,
                    commit=doc.commit,
                    ancestor=doc.ancestor,
                    sparse=tuple(doc.sparse),
                    position=position(doc.src),
                )
            )
        return specs

    def _hooks(self, parts: list[Part], *, shared: bool) -> Mapping[str, Hook]:
        levels = [(p, p.doc.hooks) for p in parts if p.doc.hooks is not None]
        if any(not hooks.enabled for _, hooks in levels[-1:]):
            return {}
        merged: dict[str, Hook] = {}
        for part, hooks in levels:
            merged = self.hooks(hooks, part.base, merged, shared=shared)
        return merged

    def hooks(
        self, doc: HooksDoc, base: Path, inherited: Mapping[str, Hook], *, shared: bool = False
    ) -> dict[str, Hook]:
        """The hooks of one level over those of the level above, field by field. ``shared``: of a workspace that tests
        share, where an agent was before the second one."""
        hooks = dict(inherited)
        for name in HOOK_NAMES:
            hook: HookDoc | None = getattr(doc, name)
            if hook is not None:
                made = hooks[name] = self._hook(name, hook, base, hooks.get(name))
                if (
                    hook.command
                    and made.command
                    and (name.startswith("after") or (shared and name == "before_each"))
                ):
                    key = "command" if "command" in hook.src else "script"
                    warn_of_agents_code(hook.src, key, made.command, made.cwd, self.project, self.problems)
        return hooks

    def _hook(self, name: str, doc: HookDoc, base: Path, above: Hook | None) -> Hook:
        does_nothing = doc.command is None and doc.reset == "none" and above is None
        if does_nothing and not self.problems.is_misspelt(doc.src, "command"):
            self.problems.error(
                doc.src,
                None,
                "needs a command or a reset",
                hint="write command: a list of arguments, or text for a shell",
            )
        cwd = above.cwd if above is not None else base
        if doc.cwd is not None:
            reference = self.project.find(doc.cwd, base=base)
            if reference.path is not None and reference.path.is_dir():
                cwd = reference.path
            else:
                reason = reference.reason or "is not a folder"
                self.problems.broken(
                    doc.src, "cwd", f"the folder {show(doc.cwd)} {reason}", hint=reference.hint
                )
        # What a level leaves out is that of the level above, as a whole: a command keeps its own kind
        # and time.
        argv = self._hook_command(doc, cwd)
        default = 60.0 if name.startswith("before") else 30.0
        if above is not None:
            default = above.timeout_s
        return Hook(
            command=argv or (above.command if above else None),
            timeout_s=doc.timeout_ms / 1000 if doc.timeout_ms is not None else default,
            cwd=cwd,
            reset=doc.reset if doc.reset != "none" or above is None else above.reset,
            files=tuple(doc.files) or (above.files if above else ()),
            shell_text=isinstance(doc.command, str) if argv else above is not None and above.shell_text,
            position=position(doc.src),
        )

    def _hook_command(self, doc: HookDoc, cwd: Path) -> tuple[str, ...]:
        """argv of a hook that says what it runs, its script found; else empty."""
        if not doc.command:
            return ()
        key = "command" if "command" in doc.src else "script"
        self._check_placeholders(doc, key)
        if isinstance(doc.command, str):
            check_text(doc.src, key, doc.command, cwd, self.project, self.problems)
            return (*_SHELL, doc.command)
        if script_index(doc.command) is None:
            check_program(doc.src, key, doc.command, self.project, self.problems)
            return tuple(doc.command)
        return check_scripts(doc.src, key, doc.command, cwd, self.project, self.problems)

    def _check_placeholders(self, doc: HookDoc, key: str) -> None:
        """A warning for each that is nearly one: other braces are the command's own."""
        text = doc.command if isinstance(doc.command, str) else " ".join(doc.command or ())
        for match in _PLACEHOLDER.finditer(text):
            meant = match[1] if match[1] in HOOK_VALUES else nearest(match[1], HOOK_VALUES)
            if meant and match[0] != f"{{{{{meant}}}}}":
                self.problems.warn(
                    doc.src, key, f"nothing fills in {match[0]}", hint=f"did you mean {{{{{meant}}}}}?"
                )

    def _docker(self, part: Part, doc: DockerDoc) -> DockerSpec:
        dockerfile = None
        if doc.dockerfile is not None:
            reference = self.project.find(doc.dockerfile, base=part.base)
            dockerfile = reference.path if reference.path is not None and reference.path.is_file() else None
            if dockerfile is None:
                reason = reference.reason or "is not a file"
                self.problems.broken(
                    doc.src,
                    "dockerfile",
                    f"the Dockerfile {show(doc.dockerfile)} {reason}",
                    hint=reference.hint,
                )
        elif doc.image is None and not any(
            self.problems.is_misspelt(doc.src, key) for key in ("image", "dockerfile")
        ):
            self.problems.error(doc.src, None, "needs an image or a dockerfile")
        if doc.image is not None and not well_formed("image", doc.image):
            hint = f"expected {EXPECTED['image']}"
            self.problems.error(doc.src, "image", f"{show(doc.image)} is not an image reference", hint=hint)
        return DockerSpec(
            image=doc.image if doc.image is not None and well_formed("image", doc.image) else None,
            dockerfile=dockerfile,
            timeout_s=doc.timeout or 1800,
            memory_bytes=doc.memory if isinstance(doc.memory, int) else None,
            cpus=doc.cpus,
        )

    def _env(self, docs: list[EnvDoc]) -> WorkspaceEnv:
        positions: dict[str, Position] = {}
        commands: dict[str, None] = {}
        modules: dict[str, None] = {}
        packages: dict[PackageKind, dict[str, str]] = {}
        versions: dict[Runtime, str] = {}
        for doc in docs:
            self._names(doc, "required_commands", "command", commands, positions)
            self._names(doc, "required_python_modules", "module", modules, positions)
            for kind in get_args(PackageKind) if doc.packages is not None else ():
                for name, package in getattr(doc.packages, kind).items():
                    node: Map = doc.packages.src[kind]  # type: ignore[union-attr]
                    if packages.get(kind, {}).get(name, package) != package:
                        positions[name] = position(node, name)  # where it is changed
                    positions.setdefault(name, position(node, name))
                    parts = split_pin(kind, package)
                    if not parts or not all(well_formed(kind, part) for part in parts):
                        self._misnamed(node, name, package, kind)
                    packages.setdefault(kind, {})[name] = package
            if doc.versions is not None:
                for runtime in get_args(Runtime):
                    if version := getattr(doc.versions, runtime):
                        versions[runtime] = version
                        positions[f"versions.{runtime}"] = position(doc.versions.src, runtime)
        return WorkspaceEnv(
            required_commands=tuple(commands),
            required_python_modules=tuple(modules),
            packages=packages,
            versions=versions,
            positions=positions,
        )

    def _names(
        self,
        doc: EnvDoc,
        key: str,
        kind: str,
        names: dict[str, None],
        positions: dict[str, Position],
    ) -> None:
        for i, name in enumerate(getattr(doc, key)):
            node: Node = doc.src[key]
            if not well_formed(kind, name):
                self._misnamed(node, i, name, kind)
            names[name] = None
            positions.setdefault(name, position(node, i))

    def _misnamed(self, node: Node, key: Any, name: str, kind: str) -> None:
        what = _NOUNS.get(kind, "a package name")
        hint = f"expected {EXPECTED[kind]}"
        if kind == "module" and well_formed("pip", name):
            hint = _of_distribution(name)
        self.problems.error(node, key, f"{show(name)} is not {what}", hint=hint)


def _of_distribution(name: str) -> str:
    """What to write for a distribution in the place of a module."""
    bare = re.split(r"[\[=<>~!]", name)[0]
    known = import_names(bare)
    module = known[0] if known else bare.replace("-", "_")
    hint = (
        f"write {module}, by which it is imported"
        if known
        else f"write the name that `import` takes: {module}?"
    )
    return (
        hint
        if bare == name
        else f"{hint}; its version goes into packages: {{pip: {{{module}: {show(name)}}}}}"
    )


def _last(parts: list[Part], name: str) -> tuple[Part, Any] | None:
    values = [(part, getattr(part.doc, name)) for part in parts if getattr(part.doc, name) is not None]
    return values[-1] if values else None


def _isolation(parts: list[Part]) -> Literal["shared", "per_test"]:
    """Absent means a fresh workspace a test; AgentV shares one, which makes tests depend on their order."""
    last = _last(parts, "isolation")
    return "shared" if last and last[1] in ("shared", "suite") else "per_test"


def limits(doc: LimitsDoc | None) -> LimitOverrides:
    if doc is None:
        return LimitOverrides()
    return LimitOverrides(
        memory_bytes=doc.memory if isinstance(doc.memory, int) else None,
        cpus=doc.cpus,
        pids=doc.pids,
        timeout_s=doc.timeout_seconds,
        workspace_bytes=doc.workspace_size if isinstance(doc.workspace_size, int) else None,
        workspace_inodes=doc.workspace_files,
        output_bytes=doc.output_size if isinstance(doc.output_size, int) else None,
        tmp_bytes=doc.tmp_size if isinstance(doc.tmp_size, int) else None,
    )


def warn_of_large_tmp(doc: LimitsDoc | None, problems: Problems, *, memory: str | None = None) -> None:
    """Warn where ``/tmp``, whose files are counted as memory, is given all of it. ``memory``: what holds where
    ``doc`` asks for none; None where that is not known."""
    if doc is None or doc.tmp_size is None:
        return
    written = str(doc.src.get("memory", memory or ""))
    if written and int(doc.tmp_size) >= size(written):
        message = (
            f"tmp_size {doc.src['tmp_size']} is not less than the memory, {written}: /tmp lies in memory"
        )
        problems.warn(doc.src, "tmp_size", message, hint="write a larger memory beside it")
