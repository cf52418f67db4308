"""TensorFlow Serving's files mean what they mean there, and what cannot be had is refused by name."""

import logging
from pathlib import Path

import pytest

from protos.model_config_pb2 import ModelVersionPolicy
from service.config_completion import ConfigDefaults
from service.errors import LoadError
from service.tensorflow_serving import ModelList, read_models, with_batching_parameters


def written(directory, text, name="models.config"):
    path = directory / name
    path.write_text(text)
    return path


def listing(*entries):
    return "model_config_list { " + " ".join(f"config {{ {entry} }}" for entry in entries) + " }"


CLIP = 'name: "clip" base_path: "/models/clip"'


# models.config. ---------------------------------------------------------------------------------------------------


def test_every_listed_model_has_its_name_place_and_versions(tmp_path):
    path = written(
        tmp_path,
        """
        # as TensorFlow Serving's documentation writes it
        model_config_list: {
          config: {
            name: "clip", base_path: "/models/clip/", model_platform: "tensorflow",
            model_version_policy: { specific: { versions: 42 versions: 43 } }
          },
          config: { name: "bert" base_path: "bert" model_type: TENSORFLOW model_version_policy { all {} } }
          config: { name: "plain" base_path: "/p" }
        }
        """,
    )
    clip, bert, plain = read_models(path)

    assert (clip.name, clip.path) == ("clip", Path("/models/clip"))
    assert list(clip.version_policy.specific.versions) == [42, 43]
    assert (bert.name, bert.path) == ("bert", Path("bert"))
    assert bert.version_policy.WhichOneof("policy_choice") == "all"
    assert plain.version_policy is None


def test_labels_are_ignored_with_a_warning_that_names_them(tmp_path, caplog):
    (model,) = read_models(
        written(
            tmp_path,
            listing(CLIP + ' version_labels { key: "stable" value: 1 } version_labels { key: "canary" value: 2 }'),
        )
    )

    assert model.name == "clip"
    assert "model 'clip': version_labels (canary, stable) are ignored" in caplog.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (listing('base_path: "/p"'), "both name and base_path are needed"),
        (listing('name: "clip"'), "model 'clip': both name and base_path are needed"),
        (listing(CLIP, CLIP), "model 'clip' is listed 2 times"),
        (listing(CLIP + ' model_platform: "caffe2"'), "model 'clip': asks for model_platform: \"caffe2\""),
        (listing(CLIP + " model_type: OTHER"), "asks for model_type: OTHER"),
        (listing(CLIP + " logging_config { }"), 'models.config:1:.*no field named "logging_config"'),
        ("custom_model_config { }", 'no field named "custom_model_config"'),
        (listing('name: "clip" base_path: "gs://bucket/clip"'), "base_path 'gs://bucket/clip' is not on a file system"),
        ("model_config_list {", "models.config:1:"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(tmp_path, text, says):
    with pytest.raises(LoadError, match=says):
        read_models(written(tmp_path, text))


def test_list_follows_its_file_and_keeps_what_it_had_while_the_file_is_broken(tmp_path, caplog):
    path = written(tmp_path, listing(CLIP))
    models = ModelList(path)

    def names():
        return [model.name for model in models.models()]

    assert names() == ["clip"]
    path.write_text(listing(CLIP, 'name: "bert" base_path: "/models/bert"'))
    assert names() == ["clip", "bert"]
    path.write_text("model_config_list {")
    assert [names(), names()] == [["clip", "bert"]] * 2
    path.unlink()
    assert [names(), names()] == [["clip", "bert"]] * 2
    path.write_text(listing('name: "bert" base_path: "/models/bert"'))
    assert names() == ["bert"]

    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert all("what it listed before stays in force" in warning for warning in warnings)


def test_list_that_is_broken_at_the_start_is_refused(tmp_path):
    with pytest.raises(LoadError, match=r"absent: cannot be read: No such file"):
        ModelList(tmp_path / "absent")


def test_policies_are_written_like_tritons():
    assert {field.name for field in ModelVersionPolicy.DESCRIPTOR.fields} == {"latest", "all", "specific"}


# batching_parameters.txt. ----------------------------------------------------------------------------------------


def merged(directory, text, **defaults):
    return with_batching_parameters(ConfigDefaults(**defaults), written(directory, text, "batching.txt"))


def test_every_batching_parameter_becomes_a_default(tmp_path, caplog):
    assert merged(
        tmp_path,
        """
        max_batch_size { value: 128 }
        batch_timeout_micros { value: 500 }
        max_enqueued_batches { value: 100 }
        num_batch_threads { value: 8 }
        allowed_batch_sizes: 32
        allowed_batch_sizes: 128
        pad_variable_length_inputs: true
        thread_pool_name { value: "batches" }
        """,
        default_signature="embed",
    ) == ConfigDefaults(
        default_max_batch_size=128,
        max_queue_delay_us=500,
        max_enqueued_batches=100,
        instance_count=8,
        allowed_batch_sizes=(32, 128),
        pads_variable_lengths=True,
        default_signature="embed",
    )
    assert "thread_pool_name is ignored" in caplog.text


def test_what_is_left_out_stays_as_the_options_say(tmp_path):
    given = {"default_max_batch_size": 16, "max_queue_delay_us": 7, "instance_count": 3}

    assert merged(tmp_path, "", **given) == ConfigDefaults(**given)
    assert merged(tmp_path, "batch_timeout_micros { value: 0 }", **given).max_queue_delay_us == 0


def test_allowed_sizes_alone_say_the_largest_batch_too(tmp_path):
    assert merged(tmp_path, "allowed_batch_sizes: [ 4, 8 ]").default_max_batch_size == 8


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max_batch_size { value: 0 }", "max_batch_size must be from 1 to 2147483647, but is 0"),
        ("max_batch_size { }", "max_batch_size must be from 1 to 2147483647, but is 0"),
        ("batch_timeout_micros { value: -1 }", "batch_timeout_micros must be from 0 .* but is -1"),
        ("num_batch_threads { value: 1025 }", "num_batch_threads must be from 1 to 1024, but is 1025"),
        ("max_enqueued_batches { value: 0 }", "max_enqueued_batches must be from 1"),
        ("allowed_batch_sizes: [ 8, 4 ]", r"must ascend from 1 or more, but are \[8, 4\]"),
        ("allowed_batch_sizes: [ 0, 4 ]", r"must ascend from 1 or more, but are \[0, 4\]"),
        ("max_batch_size { value: 9 } allowed_batch_sizes: [ 4, 8 ]", "must be max_batch_size 9, not 8"),
        ("max_batch_size: 8", "batching.txt:1:"),
        ("mixed_priority_batching_policy: 1", 'no field named "mixed_priority_batching_policy"'),
    ],
)
def test_parameter_that_cannot_be_used_is_named(tmp_path, text, says):
    with pytest.raises(LoadError, match=says):
        merged(tmp_path, text)
