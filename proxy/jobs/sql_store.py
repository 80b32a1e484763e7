"""What both databases have in common: each method is one statement, or a few that may be repeated; no more
than one of them needs to be atomic with another.

Always: a large body is stored before the row that names it and deleted after the last one did, so a row never
lacks its body, and what a crash leaves over belongs to no row and is swept."""

from __future__ import annotations

import asyncio
import secrets
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from proxy.errors import BodyGone, IdempotencyConflict, LeaseLost, StoreFull, StoreUnavailable
from proxy.jobs import rows, statements
from proxy.jobs.bodies import Bodies
from proxy.jobs.job import (
    LEADER_SECS,
    Accepted,
    Claim,
    Content,
    Counts,
    Delivery,
    Ending,
    Job,
    JobLease,
    Policy,
    Replica,
    Search,
    Standing,
    State,
    StoredBody,
    StoredRequest,
    StoredResult,
    StoreSettings,
    Submission,
    Sweep,
    after_lost_run,
)
from proxy.jobs.rows import Row
from proxy.jobs.schema import Statement
from proxy.jobs.store import Store


class SqlStore(Store):
    """A store on `_read`, `_write` and `_bodies`."""

    _bodies: Bodies

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self._stored_bytes = 0  # as last counted, and what was added since
        # Calls that may have been committed without our hearing of it: undone once the database answers again.
        self._doubtful_jobs: dict[str, str | None] = {}  # submits, with the owner
        self._doubtful_claims: dict[str, str] = {}  # claims, with their owner

    # --- what a database must do

    @abstractmethod
    async def _ready(self) -> None:
        """Open, unless it is. Raises `StoreUnavailable`."""

    @abstractmethod
    async def _read(self, statement: Statement, **parameters: Any) -> Sequence[Row]: ...

    @abstractmethod
    async def _write(self, statement: Statement, **parameters: Any) -> Sequence[Row]:
        """In a transaction, shared with other calls; durable when this returns. A `StoreUnavailable` has
        `outcome` `unknown` unless it provably was not committed."""

    def _shown(self, at: float) -> float:
        """The store's time as Unix seconds."""
        return at

    def _kept(self, unix: float) -> float:
        """Unix seconds as the store's time."""
        return unix

    def _job(self, row: Row) -> Job:
        return rows.job(row, self._shown)

    def _jobs(self, found: Sequence[Row]) -> list[Job]:
        return sorted(map(self._job, found), key=lambda job: job.position)

    # --- handing in

    async def submit(self, submission: Submission, owner: str | None) -> Accepted:
        values = rows.submitted(submission)
        self._check_room(submission.body.size)
        body = await self._store_body(submission.body)
        values |= {"id": secrets.token_urlsafe(16), "owner": owner} | rows.body_values("request", body)
        is_new = False
        try:
            accepted = await self._accept(values)
            is_new = accepted.is_new
        finally:
            if not is_new:
                self._bodies.suspect(body.key)
        if is_new:
            self._stored_bytes += body.size
        return accepted

    async def _accept(self, values: dict[str, Any]) -> Accepted:
        job_id, owner, key = values["id"], values["owner"], values["idempotency_key"]
        while not (inserted := await self._insert(values)):
            joined = await self._write(statements.JOIN, key=key, fingerprint=values["fingerprint"])
            if joined:
                return Accepted(self._job(joined[0]), False, None)
            if await self._read(statements.BY_KEY, key=key):
                raise IdempotencyConflict("this Idempotency-Key was used before for another request")
            # The job of this key was purged between the two: the key is free.
        lease = None if owner is None else JobLease(job_id, owner, inserted[0]["lease"])
        return Accepted(self._job(inserted[0]), True, lease)

    async def _insert(self, values: dict[str, Any]) -> Sequence[Row]:
        try:
            return await self._write(statements.INSERT, **values)
        except (StoreUnavailable, asyncio.CancelledError) as error:
            if not isinstance(error, StoreUnavailable) or error.outcome == "unknown":
                self._doubtful_jobs[values["id"]] = values["owner"]
            raise

    def _check_room(self, size: int) -> None:
        limit = self.settings.max_stored_bytes
        if self._stored_bytes + size > limit:
            raise StoreFull(f"stored bodies would exceed {limit} bytes (max_stored_bytes)")

    async def cancel(self, job_id: str) -> Job | None:
        cancelled = await self._write(statements.CANCEL, id=job_id)
        return self._job(cancelled[0]) if cancelled else await self.get(job_id)

    # --- running

    async def claim(self, owner: str, limit: int) -> list[Claim]:
        call = secrets.token_hex(8)
        try:
            claimed = await self._write(statements.CLAIM, owner=owner, limit=limit, claim=call)
        except (StoreUnavailable, asyncio.CancelledError) as error:
            if not isinstance(error, StoreUnavailable) or error.outcome == "unknown":
                self._doubtful_claims[call] = owner
            raise
        claims = [rows.claim(row, self._shown) for row in claimed]
        return sorted(claims, key=lambda claim: claim.job.position)

    async def load(self, job_id: str) -> StoredRequest | None:
        found = await self._read(statements.LOAD, id=job_id)
        return rows.request(found[0]) if found else None

    async def mark_sent(self, lease: JobLease, node: str) -> None:
        if not await self._write(statements.MARK_SENT, **_of(lease), node=node):
            raise _lost(lease)

    async def requeue(self, lease: JobLease, *, reached_node: bool) -> None:
        uncounted = 0 if reached_node else 1
        if not await self._write(statements.REQUEUE, **_of(lease), uncounted=uncounted):
            raise _lost(lease)

    async def release(self, leases: Sequence[JobLease]) -> None:
        await asyncio.gather(*(self._write(statements.LET_GO, **_of(lease)) for lease in leases))

    async def finish(self, lease: JobLease, ending: Ending) -> Job:
        values = rows.ended(ending)
        body = None if ending.result is None else await self._store_body(ending.result.body)
        finished: Sequence[Row] = ()
        try:
            values |= _of(lease) | rows.body_values("result", body)
            finished = await self._write(statements.FINISH, **values)
        finally:
            if not finished and body is not None:
                self._bodies.suspect(body.key)
        if finished:
            self._stored_bytes += 0 if body is None else body.size
            return self._job(finished[0])
        # The caller may repeat a call that went through without its hearing of it.
        before = await self._read(statements.BY_LEASE, **_of(lease))
        if before and before[0]["state"] == ending.state:
            return self._job(before[0])
        raise _lost(lease)

    # --- replicas

    async def _settle_doubts(self) -> None:
        for job_id, owner in list(self._doubtful_jobs.items()):
            withdrawn = await self._write(statements.WITHDRAW, id=job_id)
            if not withdrawn and owner is not None:  # never stored, or joined by its key: then it must run
                await self._write(statements.LET_GO, id=job_id, lease=1)
            self._doubtful_jobs.pop(job_id, None)
        for call, owner in list(self._doubtful_claims.items()):
            await self._write(statements.UNCLAIM, owner=owner, claim=call)
            self._doubtful_claims.pop(call, None)

    async def report(self, replica: Replica) -> Standing:
        await self._write(statements.REPORT, id=replica.id, name=replica.name)
        await self._write(statements.REPLACE, id=replica.id, name=replica.name)
        await self._settle_doubts()
        reported = await self._read(statements.REPORTED, within_secs=LEADER_SECS)
        self._stored_bytes = (await self.counts()).stored_bytes
        ids = tuple(sorted(row["id"] for row in reported))
        return Standing(ids[:1] == (replica.id,), ids)

    async def recover(self, limit: int) -> list[Job]:
        abandoned = await self._read(statements.ABANDONED, limit=limit)
        recovered = await asyncio.gather(*map(self._recover, abandoned))
        return self._jobs([row for found in recovered for row in found])

    async def _recover(self, row: Row) -> Sequence[Row]:
        lease = JobLease(row["id"], row["owner"], row["lease"])
        seen = State(row["state"])
        state = seen if seen is State.QUEUED else after_lost_run(Policy(row["policy"]), row["sends"])
        if state is State.QUEUED:
            return await self._write(statements.RECOVER_QUEUED, **_of(lease), seen=seen.value)
        error = "the proxy that ran it ended before it had an answer"
        return await self._write(
            statements.RECOVER_ENDED, **_of(lease), seen=seen.value, state=state.value, error=error
        )

    # --- looking

    async def get(self, job_id: str) -> Job | None:
        found = await self._read(statements.GET, id=job_id)
        return self._job(found[0]) if found else None

    async def result(self, job_id: str) -> StoredResult | None:
        found = await self._read(statements.RESULT, id=job_id)
        return rows.result(found[0]) if found else None

    async def read(self, body: StoredBody, offset: int, length: int) -> bytes:
        length = min(length, body.size - offset)
        if length <= 0:
            return b""
        if body.key is not None:
            return await self._bodies.read(body.key, offset, length)
        if body.data is None:
            raise BodyGone("it has been cleaned up")
        return body.data[offset : offset + length]

    async def place(self, job_id: str) -> int | None:
        (row,) = await self._read(statements.PLACE, id=job_id)
        return row["place"] or None

    async def search(self, search: Search) -> list[Job]:
        conditions: dict[str, object] = {
            "created_at >= :created_from": _mapped(self._kept, search.created_from),
            "created_at < :created_until": _mapped(self._kept, search.created_until),
            "id = :id": search.id,
            "idempotency_key = :idempotency_key": search.idempotency_key,
            "position < :before": search.before,
        }
        given = {text: value for text, value in conditions.items() if value is not None}
        parameters = {text.partition(":")[2]: value for text, value in given.items()}
        statement = statements.search(tuple(given), tuple(sorted(search.states)))
        found = await self._read(statement, **parameters, limit=search.limit)
        return [self._job(row) for row in found]

    async def counts(self) -> Counts:
        found = await self._read(statements.COUNTS)
        by_state = dict.fromkeys(State, 0) | {State(row["state"]): row["jobs"] for row in found}
        return Counts(by_state, sum(row["bytes"] for row in found))

    # --- what runs once, on the leader

    async def sweep(self, limit: int) -> Sweep:
        kept_for = self.settings.retention_secs
        expired = await self._write(statements.EXPIRE, limit=limit)
        purgeable = await self._read(statements.PURGEABLE, retention_secs=kept_for, limit=limit)
        for row in purgeable:
            await self._bodies.delete([key for key in (row["request_key"], row["result_key"]) if key])
        await asyncio.gather(*(self._write(statements.PURGE, id=row["id"], nothing=b"") for row in purgeable))
        deleted = await self._write(statements.DELETE, retention_secs=kept_for, limit=limit)
        spent = await self._read(statements.SPENT, limit=limit)
        await self._bodies.delete([row["request_key"] for row in spent])
        await asyncio.gather(*(self._write(statements.FREE_REQUEST, id=row["id"]) for row in spent))
        orphans = await self._bodies.sweep(limit)
        await self._write(statements.FORGET_REPLICAS)
        has_more = limit in (len(expired), len(purgeable), len(deleted), len(spent), orphans)
        return Sweep(tuple(self._jobs(expired)), len(purgeable), len(deleted), has_more)

    async def take_webhooks(self, limit: int, hold_secs: float) -> list[Delivery]:
        taken = await self._write(statements.TAKE_WEBHOOKS, limit=limit, hold_secs=hold_secs)
        due = [Delivery(self._job(row), row["webhook_url"], row["webhook_attempts"]) for row in taken]
        return sorted(due, key=lambda delivery: delivery.job.position)

    async def webhook_done(self, job_id: str) -> None:
        await self._write(statements.WEBHOOK_DONE, id=job_id)

    async def webhook_failed(self, job_id: str, error: str, retry_in_secs: float | None) -> None:
        await self._write(
            statements.WEBHOOK_FAILED, id=job_id, error=rows.safe_text(error), retry_in_secs=retry_in_secs
        )

    # --- bodies

    async def _store_body(self, content: Content) -> StoredBody:
        if content.size <= self.settings.inline_bytes:
            return StoredBody(content.size, content.read(0, content.size), None)
        await self._ready()
        return StoredBody(content.size, None, await self._bodies.write(content))


def _of(lease: JobLease) -> dict[str, object]:
    return {"id": lease.job_id, "lease": lease.number}


def _lost(lease: JobLease) -> LeaseLost:
    return LeaseLost(f"job {lease.job_id} is no longer {lease.owner}'s, or over")


def _mapped(kept: Any, unix: float | None) -> float | None:
    return None if unix is None else kept(unix)
