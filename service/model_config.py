"""Reads Triton's config.pbtxt and refuses what it asks for in vain."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from google.protobuf import json_format, text_format
from google.protobuf.message import Message

from protos.model_config_pb2 import ModelConfig, ModelInput, ModelInstanceGroup, ModelOptimizationPolicy, ModelOutput
from service.errors import LoadError
from service.plain_files import refuse_other_than_file

PLATFORM: Final = "tensorflow_savedmodel"
BACKEND: Final = "tensorflow"
RUNTIME: Final = "libtriton_tensorflow.so"
"""What Triton itself fills in for that backend; it means nothing here."""

MODEL_FILENAME: Final = "model.savedmodel"
"""The name that Triton gives the SavedModel in a version's directory."""

SERVE: Final = "serve"
"""The tag of the graph that exports mean for serving."""

Parsed = TypeVar("Parsed", bound=Message)

_THREAD_DIGITS: Final = 9  # so many always fit the 32 bits in which TensorFlow keeps them


@dataclass(frozen=True)
class ThreadCounts:
    """TensorFlow's threads, which the whole process shares; None where the configuration says nothing.

    Attributes:
        intra_op: threads that one op may use.
        inter_op: threads that run ops beside each other.
    """

    intra_op: int | None
    inter_op: int | None


def read_config(path: Path) -> ModelConfig:
    """Read a config.pbtxt.

    Raises:
        LoadError: the file cannot be read, or is not the text of a ModelConfig; names the line and the column.
    """
    refuse_other_than_file(path)
    return parse_file(path, ModelConfig())


def parse_file(path: Path, message: Parsed) -> Parsed:
    """Read the text of a message into one, and return it.

    Raises:
        LoadError: the file cannot be read, or is not the text of such a message; names the line and the column.
    """
    try:
        return text_format.Parse(path.read_text(encoding="utf-8"), message)
    except text_format.ParseError as error:
        raise LoadError(f"{path}:{error}") from error
    except UnicodeDecodeError as error:
        raise LoadError(f"{path}: is no UTF-8 text: {error}") from error
    except OSError as error:
        raise LoadError(f"{path}: cannot be read: {error.strerror}") from error


def config_text(config: ModelConfig) -> str:
    """Return a configuration as the text of a config.pbtxt."""
    return text_format.MessageToString(config, as_utf8=True)


def parse_override(text: str, *, model: str) -> ModelConfig:
    """Read the configuration that a caller gives for one load.

    Args:
        text: JSON of a ModelConfig; numbers may be written as strings.
        model: the model that is to be loaded; the configuration may name it or no model.

    Raises:
        LoadError: the text is something else, or names another model.
    """
    # The parser would take an empty list for an empty configuration.
    if not text.lstrip().startswith("{"):
        raise LoadError("the configuration is no JSON of a ModelConfig: it is no object")
    try:
        config = json_format.Parse(text, ModelConfig())
    except json_format.ParseError as error:
        raise LoadError(f"the configuration is no JSON of a ModelConfig: {error}") from error
    if config.name not in ("", model):
        raise LoadError(f"the configuration is for a model called '{config.name}'")
    return config


def graph_tags(config: ModelConfig) -> frozenset[str]:
    """Return the tags of the graph to load: TF_GRAPH_TAG, else ``serve``."""
    return frozenset({parameter(config, "TF_GRAPH_TAG") or SERVE})


def thread_counts(config: ModelConfig, *, model: str) -> ThreadCounts:
    """Return TF_NUM_INTRA_THREADS and TF_NUM_INTER_THREADS.

    Raises:
        LoadError: one of them is no number, or negative.
    """
    return ThreadCounts(
        intra_op=_thread_count(config, "TF_NUM_INTRA_THREADS", model),
        inter_op=_thread_count(config, "TF_NUM_INTER_THREADS", model),
    )


