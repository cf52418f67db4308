"""The demo as its user runs it."""

import os
import signal
import subprocess
import sys

import pytest

from tests.documents import blocks, is_part_of

pytestmark = pytest.mark.end_to_end

TIMEOUT_S = 180
SIGNATURES = {
    "predict",
    "embeddings",
    "predict_png",
    "embed_text",
    "image_threshold",
    "text_threshold",
    "metadata",
    "debug_predict",
    "debug_embeddings",
}


def run_demo(*arguments, **environment):
    """Return the exit code and all that the demo printed; it and its server are gone afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "clients.demo", *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return process.returncode, output


def test_demo_gets_every_answer_right_and_keeps_the_model_where_it_is_told(tmp_path):
    exit_code, output = run_demo("--model-dir", str(tmp_path))
    assert exit_code == 0, output
    rows = [line.split("│")[1:-1] for line in output.splitlines() if line.startswith("│")]
    results = {row[0].strip(): row[5].strip() for row in rows if row[0].strip()}
    assert results == dict.fromkeys(SIGNATURES, "all right")
    assert "answers was right" in output
    assert (tmp_path / "digits" / "saved_model.pb").is_file()
    (shown,) = [block for block in blocks("text") if block.file.name == "README.md"]
    assert is_part_of(shown.text, output), output


def test_demo_says_why_the_server_did_not_start_and_fails():
    foreign_address = "192.0.2.1"  # of a range that belongs to no machine, so that it cannot be bound
    exit_code, output = run_demo(SIGNET_GRPC_ADDRESS=foreign_address)
    assert exit_code == 1
    assert "The demo failed. The server did not start; it ended with exit code 1." in output
    assert foreign_address in output.split("The last lines of its log:")[1]
    assert "Traceback" not in output
