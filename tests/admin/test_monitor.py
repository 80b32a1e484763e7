"""The monitor gathers what is so: the line, the scaler, the disks, and the event loop's own lateness."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.admin import monitor as monitor_module
from proxy.admin.alerts import Alerts
from proxy.admin.monitor import Monitor
from proxy.dispatch.line import Ticket
from proxy.health import Failing
from tests.admin.conftest import Rig
from tests.fakes.until import until


@pytest.fixture
async def monitor(rig: Rig, tmp_path: Path) -> AsyncIterator[Monitor]:
    rig.scaler.last_check_at = 1000.0
    made = Monitor(
        rig.view,
        lambda: rig.config,
        Alerts(lambda: rig.config, rig.health, rig.clock, proxy_name="here"),
        directories=lambda: [tmp_path, tmp_path / "none"],
        spool_bytes=lambda: rig.spool_bytes,
    )
    yield made
    await made.stop()


def codes(rig: Rig) -> list[str]:
    return [reason.code for reason in rig.health.reasons]


async def test_what_it_looks_at_is_what_there_is(rig: Rig, monitor: Monitor) -> None:
    monitor.look()
    assert codes(rig) == []
    rig.dispatcher.capacity = 1
    rig.dispatcher.join(Ticket(), 1000.0)
    rig.spool_bytes = rig.config.max_spool_bytes
    rig.scaler.failing = [Failing("create", "401: bad key", 1, True)]
    rig.time.now += 700.0
    monitor.look()
    assert codes(rig) == [
        "token_refused",
        "scaler_stalled",
        "no_node",
        "line_full",
        "waiting_too_long",
        "disk_nearly_full",
    ]


async def test_a_scaler_that_never_checks_is_noticed_from_the_start_on(rig: Rig, monitor: Monitor) -> None:
    rig.scaler.last_check_at = None
    rig.time.now += 119
    monitor.look()
    assert codes(rig) == []
    rig.time.now += 2
    monitor.look()
    assert codes(rig) == ["scaler_stalled"]


async def test_a_directory_that_is_gone_is_told(rig: Rig, monitor: Monitor, tmp_path: Path) -> None:
    monitor.start()
    await until(lambda: codes(rig) == ["disk_nearly_full"], "the disks were looked at")
    assert rig.health.reasons[0].detail == f"{tmp_path / 'none'}: No such file or directory"


async def test_a_stalled_event_loop_is_told_for_a_minute(
    rig: Rig, monitor: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_module, "_TICK_SECS", 0.01)
    monitor.start()
    time.sleep(1.3)  # noqa: ASYNC251 - this is the stall
    await until(lambda: "event_loop_stalled" in codes(rig), "it is noticed")
    rig.time.now += 59.0
    monitor.look()
    assert "event_loop_stalled" in codes(rig)
    rig.time.now += 2.0
    monitor.look()
    assert "event_loop_stalled" not in codes(rig)
