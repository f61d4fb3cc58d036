"""Limited domain and top-stable: bottom and threshold, distributions, price on small instances, and what is refused."""

from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.mechanisms import LimitedDomainTopK, TopStableTopK
from pate.validation import InvalidValue
from pate.verification import Claim, verify


def mechanism(**changes: object) -> LimitedDomainTopK:
    values = {"k": 2, "domain_size": 3, "epsilon": 6.0, "failure_prob": 0.1, **changes}
    return LimitedDomainTopK(**values)


def test_nothing_outside_the_domain_is_released_and_nothing_below_the_bottom() -> None:
    outcome = mechanism()(np.tile([2, 5, 4, 1], (5_000, 1)), rng=np.random.default_rng(0)).indices
    assert set(outcome.ravel().tolist()) == {-1, 0, 1, 2}
    assert (outcome[outcome[:, 0] < 0] == -1).all()


def mechanism_of_top_stable(**changes: object) -> TopStableTopK:
    values = {"k": 1, "domain_size": 3, "epsilon": 3.0, "failure_prob": 0.2, **changes}
    return TopStableTopK(**values)


def test_a_gap_of_w_passes_with_its_share_of_the_failure() -> None:
    for adjacency in Adjacency:
        made = mechanism_of_top_stable(adjacency=adjacency, k=3, failure_prob=1e-3)
        counts = np.array([9, 9, 9, 9 - adjacency.gap_sensitivity])
        assert made.distribution(counts)[0, 1, 2] == pytest.approx(1e-3, rel=1e-9)
        assert mechanism_of_top_stable(k=3, failure_prob=0.9).threshold == 0
        assert made.gap_scale == 2 * made.threshold_scale == 4 * adjacency.gap_sensitivity / 3.0


def test_the_price_of_add_remove_does_not_hold_for_replacing_a_record() -> None:
    """That it holds where it should is in `privacy/test_shipped.py`."""
    made = mechanism_of_top_stable(k=1, domain_size=2, epsilon=2.0, failure_prob=0.01, adjacency=Adjacency.ADD_REMOVE)
    shape = {"num_labels": 3, "num_teachers": 4, "adjacency": Adjacency.REPLACE_ONE}
    assert verify(made.distribution, event=Claim(deltas=((2.0, 0.01),)), **shape).refuted


@pytest.mark.parametrize("make", [mechanism, mechanism_of_top_stable])
def test_refusals(make: Any) -> None:
    for name, value in (("domain_size", 0), ("failure_prob", 0), ("failure_prob", 1.0), ("epsilon", -1)):
        with pytest.raises(InvalidValue, match=rf"^{name}={value}: expected"):
            make(**{name: value})
    for counts, name in (([1, 2], "domain_size"), ([1, 2, -4], "counts")):
        with pytest.raises(InvalidValue, match=rf"^{name}.*: expected"):
            make()(np.array(counts), rng=np.random.default_rng(0))
    with pytest.raises(InvalidValue, match="domain_size=3: expected at most 2 of 3 counts"):
        mechanism_of_top_stable()(np.array([3, 2, 1]), rng=np.random.default_rng(0))
