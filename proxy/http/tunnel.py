"""An upgraded connection: opaque bytes both ways, each side at the other's pace.

What always holds: what one side sends is never kept here, a side that is slow stops the other; `on_end` is told once,
when both sides are closed or closing, and whether the end was clean. A node that ends its side has ended its work. A
client that ends its side may still be sent to, but not for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.http.listener import ClientConnection
    from proxy.http.node_link import NodeLink

_HALF_OPEN_SECS = 10.0  # a node that does not end within this of its client's end is cut


class Tunnel:
    __slots__ = ("_client", "_node", "_on_end", "_timer")

    def __init__(self, client: ClientConnection, node: NodeLink, on_end: Callable[[bool], None]) -> None:
        self._client = client
        self._node = node
        self._on_end: Callable[[bool], None] | None = on_end
        self._timer: asyncio.TimerHandle | None = None

    def client_data(self, data: bytes) -> None:
        self._node.write(data)

    def client_writable(self, is_writable: bool) -> None:
        if is_writable:
            self._node.resume_reading()
        else:
            self._node.pause_reading()

    def client_sent_eof(self) -> None:
        self._node.write_eof()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_HALF_OPEN_SECS, self._end, False)

    def client_lost(self) -> None:
        self._end(False)

    def node_data(self, data: bytes) -> None:
        self._client.write(data)

    def node_writable(self, is_writable: bool) -> None:
        if is_writable:
            self._client.resume_reading()
        else:
            self._client.pause_reading()

    def node_lost(self, *, is_clean: bool) -> None:
        """The node ended or broke off."""
        self._end(is_clean)

    def _end(self, is_clean: bool) -> None:
        if self._on_end is None:
            return
        on_end, self._on_end = self._on_end, None
        if self._timer is not None:
            self._timer.cancel()
        if is_clean:
            self._node.close()
            self._client.close()
        else:
            self._node.abort()
            self._client.cut()
        on_end(is_clean)
