"""The configuration: read once, checked whole, frozen.

`kinds` the kinds of values <- `engines` what makes nodes <- `model` every key <- `faults` what is wrong, in
words <- `checks` what keys must agree on <- `source` files and environment. A `Config` that `load` returns
can be served with; all that is wrong is told at once, one line each, and no line shows a secret.
"""

from __future__ import annotations

from proxy.config.engines import (
    Engine,
    ProcessConfig,
    ScaleUpRequest,
    StaticConfig,
    SuanliConfig,
)
from proxy.config.model import Config
from proxy.config.source import effective, json_schema, load, parse, read

__all__ = [
    "Config",
    "Engine",
    "ProcessConfig",
    "ScaleUpRequest",
    "StaticConfig",
    "SuanliConfig",
    "effective",
    "json_schema",
    "load",
    "parse",
    "read",
]
