"""Calls the webhooks of jobs that are over; only on the leader.

Always: a call that was not answered 2xx is repeated, by whoever leads then, for a day; so it may come more than once,
each time with the same `webhook-id`. The address is resolved once for each call, looked at, and used as it is: no name
can change its meaning in between, and no redirect is followed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable

import httpx

from proxy.config import Config
from proxy.errors import JobRefused, StoreUnavailable
from proxy.jobs import webhook_rules as rules
from proxy.jobs.documents import document
from proxy.jobs.heartbeat import Heartbeat
from proxy.jobs.job import Delivery
from proxy.jobs.store import Store
from proxy.tasks import Tasks

log = logging.getLogger(__name__)

RESULTS = ("delivered", "failed", "given_up")
_LOOK_SECS = 1.0
_AT_ONCE = 20
_CALL_SECS = 15.0
_HOLD_SECS = 60.0  # longer than a call
_LAST_CALLS_SECS = 2.0


class Webhooks:
    """`counts`: calls by result."""

    def __init__(self, config: Callable[[], Config], store: Store, heartbeat: Heartbeat) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))
        self._config = config
        self._store = store
        self._heartbeat = heartbeat
        self._is_over = asyncio.Event()
        self._tasks = Tasks()

    def start(self) -> None:
        self._tasks.spawn(self._call_all(), "call webhooks")

    async def stop(self) -> None:
        """Calls that are out have a moment: what came of one that is cut is not known, so it would be held for long."""
        self._is_over.set()
        await self._tasks.drain(_LAST_CALLS_SECS)
        await self._tasks.stop()

    def check(self, url: str) -> None:
        """Raises JobRefused for one that will not be called."""
        rules.target_of(url, self._config().webhook_allowed_hosts)

    async def _call_all(self) -> None:
        async with httpx.AsyncClient(timeout=_CALL_SECS, follow_redirects=False, trust_env=False) as client:
            while not self._is_over.is_set():
                due: list[Delivery] = []
                if self._heartbeat.is_leader:
                    try:
                        due = await self._store.take_webhooks(_AT_ONCE, _HOLD_SECS)
                        await asyncio.gather(*(self._deliver(client, delivery) for delivery in due))
                    except StoreUnavailable as error:
                        self._heartbeat.failed(error)
                if len(due) < _AT_ONCE:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_SECS):
                            await self._is_over.wait()

    async def _deliver(self, client: httpx.AsyncClient, delivery: Delivery) -> None:
        job = delivery.job
        fault, may_retry = await self._call(client, delivery)
        if fault is None:
            self.counts["delivered"] += 1
            await self._store.webhook_done(job.id)
            return
        age = time.time() - (job.finished_at or job.created_at)
        delay = rules.retry_in_secs(delivery.attempts, age) if may_retry else None
        self.counts["failed" if delay is not None else "given_up"] += 1
        log.warning("the webhook of job %s failed: %s (call %d)", job.id, fault, delivery.attempts)
        await self._store.webhook_failed(job.id, fault, delay)

    async def _call(self, client: httpx.AsyncClient, delivery: Delivery) -> tuple[str | None, bool]:
        """What went wrong, None for nothing; and whether it may be tried again."""
        config = self._config()
        try:
            target = rules.target_of(delivery.url, config.webhook_allowed_hosts)
            async with asyncio.timeout(_CALL_SECS):
                address = await _resolve(target, may_be_inside=config.webhook_allow_private)
                request = self._request(client, target, address, delivery)
                response = await client.send(request, stream=True)
                await response.aclose()
        except JobRefused as error:
            return error.detail, False
        except (OSError, httpx.HTTPError) as error:  # TimeoutError is an OSError
            return f"{target.host}: {type(error).__name__}", True
        if response.is_success:
            return None, False
        return f"it answered {response.status_code}", not rules.is_final(response.status_code)

    def _request(
        self, client: httpx.AsyncClient, target: rules.Target, address: str, delivery: Delivery
    ) -> httpx.Request:
        config, job = self._config(), delivery.job
        told = document(job, config.jobs_path, None, None)
        message = {"type": f"job.{job.state}", "timestamp": told["finished_at"], "data": told}
        body = json.dumps(message).encode()
        message_id, now = f"job_{job.id}", int(time.time())
        headers = {
            "Host": target.authority,
            "Content-Type": "application/json",
            "User-Agent": "fifo-proxy",
            "webhook-id": message_id,
            "webhook-timestamp": str(now),
        }
        if config.webhook_secret is not None:
            secret = base64.b64decode(config.webhook_secret.get_secret_value().removeprefix("whsec_"))
            headers["webhook-signature"] = rules.signature(secret, message_id, now, body)
        literal = f"[{address}]" if ":" in address else address
        return client.build_request(
            "POST",
            f"{target.scheme}://{literal}:{target.port}{target.path}",
            content=body,
            headers=headers,
            extensions={"sni_hostname": target.host},
        )


async def _resolve(target: rules.Target, *, may_be_inside: bool) -> str:
    """The address to connect to. Raises JobRefused where one of them is inside, OSError where there is none."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    if not may_be_inside and any(map(rules.is_inside, addresses)):
        raise JobRefused(
            f"Webhook-Url: {target.host} is inside the operator's network (webhook_allow_private)"
        )
    return addresses[0]
