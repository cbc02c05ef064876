"""What the environment decides about connections: proxies and certificate authorities."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agentv_sandbox.base.errors import LlmError
from agentv_sandbox.modelclient.llmclient import LlmClient
from agentv_sandbox.models.suite import Target
from agentv_sandbox.models_api.records import LlmReply, LlmRequest
from agentv_sandbox.providers import PROVIDERS
from tests.llm.servers import Server, chat


def target(url: str) -> Target:
    settings: dict[str, Any] = {"api_format": "chat", "base_url": url, "model": "m", "max_retries": 0}
    return Target(name="t", provider="openai", settings=settings)


def ask(llm: LlmClient, target: Target, request: LlmRequest) -> LlmReply:
    return PROVIDERS[target.provider].ask(target, request, llm)


def test_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server([chat("by proxy")]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("NO_PROXY", "")
        with LlmClient({}) as llm:
            reply = ask(llm, target("http://model.invalid/v1"), LlmRequest(user="U"))
    assert reply.text == "by proxy"
    assert proxy.asked[0].path == "http://model.invalid/v1/chat/completions"


def test_no_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server([chat("proxy")]) as proxy, Server([chat("direct")]) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with LlmClient({}) as llm:
            assert ask(llm, target(server.url), LlmRequest(user="U")).text == "direct"


def test_servers_of_this_machine_are_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with Server([chat("direct")]) as server, LlmClient({}) as llm:
        assert ask(llm, target(server.url), LlmRequest(user="U")).text == "direct"


def certificate(folder: Path, *names: str) -> Path:
    """A key and a certificate for 127.0.0.1, or for ``names``, that is its own authority, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName(each) for each in names] or [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            ),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    file = folder / "ca.pem"
    file.write_bytes(
        made.public_bytes(pem)
        + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file


def test_certificate_authorities_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(file)
    with Server([chat("trusted")], tls=tls) as server:
        with LlmClient({}) as llm, pytest.raises(LlmError, match="CERTIFICATE_VERIFY_FAILED"):
            ask(llm, target(server.url), LlmRequest(user="U"))
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        with LlmClient({}) as llm:
            assert ask(llm, target(server.url), LlmRequest(user="U")).text == "trusted"


def test_a_proxy_that_needs_another_package_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    with LlmClient({}) as llm, pytest.raises(LlmError, match="socksio") as caught:
        ask(llm, target("http://model.invalid/v1"), LlmRequest(user="U"))
    assert "ALL_PROXY" in caught.value.hint
