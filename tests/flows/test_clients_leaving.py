"""Clients leave at every point: nobody's request is sent for nobody, and no node gets two (DESIGN 4.1, promise 2)."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from time import monotonic
from typing import Any

import pytest

from tests.fakes.proxy_here import ProxyHere, proxy_here
from tests.fakes.until import until
from tests.fakes.wire_client import WireClient
from tests.fakes.wire_node import Behaviour, Turn, WireNode, work

pytestmark = pytest.mark.usefixtures("probed_soon")

LEAVE = pytest.mark.parametrize("leave", [WireClient.leave, WireClient.reset], ids=["closing", "resetting"])


class Gate:
    """A node's work that ends when the test says so."""

    def __init__(self, answer: bytes = b"ok") -> None:
        self.is_open = asyncio.Event()
        self._answer = answer

    async def __call__(self, turn: Turn) -> None:
        await self.is_open.wait()
        turn.answer(self._answer)


@LEAVE
async def test_while_sending(leave: Any) -> None:
    async with WireNode() as node, proxy_here([node.url]) as proxy:
        async with WireClient(proxy.port) as client:
            client.writer.write(
                b"POST /never HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 500_000
            )
            await until(lambda: proxy.app.settings.spool_budget.used > 0, "half of the body has come")
            leave(client)
            await proxy.is_quiet()
        async with WireClient(proxy.port) as client:
            client.writer.write(b"GET /never HTTP/1.1\r\nHo")
            await until(lambda: any(c.is_in_head for c in proxy.app.server.connections), "half a head")
            leave(client)
            await proxy.is_quiet()
        assert await proxy.metric("clients_left_total", phase="sending") == 2
        assert (await proxy.ask("/next")).status == 200
    assert node.targets == ["/next"]


@LEAVE
async def test_while_waiting(leave: Any) -> None:
    gate = Gate()
    async with WireNode(gate) as node, proxy_here([node.url]) as proxy, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(WireClient(proxy.port)) for _ in range(6)]
        for number, client in enumerate(clients):
            client.send(f"/{number}", method="POST", body=b"x" * 300_000)
            await until(lambda n=number: proxy.app.dispatcher.joined == n + 1, "it joined")  # type: ignore[misc]
        for number in (1, 3, 5):  # the head, one in the middle, the tail
            leave(clients[number])
        await proxy.waits(2)
        gate.is_open.set()
        stayed = [clients[number] for number in (0, 2, 4)]
        assert [answer.status for answer in await asyncio.gather(*(c.answer() for c in stayed))] == [200] * 3
        assert await proxy.metric("clients_left_total", phase="waiting") == 3
    assert node.targets == ["/0", "/2", "/4"]


async def test_fin_while_waiting_is_leaving_and_while_running_is_not() -> None:
    gate = Gate()
    async with WireNode(gate) as node, proxy_here([node.url]) as proxy, AsyncExitStack() as stack:
        running, waiting = [await stack.enter_async_context(WireClient(proxy.port)) for _ in range(2)]
        running.send("/running")
        await node.sees(1)
        waiting.send("/waiting")
        await proxy.waits(1)
        running.half_close()
        waiting.half_close()
        await proxy.waits(0)
        gate.is_open.set()
        assert (await running.answer()).body == b"ok"
        assert await waiting.reader.read() == b""
    assert node.targets == ["/running"]


@LEAVE
async def test_while_its_node_is_being_connected(leave: Any) -> None:
    """The node was never told of it, so it is handed on at once, as ready as before."""
    with socket.socket() as deaf:  # its backlog full, a SYN is not answered
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = deaf.getsockname()
        async with AsyncExitStack() as stack:
            fillers = []
            for _ in range(4):
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(address)
                fillers.append(filler)
            engine = {"kind": "static", "nodes": [f"http://127.0.0.1:{address[1]}"]}
            async with proxy_here(provider=engine, connect_timeout_secs=30, probe_timeout_secs=60) as proxy:
                dispatcher = proxy.app.dispatcher
                await until(lambda: len(dispatcher.nodes) == 1, "the node is known")
                (node,) = dispatcher.nodes
                dispatcher.ready(node, monotonic())  # as its probe would say, if it were answered
                first, second = [await stack.enter_async_context(WireClient(proxy.port)) for _ in range(2)]
                first.send("/1")
                await until(lambda: dispatcher.running == 1, "the first is granted")
                second.send("/2")
                await proxy.waits(1)
                leave(first)
                await proxy.waits(0)
                assert dispatcher.running == 1
                assert node.served == 0
                leave(second)
                await proxy.is_quiet()
                assert node.state == "idle"
                assert await proxy.metric("clients_left_total", phase="waiting") == 2


async def noticed(proxy: ProxyHere, leave: Any) -> None:
    """A FIN of a running request's client may be half a close: it is known to have left when it takes no more."""
    if leave is WireClient.reset:
        await until(lambda: proxy.app.stats.clients_left["running"] == 1, "its leaving is noticed")


