"""What a client has not taken yet: bytes of its answer, in order, spooled.

What always holds: nothing is lost. When the spool has no more room, `add` keeps the piece all the same and says so;
the sender stops until everything has drained.
"""

from __future__ import annotations

from collections.abc import Callable

from proxy.errors import SpoolFull
from proxy.http.spool import Spool, SpoolBudget

_PIECE = 262144
FILE_MOST = 1 << 20  # bytes sent from a file in one turn of the loop


class Backlog:
    __slots__ = ("_held", "_sent", "_spool")

    def __init__(self, budget: SpoolBudget) -> None:
        self._spool = Spool(budget)
        self._sent = 0
        self._held: list[bytes] = []

    def add(self, data: bytes) -> bool:
        """Append; False: no room, send no more until it is empty."""
        if not self._held:
            try:
                self._spool.append(data)
                return True
            except SpoolFull:
                pass  # the piece is held in memory: the sender has it from us that it must stop
        self._held.append(data)
        return False

    def drain(
        self,
        write: Callable[[bytes], None],
        is_paused: Callable[[], bool],
        send_file: Callable[[int, int, int], int] = lambda descriptor, offset, count: 0,
    ) -> bool:
        """Write until the client is full; True: nothing is left.

        `send_file` may take a part of what is in a file (descriptor, offset, count -> bytes sent); it is asked once, so
        that a client as fast as we are does not keep the others waiting.
        """
        file = self._spool.descriptor
        if file is not None and not is_paused():
            self._sent += send_file(file, self._sent, min(self._spool.size - self._sent, FILE_MOST))
        while not is_paused():
            piece = self._spool.read(self._sent, _PIECE)
            if piece:
                self._sent += len(piece)
            elif self._held:
                piece = self._held.pop(0)
            else:
                self._spool.clear()
                self._sent = 0
                return True
            write(piece)
        return False

    def close(self) -> None:
        self._spool.close()
        self._held.clear()
