from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.health import CODES, Disk, Facts, Failing, Health, judge

GIB = 2**30
WELL = Facts(
    checked_secs_ago=120.0,
    waiting=79,
    capacity=100,
    oldest_wait_secs=600.0,
    max_wait_secs=600.0,
    alive_nodes=1,
    disks=(Disk("/spool", 5 * GIB, 1000 * GIB), Disk("/small", 50, 1000)),
    spool_bytes=79,
    max_spool_bytes=100,
    failing=(Failing("list", "no answer", 1, False),),
)


def test_everything_just_within_its_limit_is_well() -> None:
    assert judge(WELL) == {}
    assert judge(Facts()) == {}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"checked_secs_ago": 120.6}, {"scaler_stalled": "the scaler has not checked for 121 s"}),
        ({"waiting": 80}, {"line_nearly_full": "80 of 100 (max_queue_length) wait"}),
        (
            {"waiting": 100},
            {"line_full": "100 wait, as many as may (max_queue_length): more are answered 429"},
        ),
        (
            {"oldest_wait_secs": 601.0},
            {"waiting_too_long": "the oldest request has waited 601 s > 600 s (degraded_wait_secs)"},
        ),
        ({"oldest_wait_secs": 9999.0, "max_wait_secs": 0.0}, {}),
        (
            {"alive_nodes": 0, "oldest_wait_secs": 11.0},
            {"no_node": "79 waiting, the oldest for 11 s, and no node is ready or starting"},
        ),
        ({"alive_nodes": 0, "oldest_wait_secs": 10.0}, {}),
        (
            {"disks": (Disk("/spool", 5 * GIB - 1, 1000 * GIB),)},
            {"disk_nearly_full": "/spool has 5 GiB free of 1000 GiB"},
        ),
        ({"disks": (Disk("/s", 49, 1000),)}, {"disk_nearly_full": "/s has 49 bytes free of 1000 bytes"}),
        ({"disks": (Disk("/s", 0, 0, "No such file"),)}, {"disk_nearly_full": "/s: No such file"}),
        (
            {"spool_bytes": 80},
            {"disk_nearly_full": "spooled bodies take 80 bytes of 100 bytes (max_spool_bytes)"},
        ),
        ({"max_spool_bytes": 0, "spool_bytes": 0}, {}),
        (
            {"stalls": (1.25,)},
            {"event_loop_stalled": "everything stood still once for 1.2 s in the last minute"},
        ),
        (
            {"stalls": (1.5, 3.0)},
            {"event_loop_stalled": "everything stood still 2 times for up to 3.0 s in the last minute"},
        ),
        ({"failing": (Failing("list", "401: bad key", 1, True),)}, {"token_refused": "list: 401: bad key"}),
        ({"failing": (Failing("create", "no stock", 1, False),)}, {"starts_failing": "create: no stock"}),
        (
            {"failing": (Failing("start", "n-1 was not ready", 3, False),)},
            {"starts_failing": "start: n-1 was not ready (3 times in a row)"},
        ),
        (
            {"failing": (Failing("list", "500", 2, False),)},
            {"provider_failing": "list: 500 (2 times in a row)"},
        ),
        ({"failing": (Failing("destroy", "500", 1, False),)}, {}),
    ],
)
def test_each_limit_that_is_passed_is_a_reason(change: dict[str, object], expected: dict[str, str]) -> None:
    assert judge(replace(WELL, **change)) == expected  # type: ignore[arg-type]


def test_every_reason_that_is_found_is_known() -> None:
    everything = Facts(
        checked_secs_ago=999, waiting=80, capacity=100, oldest_wait_secs=999, max_wait_secs=1,
        disks=(Disk("/", 0, 100),), stalls=(2.0,),
        failing=(Failing("list", "401", 1, True), Failing("create", "x", 1, False), Failing("destroy", "x", 2, False)),
    )  # fmt: skip
    found = judge(everything).keys() | judge(replace(everything, waiting=100)).keys()
    reported = {"config_refused", "records_dropped", "store_down", "alert_undelivered"}
    assert found | reported == set(CODES)


def test_since_is_of_the_latest_unbroken_stretch_and_the_sentence_the_latest() -> None:
    health = Health()
    assert health.state == "ok"
    health.update({"line_full": "10 wait"}, 1.0)
    health.update({"line_full": "11 wait", "token_refused": "list: 401"}, 2.0)
    assert [(r.code, r.detail, r.since) for r in health.reasons] == [
        ("token_refused", "list: 401", 2.0),
        ("line_full", "11 wait", 1.0),
    ]
    health.update({}, 3.0)
    assert (health.state, health.reasons) == ("ok", [])
    health.update({"line_full": "12 wait"}, 4.0)
    assert (health.state, health.reasons[0].since) == ("degraded", 4.0)


def test_what_others_report_holds_until_it_is_cleared() -> None:
    health = Health()
    health.report("store_down", "no connection")
    health.update({}, 1.0)
    health.update({}, 2.0)
    assert [(r.code, r.since) for r in health.reasons] == [("store_down", 1.0)]
    health.clear("store_down")
    health.clear("store_down")
    health.update({}, 3.0)
    assert health.state == "ok"
    with pytest.raises(ValueError, match="no reason that health knows"):
        health.report("store_dwon", "a typo")
