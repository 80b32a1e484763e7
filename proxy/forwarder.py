"""What all exchanges share: the line's way in, the links to nodes, the time limits, the end.

What always holds: one link per node at most is kept, and `running` are the exchanges that have a lease.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, cast

from proxy.config import Config
from proxy.dispatch.dispatcher import Dispatcher
from proxy.dispatch.lease import Lease
from proxy.dispatch.line import Ticket
from proxy.dispatch.nodes import Node
from proxy.errors import (
    LineFull,
    NotPossibleNow,
    RemovedByOperator,
    RequestError,
    ShuttingDown,
    UnknownTarget,
    WaitedTooLong,
)
from proxy.exchange import Exchange
from proxy.http.address import Address, ResumingContext, client_context, parse_address
from proxy.http.listener import ClientConnection
from proxy.http.message import Request
from proxy.http.node_link import NodeLink, open_link
from proxy.http.roles import ClientReceiver, JobDesk, OwnReceiver
from proxy.records import Record, Recorder
from proxy.stats import Stats

if TYPE_CHECKING:
    from proxy.tracing import Tracing

log = logging.getLogger(__name__)


def grant(ticket: Ticket, lease: Lease) -> None:
    """The dispatcher's `grant`: all that waits is an exchange."""
    cast(Exchange, ticket).start(lease)


