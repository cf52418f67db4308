"""The HTTP port for probes and metrics: small, on a thread of its own, and safe against whoever connects."""
