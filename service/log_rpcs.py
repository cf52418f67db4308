"""The RPC that reads and changes what the server logs."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from protos import grpc_service_pb2 as pb
from service import logs
from service.caller import Caller
from service.errors import InvalidArgumentError, UnimplementedError
from service.logs import LogFormat, LogOptions
from service.servicer import UnaryMethods

_FILE: Final = "log_file"
_SWITCHES: Final = {"log_info": "info", "log_warning": "warning", "log_error": "error"}
_VERBOSE: Final = "log_verbose_level"
_FORMAT: Final = "log_format"


class LogRpcs:
    """Answers LogSettings. Changes hold at once and until the server ends."""

    def __init__(self, start: LogOptions, configure: Callable[[LogOptions], None] = logs.configure) -> None:
        """Create the group.

        Args:
            start: what holds now.
            configure: makes a change take effect.
        """
        self._options = start
        self._configure = configure

    def unary_methods(self) -> UnaryMethods:
        """Return the one RPC."""
        return {"LogSettings": (pb.LogSettingsRequest, self.log_settings)}

    def log_settings(self, request: pb.LogSettingsRequest, _caller: Caller) -> pb.LogSettingsResponse:
        """Change settings, all that are sent or none, and tell what holds then."""
        if request.settings:
            options = _read(self._options, request.settings)
            self._configure(options)
            self._options = options
        return _encode(self._options)


def _read(so_far: LogOptions, settings: Mapping[str, pb.LogSettingsRequest.SettingValue]) -> LogOptions:
    if _FILE in settings:
        raise UnimplementedError("log file location can not be updated through network protocol")
    changes: dict[str, Any] = {
        name: _value(settings, key, "bool_param", "boolean") for key, name in _SWITCHES.items() if key in settings
    }
    if _VERBOSE in settings:
        changes["verbose_level"] = _value(settings, _VERBOSE, "uint32_param", "int32")
    if _FORMAT in settings:
        text = _value(settings, _FORMAT, "string_param", "string")
        try:
            changes["format"] = LogFormat(text)
        except ValueError as error:
            raise InvalidArgumentError(f"invalid argument for {_FORMAT}, got: {text[:100]}") from error
    return replace(so_far, **changes)


def _value(settings: Mapping[str, pb.LogSettingsRequest.SettingValue], key: str, kind: str, expected: str) -> Any:
    setting = settings[key]
    if setting.WhichOneof("parameter_choice") != kind:
        raise InvalidArgumentError(f"expect {expected} for '{key}'")
    return getattr(setting, kind)


def _encode(options: LogOptions) -> pb.LogSettingsResponse:
    response = pb.LogSettingsResponse()
    # The log goes to standard error.
    response.settings[_FILE].string_param = ""
    for key, name in _SWITCHES.items():
        response.settings[key].bool_param = getattr(options, name)
    response.settings[_VERBOSE].uint32_param = options.verbose_level
    response.settings[_FORMAT].string_param = options.format.value
    return response
