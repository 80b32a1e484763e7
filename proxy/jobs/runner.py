"""The jobs of this replica: into the line, through their runs, into the store with what came of them.

Always: a job of ours that is not over is in `runs`; what is told of it was stored before. A store that fails delays
what is to be written (a result until it is written, a run by standing aside), and never stops the line.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic

from proxy.dispatch.line import Line
from proxy.errors import LeaseLost, LineFull, RequestError, ShuttingDown, StoreFull, StoreUnavailable
from proxy.forwarder import Forwarder
from proxy.holder import Phase
from proxy.http.message import Field, Request, from_stored
from proxy.http.response import Response, problem_body
from proxy.http.spool import Spool, SpoolBudget
from proxy.jobs import endings
from proxy.jobs.heartbeat import Heartbeat
from proxy.jobs.job import Accepted, Bytes, Ending, Job, JobLease, Replica, Result, State, Submission
from proxy.jobs.news import News
from proxy.jobs.rows import unpack
from proxy.jobs.run import JobRun
from proxy.jobs.store import Store
from proxy.tasks import Tasks

log = logging.getLogger(__name__)

_PIECE = 262144
_FIRST_RETRY_SECS, _LONGEST_RETRY_SECS = 0.1, 5.0
_CLAIM_STEP = 100
_KEPT_BYTES = 4096  # of a waiting job's body


class Runner:
    """The desk of the runs. `stop` is the end: what it holds has been let go of by then."""

    def __init__(
        self, store: Store, replica: Replica, forwarder: Forwarder, budget: SpoolBudget, heartbeat: Heartbeat
    ) -> None:
        self.runs: dict[str, JobRun] = {}
        self.accepted = self.ended = 0
        self._store = store
        self._replica = replica
        self._forwarder = forwarder
        self._budget = budget
        self._heartbeat = heartbeat
        self._parked: list[JobRun] = []
        self._coming = 0  # being stored, about to join
        self.news = News()
        self._tasks = Tasks()

    # --- into the line

    async def submit(self, submission: Submission, body: Spool | None) -> Accepted:
        """Store it and let it join. `body`, that of the submission, is the runner's from now on. Raises RequestError:
        LineFull, StoreUnavailable, IdempotencyConflict."""
        is_taken = False
        try:
            await self._heartbeat.ready()
            self._forwarder.dispatcher.check_room(monotonic(), self._coming)
            self._coming += 1
            try:
                accepted = await self._store.submit(submission, self._replica.id)
            except StoreUnavailable as error:
                if not isinstance(error, StoreFull):
                    self._heartbeat.failed(error)
                raise
            finally:
                self._coming -= 1
            if accepted.lease is not None:
                is_taken = True
                self.accepted += 1
                stored = from_stored(
                    submission.method,
                    submission.target,
                    submission.fields,
                    submission.trailers,
                    submission.body.size,
                )
                stored.request_id, stored.body = submission.request_id.encode("latin-1"), body
                self._join(accepted.job, accepted.lease, stored)
        finally:
            if not is_taken and body is not None:
                body.close()
        return accepted

    async def claim(self) -> None:
        """Take what nobody owns, as far as there is room, oldest first; before that, what stood aside comes back."""
        dispatcher = self._forwarder.dispatcher
        parked, self._parked = self._parked, []
        for run in sorted(parked, key=lambda run: run.number):
            if run.phase is Phase.WAITING and not self._forwarder.is_stopping:
                dispatcher.readmit(run, monotonic())
        while not self._forwarder.is_stopping:
            room = min(_CLAIM_STEP, dispatcher.capacity - len(dispatcher.line) - self._coming)
            if room <= 0:
                return
            claims = await self._store.claim(self._replica.id, room)
            for claim in claims:
                request = claim.request
                stored = from_stored(
                    request.method, request.target, request.fields, request.trailers, request.body.size
                )
                stored.request_id = claim.job.request_id.encode("latin-1", "replace")
                self._join(claim.job, claim.lease, stored)
            if len(claims) < room:
                return

    def _join(self, job: Job, lease: JobLease, request: Request) -> None:
        run = JobRun(self._forwarder, self, self._budget, job, lease, request)
        self.runs[job.id] = run
        if self._forwarder.is_stopping:
            self._let_go(run)
            return
        try:
            self._forwarder.dispatcher.join(run, monotonic())
        except LineFull:  # filled up while this one was being stored: whoever has room claims it
            self._let_go(run)
            return
        body = request.body
        if run.is_waiting and body is not None and body.size > _KEPT_BYTES:
            body.close()  # it is in the store, and `load` fetches it again in time
            request.body = None

    def _let_go(self, run: JobRun) -> None:
        self._end(run)
        if run.request.body is not None:
            run.request.body.close()
        self._tasks.spawn(self._release(run), "release a job")

    # --- what a run tells: `RunDesk`

    @property
    def is_down(self) -> bool:
        return not self._heartbeat.is_up

    async def load(self, run: JobRun) -> bool:
        request = run.request
        if request.body is not None or not request.length:
            return True
        body = Spool(self._budget)
        try:
            stored = await self._store.load(run.lease.job_id)
            while stored is not None and body.size < stored.body.size:
                body.append(await self._store.read(stored.body, body.size, _PIECE))
        except StoreUnavailable as error:
            body.close()
            self._heartbeat.failed(error)
            return False
        except RequestError as error:  # no room for it, or it is not there
            body.close()
            run.fail(error, error.detail)
            return False
        if stored is None or run.phase is Phase.OVER:
            body.close()
            return False
        request.body = body
        return True

    async def mark_sent(self, run: JobRun, node: str) -> bool:
        try:
            if run.requeuing is not None:
                await run.requeuing
            if run.owed is not None:
                await self._store.requeue(run.lease, reached_node=run.owed)
                run.owed = None
            await self._store.mark_sent(run.lease, node)
        except LeaseLost:
            return False
        except StoreUnavailable as error:
            self._heartbeat.failed(error)
            return False
        run.is_marked = True
        run.sends += 1
        return True

    def requeue(self, run: JobRun, *, reached_node: bool) -> None:
        run.is_marked = False
        run.sends -= 0 if reached_node else 1
        run.owed = reached_node
        run.requeuing = self._tasks.spawn(self._requeue(run, reached_node), "requeue a job")

    async def _requeue(self, run: JobRun, reached_node: bool) -> None:
        try:
            await self._store.requeue(run.lease, reached_node=reached_node)
            run.owed = None
        except LeaseLost:
            run.owed = None  # `mark_sent` will find out
        except StoreUnavailable as error:
            self._heartbeat.failed(error)

    def park(self, run: JobRun) -> None:
        self._parked.append(run)

    def answered(self, run: JobRun, response: Response, body: Spool, trailers: list[Field]) -> None:
        state = endings.after_answer(response.status)
        error = None if state is State.SUCCEEDED else f"the node answered {response.status}"
        result = Result(response.status, unpack(response.fields), body, trailers)
        self._finish(run, Ending(state, "answered", result, error), body)

    def failed(self, run: JobRun, error: RequestError, waited_secs: float) -> None:
        state = endings.after_error(error, run.policy, run.sends)
        if state is State.QUEUED:
            self._end(run)
            self._tasks.spawn(self._release(run), "release a job")
            return
        body = problem_body(error, run.request.request_id, waited_secs)
        fields = [
            (b"Content-Type", b"application/problem+json"),
            (b"Proxy-Status", f'fifo-proxy; error={error.proxy_status}; outcome="{error.outcome}"'.encode()),
        ]
        result = Result(error.status, fields, Bytes(body))
        self._finish(run, Ending(state, error.outcome, result, error.detail), None)

    def dropped(self, run: JobRun) -> None:
        self._end(run)

    # --- into the store

    def _finish(self, run: JobRun, ending: Ending, body: Spool | None) -> None:
        self._tasks.spawn(self._write_end(run, ending, body), "store the end of a job")

    async def _write_end(self, run: JobRun, ending: Ending, body: Spool | None) -> None:
        delay = _FIRST_RETRY_SECS
        try:
            while True:
                try:
                    await self._store.finish(run.lease, ending)
                    self.ended += 1
                    break
                except LeaseLost:
                    log.warning("the end of job %s came too late: it is another's by now", run.lease.job_id)
                    break
                except StoreUnavailable as error:
                    self._heartbeat.failed(error)
                    await asyncio.sleep(delay)
                    delay = min(2 * delay, _LONGEST_RETRY_SECS)
        finally:
            if body is not None:
                body.close()
            self._end(run)

    async def _release(self, run: JobRun) -> None:
        """Back to its place, for whoever claims it; what is not written now is recovered at the next start."""
        try:
            if run.requeuing is not None:
                await run.requeuing
            reached_node = run.is_marked if run.owed is None else run.owed
            await self._store.requeue(run.lease, reached_node=reached_node)
            await self._store.release([run.lease])
        except LeaseLost:
            pass  # then somebody else has it already
        except StoreUnavailable as error:
            self._heartbeat.failed(error)

    def _end(self, run: JobRun) -> None:
        self.runs.pop(run.lease.job_id, None)
        self.news.tell(run.lease.job_id)

    # --- for those who ask

    async def cancel(self, job_id: str) -> Job | None:
        """Cancel it if it waits. The job as it is then; None: there is none. Raises StoreUnavailable."""
        job = await self._store.cancel(job_id)
        if job is not None and job.state.is_final:
            self.forget(job_id)
        return job

    def forget(self, job_id: str) -> None:
        """It is over in the store: out of the line with it."""
        run = self.runs.get(job_id)
        if run is not None and run.phase is Phase.WAITING:
            run.client_left()
            self._end(run)

    def place(self, job_id: str) -> int | None:
        """Its place in this line, from 1, among held requests and jobs alike; None where it does not wait here."""
        run = self.runs.get(job_id)
        return None if run is None or not run.is_waiting else _place(self._forwarder.dispatcher.line, run)

    # --- the end

    def let_go(self) -> None:
        """We are stopping: what waits goes back to its place, for the next start or another replica."""
        for run in list(self.runs.values()):
            if run.phase is Phase.WAITING:
                run.fail(ShuttingDown("the proxy is stopping"), "stopping")
        self.news.tell_all()

    async def stop(self, limit_secs: float) -> None:
        """Write what is to be written, as far as the store lets us within `limit_secs`."""
        await self._tasks.drain(limit_secs)
        await self._tasks.stop()


def _place(line: Line, wanted: JobRun) -> int:
    return next(place for place, ticket in enumerate(line, 1) if ticket is wanted)
