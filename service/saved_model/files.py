"""Reading a SavedModel directory: the file with its graphs, the right meta graph, variables and assets."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.meta_graph_pb2 import AssetFileDef, MetaGraphDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from service.errors import LoadError
from service.saved_model.broken_files import BrokenFilesError
from service.saved_model.parsing import parse_in_pieces

_BINARY = "saved_model.pb"
_TEXT = "saved_model.pbtxt"
_CHUNKED = "saved_model.cpb"
_ASSETS_COLLECTION = "saved_model_assets"
# A writer that was interrupted leaves files whose names go on after this.
_SHARD = re.compile(r"variables\.data-[0-9]{5,}-of-([0-9]{5,})")


class MetaGraphFile:
    """The meta graph of a SavedModel that carries exactly these tags; parsed once for a look at it and for its use."""

    def __init__(self, path: Path, tags: frozenset[str]) -> None:
        """Remember what to read."""
        self.path: Final = path
        self.tags: Final = tags
        self._parsed: MetaGraphDef | None = None

    def look(self) -> MetaGraphDef:
        """Return the meta graph, which must not be changed.

        Raises:
            LoadError: as ``read_meta_graph``.
        """
        if self._parsed is None:
            self._parsed = read_meta_graph(self.path, self.tags)
        return self._parsed

    def take(self) -> MetaGraphDef:
        """Return a meta graph that the caller may change, and alone keeps in memory.

        Raises:
            LoadError: as ``read_meta_graph``.
        """
        taken, self._parsed = self.look(), None
        return taken


def read_meta_graph(path: Path, tags: frozenset[str]) -> MetaGraphDef:
    """Return the meta graph of a SavedModel that carries exactly these tags.

    Raises:
        LoadError: the directory holds no SavedModel that can be read, or none with these tags.
    """
    saved_model = _read(path)
    found = [set(meta_graph.meta_info_def.tags) for meta_graph in saved_model.meta_graphs]
    if not found:
        raise LoadError(f"{path}: the SavedModel holds no graph; the file is empty or cut")
    if tags not in found:
        have = "; ".join(_comma_list(tag_set) for tag_set in found)
        raise LoadError(f"{path}: the SavedModel has no graph with the tags {_comma_list(tags)}; it has: {have}")
    return saved_model.meta_graphs[found.index(set(tags))]


def variables_prefix(path: Path) -> Path:
    """Return the common start of the names of the checkpoint's files."""
    return path / "variables" / "variables"


def has_checkpoint(path: Path) -> bool:
    """Whether the SavedModel has a checkpoint; one without variables has none.

    Raises:
        BrokenFilesError: the index is there, but not every file with values.
    """
    if not variables_prefix(path).with_suffix(".index").is_file():
        return False
    data = {file.name for file in variables_prefix(path).parent.glob("variables.data-*")}
    counts = {int(shard[1]) for shard in map(_SHARD.fullmatch, data) if shard is not None} or {1}
    missing = [next((name for name in _shards(count) if name not in data), None) for count in sorted(counts)]
    if None not in missing:
        raise BrokenFilesError(f"variables/{missing[-1]} is missing")
    return True


def _shards(count: int) -> Iterator[str]:
    return (f"variables.data-{number:05d}-of-{count:05d}" for number in range(count))


def asset_feeds(path: Path, meta_graph: MetaGraphDef) -> dict[str, str]:
    """Return for each tensor that names an asset the file's path on this machine.

    Raises:
        BrokenFilesError: an asset is missing, or would lie outside of the model.
    """
    assets = _assets(meta_graph)
    for asset in assets:
        if ".." in Path(asset.filename).parts or Path(asset.filename).is_absolute():
            raise BrokenFilesError(f"the asset {asset.filename!r} would lie outside of the model")
        if not (path / "assets" / asset.filename).exists():
            raise BrokenFilesError(f"assets/{asset.filename} is missing")
    return {asset.tensor_info.name: str(path / "assets" / asset.filename) for asset in assets}


def _assets(meta_graph: MetaGraphDef) -> list[AssetFileDef]:
    """Old exports list their assets in a collection, newer ones in a field of their own."""
    if meta_graph.asset_file_def:
        return list(meta_graph.asset_file_def)
    if _ASSETS_COLLECTION not in meta_graph.collection_def:
        return []
    assets = []
    for packed in meta_graph.collection_def[_ASSETS_COLLECTION].any_list.value:
        asset = AssetFileDef()
        packed.Unpack(asset)
        assets.append(asset)
    return assets


def _read(path: Path) -> SavedModel:
    if not path.is_dir():
        raise LoadError(f"{path}: there is no such directory")
    binary, text = path / _BINARY, path / _TEXT
    if binary.is_file():
        return _parse_binary(binary)
    if text.is_file():
        return _parse_text(text)
    if (path / _CHUNKED).is_file():
        raise LoadError(f"{path / _CHUNKED}: SavedModels in several chunks are not supported; export without chunks")
    raise LoadError(f"{path}: the directory holds neither {_BINARY} nor {_TEXT}")


def _parse_binary(file: Path) -> SavedModel:
    saved_model = SavedModel()
    try:
        with file.open("rb") as stream:
            parse_in_pieces(saved_model, stream, 0, file.stat().st_size)
    except DecodeError as error:
        raise LoadError(f"{file}: the file is cut or is no SavedModel") from error
    except OSError as error:
        raise LoadError(f"{file}: cannot be read: {error.strerror}") from error
    return saved_model


def _parse_text(file: Path) -> SavedModel:
    try:
        return text_format.Parse(file.read_text(), SavedModel())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise LoadError(f"{file}: the file is cut or is no SavedModel in text form: {error}") from error
    except OSError as error:
        raise LoadError(f"{file}: cannot be read: {error.strerror}") from error


def _comma_list(tags: Iterable[str]) -> str:
    return ", ".join(sorted(tags)) or "(no tags)"
