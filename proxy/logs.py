"""Where log lines go and how they look: stderr, RFC 3339 UTC, text for people or JSON for machines.

`extra={"fields": {...}}` adds facts: `key=value` in text, members in JSON. A record is one line (in text a
traceback follows); what comes from outside cannot forge another, since control characters are escaped.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from proxy.clock import Clock, rfc3339
from proxy.records import Record, Sink, fields_of

# httpx logs URLs at INFO, httpcore headers (tokens among them) at DEBUG: neither may ever be heard.
_requests = logging.getLogger("proxy.requests")
_NOISY = ("httpx", "httpcore", "aiohttp", "asyncio")


def setup(log_format: Literal["text", "json"], log_level: str) -> None:
    """Send every record of `log_level` (`info`, `warning`, ...) and above to stderr; may be called again."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=log_level.upper(), force=True)
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))


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
