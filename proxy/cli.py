"""The commands. Exit codes: 0 fine, 1 failed at run time, 2 bad usage or configuration.

Results go to standard output, complaints to standard error. What a command needs is imported when it runs, so
that a demo node starts fast and stays small.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from proxy import __version__, build_kind
from proxy.cli_operate import admin_options, dispatch, node, queue, scaling
from proxy.cli_what_if import refuse, simulate, tune

config_option = click.option(
    "--config",
    "config_path",
    metavar="PATH",
    type=click.Path(path_type=Path),
    envvar="FIFO_PROXY_CONFIG",
    show_envvar=True,
    default=Path("config.json"),
    show_default=True,
    help="Configuration file: JSON, comments and trailing commas allowed.",
)


class _ServeByDefault(click.Group):
    """`fifo-proxy` and `fifo-proxy --config PATH` mean `fifo-proxy serve`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help", "--version")):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ServeByDefault, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(f"{__version__} ({build_kind()})", prog_name="fifo-proxy")
def main() -> None:
    """A FIFO queueing reverse proxy for nodes that serve one request at a time. Without a command: serve."""


@main.command()
@config_option
def serve(config_path: Path) -> None:
    """Run the proxy until SIGTERM or SIGINT."""
    from proxy.errors import ConfigError
    from proxy.serve import run

    try:
        code = run(config_path)
    except ConfigError as error:
        refuse(error.faults)
    sys.exit(code)


@main.command()
@config_option
def check(config_path: Path) -> None:
    """Validate the configuration and print what it amounts to, secrets masked."""
    from proxy.config import effective, load
    from proxy.errors import ConfigError

    try:
        config = load(config_path, os.environ)
    except ConfigError as error:
        refuse(error.faults)
    for warning in config.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(json.dumps(effective(config), indent=2, ensure_ascii=False))


@main.command()
def schema() -> None:
    """Print the JSON Schema of the configuration."""
    from proxy.config import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


for group in (node, queue, scaling, dispatch):
    main.add_command(group)


@main.command()
@admin_options
@click.option("--json", "as_json", is_flag=True, help="Print the status as JSON, one line each time.")
@click.option("--watch", is_flag=True, help="Go on until interrupted.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Time between two looks with --watch.",
)
def status(admin: str, token: str | None, as_json: bool, watch: bool, every: float) -> None:
    """Show what is wrong, the line, the nodes and what was decided and ordered in a running proxy.

    Exit code 1: it is degraded, or cannot be reached.
    """
    from proxy.admin_client import AdminUnavailable
    from proxy.status_view import show

    try:
        is_well = show(admin, token, as_json=as_json, every_secs=every if watch else None)
    except AdminUnavailable as error:
        click.echo(f"fifo-proxy: {error}", err=True)
        sys.exit(1)
    sys.exit(0 if is_well else 1)


@main.command("demo-node")
@click.option(
    "--port", type=click.IntRange(0, 65535), required=True, help="Port to listen on; 0: any free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--ready-after",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="/ready answers 503 for this long.",
)
@click.option(
    "--work",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=0.05,
    show_default=True,
    help="Time that a request takes.",
)
def demo_node(port: int, host: str, ready_after: float, work: float) -> None:
    """A node that serves one request at a time, for trying things out.

    A second request is refused with 503 and counted as a violation. GET /ready says 200 when the node is
    free, GET /stats what it has seen. Any other path works for a while and echoes the request as JSON. Its
    query can ask for more:

    \b
      ?work=S            work for S seconds
      ?status=CODE       answer with this status
      ?echo=body         answer with the request's body
      ?bytes=N           answer with N bytes
      ?stream=N&every=S  answer in N chunks, S seconds apart
      ?sse=N&every=S     answer with N server-sent events
      ?accept=S          answer 202 at once and work on for S seconds
      &lag=S             ... with /ready still 200 for the first S of them
      ?fail=close|reset  break the connection off before the answer
      ?fail=mid          break it off in the middle of the answer

    A request whose client leaves is worked on to its end: the node stays busy.
    """
    from proxy.demo_node import run

    sys.exit(run(host, port, ready_after_secs=ready_after, work_secs=work))


main.add_command(simulate)
main.add_command(tune)
