"""What models of one process share is agreed on, and a version is loaded, completed, warmed up, or fails cleanly."""

import logging

import numpy as np
import pytest
from google.protobuf import text_format

from protos.model_config_pb2 import ModelConfig
from service import loading, memory_limit, saved_model
from service.devices import DeviceChoice
from service.errors import LoadError
from service.loading import VersionLoader, configure_runtime
from service.saved_model import process
from service.settings import Settings
from tests.service.serving import WAIT_S


def config(text=""):
    return text_format.Parse(text, ModelConfig())


def threads(intra=None, inter=None):
    given = {"TF_NUM_INTRA_THREADS": intra, "TF_NUM_INTER_THREADS": inter}
    return config(
        "".join(
            f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
            for key, value in given.items()
            if value is not None
        )
    )


# Agreement. ------------------------------------------------------------------------------------------------------


@pytest.fixture
def chosen(monkeypatch):
    """Collects the options instead of fixing them, which can be done once in the life of this process."""
    options = []
    monkeypatch.setattr(saved_model, "configure", options.append)
    return options


@pytest.mark.parametrize(
    ("configs", "options", "expected"),
    [
        ({}, {}, (0, 0)),
        ({"a": config()}, {"intra_op_threads": 3, "inter_op_threads": 4}, (3, 4)),
        ({"a": threads(2, 5)}, {}, (2, 5)),
        ({"a": threads(2), "b": threads(None, 5), "c": config()}, {}, (2, 5)),
        ({"a": threads(2), "b": threads(2)}, {}, (2, 0)),
        ({"a": threads(2)}, {"intra_op_threads": 7, "inter_op_threads": 8}, (2, 8)),
    ],
)
def test_wish_of_a_model_goes_before_the_servers_option(chosen, configs, options, expected):
    configure_runtime(configs, Settings(**options))

    assert [(each.intra_op_threads, each.inter_op_threads) for each in chosen] == [expected]


@pytest.mark.parametrize("choice", ["gpu", "gpu:1"])
def test_gpu_that_is_not_there_ends_the_start(monkeypatch, choice):
    monkeypatch.setattr(process, "_chosen", [])
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "TF_CPP_MIN_LOG_LEVEL"):
        monkeypatch.setenv(name, "")

    with pytest.raises(LoadError, match=f"--device {choice}: there is no GPU that TensorFlow can use"):
        configure_runtime({}, Settings(device=choice))


@pytest.mark.parametrize("parameter", ["TF_NUM_INTRA_THREADS", "TF_NUM_INTER_THREADS"])
def test_models_that_disagree_are_both_named(chosen, parameter):
    wishes = {
        name: config(f'parameters {{ key: "{parameter}" value {{ string_value: "{count}" }} }}')
        for name, count in (("bert", 2), ("clip", 3))
    }

    with pytest.raises(
        LoadError, match=f"{parameter} holds for the whole process.*2 in model 'bert', 3 in model 'clip'"
    ):
        configure_runtime({**wishes, "other": config()}, Settings())
    assert chosen == []


def test_count_that_is_no_number_names_its_model(chosen):
    with pytest.raises(LoadError, match=r"model 'clip': parameter TF_NUM_INTRA_THREADS .*'many'"):
        configure_runtime({"clip": threads("many")}, Settings())


def test_op_libraries_of_all_models_are_loaded_for_all(chosen):
    configure_runtime(
        {
            "a": config('model_operations { op_library_filename: [ "one.so", "two.so" ] }'),
            "b": config('model_operations { op_library_filename: "three.so" }'),
        },
        Settings(op_library=["zero.so"]),
    )

    assert [[path.name for path in each.op_libraries] for each in chosen] == [
        ["zero.so", "one.so", "two.so", "three.so"]
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('parameters { key: "TF_NUM_INTRA_THREADS" value { string_value: "63" } }', "TF_NUM_INTRA_THREADS is 63"),
        ('parameters { key: "TF_NUM_INTER_THREADS" value { string_value: "63" } }', "TF_NUM_INTER_THREADS is 63"),
        ('model_operations { op_library_filename: "/lib/late.so" }', "'/lib/late.so' was not loaded when"),
    ],
)
def test_wish_that_only_the_start_of_the_process_can_grant_is_refused_later(load, text, says):
    with pytest.raises(LoadError, match=says):
        load("module", text)
    assert load.servables == []


