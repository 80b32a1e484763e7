"""`fifo-proxy status`: asks the admin port for `/api/status` and draws the line, the nodes and the decisions.

What a node or a cloud said is shown as plain text, never as markup. Once shown, a watched proxy may go away
for a while: the view says so and goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from proxy.errors import FifoProxyError

_STATE_STYLES = {"idle": "green", "busy": "cyan", "starting": "yellow", "unready": "red", "draining": "dim"}
_DECISIONS_SHOWN = 10


class StatusUnavailable(FifoProxyError):
    """There is no status to show; the message is one line for the user."""


def show(admin: str, token: str | None, *, as_json: bool, every_secs: float | None) -> None:
    """Print the status once, or each `every_secs` seconds until interrupted; StatusUnavailable."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    console = Console()
    with httpx.Client(headers=headers, timeout=5, trust_env=False) as client:
        first = fetch(client, admin)
        if every_secs is None:
            _print(console, first, as_json)
            return
        try:
            if as_json:
                _print(console, first, as_json)
                for seen in _looks(client, admin, every_secs):
                    _print(console, seen if isinstance(seen, dict) else {"error": str(seen)}, as_json)
            else:
                with Live(render(first), console=console, auto_refresh=False) as live:
                    for seen in _looks(client, admin, every_secs):
                        shown = render(seen) if isinstance(seen, dict) else Text(str(seen), style="red")
                        live.update(shown, refresh=True)
        except KeyboardInterrupt:
            return


def fetch(client: httpx.Client, admin: str) -> dict[str, Any]:
    """The body of `/api/status` (DESIGN 1.5); StatusUnavailable says why there is none."""
    url = f"{admin.rstrip('/')}/api/status"
    try:
        response = client.get(url)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        raise StatusUnavailable(f"{admin} is no address such as http://127.0.0.1:8081") from None
    except httpx.HTTPError as error:
        raise StatusUnavailable(
            f"cannot reach the admin port at {admin}: {error or type(error).__name__}"
        ) from None
    if response.status_code in (401, 403):
        raise StatusUnavailable(f"{admin} demands the right admin token: --token or FIFO_PROXY_ADMIN_TOKEN")
    if response.status_code != 200:
        raise StatusUnavailable(f"{url} answered {response.status_code}; is it the admin port?")
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or not {"queue", "nodes", "scaler"} <= body.keys():
        raise StatusUnavailable(f"{url} gave no status; is it the admin port?")
    return body


def render(status: dict[str, Any]) -> RenderableType:
    """The status as tables."""
    queue, nodes, scaler = status["queue"], status["nodes"], status["scaler"]
    head = Text(f"fifo-proxy {status['version']}, up {_duration(status['uptime_secs'])}", style="bold")
    cells = {
        "waiting": f"{queue['length']} of {queue['capacity']}",
        "oldest waits": _duration(queue["oldest_wait_secs"]),
        **{key: str(queue[key]) for key in ("running", "joined", "served", "left", "refused")},
    }
    line = Table(*cells, title="Line", title_justify="left")
    line.add_row(*cells.values())
    parts: list[RenderableType] = [head, line, _nodes_table(nodes), _decisions_table(scaler["decisions"])]
    if scaler["last_error"]:
        parts.append(Text(f"last error of the scaler: {scaler['last_error']}", style="red"))
    return Group(*parts)


def _nodes_table(nodes: list[dict[str, Any]]) -> Table:
    table = Table(
        "name", "state", "served", "last request", "last probe", "url", title="Nodes", title_justify="left"
    )
    for node in nodes:
        probe = node["last_probe"] or {}
        outcome = probe.get("error") or probe.get("status") or "-"
        table.add_row(
            Text(node["name"], overflow="fold"),
            Text(node["state"], style=_STATE_STYLES.get(node["state"], "")),
            str(node["served"]),
            Text(_clock(node["last_processed_at"])),
            Text(f"{outcome} {_clock(probe.get('at'))}" if probe else "-"),
            Text(node["url"] or "-", overflow="fold"),
        )
    if not nodes:
        table.add_row("none", *[""] * 5)
    return table


def _decisions_table(decisions: list[dict[str, Any]]) -> Table:
    table = Table(
        "at (UTC)", "action", "count", "reason", title="Last scaling decisions", title_justify="left"
    )
    for decision in sorted(decisions, key=lambda decision: str(decision["at"]))[-_DECISIONS_SHOWN:]:
        cells = (_clock(decision["at"]), decision["action"], str(decision["count"]), decision["reason"])
        table.add_row(*(Text(cell, overflow="fold") for cell in cells))
    if not decisions:
        table.add_row("none", "", "", "")
    return table


def _looks(
    client: httpx.Client, admin: str, every_secs: float
) -> Iterator[dict[str, Any] | StatusUnavailable]:
    while True:
        time.sleep(every_secs)
        try:
            yield fetch(client, admin)
        except StatusUnavailable as error:
            yield error


def _print(console: Console, status: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(status, ensure_ascii=False), flush=True)
    else:
        console.print(render(status))


def _clock(moment: str | None) -> str:
    """The time of day of an RFC 3339 moment, which is UTC."""
    return moment[11:19] if moment else "-"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
