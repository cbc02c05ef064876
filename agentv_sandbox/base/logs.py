"""Log events with keys (structlog), the one way to make foreign text safe to show, and the last step before any
text leaves the process.

``safe_text`` is used by every sink that a person's terminal, browser or log viewer reads: file names, agent
output and grader output are data, and may hold control sequences, bidirectional overrides or worse.

An exception is shown as one line, never as a traceback: the values in one, and the local variables that some
renderers add, hold what nobody redacted.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
import threading
import traceback
import unicodedata
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO, cast

from agentv_sandbox import masking
from agentv_sandbox.base.dataclass import dataclass

_KEEP = frozenset("\n\t")


def safe_text(text: str, *, limit: int | None = None, keep: frozenset[str] = _KEEP) -> str:
    """``text`` with control, format, surrogate and private characters made visible.

    C0/C1 controls become ``\\xNN``; bidirectional, zero-width and tag characters become ``\\uNNNN`` or
    ``\\UNNNNNNNN``. ``limit`` bounds the length in characters and says what was cut; secrets are masked
    before.
    """
    if limit is not None:
        text = masking.hide(text)
    if not text.isascii() or not text.isprintable():
        text = text.translate(_table(keep))
    if limit is not None and len(text) > limit:
        text = f"{text[:limit]}… ({len(text) - limit} more characters)"
    return text


class _Table(dict[int, str]):
    """What each character is shown as; the usual ones are remembered."""

    def __init__(self, keep: frozenset[str]) -> None:
        super().__init__()
        self._keep = keep

    def __missing__(self, code: int) -> str:
        char = chr(code)
        shown = char if char in self._keep or char.isprintable() else _visible(char)
        if code < 0x3000:
            self[code] = shown
        return shown


@functools.cache
def _table(keep: frozenset[str]) -> _Table:
    return _Table(keep)


def _visible(char: str) -> str:
    code = ord(char)
    if unicodedata.category(char) in ("Zs",):
        return " "
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def safe_name(name: bytes | str, *, limit: int | None = None) -> str:
    """A file name as one printable line: bytes that are not UTF-8 as ``\\xNN``, newlines escaped too. ``limit`` as of
    ``safe_text``: whoever cuts the result instead may leave half a secret, which nobody knows."""
    if isinstance(name, bytes):
        name = name.decode("utf-8", "backslashreplace")
    return safe_text(name, limit=limit, keep=frozenset())


_COMMAND = re.compile(r"(^|[\r\n])([^\S\r\n]*):(?=:)|##(?=\[)")


def in_github_actions() -> bool:
    """Whether GitHub's runner reads what this process prints, and obeys the commands in it."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def write_command(line: str) -> None:
    """Write one line, redacted, to standard error as it is."""
    stream = sys.stderr
    if isinstance(stream, _MaskedStream):
        stream.write_line(line)
    else:
        print(masking.hide(line), file=stream, flush=True)


def _disarmed(text: str) -> str:
    """Without lines that have the form of a runner's command: it begins with ``::`` after white space, or with
    ``##[`` anywhere. ``write_command`` alone writes them."""
    if not in_github_actions():
        return text
    return _COMMAND.sub(lambda found: "# #" if found[0] == "##" else f"{found[1]}{found[2]}: ", text)


class _MaskedStream:
    """A text stream whose writes are redacted, whoever makes them: consoles, logs, libraries, the interpreter."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        # What is not text goes on as it is: that is how callers find out whether a stream takes bytes.
        self._stream.write(_disarmed(masking.hide(text)) if isinstance(text, str) else text)
        return len(text)

    def write_line(self, line: str) -> None:
        """One line, which may be a command of a runner."""
        self._stream.write(f"{masking.hide(line)}\n")
        self._stream.flush()

    def writelines(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Redact standard output and error as the very last step, and report what nobody caught in one line."""
    before = sys.stdout, sys.stderr, sys.excepthook, threading.excepthook, sys.unraisablehook
    sys.stdout = cast(TextIO, _MaskedStream(sys.stdout))
    sys.stderr = cast(TextIO, _MaskedStream(sys.stderr))
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value, None)
    sys.unraisablehook = lambda args: _uncaught(args.exc_type, args.exc_value, None)
    try:
        yield
    finally:
        sys.stdout, sys.stderr, sys.excepthook, threading.excepthook, sys.unraisablehook = before


def _uncaught(kind: type[BaseException], error: BaseException | None, _trace: TracebackType | None) -> None:
    get_logger().error("uncaught", error=kind.__name__ if error is None else error_line(error))


MAX_ERROR = 300
_FRAMES = 4


