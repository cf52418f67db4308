"""Measures the server: throughput, latency and CPU time, beside others and beside what the machine can do."""
