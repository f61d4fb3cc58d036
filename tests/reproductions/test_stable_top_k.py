"""Experiments of Zhu & Wang: prices of the CelebA release with lower bounds, and epsilon at equal accuracy."""

import contextlib
import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, RdpAccountant
from pate.data import DigitsGrid, Split
from pate.models import LinearStudent
from pate.votes import VoteStore
from reproductions.stable_top_k import exp3, table2
from reproductions.stable_top_k.celeba_prices import BOUND_TEXT, NO_BOUND_TEXT, PricedAccounting
from reproductions.stable_top_k.exp3 import main
from reproductions.stable_top_k.floors import Floor
from reproductions.stable_top_k.table2 import StudentExperiment, aligned, families, within_reach

pytestmark = pytest.mark.slow  # a table for the first two tests, and students for others
Cells = tuple[float | None, float | None, float | None, float | None]
COLUMNS = ("add_remove_classic", "add_remove_tight", "replace_one_classic", "replace_one_tight")
PRINTED: dict[str, tuple[str, Cells]] = {
    "Corollary 9, literally": (BOUND_TEXT, (71.42, 71.34, 143.97, 143.82)),
    "selection as a Gaussian of twice the sensitivity": (NO_BOUND_TEXT, (6.32, 5.78, None, None)),
    "selection as a Gaussian of the sensitivity: the paper's 3.6": (
        NO_BOUND_TEXT,
        (3.66, 3.28, 7.74, 7.12),
    ),
    "Gumbel of the same std, zCDP": (BOUND_TEXT, (4.35, 3.92, 9.26, 8.58)),
    "Gumbel of the same std, bounded range and one bit": (BOUND_TEXT, (4.09, 3.67, 8.67, 8.02)),
    "the same, optimal adaptive composition": (BOUND_TEXT, (None, 3.44, None, 7.55)),
    "Gumbel of scale 50, bounded range and one bit": (BOUND_TEXT, (3.36, 3.00, 7.07, 6.49)),
    "the paper's noise, valid bound, optimal composition": (BOUND_TEXT, (None, 7.72, None, 17.79)),
    "the paper's noise, valid bound, Renyi": (BOUND_TEXT, (None, 9.30, None, 21.68)),
}
ADDED = "the same, test as one bit: what accountant=rdp prints"
AT_LEAST = (5.33, 12.1, 5.32, 6.358)


@pytest.fixture(scope="module")
def printed() -> dict[str, Any]:
    """Returns the JSON object that the command prints with `--format json`."""
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        main(["--format", "json"])
    return dict(json.loads(written.getvalue()))


def test_every_cell_is_within_a_hundredth_and_labeled(printed: dict[str, Any]) -> None:
    """The epsilons of all rows but the last are those of `PRINTED`, within about 1%.

    These rows say whether their accounting is a bound.
    """
    rows = {row["accounting"]: row for row in printed["rows"]}
    assert [*rows] == [*PRINTED, ADDED]
    for accounting, (holds, cells) in PRINTED.items():
        row = rows[accounting]
        assert row["holds"] == holds
        is_optimal = "optimal" in accounting
        for column, epsilon in zip(COLUMNS, cells, strict=True):
            if epsilon is None:
                assert row[column] is None, accounting
            elif is_optimal:
                assert row[column] == pytest.approx(epsilon, rel=0.003, abs=0.02), accounting
            else:
                assert row[column] == pytest.approx(epsilon, rel=0.01), accounting


def test_sound_prices_exceed_the_floors_and_the_false_formula_does_not(
    printed: dict[str, Any],
) -> None:
    """Valid bounds lie above the epsilon that a pair of neighbors proves necessary, and the paper's figures below."""
    floors = printed["floors"]
    for floor, expected in zip(floors, AT_LEAST, strict=True):
        assert floor["epsilon_at_least"] == pytest.approx(expected, rel=0.01)
    by_name = {row["accounting"]: row for row in printed["rows"]}
    for floor in floors:
        column = f"{floor['adjacency']}_tight"
        for sound in (*(name for name in PRINTED if "valid bound" in name), ADDED):
            assert by_name[sound][column] > floor["epsilon_at_least"]
    false = by_name["selection as a Gaussian of the sensitivity: the paper's 3.6"]
    assert false["add_remove_classic"] < floors[0]["epsilon_at_least"]
    assert false["replace_one_classic"] < floors[1]["epsilon_at_least"]


