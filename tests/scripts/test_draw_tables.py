"""`draw_tables` writes the tables of the pages from docs/results.json, which names the command behind each table."""

import json

import pytest

from scripts import draw_tables

SETS = json.loads(draw_tables.RESULTS.read_text(encoding="utf-8"))


def test_the_pages_show_the_file() -> None:
    """The tables on the pages are those that the script makes of docs/results.json."""
    assert draw_tables.main(["--check"]) == 0


def test_a_figure_set_names_its_source() -> None:
    """Each table in docs/results.json names its command and commit, unless it is a part of another table."""
    whole_sets = {name: figure_set for name, figure_set in SETS.items() if "from" not in figure_set}
    assert all(figure_set["command"] and figure_set["commit"] for figure_set in whole_sets.values())


def test_rows_are_as_wide_as_their_columns() -> None:
    """Each row of a table in docs/results.json has as many cells as the table has columns."""
    whole_sets = {name: figure_set for name, figure_set in SETS.items() if "from" not in figure_set}
    assert all(
        len(row) == len(figure_set["columns"])
        for figure_set in whole_sets.values()
        for row in figure_set["rows"]
    )


def test_part_of_a_set_has_its_rows_and_columns() -> None:
    """The table `readme` is a part of the table `wordnet`, with the last column of some of its rows."""
    columns, rows = draw_tables.rows_of_set(SETS, name="readme")
    wordnet = {tuple(row[:2]): row for row in SETS["wordnet"]["rows"]}
    keys = SETS["readme"]["rows"]
    assert all(row[-1] == wordnet[tuple(key)][-1] for row, key in zip(rows, keys, strict=True))
    assert columns[-1] == SETS["wordnet"]["columns"][-1]


@pytest.mark.parametrize("name", ["yeast", "readme"])
def test_another_figure_is_noticed(name: str) -> None:
    """If a figure in a table of a page is changed, the script restores the table."""
    page = f"before\n<!-- results: {name} -->\n<!-- end -->\nafter\n"
    once = draw_tables.page_with_tables(page, sets=SETS)
    assert draw_tables.page_with_tables(once, sets=SETS) == once
    assert draw_tables.page_with_tables(once.replace(".4", ".5", 1), sets=SETS) == once
