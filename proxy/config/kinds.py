"""The kinds of values that a configuration is made of.

Numbers are strict everywhere: a boolean or a text is no number, and NaN and infinity are refused. What
pydantic cannot say in a user's words is checked here, and says what it expected.
"""

from __future__ import annotations

import base64
import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    Strict,
    WithJsonSchema,
)

_YEAR_SECS = 31_536_000
_PEBIBYTE = 2**50
_WEBHOOK_HOST = re.compile(r"(http://)?(\*|(\*\.)?[A-Za-z0-9_.-]+|[0-9A-Fa-f:]+)")
# A webhook's address often is the secret: whoever knows it may post (Slack, Teams, Feishu).
_SECRET_WORDS = (
    "token", "password", "secret", "credential", "api_key", "apikey", "alert_webhook", "database_url",
)  # fmt: skip
_SQLITE = "sqlite:///"


def is_secret(key: str) -> bool:
    """Whether the value of a key of this name is hidden. `env` is: containers get their keys in it."""
    name = key.lower()
    return name == "env" or any(word in name for word in _SECRET_WORDS)


class Section(BaseModel):
    """A part of the configuration: frozen, and whatever it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class OpenSection(Section):
    """A part that is passed on to somebody's API: unknown keys are kept, and secrets never printed."""

    model_config = ConfigDict(extra="allow")

    def __repr_args__(self) -> Any:
        return [(key, "***" if key and is_secret(key) else value) for key, value in super().__repr_args__()]


def _network(value: object) -> IPv4Network | IPv6Network:
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    try:
        if isinstance(value, str):
            return ip_network(value)
    except ValueError as error:
        raise ValueError(f"expected an address range such as 10.0.0.0/8 ({error})") from None
    raise ValueError("expected an address range such as 10.0.0.0/8")


def _path(value: object) -> object:
    if value == "":
        raise ValueError("expected a path, or null for none")
    return value


def _origin(value: str) -> str:
    url = base_url(value)
    if urlsplit(url).path:
        raise ValueError("expected an address without a path: requests keep their own")
    return url


def base_url(value: str) -> str:
    """`http(s)://host[:port][/path]` without its last slash; ValueError for anything else."""
    try:
        parts = urlsplit(value)
        port_is_fine = parts.port != 0
    except ValueError:
        raise ValueError("expected an address such as http://host:port") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
        raise ValueError("expected an address such as http://host:port")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("expected an address of plain ASCII letters")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("expected an address without credentials, query or fragment")
    return value.rstrip("/")


def _secret(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("expected plain ASCII letters without blanks and line breaks")
    return value


def _hook(value: SecretStr) -> SecretStr:
    address, _, query = value.get_secret_value().partition("?")
    base_url(address)
    if "#" in query or " " in query or not query.isascii() or not query.isprintable():
        raise ValueError("expected an address without a fragment, of plain ASCII letters")
    return value


def sqlite_path(url: str) -> Path | None:
    """The file of an URL such as `sqlite:///jobs.db` or `sqlite:////var/lib/jobs.db`; None for PostgreSQL's."""
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def _database_url(value: SecretStr) -> SecretStr:
    url = value.get_secret_value()
    expected = "expected sqlite:///PATH or postgresql://USER:PASSWORD@HOST/DATABASE, or null for none"
    if url.startswith("sqlite:"):
        path = url.removeprefix(_SQLITE)
        is_fine = url.startswith(_SQLITE) and path.strip("/ ") and not path.endswith("/") and "\0" not in path
    else:
        try:
            parts = urlsplit(url)
            is_fine = parts.scheme in ("postgresql", "postgres") and parts.port != 0
        except ValueError:
            is_fine = False
    if not is_fine:
        raise ValueError(expected)
    return value


def _target(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError('expected a path that begins with "/"')
    if "#" in value or " " in value or not value.isascii() or not value.isprintable():
        raise ValueError("expected a path as it is sent: ASCII, without spaces and fragment")
    return value


def _jobs_path(value: str) -> str:
    if not value.endswith("/") or len(value) < 3 or "?" in value:
        raise ValueError('expected a path that begins and ends with "/", such as /.jobs/')
    return value


def _webhook_secret(value: SecretStr) -> SecretStr:
    try:
        size = len(signing_key(value))
    except ValueError:
        size = 0
    if not 24 <= size <= 64:
        raise ValueError("expected whsec_ and base64 of 24 to 64 bytes, or 24 to 64 characters as they are")
    return value


def signing_key(secret: SecretStr) -> bytes:
    """What a `WebhookSecret` stands for. Raises ValueError for base64 that is none."""
    text = secret.get_secret_value()
    if text.startswith("whsec_"):
        return base64.b64decode(text.removeprefix("whsec_"), validate=True)
    return text.encode()


def _webhook_host(value: str) -> str:
    if not _WEBHOOK_HOST.fullmatch(value):
        raise ValueError(
            'expected a host name, "*.DOMAIN" or "*", where http is allowed with "http://" before it'
        )
    return value


Flag = Annotated[bool, Strict()]
Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Strict(), Field(ge=0, le=1_000_000)]
Amount = Annotated[int, Strict(), Field(ge=1, le=1_000_000)]
Bytes = Annotated[int, Strict(), Field(ge=0, le=_PEBIBYTE)]
Port = Annotated[int, Strict(), Field(ge=1, le=65535)]
ListenPort = Annotated[int, Strict(), Field(ge=0, le=65535)]
Seconds = Annotated[float, Strict(), Field(ge=0, le=_YEAR_SECS, allow_inf_nan=False)]
Interval = Annotated[float, Strict(), Field(gt=0, le=_YEAR_SECS, allow_inf_nan=False)]
Price = Annotated[float, Strict(), Field(ge=0, le=1_000_000, allow_inf_nan=False)]
FilePath = Annotated[Path, BeforeValidator(_path)]
Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(_network), WithJsonSchema({"type": "string"})]
Secret = Annotated[SecretStr, AfterValidator(_secret)]
HookUrl = Annotated[SecretStr, AfterValidator(_hook)]
WebhookHost = Annotated[str, AfterValidator(_webhook_host)]
WebhookSecret = Annotated[SecretStr, AfterValidator(_webhook_secret)]
DatabaseUrl = Annotated[SecretStr, AfterValidator(_database_url)]
BaseUrl = Annotated[str, AfterValidator(base_url)]
Origin = Annotated[str, AfterValidator(_origin)]
Target = Annotated[str, AfterValidator(_target)]
JobsPath = Annotated[str, AfterValidator(_target), AfterValidator(_jobs_path)]