def test_wish_that_the_process_fulfils_anyway_is_no_fault(load):
    threads_in_force = saved_model.options_in_force().intra_op_threads

    assert load(
        "module", f'parameters {{ key: "TF_NUM_INTRA_THREADS" value {{ string_value: "{threads_in_force}" }} }}'
    )


def test_log_tells_devices_and_threads_once_tensorflow_has_started(load):
    load("module")
    threads = saved_model.options_in_force().intra_op_threads

    assert loading.runtime_in_force().startswith(f"CPU:0; {threads} threads within an op, ")


# Loading. --------------------------------------------------------------------------------------------------------


@pytest.fixture
def load(export, monkeypatch):
    """Load versions of exported SavedModels; they are closed when the test ends."""
    loaded, servables = [], []
    real = saved_model.load

    def remember(*arguments, **options):
        servables.append(real(*arguments, **options))
        return servables[-1]

    monkeypatch.setattr(loading.saved_model, "load", remember)

    def load_kind(kind, text="", **options):
        path = export(kind) if isinstance(kind, str) else kind
        loaded.append(VersionLoader(Settings(**options)).load("clip", 7, path, config(text)))
        return loaded[-1]

    load_kind.servables = servables
    yield load_kind
    for version in loaded:
        version.close(WAIT_S)


def test_version_serves_its_signatures_as_the_options_say(load):
    loaded = load("module", default_max_batch_size=16, max_queue_delay_us=500, instance_count=3)
    served = loaded.find_signature(None)

    assert (loaded.name, loaded.version) == ("clip", 7)
    assert served.max_batch_size == 16
    assert served.options.max_queue_delay_s == 0.0005
    assert loaded.config.instance_count == 3


def test_model_is_put_and_warmed_up_on_every_device(load, monkeypatch):
    monkeypatch.setattr(saved_model, "devices", DeviceChoice.parse("cpu:0,1").cpus)

    loaded = load("module", instance_count=2)

    assert loaded.config.instance_count == 4
    ran = {str(device): runs for device, runs in loaded.servable.device_runs().items()}
    assert set(ran) == {"CPU:0", "CPU:1"}
    assert ran["CPU:0"] >= ran["CPU:1"] >= len(loaded.signatures)


def test_mixed_precision_is_compared_with_full_precision_which_is_let_go_first(load, caplog):
    caplog.set_level(logging.INFO, "service")

    loaded = load("module", 'parameters { key: "mixed_precision" value { string_value: "on" } }')

    reference, servable = load.servables
    assert "closed" in repr(reference)
    assert loaded.servable is servable
    assert "with mixed precision signature 'serving_default' differs by up to " in caplog.text
    assert loaded.find_signature(None).signature.batchable


def test_model_that_wants_a_gpu_is_refused_where_there_is_none(load):
    with pytest.raises(LoadError, match="'clip_0' asks for a GPU, but this server uses CPU:0"):
        load("module", "instance_group { kind: KIND_GPU }")


def test_reject_option_reaches_the_signatures(load):
    assert not load("module", oversize_requests="reject").find_signature(None).cuts_oversize


def test_writing_signature_has_not_run_when_the_load_is_done(load):
    loaded = load("counter")

    assert loaded.servable.run("read", {}, ["count"])["count"] == 0
    assert loaded.statistics().execution_count == 0


def test_savedmodel_is_found_under_the_name_that_the_configuration_gives(load, export, tmp_path):
    (tmp_path / "mine").symlink_to(export("module"))

    assert load(tmp_path, 'default_model_filename: "mine"').find_signature(None)


