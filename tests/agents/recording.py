"""Sessions of real programs, kept beside the tests: what each was given, what it asked of its model, printed and left.

``make recordings`` makes them anew. A recording holds what belongs to the tests as it is; longer texts of a program,
such as its instructions and the descriptions of its tools, are left out (``shortened``), and what differs from run to
run has a stand-in (``Masks``). ``differences`` says where a session that is played was given something else.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentv_sandbox.models.container import ContainerSpec

from .http_messages import Message
from .scripts import words

Json = Any
Tree = Mapping[str, tuple[int, bytes]]
"""Mode and content of each file, by path."""
FOLDER = Path(__file__).parent / "recordings"
BEGUN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
"""When every recorded session begins; times within it are moved."""
LONGEST_TEXT = 300
"""Characters of a text that is kept as it is."""
_DESCRIPTIONS = frozenset({"description"})
"""Of tools and their arguments, which no test reads: only their length is kept."""
_OURS = re.compile(
    r"Instructions of the workspace\.|Be brief\.|Greets people|script:[a-z0-9-]+|Let us talk\.|noted(?:: first)?"
    r"|second answer|Respond with text ONLY|iVBORw0KGgo|(?:Please|please) do |working directory: /\S+"
    r"|done: [a-z.]+|Say hello\."
    r"|it was first|Error occurred:|exited with code \d+|roses are red|prices\[1:\]"
)
"""What the tests themselves say, and look for in longer texts."""
_MARKS = ("python3 - <<", "<stand-in ", "prices.py")
"""Of longer texts that are kept: commands of the tests' own, the environment that they print, the example's task."""
_STAND_IN = re.compile(r"agentv-[A-Za-z0-9_-]{32}")
_UUID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-f])")
_NUMBERED = re.compile(r"<uuid (\d+)>")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_WORDS = re.compile(r"(\d+) word word (?:\d+ word word ){20,}(\d+) word word ")
_FROM_TO = re.compile(r"<words (\d+) (\d+)>")
"""Of the long answer."""
_CHANGING = re.compile(r"(?<=msg_)\d{6,}|(?<=\"created\": )\d+|(?<=\"created_at\": )\d+")
_HEADERS = frozenset({"host", "content-length", "connection", "transfer-encoding"})
"""Those that a new connection has of its own."""
_OWN_VARIABLES = ("AGENTV_RUN_TIMESTAMP",)
SEEN = ("/workspace", "/input", "/suite")
"""What an agent is shown."""
_SHARED = "$"
_LEAST_SHARED = 120


def tree(folder: Path) -> Tree:
    files: dict[str, tuple[int, bytes]] = {}
    for path in sorted(folder.rglob("*")):
        with suppress(OSError):
            info = path.lstat()
            if stat.S_ISREG(info.st_mode):
                files[str(path.relative_to(folder))] = stat.S_IMODE(info.st_mode), path.read_bytes()
    return files


@dataclass
class Masks:
    """What differs from run to run, with what stands for it in a recording, for one container."""

    texts: Mapping[str, str]
    uid: str
    uuids: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: ContainerSpec, texts: Mapping[str, str]) -> Masks:
        """``texts``: of the whole run, such as the address of the models' server."""
        tokens = {
            value: f"<stand-in {name}>" for name, value in spec.env.items() if _STAND_IN.fullmatch(value)
        }
        return cls({**tokens, **texts}, spec.user.partition(":")[0])

    def masked(self, text: str) -> str:
        text = _WORDS.sub(lambda m: f"<words {m[1]} {m[2]}>", text)
        for value, stand_in in self.texts.items():
            text = text.replace(value, stand_in)
        if self.uid:
            text = re.sub(rf"(?<![\d.]){self.uid}(?![\d])", "<user>", text)
        return _UUID.sub(lambda m: self.uuids.setdefault(m[0], f"<uuid {len(self.uuids) + 1}>"), text)

    def unmasked(self, text: str) -> str:
        for value, stand_in in self.texts.items():
            text = text.replace(stand_in, value)
        text = text.replace("<user>", self.uid)
        text = _FROM_TO.sub(lambda m: words(int(m[1]), int(m[2]) + 1), text)
        known = {stand_in: value for value, stand_in in self.uuids.items()}
        return _NUMBERED.sub(lambda m: known.get(m[0], f"00000000-0000-4000-8000-{int(m[1]):012}"), text)


