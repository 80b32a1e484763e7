"""A node in this process on a real socket that does, byte for byte, what a test says.

It serves one request at a time: one that comes while it works is a violation, answered 503. It works until its
behaviour returns, whoever leaves meanwhile. Its connections stay open after an answer, as a behaviour left them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType

from tests.fakes.until import until


@dataclass(slots=True)
class Turn:
    """One request at the node, and the means to answer it."""

    node: WireNode
    head: bytes
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def target(self) -> str:
        return self.head.split(b" ", 2)[1].decode()

    def write(self, data: bytes) -> None:
        if not self.writer.is_closing():  # uvloop raises where asyncio is silent
            self.writer.write(data)

    def answer(self, body: bytes = b"ok", *, status: int = 200, fields: bytes = b"") -> None:
        self.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(body), fields, body))

    def close(self) -> None:
        """End the connection cleanly."""
        self.writer.close()

    def reset(self) -> None:
        """End it with a RST, after what has been written."""
        reset(self.writer)

    async def work_on(self, work: Awaitable[object]) -> None:
        """Work after the answer; a request that comes meanwhile on this same connection is a violation, too."""
        await work
        if self.reader._buffer:  # type: ignore[attr-defined]
            self.node.violations += 1

    async def peer_end(self) -> None:
        """Return once the proxy has ended this connection."""
        with contextlib.suppress(ConnectionError):
            await self.reader.read()


Behaviour = Callable[[Turn], Awaitable[None]]


async def at_once(turn: Turn) -> None:
    turn.answer()


def work(secs: float, body: bytes = b"ok", *, fields: bytes = b"") -> Behaviour:
    async def behave(turn: Turn) -> None:
        await asyncio.sleep(secs)
        turn.answer(body, fields=fields)

    return behave


@dataclass(slots=True)
class WireNode:
    """`seen`: the requests, in the order of their coming; `readiness`: the status of its probes while it
    does not work, None: no answer."""

    behave: Behaviour = at_once
    readiness: int | None = 200
    seen: list[Turn] = field(default_factory=list)
    probes: int = 0
    working: int = 0
    violations: int = 0
    connections: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _waiting: set[asyncio.StreamWriter] = field(default_factory=set)  # connections between two requests

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def targets(self) -> list[str]:
        return [turn.target for turn in self.seen]

    async def __aenter__(self) -> WireNode:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def open(self) -> None:
        """Listen, on the same port as before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]

    def shut(self) -> None:
        """Refuse connections and end those that wait for a request; what is being served is answered first."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._waiting:
            writer.close()

    async def sees(self, count: int) -> None:
        """Return once it has seen so many requests."""
        await until(lambda: len(self.seen) >= count, f"{count} requests at the node, not {len(self.seen)}")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while not writer.is_closing() and self._server is not None:
                self._waiting.add(writer)
                turn = Turn(self, await reader.readuntil(b"\r\n\r\n"), b"", reader, writer)
                self._waiting.discard(writer)
                if writer.is_closing():
                    break  # closed while the request was on its way: it was never taken
                await self._take(turn)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the proxy ended it
        finally:
            self._waiting.discard(writer)
            self._tasks.discard(task)
            self.connections -= 1
            writer.close()

    async def _take(self, turn: Turn) -> None:
        if turn.target == "/ready":
            self.probes += 1
            if self.readiness is None:
                await turn.peer_end()
            else:
                status = 503 if self.working else self.readiness
                turn.answer(b"", status=status, fields=b"Connection: close\r\n")
            turn.close()
            return
        if self.working:
            self.violations += 1
            turn.answer(b"busy", status=503)
            return
        self.working += 1
        try:
            self.seen.append(turn)
            turn.body = await _body(turn)
            await self.behave(turn)
        finally:
            self.working -= 1


async def _body(turn: Turn) -> bytes:
    length = 0
    for line in turn.head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        elif name.lower() == b"transfer-encoding":
            return await _chunked_body(turn.reader)
    return await turn.reader.readexactly(length)


async def _chunked_body(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # trailers
    return body


def reset(writer: asyncio.StreamWriter) -> None:
    """Closing without lingering sends a RST."""
    if writer.is_closing():
        return
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
