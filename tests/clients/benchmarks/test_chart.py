from xml.etree import ElementTree as ET

from clients.benchmarks.chart import draw


def test_the_chart_is_svg_with_every_line_named_and_the_same_every_time(measured, tmp_path):
    draw(tmp_path / "one.svg", "A title", measured)
    draw(tmp_path / "two.svg", "A title", measured)

    text = (tmp_path / "one.svg").read_text()
    tree = ET.fromstring(text)  # noqa: S314  # our own file
    words = {element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")}
    assert {"A title", "Signet, inline", "Triton, shared memory", "requests per second"} <= words
    assert text == (tmp_path / "two.svg").read_text()


def test_one_number_of_callers_makes_a_chart_too(measured, tmp_path):
    draw(tmp_path / "one.svg", "A title", measured[:4])

    assert "Triton, shared memory" in (tmp_path / "one.svg").read_text()
