"""Compares a model that may compute with 16 bits with the same model at full precision, on the data of its warm-up."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from service.completed_config import CompletedConfig
from service.datatypes import BYTES
from service.errors import SignetError
from service.row_probe import random_rows, relative_difference
from service.servable import Servable
from service.signature import Effect, Signature
from service.warm_up_samples import Sample

logger = logging.getLogger(__name__)

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class ReferenceRun:
    """A run of a signature at full precision, in the shapes of the model."""

    signature: Signature
    inputs: Arrays
    outputs: Arrays


def reference_runs(
    servable: Servable, config: CompletedConfig, samples: Mapping[str, Sequence[Sample]], *, model: str
) -> list[ReferenceRun]:
    """Run each pure signature once, with its first sample, else with random rows.

    Args:
        servable: the model at full precision.
        config: of the model.
        samples: of its warm-up, by signature.
        model: its name, for the log.
    """
    runs = []
    for name, signature in servable.signatures.items():
        if signature.effect is Effect.PURE:
            inputs = _inputs(signature, config, samples.get(name, ()))
            outputs = None if inputs is None else _run(servable, signature, inputs, model)
            if inputs is not None and outputs is not None:
                runs.append(ReferenceRun(signature, inputs, outputs))
    return runs


def log_differences(servable: Servable, runs: Sequence[ReferenceRun], *, model: str) -> None:
    """Say for each signature how far the answers with mixed precision are from those of the reference.

    Args:
        servable: the model with mixed precision.
        runs: of the same model at full precision.
        model: its name.
    """
    for run in runs:
        outputs = _run(servable, run.signature, run.inputs, model)
        if outputs is None:
            continue
        differences = {name: relative_difference(array, outputs[name]) for name, array in run.outputs.items()}
        worst = max(differences, key=differences.__getitem__)
        logger.info(
            "model '%s': with mixed precision signature '%s' differs by up to %.3g of its largest value (output '%s')",
            model,
            run.signature.name,
            differences[worst],
            worst,
        )


def _inputs(signature: Signature, config: CompletedConfig, samples: Sequence[Sample]) -> Arrays | None:
    """Return data for a run; None where only a sample would do and there is none."""
    if samples:
        return config.reshapings[signature.name].to_model(samples[0].inputs)
    return None if any(spec.datatype is BYTES for spec in signature.inputs) else random_rows(signature)


def _run(servable: Servable, signature: Signature, inputs: Arrays, model: str) -> Arrays | None:
    try:
        return servable.run(signature.name, inputs, [spec.name for spec in signature.outputs])
    except SignetError as error:
        logger.info("model '%s': the precision of signature '%s' was not compared: %s", model, signature.name, error)
        return None
