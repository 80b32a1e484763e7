"""The nodes: many ports in one fast process, each of which would serve one request at a time.

    python -m benchmarks.node COUNT

prints {"ports": [...], "control": PORT} on one line and serves until it is stopped. `?work=MS` is how long a
request runs, `?bytes=N` the size of its response, /ready answers 200 and is counted only as a probe. The
control port answers every GET with what was measured since the last reset (a GET of /reset), as JSON.

What always holds: a request begins with its first byte in and ends when the kernel has taken its last byte
out. A second one that begins in between, on the same port, is a violation, and is served all the same. X-Seq
numbers must arrive increasing over all ports. Connections write through (high-water mark 0), so that the
clock is read after the bytes have left, not when they were queued.
"""

from __future__ import annotations

import asyncio
import json
import sys
from array import array
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import cast
from urllib.parse import parse_qs, urlsplit

import uvloop

_BLOCK = memoryview(bytes(256 * 1024))
_SMALL = 64 * 1024  # responses up to here are written in one piece, head and body
_BOUNDS_US = (10, 25, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 2000, 5000, 10_000, 100_000)


@dataclass(slots=True)
class Measured:
    """Everything since the last reset, over all ports; times in nanoseconds."""

    gaps: array[int] = field(default_factory=lambda: array("q"))
    busy: int = 0
    work: int = 0
    requests: int = 0
    probes: int = 0
    bytes_in: int = 0
    violations: int = 0
    order_violations: int = 0
    aborted: int = 0
    bad_requests: int = 0
    last_seq: int = -1

    def as_json(self) -> bytes:
        """Durations become seconds, gaps microseconds: their quantiles, and counts by upper bound."""
        gaps = sorted(self.gaps)
        histogram = {str(bound): 0 for bound in _BOUNDS_US} | {"more": 0}
        for gap in gaps:
            histogram[next((str(b) for b in _BOUNDS_US if gap <= b * 1000), "more")] += 1
        return json.dumps(
            {
                "gaps": len(gaps),
                "gap_p50_us": gaps[len(gaps) // 2] / 1e3 if gaps else None,
                "gap_p99_us": gaps[len(gaps) * 99 // 100] / 1e3 if gaps else None,
                "gap_mean_us": sum(gaps) / len(gaps) / 1e3 if gaps else None,
                "gap_histogram_us": histogram,
                "busy_secs": self.busy / 1e9,
                "work_secs": self.work / 1e9,
                "requests": self.requests,
                "probes": self.probes,
                "bytes_in": self.bytes_in,
                "violations": self.violations,
                "order_violations": self.order_violations,
                "aborted": self.aborted,
                "bad_requests": self.bad_requests,
            }
        ).encode()


class Node:
    """One port: how many requests it has at this moment, and when its last one ended (0: not since the
    reset)."""

    __slots__ = ("last_out", "running")

    def __init__(self) -> None:
        self.running = 0
        self.last_out = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a target asks for: seconds of work and the response, of which `rest` bytes follow the first
    piece."""

    work: float
    first: bytes
    rest: int
    is_probe: bool


class Bench:
    """The ports of this process and what they measured."""

    def __init__(self, count: int) -> None:
        self.nodes = [Node() for _ in range(count)]
        self.measured = Measured()
        self._plans: dict[bytes, Plan] = {}

    def reset(self) -> None:
        self.measured = Measured()
        for node in self.nodes:
            node.last_out = 0

    def plan(self, target: bytes) -> Plan:
        plan = self._plans.get(target)
        if plan is None:
            if len(self._plans) > 10_000:  # targets that never repeat must not fill the memory
                self._plans.clear()
            plan = self._plans[target] = _plan(target.decode("latin-1"))
        return plan


def _plan(target: str) -> Plan:
    parts = urlsplit(target)
    query = parse_qs(parts.query)
    size = int(query.get("bytes", ["0"])[0])
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n" % size
    in_one = size if size <= _SMALL else 0
    work = float(query.get("work", ["0"])[0]) / 1000
    return Plan(work, head + bytes(in_one), size - in_one, parts.path == "/ready")


class NodeConnection(asyncio.Protocol):
    """One connection to a node: `between requests -> in head -> in body -> working -> writing -> between`."""

    __slots__ = (
        "_bench",
        "_body_left",
        "_head",
        "_node",
        "_paused",
        "_plan",
        "_rest",
        "_started",
        "_transport",
    )

    def __init__(self, bench: Bench, node: Node) -> None:
        self._bench = bench
        self._node = node
        self._head = b""
        self._body_left = 0
        self._started = 0  # 0: between requests
        self._plan: Plan | None = None
        self._rest = 0
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        if not self._started:
            self._started = perf_counter_ns()
        if self._body_left:
            self._take_body(len(data))
            return
        if self._head:
            data = self._head + data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._head = data
            return
        self._head = b""
        self._begin(data[: end + 2], len(data) - end - 4)

    def _begin(self, head: bytes, body_here: int) -> None:
        measured, node = self._bench.measured, self._node
        method, target, _ = head.split(b" ", 2)
        self._plan = plan = self._bench.plan(target)
        if plan.is_probe:
            measured.probes += 1
        else:
            if node.running:
                measured.violations += 1
            elif node.last_out:
                measured.gaps.append(self._started - node.last_out)
            node.running += 1
            measured.requests += 1
        lower = head.lower()
        seq_at = lower.find(b"\r\nx-seq:")
        if seq_at >= 0:
            seq = int(head[seq_at + 8 : head.index(b"\r\n", seq_at + 8)])
            measured.order_violations += seq < measured.last_seq
            measured.last_seq = max(seq, measured.last_seq)
        if method == b"GET":
            self._work()
            return
        length_at = lower.find(b"\r\ncontent-length:")
        if length_at < 0 and b"\r\ntransfer-encoding:" in lower:
            measured.bad_requests += (
                1  # no client of this benchmark sends chunks, and no proxy should make them
            )
            self._transport.abort()
            return
        self._body_left = (
            int(head[length_at + 17 : head.index(b"\r\n", length_at + 17)]) if length_at >= 0 else 0
        )
        self._take_body(body_here)

    def _take_body(self, size: int) -> None:
        self._bench.measured.bytes_in += size
        self._body_left -= size
        if not self._body_left:
            self._work()

    def _work(self) -> None:
        assert self._plan is not None
        if self._plan.work:
            asyncio.get_running_loop().call_later(self._plan.work, self._answer)
        else:
            self._answer()

    def _answer(self) -> None:
        if self._plan is None or self._transport.is_closing():
            return  # cut while it worked; connection_lost has counted it
        self._rest = self._plan.rest
        self._transport.write(self._plan.first)
        self._write_rest()

    def _write_rest(self) -> None:
        while self._rest and not self._paused:
            piece = _BLOCK[: min(self._rest, len(_BLOCK))]
            self._rest -= len(piece)
            self._transport.write(piece)
        if not self._rest and not self._paused:
            self._end()

    def _end(self) -> None:
        assert self._plan is not None
        if not self._plan.is_probe:
            node, measured = self._node, self._bench.measured
            node.last_out = now = perf_counter_ns()
            node.running -= 1
            measured.busy += now - self._started
            measured.work += int(self._plan.work * 1e9)
        self._started = 0
        self._plan = None

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._plan is not None:
            self._write_rest()

    def connection_lost(self, error: Exception | None) -> None:
        plan, self._plan = self._plan, None
        if plan is not None and not plan.is_probe:
            self._node.running -= 1
            self._node.last_out = 0  # the gap after a cut says nothing of a hand-off
            self._bench.measured.aborted += 1


class ControlConnection(asyncio.Protocol):
    """Answers each GET with the figures, then closes; /reset forgets them."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET /reset "):
            self._bench.reset()
        body = self._bench.measured.as_json()
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._transport.write(head + body)
        self._transport.close()


async def serve(count: int) -> None:
    loop = asyncio.get_running_loop()
    bench = Bench(count)
    ports = []
    for node in bench.nodes:
        server = await loop.create_server(
            lambda node=node: NodeConnection(bench, node),  # type: ignore[misc]
            "127.0.0.1",
            0,
            backlog=1024,
        )
        ports.append(server.sockets[0].getsockname()[1])
    control = await loop.create_server(lambda: ControlConnection(bench), "127.0.0.1", 0)
    print(json.dumps({"ports": ports, "control": control.sockets[0].getsockname()[1]}), flush=True)
    await loop.create_future()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
