"""A release leaves only if the ledger holds its whole price, and a run goes on only as what it began as."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import ExactAccountant, Ledger
from pate.aggregators import CenteredVotes, ClippedVotes, GaussianVotes, Release
from pate.pipeline import train
from pate.student import LowRankStudent
from pate.teachers import KernelTeacher
from pate.validation import InvalidValue
from tests.e2e.small_run import SilentMonitor, small_plan


@pytest.mark.parametrize("accountant", [None, ExactAccountant])
def test_a_ledger_that_lost_the_first_of_two_charges_is_refused(tmp_path: Path, accountant: Any) -> None:
    """The prevalence was released and kept; without its charge the release would look cheaper than it is."""
    changes = {} if accountant is None else {"accountant": accountant}
    plan = small_plan(
        teacher=KernelTeacher(),
        num_teachers=None,
        aggregator=CenteredVotes(noise_multiplier=1.0, prevalence_share=0.5),
        student=LowRankStudent(),
        target_epsilon=3.0,
        **changes,
    )
    with pytest.raises(KeyboardInterrupt):
        train(plan, tmp_path, SilentMonitor(stop_at="training the student"))
    (tmp_path / "release" / "release.npz").unlink()
    (tmp_path / "ledger.jsonl").unlink()
    (tmp_path / ".ledger.jsonl.head").unlink()
    with pytest.raises(InvalidValue, match=r"ledger=.*expected charges of epsilon .*, the price of the release"):
        train(plan, tmp_path, SilentMonitor())
    assert not (tmp_path / "release" / "release.npz").exists()


class Cheap(GaussianVotes):
    """Charges an eighth of what it releases."""

    def aggregate(self, votes: Any, *, num_teachers: int, rng: Any, ledger: Ledger | None = None) -> Release:
        few = len(votes) // 8
        super().aggregate(votes[:few], num_teachers=num_teachers, rng=rng, ledger=ledger)
        return super().aggregate(votes, num_teachers=num_teachers, rng=np.random.default_rng(), ledger=None)


def test_an_aggregator_that_charges_too_little_releases_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"expected charges of epsilon"):
        train(small_plan(aggregator=Cheap(noise_std=20.0)), tmp_path, SilentMonitor())
    assert not (tmp_path / "release" / "release.npz").exists()


def test_a_run_that_was_killed_does_not_go_on_with_another_aggregator(tmp_path: Path) -> None:
    """What was gathered for a clip of 4 must not be released at the price of a clip of 1."""
    plan = small_plan(aggregator=ClippedVotes(noise_std=5.0, vote_clip=4))
    with pytest.raises(KeyboardInterrupt):
        train(plan, tmp_path, SilentMonitor(stop_at="releasing"))
    other = replace(plan, aggregator=ClippedVotes(noise_std=5.0, vote_clip=1))
    with pytest.raises(InvalidValue, match=r"release=.*expected the release that this run began with"):
        train(other, tmp_path, SilentMonitor())
