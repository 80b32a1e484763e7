"""Nodes of a cloud come and go by the line: real requests, a real server of the API, real node processes.

Promise 4: never a busy node stopped, never more than `max_nodes`, never a paid node that nobody knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from tests.fakes.demo_nodes import DEMO_NODE, stats_of
from tests.fakes.proxy_here import ProxyHere, proxy_here
from tests.fakes.suanli_cloud import Fault, SuanliCloud
from tests.fakes.suanli_tasks import Task
from tests.fakes.until import until
from tests.fakes.wire_client import Answer

pytestmark = pytest.mark.slow  # each node is a process that takes its second to start

TOKEN = "a-token-of-this-test"
REQUEST = {
    "task_name": "flows",
    "points": 1,
    "resources": [{"mark": "bWFyaw=="}],
    "services": [
        {"service_name": "node", "service_image": "image:1", "remote_ports": [{"service_port": 3000}]}
    ],
}


@pytest.fixture
async def cloud() -> AsyncIterator[SuanliCloud]:
    made = SuanliCloud(TOKEN, command=tuple(DEMO_NODE))
    await made.start()
    yield made
    await made.close()


@asynccontextmanager
async def proxy_of(cloud: SuanliCloud, **settings: Any) -> AsyncIterator[ProxyHere]:
    engine = {"kind": "suanli", "openapi_base_url": cloud.url, "token": TOKEN, "timeout_secs": 1}
    scaling = {"min_nodes": 0, "max_nodes": 3, "queue_scale_count_threshold": 2, "idle_shutdown_secs": 60}
    async with proxy_here(
        counts_files=False,  # the cloud has its own, for each of its processes
        provider=engine,
        proxy_port=3000,
        scale_up_request=REQUEST,
        **(scaling | settings),
    ) as proxy:
        yield proxy
    assert not cloud.refused, cloud.refused


async def burst(proxy: ProxyHere, count: int, query: str = "work=0.05") -> list[Answer]:
    return await asyncio.gather(*(proxy.ask(f"/{n}?{query}", method="POST") for n in range(count)))


async def violations(cloud: SuanliCloud) -> int:
    return sum([(await stats_of(node.url))["violations"] for node in await cloud.tasks.nodes() if node.url])


async def test_from_zero_one_request_makes_one_node(cloud: SuanliCloud) -> None:
    cloud.start_delay = 0.5
    async with proxy_of(cloud) as proxy:
        await until(lambda: cloud.counts()["search"] > 0, "the list has been read")
        assert not cloud.tasks.all
        answer = await proxy.ask("/first", method="POST")
        assert answer.status == 200
        queue = float(answer.fields["server-timing"].split("queue;dur=")[1].split(",")[0])
        assert queue > 500, "it waited for its node"
        assert [task.name[:6] for task in cloud.tasks.all.values()] == ["flows-"]
        await burst(proxy, 2)
        assert len(cloud.tasks.all) == 1, "exactly one"
        assert await proxy.metric("scale_actions_total", direction="up", reason="cold") == 1


def drops_every_create(cloud: SuanliCloud) -> None:
    cloud.always["create"] = Fault(drops=True, commits=True)


def answers_after_its_time(cloud: SuanliCloud) -> None:
    cloud.always["create"] = Fault(delay=1.5, commits=True)


def breaks_after_committing(cloud: SuanliCloud) -> None:
    cloud.always["create"] = Fault(status=502, text="<html>Bad Gateway</html>", commits=True)


def fails_twice(cloud: SuanliCloud) -> None:
    cloud.fail_next(
        "create", Fault(code="R001", message="no stock"), Fault(status=500, text="oops", commits=True)
    )


def lists_slowly(cloud: SuanliCloud) -> None:
    cloud.always["search"] = Fault(delay=0.4)


def finds_only_whole_names(cloud: SuanliCloud) -> None:
    cloud.match = "exact"


def belongs_to_others_too(cloud: SuanliCloud) -> None:
    cloud.match = "substring"
    cloud.no_address = "null"
    cloud.add_task("theirs-flows-1", url="https://somebody.invalid")


def starts_slowly(cloud: SuanliCloud) -> None:
    cloud.start_delay = 1.0
    cloud.no_address = "missing"


@pytest.mark.parametrize(
    "trouble",
    [
        drops_every_create,
        answers_after_its_time,
        breaks_after_committing,
        fails_twice,
        lists_slowly,
        finds_only_whole_names,
        belongs_to_others_too,
        starts_slowly,
    ],
)
async def test_burst_never_makes_a_fourth_node(cloud: SuanliCloud, trouble: Any) -> None:
    trouble(cloud)
    foreign = {*cloud.tasks.all}
    cloud.tasks.most_alive = 0
    async with proxy_of(cloud) as proxy:
        answers = await burst(proxy, 40, "work=0.1")
        assert [answer.status for answer in answers] == [200] * 40
        ours = [task for number, task in cloud.tasks.all.items() if number not in foreign]
        assert 1 <= len(ours) <= 3
        assert cloud.tasks.most_alive <= 3 + len(foreign)
        assert await violations(cloud) == 0
        await until(lambda: known(proxy) == {task.number for task in ours if task.is_alive}, "each is known")


def known(proxy: ProxyHere) -> set[int]:
    return {int(node.id) for node in proxy.app.dispatcher.nodes if node.id is not None}


async def test_nodes_that_never_start_are_paid_for_and_counted(cloud: SuanliCloud) -> None:
    """Stuck in Pending: three at most, each destroyed after its time, and the line waits on."""
    cloud.start_delay = None
    async with proxy_of(cloud, node_start_timeout_secs=1, queue_timeout_secs=3) as proxy:
        answers = await burst(proxy, 40)
        assert {answer.outcome for answer in answers} == {(503, "not_sent")}
        assert int(answers[0].fields["retry-after"]) >= 1
        assert 1 <= cloud.tasks.most_alive <= 3
        stopped = [task for task in cloud.tasks.all.values() if task.status == "End"]
        assert stopped


async def test_idle_nodes_go_one_per_cooldown_down_to_the_floor(cloud: SuanliCloud) -> None:
    async with proxy_of(
        cloud, min_nodes=1, max_nodes=4, idle_shutdown_secs=0.5, scale_down_cooldown_secs=0.6
    ) as proxy:
        await proxy.has_ready(1)
        await burst(proxy, 40)
        scaled_to = len(cloud.tasks.alive())
        assert scaled_to > 2
        await until(lambda: len(cloud.tasks.alive()) == 1, "back to the floor")
        stops = [call.at for call in cloud.calls if call.operation == "stop"]
        assert len(stops) == scaled_to - 1
        gaps = [later - earlier for earlier, later in pairwise(stops)]
        assert min(gaps) > 0.5, "one per cooldown"
        checks = cloud.counts()["search"]
        await until(lambda: cloud.counts()["search"] > checks + 3, "some more looks")
        assert len(cloud.tasks.alive()) == 1
        assert (await proxy.ask("/after")).status == 200


async def test_request_that_comes_as_its_node_is_being_stopped(cloud: SuanliCloud) -> None:
    """It is not sent there: it waits for another node."""
    cloud.always["stop"] = Fault(delay=0.6)
    async with proxy_of(cloud, idle_shutdown_secs=0.4) as proxy:
        assert (await proxy.ask("/first")).status == 200
        (first,) = proxy.app.dispatcher.nodes
        await until(lambda: first.state == "draining", "it is being stopped")
        answer = await proxy.ask("/second", method="POST")
        assert answer.status == 200
        assert first.served == 1
        assert len(cloud.tasks.all) == 2


async def test_busy_node_is_never_stopped(cloud: SuanliCloud) -> None:
    async with proxy_of(cloud, idle_shutdown_secs=0.1, node_start_timeout_secs=30) as proxy:
        answer = await proxy.ask("/long?work=2", method="POST")
        assert answer.status == 200
        assert cloud.counts()["create"] == 1


async def test_node_that_vanishes_is_replaced(cloud: SuanliCloud) -> None:
    async with proxy_of(cloud, min_nodes=1) as proxy:
        await proxy.has_ready(1)
        (task,) = cloud.tasks.alive()
        running = asyncio.create_task(proxy.ask("/cut?work=30", method="POST"))
        await until(lambda: proxy.app.dispatcher.running == 1, "it runs")
        await cloud.vanish(task)
        assert (await running).outcome == (502, "unknown")
        await until(lambda: known(proxy) == {t.number for t in visible(cloud)} != set(), "another is made")
        assert (await proxy.ask("/next")).status == 200


def visible(cloud: SuanliCloud) -> list[Task]:
    return [task for task in cloud.tasks.alive() if not task.is_hidden]
