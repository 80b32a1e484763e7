"""Heads: what came in, checked once, and what goes out. No sockets here.

What always holds: a head that we send is built from the parsed one, never copied raw, so nobody behind us can read
it differently than we did. End-to-end fields keep their bytes, case, order and repetitions; hop-by-hop fields
(RFC 9110, 7.6.1) and the forwarding fields are ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from proxy.errors import (
    BodyTooLarge,
    ExpectationFailed,
    HeadTooLarge,
    LoopDetected,
    MalformedRequest,
    MethodRefused,
)
from proxy.http.peer import Peer
from proxy.records import path_of

if TYPE_CHECKING:
    from proxy.http.spool import Spool

Field = tuple[bytes, bytes]

SAFE_METHODS = frozenset((b"GET", b"HEAD", b"OPTIONS", b"TRACE"))
_HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"transfer-encoding", b"upgrade")
)
_FORWARDING = frozenset((b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"forwarded", b"via"))
_OURS = (
    _HOP_BY_HOP | _FORWARDING | {b"host", b"content-length", b"expect", b"x-request-id", b"http2-settings"}
)
_SPECIAL = _OURS | {b"prefer"}
# Naming one of these in Connection does not make it hop-by-hop: the node needs them (RFC 9110, 7.6.1).
_NEVER_NOMINATED = frozenset((b"host", b"content-length", b"content-type", b"authorization", b"x-request-id"))
# Fields that must not come as trailers: framing, routing, authentication (RFC 9110, 6.5.1).
_NEVER_TRAILERS = _OURS | {
    b"trailer", b"content-encoding", b"content-type", b"content-range", b"authorization", b"cookie", b"set-cookie",
    b"cache-control", b"proxy-authorization",
}  # fmt: skip
_NO_TOKENS: frozenset[bytes] = frozenset()
_HOST = re.compile(rb"[A-Za-z0-9\-._~%!$&'()*+,;=:\[\]]*")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@~\-]{1,128}")


class Request:
    """A checked request. `before_host + Host's value + after_host` is its head for a node, without framing end.

    `length` is the body's (None: chunked, known once it is received). `upgrade` is the protocol asked for.
    `may_be_job`: its Prefer names `respond-async` (RFC 7240).
    `body` and `trailers` are filled as they come.
    """

    __slots__ = (
        "_after_host",
        "_before_host",
        "_forwarding",
        "_has_own_id",
        "body",
        "expects_continue",
        "host",
        "is_http10",
        "keeps_alive",
        "length",
        "may_be_job",
        "method",
        "request_id",
        "target",
        "trailers",
        "upgrade",
    )

    def __init__(self, method: bytes, target: bytes) -> None:
        self.method = method
        self.target = target
        self._before_host = b""
        self._after_host = b""
        self._forwarding = b""
        self._has_own_id = False  # it came with one
        self.host = b""
        self.length: int | None = 0
        self.is_http10 = False
        self.keeps_alive = True
        self.expects_continue = False
        self.upgrade: bytes | None = None
        self.may_be_job = False
        self.request_id = b""
        self.body: Spool | None = None
        self.trailers: list[Field] | None = None

    @property
    def is_head(self) -> bool:
        return self.method == b"HEAD"

    @property
    def is_safe(self) -> bool:
        return self.method in SAFE_METHODS

    @property
    def path(self) -> str:
        """The target without its query, for logs and pages."""
        return path_of(self.target)

    def again(self, new_id: bytes) -> Request:
        """Another request with the same head, its body still to come."""
        request = Request(self.method, self.target)
        request._before_host = self._before_host
        request._after_host = self._after_host
        request._forwarding = self._forwarding
        request._has_own_id = self._has_own_id
        request.host = self.host
        request.length = self.length
        request.is_http10 = self.is_http10
        request.keeps_alive = self.keeps_alive
        request.expects_continue = self.expects_continue
        request.upgrade = self.upgrade
        request.may_be_job = self.may_be_job
        request.request_id = self.request_id if self._has_own_id else new_id
        return request

    def stored_fields(self) -> list[Field]:
        """The fields that it is sent with, its framing and ours included, for `from_stored`."""
        lines = self.head_for(None).split(b"\r\n")[1:-2]
        return [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]

    def head_for(self, host: bytes | None) -> bytes:
        """The head to send; `host` replaces the client's Host, None keeps it."""
        if self.length is not None:
            end = b"\r\n"
        elif self.trailers:
            end = b"Transfer-Encoding: chunked\r\n\r\n"
        else:  # its length is known by now, and single-threaded servers often cannot read chunked bodies
            end = b"Content-Length: %d\r\n\r\n" % (self.body.size if self.body is not None else 0)
        return b"%b%b\r\n%b%b%b%b" % (
            self._before_host,
            host or self.host,
            self._after_host,
            b"" if self._has_own_id else b"X-Request-Id: %b\r\n" % self.request_id,
            self._forwarding,
            end,
        )


def from_stored(
    method: bytes, target: bytes, fields: Iterable[Field], trailers: Sequence[Field], length: int
) -> Request:
    """The request whose `stored_fields` these are, or some of them; `length` of its body, still to come."""
    request = Request(method, target)
    lines = [b"%b %b HTTP/1.1\r\n" % (method, target), b"Host: "]
    after = []
    for name, value in fields:
        key = name.lower()
        if key == b"host":
            lines[-1] = name + b": "
            request.host = value
        else:
            if key == b"x-request-id":
                request.request_id = value
            after.append(b"%b: %b\r\n" % (name, value))
    request._before_host = b"".join(lines)
    request._after_host = b"".join(after)
    request._has_own_id = True
    request.length = length
    request.trailers = list(trailers) or None
    return request


