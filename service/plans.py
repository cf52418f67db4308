"""What is asked for by all requests that differ in nothing but their id and their data: found out and checked once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from service import raw_tensor
from service.catalog import Catalog, Target
from service.datatypes import BYTES
from service.errors import InvalidArgumentError
from service.input_checks import Place, check_inputs, check_outputs
from service.model_version import ModelVersion, ServedSignature, SignatureKey
from service.parameters import RequestParameters
from service.recognition import KnownRequests, Template, TensorForm
from service.request import AnswerForm, InferRequest, InputTensor
from service.signature import TensorSpec
from service.wire import RequestParts

_LONGEST_HEADER_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class _Form:
    """An input's place in the raw data, and what they must be there. ``dtype`` is None where that takes a decoder."""

    name: str
    index: int
    spec: TensorSpec
    shape: tuple[int, ...]
    dtype: np.dtype | None
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One form of requests.

    Attributes:
        model_name: the model's name as sent.
        loaded: the version that serves them.
        served: the signature that they ask for.
        output_names: the wanted outputs, in the signature's order.
        answer: the form of their answers, before any output is told as classes.
        classes: by output, how many classes are wanted in its place.
        key: what they have in common with those that they may share a run with.
        rows: their size.
        priority: that they ask for.
        timeout_s: how long they may wait, in seconds; 0 means no limit.
        object_nbytes: what the objects of their strings take beside the strings' bytes.
    """

    model_name: str
    loaded: ModelVersion
    served: ServedSignature
    output_names: tuple[str, ...]
    answer: AnswerForm
    classes: Mapping[str, int]
    key: SignatureKey
    rows: int
    priority: int
    timeout_s: float
    object_nbytes: int
    _forms: Sequence[_Form]

    def place(self, request_id: str) -> Place:
        """Return what to name in errors of a request."""
        return Place(self.model_name, self.loaded.version, self.served.signature.name, request_id)

    @property
    def tensor_forms(self) -> list[TensorForm] | None:
        """The forms of the inputs, None if any of them takes a decoder."""
        forms = [
            TensorForm(form.name, form.index, form.shape, form.dtype) for form in self._forms if form.dtype is not None
        ]
        return forms if len(forms) == len(self._forms) else None

    def arrays(self, raw: Sequence[bytes | memoryview]) -> dict[str, np.ndarray] | None:
        """Return the inputs of another request of this form, as views where they can be.

        None where its data are not what the form needs; ``make_plan`` finds the words for that.
        """
        if len(raw) < len(self._forms):
            return None
        arrays = {}
        for form in self._forms:
            data = raw[form.index]
            if form.dtype is None:
                try:
                    arrays[form.name] = raw_tensor.decode(form.spec.datatype, form.shape, data)
                except InvalidArgumentError:
                    return None
            elif len(data) == form.nbytes:
                arrays[form.name] = np.ndarray(form.shape, form.dtype, data)
            else:
                return None
        return arrays


Found: TypeAlias = tuple[Plan, str, dict[str, np.ndarray], int]


def find_plan(catalog: Catalog, request: InferRequest) -> Found:
    """Return the plan of a request, its id, its inputs, and how many bytes they take.

    Raises:
        SignetError: the request cannot be served; the text says why.
    """
    # Another one when models change: a plan that is made of what was found before must not stay.
    known: KnownRequests[Plan] = catalog.known_requests
    data = request.serialized
    if data is None:
        return _make_plan(catalog, request)
    if (found := known.recognize(data)) is not None:
        return found
    parts = request.parts
    plan = None if parts is None else known.find(parts.header)
    if parts is not None and plan is not None and (arrays := plan.arrays(parts.raw)) is not None:
        nbytes = sum(map(len, parts.raw)) + plan.object_nbytes
        _keep_template(known, plan, data, parts, nbytes)
        return plan, parts.id, arrays, nbytes
    found = _make_plan(catalog, request)
    if parts is not None and request.parts is parts and len(parts.header) <= _LONGEST_HEADER_BYTES:
        known.keep(parts.header, found[0])
        _keep_template(known, found[0], data, parts, found[3])
    return found


def _keep_template(known: KnownRequests[Plan], plan: Plan, data: bytes, parts: RequestParts, nbytes: int) -> None:
    """Let further requests like this one be recognized, if all of their inputs lie in the data as they are."""
    forms = plan.tensor_forms
    if forms is not None:
        known.keep_template(Template(plan, data, parts, forms, nbytes), len(data))


def _make_plan(catalog: Catalog, request: InferRequest) -> Found:
    """Find the servable and the signature, and check the outputs and the inputs."""
    target = catalog.find(request.model_name, request.model_version)
    loaded = target.loaded
    parameters = request.parameters()
    served = _find_signature(target, parameters)
    place = Place(request.model_name, loaded.version, served.signature.name, request.id)
    tensors = request.inputs()
    requested = request.outputs()
    outputs = check_outputs(place, served.signature, [output.name for output in requested])
    arrays, rows = check_inputs(place, served, tensors)
    named = served.signature.name if parameters.signature or target.signature else None
    plan = Plan(
        model_name=request.model_name,
        loaded=loaded,
        served=served,
        output_names=tuple(spec.name for spec in outputs),
        answer=AnswerForm(request.model_name, str(loaded.version), named, outputs),
        classes={output.name: output.classes for output in requested if output.classes is not None},
        key=_key(loaded, served, arrays),
        rows=rows,
        priority=parameters.priority,
        timeout_s=max(0, parameters.timeout_us) / 1e6,
        object_nbytes=sum(tensor.object_nbytes for tensor in tensors),
        _forms=_forms(served, tensors, arrays),
    )
    return plan, request.id, arrays, sum(tensor.nbytes for tensor in tensors)


def _find_signature(target: Target, parameters: RequestParameters) -> ServedSignature:
    """Return the signature that the name or the parameter says; both may, if they agree."""
    if target.signature is None:
        return target.loaded.find_signature(parameters.signature)
    if parameters.signature not in (None, target.signature):
        raise InvalidArgumentError(
            f"the model name asks for signature '{target.signature}' of model '{target.loaded.name}', but the "
            f"parameter 'signature' for '{parameters.signature}'"
        )
    served = target.loaded.find_alias(target.signature)
    target.loaded.aliases_used.add(target.signature)
    return served


def _key(loaded: ModelVersion, served: ServedSignature, inputs: Mapping[str, np.ndarray]) -> SignatureKey:
    """Return what requests must have in common to share a run."""
    if served.max_batch_size:
        inner_shape = served.options.inner_shape
        tensors = tuple((name, array.dtype.str, inner_shape(name, array.shape)) for name, array in inputs.items())
    else:
        tensors = tuple((name, array.dtype.str, array.shape) for name, array in inputs.items())
    return loaded.name, loaded.version, served.signature.name, tensors


def _forms(
    served: ServedSignature, tensors: Sequence[InputTensor], arrays: Mapping[str, np.ndarray]
) -> tuple[_Form, ...]:
    """Return the forms of the inputs in the signature's order; they mean something only where all data are raw."""
    indices = {tensor.name: index for index, tensor in enumerate(tensors)}
    specs = [spec for spec in served.signature.inputs if spec.name in arrays]
    return tuple(
        _Form(
            spec.name,
            indices[spec.name],
            spec,
            arrays[spec.name].shape,
            None if spec.datatype is BYTES or spec.datatype.name == "BOOL" else spec.datatype.dtype,
            arrays[spec.name].nbytes,
        )
        for spec in specs
    )
