from __future__ import annotations

import pytest
from aiohttp import ClientSession

from proxy.dispatch.line import Ticket
from proxy.http.message import Request
from tests.admin.conftest import Rig
from tests.admin.test_server import problem


class Waiting(Ticket):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.request = Request(b"POST", b"/v1/images?key=s3cret")
        self.request.request_id = b"r-%d" % number
        self.client_address = "10.0.0.9"


async def test_places_from_the_head_on_without_queries(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    for number in range(3):
        rig.dispatcher.join(Waiting(number), 1000.0 + number)
    rig.time.now = 1010.0
    async with http.get(rig.url("/api/queue?limit=2")) as response:
        assert await response.json() == {
            "length": 3,
            "waiting": [
                {
                    "place": place,
                    "request_id": f"r-{place - 1}",
                    "method": "POST",
                    "path": "/v1/images",
                    "age_secs": 11.0 - place,
                    "size_bytes": 0,
                    "client": "10.0.0.9",
                }
                for place in (1, 2)
            ],
        }


async def test_a_hundred_unless_asked_for_more(rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    for number in range(1200):
        rig.dispatcher.join(Waiting(number), 1000.0)
    for query, expected in (("", 100), ("?limit=0", 0), ("?limit=1000", 1000)):
        async with http.get(rig.url(f"/api/queue{query}")) as response:
            assert len((await response.json())["waiting"]) == expected


@pytest.mark.parametrize("limit", ["-1", "1001", "x", "1.5", "9" * 5000, "٣"])
async def test_a_bad_limit_is_400(limit: str, rig: Rig, http: ClientSession) -> None:
    await rig.serve()
    async with http.get(rig.url("/api/queue"), params={"limit": limit}) as response:
        assert response.status == 400
        assert "1000" in (await problem(response))["detail"]
