"""Every key of the configuration with its default, range and meaning; frozen.

Attributes have the names of the keys. Descriptions feed the JSON Schema, so they are written for users.
Ranges and types hold for any `Config`; what several keys must agree on is in `checks.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, SecretStr

from proxy.config.engines import Engine, ScaleUpRequest, SuanliConfig
from proxy.config.kinds import (
    Amount,
    BaseUrl,
    Bytes,
    Count,
    DatabaseUrl,
    FilePath,
    Flag,
    HookUrl,
    Interval,
    JobsPath,
    ListenPort,
    Network,
    Port,
    Price,
    Seconds,
    Secret,
    Section,
    Target,
    Text,
    WebhookHost,
    WebhookSecret,
)


class Config(Section):
    """The whole configuration. `provider` is complete: `load` has put the flat Suanli keys into it."""

    _warnings: tuple[str, ...] = PrivateAttr(default=())

    # The user's document
    openapi_base_url: BaseUrl = Field(
        default="https://openapi.suanli.cn",
        description="Address of the Suanli API, used when provider is Suanli.",
    )
    token: Secret = Field(default=SecretStr(""), description="API key of the Suanli account.")
    min_nodes: Count = Field(
        default=1, description="Nodes kept even when idle. 0: none at start, the first request starts one."
    )
    max_nodes: Amount = Field(
        default=3, description="Nodes never exceeded, those that are starting included."
    )
    max_scale_down_nodes: Amount = Field(default=1, description="Most nodes stopped at once.")
    scale_down_cooldown_secs: Seconds = Field(default=180, description="Least time between two scale-downs.")
    queue_scale_wait_secs: Seconds = Field(
        default=120, description="When the oldest request has waited this long, nodes are added."
    )
    queue_scale_count_threshold: Count = Field(
        default=10, description="When more requests than this wait, nodes are added."
    )
    idle_shutdown_secs: Seconds = Field(
        default=180, description="A node idle for longer than this may be stopped."
    )
    scale_up_cooldown_secs: Seconds = Field(default=30, description="Least time between two scale-ups.")
    node_refresh_interval_secs: Interval = Field(
        default=15,
        description="Time between two looks at the list of nodes, and between two probes of an idle node.",
    )
    scale_check_interval_secs: Interval = Field(default=5, description="Time between two scaling decisions.")
    stats_log_interval_secs: Seconds = Field(
        default=15, description="Time between two lines of statistics; 0: none."
    )
    proxy_port: Port | None = Field(
        default=None,
        description="Port of a Suanli node that requests go to; one that scale_up_request publishes.",
    )
    health_check_path: Target = Field(
        default="/ready", description="Path that answers 200 when a node is ready."
    )
    scale_up_request: ScaleUpRequest | None = Field(
        default=None, description="The Suanli task that is created for each node."
    )

    # Listening
    listen_host: Text = Field(default="0.0.0.0", description="Address that users' traffic comes in on.")
    listen_port: ListenPort = Field(default=8080, description="Port of the users' traffic; 0: any free one.")
    tls_cert_file: FilePath | None = Field(
        default=None, description="PEM file of the certificate and its chain: users' traffic is HTTPS."
    )
    tls_key_file: FilePath | None = Field(
        default=None, description="PEM file of the certificate's private key."
    )
    proxy_protocol: Flag = Field(
        default=False, description="Every connection must begin with a PROXY protocol header (v1 or v2)."
    )
    trusted_proxies: tuple[Network, ...] = Field(
        default=(),
        description="Address ranges (CIDR) of proxies whose Forwarded and X-Forwarded-* are believed.",
    )
    admin_host: Text = Field(default="127.0.0.1", description="Address of the admin port.")
    admin_port: ListenPort = Field(
        default=8081, description="Port of dashboard, metrics and API; 0: any free one."
    )
    admin_token: Secret | None = Field(
        default=None, description="Token that the admin port demands; needed when admin_host is not loopback."
    )
    admin_open: Flag = Field(
        default=False, description="Lets an admin port that is not loopback go without token."
    )

    # Health
    degraded_wait_secs: Seconds = Field(
        default=600, description="When the oldest request has waited longer, the proxy is degraded; 0: never."
    )
    alert_webhook: HookUrl | None = Field(
        default=None, description="Address that each change of health is posted to as JSON."
    )
    alert_webhook_token: Secret | None = Field(
        default=None, description="Sent with it as Authorization: Bearer."
    )

    # Nodes
    provider: Annotated[Engine, Field(discriminator="kind")] = Field(
        default_factory=SuanliConfig,
        description="What makes nodes. Left out: Suanli, from the keys at the top level.",
    )
    connect_timeout_secs: Interval = Field(
        default=5, description="Time to connect to a node, TLS handshake included."
    )
    run_timeout_secs: Interval = Field(
        default=3600, description="Time from sending a request to the last byte of its response; past it 504."
    )
    preserve_host: Literal[True, False, "auto"] = Field(
        default="auto",
        description="true: the client's Host reaches the node; false: Host names the node; auto: false where "
        "the node's address is a DNS name, true where it is an IP address or localhost.",
    )
    node_free_when: Literal["auto", "answered", "ready"] = Field(
        default="auto",
        description="When a node may have its next request. answered: its response is read; ready: after "
        "that its probe answers 200 again; auto: ready after a 202, else answered.",
    )
    node_tls_verify: Flag = Field(
        default=True, description="Whether certificates of https nodes are verified."
    )
    node_ca_file: FilePath | None = Field(
        default=None,
        description="PEM file of the authorities that https nodes are verified with; null: the system's.",
    )
    resend: Literal["not_sent", "idempotent", "never"] = Field(
        default="not_sent",
        description="Which requests are sent to another node after a failure. not_sent: those that provably "
        "never reached a node; idempotent: safe methods too; never: none.",
    )
    on_client_gone: Literal["auto", "finish", "abort"] = Field(
        default="auto",
        description="A run whose client left. finish: read to its end; abort: cut, the node must pass its "
        "probe again; auto: finish, but abort once an answer of unknown length has begun.",
    )
    node_start_timeout_secs: Interval = Field(
        default=900,
        description="A node that is not ready by then is destroyed and counted as a failed start.",
    )
    unready_destroy_secs: Interval = Field(
        default=300, description="A node unready for this long is replaced."
    )
    probe_timeout_secs: Interval = Field(default=5, description="Time that a readiness probe may take.")
    start_probe_interval_secs: Interval = Field(
        default=2, description="Time between two probes of a starting or unready node."
    )
    destroy_nodes_on_exit: Flag = Field(
        default=False, description="Whether nodes are destroyed when the proxy stops; processes always are."
    )
    scaling_policy: Literal["threshold", "per_request", "target_wait"] = Field(
        default="threshold",
        description="threshold: by the queue_scale_* keys; per_request: one node for each request; target_wait: the "
        "fewest nodes that keep the wait under target_wait_secs.",
    )
    target_wait_secs: Interval = Field(
        default=60, description="Under target_wait: 19 of 20 requests should wait no longer than this."
    )

    # What they cost
    node_price_per_hour: Price | None = Field(
        default=None, description="What a node costs an hour, shown as cost on the page; null: not shown."
    )
    currency: Text | None = Field(default=None, description="Of that price, shown behind it, such as CNY.")

    # The line and its clients
    max_queue_length: Amount = Field(
        default=4096, description="Requests that may wait; more are answered 429."
    )
    queue_timeout_secs: Seconds = Field(
        default=3600, description="Time that a request may wait, over all attempts; past it 503; 0: no limit."
    )
    header_timeout_secs: Interval = Field(
        default=30, description="Time that a client has to send a request's head."
    )
    body_timeout_secs: Interval = Field(
        default=60, description="Longest gap between two pieces of a client's body."
    )
    keepalive_timeout_secs: Interval = Field(
        default=75, description="Time that an idle client connection is kept open."
    )
    max_header_bytes: Annotated[Bytes, Field(ge=256)] = Field(
        default=65536, description="Largest head of a request or response; a larger one is answered 431."
    )
    max_body_bytes: Bytes = Field(default=2**30, description="Largest body of a request; a larger one: 413.")
    spool_memory_bytes: Bytes = Field(
        default=262144, description="Bytes of a body kept in memory; the rest in a file."
    )
    spool_dir: FilePath | None = Field(
        default=None, description="Directory of those files; null: the system's temporary one."
    )
    max_spool_bytes: Bytes = Field(
        default=10 * 2**30, description="Largest total of those files; past it requests are answered 503."
    )
    # What survives: jobs
    database_url: DatabaseUrl | None = Field(
        default=SecretStr("sqlite:///jobs.db"),
        description="Where jobs are stored: sqlite:///PATH (one process), or postgresql://USER:PASSWORD@HOST/DATABASE "
        "(several replicas); null: there are no jobs.",
    )
    database_timeout_secs: Interval = Field(
        default=5,
        description="Time that the jobs' database has for a call; past it new jobs are answered 503.",
    )
    replica_name: Text | None = Field(
        default=None,
        description="Name of this proxy among those that share the database, the same after a restart; null: from host "
        "name and port.",
    )
    job_retention_secs: Interval = Field(
        default=86400,
        description="Time that a finished job's result is kept; for as long again it is answered 410, then 404.",
    )
    job_inline_bytes: Annotated[Bytes, Field(le=16 * 2**20)] = Field(
        default=65536,
        description="Largest body stored in its job's row; larger: in files beside SQLite, in pieces in PostgreSQL.",
    )
    max_stored_bytes: Bytes = Field(
        default=10 * 2**30,
        description="Largest total of the stored bodies; past it new jobs are answered 503, results are still stored.",
    )
    jobs_path: JobsPath = Field(
        default="/.jobs/",
        description="Where clients find their jobs on the users' port; nothing below it reaches a node.",
    )
    hold_secs: Seconds = Field(
        default=0,
        description="Time that a client which asked for respond-async is kept waiting for the answer itself before it "
        "gets a receipt; its own wait=N goes first.",
    )
    job_policy: Literal["once", "retry"] = Field(
        default="once",
        description="What becomes of a job whose run was lost. once: unknown, never sent again; retry: sent again at "
        "most once more, then failed.",
    )
    webhook_allowed_hosts: tuple[WebhookHost, ...] = Field(
        default=(),
        description="Hosts that a job's Webhook-Url may name: host names, *.DOMAIN for all below a domain, * for any; "
        "with http:// before it also by http; none: the header is refused.",
    )
    webhook_allow_private: Flag = Field(
        default=False,
        description="Whether a webhook may lead to private, loopback and link-local addresses, and to any by http.",
    )
    webhook_secret: WebhookSecret | None = Field(
        default=None,
        description="What webhooks are signed with (Standard Webhooks), required with webhook_allowed_hosts: whsec_ "
        "and base64 of 24 to 64 bytes, or 24 to 64 characters as they are.",
    )
    drain_timeout_secs: Seconds = Field(
        default=30, description="Time that running and waiting requests have to finish when the proxy stops."
    )
    # What is written down
    request_log: FilePath | None = Field(
        default=None,
        description="File that gets a line for each request: CSV where its name ends in .csv, else JSON; simulate and "
        "tune read it; null: none.",
    )
    request_log_max_bytes: Annotated[Bytes, Field(ge=4096)] = Field(
        default=100 * 2**20, description="Past this size the file becomes PATH.1, that one PATH.2, and so on."
    )
    request_log_files: Count = Field(default=5, description="Files kept so, beside the one being written.")
    request_log_query: Flag = Field(default=False, description="Whether its lines have the query.")
    tracing: Flag = Field(
        default=False,
        description="Whether OpenTelemetry traces are made; where they go is told by the OTEL_* variables.",
    )
    request_lines: Flag = Field(
        default=True, description="Whether each request gets a line in the log at its end."
    )
    log_format: Literal["text", "json"] = Field(default="text", description="How log lines are written.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="What is logged."
    )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was accepted but is worth a look, one line each."""
        return self._warnings