def parameter(config: ModelConfig, name: str) -> str | None:
    """Return the value of an entry of ``parameters``, or None when it is absent or empty."""
    # A map of messages makes the entry that it is asked for, so ask first whether it is there.
    return config.parameters[name].string_value or None if name in config.parameters else None


def _thread_count(config: ModelConfig, name: str, model: str) -> int | None:
    text = parameter(config, name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _THREAD_DIGITS):
        raise LoadError(
            f"model '{model}': parameter {name} must be a number of threads, 0 or more and of at most {_THREAD_DIGITS} "
            f"digits, but is '{text[:100]}'"
        )
    return int(text)


def check_supported(config: ModelConfig, *, model: str) -> None:
    """Refuse a configuration that asks for what this server cannot do.

    What is only a hint passes; ``ignored_fields`` tells of it.

    Args:
        config: as read.
        model: the model's name, for the text.

    Raises:
        LoadError: names the first field that cannot be fulfilled.
    """
    for wish in _wishes_beyond_reach(config):
        raise LoadError(f"model '{model}': the configuration asks for {wish}, which Signet cannot do")


def _wishes_beyond_reach(config: ModelConfig) -> Iterator[str]:
    yield from _runtime_wishes(config)
    yield from _scheduling_wishes(config)
    for group in config.instance_group:
        yield from _group_wishes(group)
    yield from _optimization_wishes(config.optimization)
    yield from _tensor_wishes("input", config.input)
    yield from _tensor_wishes("output", config.output)
    for name, signature in sorted(config.signatures.items()):
        yield from _tensor_wishes(f"signatures['{name}'] input", signature.input)
        yield from _tensor_wishes(f"signatures['{name}'] output", signature.output)


def _runtime_wishes(config: ModelConfig) -> Iterator[str]:
    if config.platform not in ("", PLATFORM):
        yield f'platform: "{config.platform}"'
    if config.backend not in ("", BACKEND):
        yield f'backend: "{config.backend}"'
    if config.runtime not in ("", RUNTIME):
        yield f'runtime: "{config.runtime}"'
    if config.model_repository_agents.agents:
        yield "model_repository_agents"
    if config.response_cache.enable:
        yield "response_cache"
    if (parameter(config, "TF_USE_PER_SESSION_THREADS") or "").lower() in ("true", "on", "yes", "1"):
        yield "parameter TF_USE_PER_SESSION_THREADS"


def _scheduling_wishes(config: ModelConfig) -> Iterator[str]:
    scheduling = config.WhichOneof("scheduling_choice")
    if scheduling in ("sequence_batching", "ensemble_scheduling"):
        yield scheduling
    if config.model_transaction_policy.decoupled:
        yield "model_transaction_policy { decoupled: true }"
    for field, given in (("batch_input", config.batch_input), ("batch_output", config.batch_output)):
        if given:
            yield field


def _group_wishes(group: ModelInstanceGroup) -> Iterator[str]:
    for field, _ in group.ListFields():
        if field.name not in ("name", "kind", "count", "gpus", "rate_limiter", "host_policy"):
            yield f"instance_group {{ {field.name} }}"


def _optimization_wishes(optimization: ModelOptimizationPolicy) -> Iterator[str]:
    for field in ("graphs", "graph_spec"):
        if getattr(optimization.cuda, field):
            yield f"optimization {{ cuda {{ {field} }} }}"
    accelerators = optimization.execution_accelerators
    for accelerator in (*accelerators.gpu_execution_accelerator, *accelerators.cpu_execution_accelerator):
        if accelerator.name != "auto_mixed_precision":
            yield f"optimization {{ execution_accelerators: '{accelerator.name}' }}"


def _tensor_wishes(kind: str, tensors: Iterable[ModelInput] | Iterable[ModelOutput]) -> Iterator[str]:
    for tensor in tensors:
        for field, _ in tensor.ListFields():
            if field.name in ("is_shape_tensor", "allow_ragged_batch", "is_non_linear_format_io"):
                yield f"{kind} '{tensor.name}' {{ {field.name} }}"
