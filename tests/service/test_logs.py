import json
import logging
import re

import pytest

from service import logs
from service.logs import LogFormat, LogOptions

# How a warning of the layouts begins in each format.
LINES = {
    LogFormat.DEFAULT: re.compile(r"W\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ service\.layouts\] (.*)"),
    LogFormat.ISO8601: re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING service\.layouts: (.*)"),
}
every_format = pytest.mark.parametrize("line_format", LINES)


def configure(**options):
    logs.configure(LogOptions(**options))


@pytest.fixture(autouse=True)
def restore_logging():
    loggers = [logging.getLogger(name) for name in (None, "service", "batching")]
    handlers, levels = loggers[0].handlers[:], [logger.level for logger in loggers]
    yield
    loggers[0].handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture
def written(capsys):
    def lines():
        return capsys.readouterr().err.splitlines()

    return lines


@every_format
def test_an_event_is_one_line_with_time_level_and_place(line_format, written):
    configure(format=line_format)
    logging.getLogger("service.layouts").warning("%s: ignored", "models")

    (line,) = written()
    assert LINES[line_format].fullmatch(line)[1] == "models: ignored"


@pytest.mark.parametrize(
    ("line_format", "line"),
    [
        (LogFormat.DEFAULT, "I0101 00:00:00.250000 4711 service] x"),
        (LogFormat.ISO8601, "1970-01-01T00:00:00.250Z INFO service: x"),
    ],
)
def test_the_time_is_utc(line_format, line, written):
    configure(format=line_format)
    event = {
        "name": "service",
        "levelno": logging.INFO,
        "levelname": "INFO",
        "msg": "x",
        "created": 0.25,
        "msecs": 250,
        "process": 4711,
    }
    logging.getLogger("service").handle(logging.makeLogRecord(event))

    assert written() == [line]


@every_format
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n2026-01-01T00:00:00.000Z INFO service: forged", r"a\n2026-01-01T00:00:00.000Z INFO service: forged"),
        ("a\nI0101 00:00:00.000000 1 service] forged", r"a\nI0101 00:00:00.000000 1 service] forged"),
        ("\r\x1b[2J\0\u2028\x85", r"\r\x1b[2J\x00\u2028\x85"),
        ("\ud800", r"\ud800"),
        ("h\u00e9llo \u6f22 \U0001f600", "h\u00e9llo \u6f22 \U0001f600"),
    ],
)
def test_text_from_outside_stays_on_its_line(line_format, text, shown, written):
    configure(format=line_format)
    logging.getLogger("service").info("model %s", text)

    (line,) = written()
    assert line.endswith(f" model {shown}")


@every_format
def test_a_traceback_follows_its_event_and_cannot_look_like_another(line_format, written):
    configure(format=line_format)
    error = ValueError("bad\n2026-01-01T00:00:00.000Z INFO service: forged\r\x1b[2J")
    with pytest.raises(ValueError) as raised:
        raise error
    logging.getLogger("service").error("failed", exc_info=raised.value)

    first, *rest = written()
    assert first.endswith(" failed")
    assert rest[0] == "    Traceback (most recent call last):"
    assert [line for line in rest if not line.startswith("    ")] == []
    assert rest[-1] == r"    2026-01-01T00:00:00.000Z INFO service: forged\r\x1b[2J"


def shown_levels(written, name):
    levels = ("debug", "info", "warning", "error", "critical")
    for level in levels:
        getattr(logging.getLogger(name), level)(level)
    return [line.split()[-1] for line in written()]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, ["info", "warning", "error", "critical"]),
        ({"verbose_level": 1}, ["debug", "info", "warning", "error", "critical"]),
        ({"info": False}, ["warning", "error", "critical"]),
        ({"info": False, "verbose_level": 3}, ["debug", "warning", "error", "critical"]),
        ({"warning": False}, ["info", "error", "critical"]),
        ({"error": False}, ["info", "warning", "critical"]),
        ({"info": False, "warning": False, "error": False}, ["critical"]),
    ],
    ids=lambda value: "_".join(value) or "default",
)
@pytest.mark.parametrize("name", ["service.repository", "batching.scheduler"])
def test_options_choose_what_our_packages_log(options, shown, name, written):
    configure(**options)

    assert shown_levels(written, name) == shown


@pytest.mark.parametrize("options", [{}, {"info": False}, {"verbose_level": 1}])
def test_what_is_not_shown_is_not_even_made(options):
    configure(**options)
    logger = logging.getLogger("service.repository")

    assert logger.isEnabledFor(logging.DEBUG) == ("verbose_level" in options)
    assert logger.isEnabledFor(logging.INFO) == (options != {"info": False})


def test_other_packages_log_problems_alone_and_no_others_than_ours(written):
    configure(verbose_level=1)
    assert shown_levels(written, "asyncio") == ["warning", "error", "critical"]
    configure(warning=False)
    assert shown_levels(written, "asyncio") == ["error", "critical"]


def test_configuring_again_replaces_what_was(written):
    configure(info=False)
    configure()
    logging.getLogger("service").info("once")

    assert len(written()) == 1


# JSON. ---------------------------------------------------------------------------------------------------------------


def test_json_is_one_object_per_event_whatever_it_says(written):
    configure(format=LogFormat.JSON)
    text = 'a "quoted"\nline\x1b[31m \u2028 größe \udcff'
    logging.getLogger("service.layouts").warning("%s", text, extra={"fields": {"model": "clip\n", "rows": 3}})

    (line,) = written()
    assert line.isascii()
    event = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", event.pop("time"))
    assert event == {"level": "WARNING", "logger": "service.layouts", "message": text, "model": "clip\n", "rows": 3}


def test_json_carries_the_traceback_in_the_same_line(written):
    configure(format=LogFormat.JSON)
    try:
        {}["a\nb"]
    except KeyError:
        logging.getLogger("service").exception("failed")

    (line,) = written()
    exception = json.loads(line)["exception"]
    assert exception.startswith("Traceback")
    assert "KeyError" in exception


@pytest.mark.parametrize("line_format", LogFormat)
def test_text_of_any_length_is_bounded(line_format, written):
    configure(format=line_format)
    logging.getLogger("service").warning("%s", "x" * 5_000_000, extra={"fields": {"id": "y" * 5_000_000}})

    (line,) = written()
    assert len(line) < 40_000
    assert "x ... (5000000 characters)" in line


@pytest.mark.parametrize("line_format", LogFormat)
@pytest.mark.parametrize("text", ["y" * 5_000_000, "y\n" * 2_500_000], ids=["one line", "many lines"])
def test_traceback_of_any_length_is_bounded_and_keeps_its_frames(line_format, text, written):
    configure(format=line_format)
    with pytest.raises(ValueError) as raised:
        int("1", base=len(text))
    raised.value.args = (text,)
    logging.getLogger("service").error("failed", exc_info=raised.value)

    lines = written()
    assert sum(map(len, lines)) < 150_000
    assert 'int("1", base=len(text))' in "".join(lines).replace("\\", "")


def test_json_follows_the_levels(written):
    configure(format=LogFormat.JSON, info=False)
    logging.getLogger("service").info("no")
    logging.getLogger("service").warning("yes")

    (line,) = written()
    assert json.loads(line)["message"] == "yes"
