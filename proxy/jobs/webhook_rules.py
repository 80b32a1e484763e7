"""Which webhooks may be called, how a call is signed, and when it is tried again. Pure.

What must hold: a client can make us call only hosts that the operator allows, and never an address inside the
operator's own network, whatever a name resolves to. Calls are those of Standard Webhooks (standardwebhooks.com).
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from proxy.errors import JobRefused

# Between one call and the next, before jitter: about a day in all. Counted in calls, so that no host's clock decides.
_DELAYS = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, *[7200.0] * 11)
_JITTER = 0.1
_PLAIN = "http://"
_GONE = 410
# The resolver raises UnicodeError for other labels.
_NAME = re.compile(r"(?!.{254})[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
# Addresses that have an IPv4 address inside: whoever translates them may stand in our network.
_TRANSLATED = [
    IPv6Network(net) for net in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")
]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a webhook goes. `authority`: as in Host; `path`: with its query."""

    scheme: str
    host: str
    port: int
    authority: str
    path: str


def target_of(url: str, allowed: Sequence[str], *, may_be_plain: bool) -> Target:
    """Raises JobRefused for an address that is malformed or not allowed: `allowed` are host names, `*.domain` for all
    below a domain, or `*`; with `http://` before it also by http, as all are where it `may_be_plain`."""
    if not allowed:
        raise JobRefused("Webhook-Url: there are no webhooks here (webhook_allowed_hosts is empty)")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise JobRefused("Webhook-Url: expected an http or https address") from None
    host = (parts.hostname or "").rstrip(".").lower()
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise JobRefused("Webhook-Url: expected an http or https address")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise JobRefused("Webhook-Url: expected an address without credentials and fragment")
    if not (_NAME.fullmatch(host) or _is_address(host)):
        raise JobRefused("Webhook-Url: expected a host name in ASCII, or an address")
    matching = [entry for entry in map(str.lower, allowed) if _matches(host, entry.removeprefix(_PLAIN))]
    if not matching:
        raise JobRefused(f"Webhook-Url: {host} is not allowed here (webhook_allowed_hosts)")
    if parts.scheme == "http" and not may_be_plain and not any(e.startswith(_PLAIN) for e in matching):
        raise JobRefused(f"Webhook-Url: {host} is allowed by https only (webhook_allowed_hosts)")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    usual = 443 if parts.scheme == "https" else 80
    shown = f"[{host}]" if ":" in host else host
    return Target(parts.scheme, host, port or usual, f"{shown}:{port}" if port else shown, path)


def is_inside(address: str) -> bool:
    """Whether an address is not one of the public internet: private, loopback, link-local, multicast, reserved."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        elif ip.is_site_local or any(ip in network for network in _TRANSLATED):
            return True
    return not ip.is_global or ip.is_multicast or ip.is_reserved


def signature(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(secret, signed, sha256)).decode()


def is_final(status: int) -> bool:
    """An answer after which trying again is of no use."""
    return 200 <= status < 300 or status == _GONE


def retry_in_secs(attempts: int, chance: float) -> float | None:
    """After so many calls in vain; None: given up. `chance`: a random number from 0 to 1, so that receivers that were
    down are not called all at once."""
    if attempts > len(_DELAYS):
        return None
    return _DELAYS[attempts - 1] * (1 + _JITTER * (2 * chance - 1))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _matches(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return pattern in ("*", host)
