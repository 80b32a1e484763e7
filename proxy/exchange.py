"""One request's life: whole -> waiting -> connecting -> running -> answering -> over.

What always holds: an exchange has a lease exactly while it is connecting, running or answering; the node's next
request leaves before the client's answer does. It hears its client (`client_*`) and its node (`node_*`); how it ends
where nothing is answered from the node is in `holder.py`.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from proxy import resend
from proxy.dispatch.lease import Lease
from proxy.errors import NodeUnreachable, RequestError
from proxy.holder import Holder, Phase
from proxy.http.answer import Answer
from proxy.http.listener import ClientConnection
from proxy.http.message import Field, Request
from proxy.http.node_link import NodeLink
from proxy.http.response import Response, own_fields
from proxy.http.tunnel import Tunnel

if TYPE_CHECKING:
    from proxy.forwarder import Forwarder

# A node may be closing its kept connection just now, or a gateway may have forgotten it without a word. Common servers
# keep one for 5 s or more; what may not be sent twice is more careful than what may.
_REUSE_SECS = 1.0
_SAFE_REUSE_SECS = 4.0


class Exchange(Holder):
    __slots__ = ("_resends",)

    def __init__(
        self, forwarder: Forwarder, client: ClientConnection | None, request: Request, client_address: str
    ) -> None:
        super().__init__(forwarder, client, request, client_address)
        self._resends = 0

    # --- its turn

    def start(self, lease: Lease) -> None:
        """The dispatcher's grant, in the turn of the event loop that made it possible."""
        self._take(lease)
        forwarder = self._forwarder
        forwarder.stats.queue_wait.observe(lease.granted_at - self.joined_at)
        link = forwarder.links.get(lease.node.number)
        limit = _SAFE_REUSE_SECS if self.request.is_safe else _REUSE_SECS
        if link is not None and link.is_idle and lease.granted_at - link.idle_since <= limit:
            self._send(link, lease)
        else:
            self.phase = Phase.CONNECTING
            self._task = asyncio.get_running_loop().create_task(self._open_and_send(lease))

    def _take(self, lease: Lease) -> None:
        forwarder = self._forwarder
        self._lease = lease
        self.node_name = lease.node.name
        forwarder.running.add(self)

    async def _open_and_send(self, lease: Lease) -> None:
        link = await self._open(lease)
        if link is not None:
            self._task = None
            self._send(link, lease)

    async def _open(self, lease: Lease) -> NodeLink | None:
        """A new connection to its node; None: there is none, and what follows from that is done."""
        forwarder = self._forwarder
        try:
            async with asyncio.timeout(forwarder.config.connect_timeout_secs):
                link = await forwarder.open_link(lease.node)
        except (OSError, ValueError) as error:  # TimeoutError and ssl.SSLError are OSErrors
            limit = f"none within {forwarder.config.connect_timeout_secs:g} s (connect_timeout_secs)"
            why = limit if isinstance(error, TimeoutError) else str(error)
            self._not_sent(lease, f"no connection: {why}")
            return None
        forwarder.keep_link(lease.node, link)
        return link

    def _send(self, link: NodeLink, lease: Lease) -> None:
        self._link = link
        self.phase = Phase.RUNNING
        self._is_sent = True
        self.sent_at = now = monotonic()
        freed_at = lease.node.last_processed_at
        if freed_at is not None and self.joined_at <= freed_at:  # it was waiting for this node
            self._forwarder.stats.handoff.observe(now - freed_at)
        host = self._forwarder.host_for(link.address, self.request)
        head = self.request.head_for(host)
        tracing = self._forwarder.tracing
        if tracing is not None and (trace := self._traced()) is not None:
            head = tracing.head(trace, head)
        link.send(self.request, head, self)

    def _not_sent(self, lease: Lease, reason: str) -> None:
        """It could not be sent: back to its place in the line, the node is unready."""
        self._task = None
        forwarder = self._forwarder
        forwarder.drop_link(lease.node)
        forwarder.node_failing(lease.node, self.request, reason)
        if (cause := resend.after_connect_failure(forwarder.config.resend)) is not None:
            self._rejoin(cause, reason)
        else:
            forwarder.dispatcher.release_unready(self._give_up_lease(), monotonic(), reason)
            self.answer_error(NodeUnreachable(reason))

    def _rejoin(self, cause: resend.Cause, reason: str) -> None:
        self.phase = Phase.WAITING
        self._rejoins += 1
        self._forwarder.stats.resends[cause] += 1
        self._forwarder.dispatcher.rejoin(self._give_up_lease(), monotonic(), reason)

    # --- what the node says

    def node_interim(self, response: Response) -> None:
        # Our own 100 has been sent long ago, and an HTTP/1.0 client knows none of them (RFC 9110, 15.2).
        if self._client is not None and response.status != 100 and not self.request.is_http10:
            self._client.send(response.interim_bytes())

    def node_head(self, response: Response) -> None:
        self._response = response
        self.phase = Phase.ANSWERING
        self.first_byte_at = monotonic()
        if self._client is not None:
            self._answer = Answer(
                self._client,
                self.request,
                response,
                self.sent_at - self.joined_at,
                self.first_byte_at - self.sent_at,
                may_keep=not self._forwarder.is_stopping,
            )
        elif self._aborts_without_client():
            self._abort_run("its client left")

    def node_body(self, data: bytes) -> None:
        self.bytes_out += len(data)
        if self._answer is not None:
            self._answer.add(data)

    def node_flush(self) -> None:
        if self._answer is not None and not self._answer.flush() and self._link is not None:
            self._link.pause_reading()

    def node_ended(self, trailers: list[Field]) -> None:
        response, answer = self._response, self._answer
        assert response is not None
        self._free_node(response.status)
        if answer is None:  # its client left
            self._record(response.status, "client_left")
            self._over()
            return
        self._count(response.status, "answered")
        self.phase = Phase.READING
        self._answer = None
        self._drop_body()
        answer.end(trailers)

    def _free_node(self, status: int) -> None:
        now = monotonic()
        forwarder = self._forwarder
        lease = self._give_up_lease()
        forwarder.count_run(now - self.sent_at)
        if forwarder.settles(status):
            forwarder.dispatcher.settle(lease, now)
        else:
            forwarder.dispatcher.release(lease, now)  # the node's next request is sent in here

    def node_failed(self, error: RequestError, *, heard: bool) -> None:
        lease, link = self._lease, self._link
        assert lease is not None
        assert link is not None
        forwarder = self._forwarder
        self._link = None
        forwarder.drop_link(lease.node)
        forwarder.node_failing(lease.node, self.request, error.detail)
        if self._response is None and self._client is not None:
            cause = resend.after_break(
                forwarder.config.resend,
                is_safe=self.request.is_safe,
                was_kept=link.is_reused,
                heard=heard,
                ran_secs=monotonic() - self.sent_at,
                resends=self._resends,
            )
            if cause is not None:
                # Not at once to the same node: it may be at work on what it got.
                self._resends += 1
                forwarder.count_run(monotonic() - self.sent_at)
                self._rejoin(cause, error.detail)
                return
        self._end_badly(error, error.detail)

    def node_switched(self, response: Response, first: bytes) -> None:
        client, link = self._client, self._link
        assert link is not None
        if client is None or client.is_gone:
            self._abort_run("its client left")
            return
        self.phase = Phase.UPGRADED
        self._drop_body()
        link.tunnel = tunnel = Tunnel(client, link, self._tunnel_ended)
        self.first_byte_at = monotonic()
        own = own_fields(
            self.request.request_id, self.sent_at - self.joined_at, self.first_byte_at - self.sent_at
        )
        client.upgrade(tunnel, response.switching_bytes(own))
        if first:
            tunnel.node_data(first)

    def _tunnel_ended(self, is_clean: bool) -> None:
        lease = self._give_up_lease()
        now = monotonic()
        self._count(101, "answered")
        self._client = None
        self.phase = Phase.OVER
        self._forwarder.count_run(now - self.sent_at)
        if is_clean:
            self._forwarder.dispatcher.release(lease, now)
        else:
            self._forwarder.dispatcher.release_unready(lease, now, "an upgraded connection broke off")

    # --- what the client does

    def client_left(self) -> None:
        if self.phase is Phase.OVER:
            return
        self._client = self._answer = None
        stats = self._forwarder.stats
        if self.phase is Phase.WAITING:
            stats.clients_left["waiting"] += 1
            self._forwarder.dispatcher.leave(self)
            self._record(0, "client_left")
            self._over()
        elif self.phase is Phase.CONNECTING:
            stats.clients_left["waiting"] += 1
            self._stop_connecting()
            self._record(0, "client_left")
            self._over()
            self._forwarder.dispatcher.release_unused(self._give_up_lease(), monotonic())
        elif self.phase is Phase.READING:
            stats.clients_left["reading"] += 1
            self._over()
        else:
            stats.clients_left["running"] += 1
            if self._aborts_without_client():
                self._abort_run("its client left")
            elif self._link is not None:
                self._link.resume_reading()  # what the client did not take is read all the same

    def client_half_closed(self) -> bool:
        if self.phase is Phase.WAITING or (self.phase is Phase.CONNECTING and not self._is_sent):
            self.client_left()
            return False
        return True  # its request is at a node: the answer is still sent

    def client_drained(self) -> None:
        if self._link is not None:
            self._link.resume_reading()

    # --- what it knows

    def _aborts_without_client(self) -> bool:
        """`on_client_gone`: under `auto` a run is cut once its answer has no known length, for then the node can
        notice; a node that computes a plain answer works on in any case, so it is waited for."""
        policy = self._forwarder.config.on_client_gone
        if policy == "auto":
            return self._response is not None and self._response.is_endless
        return policy == "abort"
