"""Who may ask the admin port, and who may give orders.

What always holds:
- With `admin_token` set, nothing that tells a fact is given without it. Open are the two health paths, for
  load balancers, and the page's files, which hold no fact: a browser sends no header when it opens a page.
- Without a token on a loopback address, only a Host that is an IP address, `localhost` or `admin_host` is
  served: a web page that points its own name at 127.0.0.1 (DNS rebinding) gets nothing.
- Without a token an order is taken only as JSON, which no page of another origin can send without asking
  first (CORS, which nobody here answers), and not from a browser that says it comes from elsewhere.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from proxy.config import Config
from proxy.config.checks import is_loopback


def guard(config: Callable[[], Config], open_paths: Collection[str]) -> Middleware:
    """The middleware that lets only those in who may. `config` is asked at each request."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        now = config()
        if now.admin_token is not None:
            if request.path not in open_paths:
                _demand_token(request, now.admin_token.get_secret_value())
        else:
            if is_loopback(now.admin_host) and not _is_local_name(request, now.admin_host):
                raise web.HTTPForbidden(
                    text="Without an admin_token use an IP address or localhost as the host."
                )
            if request.method == "POST":
                _demand_own_page(request)
        return await handler(request)

    return check


def _demand_token(request: web.Request, token: str) -> None:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    is_same = hmac.compare_digest(given.strip().encode(errors="surrogateescape"), token.encode())
    if scheme.lower() != "bearer" or not is_same:
        raise web.HTTPUnauthorized(
            text="The admin_token is required, as a Bearer token.",
            headers={"WWW-Authenticate": 'Bearer realm="fifo-proxy admin"'},
        )


def _demand_own_page(request: web.Request) -> None:
    """A program sends neither Sec-Fetch-Site nor Origin; a browser sends at least one of them with a POST."""
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(text="Expected Content-Type: application/json.")
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    is_own = site in (None, "same-origin")
    if origin is not None:
        is_own = is_own and origin.partition("://")[2].lower() == request.headers.get("Host", "").lower()
    if not is_own:
        raise web.HTTPForbidden(text="Orders from pages of another origin are not taken.")


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
