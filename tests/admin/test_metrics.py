from __future__ import annotations

import platform

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

import proxy
from proxy.admin.actions import Who
from proxy.dispatch.line import Ticket
from proxy.health import CODES
from tests.admin.conftest import Rig

CONTRACT = {
    "fifo_proxy_build_info": "gauge",
    "fifo_proxy_degraded": "gauge",
    "fifo_proxy_held": "gauge",
    "fifo_proxy_queue_length": "gauge",
    "fifo_proxy_queue_oldest_wait_seconds": "gauge",
    "fifo_proxy_queue_wait_seconds": "histogram",
    "fifo_proxy_node_run_seconds": "histogram",
    "fifo_proxy_handoff_seconds": "histogram",
    "fifo_proxy_requests": "counter",
    "fifo_proxy_clients_left": "counter",
    "fifo_proxy_resends": "counter",
    "fifo_proxy_nodes": "gauge",
    "fifo_proxy_node_busy_seconds": "counter",
    "fifo_proxy_node_paid_seconds": "counter",
    "fifo_proxy_scale_actions": "counter",
    "fifo_proxy_scale_errors": "counter",
    "fifo_proxy_node_start_seconds": "histogram",
    "fifo_proxy_spool_bytes": "gauge",
    "fifo_proxy_records_dropped": "counter",
}


class Scrape:
    def __init__(self, rig: Rig) -> None:
        text = generate_latest(rig.registry).decode()
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        return self.samples[(f"fifo_proxy_{name}", *sorted(labels.items()))]


def test_names_types_and_help_are_those_of_the_contract() -> None:
    families = Scrape(Rig()).families
    own = {name: family for name, family in families.items() if name.startswith("fifo_proxy")}
    assert {name: family.type for name, family in own.items()} == CONTRACT
    assert all(family.documentation for family in own.values())
    assert "process_resident_memory_bytes" in families


def test_label_sets_are_there_with_zero_before_anything_happened() -> None:
    scrape = Scrape(Rig())
    build = {"version": "1.0.0", "build": proxy.build_kind(), "python": platform.python_version()}
    assert scrape.value("build_info", **build) == 1
    for status, outcome in (("200", "answered"), ("429", "not_sent"), ("502", "unknown"), ("504", "unknown")):
        assert scrape.value("requests_total", status=status, outcome=outcome) == 0
    for phase in ("sending", "waiting", "running", "reading"):
        assert scrape.value("clients_left_total", phase=phase) == 0
    for reason in ("connect", "stale_connection"):
        assert scrape.value("resends_total", reason=reason) == 0
    for state in ("starting", "idle", "busy", "unready", "draining"):
        assert scrape.value("nodes", state=state) == 0
    for code in CODES:
        assert scrape.value("degraded", reason=code) == 0
    for what in ("scaling", "dispatch"):
        assert scrape.value("held", what=what) == 0
    for reason in ("cold", "wait", "count", "floor", "order", "replace"):
        assert scrape.value("scale_actions_total", direction="up", reason=reason) == 0
    for reason in ("idle", "unready", "replace", "start_timeout", "order"):
        assert scrape.value("scale_actions_total", direction="down", reason=reason) == 0
    for operation in ("create", "destroy", "list", "start"):
        assert scrape.value("scale_errors_total", operation=operation) == 0
    assert ("fifo_proxy_nodes", ("state", "gone")) not in scrape.samples


def test_what_is_wrong_and_held_is_one() -> None:
    rig = Rig()
    rig.health.report("config_refused", "a fault")
    rig.health.update({"line_full": "4096 wait"}, 1000.0)
    rig.actions.hold_dispatch(Who("alice", "10.0.0.9"))
    scrape = Scrape(rig)
    assert {code for code in CODES if scrape.value("degraded", reason=code)} == {
        "config_refused",
        "line_full",
    }
    assert (scrape.value("held", what="dispatch"), scrape.value("held", what="scaling")) == (1, 0)


