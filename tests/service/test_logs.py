import logging
import re

import pytest

from service import logs

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ [a-z.]+: .*")


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


def test_an_event_is_one_line_with_time_level_and_place(written):
    logs.configure()
    logging.getLogger("service.layouts").warning("%s: ignored", "models")

    (line,) = written()
    assert LINE.fullmatch(line)
    assert line.endswith(" WARNING service.layouts: models: ignored")


def test_the_time_is_utc(written):
    logs.configure()
    event = {"name": "service", "levelno": logging.INFO, "levelname": "INFO", "msg": "x", "created": 0.25, "msecs": 250}
    logging.getLogger("service").handle(logging.makeLogRecord(event))

    assert written() == ["1970-01-01T00:00:00.250Z INFO service: x"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n2026-01-01T00:00:00.000Z INFO service: forged", r"a\n2026-01-01T00:00:00.000Z INFO service: forged"),
        ("\r\x1b[2J\0\u2028\x85", r"\r\x1b[2J\x00\u2028\x85"),
        ("\ud800", r"\ud800"),
        ("h\u00e9llo \u6f22 \U0001f600", "h\u00e9llo \u6f22 \U0001f600"),
    ],
)
def test_text_from_outside_stays_on_its_line(text, shown, written):
    logs.configure()
    logging.getLogger("service").info("model %s", text)

    (line,) = written()
    assert line.endswith(f": model {shown}")


def test_a_traceback_follows_its_event_and_cannot_look_like_another(written):
    logs.configure()
    error = ValueError("bad\n2026-01-01T00:00:00.000Z INFO service: forged\r\x1b[2J")
    with pytest.raises(ValueError) as raised:
        raise error
    logging.getLogger("service").error("failed", exc_info=raised.value)

    first, *rest = written()
    assert first.endswith(" ERROR service: failed")
    assert rest[0] == "    Traceback (most recent call last):"
    assert [line for line in rest if not line.startswith("    ")] == []
    assert rest[-1] == r"    2026-01-01T00:00:00.000Z INFO service: forged\r\x1b[2J"


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, ["info", "warning", "error"]),
        ({"verbose": 1}, ["debug", "info", "warning", "error"]),
        ({"quiet": True}, ["warning", "error"]),
    ],
    ids=["default", "verbose", "quiet"],
)
@pytest.mark.parametrize("name", ["service.repository", "batching.scheduler"])
def test_options_choose_what_our_packages_log(options, shown, name, written):
    logs.configure(**options)
    for level in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger(name), level)(level)

    assert [line.rpartition(": ")[2] for line in written()] == shown


def test_other_packages_log_warnings_alone(written):
    logs.configure(verbose=1)
    logging.getLogger("asyncio").info("quiet")
    logging.getLogger("asyncio").warning("heard")

    assert [line.rpartition(": ")[2] for line in written()] == ["heard"]


def test_configuring_again_does_not_write_twice(written):
    logs.configure()
    logs.configure()
    logging.getLogger("service").info("once")

    assert len(written()) == 1
