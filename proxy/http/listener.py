"""Client connections: whole requests in, answers out.

States of a connection: idle -> receiving -> answering (its request is with the receiver) -> idle or closed; or
answering -> upgraded (opaque bytes). What always holds: the requests of one connection are handed over one after the
other, whole; a refused request ends the connection, and what still comes is read and dropped (RFC 9112, 9.6). How
answers leave at the client's own pace is in `client_stream.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import cast

from proxy.errors import MalformedRequest, RequestError, RequestTooSlow
from proxy.http.client_stream import NEVER, ClientStream
from proxy.http.direct_write import descriptor_of
from proxy.http.peer import Peer
from proxy.http.proxy_protocol import Preface
from proxy.http.response import problem_response
from proxy.http.roles import RequestHandler
from proxy.http.settings import HttpSettings
from proxy.http.tunnel import Tunnel

_LINGER_SECS = 2.0  # how long a refused client may go on sending before its connection is cut
_WRITE_HIGH = 65536  # bytes waiting in the transport from which on the client is slow
_EARLY_MAX = 65536  # bytes kept of what comes before an answer: behind an Upgrade
_PIPELINE_MAX = 64  # whole requests kept behind the one being answered

_NOBODY = Peer("", scheme=b"http", is_trusted=False, pseudonym=b"")  # until the connection is made


class ClientConnection(ClientStream):
    """An `asyncio.Protocol` by its methods, not by inheritance: compiled, it has room for one base only."""

    __slots__ = (
        "_connections",
        "_handler",
        "_has_ended",
        "_is_handing",
        "_is_tls",
        "_owes_continue",
        "_preface",
    )

    def __init__(
        self,
        settings: HttpSettings,
        handler: RequestHandler,
        connections: set[ClientConnection],
        next_id: Callable[[], bytes],
    ) -> None:
        super().__init__(settings, next_id, _NOBODY)
        self._handler = handler
        self._connections = connections
        self._is_tls = False
        self._preface = Preface() if settings.proxy_protocol else None
        self._owes_continue = False
        self._is_handing = False
        self._has_ended = False  # the client's side: nothing more will come

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = stream = cast(asyncio.Transport, transport)
        stream.set_write_buffer_limits(high=_WRITE_HIGH)
        self._descriptor = descriptor_of(stream)
        self._is_tls = transport.get_extra_info("ssl_object") is not None
        name = transport.get_extra_info("peername")
        self._set_peer(str(name[0]) if isinstance(name, tuple) else "")
        self._connections.add(self)
        self.deadline = monotonic() + self.settings.header_timeout_secs

    def data_received(self, data: bytes) -> None:
        if self._tunnel is not None:
            self._tunnel.client_data(data)
        elif self.early is not None:
            self.early += data
            self._hold_back()
        elif not self.is_deaf:
            if self._preface is not None:
                data = self._read_preface(data)
            if data:
                self._read(data)

    def eof_received(self) -> bool:
        self._has_ended = True
        if self._tunnel is not None:
            self._tunnel.client_sent_eof()
        elif self._receiver is None or not self._receiver.client_half_closed():
            return False
        return not self._is_tls  # TLS has no half-closed state

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._connections.discard(self)
        receiver, self._receiver = self._receiver, None
        if self._backlog is not None:
            self._backlog.close()
        if self._tunnel is not None:
            self._tunnel.client_lost()
        elif receiver is not None:
            receiver.client_left()
        elif (self.is_in_head or self.request is not None) and not self.is_deaf:
            self._handler.left_while_sending(self.request, self.peer.address)
        self.drop_bodies()

    def on_deadline(self, now: float) -> None:
        """The time that `deadline` gave is up."""
        self.deadline = NEVER
        transport = self._transport
        if transport is None:
            return
        if self._must_take(now):
            return
        if transport.is_closing() or (self.is_deaf and self._receiver is None):
            transport.abort()
        elif self._receiver is not None:
            return
        elif self.request is not None:
            self._refuse(RequestTooSlow("the body came too slowly (body_timeout_secs)"))
        elif self.is_in_head:
            self._refuse(RequestTooSlow("the head came too slowly (header_timeout_secs)"))
        else:
            self.close()

    # --- receiving

    def _set_peer(self, address: str) -> None:
        self.peer = Peer(
            address,
            scheme=b"https" if self._is_tls else b"http",
            is_trusted=self.settings.is_trusted(address),
            pseudonym=self.settings.pseudonym,
        )

    def _read_preface(self, data: bytes) -> bytes:
        """The PROXY protocol's header, then what follows it."""
        assert self._preface is not None
        try:
            rest = self._preface.feed(data)
        except MalformedRequest:
            self.cut()  # this is not HTTP yet, so there is nobody to answer
            return b""
        if rest is None:
            return b""
        if self._preface.address is not None:
            self._set_peer(self._preface.address)
        self._preface = None
        return rest

    def _read(self, data: bytes) -> None:
        was_idle = not self.is_in_head and self.request is None
        self.feed(data)
        if self.awaits_word:
            self._expect_body()
        if self._receiver is not None:
            self._hold_back()
        elif self.ready:
            self._next()
        elif self.request is not None:
            self.deadline = monotonic() + self.settings.body_timeout_secs
        elif was_idle and self.is_in_head:
            self.deadline = monotonic() + self.settings.header_timeout_secs

    def _refuse(self, error: RequestError) -> None:
        self.refuse(error)
        if self._receiver is None:
            self._next()

    def _hold_back(self) -> None:
        """Enough is kept behind the request being answered. Reading on only tells us sooner that a client left."""
        if len(self.early or ()) > _EARLY_MAX or len(self.ready or ()) > _PIPELINE_MAX:
            self.pause_reading()

    def _expect_body(self) -> None:
        self.awaits_word = False
        is_whole = self.request is None  # the body came without it
        if self._receiver is None and len(self.ready or ()) == is_whole:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif not is_whole:  # the answers before it come first
            self._owes_continue = True

    def _next(self) -> None:
        """Hand the next whole request over; a loop, for requests that are answered at once."""
        self._is_handing = True
        while self.ready and self._receiver is None and self._transport is not None:
            item = self.ready.popleft()
            if isinstance(item, RequestError):
                self._answer_refusal(item)
                break
            self.deadline = NEVER
            self._receiver = receiver = self._handler.handle(self, item)
            self._handler.begin(receiver)
        self._is_handing = False
        if not self.ready:
            self.ready = None

    def _answer_refusal(self, error: RequestError) -> None:
        request = self.request
        request_id = request.request_id if request is not None else self.next_id()
        self._handler.refused(error, request, request_id, self.peer.address)
        is_head = request is not None and request.is_head
        self.write(problem_response(error, request_id, 0.0, keeps_alive=False, is_head=is_head))
        self._linger()

    def _linger(self) -> None:
        """Closing while bytes come would reset the connection, and the answer may be lost on its way."""
        self.is_deaf = True
        self.drop_bodies()  # what came behind is no request (RFC 9112, 9.6)
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.can_write_eof():
            transport.write_eof()
            self.resume_reading()
            self.deadline = monotonic() + _LINGER_SECS
        else:
            self.close()

    # --- answering: what the receiver calls

    @property
    def is_answering(self) -> bool:
        return self._receiver is not None or self._tunnel is not None

    def close_if_idle(self) -> None:
        """We are stopping: a connection with nothing under way has no reason to stay."""
        if self._receiver is None and self._tunnel is None and self.request is None and not self.is_in_head:
            self.close()

    def upgrade(self, tunnel: Tunnel, head: bytes) -> None:
        """Send the 101; from now on bytes go to the tunnel as they are, those that came early first."""
        early, self.early = self.early, None
        self._receiver, self._tunnel = None, tunnel
        self.deadline = NEVER
        self.write(head)
        if early:
            tunnel.client_data(bytes(early))
        self.resume_reading()

    def _finished(self, keeps_alive: bool) -> None:
        self._receiver = None
        self._finishes = None
        if not keeps_alive:
            self._linger()
            return
        now = monotonic()
        if self.early is not None and not self.ready:  # else the Upgrade is still to be answered
            early = self.start_over()
            if early:
                self.feed(early)
                if self.awaits_word:
                    self._expect_body()
        if self._has_ended and not self.ready:
            self.close()
            return
        self.resume_reading()
        if self._owes_continue and not self.ready:
            self._owes_continue = False
            if self.request is not None:
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.ready:
            if not self._is_handing:  # else its loop goes on
                self._next()
        elif self.request is not None:
            self.deadline = now + self.settings.body_timeout_secs
        elif self.is_in_head:
            self.deadline = now + self.settings.header_timeout_secs
        else:
            self.deadline = now + self.settings.keepalive_timeout_secs