def test_the_numbers_put_in_come_out() -> None:
    rig = Rig()
    stats = rig.stats
    stats.requests[200, "answered"] = 7
    stats.requests[418, "answered"] = 1
    stats.clients_left["waiting"] = 2
    stats.resends["connect"] = 3
    stats.scale_actions["up", "wait"] = 4
    stats.scale_errors["create"] = 5
    stats.node_paid_seconds = 99.25
    rig.spool_bytes = 4096
    rig.dispatcher.add("a", 1000.0)
    for _ in range(2):
        rig.dispatcher.join(Ticket(), 1001.0)
    rig.time.now = 1004.0

    scrape = Scrape(rig)
    assert scrape.value("requests_total", status="200", outcome="answered") == 7
    assert scrape.value("requests_total", status="418", outcome="answered") == 1
    assert scrape.value("clients_left_total", phase="waiting") == 2
    assert scrape.value("resends_total", reason="connect") == 3
    assert scrape.value("scale_actions_total", direction="up", reason="wait") == 4
    assert scrape.value("scale_errors_total", operation="create") == 5
    assert scrape.value("node_paid_seconds_total") == 99.25
    assert scrape.value("spool_bytes") == 4096
    assert scrape.value("nodes", state="starting") == 1
    assert scrape.value("queue_length") == 2
    assert scrape.value("queue_oldest_wait_seconds") == 3.0


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("queue_wait_seconds", "queue_wait"),
        ("node_run_seconds", "node_run"),
        ("node_start_seconds", "node_start"),
    ],
)
def test_histograms_are_cumulative_and_bounds_belong_to_the_lower_bucket(name: str, attribute: str) -> None:
    rig = Rig()
    for seconds in (0.001, 0.005, 0.3, 1.0, 9999.0):
        getattr(rig.stats, attribute).observe(seconds)
    scrape = Scrape(rig)
    counts = {le: scrape.value(f"{name}_bucket", le=le) for le in ("0.005", "0.25", "0.5", "1.0", "3600.0")}
    assert counts == {"0.005": 2, "0.25": 2, "0.5": 3, "1.0": 4, "3600.0": 4}
    assert scrape.value(f"{name}_bucket", le="+Inf") == scrape.value(f"{name}_count") == 5
    assert scrape.value(f"{name}_sum") == pytest.approx(10000.306)


def test_hand_offs_have_buckets_of_microseconds() -> None:
    rig = Rig()
    rig.stats.handoff.observe(90e-6)
    scrape = Scrape(rig)
    assert scrape.value("handoff_seconds_bucket", le="7.5e-05") == 0
    assert scrape.value("handoff_seconds_bucket", le="0.0001") == 1


def test_scraping_changes_nothing() -> None:
    rig = Rig()
    first = Scrape(rig).samples.keys()
    assert Scrape(rig).samples.keys() == first
    assert not rig.stats.requests
    assert not rig.stats.scale_errors


def test_busy_seconds_go_on_while_a_run_goes_on_and_while_its_node_settles() -> None:
    rig = Rig()
    dispatcher = rig.dispatcher
    first, second = (dispatcher.add(name, 1000.0) for name in "ab")
    for node in (first, second):
        dispatcher.ready(node, 1000.0)
    for _ in range(2):
        dispatcher.join(Ticket(), 1001.0)
    rig.time.now = 1004.0
    assert Scrape(rig).value("node_busy_seconds_total") == 6
    dispatcher.settle(rig.leases[0], 1005.0)
    dispatcher.release_unready(rig.leases[1], 1005.0, "broke")
    rig.time.now = 1008.0
    assert Scrape(rig).value("node_busy_seconds_total") == 4 + 7
    dispatcher.ready(rig.leases[0].node, 1009.0)
    rig.time.now = 2000.0
    assert Scrape(rig).value("node_busy_seconds_total") == 4 + 8
