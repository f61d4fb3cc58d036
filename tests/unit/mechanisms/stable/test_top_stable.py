"""Top-stable: the threshold, the distribution of a draw, its price on all small instances, and what is refused."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from pate.accounting import Adjacency, ApproximateEvent, PureDpEvent
from pate.mechanisms import TopStableTopK
from pate.validation import InvalidValue


def mechanism(**changes: object) -> TopStableTopK:
    values = {"k": 1, "domain_size": 3, "epsilon": 3.0, "failure_prob": 0.2, **changes}
    return TopStableTopK(**values)


def test_draws_follow_the_exact_distribution() -> None:
    counts, draws = np.array([2, 9, 5, 1]), 20_000
    outcome = mechanism()(np.tile(counts, (draws, 1)), rng=np.random.default_rng(7))
    distribution = mechanism().distribution(counts)
    assert sum(distribution.values()) == pytest.approx(1, abs=1e-12)
    assert distribution.keys() == {(-1, -1, -1), (1, -1, -1), (1, 2, -1), (0, 1, 2)}
    seen = Counter(map(tuple, outcome.indices.tolist()))
    assert chisquare([seen[key] for key in distribution], np.array(list(distribution.values())) * draws).pvalue > 1e-4
    assert outcome.answered.tolist() == (outcome.indices[:, 0] >= 0).tolist()


def test_a_gap_of_w_passes_with_its_share_of_the_failure() -> None:
    for adjacency in Adjacency:
        made = mechanism(adjacency=adjacency, k=3, failure_prob=1e-3)
        counts = np.array([9, 9, 9, 9 - adjacency.gap_sensitivity])
        assert made.distribution(counts)[0, 1, 2] == pytest.approx(1e-3, rel=1e-9)
        assert made.gap_scale == 2 * made.threshold_scale == 4 * adjacency.gap_sensitivity / 3.0


def largest_delta(made: TopStableTopK, adjacency: Adjacency, *, epsilon: float) -> float:
    """The largest hockey stick over all neighboring histograms of 3 labels and 4 teachers."""
    distributions = {counts: made.distribution(np.array(counts)) for counts in product(range(5), repeat=3)}
    ups = [(0, 1)] if adjacency is Adjacency.ADD_REMOVE else [(-1, 0, 1)]
    largest = 0.0
    for counts, distribution in distributions.items():
        for move in product(*ups, repeat=3):
            other = distributions.get(tuple(c + m for c, m in zip(counts, move, strict=True)))
            if other is not None:
                for p, q in ((distribution, other), (other, distribution)):
                    excess = [p.get(y, 0.0) - math.exp(epsilon) * q.get(y, 0.0) for y in p]
                    largest = max(largest, sum(x for x in excess if x > 0))
    return largest


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(("epsilon", "failure_prob"), [(0.5, 0.1), (2.0, 0.01)])
def test_the_price_covers_all_neighbors(adjacency: Adjacency, epsilon: float, failure_prob: float) -> None:
    made = mechanism(k=1, domain_size=2, epsilon=epsilon, failure_prob=failure_prob, adjacency=adjacency)
    assert made.event == ApproximateEvent(PureDpEvent(epsilon), failure_prob)
    exact = largest_delta(made, adjacency, epsilon=epsilon)
    assert 0.4 * failure_prob < exact <= failure_prob


def test_the_price_of_add_remove_does_not_hold_for_replacing_a_record() -> None:
    made = mechanism(k=1, domain_size=2, epsilon=2.0, failure_prob=0.01, adjacency=Adjacency.ADD_REMOVE)
    assert largest_delta(made, Adjacency.REPLACE_ONE, epsilon=2.0) > 0.01


def test_large_failure_probabilities_make_no_negative_threshold() -> None:
    assert mechanism(k=3, failure_prob=0.9).threshold == 0


def test_what_is_refused() -> None:
    with pytest.raises(InvalidValue, match="domain_size=0: expected a whole number >= 1"):
        mechanism(domain_size=0)
    with pytest.raises(InvalidValue, match="domain_size=3: expected at most 2, one below the counts"):
        mechanism()(np.array([3, 2, 1]), rng=np.random.default_rng(0))
    with pytest.raises(InvalidValue, match=r"epsilon=0\.0: expected a number > 0"):
        mechanism(epsilon=0.0)
    with pytest.raises(InvalidValue, match=r"failure_prob=1\.0: expected a number in \(0, 1\)"):
        mechanism(failure_prob=1.0)
