"""A whole service over NumPy functions: repository, data plane and servicer are real, only the models are fakes."""

import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from google.protobuf import text_format

from batching.options import Oversize
from protos import grpc_service_pb2 as pb
from protos.model_config_pb2 import ModelConfig
from service import raw_tensor
from service.admission import Admission
from service.codec import MessageRequest
from service.config_completion import ConfigDefaults, complete
from service.data_plane import DataPlane
from service.datatypes import BYTES
from service.errors import LoadError
from service.layouts import ModelSource
from service.model_version import ModelVersion
from service.repository import Repository
from service.request import InferResponse
from service.servicer import Servicer
from service.shared_memory import Regions
from service.signature import Effect
from tests.fakes import FakeServable, signature, spec

WAIT_S = 30
_DATATYPES = {"f4": "FP32", "i8": "INT64", "i4": "INT32", "O8": "BYTES"}


class Gate:
    """A signature's function that waits inside until it is opened, and tells how many runs were begun."""

    def __init__(self, function=lambda inputs: {"y": inputs["x"] * 2}):
        self.opened = threading.Event()
        self.entered = threading.Semaphore(0)
        self._function = function

    def __call__(self, inputs):
        self.entered.release()
        assert self.opened.wait(WAIT_S)
        return self._function(inputs)

    def wait_until_entered(self):
        assert self.entered.acquire(timeout=WAIT_S)


class Answer:
    """The callback of one request: keeps all that it was called with."""

    def __init__(self):
        self.calls = []
        self._came = threading.Event()

    def __call__(self, result):
        self.calls.append(result)
        self._came.set()

    @property
    def came(self):
        return self._came.is_set()

    def wait(self):
        assert self._came.wait(WAIT_S), "no answer"
        return self.calls[0]


def double(inputs):
    return {"y": inputs["x"] * 2}


def kit(**functions):
    """A servable with a signature for each rule of the service; ``functions`` replace what some of them do."""
    x, y = spec("x"), spec("y")
    shapes = {
        "serving_default": ([x], [y], Effect.PURE, double),
        "embed": (
            [x],
            [spec("z", shape=(-1, 3))],
            Effect.PURE,
            lambda inputs: {"z": np.ones((len(inputs["x"]), 3), np.float32)},
        ),
        "sum": ([x], [spec("s", shape=())], Effect.PURE, lambda inputs: {"s": inputs["x"].sum()}),
        "threshold": ([], [spec("t", shape=())], Effect.PURE, lambda inputs: {"t": np.float32(0.5)}),
        "draw": ([], [spec("t", shape=())], Effect.RANDOM, lambda inputs: {"t": np.float32(0.5)}),
        "store": ([x], [y], Effect.WRITING, double),
        "text": ([spec("s", "BYTES", (-1,))], [spec("s", "BYTES", (-1,))], Effect.PURE, dict),
        "scale": ([spec("k", shape=(), optional=True), x], [y], Effect.PURE, double),
    }
    return FakeServable(
        *(
            (signature(name, inputs, outputs, effect), functions.get(name, function))
            for name, (inputs, outputs, effect, function) in shapes.items()
        ),
        unavailable={"broken": "no such node"},
    )


def model_version(servable, *, name="clip", version=1, config="", oversize=Oversize.CUT, **defaults):
    """Take a servable into service as one version, configured by the text of a config.pbtxt."""
    config = text_format.Parse(config, ModelConfig()) if isinstance(config, str) else config
    completed = complete(
        config,
        model=name,
        signatures=servable.signatures,
        unavailable=servable.unavailable,
        defaults=ConfigDefaults(**{"instance_count": 1, **defaults}),
    )
    return ModelVersion(name, version, servable, completed, oversize=oversize)


def repository(models, *, config_path=None, load=True, **options):
    """Return a repository of servables by model and version; a LoadError in place of one is how its load ends."""

    def load_version(name, version, directory, config):
        servable = models[name][version]
        if isinstance(servable, LoadError):
            raise servable
        return model_version(servable, name=name, version=version, config=config, **options)

    made = Repository(load_version)
    for name, versions in models.items():
        made.add(ModelSource(name, {version: Path(f"/{name}/{version}") for version in versions}, config_path))
    for name in models if load else ():
        made.load(name)
    return made


