"""Imports go one way: this reads all of them and fails on a wrong one.

A new module of the service takes its place in ``LAYERS``; what it imports must lie in lower layers.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# From the bottom to the top. A module may import what lies below its own layer; the members of a package and those of
# FAMILY import one another freely.
PACKAGES = {"saved_model", "transports", "metrics", "http", "status_page"}
FAMILY = {
    *("model_config", "config_tensors", "reshaping", "config_completion", "completed_config", "tensorflow_serving"),
    "ignored_fields",
    *("instance_groups", "optimization_config"),
}
LAYERS = [
    {"__init__"},
    {"histogram", "further_commands"},
    {
        "errors",
        "datatypes",
        "model_statistics",
        "logs",
        "caller",
        "file_identity",
        "alias",
        "cgroups",
        "open_connections",
        "open_files",
        "model_scan",
        "core_dumps",
        "allocator",
        "glibc",
        "environment",
        "devices",
        "optimizations",
        "wire",
        "tracing",
        "timed_steps",
        "aligned",
    },
    {
        *("signature", "parameters", "raw_tensor", "layouts", "status", "shared_memory", "system_region"),
        *("cuda_region", "changing_files", "recognition", "threads", "plain_files"),
    },
    {
        *("request", "servable", "region_parameters", "classification", "trace_settings", "memory_limit"),
        "synthetic_inputs",
        "tokens",
        "tensorflow_serving_flags",
    },
    {"access", "codec", "response_codec", "statistics_codec", "stream_codec", "versions", "saved_model", *FAMILY},
    {"queue_options", "settings", "labels", "warm_up_samples", "load_plan", "model_places", "uploads"},
    {"model_version", "admission"},
    {"input_checks", "warm_up", "row_probe", "model_entry", "retirement"},
    {"catalog", "spans", "precision_check"},
    {"plans", "repository", "slow_log", "telemetry", "failures"},
    {"watchdog", "banner", "data_plane", "loading", "inspection", "model_control", "repository_poller"},
    {"servicer"},
    {"shared_memory_rpcs", "repository_rpcs", "trace_rpcs", "log_rpcs"},
    {"transports", "metrics", "http"},
    {"status_page"},
    {"monitor"},
    {"server"},
    {"cli"},
    {"__main__"},
]
LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}

# Who may import what, within the service.
OWNERS = {
    "tensorflow": {"saved_model"},
    "h11": {"http"},
    "prometheus_client": {"metrics"},
    "tensorflow_text": {"saved_model"},
    "keras": {"saved_model"},
    "grpc": {"status", "transports", "server"},
    "grpc_health": {"transports", "server"},
    "pygrpc_native": {"transports"},
    "grpc_reflection": {"transports", "server"},
    "opentelemetry": {"spans"},
    "protos": {
        *(
            "codec",
            "response_codec",
            "statistics_codec",
            "stream_codec",
            "versions",
            "servicer",
            "transports",
            "server",
        ),
        *FAMILY,
        *("shared_memory_rpcs", "repository_rpcs", "trace_rpcs", "log_rpcs"),
        # These only pass a ModelConfig on.
        *("layouts", "repository", "load_plan", "model_control", "loading", "inspection"),
        # They turn a part of a ModelConfig into the batcher's options, and into arrays.
        *("queue_options", "warm_up_samples"),
    },
    # TensorFlow's own messages (graphs, signatures) stay inside saved_model.
    "google": {"codec", "statistics_codec", "servicer", "transports", "server", "saved_model", *FAMILY},
    # The repository is given a function that loads, so that it never imports the runtime.
    "service.saved_model": {"loading", "inspection", "cli"},
}
PROJECT = {"batching", "clients", "protos", "service"}


def modules(package: str, root: Path = ROOT) -> dict[str, Path]:
    """Return the file of each module of a top-level package; ``a.b`` for the package whose file is a/b/__init__.py."""
    files = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return files


def imports(module: str, source: str, *, is_package: bool = False) -> Iterator[str]:
    """Yield the full name of everything that a module imports, wherever in it the import stands."""
    parts = module.split(".")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = parts[: len(parts) - node.level + is_package] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def place(name: str) -> str:
    """Return what stands in ``LAYERS`` for a module of the service, or for something imported from one."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LEVELS else "__init__"


def is_within(name: str, owned: str) -> bool:
    return name == owned or name.startswith(f"{owned}.")


def faults_in_service(module: str, imported: str) -> Iterator[str]:
    """Yield what is wrong with one import in a module of the service."""
    mine = place(module)
    for owned, owners in OWNERS.items():
        if is_within(imported, owned) and mine not in owners and not is_within(module, owned):
            yield f"{module} imports {imported}; only {', '.join(sorted(owners))} may"
    if is_within(imported, "clients"):
        yield f"{module} imports {imported}; the service knows no clients"
    if is_within(imported, "service"):
        theirs = place(imported)
        siblings = {mine, theirs} <= FAMILY or (mine == theirs and mine in PACKAGES)
        if not siblings and theirs != "__init__" and LEVELS[theirs] >= LEVELS[mine]:
            yield f"{module} imports {imported}, which does not lie in a lower layer"


def faults_in_batching(module: str, imported: str) -> Iterator[str]:
    top = imported.partition(".")[0]
    if top not in sys.stdlib_module_names and top not in {"batching", "numpy"}:
        yield f"{module} imports {imported}; batching knows only the standard library and NumPy"


