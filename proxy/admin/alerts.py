"""`alert_webhook`: each change of health, told once, in order, whatever the receiver does.

A message is waiting -> being sent -> delivered (an answer 2xx), or tried again after 1 s, doubling to 60 s. Always:
one is sent at a time, the oldest first; the next waits until it is delivered, and of more than `_MOST_WAITING` the
oldest is dropped; nothing else waits for any of this. Delivery is at least once: a receiver that took a message but
did not say so gets it again, with the same `id`.

The address is a secret, as it is with most receivers: no log line, page or error has more than its host.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Callable, Set
from typing import Any
from urllib.parse import urlsplit

import httpx

from proxy.clock import Clock
from proxy.config import Config
from proxy.health import Health, Reason
from proxy.tasks import Tasks

log = logging.getLogger(__name__)

SETTLE_SECS = 5.0
_FIRST_SECS, _LONGEST_SECS = 1.0, 60.0
_MOST_WAITING = 100
_TRIES_UNNOTICED = 3  # failures in a row until health says that alerts do not get through


class Damper:
    """Which changes are told: a reason that has held for `SETTLE_SECS`, and one that has been gone for as long.
    Pure: told the time. `told`: what the last message said is wrong."""

    def __init__(self) -> None:
        self.told: frozenset[str] = frozenset()
        self._since: dict[str, float] = {}

    def observe(self, codes: Set[str], now: float) -> tuple[list[str], list[str]] | None:
        """What is to be told now as added and as cleared; None for nothing."""
        self._since = {code: self._since.get(code, now) for code in self.told ^ codes}
        due = {code for code, since in self._since.items() if now - since >= SETTLE_SECS}
        if not due:
            return None
        self.told ^= due
        return sorted(due & codes), sorted(due - codes)


class Alerts:
    """`look` is to be called after each update of `health`. `proxy_name`: for a receiver that hears several."""

    def __init__(
        self,
        config: Callable[[], Config],
        health: Health,
        clock: Clock,
        *,
        proxy_name: str,
        timeout_secs: float = 10.0,
    ) -> None:
        self._config = config
        self._health = health
        self._clock = clock
        self._proxy_name = proxy_name
        self._timeout_secs = timeout_secs
        self._damper = Damper()
        self._seen: dict[str, Reason] = {}  # as they were last; one that ends is told for five seconds more
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_MOST_WAITING)
        self._sender: asyncio.Task[None] | None = None
        self._tasks = Tasks()

    def look(self) -> None:
        """Take note of what is wrong now; a change that has settled is on its way when this returns."""
        if self._config().alert_webhook is None:
            self._damper = Damper()  # one that is configured later hears what is wrong then
            self._waiting.clear()
            self._health.clear("alert_undelivered")
            return
        # That alerts do not get through would be told once they do.
        reasons = {r.code: r for r in self._health.reasons if r.code != "alert_undelivered"}
        self._seen |= reasons
        change = self._damper.observe(reasons.keys(), self._clock.now())
        if change is None:
            return
        added, cleared = change
        told = [reason for code, reason in self._seen.items() if code in self._damper.told]
        if len(self._waiting) == _MOST_WAITING:
            log.error("%d alerts wait for alert_webhook: the oldest is dropped", _MOST_WAITING)
        self._waiting.append(
            {
                "id": str(uuid.uuid4()),
                "proxy": self._proxy_name,
                "at": self._clock.utc(self._clock.now()),
                "state": "degraded" if self._damper.told else "ok",
                "reasons": [
                    {"code": reason.code, "detail": reason.detail, "since": self._clock.utc(reason.since)}
                    for reason in told
                ],
                "added": added,
                "cleared": cleared,
            }
        )
        if self._sender is None or self._sender.done():
            self._sender = self._tasks.spawn(self._send_all(), "send alerts")

    async def stop(self) -> None:
        """What was not delivered is dropped."""
        await self._tasks.stop()

    async def _send_all(self) -> None:
        tries = 0
        async with httpx.AsyncClient(timeout=None, follow_redirects=False) as client:
            while self._waiting:
                message = self._waiting[0]
                failure = await self._send(client, message)
                if failure is None:
                    tries = 0
                    self._health.clear("alert_undelivered")
                    if self._waiting and self._waiting[0] is message:  # else it was dropped meanwhile
                        self._waiting.popleft()
                    continue
                tries += 1
                log.warning("alert_webhook: %s (try %d)", failure, tries)
                if tries >= _TRIES_UNNOTICED:
                    self._health.report(
                        "alert_undelivered", f"alert_webhook: {failure}, {tries} times in a row"
                    )
                await asyncio.sleep(min(_FIRST_SECS * 2.0 ** min(tries - 1, 10), _LONGEST_SECS))

    async def _send(self, client: httpx.AsyncClient, message: dict[str, Any]) -> str | None:
        """Why it was not delivered, None when it was."""
        config = self._config()
        if config.alert_webhook is None:
            return None
        url = config.alert_webhook.get_secret_value()
        host = urlsplit(url).hostname
        token = config.alert_webhook_token
        headers = {"Authorization": f"Bearer {token.get_secret_value()}"} if token is not None else {}
        try:
            async with (
                asyncio.timeout(self._timeout_secs),
                client.stream("POST", url, json=message, headers=headers) as response,
            ):
                if response.is_success:
                    return None
                return f"{host} answered {response.status_code}"
        except TimeoutError:
            return f"{host} did not answer within {self._timeout_secs:g} s"
        except httpx.HTTPError as error:
            return f"{host}: {type(error).__name__}"
