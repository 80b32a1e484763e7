"""What survives: the jobs, in the order of their joining, and everything that is promised about them.

States: queued -> running -> succeeded | failed | unknown | cancelled; queued -> cancelled | expired | failed;
running -> queued where it is sent again. `queued` means that no node can have seen it (under `retry`: that
the first run is over or lost), `running` that a node may have, `unknown` that it may have run and is never
sent again, `expired` that its time in the line was up. A final state never changes.

How the line and the store work together. The line of a process is in its memory (`proxy.dispatch`): held
requests and jobs stand in it together, in one order of joining. A job joins it when `submit` returns, that is
when it is durable, so what joined before it starts before it. The store is what survives the process: a row
for each job, with its `position` (one sequence for all replicas) and its owner: the replica in whose line it
stands. `submit` gives a new job to the replica that accepts it; `claim` gives the oldest jobs without an
owner to whoever asks: after a crash, to the same or another replica, which lets them join its line oldest
first. A job's own steps are then `mark_sent` (durable before the first byte leaves for a node) and `finish`
(durable before anybody is told).

Owning is a lease: it lasts while its replica reports (every `REPORT_SECS`) and is over `LEASE_SECS` after the
last report; one report renews all leases of the replica, however many. Each change of hands counts
`JobLease.number` up, so whoever was taken for dead and comes back finds its lease lost at the next write,
writes nothing, and sends nothing. Time is the store's alone (PostgreSQL's clock; for SQLite a clock that
never jumps): no host's clock decides anything.

Always, whatever is killed: a job that `submit` returned is there; it is `running` before a node gets its
first byte; a result is there whole or not at all; of two replicas that finish the same job one is refused.

For several replicas that share one line, the next step: rows without an owner are that line (`position`
orders it, held requests can draw from the same sequence), `claim` with as many as there are idle nodes is its
pairing, `replicas` says who takes part and who leads. Nothing here needs a session, a lock that is held, or a
notification."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from proxy.jobs.job import (
    Accepted,
    Claim,
    Counts,
    Delivery,
    Ending,
    Job,
    JobLease,
    Replica,
    Search,
    Standing,
    StoredBody,
    StoredRequest,
    StoredResult,
    StoreSettings,
    Submission,
    Sweep,
)


class Store(ABC):
    """The store of a pool's jobs; used from one event loop.

    Every method raises `errors.StoreUnavailable` within about `settings.timeout_secs` when the database is
    down, slow or full, and works again by itself once the database does; each may then be repeated with the
    same arguments, `submit` with an idempotency key. `settings` may be replaced at any time."""

    settings: StoreSettings

    # --- life

    @abstractmethod
    async def open(self) -> None:
        """Connect and bring the schema up to date. Raises `errors.StoreUnusable` where trying again is of no
        use: a newer schema, a file that is no database or in use by another process. After `StoreUnavailable`
        the store is usable: it tries again at the next call."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what has been begun, and disconnect. Leases stay as they are: `release` first."""

    # --- handing in

    @abstractmethod
    async def submit(self, submission: Submission, owner: str | None) -> Accepted:
        """Store a job, durably when this returns, and give it to `owner` (a replica's id; None: whoever
        claims it).

        Many calls at a time share one transaction. Raises `errors.IdempotencyConflict` where the key is known
        with another fingerprint, `errors.StoreFull` past the limits. A `StoreUnavailable` whose `outcome` is
        `unknown` means that the commit may have gone through; the job is then withdrawn as soon as the
        database answers again."""

    @abstractmethod
    async def cancel(self, job_id: str) -> Job | None:
        """Cancel it if it is queued, whoever owns it. The job as it is then (any state), None if there is
        none."""

    # --- running

    @abstractmethod
    async def claim(self, owner: str, limit: int) -> list[Claim]:
        """Up to `limit` of the queued jobs that nobody owns, oldest first. No two callers get the same
        one."""

    @abstractmethod
    async def load(self, job_id: str) -> StoredRequest | None:
        """Its request; None once it is final."""

    @abstractmethod
    async def mark_sent(self, lease: JobLease, node: str) -> None:
        """It is running from now on, and counts as sent: before the first byte leaves for `node`. Raises
        `errors.LeaseLost` where it is no longer the caller's, was cancelled or has expired: nothing may be
        sent then."""

    @abstractmethod
    async def requeue(self, lease: JobLease, *, reached_node: bool) -> None:
        """Running no longer, still the caller's: queued at its old place. `reached_node` False: it provably
        never reached a node, so this send does not count; True: it is sent once more under `Policy.RETRY`
        (the caller asked `after_lost_run`). Raises `errors.LeaseLost`."""

    @abstractmethod
    async def release(self, leases: Sequence[JobLease]) -> None:
        """Give up those of them that are queued, at their old place, for whoever claims them (a clean stop).
        Lost ones and running ones are left alone."""

    @abstractmethod
    async def finish(self, lease: JobLease, ending: Ending) -> Job:
        """Its end with its whole result, durable when this returns. Raises `errors.LeaseLost` where it is no
        longer the caller's: nothing is written then."""

    # --- replicas

    @abstractmethod
    async def report(self, replica: Replica) -> Standing:
        """To be called at the start, before anything is claimed, and every `REPORT_SECS`: renews all leases
        of the replica. The first report ends the leases of earlier replicas of the same name."""

    @abstractmethod
    async def recover(self, limit: int) -> list[Job]:
        """Up to `limit` jobs whose owner is dead, as they now are: not sent ones are queued without an owner,
        sent ones as `after_lost_run` says. To be called after the first report, and now and then, until it
        returns fewer."""

    # --- looking

    @abstractmethod
    async def get(self, job_id: str) -> Job | None: ...

    @abstractmethod
    async def result(self, job_id: str) -> StoredResult | None:
        """None before it has one, where it has none, and once it is purged."""

    @abstractmethod
    async def read(self, body: StoredBody, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`, fewer only at its end. Raises `errors.BodyGone` where it has
        been cleaned up since."""

    @abstractmethod
    async def place(self, job_id: str) -> int | None:
        """Its place among all queued jobs, from 1; None where it is not queued."""

    @abstractmethod
    async def search(self, search: Search) -> list[Job]: ...

    @abstractmethod
    async def counts(self) -> Counts: ...

    # --- what runs once, on the leader

    @abstractmethod
    async def sweep(self, limit: int) -> Sweep:
        """One step of cleaning up, of at most `limit` jobs of each kind: queued too long -> expired; kept
        long enough -> purged; known of long enough -> deleted; bodies that belong to nothing -> deleted."""

    @abstractmethod
    async def take_webhooks(self, limit: int, hold_secs: float) -> list[Delivery]:
        """Up to `limit` webhooks that are due, longest due first. Each is due again after `hold_secs` unless
        `webhook_done` or `webhook_failed` says otherwise: a crash while calling repeats the call."""

    @abstractmethod
    async def webhook_done(self, job_id: str) -> None: ...

    @abstractmethod
    async def webhook_failed(self, job_id: str, error: str, retry_in_secs: float | None) -> None:
        """`retry_in_secs` None: given up."""
