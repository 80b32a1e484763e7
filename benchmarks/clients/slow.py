"""Clients behind slow links: each sends or takes its body at a fixed rate, all begin at once, one request
each.

    python -m benchmarks.clients.slow up|down PORT CLIENTS BYTES BYTES_PER_SEC WORK_MS

prints {"secs": until the last was answered, "p50_secs": of one, "failed": count}. A link that the proxy does
not let send or that has nothing to take loses its turn, as a real one does: no bursts later.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import cast

import uvloop

from benchmarks.clients import body_length, request_head

_TICK_SECS = 0.02


class SlowClient(asyncio.BufferedProtocol):
    """One request over one slow link: `sending -> in head -> in body -> ended`."""

    def __init__(self, direction: str, size: int, work_ms: int) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[float] = loop.create_future()  # the moment of the last byte
        self._up_left = size if direction == "up" else 0
        down = size if direction == "down" else 0
        self._head_out = request_head(
            "POST" if self._up_left else "GET", f"/?work={work_ms}&bytes={down}", length=self._up_left
        )
        self._buffer = memoryview(bytearray(1 << 20))
        self._quota = 64 * 1024  # what may be read in this tick
        self._head = b""
        self._down_left = -1  # -1: the head is not complete
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        self._transport.write(self._head_out)

    def tick(self, quota: int) -> None:
        """Another moment has passed: `quota` bytes may cross the link each way."""
        if self.ended.done():
            return
        if self._up_left and not self._is_paused:
            size = min(quota, self._up_left)
            self._up_left -= size
            self._transport.write(bytes(size))
        if not self._quota:
            self._transport.resume_reading()
        self._quota = min(quota, len(self._buffer))

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[: self._quota]

    def buffer_updated(self, nbytes: int) -> None:
        self._quota -= nbytes
        if not self._quota:
            self._transport.pause_reading()
        if self._down_left < 0:
            self._head += bytes(self._buffer[:nbytes])
            head, end, body = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            try:
                self._down_left = body_length(head) - len(body)
            except ValueError as error:
                self._fail(error)
                return
        else:
            self._down_left -= nbytes
        if not self._down_left and not self.ended.done():
            self.ended.set_result(time.perf_counter())
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionError("closed early"))

    def _fail(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)


async def run(
    direction: str, port: int, count: int, size: int, rate: int, work_ms: int
) -> dict[str, float | int]:
    loop = asyncio.get_running_loop()
    clients = [SlowClient(direction, size, work_ms) for _ in range(count)]
    started = last = time.perf_counter()
    for client in clients:
        await loop.create_connection(lambda client=client: client, "127.0.0.1", port)  # type: ignore[misc]
    all_ended = asyncio.gather(*(client.ended for client in clients), return_exceptions=True)
    while not all_ended.done():
        await asyncio.sleep(_TICK_SECS)
        now = time.perf_counter()
        quota, last = int(rate * (now - last)), now
        for client in clients:
            client.tick(quota)
    ends = sorted(end for end in await all_ended if isinstance(end, float))
    if not ends:
        raise SystemExit("no client was answered")
    return {
        "secs": ends[-1] - started,
        "p50_secs": ends[len(ends) // 2] - started,
        "failed": count - len(ends),
    }


if __name__ == "__main__":
    kind, *numbers = sys.argv[1:]
    at, clients_, bytes_, per_sec, work = map(int, numbers)
    print(json.dumps(uvloop.run(run(kind, at, clients_, bytes_, per_sec, work))))
