"""Trace settings are inherited from server to model and go back to those of the start."""

import pytest

from service.errors import InvalidArgumentError, UnimplementedError
from service.trace_settings import TraceBook, TraceSettings


@pytest.fixture
def book():
    return TraceBook()


@pytest.fixture
def book_with_file():
    return TraceBook(TraceSettings(file="trace.json"))


def test_settings_of_the_start_hold_for_all():
    start = TraceSettings(("TENSORS",), 5, 6, 7, "trace.json")

    assert TraceBook(start).settings() == TraceBook(start).settings("m") == start


def test_a_model_inherits_until_it_has_a_value_of_its_own(book):
    book.update(None, {"trace_rate": ["5"], "trace_count": ["10"]})
    assert book.settings("m") == TraceSettings(rate=5, count=10)

    assert book.update("m", {"trace_rate": ["77"]}) == TraceSettings(rate=77, count=10)
    book.update(None, {"trace_rate": ["6"], "trace_count": ["11"]})

    assert book.settings("m") == TraceSettings(rate=77, count=11)
    assert book.settings() == book.settings("other") == TraceSettings(rate=6, count=11)


def test_a_cleared_value_is_inherited_again(book):
    book.update(None, {"trace_rate": ["5"]})
    book.update("m", {"trace_rate": ["6"], "trace_count": ["3"]})

    assert book.update("m", {"trace_rate": []}) == TraceSettings(rate=5, count=3)


def test_a_cleared_value_of_the_server_is_that_of_the_start():
    book = TraceBook(TraceSettings(rate=3))
    book.update(None, {"trace_rate": ["5"], "log_frequency": ["2"]})

    assert book.update(None, {"trace_rate": []}) == TraceSettings(rate=3, log_frequency=2)


def test_clearing_what_was_never_set_changes_nothing(book):
    keys = ("trace_level", "trace_rate", "trace_count", "log_frequency")

    assert book.update("m", {key: [] for key in keys}) == TraceSettings()


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (["TIMESTAMPS"], ("TIMESTAMPS",)),
        (["TENSORS", "TIMESTAMPS", "TENSORS"], ("TIMESTAMPS", "TENSORS")),
        (["NOPE", "TENSORS"], ("TENSORS",)),
        (["NOPE", ""], ()),
        (["OFF"], ()),
    ],
)
def test_levels_are_those_that_there_are(book_with_file, values, levels):
    assert book_with_file.update("m", {"trace_level": values}).levels == levels


def test_a_model_may_switch_off_what_the_server_traces(book_with_file):
    book_with_file.update(None, {"trace_level": ["TENSORS"]})
    book_with_file.update("m", {"trace_level": ["OFF"]})

    assert book_with_file.settings("m").levels == ()
    assert book_with_file.settings().levels == ("TENSORS",)


@pytest.mark.parametrize("model", [None, "m"])
def test_nothing_is_traced_without_a_file(book, model):
    with pytest.raises(InvalidArgumentError) as raised:
        book.update(model, {"trace_level": ["TIMESTAMPS"], "trace_rate": ["5"]})

    assert str(raised.value) == "Attempting to set invalid trace setting :trace file name is not given"
    assert book.settings(model) == TraceSettings()


@pytest.mark.parametrize("values", [[], [""], ["x"]])
def test_the_file_cannot_be_changed(book, values):
    with pytest.raises(UnimplementedError) as raised:
        book.update(None, {"trace_file": values})

    assert str(raised.value) == "trace file location can not be updated through network protocol"


@pytest.mark.parametrize("key", ["nope", "trace_mode"])
@pytest.mark.parametrize("values", [[], ["opentelemetry"], ["a", "b"]])
def test_unknown_settings_and_the_mode_are_ignored(book, key, values):
    assert book.update(None, {key: values}) == TraceSettings()


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("4294967295", 2**32 - 1), (" 5", 5), ("+5", 5), ("5x", 5), ("007", 7), ("-0", 0), ("0" * 5000, 0)],
)
@pytest.mark.parametrize(("key", "field"), [("trace_rate", "rate"), ("log_frequency", "log_frequency")])
def test_numbers_are_read_as_c_reads_them(book, key, field, text, number):
    assert getattr(book.update(None, {key: [text]}), field) == number


@pytest.mark.parametrize(("text", "number"), [("-1", -1), ("2147483647", 2**31 - 1)])
def test_a_count_may_be_without_end(book, text, number):
    assert book.update(None, {"trace_count": [text]}).count == number


@pytest.mark.parametrize(
    ("key", "values", "text"),
    [
        ("trace_level", ["OFF", "TIMESTAMPS"], "Expect only one trace level 'OFF' is specified"),
        ("trace_level", ["OFF", "OFF"], "Expect only one trace level 'OFF' is specified"),
        ("trace_rate", ["x"], "Unable to parse 'trace_rate', got: x"),
        ("trace_rate", [""], "Unable to parse 'trace_rate', got: "),
        ("trace_rate", ["\uff11"], "Unable to parse 'trace_rate', got: \uff11"),
        (
            "trace_rate",
            ["99999999999"],
            "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: 99999999999",
        ),
        ("trace_rate", ["-1"], "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: -1"),
        ("trace_rate", ["1", "2"], "expect only 1 value for 'trace_rate'"),
        ("trace_count", ["x"], "Unable to parse 'trace_count', got: x"),
        ("trace_count", ["-2"], "Unable to parse 'trace_count'. Expecting value >= -1, got: -2"),
        (
            "trace_count",
            ["2147483648"],
            "Unable to parse 'trace_count', value is out of range [ -1, 2147483647 ], got: 2147483648",
        ),
        (
            "log_frequency",
            ["9" * 5000],
            f"Unable to parse 'log_frequency', value is out of range [ 0, 4294967295 ], got: {'9' * 100}",
        ),
    ],
)
def test_a_wrong_value_is_refused_and_nothing_of_its_request_holds(book, key, values, text):
    with pytest.raises(InvalidArgumentError) as raised:
        book.update(None, {"trace_rate": ["9"], "trace_count": ["9"], key: values})

    assert str(raised.value) == text
    assert book.settings() == TraceSettings()
