"""What a configuration leaves open is completed from the signatures; what is written nearest wins."""

import pytest
from google.protobuf import text_format

from protos.model_config_pb2 import ModelConfig, ModelDynamicBatching
from service.config_completion import ConfigDefaults, complete
from service.datatypes import DATATYPES
from service.errors import LoadError
from service.signature import Effect, Signature, TensorSpec

FP32 = DATATYPES["FP32"]
ROWS_IN, ROWS_OUT = TensorSpec("x", FP32, (-1, 3)), TensorSpec("y", FP32, (-1, 5))


def rows(name="serving_default", **fields):
    return Signature(name, (ROWS_IN,), (ROWS_OUT,), **fields)


def mean(name="mean"):
    return Signature(name, (ROWS_IN,), (TensorSpec("y", FP32, ()),))


def threshold(name="threshold"):
    return Signature(name, (), (TensorSpec("y", FP32, ()),))


def completed(text="", *signatures, unavailable=(), **defaults):
    return complete(
        text_format.Parse(text, ModelConfig()),
        model="clip",
        signatures={signature.name: signature for signature in signatures or (rows(),)},
        defaults=ConfigDefaults(**defaults),
        unavailable=unavailable,
    )


TF_SIGNATURE_DEF = 'parameters { key: "TF_SIGNATURE_DEF" value { string_value: "b" } }'


@pytest.mark.parametrize(
    ("text", "option", "names", "default"),
    [
        (TF_SIGNATURE_DEF, "c", ["a", "b", "c", "serving_default"], "b"),
        ("", "c", ["a", "b", "c", "serving_default"], "c"),
        ("", None, ["a", "serving_default"], "serving_default"),
        ("", "", ["a"], "a"),
        ("", None, ["a", "b"], None),
        ("", None, [], None),
    ],
)
def test_the_default_signature_is_configured_or_evident_and_never_guessed(text, option, names, default):
    config = complete(
        text_format.Parse(text, ModelConfig()),
        model="clip",
        signatures={name: rows(name) for name in names},
        defaults=ConfigDefaults(default_signature=option),
    )

    assert config.default_signature == default


@pytest.mark.parametrize(
    ("text", "option", "source"),
    [(TF_SIGNATURE_DEF, None, "parameter TF_SIGNATURE_DEF"), ("", "b", "option --default-signature")],
)
def test_a_configured_default_that_is_not_there_is_refused_with_what_is_there(text, option, source):
    with pytest.raises(
        LoadError, match=f"model 'clip': {source} is 'b', but the SavedModel has signatures 'a', 'mean'"
    ):
        completed(text, rows("a"), mean(), default_signature=option)


def test_an_unavailable_default_does_not_pass_to_another_signature():
    config = completed("max_batch_size: 4", rows("a"), unavailable=["serving_default"])

    assert config.default_signature == "serving_default"
    assert not config.model.input
    assert list(config.signatures) == ["a"]


@pytest.mark.parametrize(
    ("text", "signature", "max_batch_size"),
    [
        ("", rows(), 64),
        ("max_batch_size: 8", rows(), 8),
        ("max_batch_size: 0", rows(), 64),
        ('output { name: "y" dims: [ 5 ] }', rows(), 64),
        ('output { name: "y" dims: [ -1, 5 ] }', rows(), 0),
        ('max_batch_size: 8 signatures { key: "serving_default" value { max_batch_size: 0 } }', rows(), 0),
        ('max_batch_size: 8 signatures { key: "serving_default" value { max_batch_size: 2 } }', rows(), 2),
        ("", mean("serving_default"), 0),
        ("", threshold("serving_default"), 0),
        ("", rows(effect=Effect.WRITING), 0),
        ("", rows(mixes_rows="its output y depends on the other rows"), 0),
        ("max_batch_size: 8", rows(effect=Effect.WRITING), 8),
        ("max_batch_size: 8", rows(mixes_rows="its output y depends on the other rows"), 8),
    ],
)
def test_max_batch_size_is_configured_or_completed(text, signature, max_batch_size):
    assert completed(text, signature).max_batch_size("serving_default") == max_batch_size


def test_without_completion_an_absent_max_batch_size_means_no_batching():
    config = completed("", auto_complete=False)

    assert config.max_batch_size("serving_default") == 0
    assert not config.joins("serving_default")
    assert list(config.model.input[0].dims) == [-1, 3]


def test_a_batch_size_of_the_model_holds_for_all_signatures_that_can_have_it():
    config = completed("max_batch_size: 8", rows(), rows("b"), mean(), threshold())

    assert {name: config.max_batch_size(name) for name in config.signatures} == {
        "serving_default": 8,
        "b": 8,
        "mean": 0,
        "threshold": 0,
    }


