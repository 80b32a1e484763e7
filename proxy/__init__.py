"""FIFO Proxy."""

__version__ = "1.0.0"
