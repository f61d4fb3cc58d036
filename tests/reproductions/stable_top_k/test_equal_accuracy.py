"""Epsilon at equal student accuracy, on votes made up here and on those of a run."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest

from pate.accounting import Adjacency, RdpAccountant
from pate.data import DigitsGrid, Split
from pate.student import LinearStudent
from pate.votes import VoteStore
from reproductions.stable_top_k import table2
from reproductions.stable_top_k.equal_accuracy import aligned, families, within_reach
from reproductions.stable_top_k.students import StudentExperiment

NUM_TEACHERS, NUM_QUERIES, NUM_LABELS = 60, 80, 6


@pytest.fixture
def experiment(tmp_path: Path) -> StudentExperiment:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((NUM_QUERIES + 200, 5)).astype(np.float32)
    labels = inputs @ rng.standard_normal((5, NUM_LABELS)) > 0.7
    chance = np.where(labels[:NUM_QUERIES], 0.9, 0.05)
    votes = rng.random((NUM_TEACHERS, NUM_QUERIES, NUM_LABELS)) < chance
    shape = {"num_teachers": NUM_TEACHERS, "num_queries": NUM_QUERIES, "num_labels": NUM_LABELS}
    store = VoteStore.write(tmp_path / "votes.npz", [votes], **shape)
    ids = np.arange(200)
    test = Split(inputs[NUM_QUERIES:], labels[NUM_QUERIES:], ids, ids)
    return StudentExperiment(store, inputs[:NUM_QUERIES], test, LinearStudent(), range(2), 1e-5)


@pytest.mark.slow
def test_noise_is_found_and_priced_for_its_adjacency(experiment: StudentExperiment) -> None:
    compared = families()
    accuracy = experiment.prior_accuracy()
    accuracy += 0.5 * (within_reach(experiment, compared) - accuracy)
    for family in compared:
        for adjacency in Adjacency:
            found = aligned(family, experiment, accuracy, adjacency)
            assert found.noise is not None
            assert np.mean(found.accuracies) >= accuracy
            event = family.make(found.noise, adjacency).event_for(
                num_queries=NUM_QUERIES, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS
            )
            assert found.epsilon == RdpAccountant().compose(event).get_epsilon(1e-5)
            assert (found.paper_epsilon is None) == ("ours" in family.name)


def test_an_accuracy_out_of_reach_costs_infinity(experiment: StudentExperiment) -> None:
    found = aligned(families()[0], experiment, 1.0, Adjacency.REPLACE_ONE)
    assert (found.noise, found.epsilon) == (None, math.inf)


def test_plain_pate_as_its_paper_accounts() -> None:
    """20.0 at sigma 50 for 600 queries of 40 labels, by the classic conversion of rho = 600 * 40 / (2 * 50**2)."""
    how = {"num_queries": 600, "num_labels": 40, "target_delta": 1e-6}
    rho = 600 * 40 / (2 * 50.0**2)
    wanted = rho + 2 * math.sqrt(rho * math.log(1e6))
    assert families()[0].paper_epsilon(50.0, **how) == pytest.approx(wanted, rel=1e-3)
    assert families()[2].paper_epsilon(50.0, **how) == pytest.approx(3.66, abs=0.02)
    assert families()[3].paper_epsilon(50.0, **how) is None


@pytest.mark.slow
def test_the_script_reads_a_runs_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"num_private": 200, "num_public": 60, "num_test": 50}
    data = DigitsGrid(**sizes).load()
    rng = np.random.default_rng(1)
    chance = np.where(data.public.labels[:40], 0.9, 0.1)
    votes = rng.random((30, 40, 10)) < chance
    VoteStore.write(tmp_path / "votes.npz", [votes], num_teachers=30, num_queries=40, num_labels=10)
    plan = {
        "data": {"_target_": "pate.data.DigitsGrid", **sizes},
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


def test_a_folder_of_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        table2.main([str(tmp_path)])
    assert "expected a folder of pate-train, with run.json and votes.npz in it" in capsys.readouterr().err
