"""A prober with the real dispatcher and nodes that answer as told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from proxy.config import Config
from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.lease import Lease
from proxy.dispatch.line import Ticket
from proxy.dispatch.nodes import Node
from proxy.probe import Prober

Answer = Callable[[httpx.Request], Awaitable[httpx.Response]]


def seconds() -> float:
    return asyncio.get_running_loop().time()


class Hospital:
    """Nodes that answer probes as told. `asked`: (seconds since the start, host) of every probe."""

    def __init__(self, **settings: Any) -> None:
        self.began = seconds()
        self.granted: list[Lease] = []
        self.asked: list[tuple[float, str]] = []
        self.closed: list[str] = []
        self.answers: dict[str, int | Exception | Answer] = {}
        self.dispatcher = Dispatcher(capacity=9, grant=lambda _, lease: self.granted.append(lease))
        self.client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        self.prober = Prober(
            self.dispatcher,
            Config(**settings),
            lambda node: self.closed.append(node.name),
            self.client,
            clock=seconds,
            random=lambda: 0.5,  # intervals have their nominal length
        )

    async def __aenter__(self) -> Hospital:
        asyncio.get_running_loop().call_soon(self.prober.start)  # with the nodes that a test begins with
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.prober.stop()
        await self.client.aclose()

    def add(self, name: str, answer: int | Exception | Answer = 200, *, is_ready: bool = False) -> Node:
        self.answers[name] = answer
        node = self.dispatcher.add(name, seconds(), id=name, url=f"http://{name}:8000", is_running=True)
        if is_ready:
            self.dispatcher.ready(node, seconds())
        return node

    def join(self) -> None:
        self.dispatcher.join(Ticket(), seconds())

    def times(self, name: str) -> list[float]:
        return [at for at, host in self.asked if host == name]

    async def until(self, second: float) -> None:
        await asyncio.sleep(self.began + second - seconds())
        for _ in range(50):
            await asyncio.sleep(0)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((round(seconds() - self.began, 1), request.url.host))
        answer = self.answers[request.url.host]
        if isinstance(answer, Exception):
            raise answer
        response = httpx.Response(answer) if isinstance(answer, int) else await answer(request)
        # As from a socket: not read yet.
        return httpx.Response(response.status_code, headers=response.headers, stream=response.stream)


def after(secs: float, status: int = 200) -> Answer:
    async def answer(_: httpx.Request) -> httpx.Response:
        await asyncio.sleep(secs)
        return httpx.Response(status)

    return answer


REFUSED = httpx.ConnectError("refused")
