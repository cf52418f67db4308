"""Loads a SavedModel the way that serves most of its signatures."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.devices import CPU, Instances
from service.errors import LoadError
from service.memory_limit import warn_if_too_large
from service.model_scan import ModelJudge, ModelRefusedError
from service.optimizations import Xla
from service.saved_model import from_meta_graph, from_object_graph
from service.saved_model.blueprint import Blueprint
from service.saved_model.broken_files import BrokenFilesError
from service.saved_model.copies import Copies
from service.saved_model.device_memory import DeviceMemoryError
from service.saved_model.files import MetaGraphFile, read_meta_graph
from service.saved_model.graph_options import GraphOptions
from service.saved_model.memory import release_memory
from service.saved_model.refinement import RefinedBlueprint, refine
from service.saved_model.scan import scan
from service.saved_model.servable import SavedModelServable
from service.saved_model.served_graph import ServedGraph
from service.saved_model.sessions import prepare_tensorflow
from service.saved_model.shared_graphs import SharedGraphs
from service.saved_model.signature_defs import BoundSignature, bind_signatures
from service.saved_model.special_files import refuse_special_files
from service.signature import Signature
from service.timed_steps import timed

logger = logging.getLogger(__name__)

_Bound = Mapping[str, BoundSignature]


@dataclass(frozen=True)
class _Way:
    name: str
    read: Callable[[MetaGraphFile, _Bound], Blueprint]


_WAYS = (_Way("meta graph", from_meta_graph.read), _Way("object graph", from_object_graph.read))


@dataclass(frozen=True)
class Description:
    """What a SavedModel says of itself, without its weights.

    Attributes:
        signatures: those that can be served as far as the graph tells, in ascending order of name.
        unavailable: the others, each with the reason.
    """

    signatures: Mapping[str, Signature]
    unavailable: Mapping[str, str]


def describe(path: Path, tags: frozenset[str]) -> Description:
    """Return the signatures of a SavedModel; see ``service.saved_model.describe``."""
    refuse_special_files(path)
    prepare_tensorflow()
    bound, refused = bind_signatures(read_meta_graph(path, tags))
    return Description({name: one.signature for name, one in bound.items()}, refused)


def load(
    path: Path,
    *,
    model: str,
    version: int,
    options: GraphOptions,
    instances: Sequence[Instances],
    judge: ModelJudge,
    graphs: SharedGraphs,
) -> SavedModelServable:
    """Load a SavedModel; see ``service.saved_model.load``."""
    refuse_special_files(path)
    prepare_tensorflow()
    share = graphs.take(path, options, (model, version), lambda: _load(path, model, version, options, judge))
    if share.is_joined:
        logger.info(
            "model %r version %d: shares what was loaded for model %r version %d; signatures: %s",
            model,
            version,
            *share.loaded_for,
            ", ".join(share.graph.signatures),
        )
    return SavedModelServable(model, version, share, instances)


def _load(path: Path, model: str, version: int, options: GraphOptions, judge: ModelJudge) -> ServedGraph:
    warn_if_too_large(path, model=model, version=version)
    exported = MetaGraphFile(path, options.tags)
    with timed("reading the graph"):
        bound, refused = bind_signatures(exported.look())
    if not bound:
        raise LoadError(f"{path}: no signature can be served; {_list_reasons(refused) or 'the SavedModel has none'}")
    graph, failures = _serve_most(exported, options, bound, judge)
    unavailable = dict(sorted((refused | failures).items()))
    signatures = {name: one.signature for name, one in bound.items() if name not in failures}
    logger.info(
        "model %r version %d: loaded from its %s; signatures: %s%s; %s%s",
        model,
        version,
        graph.way,
        ", ".join(signatures),
        f"; unavailable: {_list_reasons(unavailable)}" if unavailable else "",
        graph.summary,
        _describe_devices(graph),
    )
    return ServedGraph(graph, signatures, unavailable)


def _serve_most(
    exported: MetaGraphFile, options: GraphOptions, bound: _Bound, judge: ModelJudge
) -> tuple[Copies, dict[str, str]]:
    """Return the graph that serves most of the signatures, and for each of the others why no way serves it.

    A way is given up before the next is tried, so that there are never two copies of the weights; only when none serves
    all is the best one taken again.
    """
    tried: list[tuple[_Way, dict[str, str]]] = []
    for way in _WAYS:
        graph, failures = _bring_to_life(way, exported, options, bound, judge)
        if graph is not None:
            if not failures:
                return graph, {}
            graph.close()
            release_memory()
        tried.append((way, failures))
    reasons = {
        name: _list_reasons({way.name: failed[name] for way, failed in tried if name in failed}) for name in bound
    }
    best, failures = min(tried, key=lambda attempt: len(attempt[1]))
    graph, failures = (
        _bring_to_life(best, exported, options, bound, judge) if len(failures) < len(bound) else (None, failures)
    )
    if graph is None:
        raise LoadError(f"{exported.path}: no signature can be served; {_list_reasons(reasons)}")
    return graph, {name: reasons[name] for name in failures}


def _bring_to_life(
    way: _Way, exported: MetaGraphFile, options: GraphOptions, bound: _Bound, judge: ModelJudge
) -> tuple[Copies | None, dict[str, str]]:
    """Return the graph that one way yields, if any, and why each signature that it does not serve fails.

    Raises:
        LoadError: a file is broken, the version is refused for what it would do, or memory is short; no other way is to
            be tried then.
    """
    try:
        with timed("looking through the graph"):
            blueprint = _read(way, exported, options, bound, judge)
        graph = Copies(blueprint, options)
    except (BrokenFilesError, DeviceMemoryError, ModelRefusedError) as error:
        raise LoadError(f"{exported.path}: {error}") from error
    except LoadError as error:
        return None, dict.fromkeys(bound, str(error))
    return graph, graph.failures


def _read(
    way: _Way, exported: MetaGraphFile, options: GraphOptions, bound: _Bound, judge: ModelJudge
) -> RefinedBlueprint:
    """Read a SavedModel and look through what it would run. The whole graph is dropped on return, to save memory."""
    blueprint = way.read(exported, bound)
    if judge.looks:
        judge.judge(scan(blueprint))
    compiled = [name for name in bound if options.optimizations.xla_of(name) is Xla.ON]
    return refine(blueprint, compiled)


def _describe_devices(graph: Copies) -> str:
    """Tell of devices where there is a choice."""
    if graph.devices == [CPU]:
        return ""
    listed = ", ".join("where its graph says" if device is None else str(device) for device in graph.devices)
    parts = [f"; on {listed}", ", each with a copy of the weights" if len(graph.devices) > 1 else ""]
    if graph.pinned:
        parts.append(f"; on the first alone, for the state that is written: {', '.join(sorted(graph.pinned))}")
    return "".join(parts)


def _list_reasons(reasons: Mapping[str, str]) -> str:
    """Return the names by reason, since often all share one."""
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names_by_reason.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in names_by_reason.items())
