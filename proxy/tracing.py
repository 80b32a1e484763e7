"""OpenTelemetry traces: for each request a server span with the children `wait` and `run`, made at its end.

Always: off, nothing here is even imported. The head for the node carries a `traceparent` whose parent is the `run` span
to come, so that the node's own spans hang under it; a `traceparent` that came in is the parent of ours, and one that
says that it is not sampled is passed on so, and nothing is recorded. Spans are made and exported by threads, from
records; where these cannot keep up, they are dropped and counted. No query, header or body gets into a span.

The exporter, the sampler and the resource are those of the standard `OTEL_*` variables. Nothing global is set.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Thread

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

import proxy
from proxy.clock import Clock
from proxy.records import Record

log = logging.getLogger(__name__)

_MAX_WAITING = 20_000  # records that no span has been made of yet
_LAST_WORDS_SECS = 3.0
_PARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_PARENT_FIELD = re.compile(rb"\r\n[Tt][Rr][Aa][Cc][Ee][Pp][Aa][Rr][Ee][Nn][Tt]:[ \t]*([^\r\n]*)")
_STATE_FIELD = re.compile(rb"\r\n[Tt][Rr][Aa][Cc][Ee][Ss][Tt][Aa][Tt][Ee]:[ \t]*([^\r\n]*)")


class Trace:
    """One request's place in a trace. `run_id`: of the span of the run to come, anew for each sending."""

    __slots__ = ("is_sampled", "parent_id", "run_id", "span_id", "state", "trace_id")

    def __init__(self, trace_id: int, parent_id: int, state: str, span_id: int) -> None:
        self.trace_id = trace_id
        self.parent_id = parent_id  # 0: it begins here
        self.state = state
        self.span_id = span_id
        self.run_id = 0
        self.is_sampled = True


