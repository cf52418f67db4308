"""What ``signet inspect`` shows: a table per model with its signatures, tensors and whether each can be batched."""

from pathlib import Path

from rich.markup import escape
from rich.table import Table

from protos.model_config_pb2 import ModelConfig
from service import saved_model
from service.errors import LoadError
from service.layouts import ModelSource, find_models, saved_model_directory
from service.model_config import MODEL_FILENAME, graph_tags, read_config
from service.signature import Signature, TensorSpec
from service.versions import versions_to_serve


def tables(path: Path) -> list[Table]:
    """Return a table for each version that would be served.

    Raises:
        LoadError: there is no model at the path, or one of them is broken.
    """
    return [table for source in find_models(path) for table in _tables_of(source)]


def _tables_of(source: ModelSource) -> list[Table]:
    if source.problem is not None:
        raise LoadError(f"model '{source.name}': {source.problem}")
    config = ModelConfig() if source.config_path is None else read_config(source.config_path)
    filename = config.default_model_filename or MODEL_FILENAME
    return [
        _table(source.name, version, saved_model_directory(source.versions[version], filename), config)
        for version in versions_to_serve(source.versions, config.version_policy, model=source.name)
    ]


def _table(name: str, version: int, path: Path, config: ModelConfig) -> Table:
    description = saved_model.describe(path, tags=graph_tags(config))
    table = Table(title=f"model {escape(name)}, version {version}", title_justify="left", show_lines=True)
    for column in ("signature", "inputs", "outputs", "effect", "batchable"):
        table.add_column(column, overflow="fold")
    for signature in description.signatures.values():
        table.add_row(
            escape(signature.name),
            _lines(signature.inputs),
            _lines(signature.outputs),
            signature.effect.value,
            _batchable(signature),
        )
    for key, reason in description.unavailable.items():
        table.add_row(escape(key), "", "", "", f"[red]cannot be served:[/] {escape(reason)}")
    return table


def _lines(specs: tuple[TensorSpec, ...]) -> str:
    return escape("\n".join(f"{spec}{' (optional)' if spec.optional else ''}" for spec in specs)) or "none"


def _batchable(signature: Signature) -> str:
    reason = signature.why_not_batchable
    return "[green]yes[/]" if reason is None else f"no: {escape(reason)}"
