"""A node that answers and works on gets its next request only when its probe is 200 again (`node_free_when`)."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import pytest

from tests.fakes.demo_nodes import stats_of
from tests.fakes.proxy_here import proxy_here
from tests.fakes.until import until
from tests.fakes.wire_node import Turn, WireNode


class WorksOn:
    """Answers with `status` at once and then works on, unready, until it is told to end."""

    def __init__(self, status: int = 202) -> None:
        self.status = status
        self.ends_at: list[float] = []
        self.begins_at: list[float] = []
        self.may_end = asyncio.Event()

    async def __call__(self, turn: Turn) -> None:
        self.begins_at.append(monotonic())
        turn.node.readiness = 503
        turn.answer(b"accepted", status=self.status)
        await turn.work_on(self.may_end.wait())
        turn.node.readiness = 200
        self.ends_at.append(monotonic())


@pytest.mark.parametrize(("policy", "status"), [("auto", 202), ("ready", 200), ("ready", 202)])
async def test_next_request_waits_for_the_probe(policy: str, status: int) -> None:
    works_on = WorksOn(status)
    async with WireNode(works_on) as node, proxy_here([node.url], node_free_when=policy) as proxy:
        first = await proxy.ask("/1", method="POST")
        assert (first.status, first.body) == (status, b"accepted"), "its client does not wait"
        second = asyncio.create_task(proxy.ask("/2", method="POST"))
        await proxy.waits(1)
        probes = node.probes
        await until(lambda: node.probes >= probes + 2, "it is asked and says no")
        (known,) = proxy.app.dispatcher.nodes
        assert known.state == "busy"
        assert len(node.seen) == 1
        works_on.may_end.set()
        assert (await second).status == status
        assert node.violations == 0
        assert works_on.begins_at[1] > works_on.ends_at[0]
        assert await proxy.requests() == {(status, "answered"): 2}


async def test_answered_means_free_where_the_user_says_so() -> None:
    works_on = WorksOn()
    works_on.may_end.set()
    async with WireNode(works_on) as node, proxy_here([node.url], node_free_when="answered") as proxy:
        began = monotonic()
        for number in range(5):
            assert (await proxy.ask(f"/{number}", method="POST")).status == 202
        assert monotonic() - began < 1, "no probe was waited for"


@pytest.mark.slow
async def test_demo_nodes_that_accept_and_work_on(node_processes: list[str]) -> None:
    """With a `/ready` that tells of it late: the first probe, a second later, hears the truth."""
    targets = [f"/{number}?accept=1.2&lag=0.5" for number in range(6)]
    async with proxy_here(node_processes) as proxy:
        requests: list[Any] = [proxy.ask(target, method="POST", body=b"{}") for target in targets]
        answers = await asyncio.gather(*requests)
        assert [answer.status for answer in answers] == [202] * 6
    stats = [await stats_of(url) for url in node_processes]
    assert [node["violations"] for node in stats] == [0, 0, 0]
    assert sum(len(node["started"]) for node in stats) == 6
