"""The commands that talk to a server, against a running one."""

import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import tritonclient.grpc as triton
from google.protobuf import text_format
from PIL import Image
from typer.testing import CliRunner

from clients.digits.pictures import GREY_PER_INK, encode_png
from protos.model_config_pb2 import ModelConfig
from service import cli
from tests.end_to_end.calls import call, texts

pytestmark = pytest.mark.end_to_end

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def run(digits_server):
    """Return a function that runs the program against the server on the digits."""

    def invoke(*arguments, url=digits_server.address, **options):
        return CliRunner().invoke(cli.app, [*map(str, arguments), "--url", url], **options)

    return invoke


def read(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_infer_answers_as_the_model_does(run, digits):
    image = digits.held_out.images[0]
    answer = read(run("infer", "digits", "-s", "predict", "-i", f"images={image.tolist()}", "--json"))

    assert (answer["model"], answer["version"], answer["signature"]) == ("digits", "1", "predict")
    assert answer["outputs"]["class"] == {"datatype": "INT64", "shape": [1], "data": [digits.held_out.labels[0]]}
    assert 0 < answer["outputs"]["score"]["data"][0] <= 1


def test_infer_takes_files_and_standard_input(run, digits, tmp_path):
    images = digits.held_out.images[:4]
    classes = digits.signatures["predict"](images=images)["class"].numpy().tolist()
    np.save(tmp_path / "images.npy", images)
    (tmp_path / "digit.png").write_bytes(encode_png(images[0]))
    Image.fromarray((images[0] * GREY_PER_INK).astype(np.uint8)).save(tmp_path / "grey.bmp")
    common = ("infer", "digits", "--json", "-s")

    npy = read(run(*common, "predict", "-i", f"images=@{tmp_path}/images.npy"))
    png = read(run(*common, "predict_png", "-i", f"png=@{tmp_path}/digit.png"))
    bmp = read(run(*common, "predict", "-i", f"images=@{tmp_path}/grey.bmp"))
    stdin = read(run(*common, "predict", "-i", "-", input=json.dumps({"images": images.tolist()})))

    assert npy["outputs"]["class"]["data"] == classes
    assert stdin == npy
    assert png["outputs"]["class"]["data"] == classes[:1]
    assert bmp["outputs"]["class"]["shape"] == [1]


def test_infer_prints_a_table(run):
    output = run("infer", "digits", "-s", "metadata").output

    for text in ("class_names", "BYTES", "[10]", '"seven"', "1437"):
        assert text in output


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["infer", "digits"], ["no default signature", "embed_text, embeddings"]),
        (["infer", "digits", "-s", "predcit"], ["no signature 'predcit'", "predict, predict_png"]),
        (["infer", "dogs"], ["NOT_FOUND", "'dogs'", "there are: digits, vocabulary"]),
        (["infer", "digits", "-s", "predict"], ["INVALID_ARGUMENT", "takes: images FP32[-1,8,8]"]),
        (["infer", "digits", "-s", "predict", "-i", "images=seven"], ["no JSON value", "[1, 2]", "@FILE"]),
        (["infer", "digits", "-s", "predict", "-i", "images=[[1,2]]"], ["[1,1,2]", "[-1,8,8]"]),
        (["infer", "digits", "-s", "predict", "-i", "image=1"], ["no input 'image'", "images FP32[-1,8,8]"]),
        (["bench", "digits", "-s", "predict_png"], ["first request failed", "Unknown image file format"]),
        (["load", "dogs"], ["failed to load 'dogs'"]),
        (["export-config", "dogs"], ["NOT_FOUND", "'dogs'"]),
    ],
)
def test_refusals_are_one_line_with_what_to_do(run, arguments, texts):
    result = run(*arguments)

    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("signet: ")
    for text in texts:
        assert text in line
    assert line.count("FP32[-1,8,8]") <= 1
    assert "id_unknown" not in line


def test_port_of_another_protocol_is_told(run, digits_server):
    result = run("status", "--once", url=digits_server.http_address)

    assert result.exit_code == 3
    assert result.stderr.startswith(f"signet: what listens at {digits_server.http_address} does not speak gRPC")


@pytest.mark.parametrize("command", ["infer x", "status --once", "load x", "unload x", "bench x", "export-config x"])
def test_no_server_is_an_exit_code_of_its_own(run, command):
    result = run(*command.split(), url=NOWHERE)

    assert result.exit_code == 3
    assert result.stderr == (
        f"signet: no server answers at {NOWHERE}; start one with `signet serve`, or say --url HOST:PORT\n"
    )


def test_status_shows_what_model_statistics_and_metrics_say(run, digits_server, digits):
    with triton.InferenceServerClient(digits_server.address) as client:
        for _ in range(3):
            call(client, "digits", {"images": digits.held_out.images[:5]}, "embeddings")
        stats = client.get_inference_statistics("digits:embeddings").model_stats[0]
    url = f"http://{digits_server.http_address}/metrics"
    shown = read(run("status", "--once", "--json", "--metrics-url", url))
    (line,) = (each for each in shown["signatures"] if each["signature"] == "embeddings")

    assert {"model": "digits", "version": "1", "state": "READY", "reason": ""} in shown["versions"]
    assert {each["signature"] for each in shown["signatures"] if each["model"] == "digits"} == set(digits.signatures)
    assert (line["requests"], line["failed"]) == (stats.inference_stats.success.count, stats.inference_stats.fail.count)
    assert (line["rows"], line["runs"]) == (stats.inference_count, stats.execution_count)
    assert line["mean_ms"] == pytest.approx(
        stats.inference_stats.success.ns / stats.inference_stats.success.count / 1e6
    )
    assert line["waiting"] == 0
    assert 0 < line["p50_ms"] <= line["p99_ms"]


