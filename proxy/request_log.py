"""The request log: one line for each request, JSON or, where the path ends in `.csv`, CSV. `simulate` reads both.

Always: lines are whole and in the order of the requests' ends; files are written by one thread, so a slow disk delays
no request; what it cannot take in time, or refuses, is dropped, counted and shown. A file past `max_bytes` becomes
`PATH.1`, that one `PATH.2`, and so on; a file that somebody moved away is begun anew.
"""

from __future__ import annotations

import asyncio
import csv
import errno
import io
import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from proxy.clock import Clock
from proxy.records import FIELDS, Record, fields_of

log = logging.getLogger(__name__)

_MAX_WAITING = 100_000  # records that the thread has not written yet


@dataclass(frozen=True, slots=True)
class LogFile:
    """Where and how: `keep` older files beside the one being written; `has_query`: whether queries are written."""

    path: Path
    max_bytes: int
    keep: int
    has_query: bool

    @property
    def is_csv(self) -> bool:
        return self.path.suffix.lower() == ".csv"

    @property
    def columns(self) -> tuple[str, ...]:
        return (*FIELDS, "query") if self.has_query else FIELDS


class RequestLog:
    """A sink of records. `on_fault` is told what is wrong with the file, None once it can be written again."""

    def __init__(self, clock: Clock, on_fault: Callable[[str | None], None]) -> None:
        self.dropped = 0
        self._clock = clock
        self._on_fault = on_fault
        self._settings: LogFile | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._file: BinaryIO | None = None  # the thread's
        self._waiting = 0
        self._fault: str | None = None

    def apply(self, settings: LogFile | None) -> None:
        """From the next batch on; None: write no more."""
        self._settings = settings
        if settings is None:
            self._note(None)

    def write(self, records: Sequence[Record]) -> None:
        """Hand a batch to the thread."""
        settings = self._settings
        if settings is None:
            return
        if self._waiting + len(records) > _MAX_WAITING:
            self.dropped += len(records)
            self._note("the disk is too slow for it")
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "request-log")
        self._waiting += len(records)
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._thread, self._append, settings, records)
        work.add_done_callback(lambda done: self._written(done, len(records)))

    async def stop(self) -> None:
        """Write what is left, and close."""
        if self._thread is not None:
            thread, self._thread = self._thread, None
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown()

    def _written(self, done: asyncio.Future[None], count: int) -> None:
        self._waiting -= count
        error = None if done.cancelled() else done.exception()
        if isinstance(error, OSError):
            self.dropped += count
            self._note(f"{error.filename or 'the file'}: {error.strerror}")
        elif error is not None:
            raise error
        else:
            self._note(None)

    def _note(self, fault: str | None) -> None:
        if fault == self._fault:
            return
        self._fault = fault
        if fault is not None:
            log.warning("the request log cannot be written: %s", fault)
        self._on_fault(fault)

    # --- the thread's side

    def _append(self, settings: LogFile, records: Sequence[Record]) -> None:
        data = _lines(settings, records, self._clock)
        try:
            file = self._opened(settings, len(data))
            if settings.is_csv and not file.tell():
                data = _csv_line(settings.columns) + data
            written = file.write(data)
            if written < len(data):  # the disk is full: half a line would spoil the next one
                file.truncate(file.seek(-written, os.SEEK_END))
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(settings.path))
        except OSError:
            self._close()
            raise

    def _opened(self, settings: LogFile, room: int) -> BinaryIO:
        if self._file is not None and (self._is_moved(settings.path) or self._is_full(settings, room)):
            self._close()
        if self._file is None:
            settings.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = settings.path.open("ab", buffering=0)
            if self._is_full(settings, room):
                self._close()
                _rotate(settings.path, settings.keep)
                self._file = settings.path.open("ab", buffering=0)
        return self._file

    def _is_full(self, settings: LogFile, room: int) -> bool:
        assert self._file is not None
        return self._file.tell() > 0 and self._file.tell() + room > settings.max_bytes

    def _is_moved(self, path: Path) -> bool:
        assert self._file is not None
        try:
            return not os.path.samestat(path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return True

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()


def _rotate(path: Path, keep: int) -> None:
    names = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, keep + 1))]
    for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
        if newer.exists():
            newer.replace(older)
    if not keep:
        path.unlink()


def _lines(settings: LogFile, records: Sequence[Record], clock: Clock) -> bytes:
    lines = []
    for record in records:
        fields = fields_of(record, clock)
        if settings.has_query:
            fields["query"] = record.query
        if settings.is_csv:
            lines.append(_csv_line(fields[name] for name in settings.columns))
        else:
            lines.append(json.dumps(fields).encode() + b"\n")
    return b"".join(lines)


def _csv_line(values: Iterable[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue().encode()
