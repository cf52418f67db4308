"""SavedModels that were written well and then changed in their graph, to be broken or odd in one place."""

from pathlib import Path

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from tests.exports.kit import FLOATS, concrete


def export_broken_signature(path: Path) -> Path:
    """One signature names a tensor that the graph does not have, beside a good one."""
    _save_two(path)
    with _Edit(path) as saved_model:
        saved_model.meta_graphs[0].signature_def["broken"].outputs["y"].name = "no_such_node:0"
    return path


def export_refused_node(path: Path) -> Path:
    """TensorFlow refuses a node of one signature, which lacks an attribute; there are no objects to load instead."""
    _save_two(path)
    with _Edit(path) as saved_model:
        saved_model.meta_graphs[0].graph_def.node.add(name="refused", op="Placeholder")
        saved_model.meta_graphs[0].signature_def["broken"].outputs["y"].name = "refused:0"
        saved_model.meta_graphs[0].ClearField("object_graph_def")
    return path


def export_newer_release(path: Path) -> Path:
    """A newer release of TensorFlow gave an op one more attribute, which has its default value here."""
    _save_two(path)
    with _Edit(path) as saved_model:
        meta_graph = saved_model.meta_graphs[0]
        placeholder = next(node for node in meta_graph.graph_def.node if node.op == "Placeholder")
        placeholder.attr["novelty"].b = False
        op = next(op for op in meta_graph.meta_info_def.stripped_op_list.op if op.name == "Placeholder")
        op.attr.add(name="novelty", type="bool").default_value.b = False
    return path


def export_unknown_op(path: Path) -> Path:
    """One signature needs an op that no library registers, another an op of tensorflow-addons."""
    _save_two(path, "addon")
    with _Edit(path) as saved_model:
        graph = saved_model.meta_graphs[0].graph_def
        for signature, op in (("broken", "HomemadeOp"), ("addon", "Addons>Resampler")):
            node = graph.node.add(name=f"unknown_{signature}", op=op)
            node.attr["T"].type = tf.float32.as_datatype_enum
            saved_model.meta_graphs[0].signature_def[signature].outputs["y"].name = f"{node.name}:0"
    return path


def export_sparse(path: Path) -> Path:
    """One signature takes a sparse tensor, one gives a ragged one, one has a type that the protocol lacks."""
    _save_two(path, "ragged", "complex")
    with _Edit(path) as saved_model:
        signatures = saved_model.meta_graphs[0].signature_def
        sparse = signatures["broken"].inputs["x"].coo_sparse
        sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name = "a:0", "b:0", "c:0"
        signatures["ragged"].outputs["y"].composite_tensor.type_spec.type_spec_class = 3
        signatures["complex"].outputs["y"].dtype = tf.complex64.as_datatype_enum
    return path


def export_text_form(path: Path) -> Path:
    """``saved_model.pbtxt`` in place of ``saved_model.pb``."""
    _save_two(path)
    file = path / "saved_model.pb"
    (path / "saved_model.pbtxt").write_text(text_format.MessageToString(SavedModel.FromString(file.read_bytes())))
    file.unlink()
    return path


def _save_two(path: Path, *more: str) -> None:
    module = tf.Module()
    module.weights = tf.Variable([1.0, 2.0, 3.0, 4.0])
    names = ("serving_default", "broken", *more)
    signatures = {name: concrete(lambda x: {"y": x * module.weights}, FLOATS) for name in names}
    tf.saved_model.save(module, str(path), signatures=signatures)


class _Edit:
    """Gives the SavedModel of a directory to be changed and writes it back."""

    def __init__(self, path: Path):
        self._file = path / "saved_model.pb"
        self._saved_model = SavedModel.FromString(self._file.read_bytes())

    def __enter__(self):
        return self._saved_model

    def __exit__(self, kind, error, traceback):
        if error is None:
            self._file.write_bytes(self._saved_model.SerializeToString())
            (self._file.parent / "fingerprint.pb").unlink(missing_ok=True)
