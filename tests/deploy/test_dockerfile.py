"""The image's steps: linted, read by the tool that carries them out, and in agreement with the server's defaults."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from service.settings import Settings
from tools.image_check.dockerfile import Step, expand, is_in_context, read_stages

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
IGNORE = ROOT / ".dockerignore"


@pytest.fixture
def stages():
    return read_stages(DOCKERFILE, {})


def steps(stage, keyword):
    return [step for step in stage.steps if step.keyword == keyword]


def only(stage, keyword):
    (step,) = steps(stage, keyword)
    return step


def test_hadolint_finds_nothing():
    lint = subprocess.run(
        [Path(sys.executable).parent / "hadolint", DOCKERFILE], capture_output=True, text=True, timeout=60, check=False
    )

    assert (lint.stdout, lint.returncode) == ("", 0)


def test_last_stage_gets_files_and_installs_no_compiler(stages):
    last = stages[-1]

    assert [step.flags for step in steps(last, "COPY")] == [{"from": "build"}]
    (installed,) = re.findall(r"--no-install-recommends ([a-z0-9 -]+?) +&&", only(last, "RUN").text)
    assert installed == "python3"


def test_server_is_process_one_and_not_root(stages):
    last = stages[-1]

    assert only(last, "ENTRYPOINT").words() == ["signet"]
    assert only(last, "ENTRYPOINT").text.startswith("[")  # the other form has a shell between
    assert only(last, "CMD").words() == ["serve", "/models"]
    user, group = only(last, "USER").text.split(":")
    assert int(user) > 0
    assert int(group) > 0


def test_ports_are_those_of_the_defaults(stages):
    last, settings = stages[-1], Settings()

    assert only(last, "EXPOSE").words() == [str(settings.grpc_port), str(settings.metrics_port)]
    assert (
        f"http://{settings.metrics_address}:{settings.metrics_port}/v2/health/ready" in only(last, "HEALTHCHECK").text
    )


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_everything_that_is_copied_is_there_and_sent_to_the_build(stages, device):
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    for step in steps(stages[0], "COPY"):
        *sources, _ = expand(step.text, {"DEVICE": device}).split()
        for source in sources:
            files = [name for name in listed if name == source or name.startswith(f"{source}/")]
            assert files, source
            assert all(is_in_context(name, IGNORE) for name in files)


def test_tests_and_history_are_not_sent_to_the_build():
    assert not any(is_in_context(name, IGNORE) for name in ("tests/fakes.py", ".git/config", "servicer.py"))


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_image_gets_the_versions_that_are_tested(device):
    """A package of the image is in the tests' lock file with the same version; only the GPU's own libraries are not."""

    def versions(name):
        text = (ROOT / "requirements" / name).read_text()
        return set(re.findall(r"^([a-z0-9-]+(?:\[[a-z,-]+\])?==\S+)", text, re.MULTILINE))

    surplus = {one for one in versions(f"image-{device}.lock") - versions("dev.lock") if not one.startswith("nvidia-")}
    tensorflow = {one for one in surplus if one.startswith("tensorflow==")}

    assert surplus - (tensorflow if device == "gpu" else set()) == set()


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_image_gets_all_that_the_project_depends_on(device):
    project = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^dependencies = \[([^\]]*)^\]", project, re.MULTILINE)[1]
    wanted = re.findall(r'"([a-z0-9-]+)', listed)
    locked = (ROOT / "requirements" / f"image-{device}.lock").read_text()

    assert len(wanted) > 5
    for name in wanted:
        assert re.search(rf"^{name}==", locked, re.MULTILINE), name


def test_continued_lines_comments_flags_and_variables_are_read(tmp_path):
    path = tmp_path / "Dockerfile"
    path.write_text(
        "ARG BASE=one\nFROM debian:${BASE} AS first\n# a comment\nRUN a \\\n# inside\n && b\n"
        'FROM debian:$BASE\nCOPY --from=first /x /y\nENTRYPOINT ["run", "it"]\n'
    )
    first, last = read_stages(path, {"BASE": "two"})

    assert (first.base, first.name, last.base, last.name) == ("debian:two", "first", "debian:two", None)
    assert first.steps[0].text.split() == ["a", "&&", "b"]
    assert last.steps == [Step("COPY", {"from": "first"}, "/x /y"), Step("ENTRYPOINT", {}, '["run", "it"]')]
    assert last.steps[1].words() == ["run", "it"]


def test_list_of_ignored_files_must_name_what_is_wanted(tmp_path):
    path = tmp_path / ".dockerignore"
    path.write_text("tests\n")

    with pytest.raises(ValueError, match="must begin with"):
        is_in_context("tests/x.py", path)