class Tracing:
    """`begin` and `head` are called on the hot path, `write` is a sink of records."""

    def __init__(self, clock: Clock) -> None:
        self.dropped = 0
        self._clock = clock
        self._ids = _GivenIds()
        self._provider = TracerProvider(id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("fifo-proxy", proxy.__version__)
        self._thread = ThreadPoolExecutor(1, "tracing")
        self._waiting = 0

    def begin(self, head: bytes, method: bytes) -> Trace:
        """Of a request with this head: the trace that it belongs to, or a new one (W3C Trace Context, 4.3)."""
        trace_id = parent_id = 0
        flags, state = TraceFlags.DEFAULT, ""
        given = _PARENT_FIELD.findall(head)
        if len(given) == 1 and (parts := _PARENT.fullmatch(given[0].strip())):
            trace_id, parent_id, flags = (int(part, 16) for part in parts.groups())
        if trace_id and parent_id:
            state = ",".join(value.decode("latin-1").strip() for value in _STATE_FIELD.findall(head))
        else:
            trace_id, parent_id = self._ids.random.generate_trace_id(), 0
        trace = Trace(trace_id, parent_id, state, self._ids.random.generate_span_id())
        parent = None
        if parent_id:
            context = SpanContext(
                trace_id, parent_id, is_remote=True, trace_flags=TraceFlags(flags & TraceFlags.SAMPLED)
            )
            parent = set_span_in_context(NonRecordingSpan(context))
        decided = self._provider.sampler.should_sample(
            parent, trace_id, method.decode("latin-1"), SpanKind.SERVER
        )
        trace.is_sampled = decided.decision is Decision.RECORD_AND_SAMPLE
        return trace

    def head(self, trace: Trace, head: bytes) -> bytes:
        """The head with our own `traceparent` in place of what came; a `tracestate` that belongs to it stays."""
        trace.run_id = self._ids.random.generate_span_id()
        own = b"\r\ntraceparent: 00-%032x-%016x-%02x" % (trace.trace_id, trace.run_id, trace.is_sampled)
        head = _PARENT_FIELD.sub(b"", head)
        if not trace.parent_id:
            head = _STATE_FIELD.sub(b"", head)
        line, rest = head.split(b"\r\n", 1)
        return line + own + b"\r\n" + rest

    def write(self, records: Sequence[Record]) -> None:
        """Make spans of those that are sampled."""
        sampled = [
            record for record in records if isinstance(record.trace, Trace) and record.trace.is_sampled
        ]
        if self._waiting + len(sampled) > _MAX_WAITING:
            self.dropped += len(sampled)
            return
        if sampled:
            self._waiting += len(sampled)
            work = asyncio.get_running_loop().run_in_executor(self._thread, self._make_spans, sampled)
            work.add_done_callback(lambda done: self._made(done, len(sampled)))

    async def stop(self) -> None:
        """Export what is left, for three seconds at most."""
        self._thread.shutdown(wait=False)
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def end() -> None:
            self._thread.shutdown()
            self._provider.shutdown()
            with suppress(RuntimeError):  # the loop has been closed: nobody waits any more
                loop.call_soon_threadsafe(done.set)

        Thread(target=end, name="tracing-end", daemon=True).start()
        try:
            async with asyncio.timeout(_LAST_WORDS_SECS):
                await done.wait()
        except TimeoutError:
            log.warning("traces: the collector did not take the last spans within %g s", _LAST_WORDS_SECS)

    def _made(self, done: asyncio.Future[None], count: int) -> None:
        self._waiting -= count
        if not done.cancelled() and (error := done.exception()) is not None:
            raise error

    # --- the thread's side

    def _make_spans(self, records: Sequence[Record]) -> None:
        for record in records:
            assert isinstance(record.trace, Trace)
            self._make_span(record, record.trace)

    def _make_span(self, record: Record, trace: Trace) -> None:
        parent = None
        if trace.parent_id:
            state = TraceState.from_header([trace.state]) if trace.state else None
            flags = TraceFlags(TraceFlags.SAMPLED)
            context = SpanContext(trace.trace_id, trace.parent_id, True, flags, state)
            parent = set_span_in_context(NonRecordingSpan(context))
        begin, end = self._nanoseconds(record.joined_at), self._nanoseconds(record.ended_at)
        method = record.method.decode("latin-1") or "HTTP"
        self._ids.give(trace.trace_id, trace.span_id)
        server = self._tracer.start_span(method, parent, SpanKind.SERVER, _facts(record), start_time=begin)
        if record.status >= 500 or record.outcome == "unknown":
            server.set_status(StatusCode.ERROR)
        within = set_span_in_context(server)
        waited = self._nanoseconds(record.joined_at + record.wait_secs)
        if record.ticket:
            wait = self._tracer.start_span("wait", within, start_time=begin)
            wait.end(min(waited, end))
        if record.run_secs is not None:
            self._ids.give(trace.trace_id, trace.run_id)
            facts = {"fifo_proxy.node": record.node or ""}
            sent = self._nanoseconds(record.ended_at - record.run_secs)
            run = self._tracer.start_span("run", within, SpanKind.CLIENT, facts, start_time=sent)
            if record.outcome == "unknown":
                run.set_status(StatusCode.ERROR)
            run.end(end)
        server.end(end)

    def _nanoseconds(self, at: float) -> int:
        return int(self._clock.unix(at) * 1e9)


class _GivenIds(IdGenerator):
    """The SDK asks for the ids of a span that it makes: they are those that the node was told long before. Used by one
    thread; what was not given is random."""

    def __init__(self) -> None:
        self.random = RandomIdGenerator()
        self._trace_id = self._span_id = 0

    def give(self, trace_id: int, span_id: int) -> None:
        self._trace_id, self._span_id = trace_id, span_id

    def generate_trace_id(self) -> int:
        return self._trace_id

    def generate_span_id(self) -> int:
        given, self._span_id = self._span_id, 0
        return given or self.random.generate_span_id()


def _facts(record: Record) -> dict[str, str | int]:
    """Attributes by the semantic conventions of HTTP server spans, and our own."""
    facts: dict[str, str | int] = {
        "http.request.method": record.method.decode("latin-1") or "_OTHER",
        "url.path": record.path,
        "client.address": record.client,
        "http.request.body.size": record.bytes_in,
        "http.response.body.size": record.bytes_out,
        "fifo_proxy.request_id": record.request_id.decode("latin-1"),
        "fifo_proxy.outcome": record.outcome,
        "fifo_proxy.ticket": record.ticket,
        "fifo_proxy.resends": record.resends,
    }
    if record.status:
        facts["http.response.status_code"] = record.status
    if record.status >= 500:
        facts["error.type"] = str(record.status)
    if record.job is not None:
        facts["fifo_proxy.job"] = record.job
    return facts
