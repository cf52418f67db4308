"""Nothing in the texts for people points to what does not exist, and what exists is told."""

import ast
import re
import subprocess
import sys

import pytest
import typer
from google.protobuf import text_format

from protos.model_config_pb2 import ModelConfig
from service import cli
from service.settings import Settings
from tests.documents import FILES, ROOT, blocks, commands

OF_OTHER_PROGRAMS = {"--port": "TensorFlow Serving", "--variant": "make bench", "--no-deps": "pip"}
"""Options that stand in the texts as ours do, and whose they are."""

OF_EVERY_PROGRAM = {"--help", "--version", "--install-completion", "--show-completion"}
SHELL_BLOCKS_OF_OTHERS = ("sh", "bash", "shell")
LANGUAGES = {"console", "go", "java", "json", "nginx", "protobuf", "python", "sh", "text", "yaml"}
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9](?![\w_-])")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
OURS = re.compile(r"`(--[^`\n]*)`|\bsignet ([^`\n]*)")


def our_options():
    program = typer.main.get_command(cli.app)
    context = typer.Context(program)
    found = {option for each in program.params for option in each.opts} | {"--help"}
    for name in program.list_commands(context):
        found |= {option for each in program.get_command(context, name).params for option in each.opts}
    return found | OF_EVERY_PROGRAM


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_somewhere(file):
    targets = [target for target in LINK.findall(CODE.sub("", file.read_text())) if "://" not in target]
    generated = {"options.md"}

    assert [target for target in targets if target not in generated and not (file.parent / target).exists()] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_options_exist(file):
    """What stands alone in backticks, or behind the program's name, is an option of ours."""
    code = "\n".join(alone or command for alone, command in OURS.findall(file.read_text()))
    named = {option for option in OPTION.findall(code) if f"{option}-..." not in code}

    assert named - our_options() - set(OF_OTHER_PROGRAMS) == set()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_files_and_tests_that_are_named_exist(file):
    named = re.findall(
        r"`((?:tests|clients|service|batching|tools|protos|docs)/[\w./-]*)(?:::(\w+))?`", file.read_text()
    )

    assert [name for name, _ in named if not (ROOT / name).exists()] == []
    assert [test for name, test in named if test and f"def {test}(" not in (ROOT / name).read_text()] == []


@pytest.mark.parametrize("file", ["README.md", "docs/operations.md"])
def test_every_claim_names_what_shows_it(file):
    text = (ROOT / file).read_text()
    tables = re.findall(r"^\| what \| shown by \|\n\| --- \| --- \|\n((?:\|.*\n)+)", text, re.MULTILINE)
    lines = [line for table in tables for line in table.splitlines()]

    assert len(lines) > 5
    assert [line for line in lines if not re.search(r"\| `tests/[^`]+` \|$", line)] == []


def test_every_option_is_told():
    from tools.option_reference import page

    told = page()
    for name in Settings.model_fields:
        assert f"| `--{name.replace('_', '-')}` |" in told
    for option in {each for each in our_options() if each.startswith("-")} - OF_EVERY_PROGRAM:
        assert f"`{option}`" in told


def test_every_page_has_a_place_in_the_navigation():
    named = set(re.findall(r"([\w/-]+\.md)", (ROOT / "mkdocs.yml").read_text()))

    assert {str(file.relative_to(ROOT / "docs")) for file in FILES if file.is_relative_to(ROOT / "docs")} <= named


def test_every_error_of_the_troubleshooting_page_can_occur():
    paths = [*(ROOT / "service").rglob("*.py"), *(ROOT / "batching").rglob("*.py")]
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    written = "\n".join(texts)
    page = (ROOT / "docs/troubleshooting.md").read_text().partition("## Without an error")[0]
    shown = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)

    assert len(shown) > 20
    assert [text for text in shown if text not in written] == []


@pytest.mark.parametrize("block", blocks(*SHELL_BLOCKS_OF_OTHERS), ids=str)
def test_shell_block_that_no_test_executes_says_why(block):
    assert re.match(r"# Not executed by the tests.*[,;:] ", block.text)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_code_stands_in_fences_that_name_its_language(file):
    """So that no command escapes the tests that run commands."""
    text = file.read_text()
    opening = re.findall(r"^```.*$", text, re.MULTILINE)[::2]

    assert [line for line in opening if line[3:].strip() not in LANGUAGES] == []
    assert re.findall(r"\n\n {4,}\S.*", FENCE.sub("", text)) == []


@pytest.mark.parametrize("block", blocks("protobuf"), ids=str)
def test_protobuf_block_is_a_configuration(block):
    text_format.Parse(block.text, ModelConfig())


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_block_is_python(block):
    compile(block.text, str(block.file), "exec")


def test_make_targets_that_are_named_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for file in FILES:
        named = set(re.findall(r"^ +make ([a-z-]+)", file.read_text(), re.MULTILINE))
        named |= set(re.findall(r"`make ([a-z-]+)", file.read_text()))
        assert named <= targets, file
    for block in blocks("console"):
        for command in commands(block):
            if command.line.startswith("make "):
                assert command.line.split()[1] in targets, block


def test_documentation_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    pages = list(tmp_path.rglob("*.html"))

    assert len(pages) >= len(FILES) - 2
    for page in pages:
        assert not re.search(r'<(script|link|img|iframe)\b[^>]*(src|href)="(https?:)?//', page.read_text()), page
