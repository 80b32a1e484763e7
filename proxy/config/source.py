"""From a file and the environment to a `Config`, and back to what may be shown.

The file is JSON with comments and trailing commas (JSON5 in full). A variable `FIFO_PROXY_<KEY>` takes the
place of the top-level key; one with our prefix that names no key is a fault. All faults are told at once.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import json5
from pydantic import ValidationError

from proxy.config.checks import cautions, contradictions, missing
from proxy.config.engines import SuanliConfig
from proxy.config.faults import Fault, faults_of, near
from proxy.config.kinds import is_secret
from proxy.config.model import Config
from proxy.errors import ConfigError

PREFIX = "FIFO_PROXY_"
RESERVED = ("FIFO_PROXY_CONFIG", "FIFO_PROXY_TRACES")
# Kubernetes and docker links put these into every container beside a service called "fifo-proxy".
_LINKED = re.compile(
    r"FIFO_PROXY_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_FULL_WIDTH = re.compile("[，：｛｝［］＂]")
_FLAT_KEYS = ("openapi_base_url", "token")


def load(path: Path, environ: Mapping[str, str], *, serving: bool = True) -> Config:
    """The configuration of this file and environment; ConfigError with every fault.

    `serving` False leaves out what only serving needs: a token, images, files that exist.
    """
    raw = read(path)
    variables = {key: name for name, value in environ.items() if (key := _key_of(name, value)) is not None}
    unknown = [
        f"{name}: unknown variable{near(name, (PREFIX + key.upper() for key in Config.model_fields))}"
        for key, name in variables.items()
        if key not in Config.model_fields
    ]
    overrides = {
        key: _value_of(key, environ[name]) for key, name in variables.items() if key in Config.model_fields
    }
    try:
        config = parse(raw | overrides, origin=str(path), origins=variables, serving=serving)
    except ConfigError as error:
        raise ConfigError(unknown + error.faults) from None
    if unknown:
        raise ConfigError(unknown)
    return config


def parse(
    raw: Mapping[str, Any],
    *,
    origin: str = "configuration",
    origins: Mapping[str, str] | None = None,
    serving: bool = True,
) -> Config:
    """The configuration of these keys; ConfigError with every fault. `origins`: where a key came from."""
    given = {key: value for key, value in raw.items() if key != "$schema"}
    try:
        config = Config.model_validate(given)
        faults = []
    except ValidationError as error:
        faults = faults_of(error)
    if not faults:
        config, faults = _filled(config, origins or {})
        faults += contradictions(config)
        if serving:
            faults += missing(config)
    if faults:
        raise ConfigError([fault.line((origins or {}).get(str(fault.path[0]), origin)) for fault in faults])
    config._warnings = tuple(cautions(config))
    return config


def _filled(config: Config, origins: Mapping[str, str]) -> tuple[Config, list[Fault]]:
    """Puts the flat keys of Suanli into its section. In both they must be the same, but a variable wins."""
    engine, faults = config.provider, list[Fault]()
    if not isinstance(engine, SuanliConfig):
        return config, faults
    updates = {}
    for key in config.model_fields_set.intersection(_FLAT_KEYS):
        value = getattr(config, key)
        if key in engine.model_fields_set and key not in origins and getattr(engine, key) != value:
            faults.append(
                Fault(("provider", key), f"expected the same as {key} at the top level, or only one of them")
            )
        updates[key] = value
    return config.model_copy(update={"provider": engine.model_copy(update=updates)}), faults


def read(path: Path) -> dict[str, Any]:
    """The object in this file, unchecked; ConfigError where there is none."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError([f"{path}: no such file; name it with --config or FIFO_PROXY_CONFIG"]) from None
    except IsADirectoryError:
        hint = "Docker makes one where the file it is to mount does not exist: give its absolute path"
        raise ConfigError([f"{path}: is a directory ({hint})"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: byte {error.start + 1} is not UTF-8; save the file as UTF-8"]) from None
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read ({error.strerror})"]) from None
    if not text.strip():
        raise ConfigError([f"{path}: is empty; expected an object {{...}}"])
    try:
        value = json5.loads(text, allow_duplicate_keys=False)
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{path}{_syntax(text, error)}"]) from None
    if not isinstance(value, dict):
        raise ConfigError([f"{path}: expected an object {{...}}"])
    return value


def _syntax(text: str, error: Exception) -> str:
    """Where and what, in one line; full-width punctuation, which looks right to a Chinese reader, is pointed at."""
    found = re.fullmatch(r"<string>:(\d+) (.*) at column (\d+)", str(error), re.DOTALL)
    if found:
        line, problem, column = found.groups()
        around = text.split("\n")[int(line) - 1][max(0, int(column) - 2) : int(column)]
        wide = _FULL_WIDTH.search(around)
        hint = (
            f" (full-width {wide[0]} where JSON has {unicodedata.normalize('NFKC', wide[0])})" if wide else ""
        )
        return f":{line}:{column}: {problem[0].lower()}{problem[1:]}{hint}"
    return f": {str(error)[0].lower()}{str(error)[1:]}"


def _key_of(name: str, value: str) -> str | None:
    if not name.startswith(PREFIX) or name in RESERVED or _LINKED.fullmatch(name):
        return None
    if name == "FIFO_PROXY_PORT" and "://" in value:
        return None  # another of the cluster's own
    return name.removeprefix(PREFIX).lower()


def _value_of(key: str, text: str) -> Any:
    """What a variable means: texts as they are; anything else as JSON, or as it is where that is none."""
    if _is_text(Config.model_json_schema()["properties"][key]):
        return text
    try:
        return json5.loads(text, allow_duplicate_keys=False)
    except ValueError:
        return text


def _is_text(schema: dict[str, Any]) -> bool:
    return {kind.get("type") for kind in schema.get("anyOf", [schema])} <= {"string", "null"}


def effective(config: Config) -> dict[str, Any]:
    """What the configuration amounts to, defaults included, as JSON values; secrets are masked."""
    shown: dict[str, Any] = _masked(config.model_dump(mode="json"))
    return shown


def _masked(value: Any, key: str = "") -> Any:
    if is_secret(key) and value not in (None, ""):
        return "***"
    if isinstance(value, dict):
        return {name: _masked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return value


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the configuration file."""
    schema = Config.model_json_schema(mode="validation")
    schema["properties"]["$schema"] = {"type": "string", "description": "For editors; ignored."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "FIFO Proxy configuration",
        "description": "Every key of config.json. FIFO_PROXY_<KEY> in the environment overrides a key.",
    }
