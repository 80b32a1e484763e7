"""One connection to a node.

States: idle (may be reused) -> busy (a request is out) -> idle or closed; or busy -> upgraded (opaque bytes).
What always holds: it carries one request at a time; its receiver hears exactly one of `node_ended` and
`node_failed`, last, and never from inside the parser, since what follows on the same bytes may show that the
response was not clean; after any doubt about framing the link closes and is not used again.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import cast

from proxy.errors import NodeBroke, RequestError
from proxy.http.address import Address, ResumingContext
from proxy.http.backlog import FILE_MOST
from proxy.http.direct_write import NO_DESCRIPTOR, descriptor_of, send_file_now, write_now
from proxy.http.message import Request, allowed_trailers, trailer_bytes
from proxy.http.reset import reset
from proxy.http.response import Framing
from proxy.http.response_reader import ResponseReader
from proxy.http.roles import NodeReceiver
from proxy.http.tunnel import Tunnel

_CHUNK = 262144  # bytes read from a spool at a time; the write buffer's high-water mark


class NodeLink(ResponseReader):
    """An `asyncio.Protocol` by its methods, like `ClientConnection`."""

    __slots__ = (
        "_body_sent",
        "_descriptor",
        "_is_held",
        "_is_paused",
        "_is_sending",
        "_tls",
        "_transport",
        "address",
        "idle_since",
        "is_open",
        "is_reused",
        "tunnel",
    )

    def __init__(self, address: Address, max_header_bytes: int, tls: ResumingContext | None = None) -> None:
        super().__init__(max_header_bytes)
        self.address = address
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._descriptor = NO_DESCRIPTOR
        self.is_open = False
        self.is_reused = False  # it has carried a response before
        self.idle_since = 0.0
        self.tunnel: Tunnel | None = None
        self._is_paused = False
        self._is_sending = False
        self._is_held = False
        self._body_sent = 0

    # --- what the exchange calls

    @property
    def is_idle(self) -> bool:
        return self.is_open and self.receiver is None

    def send(self, request: Request, head: bytes, receiver: NodeReceiver) -> None:
        """Send the whole request; the receiver hears of everything that follows."""
        transport = self._transport
        assert transport is not None
        self.receiver = receiver
        self.request = request
        body = request.body
        if body is None:
            self._write(transport, head)
        elif not body.is_on_disk and request.trailers is None:
            self._write(transport, head + body.read(0, body.size))
        else:
            self._is_sending = True
            self._body_sent = 0
            transport.write(head)
            self._send_more()

    def _write(self, transport: asyncio.Transport, data: bytes) -> None:
        if transport.is_closing():
            transport.write(data)  # to nowhere: `connection_lost` is on its way
        else:
            write_now(transport, self._descriptor, data)

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
        self.receiver = self.tunnel = None
        self.is_open = False
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut it: the node sees a reset at once, so that it can notice and stop."""
        self.receiver = self.tunnel = None
        self.is_open = False
        if self._transport is not None:
            reset(self._transport)

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = stream = cast(asyncio.Transport, transport)
        stream.set_write_buffer_limits(high=_CHUNK)
        self._descriptor = descriptor_of(stream)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self.tunnel is not None:
            self.tunnel.node_data(data)
            return
        if self.receiver is None:  # bytes that nobody asked for: the next response would be read wrongly
            self.close()
            return
        self.feed(data)
        if self.is_done:
            self._finish()
        elif self.error is not None:
            self._fail(self.error)
        elif self.switched is not None:
            self._switch(self.switched)
        elif self.receiver is not None and self.response is not None:
            self.receiver.node_flush()

    def eof_received(self) -> bool:
        if self.tunnel is not None:
            self.tunnel.node_lost(is_clean=True)
        elif self.receiver is not None and self.response is not None and self.response.framing is Framing.EOF:
            self._finish()
        self.is_open = False  # not to be used again, though it is lost only in the next turn of the loop
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._transport = None
        if self.tunnel is not None:
            self.tunnel.node_lost(is_clean=error is None)
        elif self.receiver is not None:
            where = "in its response" if self.response is not None else "before its response"
            why = f": {error}" if error is not None else ""
            self._fail(NodeBroke(f"the node broke off {where}{why}"))

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

    # --- inside

    def _send_more(self) -> None:
        if not self._is_sending or self.receiver is None:
            return  # it ended between two turns of the loop
        assert self.request is not None
        assert self.request.body is not None
        body, trailers = self.request.body, self.request.trailers
        transport = self._transport
        while transport is not None and not self._is_paused and self._is_sending:
            if trailers is None and (file := body.descriptor) is not None:
                # The kernel sends a file without a copy through here. Where it takes none, a piece that the transport
                # holds tells when there is room again; where it takes all, others have their turn in between.
                most = min(body.size - self._body_sent, FILE_MOST)
                if sent := send_file_now(transport, self._descriptor, file, self._body_sent, most):
                    self._body_sent += sent
                    self._is_sending = self._body_sent < body.size
                    if self._is_sending:
                        asyncio.get_running_loop().call_soon(self._send_more)
                    return
            piece = body.read(self._body_sent, _CHUNK)
            if not piece:
                self._is_sending = False
                if trailers is not None:
                    transport.write(trailer_bytes(trailers))
                return
            self._body_sent += len(piece)
            transport.write(piece if trailers is None else b"%x\r\n%b\r\n" % (len(piece), piece))
            self._is_sending = trailers is not None or self._body_sent < body.size

    def _switch(self, first: bytes) -> None:
        receiver, self.receiver = self.receiver, None
        if receiver is not None and self.response is not None:
            receiver.node_switched(self.response, first)

    def _finish(self) -> None:
        """The response is whole. The link is ready for the next request before the receiver hears of it."""
        receiver, self.receiver = self.receiver, None
        response, trailers = self.response, self.trailers
        if self._tls is not None and self._transport is not None:
            self._tls.remember(self._transport.get_extra_info("ssl_object"))
        if (
            response is None
            or not response.keeps_alive
            or self.saw_more
            or self._is_sending  # it answered before it had read the request
            or not self.is_open
        ):
            if self._transport is not None and self._transport.get_write_buffer_size():
                self.abort()  # closing would wait until the node has read what it does not want
            self.close()
        else:
            self.start_over()
            self.is_reused = True
            self.idle_since = monotonic()
            if self._is_held:
                self.resume_reading()
        if receiver is not None:
            receiver.node_ended(allowed_trailers(trailers) if trailers else trailers)

    def _fail(self, error: RequestError) -> None:
        receiver, heard = self.receiver, self.has_heard
        self.abort()
        if receiver is not None:
            receiver.node_failed(error, heard=heard)


async def open_link(address: Address, tls: ResumingContext | None, max_header_bytes: int) -> NodeLink:
    """A new connection to a node, its name resolved anew; raises OSError (ssl.SSLError, socket.gaierror)."""
    loop = asyncio.get_running_loop()
    context = tls if address.is_tls else None
    link = NodeLink(address, max_header_bytes, context)
    await loop.create_connection(
        lambda: cast(asyncio.Protocol, link),
        address.host,
        address.port,
        ssl=context,
        server_hostname=address.host if address.is_tls else None,
    )
    return link
