"""The words of durable jobs: what is handed in, what is known of it, and how it ends. What they promise:
`store.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

from proxy.errors import Outcome
from proxy.http.message import Field

REPORT_SECS = 15.0  # how often a replica reports
LEADER_SECS = 45.0  # the leader is the smallest id among those that reported within this
LEASE_SECS = 120.0  # a replica that has not reported for this long has lost its jobs
MOST_SENDS = 2  # under `Policy.RETRY`


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    UNKNOWN = "unknown"

    @property
    def is_final(self) -> bool:
        return self not in (State.QUEUED, State.RUNNING)


class Policy(StrEnum):
    """What may happen to a job whose run was lost after it had been sent."""

    ONCE = "once"  # never sent again: unknown
    RETRY = "retry"  # sent again at most once more, then failed


def after_lost_run(policy: Policy, sends: int) -> State:
    """What becomes of a job of which nobody knows how its last run ended. `sends`: runs so far, that one
    included."""
    if policy is Policy.ONCE:
        return State.UNKNOWN
    return State.QUEUED if sends < MOST_SENDS else State.FAILED


class Content(Protocol):
    """A body to be stored, whole and readable at any place, from any thread: `http.spool.Spool` is one."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`; empty at the end."""


class Bytes:
    """A `Content` of bytes in memory."""

    __slots__ = ("_data", "size")

    def __init__(self, data: bytes = b"") -> None:
        self._data = data
        self.size = len(data)

    def read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """`inline_bytes`: a larger body is stored apart from its row. `max_stored_bytes`: with more than that in
    store no new job is accepted, results always are. `retention_secs`: how long a finished job's result is
    kept; for as long again is known that there was one. `timeout_secs`: a call that takes longer raises
    `StoreUnavailable`; large bodies have this long for each piece."""

    inline_bytes: int = 65536
    max_stored_bytes: int = 10 * 2**30
    retention_secs: float = 86400.0
    timeout_secs: float = 5.0


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """`key`: as the client named it, with whatever keeps clients apart; `fingerprint`: a hash of all that
    must be equal for two requests to count as the same."""

    key: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Submission:
    """A request to be stored. `fields` keep their bytes, order and repetitions; neither names nor values have
    line breaks. `wait_limit_secs`: how long it may be queued; None: for ever."""

    method: bytes
    target: bytes
    fields: Sequence[Field] = ()
    body: Content = field(default_factory=Bytes)
    trailers: Sequence[Field] = ()
    request_id: str = ""
    client: str = ""
    policy: Policy = Policy.ONCE
    idempotency: IdempotencyKey | None = None
    webhook_url: str | None = None
    wait_limit_secs: float | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of a job, bodies and header fields aside. Times are Unix seconds by the store's clock.

    `sends`: how often it was (or may have been) sent to a node. `outcome`: `answered`, or that of the error
    that ended it, None before. `owner`: the id of the replica in whose line it stands or stood last.
    `is_purged`: its result has been kept long enough and is gone; only this record is left, for a while."""

    id: str
    position: int
    state: State
    policy: Policy
    method: bytes
    target: bytes
    request_id: str
    client: str
    idempotency_key: str | None
    has_webhook: bool
    created_at: float
    sent_at: float | None
    finished_at: float | None
    wait_ends_at: float | None
    sends: int
    node: str | None
    outcome: Literal["answered", "not_sent", "unknown"] | None
    error: str | None
    owner: str | None
    request_bytes: int
    result_status: int | None
    result_bytes: int | None
    is_purged: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """`is_new` False: this key and this request had been accepted before; `job` is that job as it now is."""

    job: Job
    is_new: bool
    lease: JobLease | None  # of a new job that was given to a replica


@dataclass(frozen=True, slots=True)
class JobLease:
    """One replica's right to a job. `number` counts changes of hands: an older one is lost."""

    job_id: str
    owner: str
    number: int


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A body in store: `data` where it is inline, else found by `key`. `Store.read` reads both."""

    size: int
    data: bytes | None
    key: str | None


@dataclass(frozen=True, slots=True)
class StoredRequest:
    method: bytes
    target: bytes
    fields: tuple[Field, ...]
    body: StoredBody
    trailers: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A node's response as it was, or the answer of ours that ended the job."""

    status: int
    fields: tuple[Field, ...]
    body: StoredBody
    trailers: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A job in the caller's hands. The request may be dropped while the job waits, and loaded again
    (`load`)."""

    lease: JobLease
    job: Job
    request: StoredRequest


@dataclass(frozen=True, slots=True)
class Result:
    """A response to be stored with its job."""

    status: int
    fields: Sequence[Field] = ()
    body: Content = field(default_factory=Bytes)
    trailers: Sequence[Field] = ()


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ends. `state` is final. `outcome` `answered`: `result` is the node's own response."""

    state: State
    outcome: Literal["answered"] | Outcome
    result: Result | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Replica:
    """A process that shares the store. `id` is new at each start; a later one of the same `name` takes the
    place of the earlier, which is then known to be dead at once: host and port, or a pod's name."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Standing:
    """Who takes part, by the last reports: ids within `LEADER_SECS`, smallest first, which is the leader."""

    is_leader: bool
    replicas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Search:
    """All given must hold. Newest first; `before`: only positions below it, to page on."""

    states: frozenset[State] = frozenset()
    created_from: float | None = None
    created_until: float | None = None
    id: str | None = None
    idempotency_key: str | None = None
    before: int | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Counts:
    """Of jobs that are not purged. `stored_bytes`: request and result bodies."""

    by_state: dict[State, int]
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """One small step of cleaning up. `expired`: jobs whose time in the line was up just now. `has_more`:
    something that is due was left for the next step."""

    expired: tuple[Job, ...]
    purged: int
    deleted: int
    has_more: bool


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook to be called now. `attempts`: calls so far, this one included."""

    job: Job
    url: str
    attempts: int
