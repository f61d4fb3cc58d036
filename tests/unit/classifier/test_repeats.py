"""A process remembers its fits, and counts and prices the fits that share records."""

import math

import numpy as np
import pytest

from pate.accounting import Adjacency, GaussianEvent, PrivacyUnit, PureDpEvent
from pate.classifier import RepeatedRelease
from pate.classifier.past_fits import PastFits, RememberedFit, RememberedPrice, warn_of_past_fits

RECORDS = np.random.default_rng(0).standard_normal((5000, 3)).astype(np.float32)

ONE_ROW = PrivacyUnit(words="one row")
ONE_GROUP = PrivacyUnit(words="one value of groups, with all its rows", columns=("groups",))


def num_fits_and_epsilon_after_fit(
    records: np.ndarray,
    fit_epsilon: float,
    *,
    delta: float = 1e-6,
    seed: int | None = None,
    unit: PrivacyUnit = ONE_ROW,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
) -> tuple[int, float]:
    """Remembers a fit to records; returns the number of fits with records in common, and their total epsilon."""
    past_fits = remember_fit(
        records=records, epsilon=fit_epsilon, delta=delta, seed=seed, unit=unit, adjacency=adjacency
    )
    return past_fits.count, past_fits.epsilon


def remember_fit(
    records: np.ndarray,
    epsilon: float,
    *,
    delta: float,
    seed: int | None = None,
    unit: PrivacyUnit = ONE_ROW,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
) -> PastFits:
    """Remembers a fit to records; returns the past fits of that record whose prices have the largest sum."""
    price = RememberedPrice(
        epsilon=epsilon,
        delta=delta,
        event=PureDpEvent(epsilon),
        seed=seed,
        unit=unit,
        adjacency=adjacency,
    )
    fit_to_remember = RememberedFit.from_inputs(records, price=price)
    past_fits = fit_to_remember.costliest_fits()
    fit_to_remember.remember()
    return past_fits


def test_prices_of_fits_with_records_in_common_add_up() -> None:
    """Fits to overlapping records are counted, and their prices added up; a fit to other records counts alone."""
    assert num_fits_and_epsilon_after_fit(records=RECORDS[:100], fit_epsilon=2.0) == (1, 2.0)
    assert num_fits_and_epsilon_after_fit(records=RECORDS[50:150], fit_epsilon=3.0) == (2, 5.0)
    assert num_fits_and_epsilon_after_fit(records=RECORDS[200:300], fit_epsilon=1.0) == (1, 1.0)
    assert num_fits_and_epsilon_after_fit(records=RECORDS[:300], fit_epsilon=1.0) == (3, 6.0)


@pytest.mark.parametrize(
    "row_order", [slice(None), slice(None, None, -1)], ids=["same", "reversed"]
)
def test_a_fold_of_many_records_is_recognized(row_order: slice) -> None:
    """A fit to 4,000 of 5,000 rows, in any order, counts as the second fit to these records.

    Of each fit, 1,000 records are remembered; most of those of the second fit are also remembered of the first.
    """
    num_fits_and_epsilon_after_fit(records=RECORDS, fit_epsilon=1.0)
    assert num_fits_and_epsilon_after_fit(records=RECORDS[1000:][row_order], fit_epsilon=1.0) == (
        2,
        2.0,
    )


def test_the_sum_of_deltas_has_no_guarantee_from_one_on() -> None:
    """The total epsilon of fits to the same records is infinite once the sum of their deltas reaches 1."""
    records = RECORDS[300:400]
    past_fits_after_each = [
        remember_fit(records=records, epsilon=1.0, delta=delta) for delta in (1e-6, 1e-5, 1.0)
    ]
    assert [past_fits.delta for past_fits in past_fits_after_each] == pytest.approx(
        [1e-6, 1.1e-5, 1.0]
    )
    assert [past_fits.epsilon for past_fits in past_fits_after_each] == [1.0, 2.0, math.inf]


def test_a_repeated_record_in_one_fit_counts_once() -> None:
    """A fit to nine equal records counts once."""
    assert num_fits_and_epsilon_after_fit(
        records=np.zeros((9, 2), np.float32), fit_epsilon=1.0
    ) == (
        1,
        1.0,
    )


def test_fits_with_the_same_seed_have_no_total_price() -> None:
    """Two fits with records in common and the same seed have an infinite total epsilon.

    The difference of their releases has no noise. Prices of fits with different seeds are added up.
    """
    assert num_fits_and_epsilon_after_fit(records=RECORDS[:100], fit_epsilon=2.0, seed=7) == (
        1,
        2.0,
    )
    assert num_fits_and_epsilon_after_fit(records=RECORDS[200:300], fit_epsilon=2.0, seed=7) == (
        1,
        2.0,
    )
    assert num_fits_and_epsilon_after_fit(records=RECORDS[:100], fit_epsilon=3.0, seed=8) == (
        2,
        5.0,
    )
    assert num_fits_and_epsilon_after_fit(records=RECORDS[50:150], fit_epsilon=3.0, seed=7) == (
        3,
        math.inf,
    )
    assert num_fits_and_epsilon_after_fit(records=RECORDS[:10], fit_epsilon=1.0) == (3, 6.0)


def test_prices_for_two_units_or_two_adjacencies_have_no_sum() -> None:
    """Fits with records in common, but with other units or adjacencies, have an infinite total epsilon."""
    assert num_fits_and_epsilon_after_fit(records=RECORDS[:100], fit_epsilon=2.0) == (1, 2.0)
    assert num_fits_and_epsilon_after_fit(
        records=RECORDS[50:150], fit_epsilon=3.0, unit=ONE_GROUP
    ) == (
        2,
        math.inf,
    )
    assert num_fits_and_epsilon_after_fit(records=RECORDS[:50], fit_epsilon=3.0) == (2, 5.0)
    assert num_fits_and_epsilon_after_fit(
        records=RECORDS[:50], fit_epsilon=1.0, adjacency=Adjacency.ADD_REMOVE
    ) == (3, math.inf)


def test_the_warning_states_the_total_that_a_ledger_would() -> None:
    """The warning of two Gaussian releases of noise multiplier 4 states their total epsilon, 1.5436 rounded up.

    Together the releases are one of noise multiplier 4 / sqrt(2), at delta 1e-6.
    """
    price = RememberedPrice(
        epsilon=1.1,
        delta=1e-6,
        event=GaussianEvent(noise_multiplier=4.0),
        seed=None,
        unit=ONE_ROW,
        adjacency=Adjacency.REPLACE_ONE,
    )
    with pytest.warns(RepeatedRelease, match="here to at least epsilon 1.55 at delta 1e-6"):
        warn_of_past_fits(PastFits().with_fit(price).with_fit(price))


def test_a_fit_that_is_not_charged_is_not_remembered() -> None:
    """A fit that is priced and never charged does not count: the next fit to the same records is the first."""
    records = np.random.default_rng(9).standard_normal((40, 3)).astype(np.float32)
    price = RememberedPrice(
        epsilon=1.0,
        delta=1e-6,
        event=PureDpEvent(epsilon=1.0),
        seed=None,
        unit=ONE_ROW,
        adjacency=Adjacency.REPLACE_ONE,
    )
    fit_to_remember = RememberedFit.from_inputs(records, price=price)
    assert fit_to_remember.costliest_fits().count == 1
    assert num_fits_and_epsilon_after_fit(records=records, fit_epsilon=1.0) == (1, 1.0)
