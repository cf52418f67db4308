"""The names of classes, which a configuration keeps in files beside itself."""

from collections.abc import Mapping
from pathlib import Path, PurePath

from service.completed_config import CompletedConfig
from service.errors import LoadError
from service.plain_files import refuse_other_than_file

Labels = tuple[bytes, ...]
"""The label of each index from 0 on. Labels are passed on as they are, in whatever encoding."""


def read_labels(config: CompletedConfig, directory: Path, *, model: str) -> dict[str, dict[str, Labels]]:
    """Read the label file of every output that has one.

    Args:
        config: says which do.
        directory: the model's directory, in which the files lie.
        model: the model's name, for errors.

    Returns:
        By signature and output: the labels.

    Raises:
        LoadError: a file cannot be read or is none, or its path leaves the model's directory; names it.
    """
    files: dict[str, Labels] = {}
    for filename in {name for names in config.label_filenames.values() for name in names.values()}:
        files[filename] = _read(filename, directory, model)
    return {signature: _of_outputs(names, files) for signature, names in config.label_filenames.items()}


def _of_outputs(names: Mapping[str, str], files: Mapping[str, Labels]) -> dict[str, Labels]:
    return {output: files[filename] for output, filename in names.items()}


def _read(filename: str, directory: Path, model: str) -> Labels:
    path = directory / filename
    # Links inside the directory are the operator's own, and how Kubernetes mounts files.
    if PurePath(filename).is_absolute() or ".." in PurePath(filename).parts:
        raise LoadError(f"model '{model}': label_filename '{filename}' must lie in the model's directory {directory}")
    refuse_other_than_file(path, f"model '{model}': the label file ")
    try:
        lines = path.read_bytes().split(b"\n")
    except (OSError, ValueError) as error:
        raise LoadError(f"model '{model}': the label file {path} cannot be read: {error}") from error
    return tuple(line.removesuffix(b"\r") for line in lines)
