"""A command line of TensorFlow Serving becomes one of ours."""

import subprocess
import sys

import pytest
import typer

from service import cli
from service.errors import LoadError
from service.tensorflow_serving_flags import translate

DOCKER = ["--port=8500", "--rest_api_port=8501", "--model_name=clip", "--model_base_path=/models/clip"]


def test_command_of_the_stock_image_serves_the_same_model_at_the_same_port():
    assert translate(DOCKER) == (
        ["--grpc-port", "8500", "--model", "clip=/models/clip"],
        ["--rest_api_port is ignored: there is no REST inference"],
    )


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["--port", "8500"], ["--grpc-port", "8500"]),
        (["--model_base_path=/m"], ["--model", "default=/m"]),
        (["--model_config_file=/a=b"], ["--model-config-file", "/a=b"]),
        (["--batching_parameters_file=b.txt"], ["--batching-parameters-file", "b.txt"]),
        (["--enable_batching"], []),
        (["--enable_batching=true"], []),
        (["--enable_batching=false"], ["--default-max-batch-size", "0"]),
        (["--tensorflow_session_parallelism=4"], ["--intra-op-threads", "4", "--inter-op-threads", "4"]),
        (
            ["--tensorflow_intra_op_parallelism=4", "--tensorflow_inter_op_parallelism=2"],
            ["--intra-op-threads", "4", "--inter-op-threads", "2"],
        ),
        (
            ["--file_system_poll_wait_seconds=3"],
            ["--model-control-mode", "poll", "--repository-poll-secs", "3"],
        ),
        (
            ["--model_config_file_poll_wait_seconds=60"],
            ["--model-control-mode", "poll", "--repository-poll-secs", "60"],
        ),
        (["--file_system_poll_wait_seconds=0"], []),
        (["mine", "--grpc-port", "1", "--model=a=b"], ["mine", "--grpc-port", "1", "--model=a=b"]),
        (["--ssl_config_file=x"], ["--ssl_config_file=x"]),
    ],
)
def test_each_flag_means_what_it_means_there(flags, options):
    assert translate(flags) == (options, [])


def test_what_means_nothing_here_is_ignored_with_a_warning_and_takes_nothing_with_it():
    options, warnings = translate(
        ["--grpc_max_threads", "8", "--flush_filesystem_caches", "PATH", "--enable_model_warmup=true", "--port", "1"]
    )

    assert options == ["PATH", "--grpc-port", "1"]
    assert [warning.split(" is ignored: ")[0] for warning in warnings] == [
        "--grpc_max_threads",
        "--flush_filesystem_caches",
        "--enable_model_warmup",
    ]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--model_name=clip"], "--model_name clip: needs --model_base_path, too"),
        (["--model_base_path=/m", "--port"], "--port: a value is missing"),
    ],
)
def test_flag_that_is_not_whole_is_refused(flags, says):
    with pytest.raises(LoadError, match=says):
        translate(flags)


def test_every_option_that_flags_become_is_there():
    parser = typer.main.get_command(cli.app).commands["serve"]
    known = {name for parameter in parser.params for name in parameter.opts}
    flags = [
        *DOCKER,
        *("--model_config_file=a", "--batching_parameters_file=a", "--enable_batching=false"),
        *("--tensorflow_session_parallelism=1", "--file_system_poll_wait_seconds=1"),
    ]

    assert {option for option in translate(flags)[0] if option.startswith("--")} <= known


def test_flag_that_is_not_whole_is_told_in_one_line():
    run = subprocess.run(
        [sys.executable, "-m", "service", "serve", "--rest_api_port=1", "--model_name=clip"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (run.returncode, run.stderr) == (1, "signet: --model_name clip: needs --model_base_path, too\n")
