"""A credential that a server repeats, however its answer is cut."""

from __future__ import annotations

import base64
import html
import json
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import quote, quote_from_bytes

import pytest

from agentv_sandbox.egress.mask import Mask
from agentv_sandbox.models.suite import NetworkPolicy
from tests.egress.test_proxy import KEY, post, proxy

SECRET = b"sk-secret"
STARS = b"*" * len(SECRET)
TEXTS = {
    b"<" + SECRET + b">": b"<" + STARS + b">",
    SECRET * 2: STARS * 2,
    b"ends in its start sk-se": b"ends in its start sk-se",
    b"sk-sk-secret": b"sk-" + STARS,
    b"s": b"s",
}


@pytest.mark.parametrize("text", TEXTS)
def test_any_cut_gives_the_same(text: bytes) -> None:
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            mask = Mask(SECRET)
            parts = [mask.feed(part) for part in (text[:first], text[first:second], text[second:])]
            assert b"".join([*parts, mask.rest()]) == TEXTS[text]
            assert mask.rest() == b""


SPELLINGS = [
    base64.b64encode(SECRET),
    base64.b64encode(b"a" + SECRET + b"b"),
    base64.urlsafe_b64encode(b"ab" + SECRET),
    base64.b64encode(b"Bearer " + SECRET + b"\n"),
    SECRET.hex().encode(),
    SECRET.hex().upper().encode(),
    "".join(f"%{byte:02X}" for byte in SECRET).encode(),
    "".join(f"\\u{byte:04x}" for byte in SECRET).encode(),
]


LONG = b'sk-"live"/K7MDENG+bPxRfiCY=93'
SPELLED: dict[str, Callable[[bytes], bytes]] = {
    "as it is": bytes,
    "percent signs, lower case": lambda key: "".join(f"%{byte:02x}" for byte in key).encode(),
    "address, some kept": lambda key: quote_from_bytes(key, safe="/").encode(),
    "address, twice": lambda key: quote(quote_from_bytes(key, safe="")).encode(),
    "JSON": lambda key: json.dumps(key.decode()).replace("/", r"\/").encode(),
    "JSON in JSON": lambda key: json.dumps(json.dumps(key.decode())).encode(),
    "JSON, each character": lambda key: "".join(f"\\u{byte:04x}" for byte in key).encode(),
    "HTML": lambda key: html.escape(key.decode()).encode(),
    "HTML, decimal": lambda key: "".join(f"&#{byte};" for byte in key).encode(),
    "base64": base64.b64encode,
    "base64 in lines": lambda key: b"+" + base64.encodebytes(key * 3)[:40].replace(b"M", b"M\n+", 1),
}


@pytest.mark.parametrize("text", SPELLINGS)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_other_spellings_are_masked_too(text: bytes, size: int) -> None:
    mask, whole = Mask(SECRET), b'{"said": "' + text + b'"}'
    passed = b"".join(mask.feed(whole[at : at + size]) for at in range(0, len(whole), size)) + mask.rest()
    assert len(passed) == len(whole)
    assert passed.startswith(b'{"said": "')
    assert passed.count(b"*") >= len(SECRET)
    for readable in (base64.b64decode, bytes.fromhex):
        with suppress(ValueError):
            assert SECRET[2:-2] not in readable(passed[10:-2].decode().replace("*", "0"))


@pytest.mark.parametrize("how", SPELLED)
def test_every_cut_of_every_spelling_is_masked(how: str) -> None:
    """Also one that ends within an escape; what was held back by mistake is passed on in the end."""
    whole = b"say " + SPELLED[how](LONG) + b" bye"
    expected = Mask(LONG).whole(whole)
    assert expected.count(b"*") > len(LONG) // 2
    for cut in range(len(whole) + 1):
        mask = Mask(LONG)
        assert _stars(mask.feed(whole[:cut]) + mask.feed(whole[cut:]) + mask.rest()) == _stars(expected), cut
    mask = Mask(LONG)
    bytewise = b"".join(mask.feed(bytes((byte,))) for byte in whole) + mask.rest()
    assert _stars(bytewise) == _stars(expected)


def _stars(masked: bytes) -> bytes:
    """The semicolon of the last entity may come behind what is known to be all of the credential."""
    return re.sub(rb"\*+;?", b"*", masked)


def test_an_event_of_a_stream_is_passed_on_at_once() -> None:
    mask = Mask(LONG)
    for event in (b'data: {"delta": "word"}\n\n', b"data: [DONE]\n\n", b": ping\n\n"):
        assert mask.feed(event) == event


def test_a_short_credential_hides_no_other_text() -> None:
    mask = Mask(b"key")
    assert mask.feed(b"a key and 6b6579") + mask.rest() == b"a *** and 6b6579"


def test_without_a_credential_nothing_is_held_back() -> None:
    mask = Mask(b"")
    assert (mask.feed(b"text"), mask.rest()) == (b"text", b"")


def test_an_answer_that_ends_in_the_start_of_a_credential_is_whole() -> None:
    end = KEY[:5].encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                while not client.recv(65536).endswith(b"{}"):
                    pass
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + end)

        thread = threading.Thread(target=serve)
        thread.start()
        options = {"host": f"127.0.0.1:{port}", "scheme": "http", "prefix": ""}
        with proxy().grant(NetworkPolicy(), {"MODEL_KEY": options}) as grant:
            answer = post(grant, f"/127.0.0.1:{port}/", {"Authorization": grant.env["MODEL_KEY"]})
        thread.join(10)
    assert answer.endswith(b"\r\n\r\n" + end)
