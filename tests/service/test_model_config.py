"""Every field of config.pbtxt parses; what cannot be had is refused by name."""

import pytest
from google.protobuf import text_format

from protos.model_config_pb2 import ModelConfig
from service.errors import LoadError
from service.model_config import (
    ThreadCounts,
    check_supported,
    graph_tags,
    parameter,
    parse_override,
    read_config,
    thread_counts,
)


def parsed(text):
    return text_format.Parse(text, ModelConfig())


def test_a_file_is_read(tmp_path):
    path = tmp_path / "config.pbtxt"
    path.write_text(
        'name: "clip"  # a comment\nmax_batch_size: 8\n'
        'input [ { name: "x" data_type: TYPE_FP32 dims: [ -1, 3 ] }, { name: "y" dims: [ 1 ] } ]\n'
        'signatures { key: "text" value { max_batch_size: 64 } }\n'
    )

    config = read_config(path)

    assert config.name == "clip"
    assert [list(tensor.dims) for tensor in config.input] == [[-1, 3], [1]]
    assert config.signatures["text"].max_batch_size == 64


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max_batch_size: 8\nmax_batchsize: 8\n", r"config\.pbtxt:2:1 : .*max_batchsize"),
        ('name: "clip"\ninput [ { dims: [ x ] } ]\n', r"config\.pbtxt:2:19 : "),
        ("max_batch_size: 99999999999\n", r"config\.pbtxt:1:17 : "),
    ],
)
def test_a_mistake_is_reported_with_file_line_and_column(tmp_path, text, says):
    path = tmp_path / "config.pbtxt"
    path.write_text(text)

    with pytest.raises(LoadError, match=says):
        read_config(path)


def test_a_file_that_cannot_be_read_is_reported(tmp_path):
    with pytest.raises(LoadError, match=r"absent\.pbtxt: cannot be read: No such file"):
        read_config(tmp_path / "absent.pbtxt")

    (tmp_path / "binary.pbtxt").write_bytes(b'name: "\xff"')
    with pytest.raises(LoadError, match=r"binary\.pbtxt: is no UTF-8 text"):
        read_config(tmp_path / "binary.pbtxt")


@pytest.mark.parametrize(
    "text",
    [
        "",
        'platform: "tensorflow_savedmodel" backend: "tensorflow" runtime: "libtriton_tensorflow.so"',
        "instance_group { kind: KIND_AUTO } instance_group { kind: KIND_CPU count: 3 }",
        "instance_group { kind: KIND_MODEL }",
        "instance_group { kind: KIND_GPU gpus: [ 0, 1 ] }",
        "optimization { priority: PRIORITY_MAX eager_batching: true gather_kernel_buffer_threshold: 9 }",
        "optimization { input_pinned_memory { enable: true } output_pinned_memory { } graph { level: 2 } }",
        "optimization { cuda { busy_wait_events: true } execution_accelerators { } }",
        (
            "dynamic_batching { priority_levels: 3 default_priority_level: 2 preserve_ordering: true "
            "default_queue_policy { timeout_action: DELAY } "
            "priority_queue_policy { key: 1 value { max_queue_size: 1 } } }"
        ),
        'model_warmup { name: "one" batch_size: 1 inputs { key: "x" value { random_data: true } } }',
        'input { name: "x" format: FORMAT_NHWC optional: true } output { name: "y" label_filename: "labels.txt" }',
        "response_cache { enable: false } model_transaction_policy { decoupled: false } model_repository_agents { }",
        'parameters { key: "TF_USE_PER_SESSION_THREADS" value { string_value: "no" } }',
        'parameters { key: "mine" value { string_value: "anything" } }',
        'metric_tags { key: "team" value: "a" } model_operations { op_library_filename: "ops.so" }',
    ],
)
def test_hints_and_what_can_be_had_pass(text):
    check_supported(parsed(text), model="clip")


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ('platform: "onnxruntime_onnx"', 'platform: "onnxruntime_onnx"'),
        ('platform: "tensorflow_graphdef"', 'platform: "tensorflow_graphdef"'),
        ('backend: "python"', 'backend: "python"'),
        ('runtime: "model.py"', 'runtime: "model.py"'),
        ("sequence_batching { }", "sequence_batching"),
        ("ensemble_scheduling { }", "ensemble_scheduling"),
        ("model_transaction_policy { decoupled: true }", "model_transaction_policy { decoupled: true }"),
        ("response_cache { enable: true }", "response_cache"),
        ('model_repository_agents { agents { name: "checksum" } }', "model_repository_agents"),
        ("batch_input { kind: BATCH_ELEMENT_COUNT }", "batch_input"),
        ("batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE }", "batch_output"),
        ("instance_group { secondary_devices { } }", "instance_group { secondary_devices }"),
        ('instance_group { profile: "1" }', "instance_group { profile }"),
        ("instance_group { passive: true }", "instance_group { passive }"),
        ("optimization { cuda { graphs: true } }", "optimization { cuda { graphs } }"),
        (
            'optimization { execution_accelerators { gpu_execution_accelerator { name: "tensorrt" } } }',
            "optimization { execution_accelerators: 'tensorrt' }",
        ),
        ('input { name: "x" allow_ragged_batch: true }', "input 'x' { allow_ragged_batch }"),
        ('output { name: "y" is_shape_tensor: true }', "output 'y' { is_shape_tensor }"),
        ('output { name: "y" is_non_linear_format_io: true }', "output 'y' { is_non_linear_format_io }"),
        (
            'signatures { key: "text" value { output { name: "y" is_shape_tensor: true } } }',
            "signatures['text'] output 'y' { is_shape_tensor }",
        ),
        (
            'parameters { key: "TF_USE_PER_SESSION_THREADS" value { string_value: "On" } }',
            "parameter TF_USE_PER_SESSION_THREADS",
        ),
    ],
)
def test_what_cannot_be_had_is_refused_with_model_and_field(text, wish):
    with pytest.raises(LoadError) as refusal:
        check_supported(parsed(text), model="clip")

    assert str(refusal.value) == f"model 'clip': the configuration asks for {wish}, which Signet cannot do"


