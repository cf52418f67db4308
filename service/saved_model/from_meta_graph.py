"""The first way to read a SavedModel: its meta graph as it is written, as TensorFlow Serving does.

It takes exports of TensorFlow 1 and 2. It leaves variables without values where an export's restore function does not
cover them; the readiness check finds those, and ``from_object_graph`` is tried.
"""

from collections.abc import Mapping
from pathlib import Path

from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

from service.saved_model.blueprint import Blueprint, SetupStep
from service.saved_model.broken_files import BrokenFilesError
from service.saved_model.files import MetaGraphFile, asset_feeds, has_checkpoint, variables_prefix
from service.saved_model.graph_index import node_of
from service.saved_model.signature_defs import BoundSignature

_INIT_OP_SIGNATURE = "__saved_model_init_op"
_INIT_OP_COLLECTIONS = ("saved_model_main_op", "legacy_init_op")
_VARIABLE_OPS = {"VarHandleOp", "Variable", "VariableV2"}


def read(exported: MetaGraphFile, signatures: Mapping[str, BoundSignature]) -> Blueprint:
    """Return the meta graph's own graph, its restore op and its init op.

    Raises:
        BrokenFilesError: the checkpoint or an asset is missing.
    """
    path, meta_graph = exported.path, exported.take()
    assets = asset_feeds(path, meta_graph)
    setup = (*_restore(path, meta_graph, assets), *_initialize(meta_graph, assets))
    return Blueprint(
        "meta graph",
        meta_graph.graph_def,
        signatures,
        setup,
        meta_graph.meta_info_def.stripped_op_list,
        frozenset(assets.values()),
    )


def _restore(path: Path, meta_graph: MetaGraphDef, assets: Mapping[str, str]) -> tuple[SetupStep, ...]:
    saver = meta_graph.saver_def
    if not saver.restore_op_name:
        return ()
    if not has_checkpoint(path):
        if any(node.op in _VARIABLE_OPS for node in meta_graph.graph_def.node):
            raise BrokenFilesError("the graph has variables, but variables/variables.index is missing")
        return ()
    feeds = {saver.filename_tensor_name: str(variables_prefix(path)), **assets}
    return (SetupStep("restoring the variables", (node_of(saver.restore_op_name),), feeds, restores=True),)


def _initialize(meta_graph: MetaGraphDef, assets: Mapping[str, str]) -> tuple[SetupStep, ...]:
    name = _init_node(meta_graph)
    if name is None or any(node.name == name and _does_nothing(node) for node in meta_graph.graph_def.node):
        return ()
    return (SetupStep("running the init op", (name,), assets),)


def _does_nothing(node: NodeDef) -> bool:
    """Whether a node only stands for an init op, as it does in a model without tables; even that would take a run."""
    return node.op == "NoOp" and not node.input


def _init_node(meta_graph: MetaGraphDef) -> str | None:
    """Return the op that the export names for initialization; the newest of the three places wins, as in TensorFlow."""
    if _INIT_OP_SIGNATURE in meta_graph.signature_def:
        return node_of(meta_graph.signature_def[_INIT_OP_SIGNATURE].outputs[_INIT_OP_SIGNATURE].name)
    for collection in _INIT_OP_COLLECTIONS:
        values = (
            meta_graph.collection_def[collection].node_list.value if collection in meta_graph.collection_def else []
        )
        if values:
            return node_of(values[0])
    return None
