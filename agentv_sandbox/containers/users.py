"""Users that an image knows, by number."""

from __future__ import annotations

from collections.abc import Callable

from agentv_sandbox.base.errors import SandboxError
from agentv_sandbox.base.logs import safe_name
from agentv_sandbox.containers.policy import Role
from agentv_sandbox.engines import ContainerEngine
from agentv_sandbox.models.container import ExecResult

LAST_UID = 65_535
"""Of an image's users."""


class ImageUsers:
    """Each is looked up once, in a container of its image."""

    def __init__(self, engine: ContainerEngine, run: Callable[..., ExecResult]) -> None:
        """``run``: ``Sandbox.run``."""
        self._engine = engine
        self._run = run
        self._known: dict[tuple[str, str], int] = {}

    def of_image(self, image: str) -> str:
        """Whose processes are where nothing else is said. Raises SandboxError where there is no such image."""
        info = self._engine.image(image)
        if info is None:
            raise SandboxError(f"there is no image {image}")
        return info.user or "0:0"

    def uid(self, image: str, user: str) -> int:
        """The number of ``user``, a name or a number with or without a group; empty: the image's own. Raises
        SandboxError where the image has no such user."""
        name = (user or self.of_image(image)).partition(":")[0]
        if name.isdecimal():
            return int(name)
        if (image, name) not in self._known:
            result = self._run(Role.PROBE, ["id", "-u", "--", name], image=image)
            said = result.stdout.strip()
            if not result.ok or not said.isdigit() or int(said) > LAST_UID:
                raise SandboxError(f"the image has no user {safe_name(name)}")
            self._known[image, name] = int(said)
        return self._known[image, name]
