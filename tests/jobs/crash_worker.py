"""A process that does all that a proxy does with its store, tells what it was told, and waits to be killed.

    python -m tests.jobs.crash_worker URL START

Each line says what had come back when it was written: `accepted ID`, `sent ID`, `finished ID`, `idle`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from dataclasses import replace

from proxy.jobs.job import Bytes, Claim, Ending, Policy, Replica, Result, State, StoreSettings
from proxy.jobs.opening import new_store
from proxy.jobs.store import Store
from tests.jobs.making import REQUEST, keyed

_BODY_BYTES = (10, 2_000, 40_000)  # the last one is kept apart from its row
SETTINGS = StoreSettings(inline_bytes=10_000)


def say(*words: str) -> None:
    os.write(1, (" ".join(words) + "\n").encode())


def answer_to(job_id: str) -> bytes:
    return hashlib.sha256(job_id.encode()).digest() * 1500


async def hand_in(store: Store, replica: Replica, name: str) -> None:
    number = 0
    while True:
        number += 1
        request = replace(
            keyed(f"{name}.{number}") if number % 4 == 0 else REQUEST,
            body=Bytes(bytes(_BODY_BYTES[number % 3])),
            policy=Policy.RETRY if number % 2 else Policy.ONCE,
        )
        accepted = await store.submit(request, replica.id if number % 5 == 0 else None)
        say("accepted", accepted.job.id)
        if accepted.lease is not None:
            await run(store, Claim(accepted.lease, accepted.job, None))  # type: ignore[arg-type]


async def run(store: Store, claim: Claim) -> None:
    await store.mark_sent(claim.lease, "node")
    say("sent", claim.job.id)
    await asyncio.sleep(0)
    result = Result(200, body=Bytes(answer_to(claim.job.id)))
    await store.finish(claim.lease, Ending(State.SUCCEEDED, "answered", result))
    say("finished", claim.job.id)


async def work(store: Store, replica: Replica) -> None:
    while True:
        claims = await store.claim(replica.id, 3)
        for claim in claims:
            await run(store, claim)
        if not claims:
            say("idle")
            await asyncio.sleep(0.01)


async def main(url: str, start: str) -> None:
    store = new_store(url, SETTINGS)
    await store.open()
    replica = Replica(f"r.{start}", "r")
    await store.report(replica)
    while await store.recover(50):
        pass
    if start == "last":  # idle is idle then
        await work(store, replica)
    clients = [hand_in(store, replica, f"{start}.{number}") for number in range(6)]
    await asyncio.gather(*clients, *(work(store, replica) for _ in range(3)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
