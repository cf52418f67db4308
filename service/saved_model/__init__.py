"""The SavedModel runtime: the only package that imports TensorFlow.

Importing this package is cheap. TensorFlow takes 4 to 8 seconds to import and reads its settings while it does, so it
is imported by the first ``load`` or ``describe``, after ``configure``.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from service.devices import CPU, Device, Instances
from service.model_scan import ModelJudge, ModelScan
from service.optimizations import Optimizations
from service.saved_model import process
from service.saved_model.graph_options import SERVE, GraphOptions
from service.saved_model.options import RuntimeOptions
from service.saved_model.shared_graphs import SharedGraphs

if TYPE_CHECKING:
    from service.saved_model.loader import Description
    from service.saved_model.servable import SavedModelServable

__all__ = [
    "RuntimeOptions",
    "SharedGraphs",
    "configure",
    "describe",
    "devices",
    "devices_in_use",
    "load",
    "options_in_force",
]

_ON_THE_CPU = (Instances(CPU, 1),)


def configure(options: RuntimeOptions) -> None:
    """Fix TensorFlow's settings for the whole process, before it starts.

    Without a call, ``load`` and ``describe`` fix the defaults.

    Raises:
        LoadError: they were fixed before, with other values, or no directory can be written.
    """
    process.configure(options)


def options_in_force() -> RuntimeOptions:
    """Return TensorFlow's settings, with numbers of threads; the defaults become fixed when nothing else was said."""
    return process.chosen()


def devices() -> tuple[Device, ...]:
    """Return the devices that models may be put on; TensorFlow starts.

    Raises:
        LoadError: the chosen ones are not there.
    """
    process.chosen()
    from service.saved_model import sessions  # noqa: PLC0415, as in `load`

    return sessions.available_devices()


def devices_in_use() -> list[str]:
    """Return their names, such as ``CPU:0``; none before the first ``load`` has started TensorFlow."""
    return [str(device) for device in devices()] if "tensorflow" in sys.modules else []


def load(
    path: Path,
    *,
    model: str,
    version: int,
    tags: frozenset[str] = SERVE,
    instances: Sequence[Instances] = _ON_THE_CPU,
    optimizations: Optimizations | None = None,
    scan: ModelScan = ModelScan.WARN,
    graphs: SharedGraphs | None = None,
) -> "SavedModelServable":
    """Load a SavedModel and make its signatures ready to run.

    Args:
        path: the directory that holds ``saved_model.pb`` (or ``saved_model.pbtxt``).
        model: the model's name, for error texts and the log.
        version: the version's number, likewise.
        tags: the tags of the graph to load.
        instances: the devices, of which each gets a copy of the weights, with the workers that will run on each.
        optimizations: what TensorFlow may do to the graph.
        scan: what happens when the graph reaches beyond the model, which is known before any of it runs.
        graphs: those that this one may be shared with; by default none.

    Raises:
        LoadError: the SavedModel is broken, has no graph with these tags, is refused for what it would do, or no
            signature of it can be served.
    """
    process.chosen()
    from service.saved_model import loader  # noqa: PLC0415, TensorFlow must start after its settings are fixed

    judge = ModelJudge(scan, model=model, version=version)
    return loader.load(
        path,
        model=model,
        version=version,
        options=GraphOptions(tags, tuple(each.device for each in instances), optimizations or Optimizations()),
        instances=instances,
        judge=judge,
        graphs=graphs or SharedGraphs(),
    )


def describe(path: Path, tags: frozenset[str] = SERVE) -> "Description":
    """Return the signatures of a SavedModel from its graph alone, without loading weights.

    Raises:
        LoadError: the SavedModel cannot be read, or has no graph with these tags.
    """
    process.chosen()
    from service.saved_model import loader  # noqa: PLC0415, as above

    return loader.describe(path, tags)
