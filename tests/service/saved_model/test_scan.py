"""What a model would do beyond computing is known before any of it runs; what every SavedModel does is not told."""

import shutil
from dataclasses import replace

import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from service import saved_model
from service.errors import LoadError
from service.model_scan import ModelScan
from service.saved_model import from_meta_graph, from_object_graph
from service.saved_model.blueprint import Blueprint, SetupStep
from service.saved_model.files import MetaGraphFile
from service.saved_model.scan import scan
from service.saved_model.signature_defs import BoundSignature, bind_signatures
from service.signature import Effect, Signature
from tests.models import KINDS

TAGS = frozenset({"serve"})
v1 = tf.compat.v1


def read(way, path):
    exported = MetaGraphFile(path, TAGS)
    bound, _ = bind_signatures(exported.look())
    return way.read(exported, bound)


def blueprint(build, *, step=None):
    """Return a graph whose one signature, or one step of whose setup, runs what a function builds."""
    with tf.Graph().as_default() as graph:
        (built,) = tf.nest.flatten(build())
        node = built.op if tf.is_tensor(built) else built
        if step is not None:
            steps = (replace(step, nodes=(node.name,)),)
            return Blueprint("test", graph.as_graph_def(), {}, steps)
        signature = Signature(name="s", inputs=(), outputs=(), effect=Effect.PURE)
        bound = BoundSignature(signature, {}, {"y": f"{node.name}:0"}, {})
        return Blueprint("test", graph.as_graph_def(), {"s": bound}, ())


def raw(op, **arguments):
    return lambda: getattr(tf.raw_ops, op)(**arguments)


RESTORE = raw("RestoreV2", prefix="x", tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.float32])


def in_function(build):
    return tf.function(build)


def dataset(make):
    return in_function(lambda: make().reduce(0, lambda count, _: count + 1))


# What every SavedModel does. --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("effects", "faults", "notes")])
def test_ordinary_models_are_not_told_of(kind, exports):
    assert scan(read(from_meta_graph, exports(kind))) == []


@pytest.mark.parametrize("kind", ["several", "keras_in_module"])
def test_ordinary_models_are_not_told_of_when_their_objects_are_read(kind, exports):
    assert scan(read(from_object_graph, exports(kind))) == []


@pytest.mark.parametrize(
    "build",
    [
        raw("DebugIdentityV3", input=1.0, tensor_name="x"),
        dataset(lambda: tf.data.Dataset.range(3).cache()),
        raw("StringJoin", inputs=["/etc", "/passwd"]),
    ],
)
def test_relatives_of_such_operations_that_stay_within_the_model_are_not_told_of(build):
    assert scan(blueprint(build)) == []


@pytest.mark.parametrize("kind", ["several", "tf1_tables"])
def test_tables_of_a_file_that_is_no_asset_are_told_of(kind, exports):
    read_in = read(from_meta_graph, exports(kind))
    assert read_in.assets
    without_assets = replace(
        read_in, assets=frozenset(), setup=tuple(replace(step, feeds={}) for step in read_in.setup)
    )

    (finding,) = scan(without_assets)

    assert finding.place == "running the init op"
    assert finding.does == "reads files"
    assert finding.op == "InitializeTableFromTextFileV2"


