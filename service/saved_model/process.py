"""The settings that TensorFlow reads when it starts. This module must be usable before TensorFlow is imported."""

import logging
import os
import tempfile
import threading
from dataclasses import replace

from service.devices import GpuAllocator
from service.errors import LoadError
from service.saved_model.options import RuntimeOptions
from service.threads import default_threads

_XLA_FLAGS = "--tf_xla_cpu_global_jit --tf_xla_enable_lazy_compilation=false"
"""What TensorFlow chooses is compiled on CPUs, too, and at the first run, not at a later one."""

logger = logging.getLogger(__name__)

_lock = threading.Lock()
_chosen: list[RuntimeOptions] = []


def configure(options: RuntimeOptions) -> None:
    """Fix the settings of the whole process; see ``service.saved_model.configure``.

    Raises:
        LoadError: they were fixed before, with other values, or no directory can be written.
    """
    _check_temporary_directory()
    resolved = _with_threads(options)
    with _lock:
        if not _chosen:
            _set_environment(resolved)
            _chosen.append(resolved)
        elif _chosen[0] != resolved:
            raise LoadError(f"TensorFlow's settings are fixed once per process: {_difference(_chosen[0], resolved)}")


def chosen() -> RuntimeOptions:
    """Return the settings in force, with numbers of threads; the defaults become fixed when nothing else was said."""
    with _lock:
        if _chosen:
            return _chosen[0]
    configure(RuntimeOptions())
    return _chosen[0]


def _check_temporary_directory() -> None:
    """Say before TensorFlow's import does, in a hundred lines, that it needs a place to write."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        raise LoadError(
            f"TensorFlow cannot start: {error.strerror}. Mount a place that can be written at /tmp (in Kubernetes an"
            " emptyDir), or name a directory in TMPDIR"
        ) from error


def _with_threads(options: RuntimeOptions) -> RuntimeOptions:
    threads = default_threads()
    return replace(
        options,
        intra_op_threads=options.intra_op_threads or threads,
        inter_op_threads=options.inter_op_threads or threads,
        omp_threads=options.omp_threads or threads,
    )


def _set_environment(options: RuntimeOptions) -> None:
    """Set what TensorFlow's libraries read from the environment when they are loaded."""
    os.environ["OMP_NUM_THREADS"] = str(options.omp_threads)
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(options.intra_op_threads)
    os.environ["TF_NUM_INTEROP_THREADS"] = str(options.inter_op_threads)
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    os.environ["TF_XLA_FLAGS"] = f"{_XLA_FLAGS} {os.environ.get('TF_XLA_FLAGS', '')}".strip()
    if options.gpu_allocator is not GpuAllocator.BFC:
        os.environ["TF_GPU_ALLOCATOR"] = options.gpu_allocator.value
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = str(_cpp_log_level(options.log_level))
    logger.info(
        "TensorFlow's threads: %d within an op, %d for ops side by side, %d for OpenMP",
        options.intra_op_threads,
        options.inter_op_threads,
        options.omp_threads,
    )


def _cpp_log_level(level: int) -> int:
    """Return TensorFlow's number for a level of ``logging``: 0 shows information, 1 warnings, 2 errors, 3 the fatal."""
    return min(3, max(0, (level - logging.INFO + 9) // 10))


def _difference(one: RuntimeOptions, other: RuntimeOptions) -> str:
    names = [name for name in vars(one) if getattr(one, name) != getattr(other, name)]
    return ", ".join(f"{name} is {getattr(one, name)}, not {getattr(other, name)}" for name in names)
