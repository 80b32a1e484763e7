"""What a configuration may say, and the one line that each mistake gets."""

from __future__ import annotations

import copy
import json
import sys
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from proxy.config import Config, ProcessConfig, StaticConfig, SuanliConfig, effective, parse
from proxy.errors import ConfigError

REQUEST: dict[str, Any] = {
    "task_name": "pool",
    "resources": [{"mark": "bWFyaw=="}],
    "services": [
        {
            "service_name": "main",
            "service_image": "registry.example/model:1",
            "remote_ports": [{"service_port": 3000}, {"service_port": 8188}],
        }
    ],
}
SUANLI: dict[str, Any] = {"token": "sesame-token", "proxy_port": 3000, "scale_up_request": REQUEST}
STATIC: dict[str, Any] = {"provider": {"kind": "static", "nodes": ["http://node:3000"]}}
_NO_WEBHOOK_SECRET = (
    "webhook_secret = ***: expected whsec_ and base64 of 24 to 64 bytes, or 24 to 64 characters as they are"
)


def request_with(path: str, value: object) -> dict[str, Any]:
    """The Suanli keys with one place of the request changed; `path` as in `services.0.env`."""
    changed = copy.deepcopy(SUANLI)
    *parents, last = path.split(".")
    place = changed["scale_up_request"]
    for part in parents:
        place = place[int(part)] if part.isdigit() else place[part]
    place[last] = value
    return changed


def faults(raw: dict[str, Any], *, serving: bool = True) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(raw, serving=serving)
    assert all("\n" not in fault for fault in caught.value.faults)
    return [fault.removeprefix("configuration: ") for fault in caught.value.faults]


def test_defaults_are_those_of_the_design() -> None:
    expected = {
        "min_nodes": 1,
        "max_nodes": 3,
        "max_scale_down_nodes": 1,
        "scale_down_cooldown_secs": 180,
        "queue_scale_wait_secs": 120,
        "queue_scale_count_threshold": 10,
        "idle_shutdown_secs": 180,
        "scale_up_cooldown_secs": 30,
        "node_refresh_interval_secs": 15,
        "scale_check_interval_secs": 5,
        "stats_log_interval_secs": 15,
        "health_check_path": "/ready",
        "listen_host": "0.0.0.0",
        "listen_port": 8080,
        "admin_host": "127.0.0.1",
        "admin_port": 8081,
        "max_queue_length": 4096,
        "queue_timeout_secs": 3600,
        "run_timeout_secs": 3600,
        "connect_timeout_secs": 5,
        "preserve_host": "auto",
        "node_free_when": "auto",
        "node_tls_verify": True,
        "header_timeout_secs": 30,
        "body_timeout_secs": 60,
        "keepalive_timeout_secs": 75,
        "max_header_bytes": 65536,
        "max_body_bytes": 2**30,
        "spool_memory_bytes": 262144,
        "max_spool_bytes": 10 * 2**30,
        "resend": "not_sent",
        "on_client_gone": "auto",
        "node_start_timeout_secs": 900,
        "unready_destroy_secs": 300,
        "probe_timeout_secs": 5,
        "start_probe_interval_secs": 2,
        "drain_timeout_secs": 30,
        "destroy_nodes_on_exit": False,
        "log_format": "text",
        "log_level": "info",
        "scaling_policy": "threshold",
        "database_timeout_secs": 5,
        "job_retention_secs": 86400,
        "job_inline_bytes": 65536,
        "max_stored_bytes": 10 * 2**30,
        "jobs_path": "/.jobs/",
        "hold_secs": 0,
        "job_policy": "once",
        "webhook_allowed_hosts": (),
        "webhook_allow_private": False,
        "webhook_secret": None,
        "proxy_protocol": False,
        "trusted_proxies": (),
    }
    config = parse(STATIC)
    assert {key: getattr(config, key) for key in expected} == expected


def test_every_key_tells_what_it_means() -> None:
    assert [key for key, field in Config.model_fields.items() if not field.description] == []


