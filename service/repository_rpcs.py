"""The RPCs that list, load and unload models."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from protos import grpc_service_pb2 as pb
from service.caller import Caller
from service.catalog import IndexEntry
from service.errors import InvalidArgumentError, UnimplementedError
from service.model_control import ModelControl
from service.model_entry import State
from service.servicer import Later, UnaryMethods

_CONFIG: Final = "config"
_FILE_PREFIX: Final = "file:"
_UNLOAD_DEPENDENTS: Final = "unload_dependents"


class RepositoryRpcs:
    """Answers RepositoryIndex, RepositoryModelLoad and RepositoryModelUnload. A load is answered when it has ended."""

    def __init__(self, control: ModelControl) -> None:
        self._control = control

    def unary_methods(self) -> UnaryMethods:
        """Return the RPCs of the group."""
        return {
            "RepositoryIndex": (pb.RepositoryIndexRequest, self.index),
            "RepositoryModelLoad": (pb.RepositoryModelLoadRequest, self.load),
            "RepositoryModelUnload": (pb.RepositoryModelUnloadRequest, self.unload),
        }

    def index(self, request: pb.RepositoryIndexRequest, _caller: Caller) -> Later:
        """List the versions of all models, or those that are ready."""
        _refuse_repository_name(request.repository_name)
        return Later(self._control.index(), partial(_encode_index, only_ready=request.ready))

    def load(self, request: pb.RepositoryModelLoadRequest, _caller: Caller) -> Later:
        """Load a model, or load it anew."""
        _refuse_repository_name(request.repository_name)
        config, files = _read_load_parameters(request.parameters)
        loading = self._control.load(request.model_name, config, files)
        return Later(loading, lambda _loaded: pb.RepositoryModelLoadResponse())

    def unload(self, request: pb.RepositoryModelUnloadRequest, _caller: Caller) -> pb.RepositoryModelUnloadResponse:
        """Take a model out of service."""
        _refuse_repository_name(request.repository_name)
        dependents = request.parameters.get(_UNLOAD_DEPENDENTS)
        # No model depends on another here, so both values mean the same.
        if dependents is not None and dependents.WhichOneof("parameter_choice") != "bool_param":
            raise InvalidArgumentError(f"invalid value type for '{_UNLOAD_DEPENDENTS}' parameter, expected bool_param.")
        self._control.unload(request.model_name)
        return pb.RepositoryModelUnloadResponse()


def _refuse_repository_name(name: str) -> None:
    if name:
        raise UnimplementedError("'repository_name' specification is not supported")


def _read_load_parameters(
    parameters: Mapping[str, pb.ModelRepositoryParameter],
) -> tuple[str | None, dict[str, bytes]]:
    """Check the parameters of a load; return the configuration that they give, as JSON, and the files by path."""
    config = None
    files = {}
    for key, value in sorted(parameters.items()):
        if key == _CONFIG:
            _require(key, value, "string_param")
            config = value.string_param
        elif key.startswith(_FILE_PREFIX):
            _require(key, value, "bytes_param")
            files[key.removeprefix(_FILE_PREFIX)] = value.bytes_param
        else:
            raise InvalidArgumentError(f"unrecognized load parameter '{key}'.")
    return config, files


def _require(key: str, value: pb.ModelRepositoryParameter, kind: str) -> None:
    if value.WhichOneof("parameter_choice") != kind:
        raise InvalidArgumentError(f"invalid value type for load parameter '{key}', expected {kind}.")


def _encode_index(entries: list[IndexEntry], *, only_ready: bool) -> pb.RepositoryIndexResponse:
    response = pb.RepositoryIndexResponse()
    for entry in entries:
        if not only_ready or entry.state == State.READY.value:
            response.models.add(
                name=_sendable(entry.name), version=entry.version, state=entry.state, reason=_sendable(entry.reason)
            )
    return response


def _sendable(text: str) -> str:
    """Escape what no message can hold: Python's characters for the bytes of a file's name that are no UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()
