"""Signet: serves every signature of a SavedModel over the KServe v2 (Triton) gRPC protocol."""

__version__ = "0.1.0"
