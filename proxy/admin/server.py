"""The admin port: health, metrics, status and the page, on aiohttp, apart from the users' traffic.

What always holds:
- With `admin_token` set, nothing that tells a fact is given without it. Open are the two health paths, for
  load balancers, and the page's files, which hold no fact: a browser sends no header when it opens a page.
- Without a token on a loopback address, only a Host that is an IP address, `localhost` or `admin_host` is
  served: a web page that points its own name at 127.0.0.1 (DNS rebinding) gets nothing.
- Every error is problem+json, and nothing is to be stored by anybody.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Callable
from http import HTTPStatus
from importlib.resources import files
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from proxy.admin.status import View, change_mark, status
from proxy.config import Config, effective
from proxy.config.checks import is_loopback

log = logging.getLogger(__name__)

MAX_STREAMS = 16
_POLL_SECS = 0.2  # how soon a change is told
_EVENT_SECS = 1.0  # how often the status is told anyway
_STALL_SECS = 10.0  # a client that takes nothing for so long is let go
_STOP_SECS = 2.0

_PAGE = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
_OPEN_PATHS = {"/healthz", "/readyz", *_PAGE}
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
        *,
        is_accepting: Callable[[], bool],
    ) -> None:
        self._config = config
        self._view = view
        self._registry = registry
        self._is_accepting = is_accepting
        self._stopping = asyncio.Event()
        self._streams = 0
        folder = files("proxy.admin") / "dashboard"
        self._page = {path: ((folder / name).read_bytes(), kind) for path, (name, kind) in _PAGE.items()}
        app = web.Application(middlewares=[_problems, self._guard])
        app.on_response_prepare.append(_add_headers)
        app.add_routes([web.get(path, self._get_page) for path in _PAGE])
        app.add_routes(
            [
                web.get("/healthz", self._get_health),
                web.get("/readyz", self._get_ready),
                web.get("/metrics", self._get_metrics),
                web.get("/api/status", self._get_status),
                web.get("/api/config", self._get_config),
                web.get("/api/events", self._get_events, allow_head=False),
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
        self._stopping.set()
        await self._runner.cleanup()

    @property
    def port(self) -> int:
        """The port it listens on, also where 0 was configured."""
        port: int = self._runner.addresses[0][1]
        return port

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        config = self._config()
        if config.admin_token is not None:
            if request.path not in _OPEN_PATHS:
                _demand_token(request, config.admin_token.get_secret_value())
        elif is_loopback(config.admin_host) and not _is_local_name(request, config.admin_host):
            raise web.HTTPForbidden(text="Without an admin_token use an IP address or localhost as the host.")
        return await handler(request)

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

    async def _get_events(self, request: web.Request) -> web.StreamResponse:
        """SSE: an event `status` with the JSON of `/api/status`, each second and soon after each change.

        The next is made when the last was taken, so a slow client misses some and never piles them up.
        """
        if self._streams >= MAX_STREAMS:
            raise web.HTTPServiceUnavailable(
                text=f"{MAX_STREAMS} clients follow already.", headers={"Retry-After": "10"}
            )
        self._streams += 1
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
            await response.prepare(request)
            await self._tell(request, response)
        finally:
            self._streams -= 1
        return response

    async def _tell(self, request: web.Request, response: web.StreamResponse) -> None:
        told_mark: object = None
        told_at = 0.0
        while not self._stopping.is_set():
            now, mark = self._view.clock.now(), change_mark(self._view)
            if mark != told_mark or now - told_at >= _EVENT_SECS:
                told_mark, told_at = mark, now
                event = f"event: status\ndata: {json.dumps(status(self._view))}\n\n"
                try:
                    async with asyncio.timeout(_STALL_SECS):
                        await response.write(event.encode())
                except (ConnectionError, TimeoutError):
                    if request.transport is not None:
                        request.transport.abort()
                    return
            try:
                async with asyncio.timeout(_POLL_SECS):
                    await self._stopping.wait()
            except TimeoutError:
                continue


def _demand_token(request: web.Request, token: str) -> None:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    is_same = hmac.compare_digest(given.strip().encode(errors="surrogateescape"), token.encode())
    if scheme.lower() != "bearer" or not is_same:
        raise web.HTTPUnauthorized(
            text="The admin_token is required, as a Bearer token.",
            headers={"WWW-Authenticate": 'Bearer realm="fifo-proxy admin"'},
        )


def _is_local_name(request: web.Request, admin_host: str) -> bool:
    """Whether the request's Host can have been meant for us. None at all is fine: every browser sends one."""
    given = request.headers.get("Host")
    if given is None:
        return True
    try:
        host = urlsplit(f"//{given}").hostname or ""
    except ValueError:
        return False
    return host in ("localhost", admin_host.lower()) or _is_ip_address(host)


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@web.middleware
async def _problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors as problem+json (RFC 9457); one that nobody foresaw is logged and told without its cause."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        kept = {
            name: error.headers[name]
            for name in ("Allow", "Retry-After", "WWW-Authenticate")
            if name in error.headers
        }
        default = f"{error.status}: {error.reason}"
        return _problem(error.status, "" if error.text == default else error.text or "", kept)
    except Exception:
        log.exception("admin request failed", extra={"fields": {"path": request.path}})
        return _problem(500, "See the log.", {})


def _problem(status_code: int, detail: str, headers: dict[str, str]) -> web.Response:
    body = {"type": "about:blank", "title": HTTPStatus(status_code).phrase, "status": status_code}
    if detail:
        body["detail"] = detail
    return web.json_response(
        body, status=status_code, headers=headers, content_type="application/problem+json"
    )


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
