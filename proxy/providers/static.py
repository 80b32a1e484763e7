"""Nodes that somebody else runs: a fixed list of addresses, nothing to create and nothing to destroy.

One node per address as it is written, also when its host is a DNS name with several addresses behind it: a
node is one place that serves one request at a time, and which machine answers a name is not ours to choose.
The name is not resolved here but by each new connection (`http/node_link.py`), so a name that moves is
followed. To use several machines behind one name, list each by its own address.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from proxy.errors import ProviderError
from proxy.providers.base import ListedNode
from proxy.providers.names import fresh_name


class StaticProvider:
    """`addresses`: `http(s)://host[:port]` each, none twice (the configuration sees to that)."""

    kind = "static"
    can_scale = False
    is_shared = False
    name_prefix = ""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._nodes = [ListedNode(url, urlsplit(url).netloc, url, is_running=True) for url in addresses]

    async def start(self) -> None:
        pass

    def new_name(self) -> str:
        return fresh_name("static")

    async def list(self) -> list[ListedNode]:
        return list(self._nodes)

    async def create(self, name: str) -> ListedNode:
        raise ProviderError("static nodes are fixed in the configuration: none can be created")

    async def destroy(self, node_id: str) -> None:
        raise ProviderError("static nodes are fixed in the configuration: none can be destroyed")

    async def close(self) -> None:
        pass
