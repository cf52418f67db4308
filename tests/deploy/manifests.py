"""The manifests as `kubectl kustomize` builds them, and what a pod's containers are told."""

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from service import cli

ROOT = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
TOOLS = Path(sys.executable).parent

# Every variant that docs/kubernetes.md names: a directory, and the components added to it.
VARIANTS = {
    "sidecar": ("sidecar", []),
    "sidecar, model from a store": ("sidecar", ["model-init-container"]),
    "sidecar, model from an image, scraped": ("sidecar", ["model-image", "pod-monitor"]),
    "standalone": ("standalone", []),
    "standalone, model from a store, scraped": ("standalone", ["model-init-container", "service-monitor"]),
    "standalone, model from an image, KEDA, GPU": ("standalone", ["model-image", "keda", "gpu"]),
    "kserve": ("kserve", []),
    "kserve examples": ("kserve/examples", []),
}
WITH_PODS = [name for name in VARIANTS if name != "kserve examples"]
SIDECARS = [name for name in VARIANTS if name.startswith("sidecar")]
STANDALONE = [name for name in VARIANTS if name.startswith("standalone")]

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - a text, nothing is bound

KSERVE_GRACE_S = 30
"""What a pod gets whose template names no grace, as those that KServe makes."""


def each_variant(*names):
    return pytest.mark.parametrize("variant", names or list(VARIANTS))


def kustomize(directory):
    """Return the resources that a directory with a kustomization.yaml yields."""
    built = subprocess.run(
        [TOOLS / "kubectl", "kustomize", directory], capture_output=True, text=True, timeout=60, check=False
    )
    assert built.returncode == 0, built.stderr
    return list(yaml.safe_load_all(built.stdout))


@cache
def resources(variant, directory):
    """Return the resources of a variant; ``directory`` is an empty one for the overlay that adds the components."""
    base, components = VARIANTS[variant]
    overlay = {
        "resources": [os.path.relpath(ROOT / base, directory)],
        "components": [os.path.relpath(ROOT / "components" / name, directory) for name in components],
    }
    directory.mkdir()
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    return kustomize(directory)


@dataclass(frozen=True)
class Pod:
    """A pod's template, with the container that is the server."""

    spec: dict
    labels: dict
    server: dict
    environment: dict

    @property
    def is_sidecar(self):
        return self.server in self.spec.get("initContainers", [])

    def mounts(self, container):
        return {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", [])}


def pod(built, image="signet"):
    """Return the one pod template among resources, KServe's runtime included; the server is what has the image."""
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in built}
    (owner,) = [one for one in built if one["kind"] in ("Deployment", "ClusterServingRuntime")]
    template = owner["spec"].get("template", {"spec": owner["spec"], "metadata": {"labels": {}}})
    spec = template["spec"]
    (server,) = [
        one for one in [*spec.get("initContainers", []), *spec["containers"]] if one["image"].partition(":")[0] == image
    ]
    environment = {}
    for source in server.get("envFrom", []):
        environment |= by_name["ConfigMap", source["configMapRef"]["name"]]["data"]
    environment |= {one["name"]: one["value"] for one in server.get("env", [])}
    return Pod(spec, template["metadata"]["labels"], server, environment)


def read_settings(template, monkeypatch):
    """Return the options that the server gets from a pod, read by its own command line and environment."""
    for name, value in template.environment.items():
        monkeypatch.setenv(name, value)
    command, *arguments = template.server.get("args", ["serve"])
    assert command == "serve"
    taken = []
    app = typer.Typer()
    app.command()(cli._settings_command(taken.append))
    arguments = [argument.replace("{{.Name}}", "clip") for argument in arguments]  # as KServe does
    run = CliRunner().invoke(app, cli._in_our_options(["serve", *arguments])[1:])
    assert run.exit_code == 0, run.output
    return taken[0]
