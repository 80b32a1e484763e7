"""Bytes of one client connection -> whole requests, in order. No sockets here.

What always holds: `ready` has what came whole, in order, and at most one error, last: after it nothing is read.
A body goes to its spool as it comes. `request` is the one whose body is still coming; `is_in_head` that a head has
begun. After an Upgrade the bytes that follow are kept in `early` until it is known whose they are.

A head that this client has sent before, byte for byte, is not parsed again where it comes whole, with its whole body,
in one read, at the start of a message: what llhttp made of these bytes it would make of them again. Clients that poll,
or post to one address, repeat theirs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import httptools

from proxy.errors import BodyTooLarge, HeadTooLarge, MalformedRequest, RequestError, SpoolFull
from proxy.http.message import Field, Request, allowed_trailers, check_request
from proxy.http.peer import Peer
from proxy.http.settings import HttpSettings
from proxy.http.spool import Spool

_KNOWN_MAX = 2048  # bytes of a head that is kept
_MAX_CHUNK_COST = 16  # bytes on the wire for one of the body: "00000001\r\nx\r\n" are 13


class RequestReader:
    """A base class, not a part, so that the parser calls straight into the connection: one object and one hop less
    for each of thousands of waiting clients."""

    __slots__ = (
        "_chunk_bytes",
        "_error",
        "_fields",
        "_has_read",
        "_head_size",
        "_is_between",
        "_known_head",
        "_known_request",
        "_parser",
        "_saw_head",
        "_target",
        "awaits_word",
        "early",
        "is_deaf",
        "is_in_head",
        "next_id",
        "peer",
        "ready",
        "request",
        "settings",
    )

    def __init__(self, settings: HttpSettings, next_id: Callable[[], bytes], peer: Peer) -> None:
        self.settings = settings
        self.next_id = next_id
        self.peer = peer
        self._parser = httptools.HttpRequestParser(self)
        self._fields: list[Field] = []
        self._target = b""
        self._head_size = 0
        self._chunk_bytes = 0  # of a chunked body, sizes and extensions included
        self._error: RequestError | None = None
        self._saw_head = False
        self._is_between = True  # the parser is at the start of a message
        self._has_read = False  # a whole request; those who wait with their first need no memory of it
        self._known_head = b""
        self._known_request: Request | None = None
        self.is_in_head = False
        self.awaits_word = False  # the client of the last head read sends its body when told to go on
        self.is_deaf = False  # an error has ended the reading
        self.request: Request | None = None
        self.ready: deque[Request | RequestError] | None = None
        self.early: bytearray | None = None

    def feed(self, data: bytes) -> None:
        """Read on; everything that became whole, and an error, is in `ready` afterwards."""
        is_first = self._is_between
        if is_first and self._read_known(data):
            return
        self._saw_head = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            if self._error is None:
                if self.request is None:
                    self.early = bytearray(rest)
                else:
                    self._read_as_body(self.request, rest)
        except httptools.HttpParserCallbackError:
            raise  # a fault of ours: asyncio logs it and ends the connection
        except httptools.HttpParserError as error:
            if self._error is None:
                self._error = MalformedRequest(f"the request is malformed: {error}")
        if self.is_in_head and not self._saw_head and self._error is None:
            self._head_size += len(data)
            if self._head_size > self.settings.max_header_bytes:
                self._error = HeadTooLarge("the head is too large (max_header_bytes)")
        elif self.request is not None and self.request.length is None and not self._saw_head:
            self._count_chunks(self.request, len(data))
        if self._error is not None:
            self.refuse(self._error)
        elif is_first and self._is_between:
            self._remember(data)

    def _read_known(self, data: bytes) -> bool:
        """Whether this is a known head with its whole body, and nothing else; if so it is in `ready`."""
        known = self._known_request
        if known is None or not data.startswith(self._known_head):
            return False
        body = data[len(self._known_head) :]
        if len(body) != known.length or len(body) > self.settings.max_body_bytes:
            return False
        request = known.again(self.next_id())
        if body:
            request.body = spool = Spool(self.settings.spool_budget)
            try:
                spool.append(body)
            except SpoolFull:
                return False  # to be found again, and told
        self._enqueue(request)
        return True

    def _remember(self, data: bytes) -> None:
        """Where these bytes were one request: its head is what comes before its body."""
        request = self.ready[-1] if self.ready else None
        if not isinstance(request, Request) or request.length is None:
            return
        size = len(data) - request.length
        is_plain = request.keeps_alive and not request.is_http10 and not request.expects_continue
        if (
            self._has_read
            and is_plain
            and request.upgrade is None
            and size <= _KNOWN_MAX
            and data.startswith(request.method)  # no empty line that the parser skips
            and data.find(b"\r\n\r\n") == size - 4
        ):
            self._known_head, self._known_request = data[:size], request
        self._has_read = True

    def _count_chunks(self, request: Request, size: int) -> None:
        """The parser sets no limit to chunk extensions and leading zeros: a body of nothing else would never end."""
        self._chunk_bytes += size
        received = request.body.size if request.body is not None else 0
        allowed = 2 * self.settings.max_header_bytes + _MAX_CHUNK_COST * received  # trailers are in it, too
        if self._chunk_bytes > allowed and self._error is None:
            self._error = BodyTooLarge("the body is little more than chunk sizes and extensions")

    def refuse(self, error: RequestError) -> None:
        """Read no more; the error is the last of what is ready."""
        self.is_deaf = True
        self._error = None
        self._enqueue(error)

    def start_over(self) -> bytes:
        """An Upgrade was refused: read HTTP again; returns the bytes that came behind it."""
        early = bytes(self.early or b"")
        self.early = None
        self._parser = httptools.HttpRequestParser(self)
        return early

    def _read_as_body(self, request: Request, data: bytes) -> None:
        """The parser does not read the body of a request that asks for an Upgrade: another one is made to."""
        length = request.length
        framing = b"Transfer-Encoding: chunked" if length is None else b"Content-Length: %d" % length
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % framing)
        self.feed(data)

    def drop_bodies(self) -> None:
        """The connection is gone: nothing that was read will be asked for."""
        for item in (self.request, *(self.ready or ())):
            if isinstance(item, Request) and item.body is not None:
                item.body.close()
        self.request = self.ready = None

    def _enqueue(self, item: Request | RequestError) -> None:
        if self.ready is None:
            self.ready = deque()
        self.ready.append(item)

    # --- the parser's side. An exception must not pass through it, so an error is kept until `feed` goes on.

    def on_message_begin(self) -> None:
        self._is_between = False

    def on_url(self, data: bytes) -> None:
        self.is_in_head = True
        self._target += data

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name, value))
        if not self.is_in_head:  # a trailer
            self._head_size += len(name) + len(value)
            if self._head_size > self.settings.max_header_bytes and self._error is None:
                self._error = HeadTooLarge("the trailers are too large (max_header_bytes)")

    def on_headers_complete(self) -> None:
        fields, self._fields = self._fields, []
        target, self._target = self._target, b""
        self.is_in_head = False
        self._saw_head = True
        self._head_size = self._chunk_bytes = 0
        if self._error is not None or self.request is not None:  # the latter: see `_read_as_body`
            return
        parser, settings = self._parser, self.settings
        try:
            request = check_request(
                parser.get_method(),
                target,
                parser.get_http_version(),
                fields,
                self.peer,
                self.next_id(),
                max_header_bytes=settings.max_header_bytes,
                max_body_bytes=settings.max_body_bytes,
            )
        except RequestError as error:
            self._error = error
            return
        self.request = request
        if request.length != 0:
            request.body = Spool(settings.spool_budget)
            self.awaits_word = request.expects_continue

    def on_body(self, data: bytes) -> None:
        request = self.request
        if self._error is not None or request is None or request.body is None:
            return
        if request.body.size + len(data) > self.settings.max_body_bytes:
            self._error = BodyTooLarge(
                f"the body is larger than {self.settings.max_body_bytes} bytes (max_body_bytes)"
            )
            return
        try:
            request.body.append(data)
        except SpoolFull as error:
            error.retry_after_secs = 10
            self._error = error

    def on_message_complete(self) -> None:
        request = self.request
        if self._error is not None or request is None:
            return
        if request.length != 0 and self._parser.should_upgrade():
            return  # of its body not a byte has been read
        if self._fields:
            request.trailers = allowed_trailers(self._fields) or None
            self._fields = []
            self._head_size = 0
        self.request = None
        self._is_between = request.keeps_alive  # else nothing may follow
        self._enqueue(request)
