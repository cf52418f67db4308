"""What ``signet inspect`` shows of a version: its signatures as a table, or its completed configuration."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from protos.model_config_pb2 import ModelConfig
from service import saved_model
from service.config_completion import ConfigDefaults, complete
from service.errors import LoadError
from service.layouts import ModelSource, find_models, saved_model_directory
from service.load_plan import read_source_config
from service.model_config import MODEL_FILENAME, check_supported, config_text, graph_tags
from service.signature import Signature, TensorSpec
from service.versions import versions_to_serve


@dataclass(frozen=True)
class InspectedVersion:
    """A version that would be served, as far as its graph and its configuration tell.

    Attributes:
        model: the model's name.
        version: its number.
        is_latest: whether no higher version would be served.
        config: as read; empty when there is none.
        signatures: those that can be served, ascending.
        unavailable: the others, each with the reason.
    """

    model: str
    version: int
    is_latest: bool
    config: ModelConfig = field(repr=False)
    signatures: Mapping[str, Signature] = field(repr=False)
    unavailable: Mapping[str, str] = field(repr=False)

    def table(self) -> Table:
        """Return a table of the signatures with their tensors, and whether each can be batched."""
        table = Table(
            title=f"model {escape(self.model)}, version {self.version}", title_justify="left", show_lines=True
        )
        for column in ("signature", "inputs", "outputs", "effect", "batchable"):
            table.add_column(column, overflow="fold")
        for signature in self.signatures.values():
            table.add_row(
                escape(signature.name),
                _lines(signature.inputs),
                _lines(signature.outputs),
                signature.effect.value,
                _batchable(signature),
            )
        for key, reason in self.unavailable.items():
            table.add_row(escape(key), "", "", "", f"[red]cannot be served:[/] {escape(reason)}")
        return table

    def as_object(self) -> dict[str, object]:
        """Return the same as JSON's types; a shape of null says that not even the rank is known."""
        return {
            "model": self.model,
            "version": self.version,
            "signatures": {signature.name: _signature_object(signature) for signature in self.signatures.values()},
            "unavailable": dict(self.unavailable),
        }

    def completed_config(self) -> str:
        """Return the configuration as a server with default options completes it, as the text of a config.pbtxt.

        Raises:
            LoadError: the configuration contradicts the SavedModel or itself.
        """
        completed = complete(
            self.config,
            model=self.model,
            signatures=self.signatures,
            unavailable=self.unavailable,
            defaults=ConfigDefaults(devices=saved_model.devices()),
        )
        return config_text(completed.as_file())


def inspect(path: Path, show: Callable[[InspectedVersion], None]) -> list[str]:
    """Show every version of every model of a path that would be served.

    Args:
        path: a model, or a directory of models.
        show: may raise LoadError, which concerns that version alone.

    Returns:
        What is wrong with those that cannot be served, a line each.

    Raises:
        LoadError: there is no model at the path.
    """
    return [problem for source in find_models(path) for problem in _inspect_model(source, show)]


def _inspect_model(source: ModelSource, show: Callable[[InspectedVersion], None]) -> Iterator[str]:
    if source.problem is not None:
        yield f"model '{source.name}': {source.problem}"
        return
    try:
        config = read_source_config(source)
        check_supported(config, model=source.name)
        chosen = versions_to_serve(source.versions, config.version_policy, model=source.name)
    except LoadError as error:
        yield str(error)
        return
    for version in chosen:
        try:
            show(_inspect_version(source, version, config, is_latest=version == chosen[-1]))
        except LoadError as error:
            yield str(error)


def _inspect_version(source: ModelSource, version: int, config: ModelConfig, *, is_latest: bool) -> InspectedVersion:
    path = saved_model_directory(source.versions[version], config.default_model_filename or MODEL_FILENAME)
    description = saved_model.describe(path, tags=graph_tags(config))
    return InspectedVersion(source.name, version, is_latest, config, description.signatures, description.unavailable)


def _signature_object(signature: Signature) -> dict[str, object]:
    return {
        "inputs": [_tensor_object(spec) for spec in signature.inputs],
        "outputs": [_tensor_object(spec) for spec in signature.outputs],
        "effect": signature.effect.value,
        "why_not_batchable": signature.why_not_batchable,
    }


def _tensor_object(spec: TensorSpec) -> dict[str, object]:
    return {"name": spec.name, "datatype": spec.datatype.name, "shape": spec.shape, "optional": spec.optional}


def _lines(specs: tuple[TensorSpec, ...]) -> str:
    return escape("\n".join(f"{spec}{' (optional)' if spec.optional else ''}" for spec in specs)) or "none"


def _batchable(signature: Signature) -> str:
    reason = signature.why_not_batchable
    return "[green]yes[/]" if reason is None else f"no: {escape(reason)}"