def test_it_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(parse(STATIC), "min_nodes", 2)  # noqa: B010


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"max_node": 3}, 'max_node = 3: unknown key (did you mean "max_nodes"?)'),
        ({"zzz": True}, "zzz = true: unknown key"),
        ({"min_nodes": True}, "min_nodes = true: expected a whole number"),
        ({"min_nodes": 1.0}, "min_nodes = 1.0: expected a whole number"),
        ({"min_nodes": "1"}, 'min_nodes = "1": expected a whole number'),
        ({"min_nodes": None}, "min_nodes = null: expected a whole number"),
        ({"min_nodes": -1}, "min_nodes = -1: expected at least 0"),
        ({"max_nodes": 0}, "max_nodes = 0: expected at least 1"),
        ({"max_queue_length": 0}, "max_queue_length = 0: expected at least 1"),
        ({"listen_port": 65536}, "listen_port = 65536: expected at most 65535"),
        ({"proxy_port": 0}, "proxy_port = 0: expected at least 1"),
        ({"queue_timeout_secs": "30s"}, 'queue_timeout_secs = "30s": expected a number of seconds, such as 30'),
        ({"queue_timeout_secs": True}, "queue_timeout_secs = true: expected a number of seconds, such as 30"),
        (
            {"idle_shutdown_secs": float("nan")},
            "idle_shutdown_secs = NaN: expected a number of seconds, such as 30",
        ),
        ({"scale_check_interval_secs": 0}, "scale_check_interval_secs = 0: expected more than 0"),
        ({"run_timeout_secs": 1e9}, "run_timeout_secs = 1000000000.0: expected at most 31536000"),
        ({"max_body_bytes": 1e6}, "max_body_bytes = 1000000.0: expected a whole number"),
        ({"node_tls_verify": "no"}, 'node_tls_verify = "no": expected true or false'),
        ({"preserve_host": "yes"}, 'preserve_host = "yes": expected true, false or "auto"'),
        ({"log_level": "warn"}, 'log_level = "warn": expected "debug", "info", "warning" or "error"'),
        ({"jobs_path": "/jobs"}, 'jobs_path = "/jobs": expected a path that begins and ends with "/", such as /.jobs/'),
        ({"jobs_path": "/"}, 'jobs_path = "/": expected a path that begins and ends with "/", such as /.jobs/'),
        ({"job_policy": "twice"}, 'job_policy = "twice": expected "once" or "retry"'),
        ({"webhook_secret": "whsec_c2hvcnQ="}, _NO_WEBHOOK_SECRET),
        ({"webhook_secret": "plain"}, _NO_WEBHOOK_SECRET),
        ({"webhook_allowed_hosts": ["a.example"]}, "webhook_secret: required, since webhook_allowed_hosts names hosts"),
        (
            {"webhook_allowed_hosts": ["https://a.example/x"]},
            'webhook_allowed_hosts[0] = "https://a.example/x": expected a host name, "*.DOMAIN" or "*", '
            'where http is allowed with "http://" before it',
        ),
        ({"resend": "always"}, 'resend = "always": expected "not_sent", "idempotent" or "never"'),
        ({"health_check_path": "ready"}, 'health_check_path = "ready": expected a path that begins with "/"'),
        ({"listen_host": ""}, 'listen_host = "": expected a text that is not empty'),
        ({"spool_dir": ""}, 'spool_dir = "": expected a path, or null for none'),
        ({"trusted_proxies": "10.0.0.0/8"}, 'trusted_proxies = "10.0.0.0/8": expected a list'),
        ({"provider": {"kind": "static"}}, "provider.nodes: required, but missing"),
        (
            {"provider": {"kind": "suanly"}},
            'provider.kind = "suanly": expected one of "static", "process", "suanli" (did you mean "suanli"?)',
        ),
        ({"provider": {}}, 'provider.kind: expected one of "static", "process", "suanli"'),
        ({"provider": []}, "provider = [...]: expected an object {...}"),
        ({"provider": {"kind": "static", "nodes": []}}, "provider.nodes = [...]: expected at least one"),
        ({"provider": {"kind": "process", "command": "{port}"}}, 'provider.command = "{port}": expected a list'),
        (
            {"provider": {"kind": "process", "command": ["prog"]}},
            "provider.command = [...]: expected {port} in one of its parts: every node gets a free port of its own",
        ),
        (
            {"provider": {"kind": "process", "comand": 1, "command": ["{port}"]}},
            'provider.comand = 1: unknown key (did you mean "command"?)',
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(changes: dict[str, Any], expected: str) -> None:
    assert faults(STATIC | changes) == [expected]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"min_nodes": 4}, "min_nodes = 4: expected at most max_nodes, which is 3"),
        ({"admin_port": 8080}, "admin_port = 8080: expected another port than listen_port"),
        ({"admin_token": ""}, 'admin_token = "": expected a token that is not empty, or null for none'),
        ({"tls_cert_file": __file__}, "tls_key_file: required, since tls_cert_file is given"),
        ({"tls_key_file": __file__}, "tls_cert_file: required, since tls_key_file is given"),
        ({"alert_webhook_token": "x"}, "alert_webhook: required, since alert_webhook_token is given"),
        (
            {"tls_key_file": __file__, "tls_cert_file": __file__, "proxy_protocol": True},
            "proxy_protocol = true: expected false, since tls_cert_file is given: a balancer sends its header "
            "before the TLS handshake",
        ),
        (
            {"node_ca_file": "ca", "node_tls_verify": False},
            'node_ca_file = "ca": expected null, since node_tls_verify is false',
        ),
        ({"node_ca_file": "/no/ca.pem"}, 'node_ca_file = "/no/ca.pem": expected a file that can be read'),
        ({"spool_dir": "/no/dir"}, 'spool_dir = "/no/dir": expected a directory that can be written to'),
    ],
)
def test_a_contradiction_is_refused(changes: dict[str, Any], expected: str) -> None:
    assert expected in faults(STATIC | changes)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "proxy.example"])
