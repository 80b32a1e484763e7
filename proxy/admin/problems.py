"""Errors of the admin port: problem+json (RFC 9457), whoever raised them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from proxy.errors import OrderRefused

log = logging.getLogger(__name__)

_KEPT = ("Allow", "Retry-After", "WWW-Authenticate")


@web.middleware
async def tell_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The middleware; an error that nobody foresaw is logged and told without its cause."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        kept = {name: error.headers[name] for name in _KEPT if name in error.headers}
        default = f"{error.status}: {error.reason}"
        return _problem(error.status, "" if error.text == default else error.text or "", kept)
    except OrderRefused as error:
        return _problem(error.status, str(error), {})
    except Exception:
        log.exception("admin request failed", extra={"fields": {"path": request.path}})
        return _problem(500, "See the log.", {})


def _problem(status_code: int, detail: str, headers: Mapping[str, str]) -> web.Response:
    body = {"type": "about:blank", "title": HTTPStatus(status_code).phrase, "status": status_code}
    if detail:
        body["detail"] = detail
    return web.json_response(
        body, status=status_code, headers=headers, content_type="application/problem+json"
    )
