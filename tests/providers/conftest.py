"""A fake cloud, and providers built from a configuration as `serve` builds them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from proxy.config import parse
from proxy.providers import build
from proxy.providers.suanli import SuanliProvider
from tests.fakes.suanli_cloud import SuanliCloud

TOKEN = "1b9d6bcd-0000-4000-8000-feedfacecafe-20261201000000"
REQUEST: dict[str, Any] = {
    "task_name": "pool-a",
    "points": 1,
    "resources": [{"mark": "bWFyaw=="}],
    "services": [
        {
            "service_name": "container-01",
            "service_image": "registry.example/team/model:1",
            "remote_ports": [{"service_port": 3000}, {"service_port": 8188}],
            "start_script_v2": {"args": [], "command": None},
            "storage_config": [{"storage_id": 2451, "target_dir": "/opt/models"}],
        }
    ],
}
MakeSuanli = Callable[..., Awaitable[SuanliProvider]]


@pytest.fixture(scope="session")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake is on this machine, whatever proxy this environment names."""
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
async def cloud() -> AsyncIterator[SuanliCloud]:
    made = SuanliCloud(TOKEN)
    await made.start()
    yield made
    await made.close()


@pytest.fixture
def pauses() -> list[float]:
    """How long the provider would have paused between its reads."""
    return []


@pytest.fixture
async def make_suanli(cloud: SuanliCloud, pauses: list[float]) -> AsyncIterator[MakeSuanli]:
    """Builds a started provider; keywords go into its section, `request` into `scale_up_request`."""
    made: list[SuanliProvider] = []

    async def pause(secs: float) -> None:
        pauses.append(secs)

    async def make(request: dict[str, Any] | None = None, **engine: object) -> SuanliProvider:
        section = {"kind": "suanli", "openapi_base_url": cloud.url, "token": TOKEN, **engine}
        request = REQUEST | (request or {})
        provider = build(parse({"provider": section, "proxy_port": 3000, "scale_up_request": request}))
        assert isinstance(provider, SuanliProvider)
        provider._api._sleep = pause
        made.append(provider)
        await provider.start()
        return provider

    yield make
    for provider in made:
        await provider.close()
