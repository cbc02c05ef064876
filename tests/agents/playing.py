"""Recorded sessions in the place of programs: what a container's program asked of its model is asked again, through the
real proxy and its gateway, of a real scripted server; what it printed and left is there, as it was.

On the engine without containers. Whether a recording still is what its program would do is found out while it is
played: a session that is given something else, or whose model answers something else, is stale.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentv_sandbox.egress.relay import MOUNT, SOCKET
from agentv_sandbox.engines.bindcheck import short_name
from agentv_sandbox.models.container import ExecResult
from tests.fake_engine import FakeRun

from .http_messages import Message
from .recording import (
    BEGUN,
    SEEN,
    Masks,
    answer_digest,
    differences,
    given_to,
    moved,
    program_of,
    sessions_of,
    tree,
)

Json = Any
_PATIENCE_S = 60
_MOST_DIFFERENCES = 5


class Player:
    """The agents of one run. ``stale`` has a sentence for each difference to the recording."""

    def __init__(
        self,
        recording: Mapping[str, Json],
        texts: Mapping[str, str],
        made_for: Mapping[str, Json],
        *,
        asks: tuple[str, str] = ("", ""),
    ) -> None:
        """``texts``: what differs from run to run, with what stands for it in the recording. ``made_for``: what else
        must be as it was, such as versions. ``asks``: a text, and what stands in its place in all that is asked."""
        self.stale: list[str] = list(differences(recording["made_for"], json.loads(json.dumps(made_for))))
        self._sessions = sessions_of(recording)
        self._texts = texts
        self._asks = asks
        self._lock = threading.Lock()
        self.played: dict[tuple[str, str], int] = {}

    def __call__(self, run: FakeRun) -> ExecResult:
        """What the container's program does."""
        trees = {mount: tree(path) for mount, path in run.mounts.items() if mount in SEEN}
        masks = Masks.of(run.spec, self._texts)
        given = given_to(run.spec, trees, masks)
        key = run.spec.env["AGENTV_EVAL_ID"], program_of(given)
        with self._lock:
            number = self.played.get(key, 0)
            self.played[key] = number + 1
        sessions = self._sessions.get(key, ())
        if number >= len(sessions):
            self._note(key, [f"only {len(sessions)} sessions were recorded"])
            return ExecResult(outcome="exited", exit_code=99, stdout=b"", stderr=b"not recorded")
        session = sessions[number]
        self._note(key, differences(session["given"], given))
        self._ask(key, session["asked"], masks, run)
        self._leave(session, masks, run)
        ended = session["ended"]
        stdout, stderr = (masks.unmasked(ended[name]).encode() for name in ("stdout", "stderr"))
        return ExecResult(
            outcome=ended["outcome"],
            exit_code=ended["exit_code"],
            stdout=stdout,
            stderr=stderr,
            stdout_total=len(stdout),
            stderr_total=len(stderr),
            duration_s=ended["duration_s"],
        )

    def check(self) -> None:
        """That every session was played as it was recorded."""
        left = sorted(key for key, rows in self._sessions.items() if len(rows) != self.played.get(key))
        stale = [*self.stale[:20], *(f"{test} of {program} was not played" for test, program in left)]
        lines = "\n  ".join(stale)
        assert not stale, f"recordings are out of date, make them anew by `make recordings`:\n  {lines}"

    def _note(self, key: tuple[str, str], problems: Sequence[str] | Any) -> None:
        with self._lock:
            self.stale += [f"{key[0]} of {key[1]}: {each}" for each in list(problems)[:_MOST_DIFFERENCES]]

    def _ask(
        self, key: tuple[str, str], requests: Sequence[Mapping[str, Json]], masks: Masks, run: FakeRun
    ) -> None:
        asks = self._asks if self._asks[0] else (" ", " ")
        for number, request in enumerate(requests, 1):
            body = json.dumps(request["body"]).replace(*asks) if request["body"] is not None else ""
            answer = answer_digest(_answer(request, masks.unmasked(body), masks, run), masks)
            if answer != request["reply"]:
                self._note(
                    key, [f"the answer to request {number}: recorded {request['reply']}, now {answer}"]
                )

    @staticmethod
    def _leave(session: Mapping[str, Json], masks: Masks, run: FakeRun) -> None:
        began = time.time()
        for path, text in session["left"].items():
            place = run.path(f"/workspace/{path}")
            if text is None:
                place.unlink()
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(masks.unmasked(text))
        for path, text in session.get("answered", {}).items():
            run.path(f"/output/{path}").write_text(masks.unmasked(text))
        lines = [_line(row, began, masks) for row in session["said"]]
        if lines:
            run.path("/output/events.jsonl").write_bytes(b"\n".join(lines))


def _line(row: Json, began: float, masks: Masks) -> bytes:
    if isinstance(row, str):
        return masks.unmasked(row).encode("latin-1")
    text = json.dumps({**moved(row, began - BEGUN), "at": round(began + row["at"], 3)})
    return masks.unmasked(text).encode()


def _answer(request: Mapping[str, Json], body: str, masks: Masks, run: FakeRun) -> Message | None:
    """What comes back for ``request``; nothing is waited for where nothing came when it was recorded."""
    headers = {name: masks.unmasked(value) for name, value in request["headers"].items()}
    connection = http.client.HTTPConnection("127.0.0.1", 3128, timeout=_PATIENCE_S)
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        with short_name(Path(run.path(MOUNT))) as folder:
            connection.sock.connect(str(folder / SOCKET))
        with suppress(BrokenPipeError):  # an answer may come before all is read
            connection.request(
                request["method"],
                masks.unmasked(request["path"]),
                body.encode(),
                {"host": "127.0.0.1:3128", **headers},
            )
        if not request["reply"]:
            return None
        return _read(connection.getresponse())
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse) -> Message:
    whole, data = True, b""
    try:
        data = response.read()
    except http.client.IncompleteRead:
        whole = False
    return Message(f"HTTP/1.1 {response.status} ", {}, data, whole, 0)
