"""The jobs' own pages: state, result and its parts, events, cancelling; and what is refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from proxy.jobs.job import Search
from tests.fakes.job_client import ASYNC, ended, hand_in, state
from tests.fakes.proxy_here import proxy_here
from tests.fakes.until import until
from tests.fakes.wire_client import WireClient
from tests.fakes.wire_node import Turn, WireNode
from tests.providers.waiting import until as soon


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


async def test_a_result_in_parts(url: str) -> None:
    data = bytes(range(256)) * 2000  # kept apart from its row

    async def behave(turn: Turn) -> None:
        turn.answer(data, fields=b'ETag: "v1"\r\n')

    async with WireNode(behave) as node, proxy_here([node.url], database_url=url) as proxy:
        job = await hand_in(proxy)
        await ended(proxy, job)
        result = f"{job}/result"
        whole = await proxy.ask(result)
        assert (whole.status, whole.body, whole.fields["accept-ranges"]) == (200, data, "bytes")
        part = await proxy.ask(result, fields="Range: bytes=1000-300999\r\n")
        assert (part.status, part.body) == (206, data[1000:301000])
        assert part.fields["content-range"] == f"bytes 1000-300999/{len(data)}"
        assert (await proxy.ask(result, fields="Range: bytes=-5\r\n")).body == data[-5:]
        assert (await proxy.ask(result, fields='Range: bytes=0-0\r\nIf-Range: "v1"\r\n')).body == data[:1]
        assert (await proxy.ask(result, fields='Range: bytes=0-0\r\nIf-Range: "v0"\r\n')).body == data
        outside = await proxy.ask(result, fields=f"Range: bytes={len(data)}-\r\n")
        assert (outside.status, outside.fields["content-range"]) == (416, f"bytes */{len(data)}")
        async with WireClient(proxy.port) as client:
            client.send(result, method="HEAD")
            head = await client.head()
            assert (head.status, head.fields["content-length"]) == (200, str(len(data)))
            client.send(result)  # the connection goes on, and nothing of a body came before
            assert (await client.answer()).body == data


async def test_chunked_answers_with_trailers_and_those_without_body(url: str) -> None:
    async def behave(turn: Turn) -> None:
        if turn.target == "/empty":
            turn.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        else:
            turn.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
            turn.write(b"3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n")

    async with WireNode(behave) as node, proxy_here([node.url], database_url=url) as proxy:
        job = await hand_in(proxy, "/chunked", fields="TE: trailers\r\nConnection: TE\r\n")
        await ended(proxy, job)
        async with WireClient(proxy.port) as client:
            client.send(f"{job}/result")
            assert (await client.head()).fields["transfer-encoding"] == "chunked"
            rest = await client.reader.readuntil(b"\r\n\r\n")
            assert rest == b"3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n"
        job = await hand_in(proxy, "/empty")
        await ended(proxy, job)
        async with WireClient(proxy.port) as client:
            for _ in range(2):
                client.send(f"{job}/result")
                head = await client.head()
                assert head.status == 204
                assert "content-length" not in head.fields


async def test_before_there_is_a_result_and_after(url: str) -> None:
    gate = asyncio.Event()

    async def behave(turn: Turn) -> None:
        await gate.wait()
        turn.answer()

    async with (
        WireNode(behave) as node,
        proxy_here([node.url], database_url=url, job_retention_secs=0.3) as proxy,
    ):
        job = await hand_in(proxy)
        early = await proxy.ask(f"{job}/result")
        assert early.status == early.problem["status"] == 404
        assert int(early.fields["retry-after"]) >= 1
        gate.set()
        await ended(proxy, job)
        assert proxy.app.jobs is not None
        store = proxy.app.jobs.store

        async def is_purged() -> bool:
            await store.sweep(100)
            return (await proxy.ask(f"{job}/result")).status != 200

        await soon(is_purged, "the result is cleaned up")
        assert (await proxy.ask(f"{job}/result")).status == 410
        document = await state(proxy, job)
        assert (document["state"], document["result"]) == ("succeeded", None)


async def test_cancelling(url: str) -> None:
    gate = asyncio.Event()

    async def behave(turn: Turn) -> None:
        await gate.wait()
        turn.answer()

    async with WireNode(behave) as node, proxy_here([node.url], database_url=url) as proxy:
        running, waiting, last = [await hand_in(proxy, f"/{number}") for number in range(3)]
        await node.sees(1)
        cancelled = await proxy.ask(waiting, method="DELETE")
        assert json.loads(cancelled.body)["state"] == "cancelled"
        assert (await state(proxy, last))["place"] == 1
        refused = await proxy.ask(running, method="DELETE")
        assert refused.status == 409
        assert "running" in refused.problem["detail"]
        gate.set()
        assert (await ended(proxy, last))["state"] == "succeeded"
        assert node.targets == ["/0", "/2"]
        assert (await proxy.ask(f"{waiting}/result")).status == 404
        assert (await proxy.ask(last, method="DELETE")).status == 409


async def test_events_tell_state_and_place(url: str) -> None:
    gate = asyncio.Event()

    async def behave(turn: Turn) -> None:
        await gate.wait()
        turn.answer()

    async with WireNode(behave) as node, proxy_here([node.url], database_url=url) as proxy:
        first = await hand_in(proxy)
        await node.sees(1)
        job = await hand_in(proxy)
        async with WireClient(proxy.port) as client:
            client.send(f"{job}/events")
            assert (await client.head()).fields["content-type"] == "text/event-stream"
            assert event_of(await client.chunk()) == ("queued", 1)
            gate.set()
            states = []
            while (chunk := await client.chunk()) is not None:
                states.append(event_of(chunk)[0])
            assert states[-1] == "succeeded"
        await ended(proxy, first)


def event_of(chunk: bytes | None) -> tuple[str, int | None]:
    assert chunk is not None
    name, data = chunk.decode().rstrip().split("\n")
    assert name == "event: state"
    document = json.loads(data.removeprefix("data: "))
    return document["state"], document["place"]


async def test_what_is_refused(url: str) -> None:
    async with WireNode() as node, proxy_here([node.url], database_url=url) as proxy:
        job = await hand_in(proxy)
        await ended(proxy, job)
        for target in ("/.jobs/", "/.jobs/unknown", f"{job}/other", f"{job}/", "http://x/.jobs/none"):
            assert (await proxy.ask(target)).status == 404, target
        for method, target in (("POST", job), ("PUT", f"{job}/result"), ("DELETE", f"{job}/result")):
            assert (await proxy.ask(target, method=method)).status == 405, (method, target)
        for fields in (
            "Job-Policy: twice\r\n",
            "Job-Policy: once\r\nJob-Policy: once\r\n",
            "Idempotency-Key: \r\n",
            "Webhook-Url: http://example.com/\r\n",
        ):
            refused = await proxy.ask("/", method="POST", fields=ASYNC + fields)
            assert refused.outcome == (400, "not_sent"), fields
        assert len(node.seen) == 1


async def test_a_full_line_and_a_full_store(url: str) -> None:
    gate = asyncio.Event()

    async def behave(turn: Turn) -> None:
        await gate.wait()
        turn.answer()

    async with (
        WireNode(behave) as node,
        proxy_here([node.url], database_url=url, max_queue_length=2, max_stored_bytes=5000) as proxy,
    ):
        jobs = [await hand_in(proxy) for _ in range(3)]
        full = await proxy.ask("/", method="POST", fields=ASYNC)
        assert full.outcome == (429, "not_sent")
        assert int(full.fields["retry-after"]) >= 1
        gate.set()
        for job in jobs:
            await ended(proxy, job)
        full = await proxy.ask("/", method="POST", body=bytes(5001), fields=ASYNC)
        assert full.outcome == (503, "not_sent")
        assert int(full.fields["retry-after"]) >= 1
        assert proxy.app.health.state == "ok"  # the database is well


async def test_waited_too_long(url: str) -> None:
    gate = asyncio.Event()

    async def behave(turn: Turn) -> None:
        await gate.wait()
        turn.answer()

    async with (
        WireNode(behave) as node,
        proxy_here([node.url], database_url=url, queue_timeout_secs=0.3) as proxy,
    ):
        running, waiting = await hand_in(proxy), await hand_in(proxy)
        document = await ended(proxy, waiting)
        assert (document["state"], document["outcome"], document["attempts"]) == ("expired", "not_sent", 0)
        gate.set()
        await ended(proxy, running)


async def test_a_client_that_leaves_has_handed_in_all_the_same(url: str) -> None:
    async with WireNode() as node, proxy_here([node.url], database_url=url) as proxy:
        async with WireClient(proxy.port) as client:
            client.send("/left", method="POST", fields=ASYNC + "Prefer: wait=60\r\n")
            await node.sees(1)
        assert proxy.app.jobs is not None
        store = proxy.app.jobs.store
        await until(lambda: not proxy.app.jobs.runner.runs, "it is over")  # type: ignore[union-attr]
        (job,) = await store.search(Search())
        assert (job.target, job.outcome) == (b"/left", "answered")


async def test_pipelined_receipts_come_in_order(url: str) -> None:
    async with WireNode() as node, proxy_here([node.url], database_url=url) as proxy:
        async with WireClient(proxy.port) as client:
            for number in range(5):
                client.send(f"/{number}", method="POST", fields=ASYNC)
            client.send("/held")
            receipts = [await client.answer() for _ in range(5)]
            assert [receipt.status for receipt in receipts] == [202] * 5
            assert (await client.answer()).status == 200
        for receipt in receipts:
            await ended(proxy, receipt.fields["location"])
        assert node.targets == ["/0", "/1", "/2", "/3", "/4", "/held"]
