from __future__ import annotations

import json

from proxy import build_kind
from proxy.admin.actions import Who
from proxy.admin.status import change_mark, stats_line, status
from proxy.dispatch.line import Ticket
from proxy.dispatch.nodes import Node, Probe
from tests.admin.conftest import Decision, Rig, Trouble


def ready_node(rig: Rig, name: str, now: float) -> Node:
    node = rig.dispatcher.add(name, now, id=f"id-{name}", url=f"http://{name}:80", is_running=True)
    rig.dispatcher.ready(node, now)
    return node


async def test_a_fresh_proxy(rig: Rig) -> None:
    assert status(rig.view) == {
        "version": "1.0.0",
        "build": build_kind(),
        "uptime_secs": 0.0,
        "health": {"state": "ok", "reasons": []},
        "held": {"scaling": None, "dispatch": None},
        "needs_restart": [],
        "queue": {
            "length": 0,
            "oldest_wait_secs": 0.0,
            "running": 0,
            "capacity": 4096,
            "joined": 0,
            "served": 0,
            "left": 0,
            "refused": 0,
        },
        "jobs": None,
        "nodes": [],
        "scaler": {
            "last_check_at": None,
            "last_scale_up_at": None,
            "last_scale_down_at": None,
            "last_error": None,
            "decisions": [],
        },
        "provider_errors": [],
        "actions": [],
    }


async def test_everything_of_the_contract_as_literal_json(rig: Rig) -> None:
    dispatcher = rig.dispatcher
    node = ready_node(rig, "a", 1001.0)
    node.last_probe = Probe(1001.0, 200, None)
    dispatcher.add("b", 1002.5).last_probe = Probe(1003.0, None, "refused")
    first, second, third, fourth = (Ticket() for _ in range(4))
    dispatcher.join(first, 1003.0)
    dispatcher.release(rig.leases[0], 1004.0)
    for ticket in (second, third, fourth):
        dispatcher.join(ticket, 1005.0)
    dispatcher.leave(fourth)
    rig.scaler.last_check_at = 1006.0
    rig.scaler.last_scale_up_at = 1002.5
    rig.scaler.last_error = "create: the cloud said no"
    rig.scaler.decisions.append(Decision(1002.5, "up", 1, "wait 121.0 s >= 120 s"))
    rig.scaler.troubles.append(Trouble(1002.5, "create", "the cloud said no", 2, mended_at=1003.0))
    rig.health.update({"starts_failing": "create: the cloud said no"}, 1002.5)
    rig.view.needs_restart = ("listen_port",)
    rig.time.now = 1010.0
    rig.actions.hold_scaling(Who("alice", "10.0.0.9"))
    rig.actions.hold_dispatch(Who("", "10.0.0.9"))
    rig.time.now = 1012.5

    assert json.loads(json.dumps(status(rig.view))) == {
        "version": "1.0.0",
        "build": build_kind(),
        "uptime_secs": 12.5,
        "health": {
            "state": "degraded",
            "reasons": [
                {
                    "code": "starts_failing",
                    "detail": "create: the cloud said no",
                    "since": "2027-01-15T08:00:02.500Z",
                }
            ],
        },
        "held": {
            "scaling": {"by": "alice", "at": "2027-01-15T08:00:10.000Z"},
            "dispatch": {"by": "10.0.0.9", "at": "2027-01-15T08:00:10.000Z"},
        },
        "needs_restart": ["listen_port"],
        "queue": {
            "length": 1,
            "oldest_wait_secs": 7.5,
            "running": 1,
            "capacity": 4096,
            "joined": 4,
            "served": 1,
            "left": 1,
            "refused": 0,
        },
        "jobs": None,
        "nodes": [
            {
                "id": "id-a",
                "name": "a",
                "url": "http://a:80",
                "state": "busy",
                "reason": None,
                "will_drain": False,
                "created_at": "2027-01-15T08:00:01.000Z",
                "ready_at": "2027-01-15T08:00:01.000Z",
                "last_processed_at": "2027-01-15T08:00:04.000Z",
                "served": 1,
                "last_probe": {"at": "2027-01-15T08:00:01.000Z", "status": 200, "error": None},
            },
            {
                "id": None,
                "name": "b",
                "url": None,
                "state": "starting",
                "reason": None,
                "will_drain": False,
                "created_at": "2027-01-15T08:00:02.500Z",
                "ready_at": None,
                "last_processed_at": None,
                "served": 0,
                "last_probe": {"at": "2027-01-15T08:00:03.000Z", "status": None, "error": "refused"},
            },
        ],
        "scaler": {
            "last_check_at": "2027-01-15T08:00:06.000Z",
            "last_scale_up_at": "2027-01-15T08:00:02.500Z",
            "last_scale_down_at": None,
            "last_error": "create: the cloud said no",
            "decisions": [
                {
                    "at": "2027-01-15T08:00:02.500Z",
                    "action": "up",
                    "count": 1,
                    "reason": "wait 121.0 s >= 120 s",
                }
            ],
        },
        "provider_errors": [
            {
                "at": "2027-01-15T08:00:02.500Z",
                "operation": "create",
                "detail": "the cloud said no",
                "count": 2,
                "mended_at": "2027-01-15T08:00:03.000Z",
            }
        ],
        "actions": [
            {
                "at": "2027-01-15T08:00:10.000Z",
                "by": "10.0.0.9",
                "client": "10.0.0.9",
                "action": "hold_dispatch",
                "target": "",
                "result": "nothing is started until dispatch is resumed; 1 running go on",
            },
            {
                "at": "2027-01-15T08:00:10.000Z",
                "by": "alice",
                "client": "10.0.0.9",
                "action": "hold_scaling",
                "target": "",
                "result": "nothing is created or destroyed until scaling is resumed",
            },
        ],
    }