# What others do. --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "does", "build"),
    [
        ("ReadFile", "reads files", raw("ReadFile", filename="/etc/passwd")),
        ("ReadFile", "reads files", in_function(raw("ReadFile", filename="/etc/passwd"))),
        ("MatchingFiles", "reads files", raw("MatchingFiles", pattern="/etc/*")),
        ("WriteFile", "writes files", raw("WriteFile", filename="/var/x", contents="x")),
        ("TextLineDataset", "reads files", dataset(lambda: tf.data.TextLineDataset("/etc/passwd"))),
        ("CacheDatasetV2", "reads files", dataset(lambda: tf.data.Dataset.range(3).cache("/var/x"))),
        ("PrintV2", "prints tensors to the server's output", raw("PrintV2", input="x", output_stream="stderr")),
        ("Print", "prints tensors to the server's output", raw("Print", input=1.0, data=[1.0])),
        ("Abort", "ends the server", raw("Abort")),
        ("TFRecordReaderV2", "reads files", raw("TFRecordReaderV2")),
        ("TFRecordDataset", "reads files", dataset(lambda: tf.data.TFRecordDataset("/etc/passwd"))),
        (
            "CollectiveReduceV2",
            "talks to other processes or hosts",
            raw(
                "CollectiveReduceV2", input=1.0, group_size=2, group_key=1, instance_key=1, ordering_token=[],
                merge_op="Add", final_op="Id",
            ),
        ),
        ("PrintV2", "writes files", raw("PrintV2", input="x", output_stream="file:///var/x")),
        ("DebugIdentity", "writes files", raw("DebugIdentity", input=1.0, debug_urls=["file:///var/x"])),
        ("SaveV2", "writes files", raw("SaveV2", prefix="x", tensor_names=["x"], shape_and_slices=[""], tensors=[1.0])),
        ("RestoreV2", "reads files", RESTORE),
        ("EagerPyFunc", "runs Python", lambda: tf.py_function(lambda: 1.0, [], tf.float32)),
        ("PyFunc", "runs Python", lambda: v1.py_func(lambda: 1.0, [], tf.float32)),
        ("ImmutableConst", "reads files", raw("ImmutableConst", dtype=tf.int32, shape=[1], memory_region_name="x")),
        (
            "FileSystemSetConfiguration",
            "talks to other processes or hosts",
            raw("FileSystemSetConfiguration", scheme="s3", key="x", value="x"),
        ),
    ],
)  # fmt: skip
def test_operations_that_reach_beyond_the_model_are_told_with_their_signature(op, does, build):
    (finding,) = scan(blueprint(build))

    assert (finding.place, finding.does, finding.op) == ("signature 's'", does, op)
    assert op in finding.node


def test_restoring_is_for_the_step_that_restores():
    assert scan(blueprint(RESTORE, step=SetupStep("restoring the variables", (), {}, restores=True))) == []
    assert len(scan(blueprint(RESTORE, step=SetupStep("running the init op", (), {})))) == 1


def test_file_in_a_nested_function_is_told_with_the_function():
    inner = tf.function(tf.io.read_file)
    outer = tf.function(lambda x: tf.cond(x > 0, lambda: inner("/etc/passwd"), lambda: tf.constant("")))

    (finding,) = scan(blueprint(lambda: outer(tf.constant(1))))

    function, _, node = finding.node.rpartition("/")
    assert function.startswith("__inference")
    assert node == "ReadFile"


def in_v1_loop():
    """A loop of TensorFlow 1, whose body is made of nodes of the graph itself."""
    v1.disable_control_flow_v2()
    try:
        return v1.while_loop(lambda i: i < 1, lambda i: i + tf.strings.length(tf.io.read_file("/etc/passwd")), [0])
    finally:
        v1.enable_control_flow_v2()


def in_v1_condition():
    v1.disable_control_flow_v2()
    try:
        return v1.cond(tf.constant(1) > 0, lambda: tf.io.read_file("/etc/passwd"), lambda: tf.constant(""))
    finally:
        v1.enable_control_flow_v2()


def behind_a_control_dependency():
    with tf.control_dependencies([tf.io.write_file("/var/x", "x")]):
        return tf.constant(1.0)


@pytest.mark.parametrize(
    "build",
    [
        in_v1_loop,
        in_v1_condition,
        in_function(lambda: tf.while_loop(lambda i: i < 1, lambda i: i + tf.strings.length(tf.io.read_file("x")), [0])),
        in_function(lambda: tf.switch_case(tf.constant(0), [lambda: tf.io.read_file("x"), lambda: tf.constant("")])),
        in_function(lambda: tf.map_fn(tf.io.read_file, tf.constant(["x"]))),
        dataset(lambda: tf.data.Dataset.from_tensors("x").map(tf.io.read_file)),
        behind_a_control_dependency,
        in_function(behind_a_control_dependency),
    ],
)
def test_file_is_told_of_wherever_the_graph_hides_it(build):
    (finding,) = scan(blueprint(build))

    assert finding.op in {"ReadFile", "WriteFile"}


