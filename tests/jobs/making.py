"""Jobs, replicas and endings for tests, with what a test does not care about filled in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from proxy.jobs.job import (
    Bytes,
    Claim,
    Ending,
    IdempotencyKey,
    JobLease,
    Replica,
    Result,
    State,
    StoredBody,
    Submission,
)
from proxy.jobs.store import Store

A = Replica("a-1", "a")
B = Replica("b-1", "b")

REQUEST = Submission(b"POST", b"/prompt?x=%2F", [(b"Host", b"h")], Bytes(b"body"))
ANSWER = Result(200, [(b"Content-Type", b"text/plain")], Bytes(b"answer"))
ANSWERED = Ending(State.SUCCEEDED, "answered", ANSWER)


def keyed(key: str, fingerprint: bytes = b"f") -> Submission:
    return replace(REQUEST, idempotency=IdempotencyKey(key, fingerprint))


async def submit(store: Store, owner: str | None = A.id, **changes: Any) -> JobLease:
    """Of a new job, which is handed over and claimed where nobody owns it."""
    accepted = await store.submit(replace(REQUEST, **changes), owner)
    assert accepted.is_new
    return accepted.lease or JobLease(accepted.job.id, "", 1)


async def run(store: Store, lease: JobLease, ending: Ending = ANSWERED) -> None:
    await store.mark_sent(lease, "node")
    await store.finish(lease, ending)


async def claim_one(store: Store, owner: str = A.id) -> Claim:
    (claim,) = await store.claim(owner, 1)
    return claim


async def whole(store: Store, body: StoredBody, piece: int = 100_000) -> bytes:
    """Read in pieces, as it is for a client."""
    data = b""
    while part := await store.read(body, len(data), piece):
        data += part
    return data


async def state_of(store: Store, job_id: str) -> State:
    job = await store.get(job_id)
    assert job is not None
    return job.state
