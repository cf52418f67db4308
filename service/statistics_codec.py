"""Counters to the messages of ModelStatistics."""

from protos import grpc_service_pb2 as pb
from service.model_statistics import Compute, Duration, Statistics


def encode(name: str, version: str, statistics: Statistics) -> pb.ModelStatistics:
    """Return the message for one model, version or alias; every member is present, also at zero."""
    return pb.ModelStatistics(
        name=name,
        version=version,
        last_inference=statistics.last_inference_ms,
        inference_count=statistics.inference_count,
        execution_count=statistics.execution_count,
        inference_stats=pb.InferStatistics(
            success=_duration(statistics.success),
            fail=_duration(statistics.fail),
            queue=_duration(statistics.queue),
            compute_input=_duration(statistics.compute.input),
            compute_infer=_duration(statistics.compute.infer),
            compute_output=_duration(statistics.compute.output),
            cache_hit=pb.StatisticDuration(),
            cache_miss=pb.StatisticDuration(),
        ),
        batch_stats=[_batch(size, compute) for size, compute in sorted(statistics.batches.items())],
    )


def _duration(duration: Duration) -> pb.StatisticDuration:
    return pb.StatisticDuration(count=duration.count, ns=duration.ns)


def _batch(size: int, compute: Compute) -> pb.InferBatchStatistics:
    return pb.InferBatchStatistics(
        batch_size=size,
        compute_input=_duration(compute.input),
        compute_infer=_duration(compute.infer),
        compute_output=_duration(compute.output),
    )
