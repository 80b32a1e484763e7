"""Where log lines go and how they look: stderr, RFC 3339 UTC, text for people or JSON for machines.

`extra={"fields": {...}}` adds facts: `key=value` in text, members in JSON. A record is one line (in text a
traceback follows); what comes from outside cannot forge another, since control characters are escaped. Lines are
written by a thread, so whoever reads them, or stops reading, delays no request; what it cannot take is dropped, and the
next line that gets through tells how many were.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from queue import Full, Queue
from threading import Thread
from typing import Any, Literal, TextIO

from proxy.clock import Clock, rfc3339
from proxy.records import Record, Sink, fields_of

_requests = logging.getLogger("proxy.requests")
_MAX_WAITING = 20_000  # lines
_LAST_WORDS_SECS = 2.0
# httpx logs URLs at INFO, httpcore headers (tokens among them) at DEBUG: neither may ever be heard.
_NOISY = ("httpx", "httpcore", "aiohttp", "asyncio")


def setup(log_format: Literal["text", "json"], log_level: str) -> None:
    """Send every record of `log_level` (`info`, `warning`, ...) and above to stderr; may be called again."""
    stream = _Lines(sys.stderr)
    stream.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(handlers=[Writer(stream)], level=log_level.upper(), force=True)
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))


class _Lines(logging.StreamHandler[TextIO]):
    """Used by one thread, and without locks: while a line is stuck in a pipe that nobody reads, neither
    `logging.shutdown` nor Python's last flush of stderr may have to wait for it."""

    def createLock(self) -> None:
        self.lock = None

    def flush(self) -> None:
        """Nothing is held back."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record) + self.terminator
            try:
                descriptor = self.stream.fileno()
            except (OSError, ValueError):  # not a file: a test's
                self.stream.write(text)
                return
            left = text.encode(errors="backslashreplace")
            while left:
                left = left[os.write(descriptor, left) :]
        except OSError:
            pass  # nobody is there to be told
        except Exception:  # noqa: BLE001 - one bad record must not end the thread
            self.handleError(record)


class Writer(logging.Handler):
    """Hands records to a thread of its own, which formats and writes them."""

    def __init__(self, stream: logging.Handler) -> None:
        super().__init__()
        self.stream = stream
        self._records: Queue[logging.LogRecord] = Queue(_MAX_WAITING)
        self._dropped = 0
        Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._dropped:
                text = f"{self._dropped} lines are missing here: nobody took them in time"
                self._records.put_nowait(
                    logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None)
                )
                self._dropped = 0
            self._records.put_nowait(record)
        except Full:
            self._dropped += 1

    def flush(self) -> None:
        """Wait for the thread, but not for ever: at the end of Python it may be stuck."""
        records = self._records
        with records.all_tasks_done:
            records.all_tasks_done.wait_for(lambda: not records.unfinished_tasks, _LAST_WORDS_SECS)

    def close(self) -> None:
        self.flush()
        super().close()

    def _write(self) -> None:
        while True:
            record = self._records.get()
            try:
                self.stream.emit(record)  # `handle` would hold a lock that the end of Python waits for
            finally:
                self._records.task_done()


def request_lines(clock: Clock) -> Sink:
    """A sink of records that logs a line for each."""

    def write(records: Sequence[Record]) -> None:
        if not _requests.isEnabledFor(logging.INFO):
            return
        for record in records:
            fields = fields_of(record, clock)
            head = f"{fields.pop('method') or '-'} {fields.pop('path') or '-'} {record.status or '-'}"
            del fields["arrival"]
            facts = {key: value for key, value in fields.items() if value is not None}
            _requests.info("%s", head, extra={"fields": facts})

    return write


class TextFormatter(logging.Formatter):
    """`TIME LEVEL logger: message key=value ...`, then the traceback, if any, on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        head = (
            f"{rfc3339(record.created)} {record.levelname:<7} {record.name}: {_escaped(record.getMessage())}"
        )
        facts = "".join(f" {key}={_value(value)}" for key, value in _fields(record).items())
        trace = _trace(self, record)
        return f"{head}{facts}\n{trace}" if trace else head + facts


class JsonFormatter(logging.Formatter):
    """One object a line: `time level logger message`, the fields, and `exception` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        own = {
            "time": rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if trace := _trace(self, record):
            own["exception"] = trace
        # A field cannot take the place of a member of ours, whatever its name.
        return json.dumps({**own, **_fields(record), **own}, ensure_ascii=False, default=str)


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    return fields


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info else []
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    is_plain = text.isprintable() and text and not any(mark in text for mark in ' "=\\')
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def _escaped(message: str) -> str:
    if message.isprintable():
        return message
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
