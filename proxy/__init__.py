"""FIFO Proxy."""

from importlib.util import find_spec

__version__ = "1.0.0"


def build_kind() -> str:
    """`compiled` where the hot path was installed as C (setup.py), else `pure`."""
    spec = find_spec("proxy.exchange")
    return "pure" if spec is None or str(spec.origin).endswith(".py") else "compiled"
