"""The Suanli contract as something that can be asked: what is wrong with this request, or with this answer?

OpenAPI 3.0 is turned into JSON Schema: references are put in place, `nullable` becomes "or null".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

DOCUMENT: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("suanli-openapi.yaml").read_text())
# The newer generation of two paths; the rules are the older one's.
NEWER_PATHS = {
    "/api/task/deployment/create": "/api/deployment/task/create",
    "/api/task/deployment/detail": "/api/deployment/task/detail",
}


def faults_of_request(
    method: str, path: str, query: Sequence[tuple[str, str]], headers: Mapping[str, str], body: bytes
) -> list[str]:
    """Everything the document has against a request, which is nothing for a good one."""
    operation = DOCUMENT["paths"].get(NEWER_PATHS.get(path, path), {}).get(method.lower())
    if operation is None:
        return [f"{method} {path}: no such call"]
    faults: list[str] = []
    parameters = [_resolved(parameter) for parameter in operation["parameters"]]
    known = {parameter["name"] for parameter in parameters if parameter["in"] == "query"}
    faults += [f"query {name}: unknown" for name, _ in query if name not in known]
    faults += [
        f"query {name}: given twice"
        for name in {n for n, _ in query}
        if [n for n, _ in query].count(name) > 1
    ]
    given = dict(query)
    for parameter in parameters:
        name = parameter["name"]
        value = given.get(name) if parameter["in"] == "query" else headers.get(name)
        if value is None:
            faults += [f"{parameter['in']} {name}: missing"] if parameter.get("required") else []
        else:
            schema = _schema(parameter["schema"])
            is_number = schema.get("type") == "integer" and re.fullmatch(r"-?\d+", value)
            faults += _faults(schema, int(value) if is_number else value, f"{parameter['in']} {name}")
    if "requestBody" not in operation:
        return faults + (["body: none expected"] if body else [])
    content_type = headers.get("content-type", "").partition(";")[0]
    if content_type != "application/json":
        return [*faults, f"header content-type: {content_type or 'missing'}"]
    try:
        value = json.loads(body)
    except ValueError:
        return [*faults, "body: not JSON"]
    if path in NEWER_PATHS:
        _as_older(value)
    return faults + _faults(
        _schema(_resolved(operation["requestBody"])["content"][content_type]["schema"]), value, "body"
    )


def faults_of_answer(method: str, path: str, answer: object) -> list[str]:
    """Everything the document has against the JSON of an answer, of success or of failure."""
    operation = DOCUMENT["paths"][NEWER_PATHS.get(path, path)][method.lower()]
    is_fine = isinstance(answer, dict) and answer.get("code") == "0000"
    response = _resolved(operation["responses"]["200" if is_fine else "default"])
    return _faults(_schema(response["content"]["application/json"]["schema"]), answer, "answer")


def _as_older(body: object) -> None:
    """The newer create takes `env` as a list of names and values, where the older one takes a text."""
    services = body.get("services") if isinstance(body, dict) else None
    for service in services if isinstance(services, list) else []:
        if isinstance(service, dict) and isinstance(service.get("env"), list):
            service["env"] = None


def _faults(schema: dict[str, Any], value: object, where: str) -> list[str]:
    errors = Draft202012Validator(schema).iter_errors(value)
    return [f"{where} {'.'.join(map(str, error.absolute_path))}: {error.message}" for error in errors]


def _resolved(part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        target: Any = DOCUMENT
        for name in part["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        part = target
    return part


def _schema(part: Any) -> Any:
    if isinstance(part, list):
        return [_schema(item) for item in part]
    if not isinstance(part, dict):
        return part
    part = _resolved(part)
    schema = {key: _schema(value) for key, value in part.items() if key != "nullable"}
    if part.get("nullable") is True and ("type" in part or "allOf" in part):
        return {"anyOf": [{"type": "null"}, schema]}
    return schema
