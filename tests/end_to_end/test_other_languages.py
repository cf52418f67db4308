"""The programs of docs/clients.md in Go and Java get the model's own answer, where Debian's packages for them are.

They are golang-google-grpc-dev, golang-google-protobuf-dev, protoc-gen-go and protoc-gen-go-grpc; default-jdk-headless,
libgrpc-java, libnetty-java, libperfmark-java and protobuf-compiler-grpc-java-plugin.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.documents import ROOT, blocks

pytestmark = [pytest.mark.end_to_end, pytest.mark.slow]

TIMEOUT_S = 240
GO_LIBRARIES = Path("/usr/share/gocode")
JARS = Path("/usr/share/java")
JARS_NEEDED = ("grpc-*", "guava", "netty-*", "perfmark-*", "protobuf", "geronimo-annotation*")

GO = """
package main

import (
	"context"
	"fmt"
	"log"
	"signet/inference"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Debian's library speaks an older form of Go's messages than Debian's protoc-gen-go writes.
type codec struct{{}}

func (codec) Name() string                                  {{ return "proto" }}
func (codec) Marshal(v interface{{}}) ([]byte, error)         {{ return proto.Marshal(v.(proto.Message)) }}
func (codec) Unmarshal(data []byte, v interface{{}}) error    {{ return proto.Unmarshal(data, v.(proto.Message)) }}

func main() {{
{program}
	if err != nil {{
		log.Fatal(err)
	}}
	fmt.Printf("%x", response.RawOutputContents[0])
}}
"""

JAVA = """
import inference.GRPCInferenceServiceGrpc;
import inference.GrpcService.*;
import com.google.protobuf.ByteString;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.concurrent.TimeUnit;

public class Main {{
  public static void main(String[] arguments) {{
{program}
    while (embedding.hasRemaining()) System.out.print(embedding.get() + " ");
    channel.shutdownNow();
  }}
}}
"""


def needs(*programs, files=()):
    missing = [name for name in programs if not shutil.which(name)] + [str(file) for file in files if not file.exists()]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def run(directory, *command, **environment):
    done = subprocess.run(
        [str(each) for each in command],
        cwd=directory, env=os.environ | environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def program(language):
    (block,) = blocks(language)
    return block.text


def protoc(directory, *options):
    """Write the stubs for a language into the directory."""
    directory.mkdir(parents=True)
    names = ("grpc_service.proto", "model_config.proto")
    run(directory, "protoc", f"-I{ROOT / 'protos'}", *options, *names)


@pytest.fixture
def embedding(digits):
    return digits.signatures["embed_text"](words=[b"seven"])["embedding"].numpy()[0]


@needs("go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc", files=[GO_LIBRARIES / "src/google.golang.org/grpc"])
def test_program_in_go_gets_the_answer(digits_server, embedding, tmp_path):
    packages = [f"--go_opt=M{name}.proto=signet/inference" for name in ("grpc_service", "model_config")]
    packages += [option.replace("--go_", "--go-grpc_") for option in packages]
    relative = ("--go_opt=paths=source_relative", "--go-grpc_opt=paths=source_relative")
    protoc(tmp_path / "src/signet/inference", "--go_out=.", "--go-grpc_out=.", *packages, *relative)
    # It is also older than grpc.NewClient, and calls the same thing Dial.
    options = "grpc.WithInsecure(), grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{}))"
    text, found = re.subn(
        r"grpc\.NewClient\(.*\)\n", f'grpc.Dial("{digits_server.address}", {options})\n', program("go")
    )
    assert found == 1
    (tmp_path / "main.go").write_text(GO.format(program=text))
    printed = run(
        tmp_path, "go", "run", "main.go",
        GO111MODULE="off", GOPATH=f"{tmp_path}:{GO_LIBRARIES}", GOCACHE=str(tmp_path / "cache"),
    )  # fmt: skip

    np.testing.assert_allclose(np.frombuffer(bytes.fromhex(printed), np.float32), embedding, rtol=1e-5)


@needs("javac", "java", "protoc", "grpc_java_plugin", files=[JARS / "grpc-netty.jar"])
def test_program_in_java_gets_the_answer(digits_server, embedding, tmp_path):
    plugin = f"--plugin=protoc-gen-grpc-java={shutil.which('grpc_java_plugin')}"
    protoc(tmp_path / "java", "--java_out=.", "--grpc-java_out=.", plugin)
    host, port = digits_server.address.rsplit(":", 1)
    text = program("java").replace('"127.0.0.1", 8001', f'"{host}", {port}')
    (tmp_path / "java/Main.java").write_text(JAVA.format(program=text))
    classes = ":".join([".", *(str(jar) for name in JARS_NEEDED for jar in JARS.glob(f"{name}.jar"))])
    sources = [str(path.relative_to(tmp_path / "java")) for path in (tmp_path / "java").rglob("*.java")]
    run(tmp_path / "java", "javac", "-cp", classes, *sources)
    printed = run(tmp_path / "java", "java", "-cp", classes, "Main")

    np.testing.assert_allclose([float(value) for value in printed.split()], embedding, rtol=1e-5)