def given_to(spec: ContainerSpec, trees: Mapping[str, Tree], masks: Masks) -> dict[str, Json]:
    """What an agent's container was given, in the form in which it is compared: its program's arguments,
    variables, standard input and settings, and the files of its workspace, input and project by content."""
    written = trees["/input"].get(".agent/order.json")
    if written is None:  # of a target's own command
        order: Json = {"argv": [masks.masked(word) for word in spec.argv]}
    else:
        order = json.loads(masks.masked(written[1].decode()))
    variables = {
        name: masks.masked(value)
        for name, value in spec.env.items()
        if name not in (*_OWN_VARIABLES, "AGENTV_EVAL_ID")
    }
    files = {
        f"{mount}/{path}": _content(data, masks)
        for mount in trees
        if mount in SEEN
        for path, (_, data) in sorted(trees[mount].items())
        if path not in (".agent/order.json", ".agent/run.py")
    }
    return {"order": order, "variables": variables, "files": files}


def _content(data: bytes, masks: Masks) -> str:
    try:
        text = masks.masked(data.decode())
    except UnicodeDecodeError:
        return digest(data)
    return text if len(text) <= LONGEST_TEXT else digest(text.encode())


def digest(data: bytes) -> str:
    """The beginning of its SHA-256."""
    return f"sha256:{hashlib.sha256(data).hexdigest()[:16]}"


def request_of(message: Message, masks: Masks) -> dict[str, Json]:
    """A request as it is kept."""
    method, path, _ = message.first.split(" ", 2)
    headers = {name: masks.masked(value) for name, value in message.headers.items() if name not in _HEADERS}
    body = json.loads(masks.masked(message.body.decode())) if message.body else None
    return {"method": method, "path": masks.masked(path), "headers": headers, "body": shortened(body)}


def answer_digest(reply: Message | None, masks: Masks) -> str:
    """The same for replies that are the same but for ids and times; empty where none came."""
    if reply is None:
        return ""
    status = reply.first.split(" ")[1]
    if not reply.whole:
        return f"{status} cut"
    return (
        f"{status} {digest(_CHANGING.sub('0', masks.masked(reply.body.decode('utf-8', 'replace'))).encode())}"
    )


def program_of(given: Mapping[str, Json]) -> str:
    """The command that a container runs."""
    return str(given["order"]["argv"][0]).rpartition("/")[2]


def shortened(value: Json, longest: int = LONGEST_TEXT) -> Json:
    """``value`` with the tests' own words alone in longer texts."""
    if isinstance(value, str):
        if len(value) <= longest or any(mark in value for mark in _MARKS):
            return value
        if value[0] in "{[" and (lines := _json_lines(value)) is not None:
            return "\n".join(json.dumps(shortened(line, longest)) for line in lines)
        return " … ".join([*_OURS.findall(value), f"({len(value):,} characters)"])
    if isinstance(value, list):
        return [shortened(each, longest) for each in value]
    if isinstance(value, dict):
        return {
            key: shortened(each, 0 if key in _DESCRIPTIONS and "command" not in value else longest)
            for key, each in value.items()
        }
    return value


def _json_lines(text: str) -> list[Json] | None:
    """The values of a text that is JSON, or JSON by lines."""
    for texts in ([text], text.splitlines()):
        with suppress(ValueError):
            return [json.loads(each) for each in texts]
    return None


def moved(value: Json, seconds: float) -> Json:
    """``value`` with its times, as numbers and as texts, moved by ``seconds``."""
    if isinstance(value, str):
        return _TIME.sub(lambda m: _later(m[0], seconds), value) if len(value) < 1000 else value
    if isinstance(value, list):
        return [moved(each, seconds) for each in value]
    if isinstance(value, dict):
        return {key: moved(each, seconds) for key, each in value.items()}
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and 1_500_000_000_000 < value < 3_000_000_000_000
    ):
        return value + round(seconds * 1000)
    return value