def test_the_table_and_the_csv_say_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CSV has all digits of a figure, and the printed table rounds it to the safe side."""
    row = PricedAccounting(
        accounting="some accounting",
        holds=NO_BOUND_TEXT,
        add_remove_classic=1.2341,
        add_remove_tight=None,
        replace_one_classic=2.0,
        replace_one_tight=3.0,
    )
    floor = Floor(pair="some pair", adjacency=Adjacency.REPLACE_ONE, epsilon_at_least=1.2349)
    monkeypatch.setattr(exp3, "prices", lambda: [row])
    monkeypatch.setattr(exp3, "floors", lambda: [floor])
    main(["--format", "csv"])
    [read] = csv.DictReader(capsys.readouterr().out.splitlines())
    assert (read["accounting"], read["holds"]) == ("some accounting", NO_BOUND_TEXT)
    assert [read[column] for column in COLUMNS] == ["1.2341", "", "2.0", "3.0"]
    main([])
    table = capsys.readouterr().out
    assert NO_BOUND_TEXT in table
    assert "1.24 " in table  # the epsilon of an accounting is rounded up
    assert "1.234 " in table  # what is given away at least is rounded down


NUM_TEACHERS = 60
NUM_QUERIES = 80
NUM_LABELS = 6


@pytest.fixture
def experiment(tmp_path: Path) -> StudentExperiment:
    """Returns an experiment on the votes of 60 teachers, most of which are right, on 80 queries."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((NUM_QUERIES + 200, 5)).astype(np.float32)
    labels = inputs @ rng.standard_normal((5, NUM_LABELS)) > 0.7
    vote_chance = np.where(labels[:NUM_QUERIES], 0.9, 0.05)
    votes = rng.random((NUM_TEACHERS, NUM_QUERIES, NUM_LABELS)) < vote_chance
    store = VoteStore.write(
        tmp_path / "votes.npz",
        [votes],
        num_teachers=NUM_TEACHERS,
        num_queries=NUM_QUERIES,
        num_labels=NUM_LABELS,
    )
    ids = np.arange(200)
    test = Split(inputs[NUM_QUERIES:], labels[NUM_QUERIES:], record_ids=ids, group_ids=ids)
    return StudentExperiment(
        store,
        queries=inputs[:NUM_QUERIES],
        test=test,
        student=LinearStudent(),
        seeds=range(2),
        target_delta=1e-5,
    )


@pytest.mark.slow
def test_noise_is_found_and_priced_for_its_adjacency(experiment: StudentExperiment) -> None:
    """Each kind of aggregator gets noise with which its student has half of the possible gain in accuracy.

    The gain is counted from the accuracy of the prior. The epsilon is the price of that noise. All kinds but those with
    "ours" in their name also have an epsilon by the accounting of a paper.
    """
    compared_families = families()
    accuracy = experiment.prior_accuracy()
    accuracy += 0.5 * (within_reach(experiment, compared_families) - accuracy)
    for family in compared_families:
        for adjacency in Adjacency:
            alignment = aligned(
                family, experiment=experiment, accuracy=accuracy, adjacency=adjacency
            )
            assert alignment.noise is not None
            accuracies_of_seeds = alignment.accuracies
            assert np.mean(accuracies_of_seeds) >= accuracy
            event = family.make(alignment.noise, adjacency).event_for(
                num_queries=NUM_QUERIES, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS
            )
            assert alignment.epsilon == RdpAccountant().compose(event).get_epsilon(
                target_delta=1e-5
            )
            assert (alignment.paper_epsilon is None) == ("ours" in family.name)


def test_plain_pate_as_its_paper_accounts() -> None:
    """By the paper's accounting at sigma 50, delta 1e-6 and 600 queries of 40 labels, PATE has epsilon 21.09.

    That is rho + 2 sqrt(rho log(1/delta)) with rho = 600 * 40 / (2 * 50**2). Stable top-k has 3.66. Stable top-k with
    Gumbel noise has no such figure.
    """
    rho = 600 * 40 / (2 * 50.0**2)
    expected = rho + 2 * math.sqrt(rho * math.log(1e6))
    assert families()[0].paper_epsilon(
        noise=50.0, num_queries=600, num_labels=40, target_delta=1e-6
    ) == pytest.approx(expected, rel=1e-3)
    assert families()[2].paper_epsilon(
        noise=50.0, num_queries=600, num_labels=40, target_delta=1e-6
    ) == pytest.approx(3.66, abs=0.02)
    assert (
        families()[3].paper_epsilon(noise=50.0, num_queries=600, num_labels=40, target_delta=1e-6)
        is None
    )


@pytest.mark.slow
def test_the_script_reads_a_runs_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command makes its table from the plan and the votes in the folder of a run."""
    data = DigitsGrid(num_private=200, num_public=60, num_test=50).load()
    rng = np.random.default_rng(1)
    vote_chance = np.where(data.public.labels[:40], 0.9, 0.1)
    votes = rng.random((30, 40, 10)) < vote_chance
    VoteStore.write(tmp_path / "votes.npz", [votes], num_teachers=30, num_queries=40, num_labels=10)
    plan = {
        "data": {
            "_target_": "pate.data.DigitsGrid",
            "num_private": 200,
            "num_public": 60,
            "num_test": 50,
        },
        "teacher": {"num_teachers": 30},
        "target_delta": 1e-6,
        "allowed_targets": [],
    }
    (tmp_path / "run.json").write_text(json.dumps(plan))
    table2.main([str(tmp_path), "--seeds", "2", "--directions", "20"])
    printed = capsys.readouterr().out
    assert "digits_grid (synthetic): 30 teachers, 40 queries" in printed
    assert "no bound" in printed
    with (tmp_path / "table2.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows[::2]] == [family.name for family in families()]
    assert [row["adjacency"] for row in rows[:2]] == ["add_remove", "replace_one"]
