"""Calibrations kept on disk: read back, priced again, refused where they would be too cheap."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import pytest

from pate.accounting import RdpAccountant
from pate.aggregators import GaussianVotes, StableTopK
from pate.comparison.tuning import Target, read_tuning, tuned

TARGET = Target(epsilon=2.0, delta=1e-6, accountant=RdpAccountant, num_queries=20, num_labels=5, num_teachers=100)
TABLE = StableTopK(selection_scale=40.0, test="table", table_order=5.0, table_budget=0.01)


@pytest.mark.parametrize("aggregator", [GaussianVotes(noise_std=1.0), TABLE])
def test_it_is_the_calibrators_and_costs_at_most_the_epsilon(aggregator: Any, tmp_path: Path) -> None:
    tuning = tuned(aggregator, TARGET, tmp_path / "t.json")
    wanted = aggregator.calibrated(target_epsilon=2.0, target_delta=1e-6, **TARGET.shape)
    assert tuning.aggregator == wanted
    assert 1.99 < tuning.epsilon <= 2.0
    assert set(tuning.parameters) <= {"noise_std", "selection_scale", "table_order", "table_budget"}
    assert tuned(aggregator, TARGET, tmp_path / "t.json") == tuning


def test_what_is_kept_is_not_solved_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tuned(GaussianVotes(noise_std=1.0), TARGET, tmp_path / "t.json")
    monkeypatch.setattr(GaussianVotes, "calibrated", None)
    assert tuned(GaussianVotes(noise_std=1.0), TARGET, tmp_path / "t.json") == first
    shown = read_tuning(tmp_path / "t.json")
    assert shown is not None
    assert (shown.aggregator, shown.parameters) == (None, first.parameters)


def test_a_touched_file_makes_nothing_cheaper(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    tuned(GaussianVotes(noise_std=1.0), TARGET, path)
    kept = json.loads(path.read_text())
    kept["parameters"]["noise_std"] *= 0.9
    path.write_text(json.dumps(kept))
    refused = tuned(GaussianVotes(noise_std=1.0), TARGET, path)
    assert refused.aggregator is None
    assert "expected at most 2 once calibrated" in refused.reason


@dataclass(frozen=True, kw_only=True)
class Overshooting(GaussianVotes):
    """A calibrator that stops short."""

    def calibrated(self, **target: Any) -> Self:
        return replace(self, noise_std=0.99 * super().calibrated(**target).noise_std)


def test_a_calibrator_that_overshoots_is_refused(tmp_path: Path) -> None:
    assert tuned(GaussianVotes(noise_std=1.0), TARGET, tmp_path / "a.json").reason == ""
    assert "expected at most 2 once" in tuned(Overshooting(noise_std=1.0), TARGET, tmp_path / "b.json").reason


def test_out_of_reach_is_said_and_kept(tmp_path: Path) -> None:
    hopeless = StableTopK(selection_scale=40.0, test_std=60.0, failure_prob=1e-3)
    tuning = tuned(hopeless, TARGET, tmp_path / "t.json")
    assert tuning.aggregator is None
    assert "uses up target_delta=1e-06" in tuning.reason
    assert read_tuning(tmp_path / "t.json") == tuning