def _later(text: str, seconds: float) -> str:
    try:
        at = datetime.fromisoformat(text).timestamp() + seconds
    except ValueError:
        return text
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def differences(recorded: Json, given: Json, where: str = "") -> Iterator[str]:
    """Sentences on where ``given`` is not as ``recorded``."""
    if isinstance(recorded, dict) and isinstance(given, dict):
        for key in sorted({*recorded, *given}):
            yield from differences(recorded.get(key), given.get(key), f"{where}.{key}" if where else str(key))
    elif recorded != given:
        yield f"{where}: recorded {str(recorded)[:300]!r}, now {str(given)[:300]!r}"


# -- files ----------------------------------------------------------------------------------------------------
def write(path: Path, recording: Mapping[str, Json]) -> None:
    """Write a recording; values that occur several times are written once."""
    counts: Counter[str] = Counter()
    _count(recording, counts)
    shared: dict[str, Json] = {}
    folded = {key: _folded(value, counts, shared) for key, value in recording.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_by_lines({"shared": dict(sorted(shared.items())), **folded}, 4) + "\n")


def _by_lines(value: Json, levels: int) -> str:
    """JSON with each value of the upper ``levels`` on a line of its own."""
    if not levels or not value or not isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"))
    if isinstance(value, list):
        return "[\n" + ",\n".join(_by_lines(each, levels - 1) for each in value) + "\n]"
    rows = (f"{json.dumps(key)}: {_by_lines(value[key], levels - 1)}" for key in value)
    return "{\n" + ",\n".join(rows) + "\n}"


def read(path: Path) -> dict[str, Json]:
    """A recording as it was written."""
    assert path.is_file(), f"there is no recording {path.name}: run `make recordings`"
    stored = json.loads(path.read_text())
    shared = stored.pop("shared")
    unfolded: dict[str, Json] = {}

    def whole(value: Json) -> Json:
        if isinstance(value, dict):
            if (name := value.get(_SHARED)) is not None:
                if name not in unfolded:
                    unfolded[name] = whole(shared[name])
                return unfolded[name]
            return {key: whole(each) for key, each in value.items()}
        return [whole(each) for each in value] if isinstance(value, list) else value

    return {key: whole(value) for key, value in stored.items()}


def _name(value: Json) -> tuple[str, int]:
    text = json.dumps(value)
    return hashlib.sha256(text.encode()).hexdigest()[:10], len(text)


def _count(value: Json, counts: Counter[str]) -> None:
    if not isinstance(value, dict | list):
        return
    name, size = _name(value)
    if size >= _LEAST_SHARED:
        counts[name] += 1
        if counts[name] > 1:
            return  # what it holds is written with it
    for each in value.values() if isinstance(value, dict) else value:
        _count(each, counts)


def _folded(value: Json, counts: Mapping[str, int], shared: dict[str, Json]) -> Json:
    if not isinstance(value, dict | list):
        return value
    name, size = _name(value)
    if size >= _LEAST_SHARED and counts[name] > 1:
        if name not in shared:
            shared[name] = None  # a place, so that it is not folded into itself
            shared[name] = _inner(value, counts, shared)
        return {_SHARED: name}
    return _inner(value, counts, shared)


def _inner(value: Json, counts: Mapping[str, int], shared: dict[str, Json]) -> Json:
    if isinstance(value, dict):
        return {key: _folded(each, counts, shared) for key, each in value.items()}
    return [_folded(each, counts, shared) for each in value]


def in_order(sessions: Sequence[Mapping[str, Json]]) -> list[Mapping[str, Json]]:
    """By test and program; those of one conversation stay as they are."""
    return sorted(sessions, key=lambda session: (session["test"], session["program"]))


def sessions_of(recording: Mapping[str, Json]) -> Mapping[tuple[str, str], Sequence[Mapping[str, Json]]]:
    """Sessions by test and program; those of a conversation, or of several attempts, in their order."""
    found: dict[tuple[str, str], list[Mapping[str, Json]]] = {}
    for session in recording["sessions"]:
        found.setdefault((session["test"], session["program"]), []).append(session)
    return found
