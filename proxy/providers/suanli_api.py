"""Calls to the Suanli Open API: headers, signature, envelope, and what each failure means.

What always holds:
- Only reads are sent again, a few times and with growing pauses; a write is sent at most once.
- A write that fails is `may_have_worked` unless the API refused it or it provably never left: no connection.
- No header is logged, and no error shows the token or another secret, also where the API sends it back.
- No connection is kept between calls: a write never meets one that the API has just closed, which would leave
  its effect unknown for nothing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from pydantic import BaseModel, ValidationError

from proxy.errors import ConfigError, ProviderError

_VERSION = "1.0.0"
_OK = "0000"
# The vendor lists its codes without a meaning; these are read off a public client and the vendor's example.
_AUTH_CODES = {"A003", "C001", "C002", "C004", "C005", "C006", "C007"}
_BUSY_CODES = {"C008", "C009"}
_INTERNAL_CODES = {"C999"}
_PAUSES_SECS = (0.5, 2.0)
_LONGEST_PAUSE_SECS = 20.0  # asked to wait longer, a read fails and says for how long
_SHOWN_CHARACTERS = 300


class PassingError(ProviderError):
    """A failure that may be over the next time: nothing was refused for good."""


class _Envelope(BaseModel):
    code: str
    message: Any = None
    data: Any = None


def load_key(path: Path) -> rsa.RSAPrivateKey:
    """The RSA key of a PEM file without password. Raises ConfigError, which shows nothing of its content."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        why = error.strerror if isinstance(error, OSError) else "expected a PEM private key without password"
        raise ConfigError([f"private_key_file {path}: {why}"]) from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ConfigError([f"private_key_file {path}: expected an RSA key"])
    return key


def sign(key: rsa.RSAPrivateKey, target: str, timestamp: str, token: str, body: bytes) -> str:
    """`sign_str`: `target` is the path with its query as sent, `body` is empty for a GET."""
    text = "\n".join((target, _VERSION, timestamp, token, "")).encode() + body
    return base64.b64encode(key.sign(text, padding.PKCS1v15(), hashes.SHA256())).decode()


class SuanliApi:
    """`secrets`: what must not be shown besides the token. `timeout_secs`: of one call, answer included."""

    def __init__(
        self,
        base_url: str,
        token: str,
        key: rsa.RSAPrivateKey | None = None,
        *,
        timeout_secs: float = 30.0,
        secrets: Iterable[str] = (),
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._token = token
        self._base_url = base_url.rstrip("/")
        self._key = key
        self._timeout_secs = timeout_secs
        self._sleep = sleep
        forms = {form for secret in (self._token, *secrets) for form in _written_forms(secret)}
        ordered = sorted(forms, key=len, reverse=True)  # the longest first: one may be part of another
        self._secrets = re.compile("|".join(map(re.escape, ordered)) or r"(?!)", re.IGNORECASE)
        self._client: httpx.AsyncClient | None = None

    async def open(self) -> None:
        for name in ("httpx", "httpcore"):  # at debug level they log the headers of answers, which may echo
            logging.getLogger(name).setLevel(logging.WARNING)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(self._timeout_secs, connect=min(10.0, self._timeout_secs / 2)),
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def read(self, path: str, query: Mapping[str, str | int]) -> Any:
        """GET; the envelope's `data`. Raises ProviderError, `PassingError` where it may work later."""
        target = f"{path}?{urlencode(query)}"
        for pause in _PAUSES_SECS:
            try:
                return await self._call("GET", target, b"")
            except PassingError as error:
                wait = error.retry_after_secs
                if wait is None:
                    wait = pause * (0.5 + random.random())
                if wait > _LONGEST_PAUSE_SECS:
                    raise
            await self._sleep(wait)
        return await self._call("GET", target, b"")

    async def write(self, path: str, body: Mapping[str, Any]) -> Any:
        """POST, once; the envelope's `data`. Raises ProviderError."""
        return await self._call("POST", path, json.dumps(body, ensure_ascii=False).encode())

    async def _call(self, method: str, target: str, body: bytes) -> Any:
        if self._client is None:
            raise ProviderError("the Suanli provider is not open")
        what = "/".join(target.partition("?")[0].split("/")[-2:])
        is_write = method == "POST"
        try:
            async with asyncio.timeout(self._timeout_secs):
                response = await self._client.request(
                    method, self._base_url + target, content=body, headers=self._headers(target, body)
                )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise PassingError(
                f"cannot reach Suanli for {what}: {self._masked(str(error)) or 'timeout'}"
            ) from None
        except (httpx.HTTPError, TimeoutError) as error:
            why = (
                f"no answer within {self._timeout_secs:g} s"
                if isinstance(error, TimeoutError | httpx.TimeoutException)
                else self._masked(str(error)) or type(error).__name__
            )
            raise PassingError(f"Suanli did not answer {what}: {why}", may_have_worked=is_write) from None
        return self._data(what, response, is_write)

    def _headers(self, target: str, body: bytes) -> dict[str, str]:
        timestamp = str(int(time.time() * 1000))
        headers = {
            "token": self._token,
            "timestamp": timestamp,
            "version": _VERSION,
            "user-agent": "fifo-proxy",
        }
        if body:
            headers["content-type"] = "application/json"
        if self._key is not None:
            headers["sign_str"] = sign(self._key, target, timestamp, self._token, body)
        return headers

    def _data(self, what: str, response: httpx.Response, is_write: bool) -> Any:
        """What the answer says; neither its HTTP status nor its code alone means success."""
        status = response.status_code
        try:
            envelope = _Envelope.model_validate_json(response.content)
        except ValidationError:
            code, said = None, f"not the API's JSON: {response.text}"
        else:
            code, said = envelope.code, f"{envelope.code} {envelope.message or ''}"
            if code == _OK and status < 300:
                return envelope.data
        text = f"Suanli answered {what} with HTTP {status}, {self._masked(said)}"
        retry_after_secs = _retry_after(response.headers.get("retry-after", ""))
        if status in (401, 403) or (code in _AUTH_CODES and status < 500):
            raise ProviderError(text, is_auth=True)
        if status == 429 or (code in _BUSY_CODES and status < 500):
            raise PassingError(text, retry_after_secs=retry_after_secs)
        if (
            status >= 500
            or status == 408
            or code in _INTERNAL_CODES
            or code == _OK
            or (status < 300 and not code)
        ):
            raise PassingError(text, may_have_worked=is_write, retry_after_secs=retry_after_secs)
        raise ProviderError(text)

    def _masked(self, text: str) -> str:
        """One short line without secrets; cut only after masking, or half a secret could be left."""
        masked = self._secrets.sub("***", text)
        line = " ".join("".join(c if c.isprintable() else " " for c in masked).split())
        return line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "..."


def _written_forms(secret: str) -> set[str]:
    """How a text may be found in an answer: as it is, in JSON (some escape slashes), in a URL."""
    in_json = json.dumps(secret)[1:-1]
    return {form for form in (secret, in_json, in_json.replace("/", r"\/"), quote(secret, safe="")) if form}


def _retry_after(value: str) -> float | None:
    """`Retry-After` in seconds from now, given as seconds or as a date; None where it cannot be read."""
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
