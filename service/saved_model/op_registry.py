"""What TensorFlow knows of an op, and which package brings an op that it does not know."""

import importlib
import importlib.util
from collections.abc import Iterable

from tensorflow.core.framework.op_def_pb2 import OpDef
from tensorflow.python.framework import op_def_registry

from service.saved_model.graph_index import GraphIndex

_PACKAGES_BY_PREFIX = {
    "Addons>": "tensorflow-addons",
    "IO>": "tensorflow-io",
    "TFRA>": "tensorflow-recommenders-addons",
    "SimpleML": "tensorflow-decision-forests",
    "TFText>": "tensorflow-text",
    "Sentencepiece": "tensorflow-text",
    "WordpieceTokenize": "tensorflow-text",
    "FastWordpiece": "tensorflow-text",
    "FastBertNormalize": "tensorflow-text",
    "RegexSplitWithOffsets": "tensorflow-text",
    "CaseFoldUTF8": "tensorflow-text",
    "NormalizeUTF8": "tensorflow-text",
    "SplitMergeTokenize": "tensorflow-text",
    "UnicodeScriptTokenize": "tensorflow-text",
    "WhitespaceTokenize": "tensorflow-text",
    "SentenceFragments": "tensorflow-text",
    "RougeL": "tensorflow-text",
    "PhraseTokenize": "tensorflow-text",
    "TRTEngineOp": "a TensorFlow build with TensorRT",
    "CreateTRTResourceHandle": "a TensorFlow build with TensorRT",
}
_IMPORTABLE = {"tensorflow-text": "tensorflow_text"}


def op_def(op: str) -> OpDef | None:
    """Return what TensorFlow knows of an op, None when it is not registered."""
    return op_def_registry.get(op)


def why_unregistered(index: GraphIndex, roots: Iterable[str]) -> str | None:
    """Return which op a run of these nodes needs and TensorFlow does not have, None when it has all.

    A package that is installed and known to bring the op is imported first, which registers its ops.
    """
    ops = {node.op for node in index.reached_nodes(roots)} - index.functions.keys()
    missing = sorted(op for op in ops if op_def(op) is None)
    for package in {package_of(op) for op in missing}:
        _import_if_installed(package)
    missing = [op for op in missing if op_def(op) is None]
    if not missing:
        return None
    return "; ".join(_describe(op) for op in missing)


def package_of(op: str) -> str | None:
    """Return the package that brings an op, None where it is not known."""
    return next((package for prefix, package in _PACKAGES_BY_PREFIX.items() if op.startswith(prefix)), None)


def _describe(op: str) -> str:
    package = package_of(op)
    remedy = f"it comes with {package}" if package else "name its library with --op-library"
    return f"the op {op} is not registered ({remedy})"


def _import_if_installed(package: str | None) -> None:
    module = _IMPORTABLE.get(package) if package is not None else None
    if module is not None and importlib.util.find_spec(module) is not None:
        importlib.import_module(module)
