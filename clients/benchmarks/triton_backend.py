"""The model file that Triton's Python backend runs: every signature of a SavedModel, as people do it without Signet.

It is copied into Triton's model repository and runs in Triton's own Python. A request names its signature with the
parameter ``signature``; requests of one signature that Triton's dynamic batcher hands over together run as one batch.
"""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, os.environ["SIGNET_BENCHMARK_PACKAGES"])  # Triton clears PYTHONPATH before it starts this

import numpy as np
import tensorflow as tf
import triton_python_backend_utils as triton  # type: ignore[import-not-found]  # exists in Triton alone


class TritonPythonModel:
    """The class that Triton looks for."""

    def initialize(self, arguments: dict[str, str]) -> None:
        """Load the SavedModel that the model's configuration names."""
        parameters = json.loads(arguments["model_config"])["parameters"]
        self._model = tf.saved_model.load(parameters["saved_model"]["string_value"])

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer the requests, in their order."""
        positions_by_signature = defaultdict(list)
        for position, request in enumerate(requests):
            signature = json.loads(request.parameters())["signature"]
            positions_by_signature[signature].append(position)
        responses: list[Any] = [None] * len(requests)
        for signature, positions in positions_by_signature.items():
            answers = self._run(signature, [requests[position] for position in positions])
            for position, answer in zip(positions, answers, strict=True):
                responses[position] = answer
        return responses

    def _run(self, signature: str, requests: Sequence[Any]) -> list[Any]:
        function = self._model.signatures[signature]
        names = list(function.structured_input_signature[1])
        inputs = [
            {name: triton.get_input_tensor_by_name(request, name).as_numpy() for name in names} for request in requests
        ]
        joined = {name: tf.constant(np.concatenate([arrays[name] for arrays in inputs])) for name in names}
        outputs = {name: tensor.numpy() for name, tensor in function(**joined).items()}
        ends = np.cumsum([len(arrays[names[0]]) for arrays in inputs])
        parts = {name: np.split(array, ends[:-1]) for name, array in outputs.items()}
        return [
            triton.InferenceResponse([triton.Tensor(name, part[index]) for name, part in parts.items()])
            for index in range(len(requests))
        ]
