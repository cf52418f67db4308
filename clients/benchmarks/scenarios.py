"""What is measured: which model, under which loads, on which contenders."""

from dataclasses import dataclass
from typing import Final

from clients.benchmarks.models import MIXED_SIGNATURES
from clients.benchmarks.variants import Variant


@dataclass(frozen=True)
class Load:
    """What clients send.

    Attributes:
        label: tells it from the other loads of its scenario; empty if there is but one.
        signatures: each gets an equal share of the callers; one may stand here several times.
        rows: rows in a request.
        shared_memory: tensors go through system shared memory instead of messages.
        least_requests: where a request takes long, a measurement lasts until so many are answered; 0 means that it
            lasts as long as is asked for.
    """

    label: str
    signatures: tuple[str, ...]
    rows: int = 1
    shared_memory: bool = False
    least_requests: int = 0


@dataclass(frozen=True)
class Scenario:
    """One question to the servers.

    Attributes:
        name: for the command line and for files.
        title: what is asked.
        model: the model's name.
        loads: what is sent; each is measured on each contender, in alternation.
        concurrencies: callers that wait for an answer at the same time.
        short: those of the short form; none leaves the scenario out of it.
        max_batch_size: most rows in a run, for every server.
        bare: whether a loop over the model in a process without any server is a contender, too.
        echo: whether servers without a model, on grpcio and on the native front, are.
        variants: how Signet is measured where the command line does not say.
    """

    name: str
    title: str
    model: str
    loads: tuple[Load, ...]
    concurrencies: tuple[int, ...]
    short: tuple[int, ...] = ()
    max_batch_size: int = 64
    bare: bool = False
    echo: bool = False
    variants: tuple[Variant, ...] = (Variant("Signet"),)


def _vision(name: str, title: str, signature: str) -> Scenario:
    return Scenario(
        f"{name}-{signature}",
        f"{title}, signature `{signature}`",
        name,
        _pictures(signature),
        (1, 4),
        max_batch_size=8,
        bare=True,
    )


def _unjoined(name: str, title: str) -> Scenario:
    """Return what a server adds to the model: no requests are joined, so that every run is the bare loop's."""
    return Scenario(
        f"{name}-unjoined",
        f"{title}, one picture per run",
        name,
        _pictures("images")[:1],
        (1, 4),
        max_batch_size=1,
        bare=True,
    )


def _compiled(name: str, title: str) -> Scenario:
    """Return XLA on beside XLA off, on the signature that XLA can compile as a whole."""
    variants = (Variant("Signet"), Variant("Signet with XLA", xla="on"))
    return Scenario(
        f"{name}-xla", f"{title} with XLA", name, _pictures("images"), (1, 4), max_batch_size=8, variants=variants
    )


def _pictures(signature: str) -> tuple[Load, ...]:
    return (
        Load("1 picture", (signature,), least_requests=30),
        Load("8 pictures", (signature,), rows=8, least_requests=6),
    )


_VISION: Final = (("efficientnet", "EfficientNet-B0"), ("resnet", "ResNet-50"))

SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "toy",
            "A model of microseconds, one row per request",
            "toy",
            (Load("", ("scores",)),),
            (1, 4, 16, 64, 256),
            short=(1, 16, 64),
            echo=True,
            variants=(Variant("Signet"), Variant("Signet on grpcio", ("--transport", "grpcio"))),
        ),
        Scenario(
            "mixed",
            "Eight load generators on one signature, or each on a signature of its own",
            "mixed",
            (
                Load("one signature", MIXED_SIGNATURES[:1] * len(MIXED_SIGNATURES)),
                Load("eight signatures", MIXED_SIGNATURES),
            ),
            (16, 64),
        ),
        Scenario(
            "pictures",
            "100 pictures of 224x224x3 bytes (15 MB) per request, a model that hardly reads them",
            "pictures",
            (
                Load("inline", ("first_pixel",), rows=100, least_requests=30),
                Load("shared memory", ("first_pixel",), rows=100, shared_memory=True, least_requests=60),
            ),
            (1, 4),
            short=(4,),
            max_batch_size=128,
        ),
        Scenario(
            "strings",
            "32 rows of 8 strings of 16 bytes per request",
            "strings",
            (Load("", ("upper",), rows=32),),
            (1, 16),
        ),
        *(_vision(name, title, signature) for name, title in _VISION for signature in ("images", "embeddings", "jpeg")),
        *(_unjoined(name, title) for name, title in _VISION),
        *(_compiled(name, title) for name, title in _VISION),
    )
}