class Forwarder:
    """The handler of the users' port. `dispatcher` grants by this module's `grant`."""

    def __init__(self, config: Config, dispatcher: Dispatcher, stats: Stats, *, can_replace: bool) -> None:
        self.config = config
        self.dispatcher = dispatcher
        self.stats = stats
        self.can_replace = can_replace
        self.is_stopping = False
        self.recorder: Recorder | None = None  # None: nobody wants to know how requests end
        self.tracing: Tracing | None = None
        self.desk: JobDesk | None = None  # None: there are no jobs
        self.running: set[Exchange] = set()
        self.links: dict[int, NodeLink] = {}
        self._addresses: dict[str, Address] = {}
        self._tls: ResumingContext | None = None

    # --- the users' port

    def handle(self, connection: ClientConnection, request: Request) -> ClientReceiver:
        desk = self.desk
        # An absolute target may be one of its pages, too.
        if desk is not None and (
            request.may_be_job or request.target.startswith(desk.path) or not request.target.startswith(b"/")
        ):
            receiver = desk.receive(connection, request)
            if receiver is not None:
                return receiver
        return Exchange(self, connection, request, connection.peer.address)

    def begin(self, receiver: ClientReceiver) -> None:
        if not isinstance(receiver, Exchange):
            cast(OwnReceiver, receiver).begin()
        elif self.is_stopping:
            receiver.answer_error(ShuttingDown("the proxy is stopping", retry_after_secs=5))
        else:
            self.join(receiver)

    def join(self, exchange: Exchange) -> None:
        """To the tail of the line, or answered where it is full."""
        try:
            self.dispatcher.join(exchange, monotonic())
        except LineFull as error:
            exchange.answer_error(error)

    def refused(self, error: RequestError, request: Request | None, request_id: bytes, client: str) -> None:
        self.stats.requests[error.status, error.outcome] += 1
        self._record_unjoined(request, request_id, client, error.status, error.outcome)

    def left_while_sending(self, request: Request | None, client: str) -> None:
        self.stats.clients_left["sending"] += 1
        if request is not None:
            self._record_unjoined(request, request.request_id, client, 0, "client_left")

    def _record_unjoined(
        self, request: Request | None, request_id: bytes, client: str, status: int, outcome: str
    ) -> None:
        """One that never came to have an exchange."""
        if self.recorder is None:
            return
        now = monotonic()
        method, target = (request.method, request.target) if request is not None else (b"", b"")
        record = Record(now, now, request_id, method, target, client, status, outcome)
        if self.tracing is not None and request is not None:
            record.trace = self.tracing.begin(request.head_for(None), method)
        self.recorder.add(record)

    def remove(self, request_id: str) -> str:
        """Take a waiting request out of the line, for the operator, and answer it; raises OrderRefused. Clients
        may give ids of their own: the oldest of that id is meant."""
        wanted = request_id.encode()
        waiting = (cast(Exchange, ticket) for ticket in self.dispatcher.line)
        exchange = next((one for one in waiting if one.request.request_id == wanted), None)
        if exchange is not None:
            exchange.fail(RemovedByOperator("an operator took this request out of the line"), "removed")
            if exchange.job_id is not None:
                return "its job is cancelled"
            return f"its client was answered {RemovedByOperator.status}"
        if any(one.request.request_id == wanted for one in self.running):
            raise NotPossibleNow("it runs already: what a node has begun is not cut")
        raise UnknownTarget(f"no request {request_id} waits")

    # --- the nodes

    def host_for(self, address: Address, request: Request) -> bytes | None:
        """The Host to send, None to keep the client's (`preserve_host`)."""
        policy = self.config.preserve_host
        keeps = not address.is_name if policy == "auto" else policy
        return None if keeps and request.host else address.authority

    async def open_link(self, node: Node) -> NodeLink:
        """A new connection; raises OSError, or ValueError where the node has no usable address."""
        address = self._address(node)
        if address.is_tls and self._tls is None:
            self._tls = client_context(verify=self.config.node_tls_verify, ca_file=self.config.node_ca_file)
        return await open_link(address, self._tls, self.config.max_header_bytes)

    def keep_link(self, node: Node, link: NodeLink) -> None:
        self.drop_link(node)
        self.links[node.number] = link

    def drop_link(self, node: Node) -> None:
        """Forget the node's link; an idle one is closed."""
        link = self.links.pop(node.number, None)
        if link is not None and link.is_idle:
            link.close()

    def node_failing(self, node: Node, request: Request, reason: str) -> None:
        fields = {"request_id": request.request_id.decode("latin-1")}
        log.warning("node %s failed a request: %s", node.name, reason, extra={"fields": fields})

    def count_run(self, seconds: float) -> None:
        self.stats.node_run.observe(seconds)

    def settles(self, status: int) -> bool:
        """Whether a node that has answered so may still be at work (`node_free_when`)."""
        policy = self.config.node_free_when
        return policy == "ready" or (status == 202 and policy == "auto")

    def _address(self, node: Node) -> Address:
        url = node.url or ""
        address = self._addresses.get(url)
        if address is None:
            if len(self._addresses) > 2 * len(self.dispatcher.nodes) + 16:
                self._addresses.clear()  # cloud nodes come and go, each with an address of its own
            address = self._addresses[url] = parse_address(url)
        return address

    # --- time and the end

    def sweep(self, now: float) -> None:
        """Waits and runs that are past their time; links of nodes that are gone."""
        config = self.config
        for ticket in self.dispatcher.overdue(now, config.queue_timeout_secs):
            error = WaitedTooLong(
                f"waited {config.queue_timeout_secs:g} s (queue_timeout_secs)",
                retry_after_secs=self.dispatcher.estimate(now),
            )
            cast(Exchange, ticket).answer_error(error)
        for exchange in list(self.running):
            exchange.time_out_run(now, config.run_timeout_secs)
        gone = [number for number in self.links if self.dispatcher.nodes.get(number) is None]
        for number in gone:
            link = self.links[number]
            if not link.is_open or link.is_idle:
                link.close()
                del self.links[number]

    @property
    def is_empty(self) -> bool:
        return not self.running and not len(self.dispatcher.line)

    def end_waiting(self) -> None:
        """Answer 503 to all that waits."""
        for ticket in list(self.dispatcher.line):
            cast(Exchange, ticket).fail(ShuttingDown("the proxy is stopping", retry_after_secs=5), "stopping")

    def end_all(self) -> None:
        """Answer 503 to all that waits and runs: the time to drain is up."""
        self.end_waiting()
        for exchange in list(self.running):
            exchange.fail(ShuttingDown("the proxy is stopping", retry_after_secs=5), "stopping")

    def close(self) -> None:
        for link in self.links.values():
            link.close()
        self.links.clear()
