"""The completed configuration of a loaded model, and what the protocol tells of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from protos.grpc_service_pb2 import ModelMetadataResponse
from protos.model_config_pb2 import (
    DataType,
    ModelConfig,
    ModelInput,
    ModelOutput,
    SignatureConfig,
)
from service.devices import Instances
from service.reshaping import Reshaping
from service.signature import OPEN, Signature, TensorSpec

SIGNATURES: Final = "signatures"
"""The key under which ``parameters`` and ``properties`` list the signatures as JSON."""


@dataclass(frozen=True)
class CompletedSignature:
    """One signature as callers see it, and the configuration that describes it."""

    signature: Signature
    config: SignatureConfig

    @property
    def joins(self) -> bool:
        """Whether requests may share a run."""
        return self.config.max_batch_size > 1 and self.config.HasField("dynamic_batching") and self.signature.batchable


class CompletedConfig:
    """The configuration of a loaded model: every question has an answer, and the answers agree. Immutable."""

    def __init__(
        self,
        base: ModelConfig,
        default_signature: str | None,
        completed: Mapping[str, CompletedSignature],
        instances: Sequence[Instances],
    ) -> None:
        """Hold what ``config_completion.complete`` has put together.

        Args:
            base: what holds for every signature; describes none of them.
            default_signature: the signature that the plain model name stands for, or None.
            completed: every signature that is served, by name.
            instances: the workers on each device.
        """
        self.default_signature: Final = default_signature
        self.signatures: Final = {name: each.signature for name, each in completed.items()}
        self.label_filenames: Final = {name: _label_filenames(each.config) for name, each in completed.items()}
        self.reshapings: Final = {name: Reshaping.of(each.config) for name, each in completed.items()}
        self.instance_count: Final = sum(each.count for each in instances)
        self._base = base
        self._configs = {name: each.config for name, each in completed.items()}
        self._summary = json.dumps({name: _summary(config) for name, config in self._configs.items()})
        self.model: Final = self._describe_model()

    def _describe_model(self) -> ModelConfig:
        model = _with_signature(self._base, self._configs.get(self.default_signature or ""))
        for name, config in self._configs.items():
            model.signatures[name].CopyFrom(config)
        # With one signature the answer is what Triton's would be, and says all there is to say.
        if set(self._configs) != {self.default_signature}:
            model.parameters[SIGNATURES].string_value = self._summary
        return model

    def as_file(self) -> ModelConfig:
        """Return what a config.pbtxt may say to get this very configuration.

        Dims that no file can say (an unknown rank, a size of 0) are left out, which leaves them to the SavedModel.
        """
        config = ModelConfig()
        config.CopyFrom(self.model)
        config.parameters.pop(SIGNATURES, None)
        config.ClearField("dynamic_batching")  # each signature has its own, and one without would inherit it
        for name, signature in self.signatures.items():
            _leave_out_unsayable_dims(config.signatures[name], signature)
            if name == self.default_signature:
                _leave_out_unsayable_dims(config, signature)
        return config

    def for_signature(self, name: str) -> ModelConfig:
        """Return what ModelConfig answers to ``MODEL:SIGNATURE``.

        Raises:
            KeyError: there is no such signature.
        """
        config = _with_signature(self._base, self._configs[name])
        config.name = f"{self._base.name}:{name}"
        return config

    def metadata(self, name: str, signature: str | None, *, versions: Sequence[str]) -> ModelMetadataResponse:
        """Return what ModelMetadata answers.

        Args:
            name: as in the request.
            signature: the signature to describe, or None to describe none.
            versions: the versions to list.
        """
        described = self.signatures.get(signature or "")
        return ModelMetadataResponse(
            name=name,
            versions=versions,
            platform=self._base.platform,
            inputs=map(_tensor_metadata, described.inputs if described else ()),
            outputs=map(_tensor_metadata, described.outputs if described else ()),
            properties={SIGNATURES: self._summary},
        )

    def joins(self, name: str) -> bool:
        """Return whether requests of a signature may share a run.

        Raises:
            KeyError: there is no such signature.
        """
        return CompletedSignature(self.signatures[name], self._configs[name]).joins

    def signature_config(self, name: str) -> SignatureConfig:
        """Return the completed configuration of a signature.

        Raises:
            KeyError: there is no such signature.
        """
        return self._configs[name]

    def max_batch_size(self, name: str) -> int:
        """Return the most rows of a request, or 0 when the signature's tensors have no batch dimension."""
        return self._configs[name].max_batch_size


def _with_signature(base: ModelConfig, signature: SignatureConfig | None) -> ModelConfig:
    """Return a copy of the model's configuration that describes one signature, or none."""
    config = ModelConfig()
    config.CopyFrom(base)
    if signature is not None:
        config.max_batch_size = signature.max_batch_size
        config.input.extend(signature.input)
        config.output.extend(signature.output)
        config.model_warmup.extend(signature.model_warmup)
        if signature.HasField("dynamic_batching"):
            config.dynamic_batching.CopyFrom(signature.dynamic_batching)
    return config


def _leave_out_unsayable_dims(config: ModelConfig | SignatureConfig, signature: Signature) -> None:
    specs = (*signature.inputs, *signature.outputs)
    for tensor, spec in zip((*config.input, *config.output), specs, strict=True):
        if spec.shape is None or 0 in spec.shape:
            tensor.ClearField("dims")


def _label_filenames(config: SignatureConfig) -> dict[str, str]:
    """Return the file that holds the labels of each output that has one."""
    return {output.name: output.label_filename for output in config.output if output.label_filename}


def _summary(config: SignatureConfig) -> dict[str, Any]:
    """Return what there is to know for a caller, in JSON's types; numbers stay numbers."""
    return {
        "max_batch_size": config.max_batch_size,
        "input": [_tensor_summary(tensor) for tensor in config.input],
        "output": [_tensor_summary(tensor) for tensor in config.output],
    }


def _tensor_summary(tensor: ModelInput | ModelOutput) -> dict[str, Any]:
    return {"name": tensor.name, "data_type": DataType.Name(tensor.data_type), "dims": list(tensor.dims)}


def _tensor_metadata(spec: TensorSpec) -> ModelMetadataResponse.TensorMetadata:
    shape = (OPEN,) if spec.shape is None else spec.shape
    return ModelMetadataResponse.TensorMetadata(name=spec.name, datatype=spec.datatype.name, shape=shape)
