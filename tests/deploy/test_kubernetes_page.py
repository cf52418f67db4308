"""What readers paste from docs/kubernetes.md is valid, and its options exist."""

import os
import re

import kubernetes_validate
import pytest
import yaml

from service.settings import Settings
from tests.deploy.manifests import ANY_ADDRESS, ROOT, Pod, kustomize, pod, read_settings
from tests.documents import ROOT as REPOSITORY
from tests.documents import blocks

SIDECAR, OVERLAY, ADAPTER = [block.text for block in blocks("yaml") if block.file.name == "kubernetes.md"]
PAGE = (REPOSITORY / "docs/kubernetes.md").read_text()


@pytest.fixture
def sidecar():
    """The pod of a reader who pasted the ten lines."""
    spec = yaml.safe_load(SIDECAR) | {"containers": [{"name": "app", "image": "app"}]}
    (server,) = spec["initContainers"]
    return Pod(spec, {}, server, {})


def test_the_sidecar_is_valid_and_has_ten_lines(sidecar):
    as_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app"}, "spec": sidecar.spec}

    assert len(SIDECAR.splitlines()) == 10
    kubernetes_validate.validate(as_pod, "1.29", strict=True)


def test_the_sidecar_is_probed_where_it_listens_for_the_pods_address(sidecar, monkeypatch):
    settings = read_settings(sidecar, monkeypatch)

    assert settings.health_address == ANY_ADDRESS
    assert settings.grpc_address == Settings().grpc_address  # and not the service
    assert {sidecar.server[name]["grpc"]["port"] for name in ("startupProbe", "livenessProbe")} == {
        settings.health_port
    }


def test_the_overlay_builds_with_its_images_and_options(tmp_path):
    here = OVERLAY.replace("deploy/kubernetes", os.path.relpath(ROOT, tmp_path))
    (tmp_path / "kustomization.yaml").write_text(here)

    built = pod(kustomize(tmp_path), image="registry.example/signet")
    (models,) = [volume for volume in built.spec["volumes"] if volume["name"] == "models"]

    assert built.server["image"] == "registry.example/signet:0.1.0"
    assert models["image"]["reference"] == "registry.example/clip:7"
    named = {name.removeprefix("SIGNET_").lower() for name in built.environment}
    assert "default_signature" in named
    assert named <= set(Settings.model_fields)


def test_the_adapters_rule_is_for_the_metric_that_the_autoscaler_asks_for():
    (rule,) = yaml.safe_load(ADAPTER)["rules"]["custom"]
    autoscaler = yaml.safe_load((ROOT / "standalone/horizontalpodautoscaler.yaml").read_text())
    (metric,) = autoscaler["spec"]["metrics"]

    assert rule["seriesQuery"].partition("{")[0] == metric["pods"]["metric"]["name"]


def test_every_directory_of_the_manifests_is_told():
    told = {
        name for cell in re.findall(r"^\| (`[^|]+`) \|", PAGE, re.MULTILINE) for name in re.findall("`([^`]+)`", cell)
    }
    directories = {str(path.parent.relative_to(ROOT)) for path in ROOT.rglob("kustomization.yaml")}

    assert directories <= told


def test_queries_of_the_pages_name_metrics_that_the_server_exports(exported):
    scaling = (REPOSITORY / "docs/scaling.md").read_text()
    named = set(re.findall(r"\b(?:nv|signet|process)_[a-z_]+\b", PAGE + scaling))

    assert len(named) > 2
    assert named <= {*exported, *(name.removesuffix("_total") for name in exported)}
