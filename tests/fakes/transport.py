"""A connection without a socket: keeps what is written, and takes it at the pace that a test sets."""

from __future__ import annotations

import asyncio
from typing import Any

from proxy.http.listener import ClientConnection
from proxy.http.node_link import NodeLink


class _Socket:
    def setsockopt(self, *_: object) -> None: ...

    def fileno(self) -> int:
        return -1  # nothing is written past the transport


class FakeTransport(asyncio.Transport):
    """`sent`: everything written; `room`: bytes the peer takes before its kernel is full, None: any number.

    Nothing happens by itself: after `close` or `abort` the test tells the protocol with `lose`.
    """

    def __init__(
        self, protocol: ClientConnection | NodeLink, peer: str = "192.0.2.7", *, is_tls: bool = False
    ) -> None:
        super().__init__(
            {"peername": (peer, 5000), "socket": _Socket(), "ssl_object": object() if is_tls else None}
        )
        self.protocol = protocol
        self.is_tls = is_tls
        self.sent = bytearray()
        self.room: int | None = None
        self.is_closed = self.is_aborted = self.is_ended = self.is_lost = False
        self._is_reading = True
        self._high = 65536
        self._is_full = False
        self._unsent = 0
        protocol.connection_made(self)

    def take(self) -> bytes:
        """What was written since the last look."""
        data = bytes(self.sent)
        self.sent.clear()
        return data

    def drain(self, count: int | None = None) -> None:
        """The peer takes so many bytes of what it was given, None: all."""
        self._unsent -= min(self._unsent, self._unsent if count is None else count)
        if self._is_full and not self._unsent:
            self._is_full = False
            self.protocol.resume_writing()

    def lose(self, error: Exception | None = None) -> None:
        """The connection is gone, once."""
        if not self.is_lost:
            self.is_lost = self.is_closed = True
            self.protocol.connection_lost(error)

    # asyncio's side

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        assert not self.is_closed, "written after its end"
        assert not self.is_ended, "written after its FIN"
        self.sent += data
        if self.room is None:
            return
        self._unsent += len(data)
        if self._unsent > self.room + self._high and not self._is_full:
            self._is_full = True
            self.protocol.pause_writing()

    def write_eof(self) -> None:
        self.is_ended = True

    def can_write_eof(self) -> bool:
        return not self.is_tls

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True

    def is_reading(self) -> bool:
        return self._is_reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 65536

    def get_write_buffer_size(self) -> int:
        return self._unsent
