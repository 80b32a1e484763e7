"""A client's connection as a stream that is written at the client's own pace.

What always holds: what the client has not taken yet is spooled, so a slow reader never slows its node; an answer that
broke off ends in a way that cannot be taken for a clean end. A reader that takes nothing has a `deadline`, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from proxy.http.backlog import Backlog
from proxy.http.direct_write import NO_DESCRIPTOR, send_file_now, write_now
from proxy.http.peer import Peer
from proxy.http.request_reader import RequestReader
from proxy.http.reset import reset
from proxy.http.roles import ClientReceiver
from proxy.http.settings import HttpSettings
from proxy.http.tunnel import Tunnel

NEVER = float("inf")


class ClientStream(RequestReader):
    """The base of `ClientConnection`: one object for each waiting client. Either a receiver owes the answer to the
    request in hand, or bytes go through a tunnel, or neither."""

    __slots__ = (
        "_backlog",
        "_descriptor",
        "_finishes",
        "_is_held",
        "_is_paused",
        "_receiver",
        "_transport",
        "_tunnel",
        "_unsent",
        "deadline",
    )

    def __init__(self, settings: HttpSettings, next_id: Callable[[], bytes], peer: Peer) -> None:
        super().__init__(settings, next_id, peer)
        self._transport: asyncio.Transport | None = None
        self._descriptor = NO_DESCRIPTOR
        self._receiver: ClientReceiver | None = None
        self._tunnel: Tunnel | None = None
        self._is_held = False  # nothing is read
        self._is_paused = False  # nothing more can be written
        self._backlog: Backlog | None = None
        self._finishes: bool | None = None  # the answer is whole but not yet taken; the value: go on after it
        self._unsent = 0
        self.deadline = NEVER

    @property
    def is_gone(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Bytes as they are, at whatever pace: `send` is for answers."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            write_now(transport, self._descriptor, data)

    def send(self, data: bytes) -> bool:
        """Send, or spool for later; False: no room, send no more until `client_drained`."""
        if self._backlog is None:
            if not self._is_paused:
                self.write(data)
                return True
            self._backlog = Backlog(self.settings.spool_budget)
        return self._backlog.add(data)

    def finish(self, *, keeps_alive: bool) -> None:
        """The answer is whole; the next request comes up once the client has it."""
        if self._backlog is not None:
            self._finishes = keeps_alive
        else:
            self._finished(keeps_alive)

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._is_held = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_held and self._transport is not None and not self._transport.is_closing():
            self._is_held = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Close after what is on its way."""
        self._receiver = self._tunnel = None
        if self._transport is not None:
            self._transport.close()
            self.deadline = monotonic() + self.settings.body_timeout_secs

    def cut(self, *, is_delimited: bool = False) -> None:
        """End it so that the client sees a broken answer, never a clean end.

        `is_delimited`: the answer's own framing shows that it is not whole, so that no reset is needed, which could
        overtake bytes on their way.
        """
        self._receiver = self._tunnel = None
        if self._transport is not None:
            if is_delimited:
                self._transport.abort()
            else:
                reset(self._transport)

    def _finished(self, keeps_alive: bool) -> None:
        """The client has its whole answer. For the connection to go on, or to end."""
        raise NotImplementedError

    # --- asyncio's side

    def pause_writing(self) -> None:
        self._is_paused = True
        if self._tunnel is not None:
            self._tunnel.client_writable(False)
        else:
            self._unsent = -1
            self.deadline = monotonic() + self.settings.body_timeout_secs

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._tunnel is not None:
            self._tunnel.client_writable(True)
        else:
            if self._receiver is not None:
                self.deadline = NEVER
            self._drain()

    def _drain(self) -> None:
        if self._backlog is None or not self._backlog.drain(
            self.write, lambda: self._is_paused, self._send_file
        ):
            return
        self._backlog = None
        if self._finishes is not None:
            self._finished(self._finishes)
        elif self._receiver is not None:
            self._receiver.client_drained()

    def _send_file(self, file: int, offset: int, count: int) -> int:
        transport = self._transport
        return 0 if transport is None else send_file_now(transport, self._descriptor, file, offset, count)

    def _must_take(self, now: float) -> bool:
        """Its time is up while bytes wait for it: one that has taken nothing since the last look is cut."""
        transport = self._transport
        unsent = transport.get_write_buffer_size() if transport is not None else 0
        if transport is None or not unsent:
            return False
        if unsent == self._unsent:
            reset(transport)
        else:
            self._unsent = unsent
            self.deadline = now + self.settings.body_timeout_secs
        return True
