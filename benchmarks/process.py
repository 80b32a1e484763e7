"""Pinned processes: each leads a session of its own, which is stopped as a whole.

What always holds: a `Process` that was started is stopped by the end of its `with` block, children included.
Memory and processor time are those of the whole session, so nginx with its worker, or two proxies in a row
started by one command, are charged in full.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self


class BenchmarkError(Exception):
    """A measurement that cannot be made or trusted; the run goes on without it."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident and proportional memory, bytes."""

    rss: int
    pss: int


def free_ports(count: int) -> list[int]:
    """TCP ports of 127.0.0.1 that were free a moment ago, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [int(held.getsockname()[1]) for held in sockets]
    finally:
        for held in sockets:
            held.close()


def wait_until(is_true: Callable[[], bool], what: str, timeout_secs: float = 30.0) -> None:
    """Asks twenty times a second; raises BenchmarkError naming `what` when it does not come true."""
    deadline = time.monotonic() + timeout_secs
    while not is_true():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"gave up after {timeout_secs:.0f} s waiting for {what}")
        time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class CoreTime:
    """What cores have done since the machine started, in clock ticks, whoever it was for."""

    idle: int
    total: int

    @classmethod
    def read(cls, cores: frozenset[int]) -> CoreTime:
        idle = total = 0
        for line in _read("/proc/stat").splitlines():
            name, *ticks = line.split()
            if name.startswith("cpu") and name != "cpu" and int(name[3:]) in cores:
                counts = [int(count) for count in ticks[:8]]  # the guests' are in the users' already
                idle += counts[3] + counts[4]
                total += sum(counts)
        return cls(idle, total)

    def busy_percent_since(self, earlier: CoreTime) -> float:
        return 100 * (1 - (self.idle - earlier.idle) / max(1, self.total - earlier.total))


class Process:
    """One program pinned to `cpus` (a taskset list such as "1" or "0,2-3"), with its children.

    Its standard error goes to `log`; its standard input and output are pipes of text when `is_talking`.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cpus: str,
        log: Path,
        is_talking: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.name = Path(argv[0]).name
        self._log = log
        pipe = subprocess.PIPE if is_talking else subprocess.DEVNULL
        with log.open("ab") as stderr:
            self._popen = subprocess.Popen(
                ["taskset", "-c", cpus, *argv],
                stdin=pipe,
                stdout=pipe,
                stderr=stderr,
                text=True,
                start_new_session=True,
                env=None if environ is None else {**os.environ, **environ},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    def read_line(self) -> str:
        """The next line of its output; raises BenchmarkError if it ended instead."""
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        if not line:
            raise BenchmarkError(f"{self.name} ended early: {self.log_tail()}")
        return line

    def write_line(self, line: str) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(line + "\n")
        self._popen.stdin.flush()

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:].strip() or "(nothing on its standard error)"

    def stop(self) -> None:
        """Ends the whole session: asked first, killed two seconds later."""
        self._signal(signal.SIGTERM)
        try:
            self._popen.wait(timeout=2)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._signal(signal.SIGKILL)
            self._popen.wait()
            for pipe in (self._popen.stdin, self._popen.stdout):
                if pipe is not None:
                    pipe.close()

    def _signal(self, number: int) -> None:
        for pid in self.pids():
            with suppress(ProcessLookupError):  # ended by itself in between
                os.kill(pid, number)

    def pids(self) -> list[int]:
        """The session's processes."""
        return [pid for pid in _all_pids() if _session_of(pid) == self._popen.pid]

    def cpu_secs(self) -> float:
        """Processor time the session's living processes have used, seconds, to the microsecond."""
        return sum(_cpu_nanoseconds(pid) for pid in self.pids()) / 1e9

    def memory(self) -> Memory:
        rss = pss = 0
        for pid in self.pids():
            for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
                if line.startswith("Rss:"):
                    rss += int(line.split()[1]) * 1024
                elif line.startswith("Pss:"):
                    pss += int(line.split()[1]) * 1024
        return Memory(rss, pss)

    def wait_quiet(self, timeout_secs: float = 120.0) -> None:
        """Returns when the session has used less than 2 % of a core for a second: it has taken in what was
        sent."""
        deadline = time.monotonic() + timeout_secs
        used = self.cpu_secs()
        while time.monotonic() < deadline:
            time.sleep(1.0)
            used_before, used = used, self.cpu_secs()
            if used - used_before < 0.02:
                return
        raise BenchmarkError(f"{self.name} did not become quiet in {timeout_secs:.0f} s")


def _all_pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _read(path: str) -> str:
    """A file of /proc; empty if its process has gone."""
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _session_of(pid: int) -> int | None:
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()  # state, parent, group, session, ...
    return int(fields[3]) if fields else None


def _cpu_nanoseconds(pid: int) -> int:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return 0
    return sum(int((_read(f"/proc/{pid}/task/{tid}/schedstat") or "0").split()[0]) for tid in threads)
