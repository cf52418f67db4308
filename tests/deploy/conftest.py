"""The manifests of a variant, and the options that its server gets."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from service.metrics.collectors import make_registry
from service.metrics.exposition import render
from tests.deploy.manifests import VARIANTS, pod, read_settings, resources
from tests.service.serving import kit, serving


@pytest.fixture(scope="session")
def overlays(tmp_path_factory):
    return tmp_path_factory.mktemp("overlays")


@pytest.fixture
def built(variant, overlays):
    return resources(variant, overlays / str(list(VARIANTS).index(variant)))


@pytest.fixture
def template(built):
    return pod(built)


@pytest.fixture
def settings(template, monkeypatch):
    """The options that the server gets from the pod, as it would read them."""
    return read_settings(template, monkeypatch)


@pytest.fixture(scope="package")
def exported():
    """The labels of every sample's name, as Prometheus gets them."""
    with serving(kit()) as served:
        registry = make_registry(served.repository, "1.2.3", served.data_plane.admission)
        text, _ = render(registry, "application/openmetrics-text")
    families = text_string_to_metric_families(text.decode())
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}
