"""Files of containers and of whole systems: what each has as its root, and what is mounted there.

Nothing is opened here that a container could have written; a link in a system is followed within it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.base.logs import get_logger
from agentv_sandbox.engines.native.images.store import ImageStore
from agentv_sandbox.engines.native.records import Record, Records
from agentv_sandbox.engines.native.staging import discard
from agentv_sandbox.engines.native.systems import BASE, DATA, ROOT
from agentv_sandbox.engines.native.volumes import NativeVolumes
from agentv_sandbox.models.container import CHANGES, VIEW_EMPTY, VIEWED, ContainerSpec, Mount, VolumeSpec
from agentv_sandbox.models.paths import MOUNTED

log = get_logger()
SYSTEM_OF = "agentv-sandbox.system-of"
"""On systems: the image that each is a copy of."""
_PARTS_OF_SYSTEMS = {"changes": DATA, "base": BASE}
_KERNELS_TARGETS = ("/proc", "/sys", "/dev")
_SYSTEM_TARGETS = (*_KERNELS_TARGETS, "/tmp")  # noqa: S108 - paths inside


class ContainerFiles:
    """Of one engine's containers."""

    def __init__(
        self,
        folder: Path,
        images: Callable[[], ImageStore],
        records: Records,
        volumes: NativeVolumes,
        *,
        end: Callable[[str], None],
    ) -> None:
        """``folder``: of what containers write to that no volume holds. ``end``: ends a container's processes."""
        self._folder = folder
        self._store = images
        self._records = records
        self._volumes = volumes
        self._end = end

    @property
    def _images(self) -> ImageStore:
        return self._store()

    def prepare(self, container: str, spec: ContainerSpec, record: Record) -> None:
        """Make the root of a container that is on record, with folders for all that is mounted there."""
        if record.rootfs:
            before = self._take_over(spec.continues, Path(record.rootfs)) if spec.continues else []
            record = replace(record, layered=not spec.continues and self._make_own(container, spec))
            # Also what the runtime would make, whose time would be that of the build.
            targets = [*(mount.target for mount in spec.mounts), *_KERNELS_TARGETS]
            added = self._images.add_mount_points(self._own_root(container, record), targets)
            self._records.change(container, replace(record, mount_points=[*before, *added]))
        elif spec.system:
            self._prepare_system(spec)
        else:
            targets = [mount.target for mount in spec.mounts]
            inside = _outermost([*targets, *spec.masked_volumes, spec.workdir])
            self._images.mount_points(record.image, inside)

    def _make_own(self, container: str, spec: ContainerSpec) -> bool:
        """Make what a container may write to: what it changes over the image's files, or a copy of them. Whether it is
        the first."""
        own = self.writable(container)
        root = None if spec.tells_changes else self._layered_root(container, spec.image, own)
        if root is None:
            self._images.copy(spec.image, own)
        else:
            self._images.hide_mount_points(spec.image, root)
        return root is not None

    def _layered_root(self, container: str, image: str, own: Path) -> Path | None:
        """None where the kernel cannot lay files over those of this disk, as where it is such a layer itself."""
        # So that none comes to the image's files meanwhile.
        self._images.mount_points(image, _outermost(MOUNTED))
        try:
            return self._records.make_writable_root(container, self._images.rootfs(image), own)
        except OSError as error:
            log.debug("container.copied", container=container, reason=str(error))
            discard(own)
            return None

    def _own_root(self, container: str, record: Record) -> Path:
        return self._records.root(container) if record.layered else self.writable(container)

    def _take_over(self, container: str, own: Path) -> Sequence[str]:
        """The files of a container that has ended, and the folders that were added to them. Raises EngineError."""
        record = self._records.get(container)
        if record is None or not record.rootfs or record.layered:
            raise EngineError(f"{container} has no files of its own")
        self._end(container)
        Path(record.rootfs).rename(own)
        self._records.change(container, replace(record, rootfs="", mount_points=()))
        return record.mount_points

    def _prepare_system(self, spec: ContainerSpec) -> None:
        """Folders for what the runtime mounts. Whatever containers made of the system, a link is followed within it
        alone; of the kernel's own file systems none may be."""
        root = self._volumes.system(spec.system, ROOT)
        users = sum(record.volumes.get("/") == spec.system for _, record in self._records.all())
        if users > 1:  # what stands there could change while it is looked at
            raise EngineError("a system is the root of one container at a time")
        targets = _outermost([*(mount.target for mount in spec.mounts), spec.workdir])
        try:
            self._images.add_mount_points(root, targets, plain=_KERNELS_TARGETS)
        except EngineError as error:
            raise EngineError(
                f"the system that an earlier container left cannot be used any more: {error.message}"
            ) from error

    def make_system(self, name: str, spec: VolumeSpec, labels: Mapping[str, str]) -> None:
        """A writable copy of an image's files, as a volume. Raises EngineError."""
        image = self._images.nameless(spec.image)
        if image is None:
            raise EngineError(f"making a system failed: there is no image {spec.image}")
        if not spec.bare:
            self._images.mount_points(image.id, _outermost(MOUNTED))  # so that they are not among the changes
        hidden = self._images.added_folders(image.id) if spec.bare else []
        files = [self._images.rootfs(image.id)]
        if spec.over:
            files.insert(0, self._volumes.system(spec.over, DATA) / CHANGES)
        self._volumes.create(name, spec, {**labels, SYSTEM_OF: image.id}, files=files, hidden=hidden)

    def source(self, mount: Mount) -> Path:
        """The folder that is mounted. Raises EngineError where it is not there."""
        if mount.kind == "image":
            return self._images.rootfs(mount.source)
        if mount.kind in _PARTS_OF_SYSTEMS:
            return self._volumes.system(mount.source, _PARTS_OF_SYSTEMS[mount.kind])
        return Path(mount.source) if mount.kind == "bind" else self._volumes.path(mount.source)

    def binds(self, container: str, spec: ContainerSpec) -> list[tuple[Path, str, bool]]:
        """What is mounted where, and whether read-only. Raises OSError."""
        binds = []
        for number, mount in enumerate(spec.mounts):
            source = self.source(mount)
            if mount.kind == "view":
                below = self._volumes.path(mount.beside) / VIEWED if mount.beside else source / VIEW_EMPTY
                source = self._records.make_view(container, number, source / VIEWED, below)
            elif mount.kind == "image":
                source = self._records.make_image_view(container, number, source)
            binds.append((source, mount.target, mount.read_only))
        return binds

    def root_of(self, container: str, spec: ContainerSpec, image: str) -> Path:
        """The folder that is the container's root."""
        if spec.system:
            return self._volumes.system(spec.system, ROOT)
        if not spec.read_only:
            return self._own_root(container, self._records.get(container) or Record(labels={}, image=""))
        return self._records.make_root(container, self._images.rootfs(image))

    def writable(self, container: str) -> Path:
        """What a container writes to, where that is neither a system nor a volume."""
        return self._folder / container


def _outermost(targets: Iterable[str]) -> list[str]:
    """Those that do not lie in another one, whose own files they would have to be among."""
    inside = (*targets, *_SYSTEM_TARGETS)
    return [
        path for path in inside if not any(path != other and path.startswith(f"{other}/") for other in inside)
    ]
