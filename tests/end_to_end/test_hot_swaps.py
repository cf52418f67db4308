"""A large model is swapped a hundred times under steady traffic, and nobody notices."""

import asyncio
import gc
import time

import numpy as np
import pytest
import tritonclient.grpc.aio as triton

from clients.server_process import ServerProcess
from tests.end_to_end.conftest import START_S, STOP_S
from tests.end_to_end.hot_swaps import Traffic
from tests.exports.weights import export_numbered

pytestmark = [pytest.mark.end_to_end, pytest.mark.slow, pytest.mark.timeout(900)]

SWAPS = 100
MEGABYTES = 200
REQUESTS_PER_S = 200
QUIET_S = 1.5
"""From the end of a swap to the begin of the next; what is due in its second half counts as quiet."""


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """Return a repository, and a function that puts a version there: odd numbers answer 1, even ones 2."""
    root = tmp_path_factory.mktemp("swapped")
    exports = [export_numbered(root / f"answers_{number}", number, MEGABYTES) for number in (1, 2)]
    model = root / "models" / "clip"
    model.mkdir(parents=True)

    def put(version):
        (model / str(version)).symlink_to(exports[(version - 1) % 2])
        (model / str(version - 2)).unlink(missing_ok=True)

    put(1)
    return model.parent, put


async def swap_under_traffic(server, put):
    """Return what became of the requests, and the server's memory before the first swap and after each, in MiB."""
    sizes = []
    async with triton.InferenceServerClient(server.address) as client:
        traffic = Traffic(client, "clip", REQUESTS_PER_S)
        running = asyncio.create_task(traffic.run())
        await asyncio.sleep(2 * QUIET_S)
        for version in range(2, SWAPS + 2):
            await asyncio.sleep(QUIET_S)
            sizes.append(server.resident_mib())
            put(version)
            begun = time.perf_counter()
            await client.load_model("clip")
            traffic.record.swaps.append((begun, time.perf_counter() + QUIET_S / 2))  # the old copy is freed after it
        await asyncio.sleep(QUIET_S)
        sizes.append(server.resident_mib())
        traffic.stop()
        await running
    return traffic.record, sizes


def percentile(latencies_ms, percent):
    return float(np.percentile(latencies_ms, percent))


def test_hundred_swaps_lose_no_request_mix_no_versions_and_leave_no_memory_behind(versions):
    repository, put = versions
    gc.collect()
    gc.freeze()  # TensorFlow is imported here, too: a collection in the client would be measured as the server's
    with ServerProcess(repository, "--model-control-mode", "explicit", "--load-model", "*") as server:
        server.wait_until_ready(START_S)
        record, sizes = asyncio.run(swap_under_traffic(server, put))
        assert server.stop(STOP_S) == 0
    quiet, swapping = record.latencies_ms(swapping=False), record.latencies_ms(swapping=True)
    shown = {
        name: [round(percentile(latencies, percent), 1) for percent in (50, 90, 99, 99.9)]
        for name, latencies in (("quiet", quiet), ("swapping", swapping))
    }
    figures = f"ms at 50, 90, 99, 99.9 %: {shown}; MiB: {[round(sizes[after]) for after in (0, 10, 60, SWAPS)]}"
    print(figures)  # noqa: T201 - shown with -s

    assert record.faults == []
    assert len(record.answers) > SWAPS * QUIET_S * REQUESTS_PER_S
    assert sizes[60] < sizes[10] * 1.1, figures
    assert max(sizes) < sizes[0] + MEGABYTES / 2, figures
    assert percentile(swapping, 99) < 3 * percentile(quiet, 99) + 10, figures
