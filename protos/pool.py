"""The descriptor pool of this package's messages."""

from typing import Final

from google.protobuf.descriptor_pool import DescriptorPool

POOL: Final = DescriptorPool()
"""Holds the descriptors of all stubs here, in place of the process-wide default pool.

Triton's client registers its own messages of the same names in the default pool, which refuses a second definition of a
name that differs in anything. With a pool to ourselves both live in one process, whichever is imported first.
"""
