"""Ops that TensorFlow does not know are named, with the package that has them."""

import sys

import pytest
from tensorflow.core.framework.graph_pb2 import GraphDef

from service.saved_model.graph_index import GraphIndex
from service.saved_model.op_registry import op_def, package_of, why_unregistered


def index_with(op):
    graph = GraphDef()
    graph.node.add(name="node", op=op)
    return GraphIndex(graph)


def test_a_registered_op_is_no_obstacle():
    assert why_unregistered(index_with("MatMul"), ["node"]) is None
    assert op_def("MatMul").name == "MatMul"


def test_a_function_is_no_missing_op():
    graph = GraphDef()
    graph.node.add(name="node", op="a_function")
    graph.library.function.add().signature.name = "a_function"

    assert why_unregistered(GraphIndex(graph), ["node"]) is None


def test_an_op_deep_in_a_function_is_found():
    graph = GraphDef()
    graph.node.add(name="node", op="a_function")
    function = graph.library.function.add()
    function.signature.name = "a_function"
    function.node_def.add(name="inner", op="HomemadeOp")

    assert "HomemadeOp" in why_unregistered(GraphIndex(graph), ["node"])


@pytest.mark.parametrize(
    ("op", "package"),
    [
        ("SentencepieceOp", "tensorflow-text"),
        ("RegexSplitWithOffsets", "tensorflow-text"),
        ("Addons>Resampler", "tensorflow-addons"),
        ("IO>DecodeAvro", "tensorflow-io"),
        ("SimpleMLInferenceOp", "tensorflow-decision-forests"),
        ("HomemadeOp", None),
    ],
)
def test_packages_of_known_ops(op, package):
    assert package_of(op) == package


def test_the_remedy_stands_in_the_reason():
    assert why_unregistered(index_with("Addons>Resampler"), ["node"]) == (
        "the op Addons>Resampler is not registered (it comes with tensorflow-addons)"
    )
    assert "--op-library" in why_unregistered(index_with("HomemadeOp"), ["node"])


def test_tensorflow_text_is_imported_when_it_is_installed_and_needed(tmp_path, monkeypatch):
    (tmp_path / "tensorflow_text.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tensorflow_text", raising=False)

    why_unregistered(index_with("MatMul"), ["node"])
    assert "tensorflow_text" not in sys.modules
    why_unregistered(index_with("TFText>NotYetThere"), ["node"])

    assert sys.modules.pop("tensorflow_text").__file__ == str(tmp_path / "tensorflow_text.py")
