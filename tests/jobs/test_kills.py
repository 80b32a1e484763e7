"""The proxy killed without a word at random moments, again and again, while jobs are handed in and run.

`JOB_KILLS=50` makes it the whole of the promise: ten jobs for each kill.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.fakes.hashing_node import answer_to
from tests.fakes.proxy_process import ProxyProcess
from tests.jobs.databases import Database, url_of
from tests.providers.waiting import until

KILLS = int(os.environ.get("JOB_KILLS", "8"))
JOBS = 10 * KILLS
ROOT = Path(__file__).parents[2]
FINAL = {"succeeded", "failed", "unknown"}


@asynccontextmanager
async def hashing_nodes(journal: Path, count: int, work_secs: float) -> AsyncIterator[list[str]]:
    command = (sys.executable, "-m", "tests.fakes.hashing_node", str(journal), str(work_secs))
    nodes = [
        await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
        for _ in range(count)
    ]
    try:
        ports = [int(await node.stdout.readline()) for node in nodes if node.stdout is not None]
        yield [f"http://127.0.0.1:{port}" for port in ports]
    finally:
        for node in nodes:
            node.kill()
            await node.communicate()


def target_of(number: int) -> str:
    return f"/{'retry' if number % 2 else 'once'}/{number}"


def body_of(number: int) -> bytes:
    return b"%d" % number * (50_000 if number % 7 == 0 else 3 + number % 5)


class Clients:
    """They hand every job in until they are told that it is accepted."""

    def __init__(self, port: int) -> None:
        self.accepted: dict[int, str] = {}
        self._base = f"http://127.0.0.1:{port}"

    async def hand_in(self, numbers: Iterator[int], pause_secs: float) -> None:
        async with httpx.AsyncClient(trust_env=False, base_url=self._base, timeout=10) as client:
            for number in numbers:
                await until(partial(self._try, client, number), f"job {number} is accepted", secs=60)
                await asyncio.sleep(pause_secs)

    async def _try(self, client: httpx.AsyncClient, number: int) -> bool:
        fields = {
            "Prefer": "respond-async",
            "Idempotency-Key": f'"{number}"',
            "Job-Policy": "retry" if number % 2 else "once",
        }
        try:
            answer = await client.post(target_of(number), content=body_of(number), headers=fields)
        except httpx.TransportError:
            return False  # killed while it was being told
        if answer.status_code == 202:
            self.accepted[number] = answer.headers["location"]
        elif answer.status_code == 200:  # accepted before, unheard, and over by now
            assert answer.content == answer_to(body_of(number))
            self.accepted.setdefault(number, "")
        else:
            assert answer.status_code in (429, 502, 503), answer.text
            if answer.status_code == 502:  # the answer of a run that was lost
                self.accepted.setdefault(number, "")
        return number in self.accepted


async def states_of(port: int, jobs: list[str]) -> Counter[str]:
    async with httpx.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{port}") as client:
        return Counter([(await client.get(job)).raise_for_status().json()["state"] for job in jobs])


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_killed_again_and_again(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    journal, dice = tmp_path / "journal", random.Random(11)
    journal.touch()
    async with hashing_nodes(journal, 3, 0.05) as nodes:
        proxy = ProxyProcess(
            tmp_path,
            provider={"kind": "static", "nodes": nodes},
            database_url=url_of(database),
            start_probe_interval_secs=0.1,
            node_refresh_interval_secs=0.5,
        )
        clients = Clients(proxy.port)
        numbers = iter(range(JOBS))
        work = asyncio.gather(*(clients.hand_in(numbers, 0.15) for _ in range(4)))
        try:
            for _ in range(KILLS):
                await proxy.start()
                await asyncio.sleep(dice.uniform(0, 0.7))
                await proxy.kill()
            await proxy.start()
            await work
            jobs = [job for job in clients.accepted.values() if job]

            async def all_are_over() -> bool:
                try:
                    return set(await states_of(proxy.port, jobs)) <= FINAL
                except httpx.ConnectError:
                    return False  # the admin port is there first

            await until(all_are_over, "every job is over", secs=120)
            states = await states_of(proxy.port, jobs)
            await check_results(proxy.port, clients.accepted)
        finally:
            work.cancel()
            await proxy.kill()
    assert len(clients.accepted) == JOBS
    seen = Counter(journal.read_text().split())
    for number in range(JOBS):
        assert seen[target_of(number)] <= (2 if number % 2 else 1), target_of(number)
    # Some were killed at work, or this shows nothing.
    assert states["unknown"]
    assert any(count == 2 for count in seen.values())


async def check_results(port: int, accepted: dict[int, str]) -> None:
    async with httpx.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{port}") as client:
        for number, job in accepted.items():
            if not job:
                continue
            document = (await client.get(job)).raise_for_status().json()
            result = await client.get(f"{job}/result")
            if document["state"] == "succeeded":
                assert result.status_code == 200
                assert result.content == answer_to(body_of(number))
            else:
                assert result.status_code in (404, 502), result.text
                assert document["attempts"] == (2 if number % 2 else 1)
