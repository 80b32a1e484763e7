"""What the data plane needs of the configuration, ready to use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address

from proxy.http.spool import SpoolBudget


@dataclass(slots=True)
class HttpSettings:
    """Limits in bytes, times in seconds. Shared by all connections; a reload changes it in place."""

    spool_budget: SpoolBudget
    pseudonym: bytes
    header_timeout_secs: float
    body_timeout_secs: float
    keepalive_timeout_secs: float
    max_header_bytes: int
    max_body_bytes: int
    trusted_proxies: Sequence[IPv4Network | IPv6Network] = ()
    proxy_protocol: bool = False

    def is_trusted(self, address: str) -> bool:
        """Whether what this peer says of those before it is believed."""
        if not self.trusted_proxies or not address:
            return False
        return any(ip_address(address) in network for network in self.trusted_proxies)
