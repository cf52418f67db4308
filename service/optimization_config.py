"""What a configuration says of XLA and mixed precision, in our words or in Triton's."""

from typing import Final

from protos.model_config_pb2 import ModelConfig
from service.errors import LoadError
from service.model_config import parameter
from service.optimizations import Optimizations, Xla

XLA: Final = "xla"
"""The parameter of a model, and the field of a signature."""

MIXED_PRECISION: Final = "mixed_precision"
"""The parameter of a model."""

AUTO_MIXED_PRECISION: Final = "auto_mixed_precision"
"""Triton's name for the same, as an accelerator for GPUs."""

_SWITCH: Final = {"on": True, "off": False}


def optimizations(config: ModelConfig, *, model: str) -> Optimizations:
    """Return what a configuration asks for.

    Raises:
        LoadError: a value is none, or it asks for what can be had for the whole model alone.
    """
    xla = _xla(parameter(config, XLA), model, "parameter xla") or _xla_of_level(config)
    by_signature = {}
    for name in sorted(config.signatures):
        place = f"signatures['{name}'] xla"
        own = _xla(config.signatures[name].xla, model, place)
        if own is not None and own is not xla:
            if Xla.AUTO in (own, xla) and own is not Xla.ON:
                raise LoadError(
                    f"model '{model}': {place} is {own.value}, but that of the model is {xla.value}; "
                    "auto holds for all signatures or for none"
                )
            by_signature[name] = own
    return Optimizations(xla, tuple(by_signature.items()), _mixed_precision(config, model))


def _xla(text: str | None, model: str, place: str) -> Xla | None:
    try:
        return Xla(text) if text else None
    except ValueError:
        raise LoadError(f"model '{model}': {place} must be off, auto or on, but is '{text}'") from None


def _xla_of_level(config: ModelConfig) -> Xla:
    """Read Triton's way to say it: a level above 0 lets TensorFlow compile."""
    return Xla.AUTO if config.optimization.graph.level > 0 else Xla.OFF


def _mixed_precision(config: ModelConfig, model: str) -> bool:
    text = parameter(config, MIXED_PRECISION)
    if text is not None and text not in _SWITCH:
        raise LoadError(f"model '{model}': parameter mixed_precision must be off or on, but is '{text}'")
    accelerators = config.optimization.execution_accelerators.gpu_execution_accelerator
    default = any(each.name == AUTO_MIXED_PRECISION for each in accelerators)
    return default if text is None else _SWITCH[text]
