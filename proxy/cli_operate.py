"""The commands that give orders to a running proxy, over its admin port.

Each prints what came of it. Exit codes: 0 done, 1 refused or unreachable, 2 bad usage.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def admin_options(command: _Command) -> _Command:
    """`--admin` and `--token`, given to the command as `admin` and `token`."""
    token = click.option(
        "--token", envvar="FIFO_PROXY_ADMIN_TOKEN", show_envvar=True, help="Token of the admin port."
    )
    admin = click.option(
        "--admin",
        metavar="URL",
        default=lambda: f"http://127.0.0.1:{os.environ.get('FIFO_PROXY_ADMIN_PORT', '8081')}",
        show_default="http://127.0.0.1:8081, or the port that FIFO_PROXY_ADMIN_PORT gives",
        help="Address of the admin port.",
    )
    return admin(token(command))


def _order_options(command: _Command) -> _Command:
    by = click.option("--by", metavar="NAME", help="Who gives the order; by default the name of this user.")
    return admin_options(by(command))


@click.group()
def node() -> None:
    """Drain, replace or resume a node. NAME is its name or id, as status shows it."""


@node.command("drain")
@click.argument("name")
@_order_options
def drain_node(name: str, admin: str, token: str | None, by: str | None) -> None:
    """Take a node out of use; a busy one ends its run first.

    Then it is destroyed. A static node cannot be: it stays out of use until it is resumed, or the proxy restarts.
    """
    _order(admin, token, by, f"/api/nodes/{quote(name, safe='')}/drain")


@node.command("replace")
@click.argument("name")
@_order_options
def replace_node(name: str, admin: str, token: str | None, by: str | None) -> None:
    """Make another node and let this one go; where max_nodes leaves no room, in the other order."""
    _order(admin, token, by, f"/api/nodes/{quote(name, safe='')}/replace")


@node.command("resume")
@click.argument("name")
@_order_options
def resume_node(name: str, admin: str, token: str | None, by: str | None) -> None:
    """Take a drain back: of a static node, or of any that is still busy."""
    _order(admin, token, by, f"/api/nodes/{quote(name, safe='')}/resume")


@click.group()
def queue() -> None:
    """See what waits, or remove a waiting request."""


@queue.command("list")
@click.option(
    "--limit", type=click.IntRange(0, 1000), default=20, show_default=True, help="Most requests shown."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@admin_options
def list_queue(limit: int, as_json: bool, admin: str, token: str | None) -> None:
    """Show the requests that wait, the next one first."""
    from proxy.admin_client import AdminClient, AdminUnavailable
    from proxy.status_view import show_queue

    try:
        with AdminClient(admin, token) as client:
            found = client.get(f"/api/queue?limit={limit}")
    except AdminUnavailable as error:
        _fail(error)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
    else:
        show_queue(found)


@queue.command("remove")
@click.argument("request_id", metavar="ID")
@_order_options
def remove_request(request_id: str, admin: str, token: str | None, by: str | None) -> None:
    """Take a waiting request out of the line; its client is answered 503, outcome not_sent."""
    _order(admin, token, by, f"/api/queue/{quote(request_id, safe='')}/remove")


@click.group()
def scaling() -> None:
    """Hold or resume scaling, or set the number of nodes once."""


@scaling.command("hold")
@_order_options
def hold_scaling(admin: str, token: str | None, by: str | None) -> None:
    """Create and destroy nothing, not even for min_nodes. Orders are carried out all the same."""
    _order(admin, token, by, "/api/scaling/hold")


@scaling.command("resume")
@_order_options
def resume_scaling(admin: str, token: str | None, by: str | None) -> None:
    """Let the scaler decide again."""
    _order(admin, token, by, "/api/scaling/resume")


@scaling.command("set")
@click.argument("count", type=click.IntRange(0, 1_000_000))
@_order_options
def set_nodes(count: int, admin: str, token: str | None, by: str | None) -> None:
    """Create or drain nodes, once, until COUNT remain, within min_nodes and max_nodes.

    From then on the scaler decides as always: hold scaling to keep the number.
    """
    _order(admin, token, by, "/api/scaling/nodes", count=count)


@click.group()
def dispatch() -> None:
    """Hold or resume dispatch."""


@dispatch.command("hold")
@_order_options
def hold_dispatch(admin: str, token: str | None, by: str | None) -> None:
    """Start nothing: requests wait, and queue_timeout_secs counts on; what runs goes on."""
    _order(admin, token, by, "/api/dispatch/hold")


@dispatch.command("resume")
@_order_options
def resume_dispatch(admin: str, token: str | None, by: str | None) -> None:
    """Start what waits, in its order."""
    _order(admin, token, by, "/api/dispatch/resume")


def _order(admin: str, token: str | None, by: str | None, path: str, **body: Any) -> None:
    from proxy.admin_client import AdminClient, AdminUnavailable

    try:
        with AdminClient(admin, token) as client:
            done = client.post(path, {"by": by if by is not None else _user(), **body})
    except AdminUnavailable as error:
        _fail(error)
    target = f" {done['target']}" if done["target"] else ""
    click.echo(f"{done['action'].replace('_', ' ')}{target}: {done['result']}")


def _user() -> str:
    """Nobody in a container has a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _fail(error: Exception) -> NoReturn:
    click.echo(f"fifo-proxy: {error}", err=True)
    sys.exit(1)
