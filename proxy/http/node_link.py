"""One connection to a node.

States: idle (may be reused) -> busy (a request is out) -> idle or closed; or busy -> upgraded (opaque bytes).
What always holds: it carries one request at a time; its receiver hears exactly one of `node_ended` and
`node_failed`, last, and never from inside the parser, since what follows on the same bytes may show that the
response was not clean; after any doubt about framing the link closes and is not used again.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Protocol, cast

import httptools

from proxy.errors import NodeAnsweredBadly, NodeBroke, RequestError
from proxy.http.address import Address, ResumingContext
from proxy.http.message import Field, Request, allowed_trailers, trailer_bytes
from proxy.http.reset import reset
from proxy.http.response import Framing, Response, check_response
from proxy.http.tunnel import Tunnel

_CHUNK = 262144  # bytes read from a spool at a time; the write buffer's high-water mark


class NodeReceiver(Protocol):
    """Whoever sent the request."""

    def node_interim(self, response: Response) -> None: ...
    def node_head(self, response: Response) -> None: ...
    def node_body(self, data: bytes) -> None: ...
    def node_ended(self, trailers: list[Field]) -> None: ...
    def node_failed(self, error: RequestError, *, heard: bool) -> None:
        """The link is closed. `heard`: at least one byte of a response had come."""

    def node_flush(self) -> None:
        """All that this read brought has been told, and the response goes on."""

    def node_switched(self, response: Response, first: bytes) -> None:
        """101, the last call: `tunnel` must be set for what follows. `first`: the bytes right behind it."""


class NodeLink(asyncio.Protocol):
    __slots__ = (
        "_body_left",
        "_body_seen",
        "_body_sent",
        "_error",
        "_fed",
        "_fields",
        "_has_heard",
        "_is_done",
        "_is_held",
        "_is_paused",
        "_is_sending",
        "_max_header_bytes",
        "_parser",
        "_reason",
        "_receiver",
        "_request",
        "_response",
        "_saw_more",
        "_tls",
        "_transport",
        "idle_since",
        "is_open",
        "is_reused",
        "tunnel",
    )

    def __init__(self, max_header_bytes: int, tls: ResumingContext | None = None) -> None:
        self._tls = tls
        self._max_header_bytes = max_header_bytes
        self._transport: asyncio.Transport | None = None
        self._receiver: NodeReceiver | None = None
        self.is_open = False
        self.is_reused = False  # it has carried a response before
        self.idle_since = 0.0
        self.tunnel: Tunnel | None = None
        self._is_paused = False
        self._is_sending = False
        self._is_held = False
        # of the request that is out
        self._request: Request | None
        self._response: Response | None
        self._error: RequestError | None
        self._fields: list[Field]
        self._reason: bytes
        self._fed: int  # bytes given to the parser
        self._body_left: int  # bytes to come of a body that is counted past the parser; -1: it is not
        self._body_seen: int
        self._body_sent: int
        self._has_heard: bool
        self._is_done: bool
        self._saw_more: bool  # bytes that belong to no response
        self._reset(httptools.HttpResponseParser(self))

    # --- what the exchange calls

    @property
    def is_idle(self) -> bool:
        return self.is_open and self._receiver is None

    def send(self, request: Request, head: bytes, receiver: NodeReceiver) -> None:
        """Send the whole request; the receiver hears of everything that follows."""
        transport = self._transport
        assert transport is not None
        self._receiver = receiver
        self._request = request
        body = request.body
        if body is None:
            transport.write(head)
        elif not body.is_on_disk and request.trailers is None:
            transport.write(head + body.read(0, body.size))
        else:
            self._is_sending = True
            self._body_sent = 0
            transport.write(head)
            self._send_more()

    def write(self, data: bytes) -> None:
        """Bytes of an upgraded connection."""
        if self._transport is not None:
            self._transport.write(data)

    def write_eof(self) -> None:
        """The client of an upgraded connection has ended its side."""
        if self._transport is not None:
            if self._transport.can_write_eof():
                self._transport.write_eof()
            else:
                self.close()

    def pause_reading(self) -> None:
        self._is_held = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._is_held = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close without another word to the receiver."""
        self._receiver = self.tunnel = None
        self.is_open = False
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut it: the node sees a reset at once, so that it can notice and stop."""
        self._receiver = self.tunnel = None
        self.is_open = False
        if self._transport is not None:
            reset(self._transport)

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_CHUNK)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self.tunnel is not None:
            self.tunnel.node_data(data)
            return
        if self._receiver is None:  # bytes that nobody asked for: the next response would be read wrongly
            self.close()
            return
        if self._body_left > 0:
            self._relay_counted(data)
            return
        self._has_heard = True
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._response is not None and self._response.status == 101 and self._error is None:
                self._switch(data[upgrade.args[0] :])
                return
            self._error = self._error or NodeAnsweredBadly(
                "the node switched protocols without being asked to"
            )
        except httptools.HttpParserCallbackError:
            raise  # a fault of ours: asyncio logs it and ends the connection
        except httptools.HttpParserError as error:
            self._saw_more = True
            if not self._is_done and self._error is None:
                self._error = NodeAnsweredBadly(f"the node's response is not HTTP: {error}")
        if self._is_done:
            self._finish()
        elif self._error is not None:
            self._fail(self._error, heard=True)
        elif self._response is None:
            if self._fed > self._max_header_bytes:
                self._fail(NodeAnsweredBadly("the node's response head is too large"), heard=True)
        else:
            if self._response.framing is Framing.LENGTH:
                self._body_left = self._response.length - self._body_seen
            if self._receiver is not None:
                self._receiver.node_flush()

    def eof_received(self) -> bool:
        if self.tunnel is not None:
            self.tunnel.node_lost(is_clean=True)
        elif (
            self._receiver is not None
            and self._response is not None
            and self._response.framing is Framing.EOF
        ):
            self._finish()
        self.is_open = False  # not to be used again, though it is lost only in the next turn of the loop
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._transport = None
        if self.tunnel is not None:
            self.tunnel.node_lost(is_clean=error is None)
            return
        if self._receiver is None:
            return
        where = "in its response" if self._response is not None else "before its response"
        why = f": {error}" if error is not None else ""
        self._fail(NodeBroke(f"the node broke off {where}{why}"), heard=self._has_heard)

    def pause_writing(self) -> None:
        self._is_paused = True
        if self.tunnel is not None:
            self.tunnel.node_writable(False)

    def resume_writing(self) -> None:
        self._is_paused = False
        if self.tunnel is not None:
            self.tunnel.node_writable(True)
        elif self._is_sending:
            self._send_more()

    # --- the request's body

    def _send_more(self) -> None:
        assert self._request is not None
        assert self._request.body is not None
        body, trailers = self._request.body, self._request.trailers
        transport = self._transport
        while transport is not None and not self._is_paused and self._is_sending:
            piece = body.read(self._body_sent, _CHUNK)
            if not piece:
                self._is_sending = False
                if trailers is not None:
                    transport.write(trailer_bytes(trailers))
                return
            self._body_sent += len(piece)
            transport.write(piece if trailers is None else b"%x\r\n%b\r\n" % (len(piece), piece))
            self._is_sending = trailers is not None or self._body_sent < body.size

    # --- the response

    def _reset(self, parser: httptools.HttpResponseParser) -> None:
        self._parser = parser
        self._request = None
        self._response = None
        self._error = None
        self._fields = []
        self._reason = b""
        self._fed = 0
        self._body_left = -1
        self._body_seen = self._body_sent = 0
        self._has_heard = self._is_done = self._saw_more = False

    def on_message_begin(self) -> None:
        if self._is_done:
            self._saw_more = True

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name, value))
        if (
            self._response is not None  # a trailer
            and _size(self._fields) > self._max_header_bytes
            and self._error is None
        ):
            self._error = NodeAnsweredBadly("the node's trailers are too large")

    def on_headers_complete(self) -> None:
        if self._is_done or self._request is None:
            return
        parser = self._parser
        # What was fed holds the head and maybe some of the body: only when it is a lot is it worth counting.
        if self._fed > self._max_header_bytes and _size(self._fields) > self._max_header_bytes:
            self._error = NodeAnsweredBadly("the node's response head is too large")
            return
        try:
            response = check_response(
                self._request, parser.get_status_code(), self._reason, parser.get_http_version(), self._fields
            )
        except NodeAnsweredBadly as error:
            self._error = error
            return
        self._fields = []
        self._reason = b""
        self._response = response
        if response.is_interim:
            return
        if response.status != 101 and self._receiver is not None:
            self._receiver.node_head(response)
            if response.framing is Framing.NONE:
                self._is_done = True

    def on_body(self, data: bytes) -> None:
        if self._is_done:
            self._saw_more = True  # a body where none can be: HEAD, 204, 304
        elif self._error is None and self._receiver is not None:
            self._body_seen += len(data)
            self._receiver.node_body(data)

    def on_message_complete(self) -> None:
        if self._is_done or self._error is not None or self._response is None:
            return
        if self._response.is_interim:
            interim, self._response = self._response, None
            self._fed = 0
            if self._receiver is not None:
                self._receiver.node_interim(interim)
        elif self._response.status != 101:
            self._is_done = True

    def _relay_counted(self, data: bytes) -> None:
        """The rest of a body of known length goes by count, not through the parser: no copy, no callback."""
        self._body_left -= len(data)
        if self._body_left < 0:
            self._saw_more = True
            data = data[: self._body_left]
        if self._receiver is not None:
            self._receiver.node_body(data)
        if self._body_left <= 0:
            self._finish()
        elif self._receiver is not None:
            self._receiver.node_flush()

    def _switch(self, first: bytes) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None and self._response is not None:
            receiver.node_switched(self._response, first)

    def _finish(self) -> None:
        """The response is whole. The link is ready for the next request before the receiver hears of it."""
        receiver, self._receiver = self._receiver, None
        response = self._response
        trailers = allowed_trailers(self._fields) if self._fields else []
        if self._tls is not None and self._transport is not None:
            self._tls.remember(self._transport.get_extra_info("ssl_object"))
        if (
            response is None
            or not response.keeps_alive
            or self._saw_more
            or self._is_sending  # it answered before it had read the request
            or not self.is_open
        ):
            if self._transport is not None and self._transport.get_write_buffer_size():
                self.abort()  # closing would wait until the node has read what it does not want
            self.close()
        else:
            # The old parser still waits for a body where we counted it, or where HEAD had none.
            fresh_parser = self._body_left >= 0 or response.framing is Framing.NONE
            parser = httptools.HttpResponseParser(self) if fresh_parser else self._parser
            self._reset(parser)
            self.is_reused = True
            self.idle_since = monotonic()
            if self._is_held:
                self.resume_reading()
        if receiver is not None:
            receiver.node_ended(trailers)

    def _fail(self, error: RequestError, *, heard: bool) -> None:
        receiver = self._receiver
        self.abort()
        if receiver is not None:
            receiver.node_failed(error, heard=heard)


def _size(fields: list[Field]) -> int:
    return sum(len(name) + len(value) for name, value in fields)


async def open_link(address: Address, tls: ResumingContext | None, max_header_bytes: int) -> NodeLink:
    """A new connection to a node, its name resolved anew; raises OSError (ssl.SSLError, socket.gaierror)."""
    loop = asyncio.get_running_loop()
    _, link = await loop.create_connection(
        lambda: NodeLink(max_header_bytes, tls if address.is_tls else None),
        address.host,
        address.port,
        ssl=tls if address.is_tls else None,
        server_hostname=address.host if address.is_tls else None,
    )
    return link
