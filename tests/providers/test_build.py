from __future__ import annotations

import pytest

from proxy.config import parse
from proxy.errors import ConfigError
from proxy.providers import _secrets, build
from proxy.providers.process import ProcessProvider
from proxy.providers.static import StaticProvider
from proxy.providers.suanli import SuanliProvider
from tests.providers.conftest import REQUEST, TOKEN


def test_the_configuration_names_the_engine() -> None:
    static = build(parse({"provider": {"kind": "static", "nodes": ["http://10.0.0.1:3000"]}}))
    process = build(
        parse({"provider": {"kind": "process", "command": ["x", "{port}"], "name_prefix": "gpu"}})
    )
    suanli = build(parse({"token": TOKEN, "proxy_port": 3000, "scale_up_request": REQUEST}))
    assert isinstance(static, StaticProvider)
    assert isinstance(process, ProcessProvider)
    assert isinstance(suanli, SuanliProvider)
    assert (process.name_prefix, suanli.name_prefix) == ("gpu", "pool-a")
    assert [provider.kind for provider in (static, process, suanli)] == ["static", "process", "suanli"]


def test_suanli_needs_to_know_what_to_create() -> None:
    config = parse({"provider": {"kind": "suanli", "token": TOKEN}}, serving=False)
    with pytest.raises(ConfigError, match="required for Suanli"):
        build(config)


def test_what_is_hidden_of_a_request() -> None:
    request = {
        "task_name": "shown",
        "repository_password": "one",
        "services": [{"env": [{"name": "shown", "value": "two"}], "x": {"api_key": "three", "n": 4}}],
    }
    assert [*_secrets(request)] == ["one", "two", "three"]
