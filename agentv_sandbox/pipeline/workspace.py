"""The workspace before the agent, and what makes it readable for graders after."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import Future

from agentv_sandbox.collect import Baseline, Collected
from agentv_sandbox.errors import InputError, Problem, SandboxError
from agentv_sandbox.models.suite import Target, Workspace
from agentv_sandbox.sandbox import Role, Sandbox, StagedFile, VolumeSet

_MB = 1 << 20
_DEFAULT_BYTES = 512 * _MB

# Adds read permission for everybody to what is already there. Never follows a link: every step goes through a
# directory handle, and the agent's processes are gone.
_SEAL = """
import os
stack = [os.open('/workspace', os.O_RDONLY | os.O_DIRECTORY)]
os.fchmod(stack[0], 0o755)
while stack:
    fd = stack.pop()
    for name in os.listdir(fd):
        info = os.lstat(name, dir_fd=fd)
        kind = info.st_mode & 0o170000
        if kind == 0o040000:
            child = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            os.fchmod(child, (info.st_mode & 0o777) | 0o555)
            if len(stack) < 500:
                stack.append(child)
            else:
                os.close(child)
        elif kind == 0o100000:
            child = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=fd)
            os.fchmod(child, (info.st_mode & 0o777) | 0o444)
            os.close(child)
    os.close(fd)
"""


def template_files(workspace: Workspace) -> list[StagedFile]:
    """The template's files; version control and links that lead out of it are left out."""
    root = workspace.template
    if root is None:
        return []
    staged: list[StagedFile] = []
    folders = [root]
    while folders:
        folder = folders.pop()
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                relative = os.fsencode(os.path.relpath(entry.path, root))
                if entry.is_symlink():
                    link = os.readlink(entry.path)  # noqa: PTH115 - bytes-safe and as written
                    target = os.path.normpath(os.path.join(folder, link))  # noqa: PTH118
                    if not link.startswith("/") and target.startswith(f"{root}{os.sep}"):
                        staged.append(StagedFile(path=relative, kind="symlink", link=link))
                elif entry.is_dir():
                    if entry.name != ".git":
                        staged.append(StagedFile(path=relative, kind="dir", mode=0o755))
                        folders.append(root / os.fsdecode(relative))
                elif entry.is_file():
                    executable = entry.stat().st_mode & stat.S_IXUSR
                    path = root / os.fsdecode(relative)
                    staged.append(StagedFile(path=relative, data=path, mode=0o755 if executable else 0o644))
    return staged


class Templates:
    """What workspaces start from, made once for all tests that share a template and its ``before_all``."""

    def __init__(self) -> None:
        self._made: dict[object, Future[list[StagedFile]]] = {}
        self._lock = threading.Lock()

    def files(
        self, workspace: Workspace, target: Target, before_all: Callable[[list[StagedFile]], list[StagedFile]]
    ) -> list[StagedFile]:
        """The files to stage. ``before_all`` turns the bare template into them; it is called once, and what it
        raises is raised for every test."""
        hooks = [h["before_all"] for h in (workspace.hooks, target.hooks) if "before_all" in h]
        if not hooks:
            return template_files(workspace)
        key = (workspace.template, *((hook.command, hook.cwd) for hook in hooks))
        with self._lock:
            future = self._made.get(key)
            mine = future is None
            if future is None:
                future = self._made[key] = Future()
        if mine:
            try:
                future.set_result(before_all(template_files(workspace)))
            except BaseException as error:
                future.set_exception(error)
        return future.result()


def restaged(baseline: Baseline) -> list[StagedFile]:
    """The files of ``baseline``, to fill another workspace with."""
    staged = []
    for path, entry in baseline.entries.items():
        if entry.kind == "symlink":
            staged.append(StagedFile(path=path, kind="symlink", link=os.fsdecode(entry.link)))
        elif entry.kind == "dir":
            staged.append(StagedFile(path=path, kind="dir", mode=0o755))
        else:
            staged.append(StagedFile(path=path, data=baseline.sources[entry.sha256], mode=entry.mode))
    return staged


def workspace_size(template: list[StagedFile], asked: int | None) -> int:
    """Bytes of the workspace volume: what was asked for, else the template and half a GiB for the agent."""
    used = sum(file.data.stat().st_size for file in template if not isinstance(file.data, bytes))
    if asked is None:
        return used + _DEFAULT_BYTES
    if used > asked:
        raise InputError([
            Problem(message=f"the workspace template holds {used >> 20} MiB, more than workspace_size allows")
        ])  # fmt: skip
    return asked


def seal(sandbox: Sandbox, volumes: VolumeSet, found: Collected) -> None:
    """Let graders, which run as another user, read everything. Costs a container, so only where it is needed."""
    entries = found.roots.get("/workspace", {}).values()
    if all(e.kind == "symlink" or e.mode & 0o444 == 0o444 for e in entries) and not found.skipped:
        return
    result = sandbox.run(
        Role.SEALER, ["/usr/bin/python3", "-I", "-S", "-c", _SEAL], image=sandbox.tool_image,
        mounts=[volumes.mount("workspace", "/workspace", read_only=False)],
    )  # fmt: skip
    if not result.ok:
        raise SandboxError(
            f"the workspace could not be made readable: {result.stderr.decode('utf-8', 'replace')[-500:]}"
        )