def test_an_admin_port_for_everybody_demands_a_token_or_a_word(host: str) -> None:
    assert [fault.partition(" = ")[0] for fault in faults(STATIC | {"admin_host": host})] == ["admin_host"]
    for waiver in ({"admin_token": "sesame"}, {"admin_open": True}):
        assert parse(STATIC | {"admin_host": host} | waiver).admin_host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_an_admin_port_on_loopback_needs_no_token(host: str) -> None:
    assert parse(STATIC | {"admin_host": host}).admin_token is None


def test_ports_may_be_equal_where_the_addresses_differ_and_where_both_are_any() -> None:
    assert parse(STATIC | {"listen_port": 0, "admin_port": 0}).admin_port == 0
    assert parse(STATIC | {"listen_host": "10.0.0.1", "admin_port": 8080}).admin_port == 8080


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("node:3000", "expected an address such as http://host:port"),
        ("ftp://node", "expected an address such as http://host:port"),
        ("http://", "expected an address such as http://host:port"),
        ("http://node:0", "expected an address such as http://host:port"),
        ("http://node:99999", "expected an address such as http://host:port"),
        ("http://node/base", "expected an address without a path"),
        ("http://node?x=1", "expected an address without credentials, query or fragment"),
        ("http://no de", "expected an address of plain ASCII letters"),
        ("http://节点:3000", "expected an address of plain ASCII letters"),
    ],
)
def test_a_node_address_is_an_origin(address: str, complaint: str) -> None:
    (fault,) = faults({"provider": {"kind": "static", "nodes": [address]}})
    assert fault.startswith(f'provider.nodes[0] = "{address}": {complaint}')


def test_node_addresses_lose_their_last_slash_and_may_be_ipv6() -> None:
    config = parse({"provider": {"kind": "static", "nodes": ["http://[::1]:80/", "https://node"]}})
    assert config.provider == StaticConfig(nodes=("http://[::1]:80", "https://node"))


@pytest.mark.parametrize("twin", ["http://NODE:80/", "http://node:80", "http://node"])
def test_a_node_listed_twice_is_refused(twin: str) -> None:
    (fault,) = faults({"provider": {"kind": "static", "nodes": ["http://node", twin]}})
    assert "expected each node once" in fault


def test_python_in_a_command_is_the_one_that_runs() -> None:
    config = parse({"provider": {"kind": "process", "command": ["{python}", "-m", "x", "{port}"]}})
    assert config.provider == ProcessConfig(command=(sys.executable, "-m", "x", "{port}"))


def test_networks_are_networks() -> None:
    config = parse(STATIC | {"trusted_proxies": ["10.0.0.0/8", "::1"]})
    assert config.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("::1/128"))
    (fault,) = faults(STATIC | {"trusted_proxies": ["10.0.0.1/8"]})
    assert fault.startswith('trusted_proxies[0] = "10.0.0.1/8": expected an address range')


def test_flat_keys_mean_suanli(tmp_path: Path) -> None:
    config = parse(SUANLI)
    assert isinstance(config.provider, SuanliConfig)
    assert config.provider.token.get_secret_value() == "sesame-token"
    assert config.provider.openapi_base_url == "https://openapi.suanli.cn"
    key = tmp_path / "key.pem"
    key.touch()
    own = parse(SUANLI | {"provider": {"kind": "suanli", "private_key_file": str(key)}})
    assert isinstance(own.provider, SuanliConfig)
    assert (own.provider.token, own.provider.private_key_file) == (config.provider.token, key)


