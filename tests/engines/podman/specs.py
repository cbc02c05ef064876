"""Containers whose answers are recorded: one of each kind that the policy knows."""

from __future__ import annotations

from collections.abc import Callable

from agentv_sandbox.containers.policy import (
    POLICIES,
    Role,
    environment,
    seccomp_profile,
)
from agentv_sandbox.models.container import ContainerSpec, EngineInfo, Mount

VOLUME = "agentv-recorded-workspace"


def _of(role: Role) -> Callable[[str], ContainerSpec]:
    policy = POLICIES[role]
    info = EngineInfo(kind="podman", version="", api_version="", seccomp=True)
    writes = "/workspace" in policy.may_write

    def made(image: str) -> ContainerSpec:
        return ContainerSpec(
            image=image,
            argv=("true",),
            role=role.value,
            user="0:0" if policy.root else "200123:200123",
            env=environment(role, {}, uid=0 if policy.root else 200_123),
            mounts=(Mount(source=VOLUME, target="/workspace", read_only=not writes),),
            limits=policy.limits,
            read_only=policy.sealed,
            cap_add=policy.cap_add,
            seccomp=seccomp_profile(info, builder=not policy.sealed),
            init_timer=policy.sealed,
            masked_volumes=("/data",) if role is Role.AGENT else (),
        )

    return made


SPECS = {role.value: _of(role) for role in (Role.AGENT, Role.COLLECTOR, Role.GRADER, Role.BUILDER)}
