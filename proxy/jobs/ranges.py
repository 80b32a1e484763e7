"""Which part of a stored answer is wanted (RFC 9110, 14). Pure."""

from __future__ import annotations

import re

_RANGE = re.compile(rb"bytes[ \t]*=[ \t]*(\d*)-(\d*)[ \t]*", re.IGNORECASE)
_MOST_DIGITS = 18


def wanted_range(value: bytes | None, size: int) -> tuple[int, int] | None:
    """The first byte and one past the last; None: all of it, also for what we do not do (several ranges, other
    units), as a server may. Raises ValueError for a range that lies outside."""
    found = _RANGE.fullmatch(value) if value is not None else None
    if found is None or any(len(digits) > _MOST_DIGITS for digits in found.groups()):
        return None
    first, last = found.groups()
    if not first and not last:
        return None
    if not first:
        start, end = max(0, size - int(last)), size
        if not int(last):
            raise ValueError("no bytes")
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < int(first):
            return None
    if start >= size:
        raise ValueError("past the end")
    return start, end


def range_holds(value: bytes | None, etag: bytes | None, modified: bytes | None) -> bool:
    """Whether `If-Range` lets the range count: it names the answer that is stored (RFC 9110, 13.1.5)."""
    if value is None:
        return True
    is_strong = etag is not None and not etag.startswith(b"W/")
    return (is_strong and value == etag) or value == modified