@pytest.mark.parametrize(
    ("text", "signature", "reason"),
    [
        ("max_batch_size: 8", mean("serving_default"), r"output y FP32\[\] has no open first dimension"),
        ("max_batch_size: 8", threshold("serving_default"), "it takes no inputs"),
        ('signatures { key: "mean" value { max_batch_size: 8 } }', mean(), r"output y FP32\[\] has no open first"),
    ],
)
def test_a_batch_size_for_a_signature_that_cannot_have_it_is_refused(text, signature, reason):
    with pytest.raises(LoadError, match=f"signature '{signature.name}': max_batch_size is 8, but {reason}"):
        completed(text, signature)


def test_a_model_that_can_be_batched_gets_a_scheduler_with_the_delay_of_the_server():
    config = completed("", max_queue_delay_us=500)

    assert config.max_batch_size("serving_default") == 64
    assert config.joins("serving_default")
    assert config.model.dynamic_batching == ModelDynamicBatching(
        preferred_batch_size=[64], max_queue_delay_microseconds=500
    )


@pytest.mark.parametrize(
    ("text", "delay_us"),
    [
        ("dynamic_batching { }", 0),
        ("dynamic_batching { max_queue_delay_microseconds: 100 }", 100),
        (
            (
                "dynamic_batching { max_queue_delay_microseconds: 100 } "
                'signatures { key: "serving_default" value { dynamic_batching { max_queue_delay_microseconds: 200 } } }'
            ),
            200,
        ),
        (
            (
                "dynamic_batching { max_queue_delay_microseconds: 100 } "
                'signatures { key: "serving_default" value { dynamic_batching { } } }'
            ),
            0,
        ),
    ],
)
def test_the_nearest_dynamic_batching_counts(text, delay_us):
    config = completed(text, max_queue_delay_us=500).signature_config("serving_default")

    assert config.dynamic_batching.max_queue_delay_microseconds == delay_us


@pytest.mark.parametrize(
    ("text", "signature", "auto_complete"),
    [
        ("max_batch_size: 8", rows(), False),
        ("max_batch_size: 1", rows(), True),
        ("max_batch_size: 1 dynamic_batching { }", rows(), True),
        ("dynamic_batching { max_queue_delay_microseconds: 100 }", mean("serving_default"), True),
        ("max_batch_size: 8 dynamic_batching { }", rows(effect=Effect.WRITING), True),
        ("max_batch_size: 8 dynamic_batching { }", rows(mixes_rows="its output y depends on other rows"), True),
    ],
)
def test_requests_are_not_joined_without_a_scheduler_or_where_they_must_not_be(text, signature, auto_complete):
    assert not completed(text, signature, auto_complete=auto_complete).joins("serving_default")


def test_a_scheduler_keeps_what_it_says():
    text = (
        "preferred_batch_size: 4 priority_levels: 2 preserve_ordering: true default_queue_policy { max_queue_size: 9 }"
    )
    config = completed(f"max_batch_size: 8 dynamic_batching {{ {text} }}")

    assert config.model.dynamic_batching == text_format.Parse(text, ModelDynamicBatching())


def test_the_tensors_of_the_model_are_those_of_its_default_signature():
    text = 'input { name: "x" format: FORMAT_NHWC } output { name: "y" label_filename: "labels.txt" }'
    config = completed(text, rows(), rows("b"))

    assert config.model.input[0].format != 0
    assert config.model.output[0].label_filename == "labels.txt"
    assert config.for_signature("b").input[0].format == 0
    assert config.for_signature("b").output[0].label_filename == ""


@pytest.mark.parametrize(
    ("text", "signature", "scheduler"),
    [
        ("max_batch_size: 1", rows(), None),
        ("max_batch_size: 2", rows(), ModelDynamicBatching(preferred_batch_size=[2])),
        ("max_batch_size: 1 dynamic_batching { }", rows(), ModelDynamicBatching(preferred_batch_size=[1])),
        ("dynamic_batching { }", mean("serving_default"), ModelDynamicBatching()),
    ],
)
def test_a_scheduler_is_added_above_one_row_and_prefers_full_batches(text, signature, scheduler):
    model = completed(text, signature).model

    assert (model.dynamic_batching if model.HasField("dynamic_batching") else None) == scheduler


