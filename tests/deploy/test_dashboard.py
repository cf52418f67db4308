"""Everything that the Grafana dashboard asks for is there."""

import json
import re
from pathlib import Path

import pytest

DASHBOARD = json.loads((Path(__file__).parents[2] / "deploy/grafana/signet.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]] + [
    variable["query"] for variable in DASHBOARD["templating"]["list"] if variable["type"] == "query"
]
NAME = re.compile(r"\b(?:nv|signet|process)_\w+")


def test_there_are_queries():
    assert len(QUERIES) > 20
    assert all(NAME.search(query) for query in QUERIES)


@pytest.mark.parametrize("query", QUERIES)
def test_every_metric_and_label_of_a_query_exists(query, exported):
    labels = set()
    for name in NAME.findall(query):
        assert name in exported
        labels |= exported[name]
    wanted = {label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")}
    wanted |= set(re.findall(r"(\w+)=~?\"", query)) | set(re.findall(r", (\w+)\)$", query))

    assert wanted <= labels


@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: panel["title"])
def test_legends_name_labels_that_the_query_keeps(panel):
    for target in panel["targets"]:
        kept = re.findall(r"by \(([^)]*)\)", target["expr"])
        if kept:
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= set(re.split(r",\s*", kept[0]))


def test_panels_do_not_overlap():
    places = [
        (panel["gridPos"]["x"] + column, panel["gridPos"]["y"] + row)
        for panel in DASHBOARD["panels"]
        for column in range(panel["gridPos"]["w"])
        for row in range(panel["gridPos"]["h"])
    ]

    assert len(places) == len(set(places))
    assert max(column for column, _ in places) < 24
