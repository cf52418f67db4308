"""The inference service on the wire: its definition and the stubs generated from it by ``make proto``."""
