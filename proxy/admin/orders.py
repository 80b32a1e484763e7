"""The orders of `actions.py` over HTTP: POST with a JSON object, whose `by` names who gives the order."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from proxy.admin.actions import Action, Actions, Who
from proxy.admin.status import action_json
from proxy.clock import Clock
from proxy.errors import BadOrder

MAX_BODY_BYTES = 4096
_MAX_NAME = 64
_MAX_NODES = 1_000_000


def order_routes(actions: Actions, clock: Clock) -> list[web.RouteDef]:
    """Answers 200 with the action as `/api/actions` tells it; 400, 404 and 409 are problems."""

    def route(
        path: str, order: Callable[[Who, web.Request, dict[str, Any]], Action], *keys: str
    ) -> web.RouteDef:
        async def handle(request: web.Request) -> web.Response:
            body = await _body(request, {"by", *keys})
            return web.json_response(action_json(order(_who(request, body), request, body), clock))

        handler: Handler = handle
        return web.post(path, handler)

    return [
        route("/api/nodes/{name}/drain", lambda who, to, _: actions.drain_node(who, to.match_info["name"])),
        route(
            "/api/nodes/{name}/replace", lambda who, to, _: actions.replace_node(who, to.match_info["name"])
        ),
        route("/api/nodes/{name}/resume", lambda who, to, _: actions.resume_node(who, to.match_info["name"])),
        route("/api/queue/{id}/remove", lambda who, to, _: actions.remove_request(who, to.match_info["id"])),
        route("/api/scaling/hold", lambda who, *_: actions.hold_scaling(who)),
        route("/api/scaling/resume", lambda who, *_: actions.resume_scaling(who)),
        route("/api/scaling/nodes", lambda who, _, body: actions.set_nodes(who, _count(body)), "count"),
        route("/api/dispatch/hold", lambda who, *_: actions.hold_dispatch(who)),
        route("/api/dispatch/resume", lambda who, *_: actions.resume_dispatch(who)),
    ]


async def _body(request: web.Request, known: set[str]) -> dict[str, Any]:
    """An empty body is an empty object."""
    text = await request.read()
    try:
        body = json.loads(text or b"{}")
    except ValueError:
        raise BadOrder("expected a JSON object") from None
    if not isinstance(body, dict):
        raise BadOrder("expected a JSON object")
    if unknown := sorted(body.keys() - known):
        raise BadOrder(f"unknown key {unknown[0]}; expected {', '.join(sorted(known))}")
    return body


def _who(request: web.Request, body: dict[str, Any]) -> Who:
    name = body.get("by", "")
    if not isinstance(name, str) or len(name) > _MAX_NAME or not name.isprintable():
        raise BadOrder(f"by: expected a name of at most {_MAX_NAME} printable characters")
    return Who(name.strip(), request.remote or "")


def _count(body: dict[str, Any]) -> int:
    count = body.get("count")
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MAX_NODES:
        raise BadOrder("count: expected a whole number of nodes, 0 or more")
    return count
