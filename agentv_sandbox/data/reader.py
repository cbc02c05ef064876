"""``reader.py PATH BYTES``: prints one file of ``/workspace``, of at most so many bytes. Runs inside a container.

No link is followed, and nothing is opened that is not a regular file or a folder: whoever filled the workspace may have
put anything into the file's place, and may go on writing.
"""

import os
import stat
import sys

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CHUNK = 1 << 20


def content(path: str, limit: int) -> bytes:
    """Raises OSError, and ValueError with what is wrong."""
    folder = os.open("/workspace", FOLDER)
    *folders, name = path.split("/")
    for each in folders:
        folder = os.open(each, FOLDER, dir_fd=folder)
    file = os.open(name, FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise ValueError("it is not a regular file")
    pieces, left = [], limit + 1
    while left and (piece := os.read(file, min(CHUNK, left))):
        pieces.append(piece)
        left -= len(piece)
    if not left:
        raise ValueError(f"it is larger than {limit} bytes")
    return b"".join(pieces)


try:
    sys.stdout.buffer.write(content(sys.argv[1], int(sys.argv[2])))
except (OSError, ValueError) as error:
    text = getattr(error, "strerror", None) or str(error)
    sys.exit("it is a symbolic link" if text == "Too many levels of symbolic links" else text)
