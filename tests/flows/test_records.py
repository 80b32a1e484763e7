"""The request log and the log lines of a running proxy. That every request of every flow has one record, and that
records and metrics tell the same, is checked by `proxy_here` at the end of each test in this directory."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from proxy.config import parse
from tests.fakes.proxy_here import QUICK, proxy_here
from tests.fakes.until import until
from tests.fakes.wire_client import WireClient
from tests.fakes.wire_node import Turn, WireNode, work

SECRET = "s3cret-s3cret"


async def test_the_log_of_a_mixed_day(tmp_path: Path) -> None:
    path = tmp_path / "requests.log"
    async with (
        WireNode(work(0.05, b"x" * 1000)) as node,
        proxy_here([node.url], request_log=str(path), max_body_bytes=5000) as proxy,
    ):
        await proxy.ask("/one?q=1", method="POST", body=b"y" * 77, fields="X-Request-Id: mine\r\n")
        async with WireClient(proxy.port) as client:
            client.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n")
            assert (await client.answer()).status == 400
        assert (await proxy.ask("/big", method="POST", body=b"z" * 5001)).status == 413
        async with WireClient(proxy.port) as runs, WireClient(proxy.port) as leaves:
            runs.send("/runs")
            await node.sees(2)
            leaves.send("/leaves")
            await proxy.waits(1)
            leaves.leave()
            await proxy.waits(0)
            await runs.answer()
        await until(lambda: path.exists() and path.read_bytes().count(b"\n") == 5, "all is written")
        first, malformed, big, left, ran = map(json.loads, path.read_text().splitlines())
    assert (first["request_id"], first["method"], first["path"]) == ("mine", "POST", "/one")
    assert (first["status"], first["outcome"], first["ticket"]) == (200, "answered", 1)
    assert (first["bytes_in"], first["bytes_out"], first["client"]) == (77, 1000, "127.0.0.1")
    assert 0.04 <= first["run_secs"] < 5
    assert first["node"] == proxy.app.dispatcher.nodes.get(1).name  # type: ignore[union-attr]
    assert (malformed["status"], malformed["outcome"], malformed["ticket"]) == (400, "not_sent", 0)
    assert (big["status"], big["run_secs"]) == (413, None)
    assert (left["path"], left["outcome"], left["status"], left["node"]) == (
        "/leaves",
        "client_left",
        None,
        None,
    )
    assert (ran["path"], ran["ticket"]) == ("/runs", 2)
    assert ran["arrival"] < left["arrival"]


async def test_reload_moves_the_log(tmp_path: Path) -> None:
    async with WireNode() as node, proxy_here([node.url]) as proxy:
        static = {"provider": {"kind": "static", "nodes": [node.url]}}
        await proxy.ask("/before")
        proxy.app.reload(parse(QUICK | static | {"request_log": str(tmp_path / "new.csv")}))
        await proxy.ask("/after")
        await until(lambda: (tmp_path / "new.csv").exists(), "it is written")
        proxy.app.reload(parse(QUICK | static))
        await proxy.ask("/later")
    text = (tmp_path / "new.csv").read_text()
    assert "/after" in text
    assert "/before" not in text
    assert "/later" not in text


async def test_a_disk_that_refuses_the_log_is_shown_and_nobody_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with (
        WireNode() as node,
        proxy_here([node.url], request_log=str(tmp_path / "file" / "log")) as proxy,
    ):
        assert (await proxy.ask("/")).status == 200
        reasons = proxy.app.health
        await until(lambda: [r.code for r in reasons.reasons] == ["records_dropped"], "it is shown")
        assert await proxy.metric("records_dropped_total") == 1


async def test_a_line_for_each_request_and_no_secret_in_any(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with WireNode() as node, proxy_here([node.url], admin_token=SECRET) as proxy:
        fields = f"Authorization: Bearer {SECRET}\r\nCookie: {SECRET}\r\nX-Request-Id: id-7\r\n"
        await proxy.ask(f"/path?key={SECRET}", method="POST", body=SECRET.encode(), fields=fields)
        await until(lambda: any(entry.name == "proxy.requests" for entry in caplog.records), "it is logged")
    [line] = [entry for entry in caplog.records if entry.name == "proxy.requests"]
    assert line.getMessage() == "POST /path 200"
    facts = line.__dict__["fields"]
    assert (facts["request_id"], facts["outcome"], facts["bytes_in"]) == ("id-7", "answered", len(SECRET))
    assert all(SECRET not in repr(entry.__dict__) for entry in caplog.records)


async def test_lines_can_be_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with WireNode() as node, proxy_here([node.url], request_lines=False) as proxy:
        assert proxy.app.forwarder.recorder is None
        await proxy.ask("/")
    assert not [entry for entry in caplog.records if entry.name == "proxy.requests"]


async def test_a_failing_node_is_logged_with_the_request(caplog: pytest.LogCaptureFixture) -> None:
    async def breaks(turn: Turn) -> None:
        turn.close()

    async with WireNode(breaks) as node, proxy_here([node.url]) as proxy:
        answer = await proxy.ask("/", method="POST", body=b"x", fields="X-Request-Id: id-8\r\n")
        assert answer.status == 502
    [warning] = [entry for entry in caplog.records if "failed a request" in entry.getMessage()]
    assert warning.__dict__["fields"] == {"request_id": "id-8"}
