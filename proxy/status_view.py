"""`fifo-proxy status`: asks the admin port what is so and draws it for a terminal of 80 columns or more.

First what is wrong and held, then the line, the nodes, what the scaler did, what the provider said and what was
ordered. Whatever a node, a cloud or a client said is shown as plain text, never as markup or control codes. Once
shown, a watched proxy may go away for a while: the view says so and goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from proxy.admin_client import AdminClient, AdminUnavailable

_STATE_STYLES = {"idle": "green", "busy": "cyan", "starting": "yellow", "unready": "red", "draining": "dim"}
_SHOWN = 5  # of waits, decisions, provider errors and actions each


def show(admin: str, token: str | None, *, as_json: bool, every_secs: float | None) -> bool:
    """Print the status once, or each `every_secs` seconds until interrupted; AdminUnavailable.

    Returns whether the proxy was well when last looked at.
    """
    console = Console()
    with AdminClient(admin, token) as client:
        first = fetch(client, admin)
        last: dict[str, Any] | AdminUnavailable = first
        if every_secs is None:
            _print(console, first, as_json)
            return _is_well(first)
        try:
            if as_json:
                _print(console, first, as_json)
                for last in _looks(client, admin, every_secs):
                    _print(console, last if isinstance(last, dict) else {"error": str(last)}, as_json)
            else:
                with Live(render(first), console=console, auto_refresh=False) as live:
                    for last in _looks(client, admin, every_secs):
                        shown = render(last) if isinstance(last, dict) else Text(str(last), style="red")
                        live.update(shown, refresh=True)
        except KeyboardInterrupt:
            pass
        return isinstance(last, dict) and _is_well(last)


def fetch(client: AdminClient, admin: str) -> dict[str, Any]:
    """The body of `/api/status` (DESIGN 1.5), and under `waiting` the oldest that wait; AdminUnavailable says why
    there is none."""
    status = client.get("/api/status")
    if not isinstance(status, dict) or not {"queue", "nodes", "scaler", "health"} <= status.keys():
        raise AdminUnavailable(f"{admin.rstrip('/')}/api/status gave no status; is it the admin port?")
    waiting = client.get(f"/api/queue?limit={_SHOWN}")
    return status | {"waiting": waiting["waiting"]}


def render(status: dict[str, Any]) -> RenderableType:
    """The status, a part below the other; parts that have nothing to tell are left out."""
    parts: list[RenderableType] = [*_health(status), _line(status["queue"])]
    if status.get("jobs") is not None:
        parts.append(_jobs(status["jobs"]))
    if status["waiting"]:
        parts.append(_waiting(status["waiting"]))
    parts += [_nodes(status["nodes"]), _decisions(status["scaler"]["decisions"])]
    if status["provider_errors"]:
        parts.append(_provider_errors(status["provider_errors"][:_SHOWN]))
    if status["actions"]:
        parts.append(_actions(status["actions"][:_SHOWN]))
    return Group(*(line for part in parts for line in (part, "")))


def show_queue(queue: dict[str, Any]) -> None:
    """Print what `/api/queue` told."""
    waiting = queue["waiting"]
    if waiting:
        Console().print(_waiting(waiting))
    more = queue["length"] - len(waiting)
    print(f"{queue['length']} waiting" + (f", {more} of them not shown" if more else ""))


def _health(status: dict[str, Any]) -> Iterator[RenderableType]:
    health = status["health"]
    is_well = health["state"] == "ok"
    head = Text(f"fifo-proxy {status['version']}, up {_duration(status['uptime_secs'])}: ", style="bold")
    head.append(health["state"], style="bold green" if is_well else "bold red")
    for what, hold in status["held"].items():
        if hold is not None:
            told = f"{what} is held by {hold['by']} since {_clock(hold['at'])}"
            head.append("\n").append_text(_plain(told, style="yellow"))
    if status["needs_restart"]:
        changed = ", ".join(status["needs_restart"])
        head.append("\n").append_text(_plain(f"changed, but only after a restart: {changed}", style="yellow"))
    yield head
    if not is_well:
        table = _table("Since (UTC)", "Wrong", "What")
        for reason in health["reasons"]:
            table.add_row(
                _clock(reason["since"]), Text(reason["code"], style="red"), _plain(reason["detail"])
            )
        yield table


def _jobs(jobs: dict[str, Any]) -> RenderableType:
    states = ("queued", "running", "succeeded", "failed", "unknown", "expired", "cancelled")
    counts = ", ".join(f"{jobs[state]} {state}" for state in states if jobs[state]) or "none"
    text = _plain(f"jobs: {counts}", style="bold")
    if jobs["store"] == "down":
        text.append("; their database is down", style="red")
    return text


def _line(queue: dict[str, Any]) -> RenderableType:
    head = Text(f"{queue['length']} of {queue['capacity']} waiting", style="bold")
    if queue["length"]:
        head.append(f", the oldest for {_duration(queue['oldest_wait_secs'])}")
    head.append(f"; {queue['running']} running")
    counts = ", ".join(f"{queue[key]} {key}" for key in ("joined", "served", "left", "refused"))
    return Group(head, Text(f"since the start: {counts}", style="dim"))


def _waiting(waiting: list[dict[str, Any]]) -> Table:
    table = _table("#", "Waits", "Request and its id", "Bytes", "Client")
    for one in waiting:
        table.add_row(
            str(one["place"]),
            _duration(one["age_secs"]),
            _two_lines(f"{one['method']} {one['path']}", one["request_id"]),
            str(one["size_bytes"]),
            _plain(one["client"]),
        )
    return table


def _nodes(nodes: list[dict[str, Any]]) -> RenderableType:
    if not nodes:
        return Text("no node")
    table = _table("Node", "State", "Served", "Last used", "Last probe")
    for node in nodes:
        probe = node["last_probe"] or {}
        is_wrong = node["state"] == "unready" and node["reason"]
        outcome = node["reason"] if is_wrong else probe.get("error") or probe.get("status") or ""
        state = f"{node['state']} (drains)" if node["will_drain"] else node["state"]
        table.add_row(
            _two_lines(node["name"], node["url"]),
            Text(state, style=_STATE_STYLES.get(node["state"], "")),
            str(node["served"]),
            _clock(node["last_processed_at"]),
            _plain(f"{_clock(probe['at'])} {outcome}" if probe else "-"),
        )
    return table


def _decisions(decisions: list[dict[str, Any]]) -> RenderableType:
    if not decisions:
        return Text("no scaling decision yet")
    table = _table("At (UTC)", "Scaled", "Why")
    for decision in sorted(decisions, key=lambda decision: str(decision["at"]))[-_SHOWN:]:
        scaled = f"{decision['action']} by {decision['count']}"
        table.add_row(_clock(decision["at"]), scaled, _plain(decision["reason"]))
    return table


def _provider_errors(errors: Iterable[dict[str, Any]]) -> Table:
    table = _table("Last (UTC)", "Times", "Provider error")
    for error in errors:
        told = _plain(
            f"{error['operation']}: {error['detail']}", style="dim" if error["mended_at"] else "red"
        )
        if error["mended_at"]:
            told.append(f" (mended {_clock(error['mended_at'])})")
        table.add_row(_clock(error["at"]), str(error["count"]), told)
    return table


def _actions(actions: Iterable[dict[str, Any]]) -> Table:
    table = _table("At (UTC)", "By", "Ordered", "What came of it")
    for action in actions:
        ordered = f"{action['action'].replace('_', ' ')} {action['target']}"
        cells = (action["by"], ordered, action["result"])
        table.add_row(_clock(action["at"]), *map(_plain, cells))
    return table


def _table(*heads: str) -> Table:
    return Table(*heads, box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="dim")


def _is_well(status: dict[str, Any]) -> bool:
    return bool(status["health"]["state"] == "ok")


def _looks(client: AdminClient, admin: str, every_secs: float) -> Iterator[dict[str, Any] | AdminUnavailable]:
    while True:
        time.sleep(every_secs)
        try:
            yield fetch(client, admin)
        except AdminUnavailable as error:
            yield error


def _print(console: Console, status: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(status, ensure_ascii=False), flush=True)
    else:
        console.print(render(status))


def _plain(text: str, style: str = "") -> Text:
    """Text of others: what could steer a terminal is shown instead of done."""
    shown = text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return Text(shown, style=style, overflow="fold")


def _two_lines(text: str, more: str | None) -> Text:
    told = _plain(text)
    return told.append("\n").append_text(_plain(more, style="dim")) if more else told


def _clock(moment: str | None) -> str:
    """The time of day of an RFC 3339 moment, which is UTC."""
    return moment[11:19] if moment else "-"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