def test_tensors_of_a_signature_replace_those_of_the_model():
    config = completed(
        'input { name: "x" dims: [ 3 ] } signatures { key: "serving_default" value { input { name: "x" dims: [ 3 ] '
        "format: FORMAT_NHWC } } }"
    )

    assert config.model.input[0].format != 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('name: "bert"', "the configuration is for a model called 'bert'"),
        ('signatures { key: "b" value { } }', "the configuration has signature 'b', the SavedModel has .*'a', 'mean'"),
        (
            'input { name: "x" }',
            "no default signature that they describe; .* the SavedModel has signatures 'a', 'mean'",
        ),
        ("max_batch_size: -1", "max_batch_size must be 0 or more, but is -1"),
        ('signatures { key: "a" value { max_batch_size: -2 } }', "max_batch_size must be 0 or more, but is -2"),
        ("instance_group { count: -1 }", "instance_group 'clip_0' has a count of -1"),
        ("instance_group { count: 1000 } instance_group { count: 25 }", "has a count of 1025; at most 1024 can run"),
        ('signatures { key: "a" value { input { name: "z" } } }', "'a': input 'z' of the configuration is not in"),
    ],
)
def test_what_cannot_be_is_refused_with_the_model(text, says):
    with pytest.raises(LoadError, match=f"^model 'clip'.*{says}"):
        completed(text, rows("a"), mean())


def test_a_signature_that_cannot_be_run_may_be_configured():
    config = completed('signatures { key: "b" value { max_batch_size: 2 } }', rows("a"), unavailable=["b"])

    assert list(config.model.signatures) == ["a"]


@pytest.mark.parametrize(
    ("text", "groups", "count"),
    [
        ("", [("clip", "KIND_CPU", 3)], 3),
        ("instance_group { }", [("clip_0", "KIND_CPU", 1)], 1),
        (
            'instance_group { count: 2 } instance_group { name: "mine" kind: KIND_MODEL count: 4 }',
            [("clip_0", "KIND_CPU", 2), ("mine", "KIND_MODEL", 4)],
            6,
        ),
    ],
)
def test_instance_groups_are_completed_and_counted(text, groups, count):
    config = completed(text, instance_count=3)

    kind = type(config.model.instance_group[0]).Kind
    assert [(group.name, kind.Name(group.kind), group.count) for group in config.model.instance_group] == groups
    assert config.instance_count == count


def test_the_configuration_that_was_read_is_not_changed():
    config = text_format.Parse('max_batch_size: 8 input { name: "x" } signatures { key: "a" }', ModelConfig())
    before = config.SerializeToString(deterministic=True)

    complete(config, model="clip", signatures={"a": rows("a")}, defaults=ConfigDefaults())

    assert config.SerializeToString(deterministic=True) == before


# What only the server says. --------------------------------------------------------------------------------------


def joining(text="", signature=None, **defaults):
    """Return what is completed for a signature that may be batched."""
    return completed(text, signature or rows(), default_max_batch_size=8, **defaults).signature_config(
        "serving_default"
    )


def test_allowed_sizes_of_the_server_hold_with_its_largest_batch_alone():
    sizes = {"allowed_batch_sizes": (4, 8)}

    assert list(joining(**sizes).allowed_batch_sizes) == [4, 8]
    assert list(joining("max_batch_size: 8", **sizes).allowed_batch_sizes) == []
    own = 'signatures { key: "serving_default" value { allowed_batch_sizes: 8 } }'
    assert list(joining(own, **sizes).allowed_batch_sizes) == [8]


def test_batches_that_may_wait_become_rows():
    assert joining(max_enqueued_batches=10).max_queue_rows == 80
    assert joining("max_batch_size: 4", max_enqueued_batches=10).max_queue_rows == 40
    own = 'signatures { key: "serving_default" value { max_queue_rows: 5 } }'
    assert joining(own, max_enqueued_batches=10).max_queue_rows == 5


def test_inputs_of_open_length_are_padded_with_zeros_where_the_server_says_so():
    ids, words = TensorSpec("ids", DATATYPES["INT64"], (-1, -1)), TensorSpec("words", DATATYPES["BYTES"], (-1, 2, -1))
    signature = Signature("serving_default", (ids, words, ROWS_IN), (ROWS_OUT,))
    own = 'signatures { key: "serving_default" value { pad_variable_length_inputs { key: "ids" value: "7" } } }'

    assert dict(joining(signature=signature, pads_variable_lengths=True).pad_variable_length_inputs) == {
        "ids": "0",
        "words": "",
    }
    assert dict(joining(own, signature, pads_variable_lengths=True).pad_variable_length_inputs) == {"ids": "7"}


@pytest.mark.parametrize(
    "signature", [mean("serving_default"), threshold("serving_default"), rows(mixes_rows="they do")]
)
def test_what_the_server_says_of_shared_runs_leaves_other_signatures_alone(signature):
    config = joining(
        signature=signature, allowed_batch_sizes=(4, 8), max_enqueued_batches=10, pads_variable_lengths=True
    )

    filled = [config.allowed_batch_sizes, config.max_queue_rows, config.pad_variable_length_inputs]
    assert not any(filled)