def test_status_of_a_model_with_one_signature_knows_its_name_from_the_metrics(run, digits_server):
    with triton.InferenceServerClient(digits_server.address) as client:
        call(client, "vocabulary", {"word": texts(b"two")})
        stats = client.get_inference_statistics("vocabulary").model_stats[0]
    url = f"http://{digits_server.http_address}/metrics"
    shown = read(run("status", "--once", "--json", "--metrics-url", url))
    (line,) = (each for each in shown["signatures"] if each["model"] == "vocabulary")

    assert line["signature"] == "serving_default"
    assert line["requests"] == stats.inference_stats.success.count


def test_status_looks_again_until_it_is_stopped(digits_server):
    command = [sys.executable, "-m", "service", "status", "--json", "--every", "0.1", "--url", digits_server.address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()

    assert first["signatures"][0]["requests_per_s"] is None
    assert second["signatures"][0]["requests_per_s"] >= 0
    assert (process.returncode, errors) == (0, "")


def test_status_is_a_table_for_people(run):
    output = run("status", "--once").output

    assert re.search(r"^digits, 1 *$\n(^ .*\n)* predict_png +[-\d]+ +[\d,]+ +\d", output, re.MULTILINE)
    assert max(map(len, (line.rstrip() for line in output.splitlines()))) <= 80


def test_bench_counts_what_the_server_counts_and_writes_its_page(run, digits_server, tmp_path):
    with triton.InferenceServerClient(digits_server.address) as client:
        before = client.get_inference_statistics("digits:predict").model_stats[0].inference_stats.success.count
        options = ("--duration", 0.5, "-c", 3, "--rows", 2, "--html", tmp_path / "page.html", "--json")
        facts = read(run("bench", "digits", "-s", "predict", *options))
        after = client.get_inference_statistics("digits:predict").model_stats[0].inference_stats.success.count

    assert facts["answers"] + 1 == after - before  # one before the time starts
    assert (facts["errors"], facts["concurrency"], facts["rows_per_request"]) == (0, 3, 2)
    assert 0 < facts["p50_ms"] <= facts["p99_ms"] <= facts["max_ms"]
    assert 0 < facts["server_mean_ms"] < facts["mean_ms"]
    assert f"{facts['answers']:,}" in (tmp_path / "page.html").read_text()


def test_bench_prints_figures_and_a_histogram(run):
    output = run("bench", "digits", "-s", "metadata", "--duration", 0.2).output

    assert "p99_ms" in output
    assert "█" in output


def test_export_config_is_what_inspect_completes(run, digits, tmp_path):
    (tmp_path / "digits").symlink_to(digits.directory)
    exported = text_format.Parse(run("export-config", "digits").stdout, ModelConfig())
    inspected = CliRunner().invoke(cli.app, ["inspect", "--config", str(tmp_path / "digits")]).stdout

    assert exported == text_format.Parse(inspected, ModelConfig())
    assert read(run("export-config", "digits", "--json"))["name"] == "digits"


def test_unload_and_load_a_model(run, server):
    assert run("unload", "digits").output == "digits: asked to unload\n"
    assert "digits 1 UN" in run("status", "--once").output  # UNLOADING or UNAVAILABLE
    assert read(run("load", "digits", "--json")) == {"model": "digits", "versions": ["1"]}

    refused = run("load", "kit", url=server.address)
    assert refused.exit_code == 1
    assert "explicit model load / unload is not allowed" in refused.stderr
    assert refused.stderr.endswith("; start the server with --model-control-mode explicit\n")


def test_every_command_reaches_a_server_at_a_unix_socket(run, digits_server):
    url = f"unix:{digits_server.model / 'signet.sock'}"
    answers = {
        command: read(run(*command.split(), "--json", url=url))
        for command in (
            "infer digits -s embed_text -i words=seven",
            "status --once",
            "bench digits -s embed_text --duration 0.2",
            "load digits",
            "export-config digits",
        )
    }

    assert answers["infer digits -s embed_text -i words=seven"]["outputs"]["embedding"]["shape"] == [1, 32]
    assert answers["status --once"]["versions"][0]["state"] == "READY"
    assert answers["bench digits -s embed_text --duration 0.2"]["answers"] > 0
    assert answers["load digits"] == {"model": "digits", "versions": ["1"]}
    assert answers["export-config digits"]["name"] == "digits"


def test_shells_complete_the_commands():
    words = {"_SIGNET_COMPLETE": "complete_bash", "COMP_WORDS": "signet in", "COMP_CWORD": "1"}
    completed = CliRunner().invoke(cli.app, [], prog_name="signet", env=words)

    assert completed.output.split() == ["inspect", "infer"]
    assert "--install-completion" in CliRunner().invoke(cli.app, ["--help"]).output
