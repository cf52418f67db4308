"""The RPC that reads and changes what is traced."""

from protos import grpc_service_pb2 as pb
from service.caller import Caller
from service.catalog import Catalog
from service.errors import InvalidArgumentError, SignetError
from service.servicer import UnaryMethods
from service.trace_settings import OFF, TraceBook, TraceSettings

_MODE = "triton"


class TraceRpcs:
    """Answers TraceSetting for the whole server and for single models."""

    def __init__(self, catalog: Catalog, book: TraceBook) -> None:
        """Create the group.

        Args:
            catalog: says which models there are.
            book: keeps the settings.
        """
        self._catalog = catalog
        self._book = book

    def unary_methods(self) -> UnaryMethods:
        """Return the one RPC."""
        return {"TraceSetting": (pb.TraceSettingRequest, self.trace_setting)}

    def trace_setting(self, request: pb.TraceSettingRequest, _caller: Caller) -> pb.TraceSettingResponse:
        """Change settings, or only tell them when none is sent."""
        model = request.model_name or None
        if model is not None:
            self._check_model(model)
        changes = {key: list(setting.value) for key, setting in request.settings.items()}
        settings = self._book.update(model, changes) if changes else self._book.settings(model)
        return _encode(settings)

    def _check_model(self, name: str) -> None:
        try:
            targets = self._catalog.find_ready(name)
        except SignetError as error:
            raise InvalidArgumentError(f"Request for unknown model : {name}") from error
        if any(target.signature is not None for target in targets):
            raise InvalidArgumentError(
                f"'{name}' names a signature; trace settings are those of model '{targets[0].loaded.name}'"
            )


def _encode(settings: TraceSettings) -> pb.TraceSettingResponse:
    values = {
        "trace_level": settings.levels or (OFF,),
        "trace_rate": (str(settings.rate),),
        "trace_count": (str(settings.count),),
        "log_frequency": (str(settings.log_frequency),),
        "trace_file": (settings.file,),
        "trace_mode": (_MODE,),
    }
    response = pb.TraceSettingResponse()
    for key, value in values.items():
        response.settings[key].value.extend(value)
    return response
