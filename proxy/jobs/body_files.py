"""Large bodies in files beside the SQLite database, one each, named by its key.

Always: a file is whole and synced, its name too, before its key is given out. Only one process has the
database, so what no row names when it is opened is left over from a crash."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from proxy.errors import BodyGone, StoreFull, StoreUnavailable
from proxy.jobs.bodies import PIECE_BYTES, Bodies
from proxy.jobs.job import Content

T = TypeVar("T")


class BodyFiles(Bodies):
    """`find_named` tells which of these keys some row names."""

    def __init__(self, directory: Path, find_named: Callable[[list[str]], Awaitable[set[str]]]) -> None:
        self._directory = directory
        self._find_named = find_named
        self._suspects: list[str] = []

    def open(self) -> None:
        """Before anything is written. Raises OSError."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._suspects = os.listdir(self._directory)

    async def write(self, content: Content) -> str:
        key = secrets.token_hex(16)
        await asyncio.to_thread(_guarded, self._write, key, content)
        return key

    def _write(self, key: str, content: Content) -> None:
        path = self._directory / key
        try:
            with open(path, "xb", buffering=0, opener=_private) as file:
                offset = 0
                while offset < content.size:
                    piece = content.read(offset, PIECE_BYTES)
                    if not piece:
                        raise OSError(errno.EIO, f"the body ends at {offset} of {content.size} bytes")
                    offset += file.write(piece)
                os.fsync(file.fileno())
            _sync_directory(self._directory)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    async def read(self, key: str, offset: int, length: int) -> bytes:
        return await asyncio.to_thread(_guarded, self._read, key, offset, length)

    def _read(self, key: str, offset: int, length: int) -> bytes:
        try:
            with open(self._directory / key, "rb", buffering=0) as file:
                return os.pread(file.fileno(), max(0, length), offset)
        except FileNotFoundError:
            raise BodyGone("it has been cleaned up") from None

    async def delete(self, keys: Sequence[str]) -> None:
        if keys:
            await asyncio.to_thread(_guarded, self._delete, keys)

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            (self._directory / key).unlink(missing_ok=True)

    def suspect(self, key: str | None) -> None:
        if key is not None:
            self._suspects.append(key)

    async def sweep(self, limit: int) -> int:
        keys = self._suspects[:limit]
        if keys:
            named = await self._find_named(keys)
            orphans = [key for key in keys if key not in named]
            await self.delete(orphans)
            del self._suspects[: len(keys)]
        return len(keys)


def _guarded(work: Callable[..., T], *arguments: object) -> T:
    try:
        return work(*arguments)
    except OSError as error:
        detail = f"a job's body cannot be kept on disk: {error.strerror}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(detail) from error
        raise StoreUnavailable(detail) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
