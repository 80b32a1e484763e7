"""Many clients that wait.

    python -m benchmarks.clients.waiting hold PORT CLIENTS WORK_MS

connects them all, sends one request each, prints {"sent": N}, and leaves when it is told to by a line of
input.

    python -m benchmarks.clients.waiting order PORT CLIENTS

sends requests numbered in order (X-Seq), a millisecond apart, while the first one runs; then every third, at
random, leaves; prints {"answered": N, "left": N, "failed": N} when the others have been answered.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import cast

import uvloop

from benchmarks.clients import request_head

_CONNECTS_AT_ONCE = 200


class Client(asyncio.Protocol):
    """One connection, one request; `answered` becomes True for a 200, False for anything else."""

    __slots__ = ("answered", "transport")

    def __init__(self) -> None:
        self.answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._end(data.startswith(b"HTTP/1.1 200"))  # the first segment has the status line

    def connection_lost(self, error: Exception | None) -> None:
        self._end(False)

    def _end(self, is_right: bool) -> None:
        if not self.answered.done():
            self.answered.set_result(is_right)


async def connect(port: int, count: int) -> list[Client]:
    """Clients with open connections; a few hundred at a time, so that no accept queue overflows."""
    loop = asyncio.get_running_loop()
    clients: list[Client] = []
    while len(clients) < count:
        some = min(_CONNECTS_AT_ONCE, count - len(clients))
        pairs = await asyncio.gather(
            *(loop.create_connection(Client, "127.0.0.1", port) for _ in range(some))
        )
        clients += [client for _, client in pairs]
    return clients


async def hold(port: int, count: int, work_ms: int) -> None:
    clients = await connect(port, count)
    head = request_head("GET", f"/?work={work_ms}")
    for client in clients:
        client.transport.write(head)
    print(json.dumps({"sent": count}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    ended = sum(client.answered.done() for client in clients)
    for client in clients:
        client.transport.abort()
    print(json.dumps({"ended_early": ended}), flush=True)


async def order(port: int, count: int) -> None:
    clients = await connect(port, count)
    for seq, client in enumerate(clients):
        target = f"/?work={2 * count + 3000}" if seq == 0 else "/"
        client.transport.write(request_head("GET", target, seq=seq))
        await asyncio.sleep(0.001)
    leaving = set(random.Random(4).sample(range(1, count), count // 3))
    for seq in leaving:
        clients[seq].transport.abort()
    answers = await asyncio.gather(
        *(client.answered for seq, client in enumerate(clients) if seq not in leaving)
    )
    print(json.dumps({"answered": sum(answers), "left": len(leaving), "failed": answers.count(False)}))


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    numbers = tuple(map(int, rest))
    uvloop.run(hold(*numbers) if kind == "hold" else order(*numbers))
