"""Every variant builds, is valid, and says what the server understands."""

import jsonschema
import kubernetes_validate
import pytest

import service
from service.server import _CLOSE_S
from service.settings import Settings
from service.transports.health import _LIVE_SERVICE, _READY_SERVICES
from tests.deploy.crd_schemas import SPECS
from tests.deploy.manifests import (
    ANY_ADDRESS,
    KSERVE_GRACE_S,
    ROOT,
    VARIANTS,
    WITH_PODS,
    each_variant,
    pod,
    read_settings,
)

LOAD_S = 600
"""How long a model may take to load."""
APPLICATION_END_S = 20
"""How long the sidecar's application may take from SIGTERM to its end, as its manifest says."""


def oldest(variant):
    """Return the oldest Kubernetes that knows all fields: `sleep` before the end, volumes of type image."""
    return "1.31" if "image" in variant else "1.30"


@each_variant()
def test_all_resources_are_valid(built, variant):
    assert built
    for one in built:
        kind = one["apiVersion"], one["kind"]
        if kind in SPECS:
            jsonschema.validate(one["spec"], SPECS[kind])
            for spec in pods_of(one["spec"]):
                as_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
                kubernetes_validate.validate(as_pod, oldest(variant), strict=True)
        else:
            kubernetes_validate.validate(one, oldest(variant), strict=True)


def pods_of(spec):
    """Return what a resource of another project takes from Kubernetes' own pods."""
    if "containers" in spec:
        yield {"containers": spec["containers"], "volumes": spec["volumes"]}
    if "transformer" in spec:
        yield {"containers": spec["transformer"]["containers"]}
    if "predictor" in spec:
        parts = {
            name: spec["predictor"]["model"][name]
            for name in ("env", "resources")
            if name in spec["predictor"]["model"]
        }
        yield {"containers": [{"name": "x", "image": "x", **parts}]}


def test_a_misspelt_field_is_found():
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"container": []}},
            "1.30",
            strict=True,
        )
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"predictors": {}}, SPECS["serving.kserve.io/v1beta1", "InferenceService"])


def test_every_directory_is_part_of_a_variant():
    used = {base for base, _ in VARIANTS.values()} | {
        f"components/{one}" for _, parts in VARIANTS.values() for one in parts
    }
    directories = {str(path.parent.relative_to(ROOT)) for path in ROOT.rglob("kustomization.yaml")}

    assert used | {"base"} == directories


@each_variant(*WITH_PODS)
def test_every_option_exists_and_has_a_value_that_the_server_takes(template, settings):
    named = {name.removeprefix("SIGNET_").lower() for name in template.environment if name.startswith("SIGNET_")}

    assert named <= set(Settings.model_fields)
    assert settings.drain_timeout > 0


@pytest.mark.parametrize("argument", ["--drain-delay=soon", "--drain=1"])
def test_an_unknown_option_or_value_is_found(monkeypatch, argument):
    wrong = pod([{"kind": "ClusterServingRuntime", "metadata": {"name": "x"}, "spec": {
        "containers": [{"image": "signet:1", "args": ["serve", argument]}]}}])  # fmt: skip

    with pytest.raises(AssertionError, match="drain"):
        read_settings(wrong, monkeypatch)


@each_variant(*WITH_PODS)
def test_image_is_of_this_version(template):
    name, _, tag = template.server["image"].partition(":")

    assert (name, tag.removesuffix("-gpu")) == ("signet", service.__version__)


@each_variant(*WITH_PODS)
def test_probes_ask_a_port_on_which_the_server_listens_for_the_pods_address(template, settings):
    open_to_the_pod = {settings.grpc_port: settings.grpc_address, settings.health_port: (settings.health_address,)}
    probes = {name: probe["grpc"] for name, probe in template.server.items() if name.endswith("Probe")}

    assert probes.keys() == {"startupProbe", "readinessProbe", "livenessProbe"}
    for name, probe in probes.items():
        assert ANY_ADDRESS in open_to_the_pod[probe["port"]]
        assert probe["service"] in (*_READY_SERVICES, _LIVE_SERVICE), name


@each_variant(*WITH_PODS)
def test_named_ports_are_those_on_which_the_server_listens(template, settings):
    listening = {"grpc": settings.grpc_port, "h2c": settings.grpc_port}
    listening |= {"metrics": settings.metrics_port, "health": settings.health_port}

    for port in template.server["ports"]:
        assert port["containerPort"] == listening[port["name"]]
    if "metrics" in {port["name"] for port in template.server["ports"]}:
        assert settings.metrics_address == ANY_ADDRESS


@each_variant(*WITH_PODS)
def test_liveness_never_asks_for_readiness(template):
    """A server that loads another model or drains would be killed."""
    assert template.server["livenessProbe"]["grpc"]["service"] == _LIVE_SERVICE


@each_variant(*WITH_PODS)
def test_liveness_waits_until_a_large_model_is_loaded(template):
    """Without a startup probe it begins at once, and asks a server that is busy with loading."""
    startup = template.server["startupProbe"]

    assert startup["grpc"]["service"] in _READY_SERVICES
    assert startup["periodSeconds"] * startup["failureThreshold"] >= LOAD_S


@each_variant(*WITH_PODS)
def test_read_only_root_has_a_place_for_temporary_files(template):
    """TensorFlow cannot even be imported without one."""
    (name,) = [name for name, path in template.mounts(template.server).items() if path == "/tmp"]  # noqa: S108
    (volume,) = [one for one in template.spec["volumes"] if one["name"] == name]
    (mount,) = [one for one in template.server["volumeMounts"] if one["name"] == name]

    assert "emptyDir" in volume
    assert not mount.get("readOnly")


@each_variant(*WITH_PODS)
def test_what_happens_from_sigterm_on_fits_into_the_grace_period(template, settings):
    needed_s = settings.drain_delay + settings.drain_timeout + _CLOSE_S
    if template.is_sidecar:
        (application,) = template.spec["containers"]
        needed_s += application["lifecycle"]["preStop"]["sleep"]["seconds"] + APPLICATION_END_S

    assert needed_s <= template.spec.get("terminationGracePeriodSeconds", KSERVE_GRACE_S)


@each_variant(*WITH_PODS)
def test_pod_meets_the_restricted_security_standard(template):
    for container in [*template.spec.get("initContainers", []), *template.spec["containers"]]:
        context = template.spec.get("securityContext", {}) | container["securityContext"]
        assert context["runAsNonRoot"]
        assert context["runAsUser"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
    assert template.server["securityContext"]["readOnlyRootFilesystem"]


@each_variant(*WITH_PODS)
def test_memory_is_bounded_and_reserved(template):
    resources = template.server["resources"]

    assert resources["limits"]["memory"] == resources["requests"]["memory"]
