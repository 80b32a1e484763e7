"""Calls the webhooks of jobs that are over; only on the leader.

Always: a call that was not answered 2xx is repeated, by whoever leads then, for a day; so it may come more than once,
each time with the same `webhook-id`. The address is resolved once for each call, looked at, and used as it is: no name
can change its meaning in between, and no redirect is followed. Each call has a client of its own: connections and
cookies are kept by address, and receivers at one address (a CDN's) would get those of each other. A slow receiver
holds up no other until `_AT_ONCE` of them are slow.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable

import httpx

from proxy.config import Config
from proxy.config.kinds import signing_key
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
_CALL_SECS = 10.0
_HOLD_SECS = 60.0  # longer than a call
_LAST_CALLS_SECS = 2.0


class Webhooks:
    """`counts`: calls by result."""

    def __init__(self, config: Callable[[], Config], store: Store, heartbeat: Heartbeat) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))
        self._config = config
        self._store = store
        self._heartbeat = heartbeat
        self._tls = ssl.create_default_context()
        self._is_over = False
        self._has_news = asyncio.Event()  # a call has ended, or all is over
        self._out = 0
        self._tasks = Tasks()

    def start(self) -> None:
        self._tasks.spawn(self._call_all(), "call webhooks")

    async def stop(self) -> None:
        """Calls that are out have a moment: what came of one that is cut is not known, so it would be held for long."""
        self._is_over = True
        self._has_news.set()
        await self._tasks.drain(_LAST_CALLS_SECS)
        await self._tasks.stop()

    def check(self, url: str) -> None:
        """Raises JobRefused for one that will not be called."""
        _target(url, self._config())

    async def _call_all(self) -> None:
        while not self._is_over:
            self._has_news.clear()
            if self._heartbeat.is_leader and self._out < _AT_ONCE:
                try:
                    for delivery in await self._store.take_webhooks(_AT_ONCE - self._out, _HOLD_SECS):
                        self._out += 1
                        self._tasks.spawn(self._deliver(delivery), "call a webhook")
                except StoreUnavailable as error:
                    self._heartbeat.failed(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECS):
                    await self._has_news.wait()

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            fault, may_retry = await self._call(delivery)
            await self._note(delivery, fault, may_retry=may_retry)
        except StoreUnavailable as error:
            self._heartbeat.failed(error)  # it is due again once `_HOLD_SECS` are over
        finally:
            self._out -= 1
            self._has_news.set()

    async def _note(self, delivery: Delivery, fault: str | None, *, may_retry: bool) -> None:
        job_id = delivery.job.id
        if fault is None:
            self.counts["delivered"] += 1
            await self._store.webhook_done(job_id)
            return
        delay = rules.retry_in_secs(delivery.attempts, random.random()) if may_retry else None
        self.counts["failed" if delay is not None else "given_up"] += 1
        log.warning("the webhook of job %s failed: %s (call %d)", job_id, fault, delivery.attempts)
        await self._store.webhook_failed(job_id, fault, delay)

    async def _call(self, delivery: Delivery) -> tuple[str | None, bool]:
        """What went wrong, None for nothing; and whether it may be tried again."""
        config = self._config()
        try:
            target = _target(delivery.url, config)
            async with asyncio.timeout(_CALL_SECS):
                address = await _resolve(target, may_be_inside=config.webhook_allow_private)
                async with self._client() as client:
                    request = _request(client, config, target, address, delivery)
                    response = await client.send(request, stream=True)
                    await response.aclose()  # its body is of no interest
        except JobRefused as error:
            return error.detail, True  # another configuration or name server may allow it
        except (OSError, httpx.HTTPError, httpx.InvalidURL) as error:  # TimeoutError is an OSError
            return f"{target.host}: {type(error).__name__}", True
        if response.is_success:
            return None, False
        return f"it answered {response.status_code}", not rules.is_final(response.status_code)

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            verify=self._tls, timeout=_CALL_SECS, follow_redirects=False, trust_env=False
        )


def _target(url: str, config: Config) -> rules.Target:
    return rules.target_of(url, config.webhook_allowed_hosts, may_be_plain=config.webhook_allow_private)


def _request(
    client: httpx.AsyncClient, config: Config, target: rules.Target, address: str, delivery: Delivery
) -> httpx.Request:
    """Raises JobRefused where there is nothing to sign it with."""
    if config.webhook_secret is None:
        raise JobRefused("there is no webhook_secret to sign it with")
    told = document(delivery.job, config.jobs_path, None, None)
    message = {"type": f"job.{delivery.job.state}", "timestamp": told["finished_at"], "data": told}
    body = json.dumps(message).encode()
    message_id, now = f"job_{delivery.job.id}", int(time.time())
    headers = {
        "Host": target.authority,
        "Content-Type": "application/json",
        "User-Agent": "fifo-proxy",
        "webhook-id": message_id,
        "webhook-timestamp": str(now),
        "webhook-signature": rules.signature(signing_key(config.webhook_secret), message_id, now, body),
    }
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
