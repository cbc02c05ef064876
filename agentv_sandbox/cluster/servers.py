"""Folders of Dask's servers. Each takes one of a fixed name in the temporary folder, whoever made it, and puts it first
on the path of modules. So each is given a private one, which is taken off the path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from distributed.core import Server

from agentv_sandbox.base.ownership import private_folder
from agentv_sandbox.base.scratch import scratch_folder

_DASKS_NAME = "dask-scratch-space"


@contextmanager
def server_folder() -> Iterator[str]:
    """``local_directory`` for one server: a folder of ours that nobody else can enter, gone with the block."""
    with scratch_folder() as private:
        yield str(private_folder(private / _DASKS_NAME))  # of another name, Dask makes one of this below it


def take_off_path(server: Server) -> None:
    """Nothing is to be imported from what a server writes."""
    while server.local_directory in sys.path:
        sys.path.remove(server.local_directory)
