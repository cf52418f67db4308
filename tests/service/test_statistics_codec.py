import pytest
from google.protobuf import json_format
from tritonclient.grpc import service_pb2 as theirs

from service.model_statistics import FailureReason, RunDurations, SignatureStatistics, Statistics
from service.statistics_codec import encode

MEMBERS = ["success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"]


@pytest.fixture
def statistics():
    recorder = SignatureStatistics()
    for rows, factor in ((16, 1), (2, 10), (2, 10)):
        durations = RunDurations(input_ns=factor, infer_ns=2 * factor, output_ns=3 * factor)
        recorder.record_run(rows, durations)
        recorder.record_successes(rows, [1000], 100, durations)
    recorder.record_failure(77, FailureReason.BACKEND)
    return recorder.snapshot()


def as_client_reads(message):
    parsed = theirs.ModelStatistics.FromString(message.SerializeToString())
    return json_format.MessageToDict(parsed, preserving_proto_field_name=True)


def test_all_members_are_present_also_at_zero():
    message = encode("m", "1", Statistics())

    assert [name for name in MEMBERS if not message.inference_stats.HasField(name)] == []
    assert as_client_reads(message) == {
        "name": "m",
        "version": "1",
        "inference_stats": {name: {} for name in MEMBERS},
    }


def test_the_stock_client_reads_every_counter(statistics):
    read = as_client_reads(encode("m:embed", "3", statistics))

    assert {key: read[key] for key in ("name", "version", "inference_count", "execution_count")} == {
        "name": "m:embed",
        "version": "3",
        "inference_count": "20",
        "execution_count": "3",
    }
    assert int(read["last_inference"]) == statistics.last_inference_ms > 0
    assert read["inference_stats"] == {
        "success": {"count": "3", "ns": "3000"},
        "fail": {"count": "1", "ns": "77"},
        "queue": {"count": "3", "ns": "300"},
        "compute_input": {"count": "3", "ns": "21"},
        "compute_infer": {"count": "3", "ns": "42"},
        "compute_output": {"count": "3", "ns": "63"},
        "cache_hit": {},
        "cache_miss": {},
    }


def test_batch_sizes_come_in_ascending_order(statistics):
    assert as_client_reads(encode("m", "1", statistics))["batch_stats"] == [
        {
            "batch_size": "2",
            "compute_input": {"count": "2", "ns": "20"},
            "compute_infer": {"count": "2", "ns": "40"},
            "compute_output": {"count": "2", "ns": "60"},
        },
        {
            "batch_size": "16",
            "compute_input": {"count": "1", "ns": "1"},
            "compute_infer": {"count": "1", "ns": "2"},
            "compute_output": {"count": "1", "ns": "3"},
        },
    ]
