from clients.benchmarks.report import to_markdown


def rows_of(page, columns):
    """Return the cells of the table with so many columns, without its headings."""
    table = [line for line in page.splitlines() if line.count(" | ") == columns - 1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_the_page_says_how_the_figures_were_taken(measured, conditions):
    page = to_markdown("A title", measured, conditions, "toy.svg")

    assert page.startswith("# A title\n")
    for part in ("a processor, 2 cores", "Python 3.11.7", "3 rounds of 2.5 s", "at most 64 rows", "0.2 processes"):
        assert part in page
    assert "tuned: `--instance-count 4`" in page
    assert "(toy.svg)" in page


def test_every_series_has_a_row_of_medians(measured, conditions):
    rows = rows_of(to_markdown("A title", measured, conditions, "a.svg"), 11)

    assert len(rows) == len(measured)
    assert rows[0] == ["1", "inline", "Signet", "CPU:0", "on", "off", "200", "5.00", "15.00", "0.500", "1.5"]
    assert rows[-1] == ["4", "inline", "Signet", "CPU:0", "on", "off", "1,234", "0.81", "2.43", "0.081", "1.5"]


def test_contenders_are_compared_under_one_load_and_loads_on_one_contender(measured, conditions):
    rows = rows_of(to_markdown("A title", measured, conditions, "a.svg"), 7)[:4]

    assert {row[1]: row[2] for row in rows} == {
        "Signet / Triton, inline": "2.00 (1.00..3.00)",
        "Signet / Triton, shared memory": "16.00 (8.00..24.00)",
        "shared memory / inline, Signet": "4.00 (4.00..4.00)",
        "shared memory / inline, Triton": "0.50 (0.50..0.50)",
    }
    assert {row[0] for row in rows} == {"1"}
    assert rows[0][6] == "-5.00 (-6.67..0.00)"


def test_more_callers_are_compared_with_fewer(measured, conditions):
    page = to_markdown("A title", measured, conditions, "a.svg")

    assert "| 4 / 1 | Signet | inline | 6.17 (4.11..12.34) |" in page


def test_a_page_about_one_number_of_callers_does_not_speak_of_more(measured, conditions):
    assert "More callers" not in to_markdown("A title", measured[:4], conditions, "a.svg")
