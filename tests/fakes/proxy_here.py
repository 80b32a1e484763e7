"""The whole proxy in this process, on real ports, held to its promise that nothing is left behind."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.app import App
from proxy.config import parse
from proxy.dispatch.nodes import NodeState
from proxy.records import Record
from tests.fakes.until import until
from tests.fakes.wire_client import Answer, ask

QUICK: dict[str, Any] = {
    "listen_host": "127.0.0.1",
    "listen_port": 0,
    "admin_port": 0,
    "node_refresh_interval_secs": 0.3,
    "scale_check_interval_secs": 0.05,
    "start_probe_interval_secs": 0.05,
    "probe_timeout_secs": 2,
    "connect_timeout_secs": 2,
    "drain_timeout_secs": 5,
    "scale_up_cooldown_secs": 0,
    "scale_down_cooldown_secs": 0,
}


class ProxyHere:
    """A running proxy. `app` is there to be looked into."""

    def __init__(self, app: App, records: list[Record]) -> None:
        self.app = app
        self.port = app.port
        self.records = records  # of the requests that have ended, a moment later

    async def ask(self, target: str = "/", **request: Any) -> Answer:
        return await ask(self.port, target, **request)

    async def metric(self, name: str, **labels: str) -> float:
        """The value of a metric, as Prometheus would read it; 0 where it has no such labels yet."""
        text = await self._admin("/metrics")
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == f"fifo_proxy_{name}" and labels.items() <= sample.labels.items():
                    return sample.value
        return 0.0

    async def requests(self) -> dict[tuple[int, str], int]:
        """How requests ended: status and outcome."""
        families = text_string_to_metric_families(await self._admin("/metrics"))
        samples = [s for family in families for s in family.samples]
        return {
            (int(s.labels["status"]), s.labels["outcome"]): int(s.value)
            for s in samples
            if s.name == "fifo_proxy_requests_total" and s.value
        }

    async def has_ready(self, count: int) -> None:
        """Return once so many nodes are idle."""
        nodes = self.app.dispatcher.nodes
        await until(lambda: nodes.count(NodeState.IDLE) >= count, f"{count} idle nodes")

    async def waits(self, count: int) -> None:
        await until(lambda: len(self.app.dispatcher.line) == count, f"{count} requests wait")

    async def is_quiet(self) -> None:
        """Return once no request is under way, no client connected and no body kept."""
        app = self.app
        await until(lambda: not app.forwarder.running, "no exchange has a lease")
        await until(lambda: not app.dispatcher.running, "no lease is out")
        await until(lambda: not len(app.dispatcher.line), "nothing waits")
        await until(lambda: not app.server.connections, "no client is connected")
        await until(lambda: not app.settings.spool_budget.used, "no body is kept")

    async def _admin(self, path: str) -> str:
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"http://127.0.0.1:{self.app.admin.port}{path}")
        return answer.raise_for_status().text


@asynccontextmanager
async def proxy_here(
    nodes: Sequence[str] = (), *, counts_files: bool = True, **settings: Any
) -> AsyncIterator[ProxyHere]:
    """A proxy in front of these addresses, or of what `provider` in the settings makes.

    When the test is over it must have come to rest, without a fault in a callback, and leave no file or socket;
    these are not counted where somebody else here opens some.
    """
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    before = open_files()
    if nodes:
        settings["provider"] = {"kind": "static", "nodes": list(nodes)}
    app = App(parse(QUICK | settings))
    records = watch_records(app)
    await app.start()
    hurry = asyncio.Event()
    try:
        proxy = ProxyHere(app, records)
        if nodes:
            await proxy.has_ready(len(nodes))
        yield proxy
        await proxy.is_quiet()
    except BaseException:
        hurry.set()  # it failed already: do not drain
        raise
    finally:
        await app.stop(hurry)
    assert not app.forwarder.links
    dispatcher = app.dispatcher
    assert dispatcher.joined == dispatcher.served + dispatcher.left, "every request was served or left"
    check_records(app, records)
    if counts_files:
        await until(lambda: len(open_files()) <= len(before), f"no more files than {before}")
    assert not faults, faults


def watch_records(app: App) -> list[Record]:
    """The records from now on; sinks come and go with the configuration."""
    records: list[Record] = []
    add = app.recorder.add

    def watched(record: Record) -> None:
        records.append(record)
        add(record)

    setattr(app.recorder, "add", watched)  # noqa: B010
    return records


def check_records(app: App, records: Sequence[Record]) -> None:
    """Each request has one record, and the records tell what the metrics tell."""
    stats = app.stats
    if app.forwarder.recorder is None:
        return
    tickets = sorted(record.ticket for record in records if record.ticket)
    assert tickets == list(range(1, app.dispatcher.joined + 1))
    ends = Counter((record.status, record.outcome) for record in records if record.outcome != "client_left")
    assert ends == stats.requests
    left = stats.clients_left
    joined = [record.outcome == "client_left" for record in records if record.ticket]
    assert sum(joined) == left["waiting"] + left["running"]
    # Not those of which only a part of the head had come.
    assert sum(record.outcome == "client_left" for record in records if not record.ticket) <= left["sending"]
    assert sum(record.resends for record in records) == sum(stats.resends.values())
    runs = [record.run_secs for record in records if record.run_secs is not None]
    broken = sum(count for cause, count in stats.resends.items() if cause != "connect")  # and sent again
    assert len(runs) + broken == sum(stats.node_run.counts)
    if not broken:
        assert sum(runs) == pytest.approx(stats.node_run.total, abs=0.01 * (1 + len(runs)))
    assert sum(stats.queue_wait.counts) <= len(joined) + sum(stats.resends.values())


def open_files() -> list[str]:
    """Files and sockets of this process; not /dev/null, which libuv opens for its first child and keeps."""
    with os.scandir("/proc/self/fd") as entries:
        names = [os.readlink(entry) for entry in entries if os.path.islink(entry)]
    return sorted(name for name in names if name != os.devnull)
