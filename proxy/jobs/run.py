"""A job in the line: an exchange whose client is the store.

Its way is that of every exchange: waiting -> connecting -> running -> answering -> over. What differs: nobody listens,
so its answer is collected; its send is written down (`JobDesk.mark_sent`) when the connection stands and before a byte
leaves; a lost run is sent again as its policy says, at its old place. Always: its desk hears exactly one of `answered`,
`failed` and `dropped`, last.

It never uses a kept connection: that one may break for no reason of the job's, and under `once` a job has one try.
Compiled where exchanges are, since a compiled class has compiled subclasses only.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from proxy.dispatch.lease import Lease
from proxy.errors import RequestError, SpoolFull
from proxy.exchange import Exchange
from proxy.holder import Phase
from proxy.http.message import Field, Request
from proxy.http.response import Response
from proxy.http.spool import Spool, SpoolBudget
from proxy.jobs.job import Job, JobLease, State, after_lost_run

if TYPE_CHECKING:
    from proxy.forwarder import Forwarder


class RunDesk(Protocol):
    """Whoever keeps what happens to a job. `is_down`: nothing can be written down just now."""

    @property
    def is_down(self) -> bool: ...

    async def load(self, run: JobRun) -> bool:
        """Its request's body is there; False: the job is over, or (`is_down`) cannot be read."""

    async def mark_sent(self, run: JobRun, node: str) -> bool:
        """It may be sent now; False: it is no longer ours, or (`is_down`) cannot be written down."""

    def requeue(self, run: JobRun, *, reached_node: bool) -> None:
        """It waits again."""

    def park(self, run: JobRun) -> None:
        """It left the line until the store can be written to again."""

    def answered(self, run: JobRun, response: Response, body: Spool, trailers: list[Field]) -> None:
        """Its node has answered. The body is the desk's from now on."""

    def failed(self, run: JobRun, error: RequestError, waited_secs: float) -> None: ...

    def dropped(self, run: JobRun) -> None:
        """It is somebody else's, or was cancelled or expired."""


class JobRun(Exchange):
    """`sends`: how often it was (or may have been) sent. `requeuing`: is being written down as waiting again; `owed`:
    that is still to be done, the value says whether it reached a node."""

    __slots__ = (
        "_budget",
        "_collected",
        "_desk",
        "_fault",
        "is_marked",
        "lease",
        "owed",
        "policy",
        "requeuing",
        "sends",
    )

    def __init__(
        self,
        forwarder: Forwarder,
        desk: RunDesk,
        budget: SpoolBudget,
        job: Job,
        lease: JobLease,
        request: Request,
    ) -> None:
        super().__init__(forwarder, None, request, job.client)
        self._desk = desk
        self._budget = budget
        self._collected: Spool | None = None
        self._fault: SpoolFull | None = None
        self.job_id = job.id
        self.lease = lease
        self.policy = job.policy
        self.sends = job.sends
        self.is_marked = False  # written down as sent, and not taken back
        self.owed: bool | None = None
        self.requeuing: asyncio.Task[None] | None = None

    # --- its turn

    def start(self, lease: Lease) -> None:
        if self._desk.is_down:
            self._lease = lease
            self._step_aside()
            return
        self._take(lease)
        self.phase = Phase.CONNECTING
        self._task = asyncio.get_running_loop().create_task(self._prepare_and_send(lease))

    async def _prepare_and_send(self, lease: Lease) -> None:
        if not await self._desk.load(self):
            self._not_now()
            return
        link = await self._open(lease)
        if link is None:
            return
        if not await self._desk.mark_sent(self, lease.node.name):
            self._not_now()
        elif not link.is_idle:  # closed meanwhile: no byte has left
            self._not_sent(lease, "the node closed the new connection")
        else:
            self._task = None
            self._forwarder.stats.queue_wait.observe(lease.granted_at - self.joined_at)
            self._send(link, lease)

    def _not_now(self) -> None:
        self._task = None
        if self._desk.is_down:
            self._step_aside()
        else:
            self.client_left()
            self._desk.dropped(self)

    def _step_aside(self) -> None:
        """What stands behind it, held requests above all, must not wait for the database."""
        self.phase = Phase.WAITING
        self._desk.park(self)
        self._forwarder.dispatcher.release_unused(self._give_up_lease(), monotonic())

    # --- what the node says

    def node_interim(self, response: Response) -> None:
        pass  # nobody is there to hear it

    def node_head(self, response: Response) -> None:
        self._response = response
        self._collected = Spool(self._budget)
        self.phase = Phase.ANSWERING
        self.first_byte_at = monotonic()

    def node_body(self, data: bytes) -> None:
        self.bytes_out += len(data)
        if self._collected is None or self._fault is not None:
            return
        try:
            self._collected.append(data)
        except SpoolFull as error:
            self._fault = error

    def node_flush(self) -> None:
        if self._fault is not None:
            self.fail(self._fault, "its response found no room")

    def node_ended(self, trailers: list[Field]) -> None:
        response, body = self._response, self._collected
        assert response is not None
        assert body is not None
        self._free_node(response.status)
        if self._fault is not None:
            self.answer_error(self._fault)
            return
        self._collected = None
        self._count(response.status, "answered")
        self._over()
        self._desk.answered(self, response, body, trailers)

    def node_failed(self, error: RequestError, *, heard: bool) -> None:
        lease = self._lease
        assert lease is not None
        self._forwarder.drop_link(lease.node)
        self._forwarder.node_failing(lease.node, self.request, error.detail)
        self._end_badly(error, error.detail)

    # --- how it ends

    def _not_sent(self, lease: Lease, reason: str) -> None:
        if self.is_marked:
            self._desk.requeue(self, reached_node=False)
        super()._not_sent(lease, reason)

    def _end_badly(self, error: RequestError, reason: str, *, replace: bool = False) -> None:
        self._drop_collected()
        forwarder, now = self._forwarder, monotonic()
        may_return = self._fault is None and not forwarder.is_stopping
        if may_return and after_lost_run(self.policy, self.sends) is State.QUEUED:
            self._response = None
            self.bytes_out = 0
            self.phase = Phase.WAITING
            self._rejoins += 1
            forwarder.stats.resends["job_retry"] += 1
            forwarder.count_run(now - self.sent_at)
            self._desk.requeue(self, reached_node=True)
            forwarder.dispatcher.rejoin(self._give_up_lease(), now, reason, replace=replace)
            return
        lease = self._give_up_lease()
        forwarder.count_run(now - self.sent_at)
        forwarder.dispatcher.release_unready(lease, now, reason, replace=replace)
        self.answer_error(error)

    def answer_error(self, error: RequestError) -> None:
        if self._is_sent:
            error.outcome = "unknown"
        self._drop_collected()
        waited = self._waited(monotonic())
        self._count(error.status, error.outcome)
        self._over()
        self._desk.failed(self, error, waited)

    def _drop_collected(self) -> None:
        if self._collected is not None:
            self._collected.close()
            self._collected = None
