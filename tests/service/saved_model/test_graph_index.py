"""What is reached from where in a graph."""

import pytest
from tensorflow.core.framework.graph_pb2 import GraphDef

from service.saved_model.graph_index import GraphIndex, dependencies_first, node_of


def graph(nodes, functions=()):
    """Return a graph from ``name: inputs`` and functions from ``name: {node: op}``."""
    result = GraphDef()
    for name, inputs in nodes.items():
        result.node.add(name=name, op="NoOp", input=inputs)
    for name, body in dict(functions).items():
        function = result.library.function.add()
        function.signature.name = name
        for node, op in body.items():
            function.node_def.add(name=node, op=op)
    return result


@pytest.mark.parametrize("tensor", ["a", "a:1", "^a", "a:output:0"])
def test_every_spelling_of_a_tensor_names_its_node(tensor):
    assert node_of(tensor) == "a"


def test_reach_follows_data_and_control_edges():
    index = GraphIndex(graph({"a": [], "b": ["a:0"], "c": ["^b"], "d": []}))

    assert index.reach(["c"]) == {"a", "b", "c"}


def test_reach_ends_in_a_loop():
    index = GraphIndex(graph({"a": ["b"], "b": ["a"]}))

    assert index.reach(["a"]) == {"a", "b"}


@pytest.mark.parametrize(("op_with_one", "op_with_several"), [("PartitionedCall", "Case"), ("NotRegistered",) * 2])
def test_functions_are_found_as_op_as_attribute_and_in_lists(op_with_one, op_with_several):
    definition = graph({"direct": [], "attribute": [], "several": []}, {name: {} for name in "fghi"})
    for node, op in zip(definition.node, ("f", op_with_one, op_with_several), strict=True):
        node.op = op
    definition.node[1].attr["f"].func.name = "g"
    definition.node[2].attr["branches"].list.func.add(name="h")

    assert GraphIndex(definition).reach_functions(["direct", "attribute", "several"]) == {"f", "g", "h"}


def test_functions_are_reached_through_functions():
    index = GraphIndex(graph({"a": []}, {"f": {"n": "g"}, "g": {"n": "h"}, "h": {"leaf": "Abs"}, "other": {}}))
    index.nodes["a"].op = "f"

    assert index.reach_functions(["a"]) == {"f", "g", "h"}
    assert index.callees_first(["f"]) == ["h", "g", "f"]
    assert {node.op for node in index.reached_nodes(["a"])} == {"f", "g", "h", "Abs"}


def test_functions_nested_deeper_than_python_recurses_are_walked():
    depth = 5000
    index = GraphIndex(
        graph({}, {f"f{number}": {"n": f"f{number + 1}"} for number in range(depth)} | {f"f{depth}": {}})
    )

    assert len(index.callees_first(["f0"])) == depth + 1


def test_dependencies_come_first():
    nodes = GraphIndex(graph({"c": ["b"], "b": ["a", "missing"], "a": []})).nodes

    assert [node.name for node in dependencies_first(nodes)] == ["a", "b", "c"]


def test_what_lies_behind_a_fed_tensor_is_not_reached_for_it():
    index = GraphIndex(graph({"a": [], "b": ["a"], "by_data": ["b:0"], "by_other": ["b:1"], "by_control": ["^b"]}))
    fed = index.fed(["b:0"])

    assert {"a", "b"}.isdisjoint(fed.reach(["by_data"]))
    assert {"a", "b"} < fed.reach(["by_other"])
    assert {"a", "b"} < fed.reach(["by_control"])
    assert {"a", "b"} < index.reach(["by_data"])


def test_placeholders_have_nothing_behind_them():
    index = GraphIndex(graph({"a": [], "b": ["a"]}))
    index.nodes["a"].op = "Placeholder"

    assert index.fed(["a:0"]) is index
