"""A proxy whose database is down or slow: held requests go on, new jobs are refused, nothing accepted is lost."""

from __future__ import annotations

import asyncio

from tests.fakes.job_client import ASYNC, ended, hand_in
from tests.fakes.proxy_here import ProxyHere, proxy_here
from tests.fakes.until import until
from tests.fakes.wire_node import Turn, WireNode
from tests.jobs.databases import ON_POSTGRES, Database, PostgresDatabase, held, url_of


def codes(proxy: ProxyHere) -> list[str]:
    return [reason.code for reason in proxy.app.health.reasons]


async def test_held_requests_go_on_and_jobs_wait(database: Database) -> None:
    gate = asyncio.Event()

    async def behave(turn: Turn) -> None:
        if turn.target == "/first":
            await gate.wait()
        turn.answer(turn.target.encode())

    async with (
        WireNode(behave) as node,
        proxy_here(
            [node.url], counts_files=False, database_url=url_of(database), database_timeout_secs=0.5
        ) as proxy,
    ):
        assert proxy.app.jobs is not None
        heartbeat = proxy.app.jobs.heartbeat
        first = await hand_in(proxy, "/first")
        await node.sees(1)
        waiting = [await hand_in(proxy, f"/job{number}") for number in range(3)]
        held_request = asyncio.ensure_future(proxy.ask("/held"))
        await proxy.waits(4)
        async with held(database):
            refused = await proxy.ask("/", method="POST", fields=ASYNC)
            assert refused.outcome[0] == 503
            assert int(refused.fields["retry-after"]) >= 1
            await until(lambda: not heartbeat.is_up, "it knows that the database is down")
            gate.set()
            # The jobs before it cannot be written down: it does not wait for them.
            assert (await held_request).body == b"/held"
            assert (await proxy.ask("/next")).body == b"/next"
            await until(lambda: "store_down" in codes(proxy), "health says so")
        for job, body in zip([first, *waiting], ("/first", "/job0", "/job1", "/job2"), strict=True):
            assert (await ended(proxy, job))["state"] == "succeeded"
            assert (await proxy.ask(f"{job}/result")).body == body.encode()
        assert node.targets == ["/first", "/held", "/next", "/job0", "/job1", "/job2"]
        assert heartbeat.is_up


@ON_POSTGRES
async def test_down_at_the_start_and_up_later(database: PostgresDatabase) -> None:
    await asyncio.to_thread(database.server.stop)
    try:
        async with (
            WireNode() as node,
            proxy_here(
                [node.url], counts_files=False, database_url=url_of(database), database_timeout_secs=0.5
            ) as proxy,
        ):
            assert (await proxy.ask("/held")).status == 200
            assert (await proxy.ask("/", fields=ASYNC)).status == 503
            await until(lambda: "store_down" in codes(proxy), "health says so")
            await asyncio.to_thread(database.server.start)
            assert proxy.app.jobs is not None
            heartbeat = proxy.app.jobs.heartbeat
            await until(lambda: heartbeat.is_up, "the database is found")
            assert (await ended(proxy, await hand_in(proxy)))["state"] == "succeeded"
            await until(lambda: not proxy.app.health.reasons, "health is well again")
    finally:
        await asyncio.to_thread(database.server.start)
