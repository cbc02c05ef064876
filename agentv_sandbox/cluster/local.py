"""``local:N``: a scheduler in this process and workers on this machine, for one run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from distributed import Scheduler
from distributed.security import Security

from agentv_sandbox.sites import Asked

_CONFIGURED = "DASK_DISTRIBUTED__COMM__TLS"
_END_S = 20


@asynccontextmanager
async def local_cluster(number: int, asked: Asked) -> AsyncIterator[tuple[str, Security]]:
    """The address of a scheduler of its own with ``number`` workers of one slot, and what it takes to speak to it.

    Other users of this machine must not: certificates are made for this one run."""
    security = Security.temporary()
    with tempfile.TemporaryDirectory(prefix="agentv-cluster-") as folder:
        environ = {**os.environ, **_certificates(security, Path(folder))}
        async with Scheduler(host="127.0.0.1", port=0, security=security, dashboard=False) as scheduler:
            # -P: what lies in the working directory, which may be a stranger's project, is no module of ours.
            argv = [sys.executable, "-P", "-m", "agentv_sandbox", "worker", str(scheduler.address)]
            argv += ["--slots", "1"]
            for name, value in (("--engine", asked.engine), ("--runtime", asked.runtime)):
                argv += [name, value] if value is not None else []
            processes = [
                subprocess.Popen(
                    [*argv, "--name", f"local-{index}", "--with-parent"],
                    env=environ,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
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
