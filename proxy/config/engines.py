"""What makes nodes: one section for each kind of provider, and the template of a Suanli task.

`Config.provider` is always exactly one of these. Addresses in `static` are unique: the same node listed
twice would be given two requests at once.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from proxy.config.kinds import (
    BaseUrl,
    FilePath,
    Interval,
    OpenSection,
    Origin,
    Port,
    Secret,
    Section,
    Target,
    Text,
)


def _distinct(nodes: tuple[str, ...]) -> tuple[str, ...]:
    seen = set()
    for node in nodes:
        parts = urlsplit(node)
        place = (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
        if place in seen:
            raise ValueError(
                f"expected each node once, {node} is listed again: it would be given two requests at once"
            )
        seen.add(place)
    return nodes


def _with_port(command: tuple[str, ...]) -> tuple[str, ...]:
    if not any("{port}" in part for part in command):
        raise ValueError("expected {port} in one of its parts: every node gets a free port of its own")
    return tuple(part.replace("{python}", sys.executable) for part in command)


class StaticConfig(Section):
    """A fixed list of nodes: never scaled, `min_nodes` and `max_nodes` have no effect."""

    kind: Literal["static"] = Field(default="static", description="A fixed list of nodes, never scaled.")
    nodes: Annotated[tuple[Origin, ...], Field(min_length=1), AfterValidator(_distinct)] = Field(
        description="Addresses of the nodes, http://host:port or https://host:port; names are resolved again "
        "for each new connection."
    )


class ProcessConfig(Section):
    """Local processes, started and stopped like cloud nodes."""

    kind: Literal["process"] = Field(default="process", description="Nodes are processes on this machine.")
    command: Annotated[tuple[Text, ...], Field(min_length=1), AfterValidator(_with_port)] = Field(
        description="Program and arguments, run without a shell. {port} becomes a free port of 127.0.0.1 on "
        "which the node must listen, {python} the Python that runs the proxy."
    )
    name_prefix: Text = Field(default="local", description="How the nodes' names begin.")


class SuanliConfig(Section):
    """Tasks of the Suanli (Gongji) cloud, one node each, created from `scale_up_request`."""

    kind: Literal["suanli"] = Field(default="suanli", description="Nodes are tasks of the Suanli cloud.")
    openapi_base_url: BaseUrl = Field(
        default="https://openapi.suanli.cn",
        description="Address of the API; may be given at the top level instead.",
    )
    token: Secret = Field(
        default=SecretStr(""), description="API key of the account; may be given at the top level instead."
    )
    private_key_file: FilePath | None = Field(
        default=None,
        description="PEM file of the RSA private key, for API keys made in RSA mode: calls are signed.",
    )
    create_path: Target = Field(
        default="/api/deployment/task/create",
        description="Path of the create call; newer generation: /api/task/deployment/create.",
    )
    detail_path: Target = Field(
        default="/api/deployment/task/detail",
        description="Path of the detail call; newer generation: /api/task/deployment/detail.",
    )
    timeout_secs: Interval = Field(
        default=30, description="Seconds after which a call to the API has failed."
    )


Engine = StaticConfig | ProcessConfig | SuanliConfig


class Resource(OpenSection):
    """A quota to take a node from; other keys are passed on."""

    mark: str = Field(
        default="", description="Opaque mark of a device kind in a region, from the resource search."
    )
    region_name: str | None = Field(
        default=None, description="Name of the region, as the resource search gives it."
    )
    resource: dict[str, Any] | None = Field(
        default=None, description="The device, as the resource search gives it."
    )


class RemotePort(OpenSection):
    """A port that is published."""

    service_port: Port = Field(description="Port of the container to publish.")


class Service(OpenSection):
    """A container of the node; other keys are passed on."""

    service_name: Text = Field(description="Name of the service.")
    service_image: str = Field(default="", description="Container image.")
    remote_ports: tuple[RemotePort, ...] = Field(
        default=(), description="Ports to publish, proxy_port among them."
    )
    env: Any = Field(default=None, description="Environment of the container, passed on as it is.")
    shared_mem_size: Any = Field(default=None, description="Shared memory, passed on as it is.")
    start_script_v2: dict[str, Any] | None = Field(
        default=None, description='Start command: {"command": text or null, "args": [text, ...]}.'
    )
    storage_config: list[dict[str, Any]] | None = Field(
        default=None, description='Storage to mount: [{"storage_id": 1, "target_dir": "/models"}].'
    )
    share_storage_config: list[dict[str, Any]] | None = Field(
        default=None, description="Shared storage to mount."
    )
    nas_storage_config: list[dict[str, Any]] | None = Field(default=None, description="NAS storage to mount.")
    health_checks: dict[str, Any] | None = Field(
        default=None, description="The cloud's own probes of the container."
    )


def _task_name(value: str) -> str:
    if "_" in value:
        raise ValueError('expected a name without "_": the cloud refuses it')
    if not value.strip() or value != value.strip() or not value.isprintable() or " " in value:
        raise ValueError("expected a name without blanks")
    return value


class ScaleUpRequest(OpenSection):
    """The task that is created for each node; other keys are passed on to the API."""

    task_name: Annotated[Text, AfterValidator(_task_name)] = Field(
        description='Beginning of the names of our tasks, without "_". Every task of the account whose name '
        "begins with it belongs to this proxy, which may delete it."
    )
    points: Literal[1] = Field(
        default=1, description="Nodes in a task: 1, since only then has each an address."
    )
    resources: Annotated[tuple[Resource, ...], Field(min_length=1)] = Field(
        description="Quotas to take a node from."
    )
    services: Annotated[tuple[Service, ...], Field(min_length=1)] = Field(description="Containers of a node.")
    task_type: str | None = Field(default=None, description='Kind of task: "Deployment".')
    repository_username: str | None = Field(default=None, description="User name at the image's registry.")
    repository_password: str | None = Field(
        default=None, description="Password at the image's registry.", repr=False
    )
    scheduler_strategy: dict[str, Any] | None = Field(default=None, description="Passed on as it is.")
    task_qos: dict[str, Any] | None = Field(default=None, description="Passed on as it is.")
    load_balance: dict[str, Any] | None = Field(default=None, description="Passed on as it is.")
    dynamic_pod_strategy: dict[str, Any] | None = Field(
        default=None, description="The cloud's own autoscaler; must stay off, since the proxy scales."
    )

    def to_api(self) -> dict[str, Any]:
        """What the user wrote, and `points`; for the request body. Has secrets in it."""
        return {"points": self.points, **self.model_dump(mode="json", exclude_unset=True)}

    def exposed_ports(self) -> set[int]:
        """Ports that some service publishes."""
        return {port.service_port for service in self.services for port in service.remote_ports}
