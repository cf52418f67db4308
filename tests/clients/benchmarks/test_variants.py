import pytest

from clients.benchmarks.models import MODELS
from clients.benchmarks.variants import Variant, write_repository

SCORES = {"scores": MODELS["toy"].signatures["scores"]}


@pytest.mark.parametrize(
    ("text", "variant"),
    [
        ("Signet", Variant("Signet")),
        ("tuned=--instance-count 4", Variant("tuned", ("--instance-count", "4"))),
        (
            "on a GPU=--device gpu:0 xla=auto mixed_precision=on",
            Variant("on a GPU", ("--device", "gpu:0"), xla="auto", mixed_precision="on"),
        ),
    ],
)
def test_variants_are_options_of_the_server_and_words_of_the_model(text, variant):
    assert Variant.parse(text) == variant


def test_only_what_is_measured_is_compiled_as_a_whole(tmp_path):
    variant = Variant("compiled", xla="on")

    write_repository(tmp_path / "served", variant, tmp_path / "toy", SCORES)

    config = (tmp_path / "served/toy/config.pbtxt").read_text()
    assert 'signatures { key: "scores" value { xla: "on" } }' in config
    assert '"xla"' not in config
    assert (tmp_path / "served/toy/1/model.savedmodel").readlink() == tmp_path / "toy"


def test_the_whole_model_is_asked_for_parts_and_for_16_bits(tmp_path):
    write_repository(tmp_path / "served", Variant("both", xla="auto", mixed_precision="on"), tmp_path / "toy", SCORES)

    config = (tmp_path / "served/toy/config.pbtxt").read_text()
    assert 'key: "xla" value { string_value: "auto" }' in config
    assert 'key: "mixed_precision" value { string_value: "on" }' in config


def test_an_input_without_dimensions_gets_one_that_perf_analyzer_can_send(tmp_path):
    signatures = {"jpeg": MODELS["efficientnet"].signatures["jpeg"]}

    write_repository(tmp_path / "served", Variant("Signet"), tmp_path / "efficientnet", signatures)

    config = (tmp_path / "served/efficientnet/config.pbtxt").read_text()
    assert (
        'key: "jpeg" value { input { name: "jpeg" data_type: TYPE_STRING dims: [ 1 ] reshape { shape: [ ] } }' in config
    )
