"""What a caller may ask of a model: signatures and the tensors that go in and come out."""

from dataclasses import dataclass, field
from enum import Enum

from service.datatypes import Datatype

OPEN = -1
"""A dimension whose size each request chooses."""


class Effect(Enum):
    """What running a signature does besides answering, which decides how freely it may be run."""

    PURE = "pure"
    """Nothing: the same inputs give the same answer, so runs may be repeated, joined and shared."""
    RANDOM = "random"
    """It draws random numbers: runs may be joined and repeated, but not shared or compared."""
    WRITING = "writing"
    """It changes variables, tables, queues or files: each request is run exactly once, alone."""


@dataclass(frozen=True)
class TensorSpec:
    """Name, datatype and shape of one input or output.

    Attributes:
        name: the name on the wire (the SignatureDef's key).
        datatype: the datatype on the wire.
        shape: one size per axis, ``OPEN`` where any size will do; None when even the rank is unknown.
        optional: whether a request may leave it out (the export carries a default value).
    """

    name: str
    datatype: Datatype
    shape: tuple[int, ...] | None
    optional: bool = False

    @property
    def has_open_first_dimension(self) -> bool:
        """Whether axis 0 exists and takes any size, as a batch dimension must."""
        return self.shape is not None and len(self.shape) > 0 and self.shape[0] == OPEN

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of this shape fits: the same rank and, where a size is fixed, the same size."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            want in (OPEN, got) for want, got in zip(self.shape, shape, strict=True)
        )

    def __str__(self) -> str:
        shape = "?" if self.shape is None else ",".join(map(str, self.shape))
        return f"{self.name} {self.datatype.name}[{shape}]"


@dataclass(frozen=True)
class Signature:
    """One named entry point of a model.

    Attributes:
        name: its key in the SavedModel.
        inputs: in ascending order of name.
        outputs: in ascending order of name.
        effect: what a run does besides answering.
        mixes_rows: why the rows of a batch are known to influence each other, or None.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    effect: Effect = Effect.PURE
    mixes_rows: str | None = None
    _inputs_by_name: dict[str, TensorSpec] = field(init=False, repr=False, compare=False)
    _outputs_by_name: dict[str, TensorSpec] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_inputs_by_name", {spec.name: spec for spec in self.inputs})
        object.__setattr__(self, "_outputs_by_name", {spec.name: spec for spec in self.outputs})

    def input(self, name: str) -> TensorSpec | None:
        """Return the input of this name, or None."""
        return self._inputs_by_name.get(name)

    def output(self, name: str) -> TensorSpec | None:
        """Return the output of this name, or None."""
        return self._outputs_by_name.get(name)

    @property
    def why_not_batchable(self) -> str | None:
        """Why requests of this signature can never share a run, or None when they can.

        Batching needs an open first dimension in every input and output, and a signature that writes nothing. An
        input that may be left out then has the rows of its default value, however many there are in the run.
        """
        if self.effect is Effect.WRITING:
            return "it writes to the model's state"
        if not self.inputs:
            return "it takes no inputs"
        for kind, specs in (("input", self.inputs), ("output", self.outputs)):
            for spec in specs:
                if not spec.has_open_first_dimension:
                    return f"{kind} {spec} has no open first dimension"
                if spec.optional:
                    return f"{kind} {spec} may be left out"
        return self.mixes_rows

    @property
    def batchable(self) -> bool:
        """Whether requests of this signature may share a run."""
        return self.why_not_batchable is None
