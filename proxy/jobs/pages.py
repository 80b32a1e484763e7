"""The jobs' own pages on the users' port, under `jobs_path`: state, result, events, cancelling.

    GET PATH{id}          the state as JSON
    GET PATH{id}/result   the node's answer as it was; 404 before there is one, 410 once it has been kept long enough
    GET PATH{id}/events   the state and the place as they change (SSE)
    DELETE PATH{id}       takes a waiting job back; 409 for one that runs or has ended

Whoever knows an id may do all of it: ids cannot be guessed.
"""

from __future__ import annotations

import json
from time import monotonic

from proxy.errors import (
    BodyGone,
    JobMethodRefused,
    JobNotCancelled,
    JobUnknown,
    RequestError,
    StoreUnavailable,
)
from proxy.forwarder import Forwarder
from proxy.http.message import Field, Request, fields_named
from proxy.jobs.documents import document, why_no_result
from proxy.jobs.job import Job, State, StoredResult
from proxy.jobs.ranges import range_holds, wanted_range
from proxy.jobs.runner import Runner
from proxy.jobs.store import Store
from proxy.jobs.visit import Visit

_PIECE = 262144
_NO_BODY = (204, 304)
_LOOK_SECS = 1.0  # how often a place is looked at, and a job that runs elsewhere
_COMMENT_SECS = 15.0  # so that nothing on the way takes a quiet stream for a dead one
_JSON = (b"Content-Type", b"application/json")


