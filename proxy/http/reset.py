"""Ending a connection so that its other side cannot take it for a clean end."""

from __future__ import annotations

import asyncio
import socket
import struct

_NO_LINGER = struct.pack(
    "ii", 1, 0
)  # struct linger {on, seconds}: closing discards what is unsent and sends a RST


def reset(transport: asyncio.Transport) -> None:
    """Abort with a TCP reset: a plain abort only sends a FIN, which ends a body without length as if it were whole."""
    if not transport.is_closing():
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()
