"""Completes a configuration from the signatures of the SavedModel.

What is written nearest wins: in ``signatures``, then in the model, then the server's options. ``dynamic_batching``
counts as one value, so that an empty one can say "no delay" where a wider one says otherwise. Inputs and outputs of the
model are those of its default signature.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from protos.model_config_pb2 import (
    ModelConfig,
    ModelDynamicBatching,
    ModelInput,
    ModelOutput,
    ModelWarmup,
    SignatureConfig,
)
from service.completed_config import CompletedConfig, CompletedSignature
from service.config_tensors import Entry, Pair, PairedSignature, complete_entry, pair_signature
from service.datatypes import BYTES
from service.devices import CPU, Device
from service.errors import LoadError
from service.instance_groups import complete_instance_groups, instances
from service.model_config import BACKEND, MODEL_FILENAME, PLATFORM, parameter
from service.optimization_config import optimizations
from service.optimizations import Optimizations, Xla
from service.signature import OPEN, Signature, TensorSpec

SERVING_DEFAULT: Final = "serving_default"
"""The signature that exports mean for callers who name none."""


@dataclass(frozen=True, kw_only=True)
class ConfigDefaults:
    """What the server's options say where a configuration says nothing.

    Attributes:
        default_max_batch_size: rows, for signatures that can be batched.
        max_queue_delay_us: for signatures without ``dynamic_batching`` and without a latency objective.
        default_signature: the signature that requests run which name none.
        auto_complete: whether a missing max_batch_size and a missing scheduler are filled in. Inputs and outputs always
            are: they are known.
        devices: those that models may run on.
        instance_count: workers on each device of a model without ``instance_group``; the default is Triton's for
            TensorFlow on a CPU, and on a GPU lets one run compute while another copies.
        allowed_batch_sizes: of runs of up to ``default_max_batch_size`` rows, which is the last one; none for any size.
        max_enqueued_batches: how many full batches of a signature may wait; 0 for no limit.
        pads_variable_lengths: whether requests of different lengths share runs, the shorter ones filled up with zeros.
    """

    default_max_batch_size: int = 64
    max_queue_delay_us: int = 0
    default_signature: str | None = None
    auto_complete: bool = True
    devices: tuple[Device, ...] = (CPU,)
    instance_count: int = 2
    allowed_batch_sizes: tuple[int, ...] = ()
    max_enqueued_batches: int = 0
    pads_variable_lengths: bool = False


@dataclass(frozen=True)
class _Wishes:
    """What is configured for one signature, wherever it is written.

    Attributes:
        inputs: none means all that the signature has.
        outputs: likewise.
        max_batch_size: in rows, 0 for no batching; None when nothing is said.
        binding: whether max_batch_size means this very signature, so that it fails where it cannot be had.
        dynamic_batching: None when nothing is said.
        model_warmup: its samples.
        xla: what XLA compiles of it.
        own: what its entry in ``signatures`` says; empty when it has none.
    """

    inputs: Sequence[ModelInput]
    outputs: Sequence[ModelOutput]
    max_batch_size: int | None
    binding: bool
    dynamic_batching: ModelDynamicBatching | None
    model_warmup: Sequence[ModelWarmup]
    xla: Xla
    own: SignatureConfig


def complete(
    config: ModelConfig,
    *,
    model: str,
    signatures: Mapping[str, Signature],
    defaults: ConfigDefaults,
    unavailable: Collection[str] = (),
) -> CompletedConfig:
    """Complete a configuration.

    Args:
        config: as read; empty when there is none. Not changed.
        model: the model's name.
        signatures: those that can be run, by name.
        defaults: the server's options.
        unavailable: names of signatures that the model has but that cannot be run. One of them may be the default; it
            then stays the default, which never passes to another signature.

    Raises:
        LoadError: the configuration contradicts the SavedModel or itself; the text shows both sides.
    """
    names = sorted({*signatures, *unavailable})
    default = _choose_default(config, model, names, defaults)
    _check(config, model, names, default)
    asked = optimizations(config, model=model)
    completed = {
        name: _complete_signature(
            signature, _gather_wishes(config, name, default, asked), defaults, f"model '{model}', signature '{name}'"
        )
        for name, signature in signatures.items()
    }
    base = _complete_base(config, model, defaults)
    return CompletedConfig(base, default, completed, instances(base.instance_group, defaults.devices))


def _choose_default(config: ModelConfig, model: str, names: Sequence[str], defaults: ConfigDefaults) -> str | None:
    """Return the configured default, else serving_default, else the only signature; never a guess among several."""
    configured = parameter(config, "TF_SIGNATURE_DEF")
    source = "parameter TF_SIGNATURE_DEF" if configured else "option --default-signature"
    default = configured or defaults.default_signature
    if default and default not in names:
        raise LoadError(f"model '{model}': {source} is '{default}', but the SavedModel has {_listed(names)}")
    if default:
        return default
    if SERVING_DEFAULT in names:
        return SERVING_DEFAULT
    return names[0] if len(names) == 1 else None


def _check(config: ModelConfig, model: str, names: Sequence[str], default: str | None) -> None:
    if config.name not in ("", model):
        raise LoadError(f"model '{model}': the configuration is for a model called '{config.name}'")
    for name in sorted(config.signatures):
        if name not in names:
            raise LoadError(
                f"model '{model}': the configuration has signature '{name}', the SavedModel has {_listed(names)}"
            )
    if default is None and (config.input or config.output or config.model_warmup):
        raise LoadError(
            f"model '{model}': the configuration has inputs, outputs or samples, but no default signature that they "
            "describe; name one with parameter TF_SIGNATURE_DEF, or write them into `signatures`; "
            f"the SavedModel has {_listed(names)}"
        )
    for size in (config.max_batch_size, *(each.max_batch_size for each in config.signatures.values())):
        if size < 0:
            raise LoadError(f"model '{model}': max_batch_size must be 0 or more, but is {size}")


def _listed(names: Sequence[str]) -> str:
    return "signatures " + ", ".join(map(repr, names)) if names else "no signatures"


def _gather_wishes(config: ModelConfig, name: str, default: str | None, asked: Optimizations) -> _Wishes:
    # A map of messages makes the entry that it is asked for, so ask first whether it is there.
    own = config.signatures[name] if name in config.signatures else SignatureConfig()
    is_default = name == default
    dynamic_batching = config.dynamic_batching if config.HasField("dynamic_batching") else None
    return _Wishes(
        inputs=own.input or (config.input if is_default else ()),
        outputs=own.output or (config.output if is_default else ()),
        max_batch_size=own.max_batch_size if own.HasField("max_batch_size") else config.max_batch_size or None,
        binding=is_default or own.HasField("max_batch_size"),
        dynamic_batching=own.dynamic_batching if own.HasField("dynamic_batching") else dynamic_batching,
        model_warmup=own.model_warmup or (config.model_warmup if is_default else ()),
        xla=asked.xla_of(name),
        own=own,
    )


def _complete_signature(
    signature: Signature, wishes: _Wishes, defaults: ConfigDefaults, place: str
) -> CompletedSignature:
    paired = pair_signature(signature, wishes.inputs, wishes.outputs, place=place)
    max_batch_size = _choose_max_batch_size(paired, wishes, defaults)
    batched = max_batch_size > 0
    seen = paired.narrow(batched=batched)
    config = SignatureConfig(
        max_batch_size=max_batch_size,
        input=_complete_entries(paired.inputs, seen.inputs, batched=batched),
        output=_complete_entries(paired.outputs, seen.outputs, batched=batched),
        dynamic_batching=_complete_dynamic_batching(wishes, defaults, max_batch_size),
        model_warmup=wishes.model_warmup,
        # What only `signatures` can say needs no completion.
        allowed_batch_sizes=wishes.own.allowed_batch_sizes,
        pad_variable_length_inputs=wishes.own.pad_variable_length_inputs,
        trimmed_outputs=wishes.own.trimmed_outputs,
        latency_objective_microseconds=wishes.own.latency_objective_microseconds,
        weight=wishes.own.weight,
        max_queue_rows=wishes.own.max_queue_rows,
        max_queue_bytes=wishes.own.max_queue_bytes,
        xla="" if wishes.xla is Xla.OFF else wishes.xla.value,
    )
    completed = CompletedSignature(seen, config)
    if completed.joins:
        _complete_joining(completed, wishes, defaults)
    return completed


def _complete_joining(completed: CompletedSignature, wishes: _Wishes, defaults: ConfigDefaults) -> None:
    """Fill in what the server says of shared runs alone. Its sizes belong to its largest batch and to no other."""
    config = completed.config
    if wishes.max_batch_size is None and not config.allowed_batch_sizes:
        config.allowed_batch_sizes.extend(defaults.allowed_batch_sizes)
    if wishes.xla is not Xla.OFF and not config.allowed_batch_sizes:
        config.allowed_batch_sizes.extend(_doubling_sizes(config.max_batch_size))
    if not config.max_queue_rows:
        config.max_queue_rows = defaults.max_enqueued_batches * config.max_batch_size
    if defaults.pads_variable_lengths and not config.pad_variable_length_inputs:
        for spec in completed.signature.inputs:
            if OPEN in (spec.shape or ())[1:]:
                config.pad_variable_length_inputs[spec.name] = "" if spec.datatype is BYTES else "0"


def _doubling_sizes(largest: int) -> Iterator[int]:
    """Yield few sizes, as each is compiled, up to the largest one."""
    size = 1
    while size < largest:
        yield size
        size *= 2
    yield largest


def _complete_entries(pairs: Sequence[Pair[Entry]], seen: Sequence[TensorSpec], *, batched: bool) -> list[Entry]:
    return [complete_entry(pair.entry, spec, batched=batched) for pair, spec in zip(pairs, seen, strict=True)]


def _choose_max_batch_size(paired: PairedSignature, wishes: _Wishes, defaults: ConfigDefaults) -> int:
    """Return the configured size where it can be had, the server's where nothing is said, and 0 for no batching.

    On the wire a model's max_batch_size of 0 cannot be told from an absent one. Dims of the full rank leave no axis for
    a batch, so there it was meant.
    """
    reason = paired.why_no_batch_dimension
    if wishes.max_batch_size is None:
        fills = defaults.auto_complete and not paired.dims_are_complete and paired.may_be_batched
        return defaults.default_max_batch_size if fills else 0
    if wishes.max_batch_size and reason is not None:
        if wishes.binding:
            raise LoadError(f"{paired.place}: max_batch_size is {wishes.max_batch_size}, but {reason}")
        return 0
    return wishes.max_batch_size


def _complete_dynamic_batching(
    wishes: _Wishes, defaults: ConfigDefaults, max_batch_size: int
) -> ModelDynamicBatching | None:
    if wishes.dynamic_batching is not None:
        batching = ModelDynamicBatching()
        batching.CopyFrom(wishes.dynamic_batching)
    elif defaults.auto_complete and max_batch_size > 1:
        # With an objective the batcher chooses the delay itself.
        delay_us = 0 if wishes.own.latency_objective_microseconds else defaults.max_queue_delay_us
        batching = ModelDynamicBatching(max_queue_delay_microseconds=delay_us)
    else:
        return None
    if max_batch_size and not batching.preferred_batch_size:
        batching.preferred_batch_size.append(max_batch_size)
    return batching


def _complete_base(config: ModelConfig, model: str, defaults: ConfigDefaults) -> ModelConfig:
    """Return what holds for every signature. What clients take for a wish when it is merely present is left out."""
    base = ModelConfig()
    base.CopyFrom(config)
    for field in ("input", "output", "model_warmup", "signatures", "model_transaction_policy", "response_cache"):
        base.ClearField(field)
    base.name, base.platform, base.backend = model, PLATFORM, BACKEND
    base.default_model_filename = config.default_model_filename or MODEL_FILENAME
    if config.version_policy.WhichOneof("policy_choice") is None:
        base.version_policy.latest.num_versions = 1
    for buffer in ("input_pinned_memory", "output_pinned_memory"):
        if not config.optimization.HasField(buffer):
            getattr(base.optimization, buffer).enable = True
    complete_instance_groups(base, defaults.devices, defaults.instance_count)
    return base
