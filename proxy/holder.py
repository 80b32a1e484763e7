"""What an exchange holds - its client, its lease and its request's body - and every way in which it lets go of them.

What always holds: a lease is given back once, and before the client is told; the client hears one answer or a broken
connection, never a clean end of half an answer. `outcome` is `unknown` from the first byte sent on.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from time import monotonic
from typing import TYPE_CHECKING

from proxy.dispatch.lease import Lease
from proxy.dispatch.line import Ticket
from proxy.errors import RequestError, RunTimeout
from proxy.http.answer import Answer
from proxy.http.listener import ClientConnection
from proxy.http.message import Request
from proxy.http.node_link import NodeLink
from proxy.http.response import Response, problem_response
from proxy.records import Record

if TYPE_CHECKING:
    from proxy.forwarder import Forwarder
    from proxy.tracing import Trace


class Phase(Enum):
    WAITING = auto()
    CONNECTING = auto()
    RUNNING = auto()  # sent, no final head yet
    ANSWERING = auto()
    READING = auto()  # the node is done, the client is still taking its answer
    UPGRADED = auto()
    OVER = auto()


class Holder(Ticket):
    """The base of `Exchange`: it is a `Ticket`, so the line holds it without another object."""

    __slots__ = (
        "_answer",
        "_client",
        "_forwarder",
        "_is_sent",
        "_lease",
        "_link",
        "_rejoins",
        "_response",
        "_task",
        "bytes_out",
        "client_address",
        "first_byte_at",
        "job_id",
        "node_name",
        "phase",
        "request",
        "sent_at",
        "trace",
    )

    def __init__(
        self, forwarder: Forwarder, client: ClientConnection | None, request: Request, client_address: str
    ) -> None:
        super().__init__()
        self._forwarder = forwarder
        self._client = client
        self.request = request
        self.phase = Phase.WAITING
        self._lease: Lease | None = None
        self._link: NodeLink | None = None
        self._task: asyncio.Task[None] | None = None
        self._response: Response | None = None
        self._answer: Answer | None = None
        self._is_sent = False  # a byte of it has gone to some node
        self._rejoins = 0  # how often it went back to its place, to be sent again
        self.client_address = client_address
        self.job_id: str | None = None
        self.trace: Trace | None = None
        self.node_name: str | None = None  # the last node that it was given
        self.bytes_out = 0  # of the node's response's body
        self.sent_at = 0.0
        self.first_byte_at = 0.0

    def _give_up_lease(self) -> Lease:
        """The lease, to be returned by the caller right now."""
        lease = self._lease
        assert lease is not None
        self._lease = self._link = None
        self._forwarder.running.discard(self)
        return lease

    def fail(self, error: RequestError, reason: str, *, replace: bool = False) -> None:
        """End it now, wherever it is, with this answer: its time is up, or we are stopping."""
        if self.phase is Phase.WAITING:
            self._forwarder.dispatcher.leave(self)
            self.answer_error(error)
        elif self.phase is Phase.CONNECTING:
            self._stop_connecting()
            self._forwarder.dispatcher.release_unused(self._give_up_lease(), monotonic())
            self.answer_error(error)
        elif self.phase is Phase.UPGRADED and self._link is not None and self._link.tunnel is not None:
            self._link.tunnel.node_lost(is_clean=False)
        elif self._link is not None:
            self._link.abort()
            self._end_badly(error, reason, replace=replace)

    def time_out_run(self, now: float, limit: float) -> None:
        """Past `run_timeout_secs` its node may still be at work: it is replaced where that is possible."""
        if self.phase in (Phase.RUNNING, Phase.ANSWERING) and now - self.sent_at >= limit:
            error = RunTimeout(f"no whole response within {limit:g} s (run_timeout_secs)")
            self.fail(error, "its run timed out", replace=self._forwarder.can_replace)

    def answer_error(self, error: RequestError) -> None:
        """Answer with an error of ours; nothing of a response has been sent."""
        client = self._client
        if client is None:
            self._record(0, "client_left")
            self._over()
            return
        if self._is_sent:
            error.outcome = "unknown"
        forwarder, request = self._forwarder, self.request
        self._count(error.status, error.outcome)
        keeps_alive = request.keeps_alive and not error.closes and not forwarder.is_stopping
        waited = self._waited(monotonic())
        client.send(
            problem_response(
                error, request.request_id, waited, keeps_alive=keeps_alive, is_head=request.is_head
            )
        )
        self.phase = Phase.READING
        self._drop_body()
        client.finish(keeps_alive=keeps_alive)

    def _end_badly(self, error: RequestError, reason: str, *, replace: bool = False) -> None:
        """The run broke: the node must pass its probe before it is used again; then the client is told."""
        lease = self._give_up_lease()
        now = monotonic()
        self._forwarder.count_run(now - self.sent_at)
        self._forwarder.dispatcher.release_unready(lease, now, reason, replace=replace)
        answer = self._answer
        if self._response is None or answer is None:
            self.answer_error(error)
            return
        self._count(self._response.status, "unknown")
        self._over()
        answer.break_off()

    def _abort_run(self, reason: str) -> None:
        link = self._link
        assert link is not None
        link.abort()
        lease = self._give_up_lease()
        now = monotonic()
        self._forwarder.count_run(now - self.sent_at)
        self._record(self._response.status if self._response is not None else 0, "client_left")
        self._over()
        self._forwarder.dispatcher.release_unready(lease, now, reason)

    def _count(self, status: int, outcome: str) -> None:
        """It has ended so, for the metrics and the records alike."""
        self._forwarder.stats.requests[status, outcome] += 1
        self._record(status, outcome)

    def _record(self, status: int, outcome: str) -> None:
        """Before its body is dropped and its phase says that it is over."""
        recorder = self._forwarder.recorder
        if recorder is None:
            return
        now, request = monotonic(), self.request
        size = request.length
        if size is None:
            size = request.body.size if request.body is not None else 0
        recorder.add(
            Record(
                joined_at=self.joined_at or now,
                ended_at=now,
                request_id=request.request_id,
                method=request.method,
                target=request.target,
                client=self.client_address,
                status=status,
                outcome=outcome,
                ticket=self.number,
                wait_secs=self._waited(now),
                run_secs=now - self.sent_at if self._has_run else None,
                node=self.node_name,
                bytes_in=size,
                bytes_out=self.bytes_out,
                resends=self._rejoins,
                job=self.job_id,
                trace=self._traced(),
            )
        )

    def _traced(self) -> Trace | None:
        """Its place in a trace; one that never was sent finds it at its end."""
        tracing = self._forwarder.tracing
        if tracing is not None and self.trace is None:
            self.trace = tracing.begin(self.request.head_for(None), self.request.method)
        return self.trace

    @property
    def _has_run(self) -> bool:
        """Whether it is at a node, or was until it ended."""
        phase = self.phase
        return phase is Phase.RUNNING or phase is Phase.ANSWERING or phase is Phase.UPGRADED

    def _waited(self, now: float) -> float:
        """In the line, over all attempts, until it was last sent; 0 for one that never joined."""
        if not self.number:
            return 0.0
        return max(0.0, (self.sent_at if self._has_run else now) - self.joined_at)

    def _stop_connecting(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _over(self) -> None:
        self.phase = Phase.OVER
        self._client = self._answer = None
        self._drop_body()

    def _drop_body(self) -> None:
        if self.request.body is not None:
            self.request.body.close()
            self.request.body = None
