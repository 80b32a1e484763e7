"""What the scaler needs of an engine that makes nodes, and nothing more.

A provider keeps no opinion about how many nodes there should be and never retries a create: the scaling
loop owns both. Its list is the truth; every call that fails raises `errors.ProviderError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ListedNode:
    """A node as its provider tells of it now.

    `id` is the provider's, `name` ours; `url` is `http(s)://host[:port]`, None while there is no address.
    `is_running` means that it may be probed; while it is False the node counts as paid all the same.
    `created_at`: Unix seconds, None where the provider does not say.
    """

    id: str
    name: str
    url: str | None
    is_running: bool
    created_at: float | None = None


class Provider(Protocol):
    """One engine. `name_prefix`: a listed node is ours when its name begins with it. `is_shared`: its list shows the
    nodes of every proxy that uses this account, so that only one of them may scale."""

    kind: str
    can_scale: bool
    is_shared: bool
    name_prefix: str

    async def start(self) -> None:
        """Open what the calls need."""

    def new_name(self) -> str:
        """A fresh, unguessable name that begins with `name_prefix`."""

    async def list(self) -> list[ListedNode]:
        """Every living node of ours, whoever created it; gone and paused ones are left out."""

    async def create(self, name: str) -> ListedNode:
        """Ask for one node of this name, once."""

    async def destroy(self, node_id: str) -> None:
        """Stop and delete the node; one that is gone already is no error."""

    async def close(self) -> None:
        """Release what `start` opened; nodes stay, but for engines whose nodes cannot outlive us."""
