"""Requests of the repository RPCs are read, checked in Triton's order, and answered."""

import os

import pytest

from protos import grpc_service_pb2 as pb
from service.caller import Caller
from service.errors import InvalidArgumentError, UnavailableError, UnimplementedError
from service.model_control import ModelControl
from service.model_places import ModelPlaces
from service.repository import Repository
from service.repository_rpcs import RepositoryRpcs
from service.servicer import Later
from service.settings import ControlMode
from service.uploads import Uploads
from tests.service.loads import Loader, ModelDirectory
from tests.service.serving import WAIT_S

CALLER = Caller(is_local=True)


class Rpcs:
    """The RPCs over a repository of one model, called as a transport does."""

    def __init__(self, root, mode, uploads=None):
        ModelDirectory(root, "clip", 1)
        self.repository = Repository(Loader())
        self.control = ModelControl(self.repository, ModelPlaces([root], []), mode, uploads)
        self._methods = RepositoryRpcs(self.control).unary_methods()

    def call(self, name, parameters=None, **fields):
        kind, method = self._methods[name]
        request = kind(**fields)
        for key, (field, value) in (parameters or {}).items():
            setattr(request.parameters[key], field, value)
        answer = method(request, CALLER)
        return answer.encode(answer.result.result(WAIT_S)) if isinstance(answer, Later) else answer

    def load(self, parameters=None, **fields):
        return self.call("RepositoryModelLoad", parameters, **{"model_name": "clip", **fields})

    def unload(self, parameters=None, **fields):
        return self.call("RepositoryModelUnload", parameters, **{"model_name": "clip", **fields})

    def index(self, **fields):
        answer = self.call("RepositoryIndex", **fields)
        return [(model.name, model.version, model.state, model.reason) for model in answer.models]


def made(root, mode, uploads=None):
    rpcs = Rpcs(root, mode, uploads)
    yield rpcs
    rpcs.control.close()
    rpcs.repository.close(WAIT_S)


@pytest.fixture
def explicit(tmp_path):
    yield from made(tmp_path / "explicit", ControlMode.EXPLICIT)


@pytest.fixture
def open_to_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield from made(tmp_path / "open", ControlMode.EXPLICIT, Uploads())


@pytest.fixture
def fixed(tmp_path):
    yield from made(tmp_path / "none", ControlMode.NONE)


def test_load_and_unload_answer_with_empty_messages(explicit):
    assert explicit.load() == pb.RepositoryModelLoadResponse()
    assert explicit.index() == [("clip", "1", "READY", "")]
    assert explicit.unload() == pb.RepositoryModelUnloadResponse()


def test_index_tells_models_that_were_never_loaded_unless_only_ready_ones_are_asked_for(explicit):
    assert explicit.index() == [("clip", "", "", "")]
    assert explicit.index(ready=True) == []
    explicit.load()
    assert explicit.index(ready=True) == [("clip", "1", "READY", "")]


def test_index_tells_a_model_whose_directory_is_named_in_no_utf_8(tmp_path):
    ((tmp_path / os.fsdecode(b"caf\xe9")) / "1").mkdir(parents=True)
    for rpcs in made(tmp_path, ControlMode.EXPLICIT):
        assert rpcs.index() == [("caf\\udce9", "", "", ""), ("clip", "", "", "")]
        rpcs.repository.refuse("clip", os.fsdecode(b"/caf\xe9 is full"))
        assert rpcs.index()[1] == ("clip", "", "UNAVAILABLE", "/caf\\udce9 is full")


def test_configuration_is_passed_on(explicit):
    explicit.load({"config": ("string_param", '{"max_batch_size": "16"}')})

    assert explicit.repository.ready_versions("clip")[0].config.model.max_batch_size == 16


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"foo": ("string_param", "x")}, "unrecognized load parameter 'foo'."),
        ({"config": ("int64_param", 1)}, "invalid value type for load parameter 'config', expected string_param."),
        ({"config": ("bytes_param", b"{}")}, "invalid value type for load parameter 'config', expected string_param."),
        (
            {"file:1/x": ("string_param", "x")},
            "invalid value type for load parameter 'file:1/x', expected bytes_param.",
        ),
        ({"unload_dependents": ("bool_param", True)}, "unrecognized load parameter 'unload_dependents'."),
    ],
)
def test_wrong_load_parameter_is_refused_in_every_mode(explicit, fixed, parameters, text):
    for rpcs in (explicit, fixed):
        with pytest.raises(InvalidArgumentError) as caught:
            rpcs.load(parameters)
        assert str(caught.value) == text


@pytest.mark.parametrize("key", ["file:1/saved_model.pb", "file:", "file:/etc/passwd", "file:../x"])
def test_files_of_callers_are_refused(explicit, fixed, key):
    parameters = {"config": ("string_param", "{}"), key: ("bytes_param", b"x")}

    with pytest.raises(InvalidArgumentError, match=r"takes no files from callers.* --allow-file-override"):
        explicit.load(parameters)
    with pytest.raises(UnavailableError):
        fixed.load(parameters)
    assert explicit.index() == [("clip", "", "", "")]


def test_files_are_passed_on_where_the_server_takes_them(open_to_files):
    open_to_files.load({"config": ("string_param", "{}"), "file:7/saved_model.pb": ("bytes_param", b"x")})

    assert open_to_files.index() == [("clip", "7", "READY", "")]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"file:7/x": ("bytes_param", b"x")}, "needs the parameter 'config'"),
        ({"config": ("string_param", "{}"), "file:": ("bytes_param", b"x")}, "file '' cannot be part of a model"),
        ({"config": ("string_param", "{}"), "file:../x": ("bytes_param", b"x")}, "file '../x' cannot be part of a"),
    ],
)
def test_wrong_files_are_refused(open_to_files, parameters, text):
    with pytest.raises(InvalidArgumentError, match=text):
        open_to_files.load(parameters)
    assert open_to_files.index() == [("clip", "", "", "")]


@pytest.mark.parametrize("value", [True, False])
def test_unload_of_dependents_is_accepted_since_there_are_none(explicit, value):
    explicit.load()
    explicit.unload({"unload_dependents": ("bool_param", value), "other": ("string_param", "ignored")})

    assert not explicit.repository.is_ready("clip", "")


def test_unload_of_dependents_must_be_a_bool(explicit):
    explicit.load()

    with pytest.raises(InvalidArgumentError, match="'unload_dependents' parameter, expected bool_param"):
        explicit.unload({"unload_dependents": ("string_param", "true")})
    assert explicit.repository.is_ready("clip", "")


def test_repository_name_is_unimplemented_before_anything_else(fixed):
    wrong = {"foo": ("string_param", "x")}

    for call in (lambda: fixed.load(wrong, repository_name="x"), lambda: fixed.unload(repository_name="x")):
        with pytest.raises(UnimplementedError, match="'repository_name' specification is not supported"):
            call()
    with pytest.raises(UnimplementedError):
        fixed.index(repository_name="x")


def test_mode_none_refuses_what_is_well_formed(fixed):
    for call in (fixed.load, fixed.unload):
        with pytest.raises(UnavailableError, match="explicit model load / unload is not allowed"):
            call()
    assert fixed.index() == []
