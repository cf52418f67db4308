"""A broken SavedModel is a LoadError of one line that names the path and the cause."""

import shutil

import pytest

from service import saved_model
from service.errors import LoadError


@pytest.fixture
def copy(exports, tmp_path):
    """Return a function that copies a kind to a place where it may be damaged."""

    def make(kind):
        return shutil.copytree(exports(kind), tmp_path / kind)

    return make


def load_error(path, tags=frozenset({"serve"})):
    with pytest.raises(LoadError) as caught:
        saved_model.load(path, model="broken", version=1, tags=tags)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    assert "Traceback" not in text
    return text.removeprefix(str(path))


def test_a_missing_directory(tmp_path):
    assert "no such directory" in load_error(tmp_path / "nowhere")


def test_an_empty_directory(tmp_path):
    assert "neither saved_model.pb nor saved_model.pbtxt" in load_error(tmp_path)


def test_a_file_that_is_no_saved_model(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"this is no SavedModel")

    assert load_error(tmp_path).startswith("/saved_model.pb: the file is cut or is no SavedModel")


def test_an_empty_file(tmp_path):
    (tmp_path / "saved_model.pb").touch()

    assert "the file is empty or cut" in load_error(tmp_path)


def test_a_text_file_that_is_no_saved_model(tmp_path):
    (tmp_path / "saved_model.pbtxt").write_text("meta_graphs { nonsense }")

    assert load_error(tmp_path).startswith("/saved_model.pbtxt: ")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_cut_graph_file(part, copy):
    path = copy("module")
    file = path / "saved_model.pb"
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * part)])

    assert "cut" in load_error(path)


def test_missing_variables(copy):
    path = copy("module")
    shutil.rmtree(path / "variables")

    assert load_error(path) == ": the graph has variables, but variables/variables.index is missing"


def test_an_index_without_its_data(copy):
    path = copy("module")
    (path / "variables" / "variables.data-00000-of-00001").unlink()

    assert load_error(path) == ": variables/variables.data-00000-of-00001 is missing"


@pytest.mark.parametrize("kind", ["module", "tf1_variables", "keras_in_module"])
@pytest.mark.parametrize("bytes_left", [0, 0.5])
def test_data_that_is_cut_short(kind, bytes_left, copy):
    path = copy(kind)
    file = path / "variables" / "variables.data-00000-of-00001"
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * bytes_left)])

    assert "restoring the variables failed, a file is cut or damaged" in load_error(path)


def test_data_that_is_damaged(copy):
    path = copy("weights_4_mb_variables")
    file = path / "variables" / "variables.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[1_000_000] ^= 1
    file.write_bytes(content)

    assert "restoring the variables failed, a file is cut or damaged" in load_error(path)


def test_a_missing_asset(copy):
    path = copy("several")
    (path / "assets" / "vocabulary.txt").unlink()

    assert load_error(path) == ": assets/vocabulary.txt is missing"


def test_tags_that_do_not_exist_list_those_that_do(exports):
    text = load_error(exports("module"), tags=frozenset({"serve", "gpu"}))

    assert "no graph with the tags gpu, serve; it has: serve" in text


def test_no_signature_that_can_be_served(tmp_path):
    import tensorflow as tf

    tf.saved_model.save(tf.Module(), str(tmp_path / "bare"))

    assert "no signature can be served; the SavedModel has none" in load_error(tmp_path / "bare")


def test_a_failed_load_is_forgotten_when_the_files_are_mended(copy):
    path = copy("module")
    variables = (path / "variables").rename(path / "aside")
    load_error(path)
    variables.rename(path / "variables")

    saved_model.load(path, model="mended", version=1).close()
