"""Builds the container image without a container engine, and tries what it promises. See ``__main__``."""
