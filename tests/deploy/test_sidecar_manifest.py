"""The sidecar: native, reached from its pod alone, its volumes shared as promised."""

from tests.deploy.manifests import SIDECARS, each_variant

LOOPBACK = "127.0.0.1"


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


@each_variant("sidecar, model from an image, scraped")
def test_scraper_finds_the_sidecar_and_its_port(built, template):
    (monitor,) = [one["spec"] for one in built if one["kind"] == "PodMonitor"]

    assert monitor["selector"]["matchLabels"].items() <= template.labels.items()
    assert {one["port"] for one in monitor["podMetricsEndpoints"]} <= {one["name"] for one in template.server["ports"]}
