"""Fields of a config.pbtxt that ask for what has no meaning here: they are passed over, and the log says so."""

from collections.abc import Iterator, Mapping
from typing import Final

from google.protobuf.message import Message

from protos.model_config_pb2 import ModelConfig

_REASONS: Final[Mapping[str, str]] = {
    "cc_model_filenames": "default_model_filename is loaded on every device",
    "metric_tags": "metrics have the labels model, version and signature alone",
    "model_metrics": "histograms have fixed buckets",
    "instance_group.rate_limiter": "workers take turns without resources, as in Triton without --rate-limit",
    "instance_group.host_policy": "there are no settings by NUMA node",
    "optimization.priority": "all models have the same",
    "optimization.cuda.busy_wait_events": "TensorFlow waits in its own way",
    "optimization.cuda.output_copy_stream": "TensorFlow copies in its own way",
    "optimization.gather_kernel_buffer_threshold": "inputs are joined in the host's memory",
    "optimization.eager_batching": "a batch is joined when a worker takes it",
}
"""Why each means nothing. Pinned memory is none of them: every configuration that Triton has completed asks for it."""

_KNOWN_PARAMETERS: Final = frozenset(
    {
        *("TF_SIGNATURE_DEF", "TF_GRAPH_TAG", "TF_NUM_INTRA_THREADS", "TF_NUM_INTER_THREADS"),
        "TF_USE_PER_SESSION_THREADS",  # refused where it is on
    }
)


def ignored_fields(config: ModelConfig) -> list[str]:
    """Return what a configuration asks for in vain without harm: each field by its path, with the reason."""
    fields = [f"{path} ({reason})" for path, reason in _REASONS.items() if _is_given(config, path.split("."))]
    return [*fields, *_ignored_parameters(config)]


def _is_given(message: Message, path: list[str]) -> bool:
    """Whether a field below a message is not its default; one below a list: in any of its items."""
    value = next((value for field, value in message.ListFields() if field.name == path[0]), None)
    if value is None or len(path) == 1:
        return value is not None
    items = [value] if isinstance(value, Message) else value
    return any(_is_given(item, path[1:]) for item in items)


def _ignored_parameters(config: ModelConfig) -> Iterator[str]:
    """Yield those of Triton's TensorFlow backend; others are the users' own and travel to clients in ModelConfig."""
    for name in sorted(config.parameters):
        if name == "MAX_SESSION_SHARE_COUNT":
            yield f"parameter {name} (all workers share one session)"
        elif name.startswith("TF_") and name not in _KNOWN_PARAMETERS:
            yield f"parameter {name} (known are {', '.join(sorted(_KNOWN_PARAMETERS))})"