def faults_in_protos(module: str, imported: str) -> Iterator[str]:
    if imported.partition(".")[0] in PROJECT - {"protos"}:
        yield f"{module} imports {imported}; protos know nothing of the project"


def faults_in_clients(module: str, imported: str) -> Iterator[str]:
    if imported.partition(".")[0] in PROJECT - {"clients"}:
        yield f"{module} imports {imported}; clients know the server by its protocol alone"


CHECKS = {
    "batching": faults_in_batching,
    "clients": faults_in_clients,
    "protos": faults_in_protos,
    "service": faults_in_service,
}


def faults(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """Return what is wrong with the imports of a module."""
    check = CHECKS[module.partition(".")[0]]
    return [fault for imported in imports(module, source, is_package=is_package) for fault in check(module, imported)]


def unplaced(names: set[str]) -> set[str]:
    """Return the modules of the service that have no place in ``LAYERS``."""
    return {name for name in names if name != "service" and name.split(".")[1] not in LEVELS}


@pytest.mark.parametrize("package", CHECKS)
def test_imports_go_one_way(package):
    found = [
        fault
        for module, path in modules(package).items()
        for fault in faults(module, path.read_text(), is_package=path.name == "__init__.py")
    ]

    assert found == []


def test_every_module_of_the_service_has_a_place():
    assert unplaced(set(modules("service"))) == set()


def test_every_place_is_taken():
    present = {name.split(".")[1] for name in modules("service") if name != "service"} | {"__init__"}

    assert set(LEVELS) - present == set()
    assert present >= FAMILY


def test_no_place_is_given_twice():
    assert sum(map(len, LAYERS)) == len(LEVELS)


# The checks can fail: each of these made-up imports is wrong.
@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("service.errors", "from service import data_plane"),
        ("service.errors", "import service.data_plane"),
        ("service.errors", "import service.data_plane as plane"),
        ("service.data_plane", "from service.servicer import Servicer"),
        ("service.data_plane", "from .servicer import Servicer"),
        ("service.data_plane", "from . import servicer"),
        ("service.data_plane", "def f():\n    from service.cli import main"),
        ("service.datatypes", "from service.errors import SignetError"),
        ("service.datatypes", "if TYPE_CHECKING:\n    from service.signature import Signature"),
        ("service.saved_model.files", "from service.repository import Repository"),
        ("service.saved_model.files", "from ..repository import Repository"),
        ("service.transports.grpcio", "from service.server import Server"),
        ("service.model_config", "from service.versions import choose_versions"),
        ("service.repository", "from service import saved_model"),
        ("service.repository", "from service.saved_model.files import read"),
        ("service.data_plane", "import tensorflow as tf"),
        ("service.warm_up", "def f():\n    import tensorflow.core.protobuf"),
        ("service.servicer", "import grpc"),
        ("service.data_plane", "from grpc.aio import server"),
        ("service.data_plane", "from protos import grpc_service_pb2 as pb"),
        ("service.request", "from protos.model_config_pb2 import ModelConfig"),
        ("service.versions", "from google.protobuf import text_format"),
        ("service.saved_model.files", "from protos.model_config_pb2 import ModelConfig"),
        ("service.cli", "from clients.demo import calls"),
        ("batching.task", "import service"),
        ("batching.task", "from service.errors import SignetError"),
        ("batching.task", "import grpc"),
        ("batching.task", "from google.protobuf import message"),
        ("batching.task", "import tensorflow"),
        ("clients.demo.calls", "from service.datatypes import DATATYPES"),
        ("clients.demo.calls", "from protos import grpc_service_pb2"),
        ("protos.grpc_service_pb2", "import service"),
    ],
)
def test_a_wrong_import_is_a_fault(module, source):
    (fault,) = faults(module, source)

    assert fault.startswith(f"{module} imports ")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("service.data_plane", "from service import errors, raw_tensor\nfrom service.repository import Repository"),
        ("service.data_plane", "from .repository import Repository\nfrom batching.task import Task\nimport numpy"),
        ("service.server", "import service\nfrom service import __version__\nimport grpc"),
        ("service.saved_model.files", "from service.saved_model.memory import trim\nimport tensorflow as tf"),
        ("service.saved_model.files", "from .memory import trim\nfrom ..errors import LoadError"),
        ("service.model_config", "from service.config_tensors import pair_signature"),
        ("service.transports.grpcio", "from service.transports.health import Health"),
        ("service.loading", "from service import saved_model"),
        ("batching.lane", "import threading\nimport numpy as np\nfrom batching.task import Task\nfrom . import task"),
        ("clients.demo.calls", "import tritonclient.grpc\nfrom clients.demo.quality import Quality"),
    ],
)
def test_a_right_import_is_no_fault(module, source):
    assert faults(module, source) == []


def test_a_package_reads_its_relative_imports_from_itself():
    source = "from .files import read\nfrom ..repository import Repository"

    assert list(imports("service.saved_model", source, is_package=True)) == [
        "service.saved_model.files.read",
        "service.repository.Repository",
    ]


def test_a_module_without_a_place_is_found(tmp_path):
    for name in ("service/__init__.py", "service/codec.py", "service/novelty.py", "service/more/thing.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()

    assert unplaced(set(modules("service", tmp_path))) == {"service.novelty", "service.more.thing"}
