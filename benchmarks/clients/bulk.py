"""One large body at full speed: blocking sockets and buffers of a megabyte, so that this side is never the
limit.

    python -m benchmarks.clients.bulk up|down PORT BYTES

prints {"secs": S}: from the first byte sent to the last byte of the response received.
"""

from __future__ import annotations

import json
import socket
import sys
import time

from benchmarks.clients import body_length, request_head

_BLOCK = 1 << 20


def transfer(direction: str, port: int, size: int) -> float:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(120)
        started = time.perf_counter()
        if direction == "up":
            connection.sendall(request_head("POST", "/?bytes=0", length=size))
            block = memoryview(bytes(_BLOCK))
            for sent in range(0, size, _BLOCK):
                connection.sendall(block[: min(_BLOCK, size - sent)])
        else:
            connection.sendall(request_head("GET", f"/?bytes={size}"))
        _read_response(connection, 0 if direction == "up" else size)
        return time.perf_counter() - started


def _read_response(connection: socket.socket, size: int) -> None:
    head = b""
    while b"\r\n\r\n" not in head:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError(f"cut in the response's head: {head!r}")
        head += piece
    start, _, body = head.partition(b"\r\n\r\n")
    if body_length(start) != size:
        raise ValueError(f"expected {size} bytes: {start!r}")
    left = size - len(body)
    buffer = bytearray(_BLOCK)
    while left:
        count = connection.recv_into(buffer)
        if not count:
            raise ConnectionError(f"cut with {left} bytes to come")
        left -= count


if __name__ == "__main__":
    print(json.dumps({"secs": transfer(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))}))
