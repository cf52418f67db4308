"""Checks on a machine with a GPU that the server does there what docs/devices.md promises."""
