import pytest

from clients.benchmarks.models import MODELS


@pytest.mark.parametrize(
    "name",
    [
        "toy",
        "mixed",
        "pictures",
        "strings",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("efficientnet", "resnet")),
    ],
)
def test_exports_have_the_tensors_that_the_models_list_says(name, tmp_path):
    import tensorflow as tf

    from clients.benchmarks.export import EXPORTS

    EXPORTS[name](tmp_path / name)

    loaded = tf.saved_model.load(str(tmp_path / name))
    datatypes = {"FP32": tf.float32, "UINT8": tf.uint8, "BYTES": tf.string}
    for signature, expected in MODELS[name].signatures.items():
        function = loaded.signatures[signature]
        (taken,) = function.structured_input_signature[1].values()
        ((output, given),) = function.structured_outputs.items()
        assert (taken.name, taken.dtype) == (expected.input.name, datatypes[expected.input.datatype])
        assert tuple(taken.shape[1:]) == expected.input.dims
        assert (output, given.dtype) == (expected.output.name, datatypes[expected.output.datatype])
        assert tuple(given.shape[1:]) == expected.output.dims
