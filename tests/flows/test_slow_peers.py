"""Promise 5: nodes work, clients wait. A slow upload or download occupies a node for its own work only."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from tests.fakes.proxy_here import ProxyHere, proxy_here
from tests.fakes.wire_client import WireClient
from tests.fakes.wire_node import Turn, WireNode, work

WORK_SECS = 0.05
PIECE = 100_000


class Timed:
    """A node's work, and the seconds it took by the node's own clock, its answer's way included."""

    def __init__(self, body: bytes = b"ok") -> None:
        self.busy: dict[str, float] = {}
        self._work = work(WORK_SECS, body)

    async def __call__(self, turn: Turn) -> None:
        began = monotonic()
        await self._work(turn)
        await turn.writer.drain()
        self.busy[turn.target] = monotonic() - began


async def others_are_served(proxy: ProxyHere, count: int) -> None:
    for number in range(count):
        answer = await proxy.ask(f"/other/{number}")
        assert answer.status == 200


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
async def test_slow_upload(is_chunked: bool) -> None:
    """1 MB in ten pieces over a second: the node hears of it when it is whole."""
    timed = Timed()
    async with WireNode(timed) as node, proxy_here([node.url]) as proxy, WireClient(proxy.port) as client:
        framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {10 * PIECE}"
        client.writer.write(f"POST /slow HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n".encode())
        others = asyncio.create_task(others_are_served(proxy, 10))
        for _ in range(10):
            assert "/slow" not in node.targets
            piece = b"x" * PIECE
            client.writer.write(b"%x\r\n%b\r\n" % (PIECE, piece) if is_chunked else piece)
            await asyncio.sleep(0.1)  # the client's own pace
        if is_chunked:
            client.writer.write(b"0\r\n\r\n")
        assert (await client.answer()).status == 200
        await others
        assert timed.busy["/slow"] < WORK_SECS + 0.1
        assert await proxy.metric("node_busy_seconds_total") < 11 * (WORK_SECS + 0.03)
    assert [len(turn.body) for turn in node.seen if turn.target == "/slow"] == [10 * PIECE]
    assert node.violations == 0


async def test_slow_download() -> None:
    """20 MB taken over a second and more: the node is free as soon as it has said them."""
    body = bytes(range(256)) * 80_000
    timed = Timed(body)
    async with WireNode(timed) as node, proxy_here([node.url]) as proxy, WireClient(proxy.port) as client:
        client.send("/slow")
        head = await client.head()
        size = int(head.fields["content-length"])
        node.behave = work(WORK_SECS)
        others = asyncio.create_task(others_are_served(proxy, 10))
        taken = b""
        while len(taken) < size:
            taken += await client.reader.readexactly(min(size - len(taken), size // 20))
            if others.done() and len(taken) < size // 2:
                pytest.fail("too quick to prove anything")
            await asyncio.sleep(0.05)  # the client's own pace
        await others
        assert taken == body
        assert timed.busy["/slow"] < WORK_SECS + 0.3
        assert node.violations == 0


@pytest.mark.slow
async def test_reader_that_stops_is_cut_and_nothing_is_kept() -> None:
    async with WireNode(work(0, b"x" * 20_000_000)) as node:
        async with proxy_here([node.url], body_timeout_secs=0.5) as proxy:
            async with WireClient(proxy.port) as client:
                client.send("/slow")
                await client.head()
                client.writer.transport.pause_reading()  # type: ignore[attr-defined]
                await proxy.is_quiet()
            assert await proxy.requests() == {(200, "answered"): 1}


async def test_full_disk_slows_the_node_down_and_loses_nothing() -> None:
    """Past `max_spool_bytes` the node waits for the client: flow control, not an error."""
    body = bytes(range(256)) * 40_000
    async with WireNode(work(0, body)) as node:
        async with (
            proxy_here([node.url], spool_memory_bytes=10_000, max_spool_bytes=1_000_000) as proxy,
            WireClient(proxy.port) as client,
        ):
            client.send("/slow")
            head = await client.head()
            await asyncio.sleep(0.2)  # as long as a client may take
            assert proxy.app.dispatcher.running == 1, "the node has not been read to its end"
            assert proxy.app.settings.spool_budget.used <= 1_000_000
            assert await client.reader.readexactly(int(head.fields["content-length"])) == body
