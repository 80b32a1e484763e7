"""The five promises of DESIGN 0 under load, held against what the nodes themselves saw.

Clients that wait, leave, dawdle and half-close; nodes that refuse, break off, hang, stream and work on. By seed, so
that a failure can be looked at again, though not to the microsecond.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from time import monotonic

import pytest

from proxy import app
from proxy.dispatch.lease import Lease
from proxy.dispatch.line import Ticket
from proxy.forwarder import grant
from tests.fakes.proxy_here import ProxyHere, proxy_here
from tests.fakes.wire_client import Answer, WireClient
from tests.fakes.wire_node import Turn, WireNode

SECS = 6.0
CLIENTS = 40
HEAD = b"HTTP/1.1 200 OK\r\n"


@dataclass
class Ledger:
    """What became of each request, by its target. `ended`: those whose answer the node gave in full."""

    ended: set[str] = field(default_factory=set)
    answers: dict[str, Answer | None] = field(default_factory=dict)
    overtaken: list[tuple[int, int]] = field(default_factory=list)


class Moods:
    """A node's behaviour: mostly right, else wrong in one of the ways there are. It works to the end of its work."""

    def __init__(self, seed: int, ledger: Ledger) -> None:
        self._chance = random.Random(seed)
        self._ledger = ledger

    async def __call__(self, turn: Turn) -> None:
        chance, body = self._chance, turn.target.encode() + b"x" * self._chance.choice((0, 10, 300_000))
        await asyncio.sleep(chance.random() * 0.02)
        match chance.choices(range(8), (60, 10, 5, 4, 4, 4, 4, 2))[0]:
            case 0:
                turn.answer(body)
            case 1:
                turn.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
                for at in range(0, len(body), 70_000):
                    piece = body[at : at + 70_000]
                    turn.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    await asyncio.sleep(0.002)
                turn.write(b"0\r\n\r\n")
            case 2:
                turn.answer(body, status=202)
                await turn.work_on(asyncio.sleep(0.05))
            case 3:
                turn.reset()
                return
            case 4:
                turn.write(HEAD + b"Content-Length: 1000\r\n\r\npart")
                await asyncio.sleep(0.01)
                turn.close()
                return
            case 5:
                turn.write(b"garbage\r\n\r\n")
                return
            case 6:
                await asyncio.sleep(0.05)
                turn.close()  # and works on without a connection
                await asyncio.sleep(0.1)
                return
            case _:
                await asyncio.sleep(1.5)  # past run_timeout_secs: nobody listens any more
                return
        self._ledger.ended.add(turn.target)


async def behave_somehow(proxy: ProxyHere, chance: random.Random, target: str, ledger: Ledger) -> None:
    """One request, in one of the ways of clients."""
    body = b"b" * chance.choice((0, 100, 400_000))
    async with WireClient(proxy.port) as client:
        ledger.answers[target] = None
        match chance.choices(range(6), (60, 10, 10, 8, 6, 6))[0]:
            case 0:
                client.send(target, method="POST", body=body)
            case 1:  # leaves at some point
                client.send(target, method="POST", body=body)
                await asyncio.sleep(chance.random() * 0.3)
                chance.choice((client.leave, client.reset))()
                return
            case 2:  # leaves before its request is whole
                client.writer.write(
                    f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf".encode()
                )
                await asyncio.sleep(chance.random() * 0.05)
                chance.choice((client.leave, client.reset))()
                return
            case 3:  # sends slowly
                client.writer.write(
                    f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n".encode()
                )
                for _ in range(5):
                    await asyncio.sleep(0.05)
                    client.writer.write(b"x")
            case 4:  # reads slowly
                client.send(target, method="POST", body=body)
                client.writer.transport.pause_reading()  # type: ignore[attr-defined]
                await asyncio.sleep(0.5)
                client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            case _:  # what it asks for is no HTTP
                client.writer.write(
                    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n"
                )
                assert (await client.answer()).outcome == (400, "not_sent")
                return
        ledger.answers[target] = await client.answer()


@pytest.mark.slow
@pytest.mark.usefixtures("probed_soon")
@pytest.mark.parametrize("seed", [1, 2])
async def test_the_five_promises(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, chance = Ledger(), random.Random(seed)
    proxies: list[ProxyHere] = []

    def record(ticket: Ticket, lease: Lease) -> None:
        head = proxies[0].app.dispatcher.line.head
        if head is not None and head.number < ticket.number:
            ledger.overtaken.append((ticket.number, head.number))
        grant(ticket, lease)

    monkeypatch.setattr(app, "grant", record)
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(WireNode(Moods(seed * 10 + n, ledger))) for n in range(4)]
        async with proxy_here(
            [node.url for node in nodes], run_timeout_secs=1, spool_memory_bytes=50_000
        ) as proxy:
            proxies.append(proxy)
            until = monotonic() + SECS
            numbers = iter(range(1_000_000))

            async def keep_asking() -> None:
                while monotonic() < until:
                    await behave_somehow(proxy, chance, f"/{next(numbers)}", ledger)

            async def shut_doors() -> None:
                while monotonic() < until:
                    node = chance.choice(nodes)
                    await asyncio.sleep(0.2)
                    node.shut()
                    await asyncio.sleep(0.05)
                    await node.open()

            async def watch_pairing() -> None:
                dispatcher = proxy.app.dispatcher
                while monotonic() < until:
                    assert dispatcher.line.head is None or dispatcher.nodes.next_idle is None
                    await asyncio.sleep(0)

            async with asyncio.TaskGroup() as group:
                for _ in range(CLIENTS):
                    group.create_task(keep_asking())
                group.create_task(shut_doors())
                group.create_task(watch_pairing())
    hold(ledger, nodes)


def hold(ledger: Ledger, nodes: list[WireNode]) -> None:
    seen = [target for node in nodes for target in node.targets]
    answered = {target: answer for target, answer in ledger.answers.items() if answer is not None}
    assert len(answered) > 150, "a soak"
    # 1, order: nobody started before one who had joined earlier and still waited.
    assert not ledger.overtaken
    # 2, one at a time.
    assert [node.violations for node in nodes] == [0, 0, 0, 0]
    # 3, never paid twice, and the caller is told which.
    assert len(seen) == len(set(seen))
    outcomes = set()
    for target, answer in answered.items():
        if answer.status in (200, 202):
            assert target in seen
            if answer.is_whole:
                assert target in ledger.ended, "never a clean end of half an answer"
                assert answer.body.rstrip(b"x") == target.encode(), "its own answer"
        else:
            outcomes.add(answer.outcome)
            assert answer.outcome in ((502, "unknown"), (504, "unknown")), answer
    assert {(502, "unknown"), (504, "unknown")} <= outcomes, "every kind of failure was met"
    # 4 and 5 have flows of their own (scaling, slow peers); here: whoever stayed was answered.
    assert all(answer.status for answer in answered.values())
