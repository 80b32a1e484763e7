"""Response heads: a node's, checked and made into the client's; and the responses that are our own.

What always holds: the client can tell a whole response from one that broke off. A node's response that ends with its
connection is chunked for an HTTP/1.1 client, so its last chunk is the proof; an HTTP/1.0 client gets no more than
the node gave.
"""

from __future__ import annotations

import json
from email.utils import formatdate
from enum import Enum, auto
from http import HTTPStatus

from proxy.errors import NodeAnsweredBadly, RequestError
from proxy.http.message import Field, Request

# What is looked at; all but Content-Length is dropped: hop-by-hop, or ours.
_SPECIAL = frozenset(
    (
        b"content-length", b"connection", b"keep-alive", b"proxy-connection", b"te", b"transfer-encoding", b"upgrade",
        b"x-request-id",
    )
)  # fmt: skip


class Framing(Enum):
    """How a body's end is known."""

    NONE = auto()
    LENGTH = auto()
    CHUNKED = auto()
    EOF = auto()


class Response:
    """A node's checked response head. `fields` are the end-to-end ones, ready to be sent."""

    __slots__ = ("fields", "framing", "keeps_alive", "length", "reason", "status", "upgrade")

    def __init__(self, status: int, reason: bytes) -> None:
        self.status = status
        self.reason = reason
        self.fields = b""
        self.framing = Framing.EOF
        self.length = 0
        self.keeps_alive = True
        self.upgrade: bytes | None = None

    @property
    def is_interim(self) -> bool:
        return self.status < 200 and self.status != 101

    @property
    def is_endless(self) -> bool:
        """Nobody knows how long its body will be."""
        return self.framing is Framing.CHUNKED or self.framing is Framing.EOF

    def interim_bytes(self) -> bytes:
        return b"HTTP/1.1 %d %b\r\n%b\r\n" % (self.status, self.reason, self.fields)

    def switching_bytes(self, own_fields: bytes) -> bytes:
        return b"HTTP/1.1 101 %b\r\n%bConnection: Upgrade\r\nUpgrade: %b\r\n%b\r\n" % (
            self.reason,
            self.fields,
            self.upgrade or b"",
            own_fields,
        )


def check_response(
    request: Request, status: int, reason: bytes, version: str, fields: list[Field]
) -> Response:
    """The response that a parsed head makes; raises `NodeAnsweredBadly` where it cannot be relayed safely."""
    if version not in ("1.1", "1.0") or not 100 <= status <= 999:
        raise NodeAnsweredBadly(f"the node answered HTTP/{version} {status}")
    response = Response(status, reason)
    lines: list[bytes] = []
    keeps_alive = version == "1.1"
    nominated: frozenset[bytes] = frozenset()
    for name, value in fields:
        key = name.lower()
        value = value.rstrip(b" \t")
        if key in _SPECIAL:
            if key == b"content-length":
                response.framing, response.length = Framing.LENGTH, int(value)
                lines += (name, b": ", value, b"\r\n")
            elif key == b"transfer-encoding":
                if value.lower() != b"chunked" or response.framing is Framing.CHUNKED:
                    raise NodeAnsweredBadly("the node used a transfer coding other than chunked")
                response.framing = Framing.CHUNKED
            elif key == b"connection":
                nominated |= frozenset(token.strip().lower() for token in value.split(b","))
            elif key == b"upgrade":
                response.upgrade = value
            continue
        lines += (name, b": ", value, b"\r\n")
    if nominated:
        keeps_alive = b"close" not in nominated and (keeps_alive or b"keep-alive" in nominated)
        # Content-Length stays whatever Connection says: both sides count by it.
        doomed = nominated - {b"content-length"}
        lines = [
            piece
            for at in range(0, len(lines), 4)
            if lines[at].lower() not in doomed
            for piece in lines[at : at + 4]
        ]
    if status == 101:
        if request.upgrade is None or response.upgrade is None:
            raise NodeAnsweredBadly("the node switched protocols without being asked to")
    elif status < 200 and (response.framing is Framing.CHUNKED or response.length):
        raise NodeAnsweredBadly("the node gave an interim response a body")
    elif request.is_head or status < 200 or status in (204, 304):
        response.framing = Framing.NONE
    if status == 426 and response.upgrade is not None:  # it must say what to upgrade to (RFC 9110, 15.5.22)
        lines += (b"Connection", b": ", b"Upgrade\r\nUpgrade: ", response.upgrade, b"\r\n")
    response.fields = b"".join(lines)
    response.keeps_alive = keeps_alive and response.framing is not Framing.EOF
    return response


def own_fields(request_id: bytes, queue_secs: float, node_secs: float) -> bytes:
    """What we add to every forwarded response."""
    return b"Server-Timing: queue;dur=%b, node;dur=%b\r\nX-Request-Id: %b\r\n" % (
        _milliseconds(queue_secs),
        _milliseconds(node_secs),
        request_id,
    )


# Writing a float out takes 0.4 us, finding it here 0.1; past 100 ms nobody is in such a hurry.
_TENTHS_OF_MS = [b"%d.%d" % divmod(tenths, 10) for tenths in range(1000)]


def _milliseconds(secs: float) -> bytes:
    tenths = int(secs * 10_000)
    return _TENTHS_OF_MS[tenths] if 0 <= tenths < 1000 else b"%.1f" % (secs * 1000)


def client_head(
    request: Request, response: Response, own_fields: bytes, is_chunked: bool, keeps_alive: bool
) -> bytes:
    """The head for the client: the node's fields, then ours. `keeps_alive`: whether its connection goes on."""
    if is_chunked:
        own_fields += b"Transfer-Encoding: chunked\r\n"
    if not keeps_alive:
        own_fields += b"Connection: close\r\n"
    elif request.is_http10:
        own_fields += b"Connection: keep-alive\r\n"
    return b"HTTP/1.1 %d %b\r\n%b%b\r\n" % (response.status, response.reason, response.fields, own_fields)


def problem_body(error: RequestError, request_id: bytes, waited_secs: float) -> bytes:
    """The JSON of an answer of ours."""
    return json.dumps(
        {
            "type": "about:blank",
            "title": error.title,
            "status": error.status,
            "detail": error.detail,
            "request_id": request_id.decode("latin-1"),
            "outcome": error.outcome,
            "waited_secs": round(waited_secs, 3),
        },
        ensure_ascii=False,
    ).encode()


def problem_response(
    error: RequestError, request_id: bytes, waited_secs: float, *, keeps_alive: bool, is_head: bool = False
) -> bytes:
    """An answer of ours: `application/problem+json` (RFC 9457) with a `Proxy-Status` (RFC 9209)."""
    body = problem_body(error, request_id, waited_secs)
    lines = [
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}",
        f"Date: {formatdate(usegmt=True)}",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        f'Proxy-Status: fifo-proxy; error={error.proxy_status}; outcome="{error.outcome}"',
        "Cache-Control: no-store",
        f"X-Request-Id: {request_id.decode('latin-1')}",
    ]
    if error.retry_after_secs is not None:
        lines.append(f"Retry-After: {error.retry_after_secs}")
    if error.allowed is not None:
        lines.append(f"Allow: {error.allowed}")
    lines.append(f"Connection: {'keep-alive' if keeps_alive else 'close'}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (b"" if is_head else body)
