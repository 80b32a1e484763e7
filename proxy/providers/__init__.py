"""Engines that make nodes."""

from __future__ import annotations

from proxy.config import Config, ProcessConfig, StaticConfig
from proxy.providers.base import Provider
from proxy.providers.process import ProcessProvider
from proxy.providers.static import StaticProvider


def build(config: Config) -> Provider:
    engine = config.provider
    if isinstance(engine, StaticConfig):
        return StaticProvider(engine.nodes)
    if isinstance(engine, ProcessConfig):
        return ProcessProvider(engine.command, name_prefix=engine.name_prefix)
    raise NotImplementedError
