"""A loaded graph with what is known of its signatures; knows no model, since several may be served from it."""

from collections.abc import Mapping
from types import MappingProxyType

from service.saved_model.copies import Copies
from service.saved_model.memory import release_memory
from service.signature import Signature


class ServedGraph:
    """A graph on its devices, with what is known of its signatures.

    Attributes:
        live: runs them.
        signatures: those that can be run, in ascending order of name.
        unavailable: the others, each with the reason.
    """

    def __init__(self, live: Copies, signatures: Mapping[str, Signature], unavailable: Mapping[str, str]) -> None:
        self.live = live
        self.signatures = MappingProxyType(dict(signatures))
        self.unavailable = MappingProxyType(dict(unavailable))

    def close(self) -> None:
        """Free the weights, and give their memory back."""
        self.live.close()
        release_memory()
