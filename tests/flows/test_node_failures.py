"""What a node does wrong has one right outcome, harms nobody else and leaves nothing behind (DESIGN 1.4, 4.2)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from contextlib import AsyncExitStack
from typing import cast

import pytest

from proxy.providers.process import ProcessProvider
from tests.fakes.demo_nodes import DEMO_NODE, stats_of
from tests.fakes.proxy_here import proxy_here
from tests.fakes.until import until
from tests.fakes.wire_client import WireClient
from tests.fakes.wire_node import Behaviour, Turn, WireNode, at_once, work

pytestmark = pytest.mark.usefixtures("probed_soon")

HEAD = b"HTTP/1.1 200 OK\r\n"


def breaks(sent: bytes, *, by_reset: bool) -> Behaviour:
    """A node that says this much and then ends or resets the connection."""

    async def behave(turn: Turn) -> None:
        turn.write(sent)
        await asyncio.sleep(0.05)  # or the reset would overtake what was sent
        if by_reset:
            turn.reset()
        else:
            turn.close()

    return behave


def misbehaves_once(behave: Behaviour) -> Behaviour:
    """As told at `/bad`, well at anything else."""

    async def choose(turn: Turn) -> None:
        await (behave if turn.target == "/bad" else at_once)(turn)

    return choose


BEFORE_AN_ANSWER = {
    "closed before the head": breaks(b"", by_reset=False),
    "reset before the head": breaks(b"", by_reset=True),
    "closed in the head": breaks(HEAD + b"Content-Le", by_reset=False),
    "reset in the head": breaks(HEAD + b"Content-Le", by_reset=True),
    "garbage": breaks(b"\x00\x01 this is no HTTP\r\n\r\n", by_reset=False),
    "another protocol": breaks(b"SSH-2.0-OpenSSH_9.2\r\n", by_reset=False),
    "too large a head": breaks(HEAD + b"X: " + b"x" * 70_000 + b"\r\n\r\n", by_reset=False),
    "an endless head": breaks(HEAD + b"X: xxxxxxxx\r\n" * 20_000, by_reset=False),
    "two lengths": breaks(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc", by_reset=False),
    "101 unasked": breaks(b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", by_reset=False),
}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("behave", BEFORE_AN_ANSWER.values(), ids=BEFORE_AN_ANSWER.keys())
async def test_node_that_breaks_before_its_answer(behave: Behaviour, method: str) -> None:
    """502, outcome unknown, sent once only, and the node has passed its probe before it serves the next one."""
    async with WireNode(misbehaves_once(behave)) as node, proxy_here([node.url]) as proxy:
        probes = node.probes
        answer = await proxy.ask("/bad", method=method, body=b"x" * 10)
        assert answer.outcome == (502, "unknown")
        assert 'outcome="unknown"' in answer.fields["proxy-status"]
        assert (await proxy.ask("/good", method=method)).status == 200
        assert node.probes > probes
        assert await proxy.requests() == {(502, "unknown"): 1, (200, "answered"): 1}
    assert node.targets == ["/bad", "/good"]


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"
IN_THE_BODY = {
    "length, closed": breaks(HEAD + b"Content-Length: 8\r\n\r\nhalf", by_reset=False),
    "length, reset": breaks(HEAD + b"Content-Length: 8\r\n\r\nhalf", by_reset=True),
    "chunked, closed": breaks(CHUNKED, by_reset=False),
    "chunked, reset": breaks(CHUNKED, by_reset=True),
    "chunked, garbage": breaks(CHUNKED + b"nonsense\r\n", by_reset=False),
    "to the end, reset": breaks(HEAD + b"\r\nhalf", by_reset=True),
}


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("behave", IN_THE_BODY.values(), ids=IN_THE_BODY.keys())
async def test_node_that_breaks_in_its_answer(behave: Behaviour, version: str) -> None:
    """What came is passed on, and the client sees that it is not whole."""
    async with WireNode(misbehaves_once(behave)) as node, proxy_here([node.url]) as proxy:
        answer = await proxy.ask("/bad", version=version)
        assert (answer.status, answer.body, answer.is_whole) == (200, b"half", False)
        assert (await proxy.ask("/good")).status == 200
        assert await proxy.requests() == {(200, "unknown"): 1, (200, "answered"): 1}
    assert node.targets == ["/bad", "/good"]


async def test_silent_node_is_given_up() -> None:
    async def hang(turn: Turn) -> None:
        await turn.peer_end()

    async with WireNode(misbehaves_once(hang)) as node, proxy_here([node.url], run_timeout_secs=0.3) as proxy:
        answer = await proxy.ask("/bad")
        assert answer.outcome == (504, "unknown")
        assert "run_timeout_secs" in answer.problem["detail"]
        assert (await proxy.ask("/good")).status == 200
        assert await proxy.requests() == {(504, "unknown"): 1, (200, "answered"): 1}


async def test_answer_that_stops_in_the_middle_is_cut() -> None:
    async def stall(turn: Turn) -> None:
        turn.write(CHUNKED)
        await turn.peer_end()

    async with (
        WireNode(misbehaves_once(stall)) as node,
        proxy_here([node.url], run_timeout_secs=0.3) as proxy,
    ):
        answer = await proxy.ask("/bad")
        assert (answer.status, answer.body, answer.is_whole) == (200, b"half", False)
        assert await proxy.requests() == {(200, "unknown"): 1}


@pytest.mark.parametrize(("method", "right"), [("GET", {200}), ("POST", {200, 502})])
async def test_kept_connection_closed_at_the_moment_of_reuse(method: str, right: set[int]) -> None:
    """A safe request is sent anew on a new connection; any other may have run, so its client is told."""
    connections: Counter[asyncio.StreamWriter] = Counter()
    taken: list[str] = []

    async def second_request_kills(turn: Turn) -> None:
        connections[turn.writer] += 1
        if connections[turn.writer] == 2:
            turn.reset()
        else:
            taken.append(turn.target)
            turn.answer()

    async with WireNode(second_request_kills) as node, proxy_here([node.url]) as proxy:
        statuses = [(await proxy.ask(f"/{n}", method=method)).status for n in range(6)]
        assert set(statuses) <= right
        assert statuses[0] == 200
        requests = await proxy.requests()
        assert requests[200, "answered"] == len(taken)
        assert requests.get((502, "unknown"), 0) == statuses.count(502)
        resent = await proxy.metric("resends_total", reason="stale_connection")
        assert resent == (5 if method == "GET" else 0)
    assert len(taken) == len(set(taken)), "nothing was run twice"


async def test_node_that_dies_at_work_on_a_kept_connection_may_have_run_it() -> None:
    async def works_then_dies(turn: Turn) -> None:
        if turn.target == "/first":
            turn.answer()
        else:
            await asyncio.sleep(0.15)
            turn.reset()

    async with WireNode(works_then_dies) as node, proxy_here([node.url]) as proxy:
        assert (await proxy.ask("/first")).status == 200
        assert (await proxy.ask("/second")).outcome == (502, "unknown")
        assert await proxy.metric("resends_total", reason="stale_connection") == 0
    assert node.targets == ["/first", "/second"]
    assert node.seen[0].writer is node.seen[1].writer, "it was the kept connection"


async def test_refused_connection_goes_to_the_next_node_in_place() -> None:
    order: list[str] = []

    async def behave(turn: Turn) -> None:
        order.append(turn.target)
        await work(0.05)(turn)

    async with (
        WireNode(behave) as bad,
        WireNode(behave) as good,
        proxy_here([bad.url, good.url], node_refresh_interval_secs=60) as proxy,
        AsyncExitStack() as stack,
    ):
        bad.shut()
        clients = [await stack.enter_async_context(WireClient(proxy.port)) for _ in range(12)]
        for number, client in enumerate(clients):
            client.send(f"/{number}", method="POST")
        answers = await asyncio.gather(*(client.answer() for client in clients))
        assert [answer.status for answer in answers] == [200] * 12
        assert set(order[:2]) == {"/0", "/1"}, "both nodes were asked at once"
        assert order[2:] == [f"/{number}" for number in range(2, 12)], "the refused one kept its place"
        assert await proxy.metric("resends_total", reason="connect") == 1
        assert await proxy.metric("nodes", state="unready") == 1
        assert await proxy.requests() == {(200, "answered"): 12}
        await bad.open()
        await proxy.has_ready(2)


@pytest.mark.parametrize("resend", ["never", "idempotent"])
async def test_resend_policies(resend: str) -> None:
    breaks_off = misbehaves_once(breaks(b"", by_reset=True))
    async with WireNode(breaks_off) as node, proxy_here([node.url], resend=resend) as proxy:
        get, post = await proxy.ask("/bad"), await proxy.ask("/bad", method="POST")
        assert get.outcome == post.outcome == (502, "unknown")
        if resend == "never":
            await proxy.has_ready(1)
            node.shut()
            assert (await proxy.ask("/", method="POST")).outcome == (502, "not_sent")
        assert await proxy.metric("resends_total", reason="idempotent") == (
            2 if resend == "idempotent" else 0
        )
    assert len(node.seen) == (4 if resend == "idempotent" else 2)


@pytest.mark.slow
async def test_killed_node_process_is_replaced_and_nobody_else_notices() -> None:
    engine = {"kind": "process", "command": DEMO_NODE}
    async with proxy_here(provider=engine, min_nodes=3, unready_destroy_secs=0.5) as proxy:
        await proxy.has_ready(3)
        provider = cast(ProcessProvider, proxy.app.provider)
        victim = asyncio.create_task(proxy.ask("/victim?work=30", method="POST"))
        await until(lambda: bool(proxy.app.forwarder.running), "it runs")
        (node,) = [node for node in proxy.app.dispatcher.nodes if node.state == "busy"]
        others = [asyncio.create_task(proxy.ask(f"/{n}?work=0.02", method="POST")) for n in range(60)]
        await until(lambda: proxy.app.dispatcher.served > 10, "some are served")
        assert node.id is not None
        os.kill(provider.pid(node.id), signal.SIGKILL)
        assert (await victim).outcome == (502, "unknown")
        assert [answer.status for answer in await asyncio.gather(*others)] == [200] * 60
        await until(lambda: node.state == "gone", "the dead node is gone")
        await proxy.has_ready(3)
        assert await proxy.requests() == {(502, "unknown"): 1, (200, "answered"): 60}
        for living in proxy.app.dispatcher.nodes:
            assert living.url is not None
            assert (await stats_of(living.url))["violations"] == 0


@pytest.mark.slow
async def test_silent_node_process_is_replaced() -> None:
    """It may still be at work, so nothing else is ever sent to it."""
    engine = {"kind": "process", "command": DEMO_NODE}
    async with proxy_here(provider=engine, run_timeout_secs=0.5) as proxy:
        await proxy.has_ready(1)
        (node,) = proxy.app.dispatcher.nodes
        assert (await proxy.ask("/?work=30", method="POST")).outcome == (504, "unknown")
        assert node.state != "busy"
        assert node.must_replace
        assert (await proxy.ask("/")).status == 200
        assert node.state == "gone"
        assert node.served == 1
