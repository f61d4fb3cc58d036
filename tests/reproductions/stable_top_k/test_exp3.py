"""EXP3 against the specification's audit of the CelebA experiment, cell by cell."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from typing import Any

import pytest

from pate.accounting import Adjacency
from reproductions.stable_top_k import exp3
from reproductions.stable_top_k.celeba_prices import BOUND, FALSE, PricedAccounting
from reproductions.stable_top_k.exp3 import main
from reproductions.stable_top_k.floors import Floor

pytestmark = pytest.mark.slow  # one table, computed once for all tests here
Cells = tuple[float | None, float | None, float | None, float | None]
COLUMNS = ("add_remove_classic", "add_remove_tight", "replace_one_classic", "replace_one_tight")
PRINTED: dict[str, tuple[str, Cells]] = {
    "Corollary 9, literally": (BOUND, (71.42, 71.34, 143.97, 143.82)),
    "selection as a Gaussian of twice the sensitivity": (FALSE, (6.32, 5.78, None, None)),
    "selection as a Gaussian of the sensitivity: the paper's 3.6": (FALSE, (3.66, 3.28, 7.74, 7.12)),
    "Gumbel of the same std, zCDP": (BOUND, (4.35, 3.92, 9.26, 8.58)),
    "Gumbel of the same std, bounded range and one bit": (BOUND, (4.09, 3.67, 8.67, 8.02)),
    "the same, optimal adaptive composition": (BOUND, (None, 3.44, None, 7.55)),
    "Gumbel of scale 50, bounded range and one bit": (BOUND, (3.36, 3.00, 7.07, 6.49)),
    "the paper's noise, valid bound, loss distributions": (BOUND, (None, 7.83, None, 18.06)),
    "the paper's noise, valid bound, Renyi": (BOUND, (None, 9.30, None, 21.68)),
}
ADDED = "the same, test as one bit: what pate-account prints"
AT_LEAST = (5.33, 12.1, 5.32, 6.358)


@pytest.fixture(scope="module")
def printed() -> dict[str, Any]:
    """The command's JSON."""
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        main(["--format", "json"])
    return dict(json.loads(written.getvalue()))


def test_the_rows_are_those_of_the_specification_and_one_more(printed: dict[str, Any]) -> None:
    assert [row["accounting"] for row in printed["rows"]] == [*PRINTED, ADDED]


@pytest.mark.parametrize("accounting", PRINTED)
def test_every_cell_is_within_a_hundredth_and_labeled(printed: dict[str, Any], accounting: str) -> None:
    [row] = [row for row in printed["rows"] if row["accounting"] == accounting]
    holds, cells = PRINTED[accounting]
    assert row["holds"] == holds
    assert [row[column] is None for column in COLUMNS] == [cell is None for cell in cells]
    slack = {"abs": 0.02} if "optimal" in accounting else {"rel": 0.01}
    for column, cell in zip(COLUMNS, cells, strict=True):
        if cell is not None:
            assert row[column] == pytest.approx(cell, **slack)


def test_bounds_are_above_what_pairs_give_away_and_the_false_formula_is_below(printed: dict[str, Any]) -> None:
    floors = printed["floors"]
    for floor, expected in zip(floors, AT_LEAST, strict=True):
        assert floor["epsilon_at_least"] == pytest.approx(expected, rel=0.01)
    by_name = {row["accounting"]: row for row in printed["rows"]}
    for floor in floors:
        column = f"{floor['adjacency']}_tight"
        for sound in (
            "the paper's noise, valid bound, loss distributions",
            "the paper's noise, valid bound, Renyi",
            ADDED,
        ):
            assert by_name[sound][column] > floor["epsilon_at_least"]
    false = by_name["selection as a Gaussian of the sensitivity: the paper's 3.6"]
    assert false["add_remove_classic"] < floors[0]["epsilon_at_least"]
    assert false["replace_one_classic"] < floors[1]["epsilon_at_least"]


def test_the_table_and_the_csv_say_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = PricedAccounting("some accounting", FALSE, 1.2341, None, 2.0, 3.0)
    floor = Floor("some pair", Adjacency.REPLACE_ONE, 1.2349)
    monkeypatch.setattr(exp3, "prices", lambda: [row])
    monkeypatch.setattr(exp3, "floors", lambda: [floor])
    main(["--format", "csv"])
    [read] = csv.DictReader(capsys.readouterr().out.splitlines())
    assert (read["accounting"], read["holds"]) == ("some accounting", FALSE)
    assert [read[column] for column in COLUMNS] == ["1.2341", "", "2.0", "3.0"]
    main([])
    table = capsys.readouterr().out
    assert FALSE in table
    assert "1.235" in table  # a bound is rounded up
    assert "1.234 " in table  # what is given away at least is rounded down


def test_an_unknown_format_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--format", "yaml"])
    assert "invalid choice: 'yaml'" in capsys.readouterr().err
