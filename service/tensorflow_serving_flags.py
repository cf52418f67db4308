"""Understands the command line of TensorFlow Serving's model server: it moves over with its program's name changed.

Its flags are written with underscores, ours with dashes, so that neither is mistaken for the other; ``--port`` is no
option of ours. A flag that asks for what Signet cannot do is left as it is, and refused as an unknown option.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from service.errors import LoadError

_RENAMED: Final = {
    "--port": ("--grpc-port",),
    "--tensorflow_session_parallelism": ("--intra-op-threads", "--inter-op-threads"),
    "--tensorflow_intra_op_parallelism": ("--intra-op-threads",),
    "--tensorflow_inter_op_parallelism": ("--inter-op-threads",),
}
_SAME: Final = frozenset({"--model_config_file", "--batching_parameters_file"})
_POLLING: Final = frozenset({"--file_system_poll_wait_seconds", "--model_config_file_poll_wait_seconds"})
_MEANINGLESS: Final = {
    "--grpc_max_threads": "calls hold no threads",
    "--flush_filesystem_caches": "nothing of a model is read again once it is loaded",
    "--num_load_threads": "models are loaded one after the other",
    "--num_unload_threads": "models are unloaded as soon as their last request is answered",
    "--max_num_load_retries": "in mode poll a version that fails is tried again until it loads",
    "--load_retry_interval_micros": "in mode poll the pauses between tries grow",
    "--enable_model_warmup": "--warm-up-timeout 0 leaves warm-up out, config.pbtxt names samples",
    "--allow_version_labels_for_unavailable_models": "this protocol names versions by number",
    "--enable_signature_method_name_check": "every method is served",
    "--monitoring_config_file": "/metrics is answered at --metrics-port",
}
_REST: Final = frozenset({"--rest_api_port", "--rest_api_num_threads", "--rest_api_timeout_in_ms"})
_NAME: Final = "--model_name"
_PLACE: Final = "--model_base_path"
_BATCHING: Final = "--enable_batching"
_SWITCHES: Final = frozenset(
    {
        _BATCHING,
        "--flush_filesystem_caches",
        "--enable_model_warmup",
        "--allow_version_labels_for_unavailable_models",
        "--enable_signature_method_name_check",
    }
)
"""Flags that need no value; the next argument is never theirs."""

FLAGS: Final = frozenset({*_RENAMED, *_SAME, *_POLLING, *_REST, *_MEANINGLESS, _NAME, _PLACE, _BATCHING})

_DEFAULT_NAME: Final = "default"


def translate(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments in our own options, and warnings about flags that mean nothing here.

    Args:
        arguments: those of ``signet serve``; a flag's value stands behind ``=`` or in the next one.

    Raises:
        LoadError: a flag lacks its value, or its companion.
    """
    ours: list[str] = []
    given: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        flag, separator, value = argument.partition("=")
        if flag not in FLAGS:
            ours.append(argument)
        elif separator:
            given[flag] = value
        elif flag in _SWITCHES:
            given[flag] = "true"
        else:
            given[flag] = _next(rest, flag)
    return [*ours, *_options(given)], [f"{flag} is ignored: {reason}" for flag, reason in _ignored(given)]


def _ignored(given: Iterable[str]) -> Iterator[tuple[str, str]]:
    for flag in given:
        if flag in _REST:
            yield flag, "there is no REST inference"
        elif flag in _MEANINGLESS:
            yield flag, _MEANINGLESS[flag]


def _next(rest: Iterator[str], flag: str) -> str:
    value = next(rest, None)
    if value is None:
        raise LoadError(f"{flag}: a value is missing")
    return value


def _options(given: Mapping[str, str]) -> Iterator[str]:
    for flag, value in given.items():
        for option in _RENAMED.get(flag, ()):
            yield from (option, value)
        if flag in _SAME:
            yield from (flag.replace("_", "-"), value)
        if flag in _POLLING and value != "0":
            yield from ("--model-control-mode", "poll", "--repository-poll-secs", value)
    if given.get(_BATCHING, "true").lower() in ("false", "0"):
        yield from ("--default-max-batch-size", "0")
    if _PLACE in given:
        yield from ("--model", f"{given.get(_NAME, _DEFAULT_NAME)}={given[_PLACE]}")
    elif _NAME in given:
        raise LoadError(f"{_NAME} {given[_NAME]}: needs {_PLACE}, too")
