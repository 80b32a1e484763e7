"""Readiness: a GET of the health path; exactly 200 is ready, whatever the body says.

What always holds:
- One probe per node at a time, each a task of its own: a slow one delays no other.
- A leased node is never asked. An answer counts only if the node is still what it was when it was asked
  (`epoch`, address): one that was leased meanwhile, even if it is idle again, is asked anew.
- A probe leaves no connection behind: a node that serves one connection at a time would wait on it.
"""

from __future__ import annotations

import asyncio
import math
import random
import ssl
import time
from collections.abc import Callable
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from proxy.config import Config
from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.nodes import Node, NodeState, Probe
from proxy.tasks import Tasks

_SCAN_SECS = 0.25  # how late a probe may be; 500 nodes looked through so often cost 0.1 % of a core
_STAGGER_SECS = 0.002  # between probes due at once: begun together, 500 would stop all traffic for 0.2 s
_GRACE_SECS = 1.0  # a node that broke or answered early is still at work: it is asked a second later
_MAX_BODY_BYTES = 65536  # read, so that the node can finish its answer, but not without end


def open_client(config: Config) -> httpx.AsyncClient:
    """The client for probes: no redirects, proxies of the environment, cookies or connections that stay."""
    verify: ssl.SSLContext | bool = config.node_tls_verify
    if config.node_tls_verify and config.node_ca_file is not None:
        verify = ssl.create_default_context(cafile=config.node_ca_file)
    return httpx.AsyncClient(
        verify=verify,
        trust_env=False,
        follow_redirects=False,
        headers={"Connection": "close", "User-Agent": "fifo-proxy"},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        timeout=None,  # a probe's time is limited as a whole
    )


class Prober:
    """Asks every node that runs and has an address, as often as its state calls for.

    `close_idle_link(node)` closes the proxy's own unused connection to the node. `client` stays the caller's.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        config: Config,
        close_idle_link: Callable[[Node], None],
        client: httpx.AsyncClient,
        *,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._dispatcher = dispatcher
        self._config = config
        self._close_idle_link = close_idle_link
        self._client = client
        self._clock = clock
        self._random = random
        self._tasks = Tasks()
        self._timer: asyncio.TimerHandle | None = None
        self._asked: dict[int, tuple[float, float]] = {}  # by node number: when last, and a number by chance
        self._in_flight: set[int] = set()

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_SCAN_SECS, self.start)
        self._ask_due()

    async def stop(self) -> None:
        if self._timer:
            self._timer.cancel()
        await self._tasks.stop()

    def apply(self, config: Config) -> None:
        """Take over changed intervals, limits and path."""
        self._config = config

    def _ask_due(self) -> None:
        now = self._clock()
        nodes = self._dispatcher.nodes
        delay = 0.0
        for node in nodes:
            if (
                node.is_running
                and node.url
                and node.number not in self._in_flight
                and self._is_due(node, now)
            ):
                self._asked[node.number] = now, self._random()
                self._in_flight.add(node.number)
                self._tasks.spawn(self._ask(node, node.epoch, delay), f"probe {node.name}")
                delay += _STAGGER_SECS
        if len(self._asked) > 2 * len(nodes):
            self._asked = {n.number: self._asked[n.number] for n in nodes if n.number in self._asked}

    def _is_due(self, node: Node, now: float) -> bool:
        """`since`: when what we want to know began. The first probe is due `first` later."""
        asked_at, chance = self._asked.get(node.number, (-math.inf, 0.5))
        every = self._config.start_probe_interval_secs
        match node.state:
            case NodeState.STARTING:
                since, first = node.created_at, 0.0
            case NodeState.UNREADY if node.unready_since is not None:
                since, first = node.unready_since, _GRACE_SECS
            case NodeState.BUSY if node.settling_since is not None:
                since, first = node.settling_since, _GRACE_SECS
            case NodeState.IDLE if node.last_used_at is not None:
                # A run that ended well says as much as a probe. Give or take a tenth, so that nodes adopted
                # in one moment are not asked in one moment for ever.
                first = every = self._config.node_refresh_interval_secs * (0.9 + chance / 5)
                since = node.last_used_at
            case _:
                return False
        return now >= (since + first if asked_at < since else asked_at + every)

    async def _ask(self, node: Node, epoch: int, delay: float) -> None:
        try:
            await asyncio.sleep(delay)
            if node.epoch != epoch:
                return  # leased meanwhile, perhaps: one that serves is not asked
            url = node.url
            probe = await self._probe(node)
            if node.state is NodeState.IDLE and node.epoch == epoch and probe.status is None:
                # A server that takes one connection at a time waits on our idle link: it is not to blame yet.
                self._close_idle_link(node)
                probe = await self._probe(node)
            node.last_probe = probe
            if node.epoch != epoch or node.url != url:
                return
            if probe.status == 200:
                self._dispatcher.ready(node, probe.at)
            elif node.state is NodeState.IDLE:
                self._dispatcher.unready(node, probe.at, f"its probe: {probe.error or probe.status}")
        finally:
            self._in_flight.discard(node.number)

    async def _probe(self, node: Node) -> Probe:
        limit = self._config.probe_timeout_secs
        status, error = None, None
        try:
            async with (
                asyncio.timeout(limit),
                self._client.stream("GET", f"{node.url}{self._config.health_check_path}") as response,
            ):
                size = 0
                async for chunk in response.aiter_raw():
                    size += len(chunk)
                    if size > _MAX_BODY_BYTES:
                        break
                status = response.status_code
        except TimeoutError:
            error = f"no answer within {limit:g} s"
        except (httpx.HTTPError, httpx.InvalidURL) as fault:
            error = f"{type(fault).__name__}: {fault}"
        return Probe(self._clock(), status, error)
