"""``signet export-config``: a running model's completed configuration, as a config.pbtxt to start from."""

from typing import Annotated, Any, Final

import grpc
import typer
from google.protobuf import text_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToJson
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from clients.command_line.address import open_channel
from clients.command_line.connection import DEFAULT_URL, AsJson, Failure, Url, connect

_SERVICE: Final = "inference.GRPCInferenceService"
_TIMEOUT_S: Final = 10.0


def export_config(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")],
    *,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Print a running model's configuration.

    It is what the server completed, as a config.pbtxt. For a path: signet inspect --config PATH.
    """
    with connect(url):
        config = _fetch(url, model)
    if as_json:
        typer.echo(MessageToJson(config, preserving_proto_field_name=True))
    else:
        typer.echo(text_format.MessageToString(config, use_short_repeated_primitives=True), nl=False)


def _fetch(url: str, model: str) -> Any:
    """Return the ModelConfig as the server defines it, which has fields that the stock client does not know."""
    with open_channel(url) as channel:
        try:
            config = _ask(channel, model)
        except grpc.RpcError as error:
            raise Failure(f"{error.code().name}: {error.details()}") from None
        except KeyError as error:
            raise Failure(f"{url} does not describe its service by reflection: {error}") from None
    config.parameters.pop("signatures", None)  # what clients read instead of the field
    if config.signatures:
        config.ClearField("dynamic_batching")  # each signature has its own, and one without would inherit it
    return config


def _ask(channel: grpc.Channel, model: str) -> Any:
    pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
    method = pool.FindServiceByName(_SERVICE).methods_by_name["ModelConfig"]
    request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    call = channel.unary_unary(f"/{_SERVICE}/ModelConfig", request.SerializeToString, response.FromString)
    return call(request(name=model), timeout=_TIMEOUT_S).config
