"""Files, the environment, what is shown of a configuration, and the files that are shipped."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import json5
import jsonschema
import pytest

from proxy.config import (
    Config,
    ProcessConfig,
    ScaleUpRequest,
    SuanliConfig,
    effective,
    json_schema,
    load,
    parse,
)
from proxy.errors import ConfigError
from tests.test_config import REQUEST, STATIC, SUANLI

ROOT = Path(__file__).parent.parent
SEED = ROOT / "tests" / "cases" / "seed-config.jsonc"
SECRET = "sesame-9f2c"


def written(directory: Path, text: str) -> Path:
    path = directory / "config.json"
    path.write_text(text, encoding="utf-8")
    return path


def faults(path: Path, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(path, environ or {})
    return [fault.removeprefix(f"{path}") for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{\n "min_nodes" 1}', ':2:14: unexpected "1"'),
        ('{"min_nodes": 1', ":1:16: unexpected end of input"),
        ('{"min_nodes": 1 /* ', ":1:"),
        ('{"token": "a", "token": "b"}', ': duplicate key "token" found in object'),
        ('{"provider": {"kind": "static", "kind": "process"}}', ': duplicate key "kind" found in object'),
        (" \n", ": is empty"),
        ("[1]", ": expected an object {...}"),
        ("null", ": expected an object {...}"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    (fault,) = faults(written(tmp_path, text))
    assert fault.startswith(expected)


@pytest.mark.parametrize("text", ['{"a": 1，"b": 2}', '{"a"：1}', '｛"a": 1}', '{"a": ［1]}'])
def test_full_width_punctuation_is_pointed_at(tmp_path: Path, text: str) -> None:
    assert "full-width" in faults(written(tmp_path, text))[0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "no such file" in faults(tmp_path / "none.json")[0]
    assert "Docker" in faults(tmp_path)[0]
    gbk = tmp_path / "gbk.json"
    gbk.write_bytes('{"listen_host": "节点"}'.encode("gbk"))
    assert "save the file as UTF-8" in faults(gbk)[0]


def test_comments_trailing_commas_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = "\ufeff" + json.dumps(STATIC)[:-1] + ', /* 注释 */ "min_nodes": 2, // two\n "$schema": "x",}'
    assert load(written(tmp_path, text), {}).min_nodes == 2


def test_the_users_own_document() -> None:
    assert [fault.partition(": expected")[0] for fault in faults(SEED)] == [
        ': token = ""',
        ': scale_up_request.resources[0].mark = ""',
        ': scale_up_request.services[0].service_image = ""',
    ]
    raw: dict[str, Any] = json5.loads(SEED.read_text(encoding="utf-8"))
    raw["scale_up_request"]["resources"][0]["mark"] = "bWFyaw=="
    raw["scale_up_request"]["services"][0]["service_image"] = "registry.example/comfyui:1"
    config = parse(raw | {"token": SECRET})
    assert config.warnings == ()
    assert config.scale_up_request is not None
    assert config.scale_up_request.to_api() == raw["scale_up_request"]
    assert (config.proxy_port, config.provider.kind) == (3000, "suanli")


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        ("FIFO_PROXY_MIN_NODES", "2", "min_nodes", 2),
        ("FIFO_PROXY_QUEUE_TIMEOUT_SECS", "0.5", "queue_timeout_secs", 0.5),
        ("FIFO_PROXY_DESTROY_NODES_ON_EXIT", "true", "destroy_nodes_on_exit", True),
        ("FIFO_PROXY_PRESERVE_HOST", "false", "preserve_host", False),
        ("FIFO_PROXY_PRESERVE_HOST", "auto", "preserve_host", "auto"),
        ("FIFO_PROXY_LOG_LEVEL", "debug", "log_level", "debug"),
        ("FIFO_PROXY_LISTEN_HOST", "0", "listen_host", "0"),
        ("FIFO_PROXY_SPOOL_DIR", "/tmp", "spool_dir", Path("/tmp")),
    ],
)
def test_a_variable_overrides_its_key(tmp_path: Path, name: str, text: str, key: str, value: object) -> None:
    path = written(
        tmp_path, json.dumps(STATIC | {"min_nodes": 1, "log_level": "error", "preserve_host": True})
    )
    assert getattr(load(path, {name: text, "PATH": "x"}), key) == value


def test_structures_come_from_variables_too(tmp_path: Path) -> None:
    provider = '{"kind": "process", "command": ["prog", "{port}"]}'
    config = load(written(tmp_path, json.dumps(STATIC)), {"FIFO_PROXY_PROVIDER": provider})
    assert config.provider == ProcessConfig(command=("prog", "{port}"))


@pytest.mark.parametrize("text", ["12345", "1e5", "true", "null", '"quoted"'])
def test_a_token_from_a_variable_stays_a_text(tmp_path: Path, text: str) -> None:
    raw = SUANLI | {"provider": {"kind": "suanli", "token": "from-the-file"}}
    del raw["token"]
    config = load(written(tmp_path, json.dumps(raw)), {"FIFO_PROXY_TOKEN": text})
    assert isinstance(config.provider, SuanliConfig)
    assert config.provider.token.get_secret_value() == text


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "FIFO_PROXY_MIN_NODE",
            "1",
            'FIFO_PROXY_MIN_NODE: unknown variable (did you mean "FIFO_PROXY_MIN_NODES"?)',
        ),
        ("FIFO_PROXY_PORT", "8080", "FIFO_PROXY_PORT: unknown variable"),
        ("FIFO_PROXY_MIN_NODES", "two", 'FIFO_PROXY_MIN_NODES: min_nodes = "two": expected a whole number'),
        ("FIFO_PROXY_MIN_NODES", "", 'FIFO_PROXY_MIN_NODES: min_nodes = "": expected a whole number'),
        (
            "FIFO_PROXY_MIN_NODES",
            "9",
            "FIFO_PROXY_MIN_NODES: min_nodes = 9: expected at most max_nodes, which is 3",
        ),
        ("FIFO_PROXY_ADMIN_TOKEN", "", 'FIFO_PROXY_ADMIN_TOKEN: admin_token = "": expected a token'),
        ("FIFO_PROXY_ADMIN_TOKEN", "a\n", "FIFO_PROXY_ADMIN_TOKEN: admin_token = ***: expected plain ASCII"),
        ("FIFO_PROXY_PROVIDER", "{", 'FIFO_PROXY_PROVIDER: provider = "{": expected an object {...}'),
    ],
)
def test_a_wrong_variable_is_named(tmp_path: Path, name: str, text: str, expected: str) -> None:
    (fault,) = faults(written(tmp_path, json.dumps(STATIC)), {name: text})
    assert fault.startswith(expected)


def test_variables_of_other_peoples_making_are_let_alone(tmp_path: Path) -> None:
    kubernetes = {
        "FIFO_PROXY_PORT": "tcp://10.0.0.1:8080",
        "FIFO_PROXY_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "FIFO_PROXY_PORT_8080_TCP_ADDR": "10.0.0.1",
        "FIFO_PROXY_SERVICE_HOST": "10.0.0.1",
        "FIFO_PROXY_SERVICE_PORT": "8080",
        "FIFO_PROXY_SERVICE_PORT_HTTP": "8080",
    }
    reserved = {"FIFO_PROXY_CONFIG": "x", "FIFO_PROXY_TRACES": "y"}
    assert load(written(tmp_path, json.dumps(STATIC)), kubernetes | reserved).min_nodes == 1


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(STATIC | {"max_nodez": 1, "min_nodes": "x"}))
    assert len(faults(path, {"FIFO_PROXY_LOG_LEVEL": "loud", "FIFO_PROXY_TOKN": "1"})) == 4


@pytest.mark.parametrize(
    "raw",
    [
        STATIC | {"tokn": SECRET},
        STATIC | {"admin_tokens": {"a": SECRET}},
        STATIC | {"token": [SECRET]},
        STATIC | {"admin_token": f"{SECRET} {SECRET}"},
        STATIC | {"provider": {"kind": "static", "nodes": [f"http://user:{SECRET}@node"]}},
        STATIC | {"provider": {"kind": "static", "nodes": ["http://node"], "password": SECRET}},
        STATIC | {"provider": {"kind": "process", "command": ["--key", SECRET]}},
        SUANLI | {"token": SECRET, "provider": {"kind": "suanli", "token": "x" + SECRET}},
        SUANLI | {"scale_up_request": REQUEST | {"repository_password": [SECRET]}},
        SUANLI | {"scale_up_request": f"{{{SECRET}"[:1], "token": SECRET, "zz": SECRET},
    ],
)
def test_no_fault_shows_a_secret(raw: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ConfigError) as caught:
        parse(raw)
    assert SECRET not in f"{caught.value}{caught.value!r}{caught.value.__cause__}{caplog.text}"


def test_what_is_shown_of_a_configuration_has_its_secrets_masked() -> None:
    request = {**REQUEST, "repository_password": SECRET, "registry_secret": SECRET}
    request["services"] = [{**REQUEST["services"][0], "env": f"KEY={SECRET}"}]
    config = parse(SUANLI | {"token": SECRET, "admin_token": SECRET, "scale_up_request": request})
    shown = effective(config)
    assert SECRET not in json.dumps(shown) + repr(config) + str(config) + repr(config.warnings)
    assert shown["token"] == shown["admin_token"] == shown["provider"]["token"] == "***"
    assert shown["scale_up_request"]["services"][0]["env"] == "***"
    assert (shown["min_nodes"], shown["trusted_proxies"]) == (1, [])
    assert config.scale_up_request is not None
    assert config.scale_up_request.to_api() == {**request, "points": 1}


def test_the_schema_accepts_what_is_shipped_and_refuses_typos() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema).is_valid
    for file in (SEED, ROOT / "config.json", ROOT / "examples" / "suanli.json"):
        assert check(json5.loads(file.read_text(encoding="utf-8")))
    assert not check(STATIC | {"max_node": 1})
    assert not check(STATIC | {"preserve_host": "yes"})
    assert not check({"provider": {"kind": "process", "command": []}})
    assert schema["properties"]["min_nodes"]["default"] == 1


def test_the_shipped_configuration_works_at_once() -> None:
    config = load(ROOT / "config.json", {})
    assert config.warnings == ()
    assert isinstance(config.provider, ProcessConfig)
    assert config.provider.command[1:4] == ("-m", "proxy", "demo-node")


def test_the_suanli_example_has_every_key_with_its_default() -> None:
    path = ROOT / "examples" / "suanli.json"
    raw: dict[str, Any] = json5.loads(path.read_text(encoding="utf-8"))
    assert raw.keys() == Config.model_fields.keys()
    assert raw["provider"].keys() == SuanliConfig.model_fields.keys() - {"openapi_base_url", "token"}
    assert raw["scale_up_request"].keys() <= ScaleUpRequest.model_fields.keys()
    config, bare = load(path, {}, serving=False), parse({}, serving=False)
    told = Config.model_fields.keys() - {"proxy_port", "scale_up_request"}
    assert {key: getattr(config, key) for key in told} == {key: getattr(bare, key) for key in told}
    assert config.warnings == ()
    assert len(faults(path)) == 3
