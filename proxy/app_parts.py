"""What the configuration means to the parts that `app.py` wires, where that takes more than a value."""

from __future__ import annotations

import secrets
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.clock import Clock
from proxy.config import Config
from proxy.http.settings import HttpSettings
from proxy.http.spool import SpoolBudget
from proxy.request_log import LogFile

if TYPE_CHECKING:
    from proxy.tracing import Tracing


def http_settings(config: Config) -> HttpSettings:
    """What client connections go by; a reload changes it in place."""
    settings = HttpSettings(
        spool_budget=SpoolBudget(0, 0, str(config.spool_dir) if config.spool_dir else None),
        pseudonym=b"fifo-proxy-" + secrets.token_hex(4).encode(),
        proxy_protocol=config.proxy_protocol,
        header_timeout_secs=0,
        body_timeout_secs=0,
        keepalive_timeout_secs=0,
        max_header_bytes=0,
        max_body_bytes=0,
    )
    apply_limits(settings, config)
    return settings


def apply_limits(settings: HttpSettings, config: Config) -> None:
    """All of it that may change while running."""
    settings.spool_budget.memory_bytes = config.spool_memory_bytes
    settings.spool_budget.max_bytes = config.max_spool_bytes
    settings.header_timeout_secs = config.header_timeout_secs
    settings.body_timeout_secs = config.body_timeout_secs
    settings.keepalive_timeout_secs = config.keepalive_timeout_secs
    settings.max_header_bytes = config.max_header_bytes
    settings.max_body_bytes = config.max_body_bytes
    settings.trusted_proxies = config.trusted_proxies


def written_to(config: Config) -> list[Path]:
    """The directories that must have room."""
    logs_in = [config.request_log.absolute().parent] if config.request_log is not None else []
    return [config.spool_dir or Path(tempfile.gettempdir()), *logs_in]


def new_tracing(clock: Clock) -> Tracing:
    """Raises ImportError without the extra; the configuration has been checked for it."""
    from proxy.tracing import Tracing  # an extra: where it is off, it need not be there

    return Tracing(clock)


def log_file(config: Config) -> LogFile | None:
    """Where the request log goes, if it goes anywhere."""
    if config.request_log is None:
        return None
    return LogFile(
        config.request_log,
        max_bytes=config.request_log_max_bytes,
        keep=config.request_log_files,
        has_query=config.request_log_query,
    )


def server_tls(config: Config) -> ssl.SSLContext | None:
    """Of the users' port; raises OSError (ssl.SSLError) where the certificate cannot be loaded."""
    if config.tls_cert_file is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(config.tls_cert_file, config.tls_key_file)
    context.set_alpn_protocols(["http/1.1"])
    return context
