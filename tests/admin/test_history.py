"""The history: what is seen at each look, step by step, bounded, and as `/api/history` tells it."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from aiohttp import ClientSession

from proxy.admin.history import COARSE_SECS, FINE_SECS, STEPS_KEPT, History, history_json
from proxy.admin.timeline import MOST_NODES, Timeline
from proxy.dispatch.line import Ticket
from proxy.dispatch.nodes import NodeState
from tests.admin.conftest import Rig


def pass_secs(rig: Rig, secs: int) -> None:
    for _ in range(secs):
        rig.time.now += 1
        rig.history.look(rig.time.now)


def told(rig: Rig, **how: Any) -> dict[str, Any]:
    text: dict[str, Any] = json.loads(json.dumps(history_json(rig.history, rig.clock, **how)))
    return text


def test_a_burst_shorter_than_a_step_is_seen(rig: Rig) -> None:
    pass_secs(rig, 6)
    tickets = [Ticket() for _ in range(30)]
    for ticket in tickets:
        rig.dispatcher.join(ticket, rig.time.now)
    pass_secs(rig, 2)
    for ticket in tickets:
        rig.dispatcher.leave(ticket)
    pass_secs(rig, 7)
    steps = told(rig)["steps"]
    assert steps["end_secs"] == [5, 10, 15]
    assert steps["length"] == [0, 30, 0]
    assert steps["oldest_wait_secs"] == [0, 2, 0]
    assert steps["joined"] == [0, 30, 0]
    assert steps["left"] == [0, 30, 0]


def test_runs_waits_and_what_is_paid_are_of_their_step(rig: Rig) -> None:
    node = rig.dispatcher.add("one", rig.time.now)
    rig.dispatcher.ready(node, rig.time.now)
    pass_secs(rig, 5)
    rig.dispatcher.join(Ticket(), rig.time.now)
    rig.stats.queue_wait.observe(0.2)
    pass_secs(rig, 3)
    rig.dispatcher.release(rig.leases.pop(), rig.time.now)
    rig.stats.node_run.observe(3.0)
    pass_secs(rig, 2)
    steps, bounds = told(rig)["steps"], told(rig)["bounds"]
    assert steps["paid_secs"] == [5, 5]
    assert steps["busy_secs"] == [0, 3]
    assert steps["running"] == [0, 1]
    assert steps["served"] == [0, 1]
    assert (steps["waits"][0], steps["runs"][0]) == ([], [])
    assert [bounds[len(steps[name][1]) - 1] for name in ("waits", "runs")] == [0.25, 5]
    assert (sum(steps["waits"][1]), sum(steps["runs"][1])) == (1, 1)
    assert (steps["idle"], steps["busy"]) == ([1, 1], [0, 0]), "as at the end of each step"


def test_nodes_have_a_letter_for_each_step_and_unready_is_never_missed(rig: Rig) -> None:
    node = rig.dispatcher.add("one", rig.time.now)
    pass_secs(rig, 5)
    rig.dispatcher.ready(node, rig.time.now)
    pass_secs(rig, 6)
    rig.dispatcher.unready(node, rig.time.now, "refused")
    pass_secs(rig, 1)
    rig.dispatcher.ready(node, rig.time.now)
    pass_secs(rig, 13)
    (band,) = told(rig)["nodes"]
    assert band == {"number": 1, "name": "one", "first_step": 0, "states": "siuii"}
    (band,) = told(rig, since_secs=15)["nodes"]
    assert (band["first_step"], band["states"]) == (3, "ii")


def test_a_node_that_is_gone_ends_and_is_forgotten_when_its_time_is_out_of_view(rig: Rig) -> None:
    node = rig.dispatcher.add("one", rig.time.now)
    pass_secs(rig, 10)
    rig.dispatcher.nodes.move(node, NodeState.DRAINING)
    rig.dispatcher.nodes.move(node, NodeState.GONE)
    pass_secs(rig, 20)
    (band,) = told(rig)["nodes"]
    assert band["states"] == "ss"
    pass_secs(rig, int(FINE_SECS * STEPS_KEPT))
    assert told(rig)["nodes"] == []


def test_a_stall_makes_one_long_step_and_no_gap(rig: Rig) -> None:
    rig.dispatcher.add("one", rig.time.now)
    pass_secs(rig, 3)
    rig.time.now += 21
    rig.history.look(rig.time.now)
    pass_secs(rig, 6)
    steps, (band,) = told(rig)["steps"], told(rig)["nodes"]
    assert steps["end_secs"] == [24, 25, 30]
    assert steps["secs"] == [24, 1, 5]
    assert (band["first_step"], band["states"]) == (0, "ssssss")


def test_since_counts_from_the_origin_or_back_from_now(rig: Rig) -> None:
    pass_secs(rig, 600)
    assert len(told(rig)["steps"]["length"]) == 120
    assert told(rig, since_secs=590)["steps"]["end_secs"] == [595, 600]
    assert told(rig, since_secs=-10)["steps"]["end_secs"] == [595, 600]
    assert told(rig, since_secs=600)["steps"]["end_secs"] == []
    coarse = told(rig, is_coarse=True)
    assert (coarse["step_secs"], coarse["steps"]["end_secs"]) == (COARSE_SECS, [120, 240, 360, 480, 600])


def test_it_is_bounded_also_with_many_nodes_that_come_and_go(rig: Rig) -> None:
    """More than a day of load, 20 nodes, one of them replaced every minute; measured and told in the README."""
    alive = [rig.dispatcher.add(f"gjtest-comfyui-{number:08}", rig.time.now) for number in range(20)]
    history = History(rig.dispatcher, rig.stats, rig.time.now)
    tracemalloc.start()
    try:
        for second in range(0, 25 * 3600, 5):
            rig.time.now += 5
            for number in range(18):
                rig.stats.queue_wait.counts[number] += 1
                rig.stats.node_run.counts[number] += 1
            if second % 60 == 0:
                node = alive.pop(0)
                rig.dispatcher.nodes.move(node, NodeState.DRAINING)
                rig.dispatcher.nodes.move(node, NodeState.GONE)
                alive.append(rig.dispatcher.add(f"gjtest-comfyui-{second:08}", rig.time.now))
            history.look(rig.time.now)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    for series in history.series:
        assert len(series.steps) == STEPS_KEPT
        assert len(series.timeline.bands) <= MOST_NODES
    print(
        f"history: {held / 1e6:.2f} MB, JSON {len(json.dumps(history_json(history, rig.clock))) / 1e3:.0f} kB"
    )
    assert held < 3e6


def test_with_more_nodes_than_fit_those_that_are_there_keep_their_place(rig: Rig) -> None:
    timeline = Timeline(STEPS_KEPT)
    nodes = [rig.dispatcher.add(f"{number}", 0) for number in range(MOST_NODES + 5)]
    for step in range(3):
        timeline.look(nodes, step)
        timeline.end_step(step)
    assert list(timeline.bands) == [node.number for node in nodes[:MOST_NODES]]
    assert {bytes(band.states) for band in timeline.bands.values()} == {b"sss"}


async def test_history_over_http(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    pass_secs(rig, 250)
    async with http.get(rig.url("/api/history")) as response:
        assert await response.json() == told(rig)
        assert response.headers["Content-Encoding"] in ("gzip", "deflate")
    async with http.get(rig.url("/api/history?since=-20&step=coarse")) as response:
        assert (await response.json())["steps"]["end_secs"] == [240]


@pytest.mark.parametrize("query", ["since=yesterday", "since=nan", "since=inf", "step=7"])
async def test_bad_questions(query: str, rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    async with http.get(rig.url(f"/api/history?{query}")) as response:
        assert response.status == 400
        assert "expected" in (await response.json())["detail"]