class Serving:
    """The data plane over a repository, and the answers to all requests that were sent through it."""

    def __init__(self, repository, is_ready, limits=None, slow_request_ms=0):
        self.repository = repository
        self.data_plane = DataPlane(repository, Admission(limits), slow_request_ms)
        self.regions = Regions()
        self.servicer = Servicer(
            repository, self.data_plane, name="mine", version="1.2.3", is_ready=is_ready, regions=self.regions
        )
        self.answers = []

    def submit(self, message, deadline=None):
        """Send a request; return its answer to come and its ticket."""
        answer = Answer()
        self.answers.append(answer)
        return answer, self.data_plane.submit(MessageRequest(message.SerializeToString()), deadline, answer)

    def send(self, message):
        """Send a request and return its answer or failure."""
        return self.submit(message)[0].wait()

    def statistics(self, name):
        """Return the counters of a model, or of an alias."""
        (target,) = self.repository.find_ready(name)
        return target.loaded.statistics(target.signature)


@contextmanager
def serving(servable_or_models, *, is_ready=True, limits=None, slow_request_ms=0, **options):
    """Serve until the block ends; then every request must have been answered exactly once, and none be held.

    Args:
        servable_or_models: one servable is version 1 of the model ``clip``.
        is_ready: what the server as a whole says of itself.
        limits: of the server as a whole.
        slow_request_ms: of the data plane.
        options: of ``repository``.
    """
    single = isinstance(servable_or_models, FakeServable)
    models = {"clip": {1: servable_or_models}} if single else servable_or_models
    made = repository(models, **options)
    served = Serving(made, lambda: is_ready, limits, slow_request_ms)
    try:
        yield served
    finally:
        served.repository.close(WAIT_S)
    assert [len(answer.calls) for answer in served.answers] == [1] * len(served.answers)
    assert not any(served.data_plane.admission.counts().held.values())


class Busy:
    """A served kit whose one worker is held inside the signature ``store`` until the block ends."""

    def __init__(self, **options):
        self.gate = Gate()
        self.servable = kit(store=self.gate)
        self._context = serving(self.servable, **options)

    def __enter__(self):
        self.served = self._context.__enter__()
        self.first, self.first_ticket = self.served.submit(message(signature="store"))
        self.gate.wait_until_entered()
        return self

    def __exit__(self, *error):
        self.gate.opened.set()
        self._context.__exit__(*error)


def rows(*numbers):
    """Return FP32 rows [number, number], one for each number."""
    return np.repeat(np.array(numbers, np.float32)[:, None], 2, axis=1)


def message(inputs=None, *, model="clip", version="", request_id="", outputs=(), **parameters):
    """Return a request of raw tensors; ``parameters`` are strings and integers, ``inputs`` is one row by default."""
    request = pb.ModelInferRequest(model_name=model, model_version=version, id=request_id)
    for name, array in ({"x": rows(1)} if inputs is None else inputs).items():
        datatype = "BYTES" if array.dtype == BYTES.dtype else _DATATYPES[array.dtype.str[1:]]
        request.inputs.add(name=name, datatype=datatype, shape=array.shape)
        request.raw_input_contents.append(raw_tensor.encode(array))
    for name in outputs:
        request.outputs.add(name=name)
    for key, value in parameters.items():
        setattr(request.parameters[key], "string_param" if isinstance(value, str) else "int64_param", value)
    return request


def outputs(response):
    """Return the outputs of an answer as lists, by name."""
    assert isinstance(response, InferResponse), repr(response)
    return {spec.name: array.tolist() for spec, array in response.outputs}


def counters(statistics):
    """Return the counts of a signature or model, without durations."""
    return {
        "success": statistics.success.count,
        "fail": statistics.fail.count,
        "rows": statistics.inference_count,
        "runs": statistics.execution_count,
        "sizes": {size: compute.infer.count for size, compute in statistics.batches.items()},
    }
