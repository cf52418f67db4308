"""LogSettings tells and changes what is logged, with Triton's names and texts."""

import pytest

from protos import grpc_service_pb2 as pb
from service.caller import UNKNOWN
from service.errors import InvalidArgumentError, UnimplementedError
from service.log_rpcs import LogRpcs
from service.logs import LogFormat, LogOptions

START = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}


class Log:
    """The RPC over a log that only remembers what was configured."""

    def __init__(self, **start):
        self.configured = []
        self._rpcs = LogRpcs(LogOptions(**start), self.configured.append)

    def call(self, **settings):
        request = pb.LogSettingsRequest()
        for key, setting in settings.items():
            if setting is None:
                request.settings[key].SetInParent()
            else:
                setattr(request.settings[key], *setting)
        _, method = self._rpcs.unary_methods()["LogSettings"]
        answer = method(request, UNKNOWN)
        return {key: getattr(value, value.WhichOneof("parameter_choice")) for key, value in answer.settings.items()}


@pytest.fixture
def log():
    return Log()


def test_without_settings_they_are_told_and_stay(log):
    assert log.call() == START
    assert log.configured == []


def test_settings_of_the_start_are_told():
    log = Log(info=False, verbose_level=2, format=LogFormat.ISO8601)

    assert log.call() == START | {"log_info": False, "log_verbose_level": 2, "log_format": "ISO8601"}


@pytest.mark.parametrize(
    ("key", "kind", "value", "options"),
    [
        ("log_info", "bool_param", False, LogOptions(info=False)),
        ("log_warning", "bool_param", False, LogOptions(warning=False)),
        ("log_error", "bool_param", False, LogOptions(error=False)),
        ("log_verbose_level", "uint32_param", 2**32 - 1, LogOptions(verbose_level=2**32 - 1)),
        ("log_format", "string_param", "ISO8601", LogOptions(format=LogFormat.ISO8601)),
    ],
)
def test_a_setting_takes_effect_and_no_other_changes(log, key, kind, value, options):
    assert log.call(**{key: (kind, value)}) == START | {key: value}
    assert log.configured == [options]
    assert log.call() == START | {key: value}


def test_settings_change_one_after_another(log):
    log.call(log_info=("bool_param", False))

    assert log.call(log_verbose_level=("uint32_param", 1)) == START | {"log_info": False, "log_verbose_level": 1}


@pytest.mark.parametrize("setting", [("string_param", "x"), ("string_param", ""), ("bool_param", True), None])
def test_the_file_cannot_be_changed(log, setting):
    with pytest.raises(UnimplementedError) as raised:
        log.call(log_file=setting)

    assert str(raised.value) == "log file location can not be updated through network protocol"


@pytest.mark.parametrize(
    ("key", "setting", "text"),
    [
        ("log_info", ("uint32_param", 1), "expect boolean for 'log_info'"),
        ("log_warning", ("string_param", "true"), "expect boolean for 'log_warning'"),
        ("log_error", None, "expect boolean for 'log_error'"),
        ("log_verbose_level", ("bool_param", True), "expect int32 for 'log_verbose_level'"),
        ("log_format", ("uint32_param", 0), "expect string for 'log_format'"),
        ("log_format", ("string_param", "iso8601"), "invalid argument for log_format, got: iso8601"),
        ("log_format", ("string_param", ""), "invalid argument for log_format, got: "),
    ],
)
def test_a_wrong_value_is_refused_and_nothing_of_its_request_holds(log, key, setting, text):
    others = {"log_info": ("bool_param", False), "log_verbose_level": ("uint32_param", 3)}

    with pytest.raises(InvalidArgumentError) as raised:
        log.call(**(others | {key: setting}))

    assert str(raised.value) == text
    assert log.call() == START
    assert log.configured == []


@pytest.mark.parametrize("setting", [("string_param", "x"), None])
def test_unknown_settings_are_ignored(log, setting):
    assert log.call(nope=setting) == START
