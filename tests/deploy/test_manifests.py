"""Every variant builds, is valid, and says what the server understands."""

import jsonschema
import kubernetes_validate
import pytest

import service
from service.server import _CLOSE_S
from service.settings import Settings
from service.transports.health import _LIVE_SERVICE, _READY_SERVICES
from tests.deploy.crd_schemas import SPECS
from tests.deploy.manifests import KSERVE_GRACE_S, ROOT, VARIANTS, WITH_PODS, pod, read_settings, resources

KUBERNETES = "1.33"
"""The oldest version with volumes of type image switched on; native sidecars came before."""
APPLICATION_END_S = 20
"""How long the sidecar's application may take from SIGTERM to its end, as its manifest says."""
LOOPBACK = "127.0.0.1"
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - a text, nothing is bound


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


def each_variant(*names):
    return pytest.mark.parametrize("variant", names or list(VARIANTS))


@each_variant()
def test_all_resources_are_valid(built):
    assert built
    for one in built:
        kind = one["apiVersion"], one["kind"]
        if kind in SPECS:
            jsonschema.validate(one["spec"], SPECS[kind])
            for container in [
                *one["spec"].get("containers", []),
                *one["spec"].get("transformer", {}).get("containers", []),
            ]:
                as_pod = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "x"},
                    "spec": {"containers": [container]},
                }
                kubernetes_validate.validate(as_pod, KUBERNETES, strict=True)
        else:
            kubernetes_validate.validate(one, KUBERNETES, strict=True)


def test_a_misspelt_field_is_found():
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"container": []}},
            KUBERNETES,
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

    assert probes.keys() >= {"readinessProbe", "livenessProbe"}
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
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
    assert template.server["securityContext"]["readOnlyRootFilesystem"]


@each_variant(*WITH_PODS)
def test_memory_is_bounded_and_reserved(template):
    resources = template.server["resources"]

    assert resources["limits"]["memory"] == resources["requests"]["memory"]


SIDECARS = [name for name in VARIANTS if name.startswith("sidecar")]
STANDALONE = [name for name in VARIANTS if name.startswith("standalone")]


@each_variant(*SIDECARS)
def test_sidecar_is_native_and_reached_from_its_pod_alone(template, settings):
    (application,) = template.spec["containers"]
    urls = {one["name"]: one["value"] for one in application["env"]}
    path = urls["INFERENCE_URL"].removeprefix("unix:")

    assert template.server["restartPolicy"] == "Always"
    assert "startupProbe" in template.server  # the application starts when it succeeds
    assert set(settings.grpc_address) == {LOOPBACK, urls["INFERENCE_URL"]}
    assert template.mounts(application)["signet-socket"] == template.mounts(template.server)["signet-socket"]
    assert path.startswith(f"{template.mounts(application)['signet-socket']}/")


@each_variant(*SIDECARS)
def test_socket_can_be_used_by_the_applications_user(template, settings):
    """The directory of an emptyDir gives what is made in it the group of the pod's volumes."""
    assert template.spec["securityContext"]["fsGroup"] > 0
    assert int(settings.grpc_unix_socket_mode, 8) & 0o060 == 0o060


@each_variant("sidecar, model from a store", "standalone, model from a store, scraped")
def test_model_is_fetched_before_the_server_starts(template):
    names = [one["name"] for one in template.spec["initContainers"]]
    (volume,) = [one for one in template.spec["volumes"] if one["name"] == "models"]

    assert names[0] == "fetch-model"
    assert set(volume) == {"name", "emptyDir"}


@each_variant("sidecar, model from an image, scraped", "standalone, model from an image, KEDA, GPU")
def test_model_from_an_image_is_the_only_source(template):
    (volume,) = [one for one in template.spec["volumes"] if one["name"] == "models"]

    assert set(volume) == {"name", "image"}


@each_variant(*SIDECARS)
def test_shared_memory_is_one_volume_of_memory_for_one_user(template):
    (application,) = template.spec["containers"]
    (volume,) = [one for one in template.spec["volumes"] if one["name"] == "shared-memory"]

    assert volume["emptyDir"]["medium"] == "Memory"
    for container in (application, template.server):
        assert template.mounts(container)["shared-memory"] == "/dev/shm"  # noqa: S108 - where Linux has it
        assert "runAsUser" not in container["securityContext"]
    assert template.spec["securityContext"]["runAsUser"] > 0


@each_variant(*STANDALONE, "kserve")
def test_servers_for_other_hosts_tell_clients_to_leave(template, settings):
    assert settings.transport.value == "grpcio"
    assert settings.grpc_max_connection_age > 0
    assert settings.grpc_max_connection_age_grace == 0  # calls take what they need
    assert settings.drain_delay > 0


@each_variant(*STANDALONE)
def test_everything_selects_the_pods(built, template):
    for one in built:
        spec = one.get("spec", {})
        selector = {
            "Service": lambda spec: spec["selector"],
            "Deployment": lambda spec: spec["selector"]["matchLabels"],
            "PodDisruptionBudget": lambda spec: spec["selector"]["matchLabels"],
            "NetworkPolicy": lambda spec: spec["podSelector"]["matchLabels"],
        }.get(one["kind"])
        if selector:
            assert selector(spec).items() <= template.labels.items(), one["kind"]
        if one["kind"] == "Service":
            names = {port["name"] for port in template.server["ports"]}
            assert {port["targetPort"] for port in spec["ports"]} <= names


@each_variant("standalone, model from an image, KEDA, GPU")
def test_one_autoscaler_at_a_time(built):
    kinds = [one["kind"] for one in built]

    assert "ScaledObject" in kinds
    assert "HorizontalPodAutoscaler" not in kinds


@each_variant("standalone, model from an image, KEDA, GPU")
def test_gpu_variant_asks_for_a_gpu_and_the_image_for_it(template):
    assert template.server["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert template.server["image"].endswith("-gpu")


@each_variant("standalone, model from a store, scraped")
def test_scraper_finds_the_service_and_its_port(built):
    by_kind = {one["kind"]: one for one in built}
    monitor, found = by_kind["ServiceMonitor"]["spec"], by_kind["Service"]

    assert monitor["selector"]["matchLabels"].items() <= found["metadata"]["labels"].items()
    assert {one["port"] for one in monitor["endpoints"]} <= {one["name"] for one in found["spec"]["ports"]}


@each_variant("sidecar, model from an image, scraped")
def test_scraper_finds_the_sidecar_and_its_port(built, template):
    (monitor,) = [one["spec"] for one in built if one["kind"] == "PodMonitor"]

    assert monitor["selector"]["matchLabels"].items() <= template.labels.items()
    assert {one["port"] for one in monitor["podMetricsEndpoints"]} <= {one["name"] for one in template.server["ports"]}
