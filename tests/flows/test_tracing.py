"""OpenTelemetry traces of a running proxy, as a real exporter sends them to a collector."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.fakes.otlp_collector import Collector, facts_of
from tests.fakes.proxy_here import ProxyHere, proxy_here
from tests.fakes.wire_client import WireClient
from tests.fakes.wire_node import Turn, WireNode, work

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@asynccontextmanager
async def traced(
    node: WireNode, collector: Collector, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[ProxyHere]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "the-proxy")
    async with proxy_here([node.url], tracing=True, counts_files=False, **settings) as proxy:
        yield proxy


def fields_of(turn: Turn) -> list[tuple[str, str]]:
    lines = [line.partition(":") for line in turn.head.decode("latin-1").split("\r\n")[1:] if line]
    return [(name.lower(), value.strip()) for name, _, value in lines]


def told_parent(turn: Turn) -> tuple[str, str, str]:
    """Trace, parent and flags, as the node was told them."""
    (value,) = [value for name, value in fields_of(turn) if name == "traceparent"]
    version, trace, parent, flags = value.split("-")
    assert version == "00"
    return trace, parent, flags


async def test_a_request_is_a_span_with_its_wait_and_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Collector() as collector, WireNode(work(0.1)) as node:
        async with traced(node, collector, monkeypatch) as proxy, WireClient(proxy.port) as other:
            other.send("/first")
            await node.sees(1)
            fields = f"TraceParent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=1\r\nX-Request-Id: id-9\r\n"
            answer = await proxy.ask("/second?key=s3cret", method="POST", body=b"abc", fields=fields)
            assert answer.status == 200
            await other.answer()
        spans = [span for span in collector.spans if span.trace_id.hex() == TRACE]
        by_name = {span.name: span for span in spans}
        assert set(by_name) == {"POST", "wait", "run"}
        server, wait, run = by_name["POST"], by_name["wait"], by_name["run"]
        assert server.parent_span_id.hex() == PARENT
        assert wait.parent_span_id == run.parent_span_id == server.span_id
        assert (server.kind, wait.kind, run.kind) == (
            Span.SPAN_KIND_SERVER, Span.SPAN_KIND_INTERNAL, Span.SPAN_KIND_CLIENT,
        )  # fmt: skip
        assert server.trace_state == "a=1"
        assert told_parent(node.seen[1]) == (TRACE, run.span_id.hex(), "01")
        assert ("tracestate", "a=1") in fields_of(node.seen[1])
        assert server.start_time_unix_nano == wait.start_time_unix_nano
        assert abs(wait.end_time_unix_nano - run.start_time_unix_nano) < 1_000_000
        assert 90_000_000 < run.end_time_unix_nano - run.start_time_unix_nano < 5_000_000_000
        assert server.end_time_unix_nano == run.end_time_unix_nano
        facts = facts_of(server.attributes)
        assert (facts["http.request.method"], facts["url.path"]) == ("POST", "/second")
        assert (facts["http.response.status_code"], facts["http.request.body.size"]) == (200, 3)
        assert (facts["fifo_proxy.outcome"], facts["fifo_proxy.request_id"]) == ("answered", "id-9")
        assert facts["client.address"] == "127.0.0.1"
        assert facts_of(run.attributes) == {"fifo_proxy.node": proxy.app.dispatcher.nodes.get(1).name}  # type: ignore[union-attr]
        assert "s3cret" not in str(collector.spans)
        assert collector.services == {"the-proxy"}


@pytest.mark.parametrize(
    "given",
    [
        "",
        "traceparent: nonsense\r\n",
        f"traceparent: 00-{'0' * 32}-{PARENT}-01\r\n",
        f"traceparent: 00-{TRACE.upper()}-{PARENT}-01\r\n",
        f"traceparent: ff-{TRACE}-{PARENT}-01\r\n",
        f"traceparent: 00-{TRACE}-{PARENT}-01\r\ntraceparent: 00-{TRACE}-{PARENT}-01\r\n",
    ],
)
async def test_without_a_valid_parent_a_trace_begins(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Collector() as collector, WireNode() as node:
        async with traced(node, collector, monkeypatch) as proxy:
            await proxy.ask("/", fields=given + "tracestate: a=1\r\n")
        server = collector.named("GET")
        assert not server.parent_span_id
        assert server.trace_id.hex() != TRACE
        assert told_parent(node.seen[0])[0] == server.trace_id.hex()
        assert not [name for name, _ in fields_of(node.seen[0]) if name == "tracestate"]


async def test_what_is_not_sampled_is_passed_on_so_and_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Collector() as collector, WireNode() as node:
        async with traced(node, collector, monkeypatch) as proxy:
            await proxy.ask("/", fields=f"traceparent: 00-{TRACE}-{PARENT}-00\r\n")
        trace, parent, flags = told_parent(node.seen[0])
        assert (trace, flags) == (TRACE, "00")
        assert parent != PARENT
        assert collector.spans == []


async def test_the_standard_variables_choose_the_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    async with Collector() as collector, WireNode() as node:
        async with traced(node, collector, monkeypatch) as proxy:
            await proxy.ask("/")
        assert told_parent(node.seen[0])[2] == "00"
        assert collector.spans == []


async def test_errors_and_clients_that_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(turn: Turn) -> None:
        if turn.target == "/breaks":
            turn.close()
        else:
            await asyncio.sleep(0.2)
            turn.answer()

    async with Collector() as collector, WireNode(breaks) as node:
        async with traced(node, collector, monkeypatch, start_probe_interval_secs=0.05) as proxy:
            assert (await proxy.ask("/breaks", method="PUT")).status == 502
            async with WireClient(proxy.port) as runs, WireClient(proxy.port) as leaves:
                runs.send("/runs")
                await node.sees(2)
                leaves.send("/leaves", method="DELETE")
                await proxy.waits(1)
                leaves.leave()
                await proxy.waits(0)
                await runs.answer()
        broke, left = collector.named("PUT"), collector.named("DELETE")
        assert (broke.status.code, left.status.code) == (Status.STATUS_CODE_ERROR, Status.STATUS_CODE_UNSET)
        assert facts_of(broke.attributes)["error.type"] == "502"
        assert facts_of(left.attributes)["fifo_proxy.outcome"] == "client_left"
        children = [span.name for span in collector.spans if span.parent_span_id == left.span_id]
        assert children == ["wait"]


async def test_a_collector_that_is_away_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.tracing._LAST_WORDS_SECS", 0.2)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    async with WireNode() as node, proxy_here([node.url], tracing=True, counts_files=False) as proxy:
        for _ in range(5):
            assert (await proxy.ask("/")).status == 200


async def test_off_a_parent_goes_through_untouched() -> None:
    given = f"traceparent: 00-{TRACE}-{PARENT}-01\r\n"
    async with WireNode() as node, proxy_here([node.url]) as proxy:
        await proxy.ask("/", fields=given)
    assert told_parent(node.seen[0]) == (TRACE, PARENT, "01")


def test_off_nothing_is_imported() -> None:
    code = (
        "import sys, proxy.app, proxy.serve; print([name for name in sys.modules if 'opentelemetry' in name])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
