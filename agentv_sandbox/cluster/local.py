"""``local:N``: a scheduler in this process and workers on this machine, for one run."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

from distributed import Scheduler
from distributed.security import Security

from agentv_sandbox.base import hostprograms
from agentv_sandbox.base.scratch import scratch_folder
from agentv_sandbox.cluster.servers import server_folder, take_off_path
from agentv_sandbox.request import RunRequest

_CONFIGURED = "DASK_DISTRIBUTED__COMM__TLS"
_END_S = 20


@asynccontextmanager
async def local_cluster(number: int, asked: RunRequest) -> AsyncIterator[tuple[str, Security]]:
    """The address of a scheduler of its own with ``number`` workers of one slot, and what it takes to speak to it.

    Other users of this machine must not: certificates are made for this one run."""
    security = Security.temporary()
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        environ = {**os.environ, **_certificates(security, folder)}
        own = stack.enter_context(server_folder())
        made = Scheduler(host="127.0.0.1", port=0, security=security, dashboard=False, local_directory=own)
        take_off_path(made)
        async with made as scheduler:
            # -P: what lies in the working directory, which may be a stranger's project, is no module of ours.
            argv = [
                *hostprograms.PYTHON_WITH_PACKAGES,
                "-m",
                "agentv_sandbox",
                "worker",
                str(scheduler.address),
            ]
            argv += ["--slots", "1"]
            for name, value in (("--engine", asked.engine), ("--runtime", asked.runtime)):
                argv += [name, value] if value is not None else []
            processes = [
                hostprograms.start(
                    hostprograms.WORKER,
                    [*argv, "--name", f"local-{index}", "--with-parent"],
                    env=environ,
                    stdin=subprocess.PIPE,
                    stderr=None,  # beside ours
                )
                for index in range(1, number + 1)
            ]
            try:
                yield str(scheduler.address), security
            finally:
                await asyncio.to_thread(_end, processes)


def _certificates(security: Security, folder: Path) -> Mapping[str, str]:
    """Where a worker finds what it needs, in Dask's configuration."""
    known = security.get_tls_config_for_role("worker")
    names = {"CA_FILE": known["ca_file"], "WORKER__CERT": known["cert"], "WORKER__KEY": known["key"]}
    for name, text in names.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text)
    return {f"{_CONFIGURED}__{name}": str(folder / name) for name in names}


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()  # the sign for ``--with-parent``
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        process.kill()
        process.wait()