def error_line(error: BaseException) -> str:
    """``error`` as one bounded line for a bug report: kind, message, innermost places. No values of variables."""
    try:
        message = str(error)
    except Exception:  # such as that of a number with too many digits
        message = "(a message that cannot be shown)"
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = ", ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    shown = safe_text(text, limit=MAX_ERROR, keep=frozenset())
    return f"{shown} ({places})" if places else shown


def _one_line_exceptions(event: MutableMapping[str, Any]) -> None:
    """``exc_info`` of an event as one line under ``error``; a renderer would show local variables."""
    exc_info = event.pop("exc_info", None)
    error = (
        exc_info[1] if isinstance(exc_info, tuple) else sys.exc_info()[1] if exc_info is True else exc_info
    )
    if isinstance(error, BaseException):
        event["error"] = error_line(error)


_MAX_NUMBER = 1 << 63


def _sanitise(event: MutableMapping[str, Any]) -> None:
    for key, value in event.items():
        if value is None or isinstance(value, bool | float):
            continue
        if isinstance(value, int) and abs(value) < _MAX_NUMBER:
            continue
        try:
            text = str(value)
        except Exception:  # a number with too many digits, alone or in a list
            text = f"(a {type(value).__name__} that cannot be shown)"
        event[key] = safe_text(text, limit=4000)


class _ErrorPrinter:
    """Prints to what is standard error at that moment, which may be redacted only later."""

    def msg(self, message: str) -> None:
        print(f"{message}\n", end="", file=sys.stderr, flush=True)  # noqa: T201 - one write: threads do not mix

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


class _LibraryHandler(logging.Handler):
    """Warnings of libraries, as events of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        event = {} if record.exc_info is None else {"exc_info": record.exc_info}
        try:
            message = record.getMessage()
        except Exception:
            message = str(record.msg)
        get_logger().warning(message, library=record.name, **event)


@dataclass
class _Wanted:
    """How events are to be shown, from ``configure`` until the first one: the library brings much along, which most
    commands, that have nothing to report, would wait for."""

    verbose: bool
    json: bool
    unless_done: bool = False
    """Whether what the program itself has configured stands."""


_wanted: _Wanted | None = None
_lock = threading.RLock()
"""Of ``_wanted``, and of the library's configuration: no thread reports before it is done."""


def configure_unless_done() -> None:
    """For programs that configured no log of their own: warnings to stderr. Standard output is theirs."""
    with _lock:
        if _wanted is None:
            _want(_Wanted(verbose=False, json=False, unless_done=True))


def configure(*, verbose: bool = False, json: bool = False) -> None:
    """Send log events to stderr: readable lines, or one JSON object a line. Warnings of libraries too."""
    with _lock:
        _want(_Wanted(verbose, json))
    logging.basicConfig(handlers=[_LibraryHandler(logging.WARNING)], level=logging.WARNING, force=True)


def _want(wanted: _Wanted) -> None:
    global _wanted  # noqa: PLW0603 - log configuration is the process's
    _wanted = wanted
    if "structlog" in sys.modules:
        _configured()


def _configured() -> Any:
    """The library, configured as was asked for; where nobody asked and the program has not, as for programs that
    configured nothing: its own default prints to standard output."""
    global _wanted  # noqa: PLW0603 - log configuration is the process's
    with _lock:
        structlog = import_module("structlog")
        wanted = _wanted or _Wanted(verbose=False, json=False, unless_done=True)
        if not (wanted.unless_done and structlog.is_configured()):
            _configure_events(structlog, wanted)
        _wanted = None
        return structlog


def _configure_events(structlog: Any, wanted: _Wanted) -> None:
    verbose, json = wanted.verbose, wanted.json
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S" if not json else "iso", utc=json),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if verbose else logging.WARNING),
        logger_factory=lambda *_args: _ErrorPrinter(),
    )


class _Logger:
    """Loads the library with the first event that is shown. What an event holds is made safe here, before a renderer
    has it: which one that is, the program decides that has us as its library."""

    def __getattr__(self, level: str) -> Callable[..., None]:
        def report(event: str, **keys: object) -> None:
            wanted = _wanted
            if wanted is not None and level in ("debug", "info") and not wanted.verbose:
                return
            if level == "exception":
                keys.setdefault("exc_info", True)
            _one_line_exceptions(keys)
            _sanitise(keys)
            shown = "error" if level == "exception" else level
            getattr(_configured().get_logger(), shown)(safe_text(event, limit=4000), **keys)

        return report


_logger = _Logger()


def get_logger() -> Any:
    """A logger for events with keys."""
    return _logger
