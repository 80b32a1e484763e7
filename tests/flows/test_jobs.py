"""A request handed in, answered with a receipt, run in its turn, and fetched: whole ways, on SQLite."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.job_client import ASYNC, ended, hand_in, state
from tests.fakes.proxy_here import ProxyHere, proxy_here
from tests.fakes.until import until
from tests.fakes.wire_client import WireClient
from tests.fakes.wire_node import Turn, WireNode, work


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@asynccontextmanager
async def with_jobs(node: WireNode, url: str, **settings: Any) -> AsyncIterator[ProxyHere]:
    async with proxy_here([node.url], database_url=url, **settings) as proxy:
        yield proxy


def open_gate(gate: asyncio.Event, body: bytes = b"ok") -> Any:
    async def behave(turn: Turn) -> None:
        await gate.wait()
        turn.answer(body)

    return behave


async def test_handed_in_run_and_fetched(url: str) -> None:
    async def behave(turn: Turn) -> None:
        turn.answer(
            b"made " + turn.body, status=201, fields=b"X-Node: 7\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
        )

    async with WireNode(behave) as node, with_jobs(node, url) as proxy:
        fields = (
            ASYNC + 'Prefer: handling=lenient\r\nIdempotency-Key: "k"\r\nJob-Policy: retry\r\nX-Own: ä\r\n'
        )
        receipt = await proxy.ask("/make?a=%2F", method="POST", body=b"it", fields=fields)
        assert receipt.status == 202
        assert receipt.fields["preference-applied"] == "respond-async"
        assert int(receipt.fields["retry-after"]) >= 1
        job = receipt.fields["location"]
        told = json.loads(receipt.body)
        assert job == f"/.jobs/{told['id']}" == told["links"]["self"]
        assert told["policy"] == "retry"

        document = await ended(proxy, job)
        assert (document["state"], document["outcome"], document["attempts"]) == ("succeeded", "answered", 1)
        assert document["result"] == {"status": 201, "bytes": 7, "url": f"{job}/result"}
        result = await proxy.ask(f"{job}/result")
        assert (result.status, result.body, result.fields["x-node"]) == (201, b"made it", "7")
        assert result.fields["x-request-id"] == document["request_id"]

        (turn,) = node.seen
        lines = turn.head.lower().split(b"\r\n")
        assert lines[0] == b"post /make?a=%2f http/1.1"
        assert b'idempotency-key: "k"' in lines
        assert b"prefer: handling=lenient" in lines
        assert "x-own: ä".encode() in lines
        assert not [line for line in lines if b"respond-async" in line or line.startswith(b"job-policy")]
        assert len([line for line in lines if line.startswith(b"x-forwarded-for: 127.0.0.1")]) == 1
        (record,) = [record for record in proxy.records if record.run_secs is not None]
        assert record.job == document["id"]


async def test_held_requests_and_jobs_start_in_one_order(url: str) -> None:
    gate = asyncio.Event()
    async with WireNode(open_gate(gate)) as node, with_jobs(node, url) as proxy:
        held = [asyncio.ensure_future(proxy.ask("/0"))]
        await node.sees(1)
        for number in range(1, 9):
            if number % 2:
                await hand_in(proxy, f"/{number}")
            else:
                held.append(asyncio.ensure_future(proxy.ask(f"/{number}")))
            await proxy.waits(number)
        last = await hand_in(proxy, "/9")
        assert (await state(proxy, last))["place"] == 9
        gate.set()
        await asyncio.gather(*held)
        await ended(proxy, last)
        assert node.targets == [f"/{number}" for number in range(10)]


async def test_the_answer_itself_where_it_comes_in_time(url: str) -> None:
    gate = asyncio.Event()
    async with WireNode(open_gate(gate, b"late")) as node, with_jobs(node, url) as proxy:
        slow = await proxy.ask("/slow", method="POST", fields="Prefer: respond-async, wait=0\r\n")
        assert slow.status == 202
        waiting = asyncio.ensure_future(
            proxy.ask("/quick", method="POST", fields="Prefer: respond-async, wait=60\r\n")
        )
        await proxy.waits(1)
        gate.set()
        answer = await waiting
        assert (answer.status, answer.body) == (200, b"late")


async def test_hold_secs_is_for_those_that_did_not_say(url: str) -> None:
    async with WireNode(work(0.05)) as node, with_jobs(node, url, hold_secs=30) as proxy:
        assert (await proxy.ask("/", method="POST", fields=ASYNC)).status == 200
        assert (await proxy.ask("/", method="POST", fields="Prefer: respond-async, wait=0\r\n")).status == 202
        await until(lambda: not proxy.app.jobs.runner.runs, "all jobs are over")  # type: ignore[union-attr]


async def test_the_same_key_is_the_same_job_also_after_a_restart(url: str) -> None:
    key = 'Idempotency-Key: "a b"\r\n'
    gate = asyncio.Event()
    async with WireNode(open_gate(gate)) as node:
        async with with_jobs(node, url) as proxy:
            job = await hand_in(proxy, body=b"1", fields=key)
            assert await hand_in(proxy, body=b"1", fields=key) == job
            other = await proxy.ask("/work", method="POST", body=b"2", fields=ASYNC + key)
            assert other.outcome == (422, "not_sent")
            apart = await hand_in(proxy, body=b"2", fields=key + "Authorization: Bearer x\r\n")
            assert apart != job
            gate.set()
            await ended(proxy, job)
            await ended(proxy, apart)
        async with with_jobs(node, url) as proxy:
            again = await proxy.ask("/work", method="POST", body=b"1", fields=ASYNC + key)
            assert (again.status, again.body) == (200, b"ok")  # it is over: its answer
        assert len(node.seen) == 2


async def test_jobs_that_wait_at_a_stop_keep_their_place(url: str) -> None:
    gate = asyncio.Event()
    async with WireNode(open_gate(gate)) as node:
        async with with_jobs(node, url) as proxy:
            jobs = [await hand_in(proxy, f"/{number}", body=b"x" * 100_000) for number in range(4)]
            await node.sees(1)
            stopping = asyncio.ensure_future(proxy.app.stop(asyncio.Event()))
            await until(lambda: not len(proxy.app.dispatcher.line), "the line is let go of")
            gate.set()
            await stopping
        assert len(node.seen) == 1
        async with with_jobs(node, url) as proxy:
            for job in jobs:
                assert (await ended(proxy, job))["state"] == "succeeded"
        assert node.targets == ["/0", "/1", "/2", "/3"]
        assert [len(turn.body) for turn in node.seen] == [100_000] * 4


async def test_without_jobs_all_of_it_is_the_nodes(url: str) -> None:
    async with WireNode() as node, proxy_here([node.url], database_url=None) as proxy:
        assert (await proxy.ask("/x", method="POST", fields=ASYNC)).status == 200
        assert (await proxy.ask("/.jobs/abc")).status == 200
        assert b"prefer: respond-async" in node.seen[0].head.lower()
        assert node.targets == ["/x", "/.jobs/abc"]


async def test_no_database_is_made_before_the_first_job(tmp_path: Path, url: str) -> None:
    async with WireNode() as node, with_jobs(node, url) as proxy:
        assert (await proxy.ask("/", fields="Prefer: x-respond-async, wait=3\r\n")).status == 200
        assert b"wait=3" in node.seen[0].head
        assert (await proxy.ask("/.jobs/abc")).status == 404
        assert not os.listdir(tmp_path)
        await ended(proxy, await hand_in(proxy))
        assert "jobs.db" in os.listdir(tmp_path)


async def test_a_node_that_breaks_once_and_retry(url: str, probed_soon: None) -> None:
    async def behave(turn: Turn) -> None:
        if turn.target == "/once" or len(node.targets) < 3:
            turn.reset()
        else:
            turn.answer(b"at last")

    async with WireNode(behave) as node, with_jobs(node, url) as proxy:
        document = await ended(proxy, await hand_in(proxy, "/once"))
        assert (document["state"], document["outcome"], document["attempts"]) == ("unknown", "unknown", 1)
        assert (await proxy.ask(document["links"]["result"])).status == 502
        document = await ended(proxy, await hand_in(proxy, "/twice", fields="Job-Policy: retry\r\n"))
        assert (document["state"], document["attempts"]) == ("succeeded", 2)
        node.behave = lambda turn: _reset(turn)
        document = await ended(proxy, await hand_in(proxy, "/never", fields="Job-Policy: retry\r\n"))
        assert (document["state"], document["outcome"], document["attempts"]) == ("failed", "unknown", 2)
        assert node.targets == ["/once", "/twice", "/twice", "/never", "/never"]


async def _reset(turn: Turn) -> None:
    turn.reset()


async def test_cancelled_by_another_replica_it_is_never_sent(url: str) -> None:
    gate = asyncio.Event()
    async with WireNode(open_gate(gate)) as node, with_jobs(node, url) as proxy:
        assert proxy.app.jobs is not None
        first = await hand_in(proxy, "/first")
        await node.sees(1)
        gone, last = await hand_in(proxy, "/gone"), await hand_in(proxy, "/last")
        await proxy.app.jobs.store.cancel(gone.rpartition("/")[2])  # behind this one's back
        gate.set()
        assert (await ended(proxy, last))["state"] == "succeeded"
        assert (await state(proxy, gone))["state"] == "cancelled"
        await ended(proxy, first)
        assert node.targets == ["/first", "/last"]


async def test_a_run_that_lasts_too_long(url: str, probed_soon: None) -> None:
    async def behave(turn: Turn) -> None:
        if turn.target == "/long":
            turn.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            await turn.peer_end()
        else:
            turn.answer()

    async with WireNode(behave) as node, with_jobs(node, url, run_timeout_secs=0.3) as proxy:
        job = await hand_in(proxy, "/long")
        document = await ended(proxy, job)
        assert (document["state"], document["outcome"]) == ("unknown", "unknown")
        assert (await proxy.ask(f"{job}/result")).status == 504
        job = await hand_in(proxy, "/long", fields="Job-Policy: retry\r\n")
        assert (await ended(proxy, job))["attempts"] == 2
        assert (await ended(proxy, await hand_in(proxy)))["state"] == "succeeded"


async def test_an_answer_that_finds_no_room(url: str, probed_soon: None) -> None:
    async def behave(turn: Turn) -> None:
        turn.answer(bytes(1_000_000))

    settings = {"spool_memory_bytes": 1000, "max_spool_bytes": 200_000}
    async with WireNode(behave) as node, with_jobs(node, url, **settings) as proxy:
        document = await ended(proxy, await hand_in(proxy, fields="Job-Policy: retry\r\n"))
        assert (document["state"], document["outcome"], document["attempts"]) == ("failed", "unknown", 1)
        assert "max_spool_bytes" in document["error"]


async def test_a_chunked_request_with_trailers_is_stored_whole(url: str) -> None:
    async with WireNode() as node:
        async with with_jobs(node, url) as proxy:
            proxy.app.dispatcher.hold()
            async with WireClient(proxy.port) as client:
                client.writer.write(
                    b"POST /c HTTP/1.1\r\nHost: x\r\nPrefer: respond-async\r\nTransfer-Encoding: chunked\r\n\r\n"
                    b"3\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 5\r\n\r\n"
                )
                receipt = await client.answer()
            await proxy.waits(1)
            await proxy.app.stop(asyncio.Event())
        async with with_jobs(node, url) as proxy:
            await ended(proxy, receipt.fields["location"])
        assert node.seen[0].body == b"abcde"
        head = node.seen[0].head.lower()
        assert head.count(b"transfer-encoding: chunked") == 1
        assert b"content-length" not in head
