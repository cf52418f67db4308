import pytest

from clients.benchmarks.figures import Measurement


@pytest.mark.parametrize("pool", [False, True])
def test_the_bare_loop_yields_the_figures_of_a_measurement(pool, tmp_path):
    from clients.benchmarks.bare import Loop, Order
    from clients.benchmarks.export import export_toy

    export_toy(tmp_path / "toy")
    loop = Loop(tmp_path / "toy", intra_op_threads=1, inter_op_threads=1, pool=pool)

    figures = Measurement(**loop.run(Order("scores", rows=3, threads=2, seconds=0.05)))

    assert loop.device == "CPU:0"
    assert figures.rows_per_run == 3
    assert 0 < figures.p50_ms <= figures.p99_ms
    assert figures.cpu_ms > 0
    assert figures.requests_per_s > 10
