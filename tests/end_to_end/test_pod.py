"""Every variant as its manifest starts it, in a pod made of name spaces: it can write what it must, and is reached."""

import pytest

from tests.deploy.manifests import KSERVE_GRACE_S, pod, resources
from tests.end_to_end.kubelet import Kubelet
from tests.end_to_end.pod import ADDRESS, PodProcess, can_be_made

pytestmark = [pytest.mark.end_to_end, pytest.mark.slow]

LOOPBACK = "127.0.0.1"


@pytest.fixture(scope="module", autouse=True)
def _pods():
    if not can_be_made():
        pytest.skip("this user may not make name spaces with a network")


@pytest.mark.parametrize(
    ("variant", "is_for_others", "metrics_port"),
    [("sidecar", False, 8003), ("standalone", True, 8002), ("kserve", True, 8002)],
)
def test_pod_becomes_ready_is_reached_as_promised_and_ends_in_time(
    export, tmp_path, variant, is_for_others, metrics_port
):
    template = pod(resources(variant, tmp_path / "overlay"))
    probes = {name: probe["grpc"] for name, probe in template.server.items() if name.endswith("Probe")}
    (port,) = {probe["port"] for probe in probes.values()}
    services = sorted({probe["service"] for probe in probes.values()})

    with PodProcess(template, export("kit")) as running:
        assert any("listening" in line for line in running.wait_until(" ready"))
        with Kubelet(f"{ADDRESS}:{port}", *services, enter=running.enter) as kubelet:
            for service in services:
                kubelet.wait_until_heard(service, "SERVING")
        assert running.answers(LOOPBACK, 8001)
        assert running.answers(ADDRESS, 8001) == is_for_others
        assert "nv_inference_request_success" in running.get(metrics_port, "/metrics")
        code = running.stop(template.spec.get("terminationGracePeriodSeconds", KSERVE_GRACE_S))

    assert code == 0
