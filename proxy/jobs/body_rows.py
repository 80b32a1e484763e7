"""Large bodies in PostgreSQL: rows of `PIECE_BYTES` each, written in several short transactions before a job
names them.

A body whose writing was broken off, or that no job came to name, is swept once nothing was written to it for
an hour."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import asyncpg

from proxy.errors import BodyGone, StoreUnavailable
from proxy.jobs import statements
from proxy.jobs.bodies import PIECE_BYTES, Bodies
from proxy.jobs.job import Content
from proxy.jobs.rows import Row
from proxy.jobs.schema import Statement

_PIECES_AT_ONCE = 16  # in one transaction
_ABANDONED_SECS = 3600.0

Work = Callable[[asyncpg.Connection], Awaitable[None]]


class Reads(Protocol):
    async def __call__(self, statement: Statement, **parameters: Any) -> Sequence[Row]: ...


class BodyRows(Bodies):
    """`commit` runs its work in one transaction, `fetch` one statement in one of its own."""

    def __init__(self, commit: Callable[[Work], Awaitable[None]], fetch: Reads) -> None:
        self._commit = commit
        self._fetch = fetch

    async def write(self, content: Content) -> str:
        key = secrets.token_hex(16)
        step = PIECE_BYTES * _PIECES_AT_ONCE
        for start in range(0, content.size, step):
            await self._commit(self._writing(key, content, start, min(start + step, content.size)))
        return key

    def _writing(self, key: str, content: Content, start: int, end: int) -> Work:
        async def work(connection: asyncpg.Connection) -> None:
            await connection.execute(statements.BODY_STORED.postgres, key)
            for offset in range(start, end, PIECE_BYTES):
                piece = _exactly(content, offset, min(PIECE_BYTES, end - offset))
                number = offset // PIECE_BYTES
                await connection.execute(statements.BODY_CHUNK.postgres, key, number, piece)

        return work

    async def read(self, key: str, offset: int, length: int) -> bytes:
        first, last = offset // PIECE_BYTES, (offset + length - 1) // PIECE_BYTES
        pieces = await self._fetch(statements.BODY_READ, key=key, first=first, last=last)
        if len(pieces) != last - first + 1:
            raise BodyGone("it has been cleaned up")
        start = offset - first * PIECE_BYTES
        return b"".join(piece["data"] for piece in pieces)[start : start + length]

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            while await self._fetch(statements.BODY_CUT, key=key, limit=_PIECES_AT_ONCE):
                pass
            await self._fetch(statements.BODY_FORGET, key=key)

    def suspect(self, key: str | None) -> None:
        """Found by its age."""

    async def sweep(self, limit: int) -> int:
        orphans = await self._fetch(statements.BODY_ORPHANS, age_secs=_ABANDONED_SECS, limit=limit)
        await self.delete([row["key"] for row in orphans])
        return len(orphans)


def _exactly(content: Content, offset: int, length: int) -> bytes:
    """A spool's read may return less than it was asked for."""
    pieces = []
    while length:
        piece = content.read(offset, length)
        if not piece:
            raise StoreUnavailable(f"the body to be stored ends at {offset} bytes")
        pieces.append(piece)
        offset, length = offset + len(piece), length - len(piece)
    return b"".join(pieces)
