"""One registry, asked over HTTP: who we are, what it answers, within bounds of bytes and time."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from agentv_sandbox import masking
from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.errors import Cancelled
from agentv_sandbox.base.lazy import calling, lazily
from agentv_sandbox.base.logs import safe_text
from agentv_sandbox.base.webclient import tls_context, without_proxy
from agentv_sandbox.models.json.records import JsonRecord
from agentv_sandbox.models.json.untrusted import ForeignJsonError, read_json
from agentv_sandbox.registry.references import ImageReference

if TYPE_CHECKING:
    import httpx

    from agentv_sandbox.engines.docker.logins import Login, login_of
else:
    httpx = lazily("httpx")
    login_of = calling("agentv_sandbox.engines.docker.logins", "login_of")

MANIFEST_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
MOST_DOCUMENT_BYTES = 8 << 20
_CHUNK = 1 << 17
_SILENCE_S, _CONNECT_S = 60.0, 10.0
_CERTIFICATES = Path("/etc/docker/certs.d")
_CHALLENGE = re.compile(r'([a-z]+)="([^"]*)"')


class RegistryError(Exception):
    """A registry does not give what was asked for; the text is for people."""


@dataclass(kw_only=True)
class RegistryClient:
    """Asks for one repository. A context manager."""

    reference: ImageReference
    deadline: float
    """``time.monotonic`` seconds."""
    cancelled: Callable[[], bool]
    host: str = ""
    """Of a mirror; empty for the reference's own registry."""
    _scheme: str = "https"
    _headers: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> RegistryClient:
        self.host = self.host or self.reference.host
        left = max(self.deadline - time.monotonic(), 0.1)
        self._client = httpx.Client(
            timeout=httpx.Timeout(min(_SILENCE_S, left), connect=min(_CONNECT_S, left)),
            follow_redirects=True,  # the library keeps credentials to the host that they are for
            verify=tls_context(str(_CERTIFICATES / self.host / "ca.crt")),
            mounts=without_proxy(),
        )
        # A read ends when nothing comes; who sends a byte now and then, before the first line of an answer is whole,
        # holds nobody up either.
        self._end = threading.Timer(left, self._client.close)
        self._end.daemon = True
        self._end.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.cancel()
        self._client.close()

    # -- what is asked --------------------------------------------------------------------------------
    def manifest(self, wanted: str) -> tuple[bytes, str]:
        """A manifest or an index by tag or digest, and its digest. Raises RegistryError."""
        with self._answer(f"manifests/{wanted}", {"Accept": ", ".join(MANIFEST_TYPES)}) as response:
            data = b"".join(self._chunks(response, MOST_DOCUMENT_BYTES))
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        if wanted.startswith("sha256:") and wanted != digest:
            raise RegistryError("verification failed: the manifest is not the one with this digest")
        return data, digest

    def blob(self, digest: str, size: int, out: IO[bytes]) -> None:
        """Write exactly the ``size`` bytes with this digest to ``out``. Raises RegistryError."""
        seen, written = hashlib.sha256(), 0
        with self._answer(f"blobs/{digest}", {"Accept-Encoding": "identity"}) as response:
            for chunk in self._chunks(response, size):
                seen.update(chunk)
                written += out.write(chunk)
        if written != size or f"sha256:{seen.hexdigest()}" != digest:
            raise RegistryError(f"verification failed: what came is not {digest[:19]}…")

    # -- how ------------------------------------------------------------------------------------------
    def _chunks(self, response: httpx.Response, most: int) -> Iterator[bytes]:
        received = 0
        for chunk in response.iter_raw(_CHUNK):
            self._stop_if_due()
            received += len(chunk)
            if received > most:
                raise RegistryError(f"more than the {most} bytes that were announced")
            yield chunk

    def _stop_if_due(self) -> None:
        if self.cancelled():
            raise Cancelled
        if time.monotonic() > self.deadline:
            raise RegistryError("not done in time")

    @contextmanager
    def _answer(self, path: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """A good answer; who we are is said when the registry wants to know."""
        for attempt in range(3):
            self._stop_if_due()
            try:
                with self._client.stream(
                    "GET", self._url(path), headers={**headers, **self._headers}
                ) as response:
                    if response.status_code == 401 and attempt < 2:
                        self._log_in(response)
                        continue
                    if response.status_code != 200:
                        raise RegistryError(_reason(response))
                    yield response
                    return
            except httpx.ConnectError as error:
                if not self._may_be_plain(error):
                    raise RegistryError(safe_text(str(error), limit=300)) from error
                self._scheme = "http"
            except (httpx.HTTPError, RuntimeError) as error:  # the second where it was closed meanwhile
                said = safe_text(str(error), limit=300) or type(error).__name__
                raise RegistryError(f"no progress and no answer from the registry ({said})") from error
        raise RegistryError("unauthorized: the registry does not take the login")

    def _url(self, path: str) -> str:
        return f"{self._scheme}://{self.host}/v2/{self.reference.repository}/{path}"

    def _may_be_plain(self, error: Exception) -> bool:
        """On this machine a registry without TLS is asked without; one whose certificate is not known is not."""
        text = str(error).lower()
        no_tls = "wrong version number" in text or "record layer" in text or "unknown protocol" in text
        return self._scheme == "https" and self.reference.is_local and no_tls

    # -- who we are -----------------------------------------------------------------------------------
    def _log_in(self, response: httpx.Response) -> None:
        challenge = response.headers.get("WWW-Authenticate", "")
        kind, _, rest = challenge.partition(" ")
        login = login_of(self.reference.registry) if self.host == self.reference.host else None
        if kind.lower() == "basic":
            if login is None or self._headers:
                raise RegistryError("unauthorized: authentication required")
            self._headers = {"Authorization": _basic(login)}
        elif kind.lower() == "bearer":
            self._headers = {"Authorization": f"Bearer {self._token(dict(_CHALLENGE.findall(rest)), login)}"}
        else:
            raise RegistryError(_reason(response))

    def _token(self, challenge: Mapping[str, str], login: Login | None) -> str:
        realm = challenge.get("realm", "")
        parts = urlsplit(realm)
        if parts.scheme != "https" and not (parts.scheme == "http" and self._scheme == "http"):
            raise RegistryError("the registry names no safe address of its token service")
        asked = {
            "service": challenge.get("service", ""),
            "scope": challenge.get("scope", f"repository:{self.reference.repository}:pull"),
        }
        if login is not None and login.token:
            form = {
                **asked,
                "grant_type": "refresh_token",
                "refresh_token": login.token,
                "client_id": "agentv-sandbox",
            }
            request = self._client.build_request("POST", realm, data=form)
        else:
            headers = {"Authorization": _basic(login)} if login is not None else {}
            request = self._client.build_request("GET", realm, params=asked, headers=headers)
        response = self._client.send(request, stream=True, follow_redirects=False)
        try:
            data = b"".join(self._chunks(response, MOST_DOCUMENT_BYTES))
        finally:
            response.close()
        if response.status_code != 200:
            raise RegistryError(_said(response.status_code, data))
        try:
            answer = _Answer.of(read_json(data))
        except ForeignJsonError as error:
            raise RegistryError("the token service's answer cannot be read") from error
        token = answer.token or answer.access_token
        if not token or not token.isascii() or not token.isprintable():
            raise RegistryError("the token service gives no token")
        masking.know([token])
        return token


class _Error(JsonRecord):
    code: str
    message: str


class _Answer(JsonRecord):
    """Of a token service, or of a registry that refuses."""

    token: str
    access_token: str
    errors: tuple[_Error, ...]


def _basic(login: Login) -> str:
    return "Basic " + base64.b64encode(f"{login.user}:{login.password}".encode()).decode()


def _reason(response: httpx.Response) -> str:
    data = b""
    for chunk in response.iter_raw(_CHUNK):
        data += chunk
        if len(data) > _CHUNK:
            break
    return _said(response.status_code, data)


def _said(status: int, data: bytes) -> str:
    """What a registry says of an error, beside its status."""
    text = ""
    with suppress(ForeignJsonError):
        text = "; ".join(f"{error.code}: {error.message}" for error in _Answer.of(read_json(data)).errors)
    words = {401: "unauthorized", 403: "denied", 404: "not found", 429: "toomanyrequests"}
    return safe_text(f"the registry answered {status} {words.get(status, '')} {text}".rstrip(), limit=600)
