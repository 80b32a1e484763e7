"""What the operator sees of jobs: status, list, metrics."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from tests.fakes.job_client import ASYNC, ended, hand_in
from tests.fakes.proxy_here import ProxyHere, proxy_here
from tests.fakes.wire_node import Turn, WireNode
from tests.providers.waiting import until


async def admin(proxy: ProxyHere, path: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.get(f"http://127.0.0.1:{proxy.app.admin.port}{path}")


async def test_status_list_and_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.jobs.service._COUNT_SECS", 0.05)
    gate = asyncio.Event()

    async def behave(turn: Turn) -> None:
        await gate.wait()
        turn.answer(b"no", status=500 if turn.target.startswith("/bad") else 200)

    url = f"sqlite:///{tmp_path}/jobs.db"
    async with WireNode(behave) as node, proxy_here([node.url], database_url=url) as proxy:
        assert (await admin(proxy, "/api/status")).json()["jobs"]["store"] == "asleep"
        assert (await admin(proxy, "/api/jobs")).json() == {"jobs": []}
        bad, good = await hand_in(proxy, "/bad?secret=1"), await hand_in(proxy, "/good")
        await node.sees(1)

        async def is_counted() -> bool:
            jobs = (await admin(proxy, "/api/status")).json()["jobs"]
            return bool((jobs["queued"], jobs["running"]) == (1, 1))

        await until(is_counted, "one is queued and one runs")
        assert await proxy.metric("jobs", state="running") == 1
        assert await proxy.metric("jobs_accepted_total") == 2
        queue = (await admin(proxy, "/api/queue")).json()["waiting"]
        assert [(waiting["path"], waiting["client"]) for waiting in queue] == [("/good", "127.0.0.1")]
        gate.set()
        assert (await ended(proxy, bad))["state"] == "failed"
        await ended(proxy, good)
        listed = (await admin(proxy, "/api/jobs?state=failed&state=running")).json()["jobs"]
        assert [(job["path"], job["status"], job["outcome"]) for job in listed] == [("/bad", 500, "answered")]
        assert "secret" not in json.dumps(listed)
        newest = (await admin(proxy, "/api/jobs?limit=1")).json()["jobs"]
        assert [job["path"] for job in newest] == ["/good"]
        assert (await admin(proxy, "/api/jobs?state=odd")).status_code == 400


async def test_without_a_database() -> None:
    async with WireNode() as node, proxy_here([node.url], database_url=None) as proxy:
        assert (await admin(proxy, "/api/status")).json()["jobs"] is None
        assert (await admin(proxy, "/api/jobs")).status_code == 404


async def test_an_operator_takes_a_waiting_job_out(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def behave(turn: Turn) -> None:
        await gate.wait()
        turn.answer()

    url = f"sqlite:///{tmp_path}/jobs.db"
    async with WireNode(behave) as node, proxy_here([node.url], database_url=url) as proxy:
        running = await hand_in(proxy)
        await node.sees(1)
        waiting = await proxy.ask("/", method="POST", fields=ASYNC + "X-Request-Id: mine\r\n")
        proxy.app.forwarder.remove("mine")
        document = await ended(proxy, waiting.fields["location"])
        assert (document["state"], document["outcome"]) == ("cancelled", "not_sent")
        gate.set()
        await ended(proxy, running)
