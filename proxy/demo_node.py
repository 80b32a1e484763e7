"""A node that serves one request at a time, for trying things out and for tests.

A node is free or it works, and it works on one request: one that comes in meanwhile is refused with 503 and
counted as a violation. It works from the request's head to its answer's last byte, and always to the end of
its work, also when its client has left: as with ComfyUI, nobody but the proxy keeps a second request away.

`/ready`: 200 when free, 503 while it works and for `ready_after_secs` after its start. `/stats`: what
happened, as JSON. Any other path works and answers; the query says how (`fifo-proxy demo-node --help`). The
usual answer echoes the request: method, path, headers, and the length and SHA-256 of its body.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import math
import os
import signal
import socket
import struct
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from aiohttp import web

_PIECE_BYTES = 65536
_MEMORY_BYTES = 1 << 20
_MAX_HEAD_BYTES = 1 << 18
_STARTED_KEPT = 10_000
_FAILURES = ("", "close", "reset", "mid")
_BODILESS = (204, 304)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request's query asks of its answer. Durations are seconds; None: not asked for."""

    work: float
    status: int
    echoes_body: bool
    size: int | None
    stream: int | None
    events: int | None
    every: float
    accept: float | None
    lag: float
    fail: str

    @classmethod
    def of(cls, request: web.Request, default_work: float) -> Wish:
        """HTTPBadRequest names the option that makes no sense."""
        fail = request.query.get("fail", "")
        if fail not in _FAILURES:
            raise web.HTTPBadRequest(text="fail: expected close, reset or mid\n")
        accept = _seconds(request, "accept", 0) if "accept" in request.query else None
        status = _count(request, "status") or (200 if accept is None else 202)
        if not 200 <= status <= 599:
            raise web.HTTPBadRequest(text="status: expected 200 to 599\n")
        return cls(
            work=_seconds(request, "work", default_work if accept is None else 0),
            status=status,
            echoes_body=request.query.get("echo") == "body",
            size=_count(request, "bytes"),
            stream=_count(request, "stream"),
            events=_count(request, "sse"),
            every=_seconds(request, "every", 0),
            accept=accept,
            lag=_seconds(request, "lag", 0),
            fail=fail,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of an answer in `count` pieces; `length` in bytes, None where it is not told beforehand."""

    content_type: str
    length: int | None
    count: int
    pieces: Iterator[bytes]


class DemoNode:
    """The node: what it does now and what it has seen. `runner` serves it."""

    def __init__(self, *, ready_after_secs: float = 0.0, work_secs: float = 0.05) -> None:
        self._app = web.Application()
        self._app.router.add_get("/ready", self._ready)
        self._app.router.add_get("/stats", self._stats)
        self._app.router.add_route("*", "/{path:.*}", self._work)
        self._work_secs = work_secs
        self._ready_at = time.monotonic() + ready_after_secs
        self._looks_free_until = 0.0
        self.is_working = False
        self.served = self.left = self.violations = 0
        self.started: deque[dict[str, object]] = deque(maxlen=_STARTED_KEPT)

    def runner(self) -> web.AppRunner:
        """An aiohttp runner of this node: bodies of any size as they came, large heads, and no long farewell."""
        return web.AppRunner(
            self._app,
            access_log=None,
            auto_decompress=False,
            handler_cancellation=False,
            max_line_size=_MAX_HEAD_BYTES,
            max_field_size=_MAX_HEAD_BYTES,
            max_headers=10_000,
            shutdown_timeout=0.1,
        )

    async def _ready(self, request: web.Request) -> web.Response:
        now = time.monotonic()
        is_ready = now >= self._ready_at and (not self.is_working or now < self._looks_free_until)
        return web.json_response({"ready": is_ready}, status=200 if is_ready else 503)

    async def _stats(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "pid": os.getpid(),
                "active": int(self.is_working),
                "served": self.served,
                "left": self.left,
                "violations": self.violations,
                "started": list(self.started),
            }
        )

    async def _work(self, request: web.Request) -> web.StreamResponse:
        wish = Wish.of(request, self._work_secs)
        if self.is_working:
            self.violations += 1
            return web.Response(status=503, text="this node works on another request\n")
        self.is_working = True
        self.started.append({"at": time.time(), "target": request.raw_path})
        works_on = 0.0
        try:
            with tempfile.SpooledTemporaryFile(_MEMORY_BYTES) as body:
                echo = await _receive(request, body if wish.echoes_body else None)
                await asyncio.sleep(wish.work)
                if wish.fail in ("close", "reset"):
                    _break_off(request, with_reset=wish.fail == "reset")
                    return web.Response()
                works_on = wish.accept or 0.0
                response = await self._respond(request, wish, _answer(wish, echo, body, request.content_type))
                self.served += 1
                return response
        except (ConnectionError, web.RequestPayloadError):  # the client left while it sent its body
            self.left += 1
            return web.Response(status=400)
        finally:
            self._looks_free_until = time.monotonic() + wish.lag
            if works_on:
                asyncio.get_running_loop().call_later(works_on, self._finish)
            else:
                self._finish()

    def _finish(self) -> None:
        self.is_working = False

    async def _respond(self, request: web.Request, wish: Wish, answer: Answer) -> web.StreamResponse:
        """Sends the answer at its pace, and goes on at that pace when nobody reads it any more."""
        response = web.StreamResponse(status=wish.status, headers={"Content-Type": answer.content_type})
        has_body = request.method != "HEAD" and wish.status not in _BODILESS
        if wish.status not in _BODILESS:
            response.content_length = answer.length
        is_heard = True
        for number, piece in enumerate(answer.pieces if has_body else ()):
            if number and wish.every:
                await asyncio.sleep(wish.every)
            if wish.fail == "mid" and number >= answer.count // 2:
                _break_off(request)
                return response
            try:
                if is_heard and not response.prepared:
                    await response.prepare(request)
                if is_heard:
                    await response.write(piece)
            except ConnectionError:
                is_heard = False
                self.left += 1
        return response


def _answer(wish: Wish, echo: bytes, body: IO[bytes], body_type: str) -> Answer:
    if wish.stream is not None:
        lines = (b"piece %d\n" % number for number in range(wish.stream))
        return Answer("text/plain", None, wish.stream, lines)
    if wish.events is not None:
        events = (b'data: {"n": %d}\n\n' % number for number in range(wish.events))
        return Answer("text/event-stream", None, wish.events, events)
    if wish.size is not None:
        return _measured("application/octet-stream", wish.size, None)
    if wish.echoes_body:
        length = body.tell()
        body.seek(0)
        return _measured(body_type, length, body)
    return _measured("application/json", len(echo), io.BytesIO(echo))


def _measured(content_type: str, length: int, source: IO[bytes] | None) -> Answer:
    """`length` bytes of `source`, or of no meaning, in at least two pieces where there are two bytes."""
    size = max(1, min(_PIECE_BYTES, length // 2))
    starts = range(0, length, size)
    filling = bytes(range(256)) * (_PIECE_BYTES // 256)

    def pieces() -> Iterator[bytes]:
        for start in starts:
            count = min(size, length - start)
            yield source.read(count) if source else filling[:count]

    return Answer(content_type, length, len(starts), pieces())


async def _receive(request: web.Request, keep: IO[bytes] | None) -> bytes:
    """Reads the body, into `keep` if given, and returns the echo of the request."""
    digest, length = hashlib.sha256(), 0
    async for piece in request.content.iter_any():
        digest.update(piece)
        length += len(piece)
        if keep is not None:
            keep.write(piece)
    echo = {
        "method": request.method,
        "path": request.raw_path,
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in request.raw_headers],
        "body_length": length,
        "body_sha256": digest.hexdigest(),
    }
    return json.dumps(echo, indent=2).encode() + b"\n"


def _break_off(request: web.Request, *, with_reset: bool = False) -> None:
    transport = request.transport
    if transport is None:
        return
    if with_reset:  # a close without lingering sends RST
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        transport.abort()
    else:
        transport.close()


def _seconds(request: web.Request, name: str, default: float) -> float:
    try:
        seconds = float(request.query.get(name, default))
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise web.HTTPBadRequest(text=f"{name}: expected seconds\n")
    return seconds


def _count(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is not None and not (text.isascii() and text.isdigit()):
        raise web.HTTPBadRequest(text=f"{name}: expected a whole number\n")
    return None if text is None else int(text)


def run(host: str, port: int, *, ready_after_secs: float, work_secs: float) -> int:
    """Serve until SIGTERM or SIGINT; the exit code."""
    return asyncio.run(_run(host, port, DemoNode(ready_after_secs=ready_after_secs, work_secs=work_secs)))


async def _run(host: str, port: int, node: DemoNode) -> int:
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    runner = node.runner()
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        bound = runner.addresses[0]
        print(f"demo node on http://{bound[0]}:{bound[1]}", flush=True)
        await stop.wait()
    except OSError as error:
        print(f"fifo-proxy demo-node: cannot listen on {host}:{port}: {error.strerror}", file=sys.stderr)
        return 1
    finally:
        await runner.cleanup()
    return 0
