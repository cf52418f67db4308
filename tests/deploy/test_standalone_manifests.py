"""Servers behind a service and under KServe: found, scaled, told to leave."""

import re

import yaml

from tests.deploy.manifests import ROOT, STANDALONE, each_variant, resources


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
        names = {port["name"] for port in template.server["ports"]}
        if one["kind"] == "Service":
            assert {port["targetPort"] for port in spec["ports"]} <= names
        if one["kind"] == "NetworkPolicy":
            assert {port["port"] for rule in spec["ingress"] for port in rule["ports"]} == names


@each_variant(*STANDALONE)
def test_name_resolves_to_every_ready_pod_and_to_no_other(built):
    (found,) = [one["spec"] for one in built if one["kind"] == "Service"]

    assert found["clusterIP"] == "None"
    assert not found.get("publishNotReadyAddresses")


@each_variant("kserve")
def test_kserve_takes_the_runtime_only_where_it_is_named(built):
    """Its runtime for Triton has this format and protocol with priority 1, and it refuses a second of that priority."""
    (runtime,) = built

    assert not any(each.keys() & {"autoSelect", "priority"} for each in runtime["spec"]["supportedModelFormats"])


@each_variant("kserve examples")
def test_examples_name_the_runtime_and_what_it_speaks(built, overlays):
    (runtime,) = resources("kserve", overlays / "runtime of the examples")
    spec = runtime["spec"]

    for one in built:
        model = one["spec"]["predictor"]["model"]
        assert model["runtime"] == runtime["metadata"]["name"]
        assert model["protocolVersion"] in spec["protocolVersions"]
        assert model["modelFormat"]["name"] in {each["name"] for each in spec["supportedModelFormats"]}


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


def test_autoscalers_look_at_a_metric_that_the_server_exports(exported):
    autoscaler = yaml.safe_load((ROOT / "standalone/horizontalpodautoscaler.yaml").read_text())
    scaled = yaml.safe_load((ROOT / "components/keda/scaledobject.yaml").read_text())
    (pods,) = autoscaler["spec"]["metrics"]
    (trigger,) = scaled["spec"]["triggers"]

    assert pods["pods"]["metric"]["name"] in exported
    assert set(re.findall(r"nv_\w+", trigger["metadata"]["query"])) == {pods["pods"]["metric"]["name"]}
    assert trigger["metadata"]["threshold"] == pods["pods"]["target"]["averageValue"]
