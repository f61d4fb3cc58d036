"""Limited domain top-k: the bottom, the distribution of a draw, and what is refused."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from pate.accounting import ApproximateEvent, PureDpEvent
from pate.mechanisms import LimitedDomainTopK, PeelingTopK
from pate.validation import InvalidValue


def mechanism(**changes: object) -> LimitedDomainTopK:
    values = {"k": 2, "domain_size": 3, "epsilon": 6.0, "failure_prob": 0.1, **changes}
    return LimitedDomainTopK(**values)


def test_draws_follow_the_exact_distribution() -> None:
    counts, draws = np.array([2, 5, 4, 1]), 20_000
    outcome = mechanism()(np.tile(counts, (draws, 1)), rng=np.random.default_rng(7))
    distribution = mechanism().distribution(counts)
    assert sum(distribution.values()) == pytest.approx(1, abs=1e-12)
    seen = Counter(map(tuple, outcome.indices.tolist()))
    assert seen.keys() <= distribution.keys()
    expected = np.array(list(distribution.values())) * draws
    assert chisquare([seen[key] for key in distribution], expected / expected.sum() * draws).pvalue > 1e-4
    assert outcome.answered.tolist() == (outcome.indices[:, 0] >= 0).tolist()
    assert not outcome.answered.all()


def test_nothing_outside_the_domain_is_released_and_nothing_below_the_bottom() -> None:
    outcome = mechanism()(np.tile([2, 5, 4, 1], (5_000, 1)), rng=np.random.default_rng(0)).indices
    assert set(outcome.ravel().tolist()) == {-1, 0, 1, 2}
    assert (outcome[outcome[:, 0] < 0] == -1).all()


def test_large_counts_pass_and_equal_ones_do_not() -> None:
    wide = mechanism(failure_prob=1e-9, epsilon=1.0)
    counts = np.array([10_000, 0, 20_000, 3])
    assert wide(counts, rng=np.random.default_rng(0)).indices.tolist() == [2, 0]
    assert sum(p for outcome, p in wide.distribution(np.full(4, 10_000)).items() if outcome != (-1, -1)) < 1e-9


def test_the_bottom_lies_above_the_best_count_outside() -> None:
    assert mechanism().margin == pytest.approx(2 + (2 * 2 / 6) * math.log(3 / 0.1))
    assert mechanism(adjacency="add_remove").margin == pytest.approx(1 + (2 * 1 / 6) * math.log(3 / 0.1))
    assert mechanism().event == ApproximateEvent(PureDpEvent(6.0), 0.1)


def test_the_whole_domain_leaves_an_outside_of_count_0() -> None:
    """With all indices inside and counts far above the bottom it is peeling."""
    counts = np.array([500, 501, 502])
    distribution = mechanism(domain_size=3).distribution(counts)
    for outcome, probability in PeelingTopK(k=2, epsilon=6.0).distribution(counts).items():
        assert distribution[outcome] == pytest.approx(probability, rel=1e-9)


def test_refusals() -> None:
    with pytest.raises(InvalidValue, match="domain_size=1: expected a whole number >= 2"):
        mechanism(domain_size=1)
    with pytest.raises(InvalidValue, match=r"failure_prob=0: expected a number in \(0, 1\)"):
        mechanism(failure_prob=0)
    with pytest.raises(InvalidValue, match="epsilon=-1: expected a number > 0"):
        mechanism(epsilon=-1)
    with pytest.raises(InvalidValue, match="domain_size=3: expected at most the number of counts, 2"):
        mechanism()(np.array([1, 2]), rng=np.random.default_rng(0))
    with pytest.raises(InvalidValue, match=r"counts\[\d+\]: expected counts in 0\.\."):
        mechanism()(np.array([1, 2, -4]), rng=np.random.default_rng(0))
