"""A node's address: where to connect, how it is named to it, and its TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Address:
    """`authority` is what Host would be; `is_name`: a DNS name, by which cloud gateways route (not localhost)."""

    host: str
    port: int
    is_tls: bool
    authority: bytes
    is_name: bool


def parse_address(url: str) -> Address:
    """The address in an `http(s)://host[:port]` URL; raises ValueError for anything else."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not an http:// or https:// address")
    host = parts.hostname
    try:
        ip_address(host)
        is_name = False
    except ValueError:
        is_name = host != "localhost" and not host.endswith(".localhost")
    is_tls = parts.scheme == "https"
    authority = parts.netloc.rpartition("@")[2].encode("idna" if not parts.netloc.isascii() else "ascii")
    return Address(host, parts.port or (443 if is_tls else 80), is_tls, authority, is_name)


class ResumingContext(ssl.SSLContext):
    """A client's TLS context that offers each host its last session, so that a new connection costs one round trip
    less (asyncio has no argument for it)."""

    _sessions: dict[str, ssl.SSLSession]

    def remember(self, connection: ssl.SSLObject) -> None:
        """Keep a connection's session. TLS 1.3 hands it out after the handshake: ask when a response is in."""
        name, session = connection.server_hostname, connection.session
        if name and session is not None:
            self._known()[name] = session

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        kwargs.setdefault("session", self._known().get(kwargs.get("server_hostname") or ""))
        return super().wrap_bio(*args, **kwargs)

    def _known(self) -> dict[str, ssl.SSLSession]:
        try:
            return self._sessions
        except AttributeError:
            self._sessions = {}
            return self._sessions


def client_context(*, verify: bool, ca_file: Path | None) -> ResumingContext:
    """The TLS context for `https://` nodes; raises OSError (ssl.SSLError) where `ca_file` cannot be used."""
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    if verify:
        context.load_default_certs()
        if ca_file is not None:
            context.load_verify_locations(ca_file)
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context
