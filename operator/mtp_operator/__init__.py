"""Kubernetes operator that fine-tunes MTP heads and serves them with measured acceptance."""

__version__ = "0.1.0"
