"""A client that hands jobs in and asks after them."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.proxy_here import ProxyHere
from tests.providers.waiting import until

ASYNC = "Prefer: respond-async\r\n"


async def hand_in(proxy: ProxyHere, target: str = "/work", *, body: bytes = b"", fields: str = "") -> str:
    """The path of an accepted job."""
    answer = await proxy.ask(target, method="POST", body=body, fields=ASYNC + fields)
    assert answer.status == 202, answer
    return answer.fields["location"]


async def state(proxy: ProxyHere, job: str) -> dict[str, Any]:
    answer = await proxy.ask(job)
    assert answer.status == 200, answer
    document: dict[str, Any] = json.loads(answer.body)
    return document


async def ended(proxy: ProxyHere, job: str) -> dict[str, Any]:
    """Its document once it is over."""

    async def is_over() -> bool:
        return (await state(proxy, job))["finished_at"] is not None

    await until(is_over, f"{job} is over")
    return await state(proxy, job)
