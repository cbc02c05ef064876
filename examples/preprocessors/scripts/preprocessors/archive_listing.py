"""zip and tar archives to a listing, with Python's standard library alone. Nothing is unpacked.

Reads the preprocessor protocol: {"path": ...} on standard input, text on standard output. For each entry: kind,
mode, size, time and name; paths that would leave the folder and encrypted entries are marked.
"""

import bz2
import gzip
import json
import lzma
import stat
import sys
import tarfile
import zipfile
import zlib
from datetime import datetime, timezone
from pathlib import Path

MAX_ENTRIES = 2000
MAX_TAR_BYTES = 1 << 30  # unpacked bytes to read through in search of entries


class Bounded:
    """A stream that ends with an error when more than a limit was read: a compressed tar may be a bomb."""

    def __init__(self, stream, limit):
        self.stream = stream
        self.left = limit

    def read(self, size):
        data = self.stream.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise tarfile.ReadError(f"more than {MAX_TAR_BYTES} bytes unpacked")
        return data


def main():
    path = Path(json.load(sys.stdin)["path"])
    if not path.stat().st_size:
        sys.exit("the file is empty")
    try:
        lines = zip_lines(path) if zipfile.is_zipfile(path) else tar_lines(path)
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        OSError,
        EOFError,
        lzma.LZMAError,
        zlib.error,
        ValueError,
    ) as error:
        sys.exit(f"not a readable zip or tar archive: {error}")
    sys.stdout.write("\n".join(lines) + "\n")


def zip_lines(path):
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    packed = sum(e.compress_size for e in entries)
    size = sum(e.file_size for e in entries)
    lines = [f"zip archive: {len(entries)} entries, {size} bytes unpacked, {packed} packed", ""]
    for entry in entries[:MAX_ENTRIES]:
        mode = entry.external_attr >> 16
        kind = "dir" if entry.is_dir() else "link" if stat.S_ISLNK(mode) else "file"
        notes = ["encrypted"] if entry.flag_bits & 1 else []
        when = "{:04}-{:02}-{:02} {:02}:{:02}:{:02}".format(*entry.date_time)
        lines.append(line(kind, mode, entry.file_size, when, zip_name(entry), notes))
    return lines + more(len(entries))


def zip_name(entry):
    """Unix tools store UTF-8 without saying so, and Python then takes the name for cp437."""
    if not entry.flag_bits & 0x800 and entry.create_system == 3:
        try:
            return entry.filename.encode("cp437").decode("utf-8")
        except UnicodeError:
            pass
    return entry.filename


def tar_lines(path):
    """Walk the stream once, without seeking, whatever the compression."""
    with path.open("rb") as raw, decompressed(raw) as unpacked:
        bounded = Bounded(unpacked, MAX_TAR_BYTES)
        with tarfile.open(fileobj=bounded, mode="r|") as archive:
            lines, count, size = [], 0, 0
            for entry in archive:
                count += 1
                size += entry.size
                if count <= MAX_ENTRIES:
                    lines.append(tar_line(entry))
                archive.members = []  # tarfile keeps them all otherwise
    return [
        f"tar archive: {count} entries, {size} bytes unpacked, {path.stat().st_size} packed",
        "",
        *lines,
        *more(count),
    ]


def decompressed(raw):
    start = raw.read(6)
    raw.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)
    if start.startswith(b"BZh"):
        return bz2.BZ2File(raw)
    if start.startswith(b"\xfd7zXZ"):
        return lzma.LZMAFile(raw)
    return raw


def tar_line(entry):
    kind = (
        "dir"
        if entry.isdir()
        else "link"
        if entry.issym() or entry.islnk()
        else "file"
        if entry.isreg()
        else "special"
    )
    utc = timezone.utc  # noqa: UP017 - Python 3.10 has no other name
    when = datetime.fromtimestamp(entry.mtime, utc).strftime("%Y-%m-%d %H:%M:%S")
    notes = [f"-> {printable(entry.linkname)}"] if kind == "link" else []
    return line(kind, entry.mode, entry.size, when, entry.name, notes)


def line(kind, mode, size, when, name, notes):
    parts = name.replace("\\", "/").split("/")
    if name.startswith("/") or ".." in parts:
        notes = [*notes, "leads out of the folder"]
    shown = f"{kind:<7} {mode & 0o7777:04o} {size:>12} {when} {printable(name)}"
    return shown + (f" ({'; '.join(notes)})" if notes else "")


def printable(name):
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in name)


def more(count):
    return [f"(cut: {count - MAX_ENTRIES} more entries)"] if count > MAX_ENTRIES else []


if __name__ == "__main__":
    main()
