"""What several keys must agree on, what serving needs beyond that, and what deserves a warning.

Pure but for `missing_files`, which looks whether the files that are named can be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from proxy.config.engines import ScaleUpRequest, StaticConfig, SuanliConfig
from proxy.config.faults import Fault, dotted, near
from proxy.config.kinds import OpenSection
from proxy.config.model import Config

_SCALING_KEYS = {
    "idle_shutdown_secs",
    "max_nodes",
    "max_scale_down_nodes",
    "min_nodes",
    "queue_scale_count_threshold",
    "queue_scale_wait_secs",
    "scale_down_cooldown_secs",
    "scale_up_cooldown_secs",
    "scale_up_request",
    "scaling_policy",
}
_TOGETHER = (
    ("tls_cert_file", "tls_key_file"),
    ("tls_key_file", "tls_cert_file"),
    ("alert_webhook_token", "alert_webhook"),
)
_ANY_HOSTS = ("0.0.0.0", "::", "*")


def is_loopback(host: str) -> bool:
    """Whether a listening address can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def contradictions(config: Config) -> Iterator[Fault]:
    """Keys that cannot all be meant."""
    if config.min_nodes > config.max_nodes:
        yield Fault(
            ("min_nodes",), f"expected at most max_nodes, which is {config.max_nodes}", config.min_nodes
        )
    share_port = config.listen_port == config.admin_port != 0
    hosts = (config.listen_host, config.admin_host)
    if share_port and (len(set(hosts)) == 1 or any(host in _ANY_HOSTS for host in hosts)):
        yield Fault(("admin_port",), "expected another port than listen_port", config.admin_port)
    if config.admin_token is not None and not config.admin_token.get_secret_value():
        yield Fault(("admin_token",), "expected a token that is not empty, or null for none", "")
    elif config.admin_token is None and not config.admin_open and not is_loopback(config.admin_host):
        message = 'expected a loopback address such as 127.0.0.1, or an admin_token, or "admin_open": true'
        yield Fault(("admin_host",), message, config.admin_host)
    for given, lacking in _TOGETHER:
        if getattr(config, given) is not None and getattr(config, lacking) is None:
            yield Fault((lacking,), f"required, since {given} is given")
    if config.webhook_allowed_hosts and config.webhook_secret is None:
        yield Fault(("webhook_secret",), "required, since webhook_allowed_hosts names hosts")
    if config.proxy_protocol and config.tls_cert_file is not None:
        message = "expected false, since tls_cert_file is given: a balancer sends its header before the TLS handshake"
        yield Fault(("proxy_protocol",), message, True)
    if config.node_ca_file is not None and not config.node_tls_verify:
        yield Fault(
            ("node_ca_file",), "expected null, since node_tls_verify is false", str(config.node_ca_file)
        )
    request = config.scale_up_request
    if request is not None:
        yield from _request_contradictions(config, request)


def _request_contradictions(config: Config, request: ScaleUpRequest) -> Iterator[Fault]:
    ports = request.exposed_ports()
    if (
        isinstance(config.provider, SuanliConfig)
        and config.proxy_port is not None
        and config.proxy_port not in ports
    ):
        exposed = ", ".join(map(str, sorted(ports))) or "none"
        message = f"expected a service_port of scale_up_request.services[].remote_ports (there: {exposed})"
        yield Fault(("proxy_port",), message, config.proxy_port)
    if (request.dynamic_pod_strategy or {}).get("switch"):
        path = ("scale_up_request", "dynamic_pod_strategy", "switch")
        yield Fault(path, "expected the cloud's own autoscaler to be off, since this proxy scales", True)


def missing(config: Config) -> Iterator[Fault]:
    """What is needed to serve, but empty or left out."""
    if isinstance(config.provider, SuanliConfig):
        yield from _missing_for_suanli(config, config.provider)
    yield from _missing_files(config)
    if config.tracing and not _is_there("opentelemetry.exporter.otlp.proto.http"):
        yield Fault(("tracing",), "expected the extra to be there: pip install 'fifo-proxy[otel]'", True)


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # not even what it is in
        return False


def _missing_for_suanli(config: Config, engine: SuanliConfig) -> Iterator[Fault]:
    request, has_token = config.scale_up_request, bool(engine.token.get_secret_value())
    if not engine.model_fields_set and request is None:
        message = 'expected {"kind": "static", ...} or {"kind": "process", ...}, or token, proxy_port and'
        yield Fault(("provider",), f"missing: {message} scale_up_request for Suanli")
        return
    if not has_token:
        yield Fault(("token",), "expected the API key of your Suanli account (or FIFO_PROXY_TOKEN)", "")
    if config.proxy_port is None:
        yield Fault(("proxy_port",), "required for Suanli: the port of a node that requests go to")
    if request is None:
        yield Fault(("scale_up_request",), "required for Suanli: the task to create for each node")
        return
    for index, resource in enumerate(request.resources):
        if not resource.mark.strip():
            path = ("scale_up_request", "resources", index, "mark")
            yield Fault(
                path, "expected the mark of a device kind, from the console's resource search", resource.mark
            )
    for index, service in enumerate(request.services):
        if not service.service_image.strip():
            path = ("scale_up_request", "services", index, "service_image")
            yield Fault(path, "expected the name of a container image", service.service_image)


def _missing_files(config: Config) -> Iterator[Fault]:
    files: dict[tuple[str, ...], Path | None] = {
        (key,): getattr(config, key) for key in ("tls_cert_file", "tls_key_file", "node_ca_file")
    }
    if isinstance(config.provider, SuanliConfig):
        files["provider", "private_key_file"] = config.provider.private_key_file
    for path, file in files.items():
        if file is not None and not (file.is_file() and os.access(file, os.R_OK)):
            yield Fault(path, "expected a file that can be read", str(file))
    directory = config.spool_dir
    if directory is not None and not (directory.is_dir() and os.access(directory, os.W_OK | os.X_OK)):
        yield Fault(("spool_dir",), "expected a directory that can be written to", str(directory))


def cautions(config: Config) -> Iterator[str]:
    """What is accepted but worth a look, one line each."""
    if config.scale_up_request is not None:
        yield from _passed_on(config.scale_up_request, ("scale_up_request",))
    if isinstance(config.provider, StaticConfig):
        for key in sorted(_SCALING_KEYS & config.model_fields_set):
            yield f"{key}: has no effect, static nodes are never scaled"
    if isinstance(config.provider, SuanliConfig) and _is_readable(config.provider.openapi_base_url):
        yield "openapi_base_url: http sends the token readable by everybody on the way; expected https"
    if config.alert_webhook is not None and _is_readable(config.alert_webhook.get_secret_value()):
        yield "alert_webhook: http sends it readable by everybody on the way; expected https"


def _is_readable(address: str) -> bool:
    url = urlsplit(address)
    return url.scheme == "http" and not is_loopback(url.hostname or "")


def _passed_on(section: OpenSection, path: tuple[str | int, ...]) -> Iterator[str]:
    for key in section.model_extra or {}:
        hint = near(key, type(section).model_fields)
        yield f"{dotted((*path, key))}: not known here, passed on to the API{hint}"
    for key in type(section).model_fields:
        value = getattr(section, key)
        for index, item in enumerate(value if isinstance(value, tuple) else ()):
            yield from _passed_on(item, (*path, key, index))
