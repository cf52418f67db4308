"""The paths of the HTTP port say what the RPCs say."""

import json

import pytest

from service.http.exchange import Request
from service.http.pages import ServerPages
from tests.service.serving import kit, serving


def pages(served, *, live=True, ready=True, metrics=lambda accept: (accept.encode(), "text/x")):
    return ServerPages(
        is_live=lambda: live, is_ready=lambda: ready, is_model_ready=served.repository.is_ready, metrics=metrics
    )


@pytest.fixture(scope="module")
def served():
    with serving({"a model/1": {2: kit()}}) as made:
        yield made


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("word", ["live", "ready"])
def test_health_is_told_by_status_and_text(served, word, holds):
    page = pages(served, **{word: holds})(Request(f"/v2/health/{word}", ""))

    assert page.status == (200 if holds else 503)
    assert json.loads(page.body) == {word: holds}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v2/models/a%20model%2F1/ready", 200),
        ("/v2/models/a%20model%2F1/versions/2/ready", 200),
        ("/v2/models/a%20model%2F1:embed/ready?x=y", 200),
        ("/v2/models/a%20model%2F1:nope/ready", 503),
        ("/v2/models/a%20model%2F1/versions/3/ready", 503),
        ("/v2/models/a%20model%2F1/versions/x/ready", 400),
        ("/v2/models/nobody/ready", 503),
        ("/v2/models/%ff/ready", 503),
        ("/v2/models//ready", 503),
        ("/v2/models/ready", 404),
        ("/v2/health", 404),
        ("/v2/health/live/", 404),
        ("/", 404),
        ("", 404),
        ("*", 404),
        ("/metrics/../v2/health/live", 404),
    ],
)
def test_path_has_its_status(served, path, status):
    assert pages(served)(Request(path, "")).status == status


def test_metrics_get_the_readers_wishes(served):
    page = pages(served)(Request("/metrics?x", "text/y"))

    assert (page.status, page.body, page.content_type) == (200, b"text/y", "text/x")


def test_there_are_no_metrics_where_they_are_switched_off(served):
    assert pages(served, metrics=None)(Request("/metrics", "")).status == 404
