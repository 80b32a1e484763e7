"""One line for each thing that is wrong: where, key, value, what is expected, and a near name for a typo.

A line never shows a secret: values of secret keys are masked, and a text under a key nobody knows is left
out, since that may be a misspelled `token`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from proxy.config.engines import ProcessConfig, StaticConfig, SuanliConfig
from proxy.config.kinds import Section, is_secret
from proxy.config.model import Config

Path = tuple[str | int, ...]
_ENGINES: Mapping[str, type[Section]] = {
    "static": StaticConfig,
    "process": ProcessConfig,
    "suanli": SuanliConfig,
}
_NOTHING = object()
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Fault:
    """A thing wrong with the key at `path`; `message` says what is expected."""

    path: Path
    message: str
    value: object = _NOTHING

    def line(self, origin: str) -> str:
        """The fault as one line; `origin`: the file or variable that the key came from."""
        return f"{origin}: {dotted(self.path)}{self._shown()}: {self.message}"

    def _shown(self) -> str:
        if self.value is _NOTHING:
            return ""
        if any(is_secret(part) for part in self.path if isinstance(part, str)) and self.value not in (
            "",
            None,
        ):
            return " = ***"
        if isinstance(self.value, dict | list | tuple):
            return " = {...}" if isinstance(self.value, dict) else " = [...]"
        text = re.sub(r"//[^/@]*@", "//***@", json.dumps(self.value, ensure_ascii=False, default=str))
        return f" = {text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + '...'}"


def dotted(path: Path) -> str:
    """The path as users write it: `scale_up_request.services[0].service_name`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the configuration"


def near(name: str, names: Iterable[str]) -> str:
    """` (did you mean "x"?)` where a name is close, else nothing."""
    found = get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f' (did you mean "{found[0]}"?)' if found else ""


def faults_of(error: ValidationError) -> list[Fault]:
    """What pydantic found, in our words; a list is not also too short because what is in it is wrong."""
    found = error.errors(include_url=False)
    return [_fault(details) for details in found if details["type"] != "too_short" or not details["input"]]


def _fault(details: ErrorDetails) -> Fault:
    kind, path, context = details["type"], details["loc"], details.get("ctx", {})
    section: type[Section] = Config
    if path[:1] == ("provider",) and len(path) > 1:
        section = _ENGINES[str(path[1])]
        path = ("provider", *path[2:])
    name = str(path[-1]) if path else ""
    if kind == "missing":
        return Fault(path, "required, but missing")
    if kind == "extra_forbidden":
        value = details["input"]
        is_harmless = value is None or isinstance(value, bool | int | float)
        return Fault(
            path, f"unknown key{near(name, section.model_fields)}", value if is_harmless else _NOTHING
        )
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        given = details["input"].get("kind", _NOTHING)
        kinds = ", ".join(f'"{tag}"' for tag in _ENGINES)
        typo = near(given, _ENGINES) if isinstance(given, str) else ""
        return Fault((*path, "kind"), f"expected one of {kinds}{typo}", given)
    return Fault(path, _expectation(kind, name, context, details["msg"]), details["input"])


def _expectation(kind: str, name: str, context: dict[str, Any], message: str) -> str:
    number = f"a number{' of seconds, such as 30' if name.endswith('_secs') else ''}"
    bound = f"{next((context[key] for key in ('ge', 'gt', 'le') if key in context), 0):.15g}"
    if kind == "literal_error":
        choices = context["expected"].replace("'", '"').replace("True", "true").replace("False", "false")
        return f"expected {choices}"
    fixed = {
        "int_type": "a whole number",
        "float_type": number,
        "finite_number": number,
        "bool_type": "true or false",
        "string_type": "a text",
        "path_type": "a path",
        "tuple_type": "a list",
        "list_type": "a list",
        "dict_type": "an object {...}",
        "model_type": "an object {...}",
        "model_attributes_type": "an object {...}",
        "greater_than_equal": f"at least {bound}",
        "greater_than": f"more than {bound}",
        "less_than_equal": f"at most {bound}",
        "string_too_short": "a text that is not empty",
        "too_short": "at least one",
    }
    if kind in fixed:
        return f"expected {fixed[kind]}"
    return message.removeprefix("Value error, ")
