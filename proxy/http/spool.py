"""Bodies that wait: in memory while small, in an unlinked temporary file past that.

A spool is one body, appended at its end and read at any offset, so that a request can be sent again. The file has
no name, so a crash leaves nothing behind. What all spools hold on disk is counted against one `SpoolBudget`;
past it, or when the disk itself is full, `append` raises `SpoolFull` and the spool is as it was before.
"""

from __future__ import annotations

import os
import tempfile
from typing import BinaryIO

from proxy.errors import SpoolFull


class SpoolBudget:
    """The bytes that all spools may hold on disk (`max_bytes`), and in memory each (`memory_bytes`)."""

    __slots__ = ("directory", "max_bytes", "memory_bytes", "used")

    def __init__(self, memory_bytes: int, max_bytes: int, directory: str | None = None) -> None:
        self.memory_bytes = memory_bytes
        self.max_bytes = max_bytes
        self.directory = directory
        self.used = 0


class Spool:
    """One body of `size` bytes. It is closed once, by whoever holds it last; closing twice does no harm."""

    __slots__ = ("_budget", "_file", "_memory", "size")

    def __init__(self, budget: SpoolBudget) -> None:
        self._budget = budget
        self._memory: bytes | bytearray = b""
        self._file: BinaryIO | None = None
        self.size = 0

    @property
    def is_on_disk(self) -> bool:
        return self._file is not None

    @property
    def descriptor(self) -> int | None:
        """Its file, from whose beginning it can be read; None while it is in memory."""
        return None if self._file is None else self._file.fileno()

    def append(self, data: bytes) -> None:
        """Add `data` at the end; raises `SpoolFull` and adds nothing where it finds no room."""
        if self._file is None and self.size + len(data) <= self._budget.memory_bytes:
            if not self.size:
                self._memory = data  # most bodies come in one piece: no copy
            else:
                if isinstance(self._memory, bytes):
                    self._memory = bytearray(self._memory)
                self._memory += data
        else:
            self._append_to_file(data)
        self.size += len(data)

    def _append_to_file(self, data: bytes) -> None:
        budget = self._budget
        moved = self._memory if self._file is None else b""
        if budget.used + len(moved) + len(data) > budget.max_bytes:
            raise SpoolFull(f"bodies on disk would exceed {budget.max_bytes} bytes (max_spool_bytes)")
        try:
            if self._file is None:
                file = tempfile.TemporaryFile(dir=budget.directory, buffering=0)  # noqa: SIM115
                try:
                    _write_all(file, moved, 0)
                    _write_all(file, data, len(moved))
                except OSError:
                    file.close()
                    raise
                self._file, self._memory = file, b""
            else:
                _write_all(self._file, data, self.size)
        except OSError as error:
            raise SpoolFull(f"a body cannot be kept on disk: {error.strerror}") from error
        budget.used += len(moved) + len(data)

    def read(self, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`; empty at the end."""
        if self._file is None:
            if not offset and length >= self.size and isinstance(self._memory, bytes):
                return self._memory
            return bytes(self._memory[offset : offset + length])
        return os.pread(self._file.fileno(), length, offset)

    def clear(self) -> None:
        """Empty it, memory and file, and give the room back."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._budget.used -= self.size
        self._memory = b""
        self.size = 0

    def close(self) -> None:
        self.clear()


def _write_all(file: BinaryIO, data: bytes | bytearray, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file.fileno(), view, offset)
        view, offset = view[written:], offset + written
