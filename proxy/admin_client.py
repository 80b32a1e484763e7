"""The command line's way to the admin port: one request, one JSON answer, or one line saying why there is none."""

from __future__ import annotations

from typing import Any, Self

import httpx

from proxy.errors import FifoProxyError

_TIMEOUT_SECS = 5.0


class AdminUnavailable(FifoProxyError):
    """There is no answer to show; the message is one line for the user."""


class AdminRefused(AdminUnavailable):
    """The admin port says no, and why."""


class AdminClient:
    """`admin`: the address of the admin port; a context manager. Every method raises AdminUnavailable."""

    def __init__(self, admin: str, token: str | None) -> None:
        self._admin = admin
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(headers=headers, timeout=_TIMEOUT_SECS, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str) -> Any:
        """The JSON at this path."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Give an order; its JSON answer. Raises AdminRefused with the port's own words."""
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        admin, url = self._admin, f"{self._admin.rstrip('/')}{path}"
        try:
            response = self._client.request(method, url, json=body)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):
            raise AdminUnavailable(f"{admin} is no address such as http://127.0.0.1:8081") from None
        except httpx.HTTPError as error:
            raise AdminUnavailable(
                f"cannot reach the admin port at {admin}: {error or type(error).__name__}"
            ) from None
        if response.status_code in (401, 403):
            raise AdminUnavailable(
                f"{admin} demands the right admin token: --token or FIFO_PROXY_ADMIN_TOKEN"
            )
        told: Any
        try:
            told = response.json()
        except ValueError:
            told = None
        if response.status_code == 200 and told is not None:
            return told
        if response.status_code in (400, 404, 409) and isinstance(told, dict) and told.get("detail"):
            raise AdminRefused(str(told["detail"]))
        raise AdminUnavailable(f"{url} answered {response.status_code}; is it the admin port?")
