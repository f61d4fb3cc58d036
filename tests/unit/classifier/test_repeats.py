"""What is remembered of records that fits released something about."""

import math

import numpy as np
import pytest

from pate.classifier.classifier import repeats

ROWS = np.random.default_rng(0).standard_normal((5000, 3)).astype(np.float32)


def test_prices_of_fits_with_records_in_common_add_up() -> None:
    assert repeats(ROWS[:100], 2.0) == (1, 2.0)
    assert repeats(ROWS[50:150], 3.0) == (2, 5.0)
    assert repeats(ROWS[200:300], 1.0) == (1, 1.0)
    assert repeats(ROWS[:300], 1.0) == (3, 6.0)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["same", "reversed"])
def test_a_fold_of_many_records_is_recognized(order: slice) -> None:
    """Of each fit 1,000 records are kept, and those of a part of the data are mostly among those of the whole."""
    repeats(ROWS, 1.0)
    assert repeats(ROWS[1000:][order], 1.0) == (2, 2.0)


def test_a_record_twice_in_one_fit_is_one_release() -> None:
    assert repeats(np.zeros((9, 2), np.float32), 1.0) == (1, 1.0)


def test_fits_that_share_their_noise_have_no_price() -> None:
    """Of one seed: what noise hides in either is seen in where the two differ."""
    assert repeats(ROWS[:100], 2.0, seed=7) == (1, 2.0)
    assert repeats(ROWS[200:300], 2.0, seed=7) == (1, 2.0)
    assert repeats(ROWS[:100], 3.0, seed=8) == (2, 5.0)
    assert repeats(ROWS[50:150], 3.0, seed=7) == (3, math.inf)
    assert repeats(ROWS[:10], 1.0) == (3, 6.0)