async def chunks_for_ever(turn: Turn) -> None:
    turn.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    ended = asyncio.create_task(turn.peer_end())
    while not ended.done():
        turn.write(b"5\r\nbegun\r\n")
        await asyncio.sleep(0.01)


def begins_counted(gate: Gate) -> Behaviour:
    async def behave(turn: Turn) -> None:
        turn.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nbeg")
        await gate.is_open.wait()
        turn.write(b"un!")

    return behave


@LEAVE
@pytest.mark.parametrize("policy", ["finish", "auto"])
async def test_while_running_the_run_is_finished(leave: Any, policy: str) -> None:
    gate = Gate()
    async with WireNode(gate) as node, proxy_here([node.url], on_client_gone=policy) as proxy:
        async with WireClient(proxy.port) as client, WireClient(proxy.port) as next_one:
            client.send("/left", method="POST")
            await node.sees(1)
            next_one.send("/next", method="POST")
            await proxy.waits(1)
            leave(client)
            await noticed(proxy, leave)
            assert node.working == 1
            assert len(node.seen) == 1, "the next one is kept back until the run is over"
            gate.is_open.set()
            assert (await next_one.answer()).status == 200
    assert node.violations == 0
    assert node.targets == ["/left", "/next"]


@LEAVE
@pytest.mark.parametrize("policy", ["finish", "auto"])
async def test_during_an_answer_of_known_length(leave: Any, policy: str) -> None:
    gate = Gate()
    async with WireNode(begins_counted(gate)) as node, proxy_here([node.url], on_client_gone=policy) as proxy:
        async with WireClient(proxy.port) as client, WireClient(proxy.port) as next_one:
            client.send("/left")
            assert await (await client_head(client)).readexactly(3) == b"beg"
            next_one.send("/next")
            await proxy.waits(1)
            leave(client)
            await noticed(proxy, leave)
            assert len(node.seen) == 1
            gate.is_open.set()
            assert (await next_one.answer()).body == b"begun!"
    assert node.violations == 0


async def client_head(client: WireClient) -> asyncio.StreamReader:
    await client.head()
    return client.reader


@LEAVE
@pytest.mark.parametrize("policy", ["abort", "auto"])
async def test_during_an_answer_of_unknown_length_the_node_is_told(leave: Any, policy: str) -> None:
    async with WireNode(chunks_for_ever) as node, proxy_here([node.url], on_client_gone=policy) as proxy:
        async with WireClient(proxy.port) as client:
            client.send("/left")
            await client.head()
            assert await client.chunk() == b"begun"
            leave(client)
            await until(lambda: not node.working, "the node noticed")
        probes = node.probes
        node.behave = work(0)
        assert (await proxy.ask("/next")).status == 200
        assert node.probes > probes, "it had to pass its probe first"
    assert node.violations == 0


async def test_finish_reads_an_endless_answer_to_its_end() -> None:
    gate = Gate()

    async def stream(turn: Turn) -> None:
        turn.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n")
        await gate.is_open.wait()
        turn.write(b"0\r\n\r\n")

    async with WireNode(stream) as node, proxy_here([node.url], on_client_gone="finish") as proxy:
        async with WireClient(proxy.port) as client:
            client.send("/left")
            await client.head()
            client.reset()
            await until(lambda: proxy.app.stats.clients_left["running"] == 1, "its leaving is noticed")
            assert proxy.app.dispatcher.running == 1
            gate.is_open.set()
            await until(lambda: not proxy.app.dispatcher.running, "read to its end")
            (known,) = proxy.app.dispatcher.nodes
            assert known.state == "idle", "no probe was needed"


async def test_abort_cuts_a_run_before_its_answer() -> None:
    async def hang(turn: Turn) -> None:
        await turn.peer_end()

    async with WireNode(hang) as node, proxy_here([node.url], on_client_gone="abort") as proxy:
        async with WireClient(proxy.port) as client:
            client.send("/left", method="POST")
            await node.sees(1)
            client.reset()
            await until(lambda: not node.working, "the node noticed")
        (known,) = proxy.app.dispatcher.nodes
        assert known.state == "unready"
        await proxy.has_ready(1)


@LEAVE
async def test_while_reading(leave: Any) -> None:
    """The node was free long before; what the client had not taken is dropped."""
    async with WireNode(work(0, b"x" * 20_000_000)) as node, proxy_here([node.url]) as proxy:
        async with WireClient(proxy.port) as client:
            client.send("/big")
            await client.head()
            await until(lambda: not proxy.app.dispatcher.running, "the node is free")
            assert proxy.app.settings.spool_budget.used > 0
            leave(client)
            await proxy.is_quiet()
        assert await proxy.metric("clients_left_total", phase="reading") == 1
        assert await proxy.requests() == {(200, "answered"): 1}
