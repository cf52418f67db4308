"""Every example runs against a server on the demo's model and prints what its text promises."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clients import examples
from tests.end_to_end.forwarder import forwarder

pytestmark = pytest.mark.end_to_end

HELPERS = {"__init__", "arguments", "picture"}
IN_A_PROCESS_OF_ITS_OWN = {"raw_stubs"}

PRINTED = {
    "asyncio_client": "20 answers, all a 0",
    "callbacks": r"(?s)(?=.*request 0: 0)(?=.*request 19: 0).*",
    "deadlines": "in time: 0\ntoo late: StatusCode.DEADLINE_EXCEEDED",
    "list_signatures": r"(?s).*image_threshold: nothing -> threshold\n.*predict: images -> class, score",
    "load_balancing": r"10 answers: \[(0, ){9}0\]",
    "reflection": r"(?s)methods: .*ModelInfer.*class INT64\[1\]: 0{16}\nscore FP32\[1\]: [0-9a-f]{8}",
    "retries": "a 0",
    "several_signatures": r"(?s)zero: 0\.\d\d, named\none: -?0\.\d\d, not named\n.*Handwritten digits",
    "shared_memory": r"an embedding of length 1\.00",
    "signature_by_name": r"digits answered 0\n  by signature predict\ndigits:predict answered 0\n  by",
    "streaming": "predict: class, score\nno_such_signature: .*has no signature.*\nembeddings: embedding",
    "strings": r"(?s)b?'seven': names a digit\nb?' Seven ': names a digit\nb?'sept': names none\n.*zero one two",
    "synchronous": r"a 0, with probability 0\.\d\d|a 0, with probability 1\.00",
}


def test_every_example_is_tested():
    names = {path.stem for path in Path(examples.__path__[0]).glob("*.py")}

    assert names - HELPERS - IN_A_PROCESS_OF_ITS_OWN == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_example_prints_what_it_should(digits_server, capsys, name):
    importlib.import_module(f"clients.examples.{name}").run(digits_server.address)

    assert re.match(PRINTED[name], capsys.readouterr().out)


@pytest.mark.parametrize("name", ["raw_stubs", "synchronous"])
def test_example_runs_as_a_program(digits_server, name):
    run = subprocess.run(
        [sys.executable, "-m", f"clients.examples.{name}", "--url", digits_server.address],
        capture_output=True, text=True, timeout=60, check=True, env=os.environ | {"GRPC_VERBOSITY": "NONE"},
    )  # fmt: skip

    assert run.stdout.startswith("a 0")


def test_load_balancing_uses_every_address(digits_server, capsys):
    from clients.examples import load_balancing

    with forwarder(digits_server.address) as one, forwarder(digits_server.address) as other:
        ports = [server.server_address[1] for server in (one, other)]
        load_balancing.run(f"ipv4:127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}")

    assert "10 answers" in capsys.readouterr().out
    # Five requests of 256 bytes of picture each, at least, went each way.
    assert min(one.forwarded, other.forwarded) > 3 * 256