def test_version_that_cannot_fit_into_memory_is_announced_and_tried(load, monkeypatch, caplog):
    monkeypatch.setattr(memory_limit, "memory", lambda: memory_limit.Memory(1 << 20, 1 << 20, "a full machine"))

    assert load("module")
    assert "model 'clip' version 7: its variables" in caplog.text
    assert "0 MiB are left of the 1 MiB of a full machine" in caplog.text


def test_labels_are_those_of_the_files_in_the_models_directory(load, export, tmp_path):
    (tmp_path / "7").symlink_to(export("module"))
    (tmp_path / "labels.txt").write_text("zero\none\n")

    loaded = load(tmp_path / "7", 'output { name: "y" label_filename: "labels.txt" }')

    assert loaded.find_signature(None).labels["y"][:2] == (b"zero", b"one")


def test_samples_are_run_and_show_whether_strings_may_be_batched(load, export, tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "service")
    (tmp_path / "7").symlink_to(export("several"))
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup" / "words").write_bytes(b"\x03\0\0\0one\x03\0\0\0two")
    sample = 'batch_size: 2 inputs { key: "word" value { data_type: TYPE_STRING input_data_file: "words" } }'

    loaded = load(tmp_path / "7", f'signatures {{ key: "find" value {{ model_warmup {{ name: "two" {sample} }} }} }}')

    assert loaded.config.signature_config("find").model_warmup[0].name == "two"
    assert loaded.signatures["find"].signature.batchable
    assert "warmed up model 'clip' in 5 runs" in caplog.text  # the sample, and one row and 64 of both signatures


def test_fields_that_mean_nothing_here_are_told_once_with_the_reason(load, caplog):
    load("module", "optimization { priority: PRIORITY_MAX input_pinned_memory { enable: true } }")

    assert caplog.text.count("means nothing here") == 1
    assert "model 'clip': the configuration's optimization.priority (all models have the same)" in caplog.text


def test_broken_signature_is_unavailable_and_its_neighbours_are_loaded(load):
    loaded = load("broken_signature")

    assert "broken" in loaded.servable.unavailable
    assert "serving_default" in loaded.signatures
    x = np.ones((1, 4), np.float32)
    assert loaded.servable.run("serving_default", {"x": x}, [loaded.find_signature(None).signature.outputs[0].name])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max_batch_size: 4 dynamic_batching { preferred_batch_size: 5 }", "preferred_batch_size"),
        ('input { name: "nope" }', "'nope'"),
        ('name: "other"', "for a model called 'other'"),
        ('output { name: "y" label_filename: "labels.txt" }', "label file .*labels.txt"),
        ('model_warmup { name: "one" }', "warm-up sample 'one': input x .* is missing"),
    ],
)
def test_configuration_that_does_not_fit_fails_and_frees_the_weights(load, text, says):
    with pytest.raises(LoadError, match=says):
        load("module", text)

    (servable,) = load.servables
    assert "closed" in repr(servable)


def test_defect_in_the_warm_up_frees_the_weights_and_ends_the_threads(load, monkeypatch):
    started = []

    def fail(loaded, samples, timeout_s):
        started.append(loaded)
        raise MemoryError

    monkeypatch.setattr(loading, "warm_up", fail)

    with pytest.raises(MemoryError):
        load("module")

    (servable,) = load.servables
    assert "closed" in repr(servable)
    assert "stopped" in repr(started[0].scheduler)


def test_tag_that_the_export_does_not_have_is_a_load_error(load):
    with pytest.raises(LoadError, match="nope"):
        load("module", 'parameters { key: "TF_GRAPH_TAG" value { string_value: "nope" } }')


def test_directory_without_a_savedmodel_is_a_load_error(load, tmp_path):
    with pytest.raises(LoadError, match="no SavedModel"):
        load(tmp_path)
