"""What a client asks for with its request: to be answered later, how, and under which key. Pure.

`Prefer` is RFC 7240's, `Idempotency-Key` that of the IETF draft (a string in quotes; bare ones are common and taken,
too). What asks us is taken away from what the node gets, other preferences stay; the key goes on to the node.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from proxy.errors import JobRefused
from proxy.http.message import Field, Request, fields_named
from proxy.jobs.job import Content, IdempotencyKey, Policy

_LONGEST_WAIT_SECS = 86400.0
_PIECE = 1 << 20
_PREFERENCE = re.compile(rb'(?:"(?:\\.|[^"\\])*"|[^,"])+')
_KEY = re.compile(rb'"((?:[ !#-\[\]-~]|\\["\\]){1,255})"|([!#-~]{1,255})')
_OURS = (b"prefer", b"job-policy", b"webhook-url")


@dataclass(frozen=True, slots=True)
class Wish:
    """`wait_secs`: how long the client waits for the answer itself; None: it did not say. `fields`: what the node is
    to get."""

    fields: list[Field]
    wait_secs: float | None
    policy: Policy | None
    key: bytes | None
    webhook_url: str | None


def wish_of(request: Request) -> Wish | None:
    """None where it does not ask to be answered later after all. Raises JobRefused for what makes no sense."""
    given: dict[bytes, list[bytes]] = {}
    kept: list[Field] = []
    for name, value in request.stored_fields():
        key = name.lower()
        if key in _OURS or key == b"idempotency-key":
            given.setdefault(key, []).append(value)
        if key not in _OURS:
            kept.append((name, value))
    wanted, others = _preferences(given.get(b"prefer", ()))
    if b"respond-async" not in wanted:
        return None
    if others:
        kept.append((b"Prefer", b", ".join(others)))
    return Wish(
        fields=kept,
        wait_secs=_wait(wanted.get(b"wait")),
        policy=_policy(_only(given, b"job-policy")),
        key=_key(_only(given, b"idempotency-key")),
        webhook_url=_url(_only(given, b"webhook-url")),
    )


def identity(key: bytes, request: Request, body: Content) -> IdempotencyKey:
    """Clients with other credentials have keys of their own. Two requests are the same where method, target and body
    are."""
    digest = sha256(b"%b %b %d\n" % (request.method, request.target, body.size))
    offset = 0
    while piece := body.read(offset, _PIECE):
        digest.update(piece)
        offset += len(piece)
    credentials = fields_named(request.stored_fields(), b"authorization")
    apart = sha256(b"\n".join(credentials)).hexdigest()[:16] + ":" if credentials else ""
    return IdempotencyKey(apart + key.decode(), digest.digest())


def _preferences(values: Sequence[bytes]) -> tuple[dict[bytes, bytes], list[bytes]]:
    """Those that are ours, with their values, and the others. The first of a name counts (RFC 7240, 2)."""
    ours: dict[bytes, bytes] = {}
    others = []
    for value in values:
        for preference in map(bytes.strip, _PREFERENCE.findall(value)):
            name, _, rest = preference.partition(b";")[0].partition(b"=")
            name = name.strip().lower()
            if name in (b"respond-async", b"wait"):
                ours.setdefault(name, rest.strip().strip(b'"'))
            elif preference:
                others.append(preference)
    return ours, others


def _wait(value: bytes | None) -> float | None:
    """A wait that is no number is no preference; it is not refused (RFC 7240, 2)."""
    return min(float(value), _LONGEST_WAIT_SECS) if value is not None and value.isdigit() else None


def _only(given: dict[bytes, list[bytes]], name: bytes) -> bytes | None:
    values = given.get(name, [])
    if len(values) > 1:
        raise JobRefused(f"more than one {name.decode().title()}")
    return values[0] if values else None


def _policy(value: bytes | None) -> Policy | None:
    try:
        return None if value is None else Policy(value.decode("latin-1").lower())
    except ValueError:
        raise JobRefused("Job-Policy: expected once or retry") from None


def _key(value: bytes | None) -> bytes | None:
    if value is None:
        return None
    found = _KEY.fullmatch(value)
    if found is None:
        raise JobRefused('Idempotency-Key: expected 1 to 255 ASCII characters, as in "8e03978e-40d5"')
    return found[2] or re.sub(rb"\\(.)", rb"\1", found[1])


def _url(value: bytes | None) -> str | None:
    if value is None:
        return None
    if not value.isascii() or not value.decode("latin-1").isprintable() or b" " in value:
        raise JobRefused("Webhook-Url: expected an http or https address")
    return value.decode()
