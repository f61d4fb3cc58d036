"""Draws of a whole release in two rounds, and what they say of a price."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pate.accounting import Adjacency, ExactAccountant, GaussianEvent
from pate.aggregators import ReleaseContext, vote_rounds
from pate.aggregators.vote_rounds import VoteRounds
from pate.verification import verify_samples
from pate.votes.moment_fit import MomentFit, NoisyMoments
from pate.votes.moment_votes import MomentVotes

Array = NDArray[np.float64]
ROUNDS = VoteRounds(noise_multiplier=0.5, num_rounds=2)


class _Cheap(MomentFit):
    """Any function of what was released may be the next student: one that takes no time, to draw thousands."""

    seen: list[NoisyMoments]

    def fit(self, rounds: Any, start: Array) -> Array:
        _Cheap.seen = list(rounds)
        return np.asarray(start + rounds[-1].residuals.clip(-3, 3))


def require_price_of_two_rounds(
    votes_of: Callable[[NDArray[np.bool_]], MomentVotes], refuted: GaussianEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws do not refute the price of both rounds, but another one.

    Args:
        votes_of: three records alike, given which of them have the label.
        refuted: a price that is too low.
        monkeypatch: takes the student's fit out.
    """
    monkeypatch.setattr(vote_rounds, "MomentFit", _Cheap)
    kept: dict[int, NDArray[np.int64]] = {}  # one set of draws, asked about both prices

    def drawn(histogram: Any, num: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Both sums along the features, in stds / 2, of as many records with the label as the histogram says."""
        if (held := int(histogram[0])) in kept:
            return kept[held]
        votes = votes_of((np.arange(3) < held)[:, None])
        along = votes.public[0] / np.linalg.norm(votes.public[0])
        found = np.empty((num, 2))
        for place in range(num):
            ROUNDS.release(votes, np.array([0.5]), ReleaseContext(rng))
            found[place] = [float(along @ each.residuals[:, 0]) / each.noise_std[0] for each in _Cheap.seen]
        kept[held] = np.asarray(np.rint(2 * found.clip(-6, 6)), dtype=np.int64)
        return kept[held]

    settings: dict[str, Any] = {
        "num_labels": 1,
        "num_teachers": 3,
        "adjacency": Adjacency.REPLACE_ONE,
        "num_samples": 2000,
        "accountant": ExactAccountant,
        "rng": np.random.default_rng(0),
    }
    verify_samples(drawn, event=ROUNDS.event, **settings).require()
    assert verify_samples(drawn, event=refuted, **settings).refuted
