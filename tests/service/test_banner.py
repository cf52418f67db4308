"""The log tells in one place what was chosen."""

import logging

from service.banner import log_banner
from tests.service.serving import kit, serving


def test_banner_names_transport_addresses_runtime_and_every_signature(caplog):
    caplog.set_level(logging.INFO, "service.banner")
    with serving({"clip": {1: kit(), 2: kit()}}, default_signature="embed") as served:
        log_banner("grpcio", ["127.0.0.1:1", "unix:/a"], "2 threads", served.repository.loaded_versions())
    first, second, *models = [record.getMessage() for record in caplog.records]

    assert first.endswith("gRPC by grpcio at 127.0.0.1:1, unix:/a")
    assert second.startswith("serving: 2 threads")
    assert "MiB left of the" in second
    (model,) = models
    assert model.startswith("serving: model 'clip' version 2: ")
    for part in ("embed (default, up to 64 rows)", "serving_default (up to 64 rows)", "threshold (not batched)"):
        assert part in model
