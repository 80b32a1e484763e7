"""The users' port: its time limits cut those who are slow and nobody else, and it can be closed."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import pytest

from tests.fakes.proxy_here import proxy_here
from tests.fakes.wire_client import WireClient
from tests.fakes.wire_node import WireNode

LIMITS: dict[str, Any] = {
    "header_timeout_secs": 0.4,
    "body_timeout_secs": 0.4,
    "keepalive_timeout_secs": 0.4,
}


@pytest.mark.parametrize(
    ("sent", "gets"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX", b"HTTP/1.1 408 "),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nfour", b"HTTP/1.1 408 "),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 200 "),
    ],
    ids=["silent", "a slow head", "a slow body", "idle after its answer"],
)
async def test_slow_clients_end_without_harm_to_others(sent: bytes, gets: bytes) -> None:
    async with WireNode() as node, proxy_here([node.url], **LIMITS) as proxy:
        began = monotonic()
        async with WireClient(proxy.port) as slow:
            slow.writer.write(sent)
            end = asyncio.create_task(slow.reader.read())
            while not end.done():
                assert (await proxy.ask("/other")).status == 200
                await asyncio.sleep(0.02)
            answer = await end
        assert 0.3 < monotonic() - began < 3
        assert answer.startswith(gets)
        assert bool(answer) == bool(gets)


async def test_many_slow_heads_at_once() -> None:
    async with WireNode() as node, proxy_here([node.url], **LIMITS) as proxy:
        ends = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(200)]
        for _, writer in ends:
            writer.write(b"GET / HTTP/1.1\r\n")
        assert (await proxy.ask("/other")).status == 200
        answers = await asyncio.gather(*(reader.read() for reader, _ in ends))
        for _, writer in ends:
            writer.close()
        assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)
        assert await proxy.requests() == {(200, "answered"): 1, (408, "not_sent"): 200}


async def test_closed_port() -> None:
    async with WireNode() as node, proxy_here([node.url]) as proxy, WireClient(proxy.port) as idle:
        idle.send()
        await idle.answer()
        server = proxy.app.server
        accepted = [server.is_accepting]
        server.stop_accepting()
        assert [*accepted, server.is_accepting] == [True, False]
        assert await idle.reader.read() == b""
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
