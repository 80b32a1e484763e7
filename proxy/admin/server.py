"""The admin port: health, metrics, status, orders and the page, on aiohttp, apart from the users' traffic.

Who may ask is `guard.py`'s. What always holds: every error is problem+json, and nothing is to be stored by anybody.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from importlib.resources import files
from pathlib import PurePath

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from proxy.admin.events import Events
from proxy.admin.guard import guard
from proxy.admin.history import History, history_json
from proxy.admin.orders import MAX_BODY_BYTES, order_routes
from proxy.admin.problems import tell_problems
from proxy.admin.queue import MOST_SHOWN, queue
from proxy.admin.status import View, actions_json, status
from proxy.config import Config, effective
from proxy.errors import BadOrder, StoreUnavailable, UnknownTarget

log = logging.getLogger(__name__)

_STOP_SECS = 2.0
_USUALLY_SHOWN = 100  # of what waits

_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


def _page_files() -> dict[str, tuple[bytes, str]]:
    """What the page consists of, by path: content and type."""
    found = {}
    for file in (files("proxy.admin") / "dashboard").iterdir():
        path = "/" if file.name == "index.html" else f"/{file.name}"
        found[path] = (file.read_bytes(), _KINDS[PurePath(file.name).suffix])
    return found


_HEADERS = {
    "Server": "fifo-proxy",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class AdminServer:
    """Listens between `start` and `stop`.

    `config` is asked at each request, so that a reload counts at once (but for the address).
    `is_accepting`: whether users' traffic is taken, which is after listening and before stopping.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        view: View,
        registry: CollectorRegistry,
        history: History,
        *,
        is_accepting: Callable[[], bool],
    ) -> None:
        self._config = config
        self._view = view
        self._registry = registry
        self._is_accepting = is_accepting
        self._events = Events(view)
        self._history = history
        self._page = _page_files()
        open_paths = {"/healthz", "/readyz", *self._page}
        app = web.Application(
            middlewares=[tell_problems, guard(config, open_paths)], client_max_size=MAX_BODY_BYTES
        )
        app.on_response_prepare.append(_add_headers)
        app.add_routes([web.get(path, self._get_page) for path in self._page])
        app.add_routes(
            [
                web.get("/healthz", self._get_health),
                web.get("/readyz", self._get_ready),
                web.get("/metrics", self._get_metrics),
                web.get("/api/status", self._get_status),
                web.get("/api/config", self._get_config),
                web.get("/api/queue", self._get_queue),
                web.get("/api/jobs", self._get_jobs),
                web.get("/api/actions", self._get_actions),
                web.get("/api/history", self._get_history),
                web.get("/api/events", self._events.follow, allow_head=False),
                *order_routes(view.actions, view.clock),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_SECS)

    async def start(self) -> None:
        """Raises OSError where the address cannot be had."""
        config = self._config()
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, config.admin_host, config.admin_port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        log.info("admin port listens", extra={"fields": {"host": config.admin_host, "port": self.port}})

    async def stop(self) -> None:
        """Ends the event streams, lets running answers finish for two seconds, closes."""
        self._events.stop()
        await self._runner.cleanup()

    @property
    def port(self) -> int:
        """The port it listens on, also where 0 was configured."""
        port: int = self._runner.addresses[0][1]
        return port

    async def _get_page(self, request: web.Request) -> web.Response:
        body, kind = self._page[request.path]
        return web.Response(body=body, content_type=kind, charset="utf-8")

    async def _get_health(self, request: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def _get_ready(self, request: web.Request) -> web.Response:
        if self._is_accepting():
            return web.Response(text="ready\n")
        raise web.HTTPServiceUnavailable(text="Not accepting requests.")

    async def _get_metrics(self, request: web.Request) -> web.Response:
        encode, kind = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": kind})

    async def _get_status(self, request: web.Request) -> web.Response:
        return web.json_response(status(self._view))

    async def _get_config(self, request: web.Request) -> web.Response:
        return web.json_response(effective(self._config()))

    async def _get_queue(self, request: web.Request) -> web.Response:
        return web.json_response(queue(self._view.dispatcher, self._view.clock.now(), _limit(request)))

    async def _get_jobs(self, request: web.Request) -> web.Response:
        jobs = self._view.jobs
        if jobs is None:
            raise UnknownTarget("there are no jobs here (database_url)")
        try:
            found = await jobs.search(request.query.getall("state", []), _limit(request))
        except StoreUnavailable as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from error
        return web.json_response({"jobs": found})

    async def _get_history(self, request: web.Request) -> web.Response:
        try:
            since = float(request.query.get("since", "0"))
        except ValueError:
            since = math.nan
        if not math.isfinite(since):
            raise BadOrder("since: expected seconds after origin, or before now as a negative number")
        step = request.query.get("step", "fine")
        if step not in ("fine", "coarse"):
            raise BadOrder("step: expected fine (an hour) or coarse (a day)")
        told = history_json(self._history, self._view.clock, since_secs=since, is_coarse=step == "coarse")
        response = web.json_response(told)
        response.enable_compression()
        return response

    async def _get_actions(self, request: web.Request) -> web.Response:
        return web.json_response(actions_json(self._view.actions, self._view.clock))


def _limit(request: web.Request) -> int:
    given = request.query.get("limit", str(_USUALLY_SHOWN))
    if not given.isascii() or not given.isdigit() or len(given) > 4 or int(given) > MOST_SHOWN:
        raise BadOrder(f"limit: expected a whole number, at most {MOST_SHOWN}")
    return int(given)


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