def check_request(
    method: bytes,
    target: bytes,
    version: str,
    fields: list[Field],
    peer: Peer,
    new_id: bytes,
    *,
    max_header_bytes: int,
    max_body_bytes: int,
) -> Request:
    """The request that a parsed head makes; raises the `RequestError` that it deserves (RFC 9112, 3 and 6)."""
    if version not in ("1.1", "1.0"):
        raise MalformedRequest(f"HTTP/{version} is not spoken here")
    if method == b"CONNECT":
        raise MethodRefused("CONNECT is for forward proxies")
    request = Request(method, target)
    request.is_http10 = version == "1.0"
    request.request_id = b""
    tokens = _connection_tokens(fields)
    came: dict[bytes, list[bytes]] = {}
    lines = [b"%b %b HTTP/1.1\r\n" % (method, target)]
    host_at = 0
    size = len(target) + len(method)
    for name, value in fields:
        size += len(name) + len(value) + 4
        key = name.lower()
        value = value.rstrip(b" \t")
        if key not in _SPECIAL:
            if key in tokens and key not in _NEVER_NOMINATED:
                continue
        elif key == b"host":
            if host_at:
                raise MalformedRequest("more than one Host field")
            request.host = value
            lines.append(name + b": ")
            host_at = len(lines)
            continue
        elif key == b"content-length":
            request.length = int(value)  # llhttp has seen to it that these are digits, given once
        elif key == b"x-request-id":
            if request.request_id or not _REQUEST_ID.fullmatch(value):
                continue
            request.request_id = value
            request._has_own_id = True
        elif key == b"transfer-encoding":
            if value.lower() != b"chunked" or request.length is None or request.is_http10:
                raise MalformedRequest("Transfer-Encoding can only be chunked, once, in HTTP/1.1")
            request.length = None
            continue
        elif key == b"expect":
            if value.lower() != b"100-continue":
                raise ExpectationFailed("only 100-continue can be expected")
            request.expects_continue = not request.is_http10
            continue
        elif key == b"prefer":
            if key in tokens:
                continue
            request.may_be_job = request.may_be_job or b"respond-async" in value.lower()
        else:
            came.setdefault(key, []).append(value)
            continue
        lines.append(b"%b: %b\r\n" % (name, value))
    if size > max_header_bytes:
        raise HeadTooLarge(f"the head is larger than {max_header_bytes} bytes (max_header_bytes)")
    if not host_at:
        if not request.is_http10:
            raise MalformedRequest("no Host field")
        lines.insert(1, b"Host: ")
        host_at = 2
    if not _HOST.fullmatch(request.host):
        raise MalformedRequest("Host is malformed")
    if any(peer.pseudonym in via for via in came.get(b"via", ())):
        raise LoopDetected("this request has passed through here before")
    if request.length is not None and request.length > max_body_bytes:
        raise BodyTooLarge(f"the body is larger than {max_body_bytes} bytes (max_body_bytes)")
    if request.is_http10:
        request.keeps_alive = b"keep-alive" in tokens and b"close" not in tokens
    else:
        request.keeps_alive = b"close" not in tokens
    if tokens:
        lines += _own_connection_fields(request, tokens, came)
    if not request._has_own_id:
        request.request_id = new_id
    # Not joined into the head while it waits: the bytes are the connection's, shared by all its requests.
    request._forwarding = peer.forwarding_fields(request.host, request.is_http10, came)
    request._before_host = b"".join(lines[:host_at])
    request._after_host = b"".join(lines[host_at:])
    return request


def _connection_tokens(fields: list[Field]) -> frozenset[bytes]:
    values = [value for name, value in fields if name.lower() == b"connection"]
    return (
        frozenset(token.strip().lower() for value in values for token in value.split(b","))
        if values
        else _NO_TOKENS
    )


def _own_connection_fields(
    request: Request, tokens: frozenset[bytes], came: dict[bytes, list[bytes]]
) -> list[bytes]:
    """Our hop's own Connection, for what a client may ask of the node: trailers, an Upgrade (RFC 9110, 7.8)."""
    lines: list[bytes] = []
    names: list[bytes] = []
    if b"te" in tokens and any(b"trailers" in value.lower() for value in came.get(b"te", ())):
        lines.append(b"TE: trailers\r\n")
        names.append(b"TE")
    # With a body it is read as an ordinary request, as a server may (HTTP clients ask for h2c that way).
    if b"upgrade" in tokens and b"upgrade" in came and not request.is_http10 and request.length == 0:
        request.upgrade = b", ".join(came[b"upgrade"])
        lines.append(b"Upgrade: %b\r\n" % request.upgrade)
        names.append(b"Upgrade")
        if settings := came.get(b"http2-settings"):
            lines += [b"HTTP2-Settings: %b\r\n" % value for value in settings]
            names.append(b"HTTP2-Settings")
    return [*lines, b"Connection: %b\r\n" % b", ".join(names)] if names else []


def fields_named(fields: Iterable[Field], name: bytes) -> list[bytes]:
    """The values of the fields of this (lower-case) name."""
    return [value for key, value in fields if key.lower() == name]


def fields_size(fields: list[Field]) -> int:
    """The bytes of these fields on the wire."""
    return sum(len(name) + len(value) + 4 for name, value in fields)


def allowed_trailers(fields: list[Field]) -> list[Field]:
    """The trailers that may travel on: nothing that frames, routes or authenticates (RFC 9110, 6.5.1)."""
    return [(name, value.strip(b" \t")) for name, value in fields if name.lower() not in _NEVER_TRAILERS]


def trailer_bytes(fields: list[Field] | None) -> bytes:
    """The end of a chunked body, from its last chunk on."""
    return b"0\r\n%b\r\n" % b"".join(b"%b: %b\r\n" % field for field in fields or ())
