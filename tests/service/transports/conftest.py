"""One matrix of tests for both transports."""

import pytest

from tests.service.transports import channels


@pytest.fixture(params=["grpcio", "native"])
def each_transport(request, monkeypatch):
    """Run a test once on each transport: what it binds is of the kind in turn."""
    monkeypatch.setattr(channels, "kind", request.param)
    return request.param