class Pages:
    """`path` begins and ends with a slash."""

    def __init__(self, path: bytes, store: Store, runner: Runner, forwarder: Forwarder) -> None:
        self.path = path
        self._store = store
        self._runner = runner
        self._forwarder = forwarder

    def owns(self, target: bytes) -> bool:
        return _origin_form(target).startswith(self.path)

    async def show(self, visit: Visit) -> None:
        """Answer whatever is asked for under `path`."""
        request = visit.request
        rest = _origin_form(request.target)[len(self.path) :].partition(b"?")[0]
        job_id, _, page = rest.decode("latin-1").partition("/")
        is_reading = request.method in (b"GET", b"HEAD")
        if page not in ("", "result", "events") or rest.endswith(b"/"):
            raise JobUnknown("there is no such page")
        if not is_reading and (page or request.method != b"DELETE"):
            raise JobMethodRefused(f"{request.method.decode('latin-1')} is not known here")
        if not is_reading:
            await self._cancel(visit, job_id)
        elif page == "result":
            await self._show_result(visit, job_id)
        elif page == "events":
            await self._follow(visit, job_id)
        else:
            job = await self._job(job_id)
            self.answer_state(visit, 200, job)

    def answer_state(self, visit: Visit, status: int, job: Job, fields: tuple[Field, ...] = ()) -> None:
        """The state document, with when to ask again while it is not over."""
        shown = self.shown(job)
        extra = [_JSON, *fields]
        if not job.state.is_final:
            extra.append((b"Retry-After", b"%d" % self.retry_after(job)))
        visit.answer(status, extra, json.dumps(shown).encode() + b"\n")

    def shown(self, job: Job) -> dict[str, object]:
        place = self._runner.place(job.id) if job.state is State.QUEUED else None
        estimate = None if place is None else self._estimate(place)
        return document(job, self.path.decode("latin-1"), place, estimate)

    def retry_after(self, job: Job) -> int:
        place = self._runner.place(job.id)
        return self._estimate(place or 1)

    def _estimate(self, place: int) -> int:
        dispatcher = self._forwarder.dispatcher
        return dispatcher.estimate_behind(place - 1 + dispatcher.running)

    async def _job(self, job_id: str) -> Job:
        job = await self._store.get(job_id)
        if job is None:
            raise JobUnknown("there is no such job, or not any more")
        return job

    async def _cancel(self, visit: Visit, job_id: str) -> None:
        job = await self._runner.cancel(job_id)
        if job is None:
            raise JobUnknown("there is no such job, or not any more")
        if job.state is not State.CANCELLED:
            raise JobNotCancelled(f"the job is {job.state.value}: only a waiting one is cancelled")
        self.answer_state(visit, 200, job)

    # --- the result

    async def _show_result(self, visit: Visit, job_id: str) -> None:
        job = await self._job(job_id)
        result = await self._store.result(job_id)
        if result is not None:
            await self.send_result(visit, job, result)
        elif job.is_purged:
            raise BodyGone("the result has been kept long enough (job_retention_secs)")
        elif job.state.is_final:
            raise JobUnknown(why_no_result(job))
        else:
            raise JobUnknown(why_no_result(job), retry_after_secs=self.retry_after(job))

    async def send_result(self, visit: Visit, job: Job, result: StoredResult, *, whole: bool = False) -> None:
        """The stored answer; a part of it where `Range` asks for one, unless `whole`."""
        kept = [
            (name, value)
            for name, value in result.fields
            if name.lower() not in (b"content-length", b"x-request-id")
        ]
        if job.request_id:
            kept.append((b"X-Request-Id", job.request_id.encode("latin-1", "replace")))
        size, status, start, end = result.body.size, result.status, 0, result.body.size
        if status in _NO_BODY:
            visit.send_head(status, kept)
            visit.end()
            return
        if status == 200 and not whole:
            try:
                part = _part(visit.request, result)
            except ValueError:
                fields = [(b"Content-Range", b"bytes */%d" % size), (b"Content-Type", b"text/plain")]
                visit.answer(416, fields, b"the range lies outside of the result\n")
                return
            kept.append((b"Accept-Ranges", b"bytes"))
            if part is not None:
                (start, end), status = part, 206
                kept.append((b"Content-Range", b"bytes %d-%d/%d" % (start, end - 1, size)))
        await self._send_part(visit, status, kept, result, start, end)

    async def _send_part(
        self, visit: Visit, status: int, fields: list[Field], result: StoredResult, start: int, end: int
    ) -> None:
        has_trailers = bool(result.trailers) and status != 206 and not visit.request.is_http10
        first = await self._store.read(result.body, start, min(_PIECE, end - start))
        if has_trailers:
            visit.send_endless_head(status, fields)
        else:
            visit.send_head(status, [*fields, (b"Content-Length", b"%d" % (end - start))])
        piece, at = first, start
        while piece and not visit.is_gone and not visit.request.is_head:
            await visit.send(piece)
            at += len(piece)
            try:
                piece = await self._store.read(result.body, at, min(_PIECE, end - at))
            except RequestError:  # the head has been sent
                visit.break_off()
                return
        visit.end(result.trailers if has_trailers else ())

    # --- events

    async def _follow(self, visit: Visit, job_id: str) -> None:
        job = await self._job(job_id)
        visit.send_endless_head(
            200, [(b"Content-Type", b"text/event-stream"), (b"Cache-Control", b"no-store")]
        )
        if visit.request.is_head:
            visit.end()
            return
        told: tuple[State, int | None] | None = None
        spoke_at = monotonic()
        while not visit.is_gone:
            shown = self.shown(job)
            news = job.state, self._runner.place(job_id)
            if news != told:
                told, spoke_at = news, monotonic()
                await visit.send(b"event: state\ndata: %b\n\n" % json.dumps(shown).encode())
            elif monotonic() - spoke_at >= _COMMENT_SECS:
                spoke_at = monotonic()
                await visit.send(b": still here\n\n")
            if job.state.is_final or self._forwarder.is_stopping:
                break
            await self._runner.news.wait(job_id, _LOOK_SECS)
            job = await self._look_again(job)
        visit.end()

    async def _look_again(self, job: Job) -> Job:
        """As it is now; as it was where the store cannot tell, or has forgotten it."""
        try:
            return await self._store.get(job.id) or job
        except StoreUnavailable:
            return job


def _origin_form(target: bytes) -> bytes:
    """An absolute target without scheme and host (RFC 9112, 3.2.2)."""
    if target.startswith(b"/"):
        return target
    _, mark, rest = target.partition(b"://")
    return b"/" + rest.partition(b"/")[2] if mark else target


def _part(request: Request, result: StoredResult) -> tuple[int, int] | None:
    if request.method != b"GET":
        return None
    asked = request.stored_fields()
    etag, modified = fields_named(result.fields, b"etag"), fields_named(result.fields, b"last-modified")
    condition = fields_named(asked, b"if-range")
    if not range_holds(
        condition[0] if condition else None, etag[0] if etag else None, modified[0] if modified else None
    ):
        return None
    ranges = fields_named(asked, b"range")
    return wanted_range(ranges[0], result.body.size) if len(ranges) == 1 else None
