"""Names of nodes: `<prefix>-<8 random characters>`, the same for every engine.

The name is what ties a node to us: it is fixed before the create call, so that a create of unknown outcome
can be looked for in the list, and after a restart every name that begins with the prefix is ours.
"""

from __future__ import annotations

import secrets
import string

_ALPHABET = string.ascii_lowercase + string.digits


def fresh_name(prefix: str) -> str:
    """`prefix-xxxxxxxx`, with 8 of [a-z0-9] from the system's random source."""
    return f"{prefix}-{''.join(secrets.choice(_ALPHABET) for _ in range(8))}"
