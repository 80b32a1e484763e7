"""Promise 1, order: requests start in the order in which they joined the line, whatever happens around them."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from itertools import chain, pairwise

import pytest

from proxy import app
from proxy.dispatch.lease import Lease
from proxy.dispatch.line import Ticket
from proxy.forwarder import grant
from tests.fakes.demo_nodes import stats_of
from tests.fakes.proxy_here import ProxyHere, proxy_here
from tests.fakes.wire_client import Answer, WireClient
from tests.fakes.wire_node import Turn, WireNode, work


class Starts:
    """Every grant, with what then still waited in front of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.numbers: list[int] = []
        self.overtaken: list[tuple[int, int]] = []
        self.proxy: ProxyHere
        monkeypatch.setattr(app, "grant", self._record)

    def _record(self, ticket: Ticket, lease: Lease) -> None:
        self.numbers.append(ticket.number)
        head = self.proxy.app.dispatcher.line.head
        if head is not None and head.number < ticket.number:
            self.overtaken.append((ticket.number, head.number))
        grant(ticket, lease)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    return Starts(monkeypatch)


async def all_at_once(stack: AsyncExitStack, port: int, count: int) -> list[WireClient]:
    """Clients that are connected and then all send in one go, `/0` first."""
    clients = [await stack.enter_async_context(WireClient(port)) for _ in range(count)]
    for number, client in enumerate(clients):
        client.send(f"/{number}")
    return clients


@pytest.mark.slow
async def test_two_hundred_at_once_start_in_order(starts: Starts) -> None:
    order: list[str] = []

    async def behave(turn: Turn) -> None:
        order.append(turn.target)
        await work(0.05)(turn)

    async with (
        WireNode(behave) as a,
        WireNode(behave) as b,
        WireNode(behave) as c,
        proxy_here([a.url, b.url, c.url]) as proxy,
        AsyncExitStack() as stack,
    ):
        starts.proxy = proxy
        clients = await all_at_once(stack, proxy.port, 200)
        answers = await asyncio.gather(*(client.answer() for client in clients))
    assert [answer.status for answer in answers] == [200] * 200
    assert starts.numbers == list(range(1, 201))
    assert order == [f"/{number}" for number in range(200)]
    assert [node.violations for node in (a, b, c)] == [0, 0, 0]
    assert max(len(node.seen) for node in (a, b, c)) <= 70, "no node stood idle while something waited"


@pytest.mark.slow
async def test_two_hundred_through_node_processes(starts: Starts, node_processes: list[str]) -> None:
    async with proxy_here(node_processes) as proxy, AsyncExitStack() as stack:
        starts.proxy = proxy
        clients = await all_at_once(stack, proxy.port, 200)
        answers = await asyncio.gather(*(client.answer() for client in clients))
    assert [answer.status for answer in answers] == [200] * 200
    assert starts.numbers == list(range(1, 201))
    stats = [await stats_of(url) for url in node_processes]
    assert [node["violations"] for node in stats] == [0, 0, 0]
    targets = [[int(start["target"][1:]) for start in node["started"]] for node in stats]
    assert sorted(chain.from_iterable(targets)) == list(range(200)), "none lost, none twice"
    for at_one_node in targets:
        assert all(earlier < later for earlier, later in pairwise(at_one_node))


async def test_order_holds_while_clients_leave_and_connections_fail(starts: Starts) -> None:
    chance = random.Random(5)
    behave = work(0.01, fields=b"Connection: close\r\n")  # each request makes a connection, which can fail
    async with WireNode(behave) as a, WireNode(behave) as b, WireNode(behave) as c:
        nodes = [a, b, c]
        async with proxy_here([node.url for node in nodes]) as proxy, AsyncExitStack() as stack:
            starts.proxy = proxy
            clients = await all_at_once(stack, proxy.port, 200)
            await proxy.waits(197)
            leaving = set(chance.sample(range(10, 200), 60))

            async def take(number: int, client: WireClient) -> Answer | None:
                if number in leaving:
                    await asyncio.sleep(chance.random() * 0.5)
                    chance.choice([client.leave, client.reset])()
                    return None
                return await client.answer()

            async def fail_connects() -> None:
                for node in chance.choices(nodes, k=12):
                    node.shut()
                    await asyncio.sleep(0.03)
                    await node.open()

            failing = asyncio.create_task(fail_connects())
            answers = await asyncio.gather(*map(take, range(200), clients))
            await failing
            assert await proxy.metric("resends_total", reason="connect") > 0, "some connects failed"
    stayed = {number: answer for number, answer in enumerate(answers) if answer}
    # A connection that a node's kernel took before it shut its door may have reached it: that is never sent again.
    broken = [answer.outcome for answer in stayed.values() if answer.status != 200]
    assert len(stayed) == 140
    assert broken == [(502, "unknown")] * len(broken)
    assert len(broken) <= 6
    assert not starts.overtaken
    served = [target for node in nodes for target in node.targets]
    assert len(served) == len(set(served)), "nobody was sent twice"
    assert {f"/{number}" for number, answer in stayed.items() if answer.status == 200} <= set(served)
    assert [node.violations for node in nodes] == [0, 0, 0]
