"""The one error tree: what went wrong, the status it has, and whether the request may have run.

Every refusal a client can see is a `RequestError`; its class fixes status, `outcome` and the
`Proxy-Status` error token (RFC 9209), so no place that raises one can get them wrong.
"""

from __future__ import annotations

from typing import ClassVar, Literal

Outcome = Literal["not_sent", "unknown"]


class FifoProxyError(Exception):
    """Anything this program raises on purpose."""


class ConfigError(FifoProxyError):
    """The configuration cannot be used; `faults` has one line for each thing wrong."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class RequestError(FifoProxyError):
    """A request that ends with an answer of ours.

    `outcome` is `not_sent` (it never reached a node: safe to send again) or `unknown` (it may have run).
    `retry_after_secs` becomes `Retry-After`; `closes` says that the client's connection ends with the answer.
    """

    status: ClassVar[int]
    title: ClassVar[str]
    outcome: Outcome = "not_sent"  # an instance's own where it had been sent before
    proxy_status: ClassVar[str]
    closes: ClassVar[bool] = False
    allowed: ClassVar[str | None] = None  # of a 405: the methods that are known

    def __init__(self, detail: str, *, retry_after_secs: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after_secs = retry_after_secs


class MalformedRequest(RequestError):
    status, title, proxy_status, closes = 400, "Bad Request", "http_request_error", True


class MethodRefused(RequestError):
    """CONNECT: this is no forward proxy."""

    status, title, proxy_status, closes = 405, "Method Not Allowed", "http_request_denied", True
    allowed = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE"


class RequestTooSlow(RequestError):
    status, title, proxy_status, closes = 408, "Request Timeout", "http_request_error", True


class BodyTooLarge(RequestError):
    status, title, proxy_status, closes = 413, "Content Too Large", "http_request_error", True


class ExpectationFailed(RequestError):
    status, title, proxy_status, closes = 417, "Expectation Failed", "http_request_error", True


class LineFull(RequestError):
    status, title, proxy_status = 429, "Too Many Requests", "connection_limit_reached"


class HeadTooLarge(RequestError):
    status, title, proxy_status, closes = 431, "Request Header Fields Too Large", "http_request_error", True


class WaitedTooLong(RequestError):
    status, title, proxy_status = 503, "Service Unavailable", "destination_unavailable"


class ShuttingDown(RequestError):
    status, title, proxy_status, closes = 503, "Service Unavailable", "destination_unavailable", True


class RemovedByOperator(RequestError):
    """The operator took it out of the line."""

    status, title, proxy_status = 503, "Service Unavailable", "http_request_denied"


class SpoolFull(RequestError):
    status, title, proxy_status, closes = 503, "Service Unavailable", "proxy_internal_error", True


class LoopDetected(RequestError):
    status, title, proxy_status, closes = 508, "Loop Detected", "proxy_loop_detected", True


class NodeUnreachable(RequestError):
    """No connection to the node, and `resend` is `never`."""

    status, title, proxy_status = 502, "Bad Gateway", "connection_refused"


class NodeBroke(RequestError):
    """The node broke off before its response."""

    status, title, proxy_status = 502, "Bad Gateway", "connection_terminated"
    outcome = "unknown"


class NodeAnsweredBadly(RequestError):
    """The node's response is not HTTP, or its head is too large."""

    status, title, proxy_status = 502, "Bad Gateway", "http_protocol_error"
    outcome = "unknown"


class RunTimeout(RequestError):
    status, title, proxy_status = 504, "Gateway Timeout", "http_response_timeout"
    outcome = "unknown"


class ProviderError(FifoProxyError):
    """A cloud refused or failed. The message is safe to show: secrets are masked where it is made.

    `may_have_worked`: the call's effect is not known (a create that timed out): look before trying again.
    `is_auth`: the credentials were refused; `retry_after_secs`: what the cloud asked for.
    """

    def __init__(
        self,
        message: str,
        *,
        may_have_worked: bool = False,
        is_auth: bool = False,
        retry_after_secs: float | None = None,
    ) -> None:
        super().__init__(message)
        self.may_have_worked = may_have_worked
        self.is_auth = is_auth
        self.retry_after_secs = retry_after_secs


class OrderRefused(FifoProxyError):
    """An operator's order that is not carried out; the message says why. `status`: of the admin API's answer."""

    status: ClassVar[int]


class BadOrder(OrderRefused):
    """It is not said what is to be done."""

    status = 400


class UnknownTarget(OrderRefused):
    """There is no such node, or no such request."""

    status = 404


class NotPossibleNow(OrderRefused):
    """The target is not in a state for it, or a limit is in the way."""

    status = 409


class IdempotencyConflict(RequestError):
    """The key was used before, for another request."""

    status, title, proxy_status = 422, "Unprocessable Content", "http_request_error"


class BodyGone(RequestError):
    """What was stored has been kept long enough."""

    status, title, proxy_status = 410, "Gone", "http_request_error"


class JobRefused(RequestError):
    """What was asked of a job makes no sense, or is not allowed."""

    status, title, proxy_status = 400, "Bad Request", "http_request_error"


class JobUnknown(RequestError):
    """There is no such job, or no such page, or no result yet."""

    status, title, proxy_status = 404, "Not Found", "http_request_error"


class JobMethodRefused(RequestError):
    """The jobs' pages do not know this method; `allowed` is what they know."""

    status, title, proxy_status = 405, "Method Not Allowed", "http_request_denied"
    allowed = "GET, HEAD, DELETE"


class JobNotCancelled(RequestError):
    """It runs, or has ended."""

    status, title, proxy_status = 409, "Conflict", "http_request_denied"


class StoreUnavailable(RequestError):
    """The jobs' database is down, slow or full; `outcome` is `unknown` where what was asked may have been done."""

    status, title, proxy_status = 503, "Service Unavailable", "proxy_internal_error"


class StoreFull(StoreUnavailable):
    """No room: `max_stored_bytes`, or the disk."""


class StoreUnusable(FifoProxyError):
    """The jobs' database cannot be used as it is; trying again is of no use."""


class LeaseLost(FifoProxyError):
    """The job is another's by now, or over: nothing may be sent or written for it."""
