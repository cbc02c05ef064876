"""What went wrong on the way out, in a few sentences for the row of a test that failed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from agentv_sandbox.models.json.records import JsonRecord

_MOST = 3
_BAD_GATEWAY = 502
_FIRST_ERROR = 400


class LoggedVisit(JsonRecord):
    """A line of the log of requests."""

    endpoint: str
    route: str
    decision: str
    reason: str
    status: int | None
    gateway: bool


def visits(log: str) -> Iterator[LoggedVisit]:
    return (LoggedVisit.of(json.loads(line)) for line in log.splitlines())


def network_troubles(log: str) -> tuple[str, ...]:
    """Sentences about the requests of ``log`` (``Grant.log``) that did not succeed, likeliest reason first: a server
    that could be asked and did not work, then what was refused, then answers of servers that were errors. Within
    each, what happened most often."""
    return _sentences(_counted(log))


def server_faults(log: str) -> tuple[str, ...]:
    """Those about servers that may be asked and did not work: worth knowing of a test that passed, too."""
    return _sentences({trouble: count for trouble, count in _counted(log).items() if trouble[0] == 0})


def _counted(log: str) -> Mapping[tuple[int, str], int]:
    """How often each trouble happened: its class and its sentence."""
    return Counter(filter(None, map(_trouble, visits(log))))


def _sentences(found: Mapping[tuple[int, str], int]) -> tuple[str, ...]:
    ordered = sorted(found.items(), key=lambda item: (item[0][0], -item[1]))
    sentences = [f"{text} ({count} times)" if count > 1 else text for (_, text), count in ordered[:_MOST]]
    if len(ordered) > _MOST:
        sentences.append(f"{len(ordered) - _MOST} more kinds of trouble are in network.jsonl")
    return tuple(sentences)


def _trouble(row: LoggedVisit) -> tuple[int, str] | None:
    where, reason = row.endpoint or row.route or "the proxy", row.reason
    if row.status == _BAD_GATEWAY and reason:
        return 0, f"{where} could not be used: {reason}{_tls_hint(reason)}"
    if row.decision == "refused":
        if row.gateway:
            return None  # ``Grant.model_refusals`` says it
        if "does not resolve" in reason:
            return 0, f"{where} could not be used: {reason}"
        more = "; network.allow lists what may be reached" if "not on the allow list" in reason else ""
        return 1, f"refused: {reason}{more}"
    if reason:
        return 0, f"{where}: {reason}"
    if row.status is not None and row.status >= _FIRST_ERROR:
        return 2, f"{where} answered with status {row.status}"
    return None


def _tls_hint(reason: str) -> str:
    if "WRONG_VERSION_NUMBER" in reason or "wrong version number" in reason:
        return "; does it speak plain HTTP? Then its secret needs `scheme: http`"
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return "; its certificate is not trusted on this machine"
    return ""