def test_the_graph_is_the_one_tagged_for_serving_unless_another_is_named():
    assert graph_tags(ModelConfig()) == {"serve"}
    assert graph_tags(parsed('parameters { key: "TF_GRAPH_TAG" value { string_value: "tpu" } }')) == {"tpu"}


def test_thread_counts_are_read():
    config = parsed('parameters { key: "TF_NUM_INTRA_THREADS" value { string_value: "4" } }')

    assert thread_counts(config, model="clip") == ThreadCounts(intra_op=4, inter_op=None)


@pytest.mark.parametrize("text", ["-1", "many", "1.5", "\u0663", "9" * 10, "9" * 5000])
def test_a_thread_count_that_is_no_number_of_threads_is_refused(text):
    config = parsed(f'parameters {{ key: "TF_NUM_INTER_THREADS" value {{ string_value: "{text}" }} }}')

    with pytest.raises(LoadError, match=f"model 'clip': parameter TF_NUM_INTER_THREADS .* but is '{text[:100]}'"):
        thread_counts(config, model="clip")


def test_asking_for_a_parameter_leaves_the_configuration_unchanged():
    config = ModelConfig()

    assert parameter(config, "TF_GRAPH_TAG") is None
    assert config == ModelConfig()


@pytest.mark.parametrize(
    "text", ['{"max_batch_size": 16}', '{"max_batch_size": "16"}', '{"maxBatchSize": 16, "name": "clip"}']
)
def test_override_is_json_with_numbers_in_either_form(text):
    assert parse_override(text, model="clip").max_batch_size == 16


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no JSON of a ModelConfig"),
        ("null", "no JSON of a ModelConfig"),
        ("[]", "no JSON of a ModelConfig"),
        ('{"nope": 1}', "nope"),
        ('{"max_batch_size": 4294967296}', "max_batch_size"),
        ('{"max_batch_size": true}', "max_batch_size"),
        ('{"a":' * 100_000, "no JSON of a ModelConfig"),
        ('{"name": "bert"}', "for a model called 'bert'"),
    ],
)
def test_override_that_is_none_says_what_is_wrong(text, says):
    with pytest.raises(LoadError, match=says):
        parse_override(text, model="clip")
