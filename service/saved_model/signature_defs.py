"""From the SignatureDefs of a meta graph to the signatures that can be served, and why the others cannot."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef, SignatureDef, TensorInfo

from service.datatypes import Datatype, from_dtype
from service.saved_model.effects import effect_of
from service.saved_model.graph_index import GraphIndex, node_of, tensor_name
from service.saved_model.op_registry import why_unregistered
from service.signature import Signature, TensorSpec

_HIDDEN_PREFIX = "__"
_HIDDEN = "train_op"
_FIRST_REFERENCE_TYPE = 100
"""TensorFlow numbers the reference type of each type by adding this to it."""


@dataclass(frozen=True)
class BoundSignature:
    """A signature and the tensors of a graph that stand behind its names.

    Attributes:
        signature: what callers see.
        inputs: for each input name a tensor such as ``serving_default_x:0``.
        outputs: the same for the outputs.
        defaults: the values of optional inputs.
    """

    signature: Signature
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    defaults: Mapping[str, np.ndarray]

    @property
    def roots(self) -> tuple[str, ...]:
        """The nodes that a run asks for or feeds."""
        return tuple(dict.fromkeys(node_of(tensor) for tensor in (*self.outputs.values(), *self.inputs.values())))

    @property
    def output_roots(self) -> tuple[str, ...]:
        """The nodes that a run asks for; an output that is fed is answered without one."""
        return _computed(self.inputs, self.outputs)


def bind_signatures(meta_graph: MetaGraphDef) -> tuple[dict[str, BoundSignature], dict[str, str]]:
    """Return the signatures that the meta graph can serve, and for each of the others the reason why it cannot.

    Hidden signatures (``__...`` and ``train_op``) are in neither.
    """
    index = GraphIndex(meta_graph.graph_def)
    bound: dict[str, BoundSignature] = {}
    refused: dict[str, str] = {}
    for name in sorted(meta_graph.signature_def):
        if name.startswith(_HIDDEN_PREFIX) or name == _HIDDEN:
            continue
        signature_def = meta_graph.signature_def[name]
        reason = _why_not_served(signature_def, index)
        if reason is None:
            bound[name] = _bind(name, signature_def, index)
        else:
            refused[name] = reason
    return bound, refused


def _why_not_served(signature_def: SignatureDef, index: GraphIndex) -> str | None:
    if not signature_def.outputs:
        return "it has no outputs"
    for kind, tensors in (("input", signature_def.inputs), ("output", signature_def.outputs)):
        for name in sorted(tensors):
            reason = _why_no_tensor(tensors[name], index)
            if reason is not None:
                return f"{kind} {name} {reason}"
    roots = [node_of(info.name) for info in signature_def.outputs.values()]
    return why_unregistered(index, roots)


def _why_no_tensor(info: TensorInfo, index: GraphIndex) -> str | None:
    encoding = info.WhichOneof("encoding")
    if encoding == "coo_sparse":
        return "is a sparse tensor, which the protocol cannot carry"
    if encoding == "composite_tensor":
        return "is a composite (ragged or other) tensor, which the protocol cannot carry"
    if node_of(info.name) not in index.nodes:
        return f"names the tensor {info.name!r}, which the graph does not have"
    if _datatype(info) is None:
        return f"has the type {_type_name(info)}, which the protocol cannot carry"
    return None


def _bind(name: str, signature_def: SignatureDef, index: GraphIndex) -> BoundSignature:
    defaults = {
        key: tf.make_ndarray(value) for key, value in signature_def.defaults.items() if key in signature_def.inputs
    }
    inputs = {key: tensor_name(signature_def.inputs[key].name) for key in sorted(signature_def.inputs)}
    outputs = {key: tensor_name(signature_def.outputs[key].name) for key in sorted(signature_def.outputs)}
    signature = Signature(
        name=name,
        inputs=tuple(replace(_spec(key, signature_def.inputs[key]), optional=key in defaults) for key in inputs),
        outputs=tuple(_spec(key, signature_def.outputs[key]) for key in outputs),
        effect=effect_of(index.fed(inputs.values()), _computed(inputs, outputs)),
    )
    return BoundSignature(signature, inputs, outputs, defaults)


def _computed(inputs: Mapping[str, str], outputs: Mapping[str, str]) -> tuple[str, ...]:
    fed = set(inputs.values())
    return tuple(dict.fromkeys(node_of(tensor) for tensor in outputs.values() if tensor not in fed))


def _spec(name: str, info: TensorInfo) -> TensorSpec:
    datatype = _datatype(info)
    assert datatype is not None  # noqa: S101, `_why_not_served` refused every other
    shape = None if info.tensor_shape.unknown_rank else tuple(dim.size for dim in info.tensor_shape.dim)
    return TensorSpec(name, datatype, shape)


def _datatype(info: TensorInfo) -> Datatype | None:
    """Return the protocol's datatype, None where it has none (complex, quantized, resources, an invalid type)."""
    try:
        return from_dtype(np.dtype(tf.dtypes.as_dtype(info.dtype % _FIRST_REFERENCE_TYPE).as_numpy_dtype))
    except (KeyError, TypeError):
        return None


def _type_name(info: TensorInfo) -> str:
    try:
        return str(tf.dtypes.as_dtype(info.dtype).name)
    except TypeError:
        return f"number {info.dtype}"
