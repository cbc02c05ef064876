"""Makes a system what another one was. Runs inside a container.

``/system/files`` is the system, as its image has it; ``/system/contents`` contents of files by their hashes. Standard
input: JSON, {"gone": [path, ...], "entries": [[path, kind, mode, uid, gid, hash or link], ...]}, entries in order, so
that a folder comes before what is in it. Whoever wrote that may be a stranger: every step goes through a folder's
descriptor, and no link is followed. What cannot be done ends it with an error.
"""

import json
import os
import shutil
import stat
import sys
from types import SimpleNamespace

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
CHUNK = 1 << 20


def opened(root, path):
    """The folder at ``path``, through folders alone; what is missing of it is made."""
    fd = os.dup(root)
    for part in filter(None, path.split("/")):
        try:
            below = os.open(part, FOLDER, dir_fd=fd)
        except FileNotFoundError:
            os.mkdir(part, 0o755, dir_fd=fd)
            below = os.open(part, FOLDER, dir_fd=fd)
        os.close(fd)
        fd = below
    return fd


def looked_at(folder, name):
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def removed(folder, name):
    info = looked_at(folder, name)
    if info is None:
        return
    if stat.S_ISDIR(info.st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def made(folder, name, kind, mode, owner, data, contents):
    old = looked_at(folder, name)
    if kind == "dir":
        if old is None or not stat.S_ISDIR(old.st_mode):
            removed(folder, name)
            os.mkdir(name, 0o700, dir_fd=folder)
        fd = os.open(name, FOLDER, dir_fd=folder)
    elif kind == "symlink":
        removed(folder, name)
        os.symlink(data, name, dir_fd=folder)
        os.chown(name, *owner, dir_fd=folder, follow_symlinks=False)
        return
    else:
        removed(folder, name)
        fd = os.open(name, NEW, 0o600, dir_fd=folder)
        filled(fd, data, contents)
    os.fchown(fd, *owner)
    os.fchmod(fd, mode)
    os.close(fd)


def filled(fd, name, contents):
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=contents)
    while data := os.read(source, CHUNK):
        while data:
            data = data[os.write(fd, data) :]
    os.close(source)


def main():
    request = SimpleNamespace(**json.load(sys.stdin))
    root, contents = os.open("/system/files", FOLDER), os.open("/system/contents", FOLDER)
    for path in request.gone:
        parent, _, name = path.rpartition("/")
        folder = opened(root, parent)
        removed(folder, name)
        os.close(folder)
    for path, kind, mode, uid, gid, data in request.entries:
        parent, _, name = path.rpartition("/")
        folder = opened(root, parent)
        made(folder, name, kind, mode, (uid, gid), data, contents)
        os.close(folder)


main()