def test_file_in_another_implementation_of_a_called_function_is_told_of():
    """TensorFlow may put one in the place of the other, by device; no node names it."""
    argument = [tf.TensorSpec([], tf.float32)]

    def implementing(device, body):
        attributes = {"api_implements": "twice", "api_preferred_device": device}
        return tf.function(body, input_signature=argument, experimental_attributes=attributes)

    def build():
        reads = implementing("GPU", lambda x: x + tf.strings.to_number(tf.io.read_file("/etc/passwd")))
        reads.get_concrete_function().add_to_graph()
        return implementing("CPU", lambda x: x + x)(tf.constant(1.0))

    (finding,) = scan(blueprint(build))

    assert finding.op == "ReadFile"


def test_file_in_the_gradient_of_a_function_is_told_of_where_the_gradient_is_computed():
    read_in = blueprint(lambda: tf.function(lambda x: x + x)(tf.constant(1.0)))
    (caller,) = [node for node in read_in.graph.node if node.op == "PartitionedCall"]
    with tf.Graph().as_default() as graph:
        tf.function(lambda: tf.io.read_file("/etc/passwd"))()
    (gradient,) = graph.as_graph_def().library.function
    read_in.graph.library.function.append(gradient)
    read_in.graph.library.gradient.add(function_name=caller.attr["f"].func.name, gradient_func=gradient.signature.name)
    assert scan(read_in) == []

    caller.op = "SymbolicGradient"

    (finding,) = scan(read_in)
    assert finding.op == "ReadFile"


# What becomes of it. ----------------------------------------------------------------------------------------------


@pytest.fixture
def writes_at_init(tmp_path):
    """A SavedModel whose init op writes a file, and that file."""
    mark, path = tmp_path / "mark", tmp_path / "model"
    with v1.Graph().as_default(), v1.Session() as session:
        y = tf.constant([1.0], name="y")
        init = tf.raw_ops.WriteFile(filename=str(mark), contents="x", name="leave_mark")
        info = v1.saved_model.build_tensor_info(y)
        builder = v1.saved_model.Builder(str(path))
        signature = v1.saved_model.build_signature_def({}, {"y": info}, "tensorflow/serving/predict")
        builder.add_meta_graph_and_variables(session, ["serve"], {"s": signature}, main_op=init)
        builder.save()
    return path, mark


def test_refused_model_has_run_nothing(writes_at_init):
    path, mark = writes_at_init

    with pytest.raises(LoadError) as caught:
        saved_model.load(path, model="clip", version=7, scan=ModelScan.REFUSE)

    assert str(caught.value) == (
        f"{path}: model 'clip' version 7 is refused by --scan-models refuse: running the init op writes files: "
        "WriteFile (node 'leave_mark')"
    )
    assert not mark.exists()


@pytest.mark.parametrize(("scan_models", "warnings"), [(ModelScan.WARN, 1), (ModelScan.OFF, 0)])
def test_other_models_are_loaded_with_one_warning_or_none(scan_models, warnings, writes_at_init, caplog):
    path, mark = writes_at_init

    saved_model.load(path, model="clip", version=7, scan=scan_models).close()

    assert mark.exists()
    assert caplog.text.count("model 'clip' version 7 reaches beyond its graph: running the init op") == warnings


def test_findings_name_every_signature_that_has_them(exports):
    with pytest.raises(LoadError) as caught:
        saved_model.load(exports("effects"), model="clip", version=7, scan=ModelScan.REFUSE)

    for part in (
        "signature 'python' runs Python: EagerPyFunc",
        "signature 'write_file' writes files: WriteFile",
        "signature 'branch' writes files: PrintV2",
    ):
        assert part in str(caught.value)
    assert "'find'" not in str(caught.value)


@pytest.mark.parametrize("name", ["../saved_model.pb", "/etc/passwd", "a/../../saved_model.pb"])
def test_asset_outside_of_the_model_is_an_error(name, exports, tmp_path):
    path = shutil.copytree(exports("several"), tmp_path / "several")
    file = path / "saved_model.pb"
    content = SavedModel.FromString(file.read_bytes())
    content.meta_graphs[0].asset_file_def[0].filename = name
    file.write_bytes(content.SerializeToString())

    with pytest.raises(LoadError, match="would lie outside of the model"):
        saved_model.load(path, model="clip", version=7, scan=ModelScan.OFF)