def test_a_flat_key_must_not_differ_from_the_providers() -> None:
    (fault,) = faults(SUANLI | {"provider": {"kind": "suanli", "token": "another"}})
    assert fault == "provider.token: expected the same as token at the top level, or only one of them"
    only_there = {key: value for key, value in SUANLI.items() if key != "token"}
    engine = parse(only_there | {"provider": {"kind": "suanli", "token": "another"}}).provider
    assert isinstance(engine, SuanliConfig)
    assert engine.token.get_secret_value() == "another"


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("task_name", "a_b", 'scale_up_request.task_name = "a_b": expected a name without "_"'),
        ("task_name", "", 'scale_up_request.task_name = "": expected a text that is not empty'),
        ("task_name", " ", 'scale_up_request.task_name = " ": expected a name without blanks'),
        ("points", 2, "scale_up_request.points = 2: expected 1"),
        ("resources", [], "scale_up_request.resources = [...]: expected at least one"),
        (
            "resources.0.mark",
            "",
            'scale_up_request.resources[0].mark = "": expected the mark of a device kind',
        ),
        (
            "services.0.service_image",
            " ",
            'scale_up_request.services[0].service_image = " ": expected the name',
        ),
        ("services.0.service_name", "", 'scale_up_request.services[0].service_name = "": expected a text'),
        (
            "services.0.remote_ports",
            [{}],
            "scale_up_request.services[0].remote_ports[0].service_port: required",
        ),
        ("services.0.remote_ports", [], "proxy_port = 3000: expected a service_port of scale_up_request"),
        (
            "dynamic_pod_strategy",
            {"switch": True},
            "scale_up_request.dynamic_pod_strategy.switch = true: expected",
        ),
    ],
)
def test_a_mistake_in_the_request(path: str, value: object, expected: str) -> None:
    (fault,) = faults(request_with(path, value))
    assert fault.startswith(expected)


@pytest.mark.parametrize("key", ["token", "proxy_port", "scale_up_request"])
def test_suanli_needs_its_keys_to_serve_but_not_to_be_read(key: str) -> None:
    partial = {name: value for name, value in SUANLI.items() if name != key}
    (fault,) = faults(partial)
    assert fault.startswith((f"{key}: ", f"{key} = "))
    assert isinstance(parse(partial, serving=False).provider, SuanliConfig)


def test_nothing_at_all_is_one_fault() -> None:
    (fault,) = faults({})
    assert fault.startswith("provider: missing")


def test_unknown_keys_of_the_request_are_passed_on_with_a_warning() -> None:
    config = parse(request_with("services.0.gpu_kind", "x") | {"min_nodes": 0})
    assert config.warnings == ("scale_up_request.services[0].gpu_kind: not known here, passed on to the API",)
    assert config.scale_up_request is not None
    sent = config.scale_up_request.to_api()
    assert sent == {**REQUEST, "points": 1, "services": [{**REQUEST["services"][0], "gpu_kind": "x"}]}


def test_other_warnings() -> None:
    assert parse(STATIC | {"max_nodes": 5}).warnings == (
        "max_nodes: has no effect, static nodes are never scaled",
    )
    assert parse(SUANLI | {"openapi_base_url": "http://127.0.0.1:9/"}).warnings == ()
    (warning,) = parse(SUANLI | {"openapi_base_url": "http://api.example"}).warnings
    assert warning.startswith("openapi_base_url: http sends the token")


@pytest.mark.parametrize(
    "address", ["https://hooks.example/T0/B0/s3cret", "https://hooks.example/robot?access_token=s3cret"]
)
def test_the_address_of_alerts_is_a_secret(address: str) -> None:
    config = parse(STATIC | {"alert_webhook": address, "alert_webhook_token": "s3cret"})
    assert config.alert_webhook is not None
    assert config.alert_webhook.get_secret_value() == address
    assert "s3cret" not in json.dumps(effective(config)) + repr(config)
    assert config.warnings == ()
    (warning,) = parse(STATIC | {"alert_webhook": address.replace("https", "http")}).warnings
    assert warning.startswith("alert_webhook: http sends it readable")


@pytest.mark.parametrize(
    "address",
    [
        "s3cret",
        "ftp://host/s3cret",
        "https://user:s3cret@host/",
        "https://host/s3cret#x",
        "https://host/?s3cret\n",
        1,
    ],
)
def test_a_bad_address_of_alerts_is_told_without_it(address: object) -> None:
    (fault,) = faults(STATIC | {"alert_webhook": address})
    assert fault.startswith("alert_webhook = ***: expected a")
    assert "s3cret" not in fault


def test_tracing_without_its_extra_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.config.checks.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"tracing = true: .*pip install 'fifo-proxy\[otel\]'"):
        parse({"provider": {"kind": "static", "nodes": ["http://x"]}, "tracing": True})
