"""What is remembered of records that fits released something about."""

import math

import numpy as np
import pytest

from pate.accounting import Adjacency, GaussianEvent, PrivacyUnit, PureDpEvent
from pate.classifier import RepeatedRelease
from pate.classifier.past_fits import FitPrice, PastFits, RememberedFit, warn_of_past_fits

ROWS = np.random.default_rng(0).standard_normal((5000, 3)).astype(np.float32)

ROW = PrivacyUnit(words="one row")
GROUP = PrivacyUnit(words="one value of groups, with all its rows", columns=("groups",))


def count_and_epsilon_of_fits(
    rows: np.ndarray,
    epsilon: float,
    *,
    delta: float = 1e-6,
    seed: int | None = None,
    unit: PrivacyUnit = ROW,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
) -> tuple[int, float]:
    """Records a fit on rows; returns the number of fits with records in common, and their total epsilon."""
    past = remember_fit(
        rows=rows, epsilon=epsilon, delta=delta, seed=seed, unit=unit, adjacency=adjacency
    )
    return past.count, past.epsilon


def remember_fit(
    rows: np.ndarray,
    epsilon: float,
    *,
    delta: float,
    seed: int | None = None,
    unit: PrivacyUnit = ROW,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
) -> PastFits:
    """Records a fit on rows; returns the fits of the record whose prices have the greatest sum."""
    price = FitPrice(
        epsilon=epsilon,
        delta=delta,
        event=PureDpEvent(epsilon),
        seed=seed,
        unit=unit,
        adjacency=adjacency,
    )
    remembered_fit = RememberedFit.from_inputs(rows, price=price)
    past = remembered_fit.dearest_fits()
    remembered_fit.remember()
    return past


def test_prices_of_fits_with_records_in_common_add_up() -> None:
    """Fits on overlapping rows are counted with their total epsilon. A fit on other rows counts alone."""
    assert count_and_epsilon_of_fits(rows=ROWS[:100], epsilon=2.0) == (1, 2.0)
    assert count_and_epsilon_of_fits(rows=ROWS[50:150], epsilon=3.0) == (2, 5.0)
    assert count_and_epsilon_of_fits(rows=ROWS[200:300], epsilon=1.0) == (1, 1.0)
    assert count_and_epsilon_of_fits(rows=ROWS[:300], epsilon=1.0) == (3, 6.0)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["same", "reversed"])
def test_a_fold_of_many_records_is_recognized(order: slice) -> None:
    """A fit on 4,000 of 5,000 rows, in any order, counts as the second fit on these records.

    Of each fit, 1,000 records are remembered; most of those of the fold are among those of all rows.
    """
    count_and_epsilon_of_fits(rows=ROWS, epsilon=1.0)
    assert count_and_epsilon_of_fits(rows=ROWS[1000:][order], epsilon=1.0) == (2, 2.0)


def test_the_sum_of_deltas_has_no_guarantee_from_one_on() -> None:
    """Fits on the same rows add up their deltas. From a sum of 1 on, the total epsilon is infinite."""
    rows = ROWS[300:400]
    past = [remember_fit(rows=rows, epsilon=1.0, delta=delta) for delta in (1e-6, 1e-5, 1.0)]
    assert [fits.delta for fits in past] == pytest.approx([1e-6, 1.1e-5, 1.0])
    assert [fits.epsilon for fits in past] == [1.0, 2.0, math.inf]


def test_a_repeated_record_in_one_fit_counts_once() -> None:
    """A fit on nine equal rows is one fit."""
    assert count_and_epsilon_of_fits(rows=np.zeros((9, 2), np.float32), epsilon=1.0) == (1, 1.0)


def test_fits_with_the_same_seed_have_no_total_price() -> None:
    """Two fits with records in common and the same seed have an infinite total epsilon.

    The difference of their releases has no noise. Other seeds add up.
    """
    assert count_and_epsilon_of_fits(rows=ROWS[:100], epsilon=2.0, seed=7) == (1, 2.0)
    assert count_and_epsilon_of_fits(rows=ROWS[200:300], epsilon=2.0, seed=7) == (1, 2.0)
    assert count_and_epsilon_of_fits(rows=ROWS[:100], epsilon=3.0, seed=8) == (2, 5.0)
    assert count_and_epsilon_of_fits(rows=ROWS[50:150], epsilon=3.0, seed=7) == (3, math.inf)
    assert count_and_epsilon_of_fits(rows=ROWS[:10], epsilon=1.0) == (3, 6.0)


def test_prices_for_two_units_or_two_adjacencies_have_no_sum() -> None:
    """Fits with records in common, but with other units or adjacencies, have an infinite total epsilon."""
    assert count_and_epsilon_of_fits(rows=ROWS[:100], epsilon=2.0) == (1, 2.0)
    assert count_and_epsilon_of_fits(rows=ROWS[50:150], epsilon=3.0, unit=GROUP) == (2, math.inf)
    assert count_and_epsilon_of_fits(rows=ROWS[:50], epsilon=3.0) == (2, 5.0)
    assert count_and_epsilon_of_fits(
        rows=ROWS[:50], epsilon=1.0, adjacency=Adjacency.ADD_REMOVE
    ) == (3, math.inf)


def test_the_warning_states_the_total_that_a_ledger_would() -> None:
    """Two Gaussian releases of noise multiplier 4 equal one of 4 / sqrt(2), whose epsilon is 1.5436 at delta 1e-6."""
    price = FitPrice(
        epsilon=1.1,
        delta=1e-6,
        event=GaussianEvent(noise_multiplier=4.0),
        seed=None,
        unit=ROW,
        adjacency=Adjacency.REPLACE_ONE,
    )
    past = PastFits().with_fit(price).with_fit(price)
    with pytest.warns(RepeatedRelease, match="here to at least epsilon 1.55 at delta 1e-6"):
        warn_of_past_fits(past, stacklevel=1)


def test_a_fit_that_is_not_charged_is_not_remembered() -> None:
    """A planned fit is priced, and never charged. The next fit on the same rows is the first."""
    rows = np.random.default_rng(9).standard_normal((40, 3)).astype(np.float32)
    price = FitPrice(
        epsilon=1.0,
        delta=1e-6,
        event=PureDpEvent(epsilon=1.0),
        seed=None,
        unit=ROW,
        adjacency=Adjacency.REPLACE_ONE,
    )
    remembered_fit = RememberedFit.from_inputs(rows, price=price)
    assert remembered_fit.dearest_fits().count == 1
    assert count_and_epsilon_of_fits(rows=rows, epsilon=1.0) == (1, 1.0)
