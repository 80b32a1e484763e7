"""Streams come through as they are made, slow clients stop no node, and WebSockets behave as without us."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from tests.fakes.proxy_here import ProxyHere, proxy_here
from tests.fakes.until import until
from tests.fakes.wire_client import WireClient
from tests.fakes.wire_node import Turn, WireNode, at_once


class Events:
    """A node's stream of events, each sent when the test says so."""

    def __init__(self, *, framing: bytes) -> None:
        self.framing = framing
        self.next: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __call__(self, turn: Turn) -> None:
        turn.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + self.framing + b"\r\n")
        while (event := await self.next.get()) is not None:
            turn.write(b"%x\r\n%b\r\n" % (len(event), event) if self.framing else event)
        if self.framing:
            turn.write(b"0\r\n\r\n")
        else:
            turn.close()


@pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked\r\n", b""], ids=["chunked", "to the end"])
async def test_each_event_comes_at_once(framing: bytes) -> None:
    """The next one is not even made before the client has the last one."""
    events = Events(framing=framing)
    async with WireNode(events) as node, proxy_here([node.url]) as proxy, WireClient(proxy.port) as client:
        client.send("/events")
        assert (await client.head()).fields["content-type"] == "text/event-stream"
        for number in range(50):
            event = b"data: %d\n\n" % number
            events.next.put_nowait(event)
            assert await asyncio.wait_for(client.chunk(), 5) == event
        events.next.put_nowait(None)
        assert await client.chunk() is None


async def test_slow_client_does_not_stop_the_node() -> None:
    """It takes nothing at all, and the node tells its whole story."""
    events = Events(framing=b"Transfer-Encoding: chunked\r\n")
    async with WireNode(events) as node, proxy_here([node.url]) as proxy, WireClient(proxy.port) as client:
        client.send("/events")
        await client.head()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        event = b"data: " + b"x" * 50_000 + b"\n\n"
        for _ in range(200):
            events.next.put_nowait(event)
        events.next.put_nowait(None)
        await until(lambda: not proxy.app.dispatcher.running, "the node is free")
        node.behave = at_once
        assert (await proxy.ask("/other")).status == 200
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        body = b""
        while (piece := await client.chunk()) is not None:
            body += piece
        assert body == event * 200


@asynccontextmanager
async def websocket_node() -> AsyncIterator[Server]:
    """Echoes; `close <code>` closes with that code; refuses `/refused`; `/ready` is ready."""

    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            if isinstance(message, str) and message.startswith("close "):
                await connection.close(int(message[6:]), "as asked")
            elif message == "drop":
                connection.transport.abort()
            else:
                await connection.send(message)

    def answer(connection: ServerConnection, request: Request) -> Response | None:
        if request.path == "/ready":
            return connection.respond(200, "ready")
        if request.path == "/refused":
            return connection.respond(403, "not you")
        return None

    def choose(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        return next((name for name in offered if name in ("comfy.v2", "chat")), None)

    async with serve(
        echo, "127.0.0.1", 0, process_request=answer, select_subprotocol=choose, max_size=None
    ) as server:
        yield server


@asynccontextmanager
async def websocket_proxy() -> AsyncIterator[ProxyHere]:
    async with websocket_node() as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with proxy_here([f"http://127.0.0.1:{port}"]) as proxy:
            yield proxy


async def test_websocket_echoes() -> None:
    async with websocket_proxy() as proxy:
        async with connect(f"ws://127.0.0.1:{proxy.port}/ws", max_size=None, proxy=None) as socket:
            await socket.send("text 你好")
            assert await socket.recv() == "text 你好"
            big = bytes(range(256)) * 20_000
            await socket.send(big)
            assert await socket.recv() == big
            await socket.send([b"in ", b"fragments"])
            assert await socket.recv() == b"in fragments"
            await (await socket.ping())
        assert socket.close_code == 1000
        await proxy.has_ready(1)
        assert await proxy.requests() == {(101, "answered"): 1}


async def test_websocket_subprotocol() -> None:
    async with websocket_proxy() as proxy:
        url = f"ws://127.0.0.1:{proxy.port}/ws"
        async with connect(
            url, subprotocols=[Subprotocol("none"), Subprotocol("chat")], proxy=None
        ) as socket:
            assert socket.subprotocol == "chat"


@pytest.mark.parametrize("code", [1000, 1001, 1008, 1011, 3000, 4999])
async def test_websocket_close_codes(code: int) -> None:
    async with websocket_proxy() as proxy:
        async with connect(f"ws://127.0.0.1:{proxy.port}/ws", proxy=None) as socket:
            await socket.send(f"close {code}")
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            assert (socket.close_code, socket.close_reason) == (code, "as asked")


async def test_websocket_that_breaks_off() -> None:
    """The client learns of it at once, and the node has to pass its probe."""
    async with websocket_proxy() as proxy:
        async with connect(f"ws://127.0.0.1:{proxy.port}/ws", proxy=None) as socket:
            await socket.send("drop")
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            assert socket.close_code == 1006
        await proxy.has_ready(1)


async def test_refused_upgrade_is_an_ordinary_response() -> None:
    async with websocket_proxy() as proxy:
        with pytest.raises(InvalidStatus) as refusal:
            await connect(f"ws://127.0.0.1:{proxy.port}/refused", proxy=None)
        assert refusal.value.response.status_code == 403
        assert refusal.value.response.body == b"not you"
        await proxy.has_ready(1)
        assert await proxy.requests() == {(403, "answered"): 1}


async def test_tunnel_holds_the_slot_until_it_ends() -> None:
    """A request waits behind it, however quiet it is; run_timeout_secs is not for it."""
    async with websocket_node() as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with proxy_here([f"http://127.0.0.1:{port}"], run_timeout_secs=0.3) as proxy:
            async with connect(f"ws://127.0.0.1:{proxy.port}/ws", proxy=None) as socket:
                began = monotonic()
                waiting = asyncio.create_task(proxy.ask("/refused"))
                await proxy.waits(1)
                while monotonic() - began < 0.8:
                    await socket.send("on")
                    assert await socket.recv() == "on"
                    assert len(proxy.app.dispatcher.line) == 1
                assert proxy.app.dispatcher.running == 1
            assert (await waiting).status == 403
