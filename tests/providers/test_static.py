from __future__ import annotations

import pytest

from proxy.errors import ProviderError
from proxy.providers.static import StaticProvider


async def test_each_address_is_one_node_that_may_be_probed() -> None:
    provider = StaticProvider(("http://10.0.0.1:3000", "https://gpu.example", "http://[::1]:3000"))
    assert [(node.id, node.name, node.url, node.is_running) for node in await provider.list()] == [
        ("http://10.0.0.1:3000", "10.0.0.1:3000", "http://10.0.0.1:3000", True),
        ("https://gpu.example", "gpu.example", "https://gpu.example", True),
        ("http://[::1]:3000", "[::1]:3000", "http://[::1]:3000", True),
    ]


async def test_a_name_is_kept_as_a_name_so_that_each_connection_resolves_it() -> None:
    (node,) = await StaticProvider(("http://name.invalid:3000",)).list()
    assert node.url == "http://name.invalid:3000"


async def test_it_does_not_scale() -> None:
    provider = StaticProvider(("http://10.0.0.1:3000",))
    assert not provider.can_scale
    with pytest.raises(ProviderError, match="none can be created"):
        await provider.create(provider.new_name())
    with pytest.raises(ProviderError, match="none can be destroyed"):
        await provider.destroy("http://10.0.0.1:3000")
    assert len(await provider.list()) == 1
