"""Hosts as people write them in allow lists and for credentials: what is wrong, and what to write instead."""

from __future__ import annotations

import re

from agentv_sandbox.authoring.tree import show
from agentv_sandbox.egress.endpoint import Refused, parse_allow, parse_endpoint

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(?:[^/?#@]*@)?([^/?#]+)", re.IGNORECASE)
_PORTS = {"https": 443, "http": 80}


def allowed_host(text: str) -> str:
    """An entry of ``network.allow`` in its one spelling. Raises ValueError."""
    if url := _URL.match(text.strip()):
        scheme, host = url[1].lower(), url[2]
        port = "" if re.search(r":[0-9]+\Z", host) else f":{_PORTS.get(scheme, 443)}"
        raise ValueError(f"must be host:port, not a URL; write {host}{port}, found {show(text)}")
    if "*" in text:
        raise ValueError(
            f"must name one host; there are no wildcards, list each host as host:port, found {show(text)}"
        )
    if ":" not in text:
        raise ValueError(f"names no port; write host:port, such as {text}:443, found {show(text)}")
    try:
        return str(parse_allow(text))
    except Refused as error:
        raise ValueError(f"must be host:port, such as pypi.org:443, found {show(text)}: {error}") from None


def secret_host(text: str) -> str:
    """The one server of a credential, as it was written. Raises ValueError."""
    if url := _URL.match(text.strip()):
        also = " and scheme: http" if url[1].lower() == "http" else ""
        raise ValueError(f"must be a host, not a URL; write {url[2]}{also}, found {show(text)}")
    if "*" in text:
        raise ValueError(
            f"must name the one server that gets the credential, without wildcards, found {show(text)}"
        )
    try:
        parse_endpoint(text, default_port=443)
    except Refused as error:
        raise ValueError(f"must be a host, such as api.example.com, found {show(text)}: {error}") from None
    return text
