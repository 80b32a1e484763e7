"""Where a whole request becomes a job: stored, put into the line, and answered with a receipt.

`Prefer: respond-async` is answered 202 at once; with `wait=N`, or `hold_secs`, the client gets the job's own answer
where it comes within that time. Either way the job is stored before it joins, so its place is safe from then on,
and the client may leave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from proxy.config import Config
from proxy.errors import RequestError, ShuttingDown, StoreUnavailable
from proxy.forwarder import Forwarder
from proxy.http.message import Request
from proxy.jobs.job import Accepted, Bytes, Content, IdempotencyKey, Job, Policy, Submission
from proxy.jobs.pages import Pages
from proxy.jobs.preference import Wish, identity
from proxy.jobs.runner import Runner
from proxy.jobs.store import Store
from proxy.jobs.visit import Visit, Work

_LOOK_SECS = 1.0  # how often a job is looked at that may end elsewhere
_RETRY_SECS = 5
_HASHED_AT_ONCE = 1 << 20  # bytes: about a millisecond
_PREFERRED = (b"Preference-Applied", b"respond-async")


class Intake:
    """`allows`: raises JobRefused for a webhook that must not be called."""

    def __init__(
        self,
        config: Callable[[], Config],
        store: Store,
        runner: Runner,
        pages: Pages,
        forwarder: Forwarder,
        allows: Callable[[str], None],
    ) -> None:
        self._config = config
        self._store = store
        self._runner = runner
        self._pages = pages
        self._forwarder = forwarder
        self._allows = allows

    def refuse(self, error: RequestError) -> Work:
        """The work that answers this."""

        async def work(visit: Visit) -> None:
            self._count(error, visit)
            raise error

        return work

    async def take(self, wish: Wish, visit: Visit) -> None:
        """Answer this request with a receipt, or with its answer where that comes in time."""
        arrived_at = monotonic()
        try:
            accepted = await self._store_it(visit, wish)
        except RequestError as error:
            if isinstance(error, StoreUnavailable) and error.retry_after_secs is None:
                error.retry_after_secs = _RETRY_SECS
            self._count(error, visit)
            raise
        wait = self._config().hold_secs if wish.wait_secs is None else wish.wait_secs
        job = await self._wait(visit, accepted.job, arrived_at + wait)
        result = await self._store.result(job.id) if job.state.is_final else None
        if result is not None:
            await self._pages.send_result(visit, job, result, whole=True)
        else:
            where = self._pages.path + job.id.encode()
            self._pages.answer_state(visit, 202, job, ((b"Location", where), _PREFERRED))

    def _count(self, error: RequestError, visit: Visit) -> None:
        request = visit.request
        self._forwarder.refused(error, request, request.request_id, visit.client_address)

    async def _store_it(self, visit: Visit, wish: Wish) -> Accepted:
        if self._forwarder.is_stopping:
            raise ShuttingDown("the proxy is stopping", retry_after_secs=_RETRY_SECS)
        if wish.webhook_url is not None:
            self._allows(wish.webhook_url)
        config, request = self._config(), visit.request
        body: Content = request.body if request.body is not None else Bytes()
        submission = Submission(
            request.method,
            request.target,
            wish.fields,
            body,
            request.trailers or (),
            request_id=request.request_id.decode("latin-1"),
            client=visit.client_address,
            policy=wish.policy or Policy(config.job_policy),
            idempotency=None if wish.key is None else await _identity(wish.key, request, body),
            webhook_url=wish.webhook_url,
            wait_limit_secs=config.queue_timeout_secs or None,
        )
        return await self._runner.submit(submission, visit.take_body())

    async def _wait(self, visit: Visit, job: Job, until: float) -> Job:
        """The job as it is once it is over, the time is up, or nobody waits any more."""
        while not job.state.is_final and not visit.is_gone and not self._forwarder.is_stopping:
            left = until - monotonic()
            if left <= 0:
                break
            await self._runner.news.wait(job.id, min(left, _LOOK_SECS))
            try:
                job = await self._store.get(job.id) or job
            except StoreUnavailable:
                continue  # it was accepted: the receipt holds whatever the database does
        return job


async def _identity(key: bytes, request: Request, body: Content) -> IdempotencyKey:
    """A large body is read and hashed beside the event loop."""
    if body.size <= _HASHED_AT_ONCE:
        return identity(key, request, body)
    return await asyncio.to_thread(identity, key, request, body)
