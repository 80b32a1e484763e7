"""A collector of OpenTelemetry traces: takes what an OTLP/HTTP exporter sends, and refuses what is none."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """`spans` are all that came. Between `async with`, at `url`."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        app = web.Application()
        app.add_routes([web.post("/v1/traces", self._take)])
        self._runner = web.AppRunner(app)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    def named(self, name: str) -> Span:
        """The only span of this name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        told = ExportTraceServiceRequest.FromString(await request.read())
        for resource in told.resource_spans:
            facts = facts_of(resource.resource.attributes)
            self.services.add(facts["service.name"])
            for scope in resource.scope_spans:
                assert scope.scope.name == "fifo-proxy"
                self.spans += scope.spans
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf"
        )


def facts_of(attributes: Any) -> dict[str, Any]:
    return {
        pair.key: pair.value.int_value if pair.value.HasField("int_value") else pair.value.string_value
        for pair in attributes
    }
