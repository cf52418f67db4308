"""``signet infer``: one request, from the command line."""

import json
import sys
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tritonclient.grpc import InferenceServerClient, InferInput, InferResult
from tritonclient.utils import InferenceServerException

from clients.command_line.connection import DEFAULT_URL, AsJson, Failure, Url, connect, text_of
from clients.command_line.description import Target, describe
from clients.command_line.tensors import InputError, read_inputs, to_json

Signature = Annotated[
    str | None, typer.Option("--signature", "-s", metavar="NAME", help="Which signature; else the server's default.")
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="NAME=VALUE",
        help="An input; may be repeated. VALUE is JSON (a text needs no quotes), or @FILE: .npy, .json, a picture for "
        "numbers (levels 0 to 255), anything for BYTES. A single - reads a JSON object of all inputs.",
    ),
]


def infer(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")],
    *,
    signature: Signature = None,
    inputs: Inputs = None,
    url: Url = DEFAULT_URL,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds to wait for the answer.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Send one request and print the answer."""
    with connect(url) as client:
        target = describe(client, model, signature)
        arrays = arrays_for(target, inputs or [])
        result = _ask(client, target, arrays, timeout)
    if as_json:
        typer.echo(json.dumps(_as_object(result), ensure_ascii=False))
    else:
        Console(width=None if sys.stdout.isatty() else 120).print(_as_table(result))


def arrays_for(target: Target, given: list[str]) -> dict[str, np.ndarray]:
    """Return the inputs that were given, by name.

    Raises:
        Failure: one of them makes no tensor.
    """
    try:
        return read_inputs(given, {spec.name: spec for spec in target.inputs}, sys.stdin)
    except InputError as error:
        raise Failure(str(error)) from None


def to_infer_inputs(target: Target, arrays: dict[str, np.ndarray]) -> list[InferInput]:
    """Return the client's own form of the inputs."""
    made = []
    for spec in target.inputs:
        if spec.name in arrays:
            tensor = InferInput(spec.name, list(arrays[spec.name].shape), spec.datatype)
            made.append(tensor.set_data_from_numpy(arrays[spec.name]))
    return made


def _ask(client: InferenceServerClient, target: Target, arrays: dict[str, np.ndarray], timeout_s: float) -> InferResult:
    inputs = to_infer_inputs(target, arrays)
    try:
        return client.infer(target.model, inputs, parameters=target.parameters, client_timeout=timeout_s)
    except InferenceServerException as error:
        text = text_of(error)
        is_about_inputs = error.status() == "StatusCode.INVALID_ARGUMENT" and "signature takes" not in text
        raise Failure(f"{text}; {target}" if is_about_inputs else text) from None


def _as_object(result: InferResult) -> dict[str, object]:
    answer = result.get_response()
    outputs = {
        output.name: {
            "datatype": output.datatype,
            "shape": list(output.shape),
            "data": to_json(result.as_numpy(output.name)),
        }
        for output in answer.outputs
    }
    named = {"signature": answer.parameters["signature"].string_param} if "signature" in answer.parameters else {}
    return {"model": answer.model_name, "version": answer.model_version, **named, "outputs": outputs}


def _as_table(result: InferResult) -> Table:
    answer = result.get_response()
    table = Table(title=f"{answer.model_name}, version {answer.model_version}", title_justify="left")
    for column in ("output", "datatype", "shape", "values"):
        table.add_column(column, overflow="fold")
    for output in answer.outputs:
        shape = f"[{','.join(map(str, output.shape))}]"
        table.add_row(
            escape(output.name), output.datatype, escape(shape), escape(_values(result.as_numpy(output.name)))
        )
    return table


def _values(array: np.ndarray) -> str:
    """Return the values as text, long ones with their middle left out; texts as JSON writes them."""
    if array.dtype != np.object_:
        return np.array2string(array, separator=", ", threshold=100, edgeitems=3, max_line_width=60)
    texts = np.array(
        [json.dumps(to_json(np.array(each, np.object_)), ensure_ascii=False)[:80] for each in array.ravel()]
    )
    return np.array2string(
        texts.reshape(array.shape), separator=", ", threshold=100, max_line_width=60, formatter={"all": str}
    )
