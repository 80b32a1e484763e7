"""Engines that make nodes: one file each behind the protocol of `base.py`, and the one place that picks."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.config import Config, ProcessConfig, StaticConfig, SuanliConfig
from proxy.config.kinds import is_secret
from proxy.errors import ConfigError
from proxy.providers.base import ListedNode, Provider
from proxy.providers.process import ProcessProvider
from proxy.providers.static import StaticProvider
from proxy.providers.suanli import SuanliProvider
from proxy.providers.suanli_api import SuanliApi, load_key

__all__ = ["ListedNode", "Provider", "build"]

_SHORTEST_SECRET = 6  # masking every "1" or "true" would leave no error readable


def build(config: Config) -> Provider:
    """The provider that the configuration names, not started. Raises ConfigError for an unusable key file."""
    engine = config.provider
    if isinstance(engine, StaticConfig):
        return StaticProvider(engine.nodes)
    if isinstance(engine, ProcessConfig):
        return ProcessProvider(engine.command, name_prefix=engine.name_prefix)
    return _suanli(config, engine)


def _suanli(config: Config, engine: SuanliConfig) -> SuanliProvider:
    if config.scale_up_request is None or config.proxy_port is None:
        raise ConfigError(["scale_up_request, proxy_port: required for Suanli"])
    request = config.scale_up_request.to_api()
    api = SuanliApi(
        engine.openapi_base_url,
        engine.token.get_secret_value(),
        load_key(engine.private_key_file) if engine.private_key_file else None,
        timeout_secs=engine.timeout_secs,
        secrets=[text for text in _secrets(request) if len(text) >= _SHORTEST_SECRET],
    )
    return SuanliProvider(
        api,
        request,
        proxy_port=config.proxy_port,
        create_path=engine.create_path,
        detail_path=engine.detail_path,
    )


def _secrets(value: object, *, is_hidden: bool = False) -> Iterator[str]:
    """Every text under a key that has a secret's name: the API may send it back in an error."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _secrets(part, is_hidden=is_secret(key) or (is_hidden and key != "name"))
    elif isinstance(value, list):
        for part in value:
            yield from _secrets(part, is_hidden=is_hidden)
    elif is_hidden and isinstance(value, str):
        yield value