async def test_the_mark_changes_with_what_happens_and_not_with_time(rig: Rig) -> None:
    marks = [change_mark(rig.view)]
    rig.time.now += 60
    assert change_mark(rig.view) == marks[0]

    ticket = Ticket()
    rig.dispatcher.join(ticket, 1060.0)
    marks.append(change_mark(rig.view))
    node = rig.dispatcher.add("a", 1060.0)
    marks.append(change_mark(rig.view))
    rig.dispatcher.ready(node, 1061.0)
    marks.append(change_mark(rig.view))
    rig.dispatcher.release(rig.leases[0], 1062.0)
    marks.append(change_mark(rig.view))
    rig.scaler.last_error = "list: no answer"
    marks.append(change_mark(rig.view))
    rig.health.update({"provider_failing": "list: no answer"}, 1063.0)
    marks.append(change_mark(rig.view))
    rig.actions.hold_scaling(Who("", "10.0.0.9"))
    marks.append(change_mark(rig.view))
    assert len(set(marks)) == len(marks)


async def test_the_stats_line_of_an_empty_proxy(rig: Rig) -> None:
    assert stats_line(rig.dispatcher, 1000.0, served_before=0, elapsed_secs=0.0) == (
        "waiting 0 (oldest 0.0 s), running 0, nodes: none, served 0 (0.00/s), left 0, refused 0"
    )


async def test_the_stats_line_tells_line_nodes_and_rate(rig: Rig) -> None:
    dispatcher = rig.dispatcher
    ready_node(rig, "a", 1000.0)
    dispatcher.add("b", 1000.0)
    assert json.loads(json.dumps(status(rig.view)))["nodes"][1]["last_probe"] is None
    for _ in range(4):
        dispatcher.join(Ticket(), 1000.0)
    for _ in range(3):
        dispatcher.release(rig.leases[-1], 1002.0)
    dispatcher.join(Ticket(), 1004.0)
    dispatcher.drain(dispatcher.add("c", 1004.0))
    assert stats_line(dispatcher, 1010.0, served_before=1, elapsed_secs=10.0) == (
        "waiting 1 (oldest 6.0 s), running 1, nodes: 1 starting 1 busy 1 draining, "
        "served 3 (0.20/s), left 0, refused 0"
    )
