"""The status page in a real browser: it shows what ModelStatistics says, and its form answers as the model does."""

import json
from contextlib import closing

import pytest
import tritonclient.grpc as triton
from typer.testing import CliRunner

from clients.digits.pictures import encode_png
from service import cli
from service.http.exchange import Page
from service.http.port import HttpPort
from service.status_page.pages import StatusPages
from tests.documents import ROOT
from tests.end_to_end.browser import Browser, what_is_missing
from tests.end_to_end.calls import call
from tests.service.serving import kit, serving

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing())),
]

PICTURES = ROOT / "build/status-page"
"""Where the test leaves what it saw, for people."""

HOSTILE = "<img src=x onerror=document.title='taken'>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def page(browser, digits_server):
    browser.resize(1280, 1200)
    browser.open(f"http://{digits_server.http_address}/")
    browser.wait_for("document.querySelector('article')")
    return browser


def part(signature, selector):
    return f"document.querySelector('[data-signature={signature}] {selector}')"


def test_page_and_status_show_what_model_statistics_say(page, digits_server, digits):
    with triton.InferenceServerClient(digits_server.address) as client:
        for _ in range(3):
            call(client, "digits", {"images": digits.held_out.images[:5]}, "embeddings")
        stats = client.get_inference_statistics("digits:embeddings").model_stats[0]
    answered, runs = stats.inference_stats.success.count, stats.execution_count
    page.wait_for(f"{part('embeddings', 'small')}.textContent === '{answered} answered'")
    texts = page.evaluate("[...document.querySelectorAll('[data-signature=embeddings] small')].map(e => e.textContent)")
    url = f"http://{digits_server.http_address}/metrics"
    arguments = ["status", "--once", "--json", "--url", digits_server.address, "--metrics-url", url]
    shown = json.loads(CliRunner().invoke(cli.app, arguments).stdout)["signatures"]
    (line,) = (each for each in shown if each["signature"] == "embeddings")

    assert texts == [f"{answered} answered", f"{runs} runs", "0 waiting"]
    assert (line["requests"], line["runs"], line["waiting"]) == (answered, runs, 0)
    assert set(digits.signatures) <= set(
        page.evaluate("[...document.querySelectorAll('.name')].map(e => e.textContent)")
    )
    assert page.evaluate(f"{part('embeddings', '.inputs')}.textContent") == "images FP32[-1,8,8]"


def test_charts_show_nothing_where_nothing_ran(page):
    page.wait_for(f"{part('debug_embeddings', 'strong')}.textContent === '0'")  # the second look is the first rate
    shown = page.evaluate(
        "[...document.querySelectorAll('[data-signature=debug_embeddings] strong')].map(e => e.textContent)"
    )

    assert shown == ["0", "-", "-"]


def test_form_tries_a_signature_with_json_and_with_a_picture(page, digits, tmp_path):
    (tmp_path / "digit.png").write_bytes(encode_png(digits.held_out.images[0]))
    for signature in ("embed_text", "predict_png", "predict"):
        page.evaluate(f"{part(signature, 'details')}.open = true")
    page.type("[data-signature=embed_text] textarea", '["seven", "eight"]')
    for signature in ("predict_png", "predict"):
        page.type(f"[data-signature={signature}] input", str(tmp_path / "digit.png"))
        page.wait_for(f"{part(signature, 'textarea')}.value")
    for signature in ("embed_text", "predict_png", "predict"):
        page.evaluate(f"{part(signature, 'button')}.click()")
        page.wait_for(part(signature, "pre"))
    page.screenshot(PICTURES / "wide.png")

    assert "came as [2,32]" in page.evaluate(f"{part('embed_text', '.answer')}.textContent")
    assert page.evaluate(f"{part('predict_png', 'pre')}.textContent") == f"[{digits.held_out.labels[0]}]"
    assert "came as [1]" in page.evaluate(f"{part('predict', '.answer')}.textContent")


def test_what_is_refused_is_told_in_the_form(page):
    page.evaluate(f"{part('predict', 'details')}.open = true")
    page.type("[data-signature=predict] textarea", "[[1, 2]]")
    page.evaluate(f"{part('predict', 'button')}.click()")

    assert "[-1,8,8]" in page.wait_for(f"{part('predict', '.answer .bad')}?.textContent")


def test_page_fits_a_phone(page):
    page.resize(400, 900)
    page.screenshot(PICTURES / "phone.png")

    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_names_from_elsewhere_are_text_and_nothing_else(browser):
    with serving({HOSTILE: {1: kit()}}) as served:
        pages = StatusPages(lambda _: Page(b""), served.repository, lambda: True, has_trial=True)
        with closing(HttpPort("127.0.0.1", 0, pages)) as port:
            browser.open(f"http://{port.address}/")
            shown = browser.wait_for("document.querySelector('td')?.textContent")
            browser.wait_for("document.querySelector('article')")

            assert shown == HOSTILE
            assert browser.evaluate("document.title") == "Signet"
            assert browser.evaluate("document.querySelectorAll('img').length") == 0
