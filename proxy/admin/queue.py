"""What waits, place by place, as `/api/queue` tells it. Reads the line and never changes it."""

from __future__ import annotations

from itertools import islice
from typing import Protocol, cast

from proxy.dispatch.dispatcher import Dispatcher
from proxy.http.message import Request

MOST_SHOWN = 1000


class Waiting(Protocol):
    """What the tickets in the line are. `joined_at`: monotonic seconds; `client_address`: "" once it left."""

    @property
    def joined_at(self) -> float: ...
    @property
    def request(self) -> Request: ...
    @property
    def client_address(self) -> str: ...


def queue(dispatcher: Dispatcher, now: float, limit: int) -> dict[str, object]:
    """The JSON of `/api/queue`: the first `limit` that wait."""
    waiting = (cast(Waiting, ticket) for ticket in islice(dispatcher.line, limit))
    return {
        "length": len(dispatcher.line),
        "waiting": [_place(place, one, now) for place, one in enumerate(waiting, 1)],
    }


def _place(place: int, waiting: Waiting, now: float) -> dict[str, object]:
    request = waiting.request
    return {
        "place": place,
        "request_id": request.request_id.decode("latin-1"),
        "method": request.method.decode("latin-1"),
        "path": request.path,
        "age_secs": round(now - waiting.joined_at, 3),
        "size_bytes": request.body.size if request.body is not None else 0,
        "client": waiting.client_address,
    }
