"""The smallest delta that draws can keep."""

from __future__ import annotations

import pytest

from pate.pricing.priced_release import require_achievable_delta, smallest_delta
from pate.validation import InvalidValue


def test_smallest_delta_is_a_grid_step_for_every_label() -> None:
    assert smallest_delta(num_queries=600, num_labels=40) == 24_000 * 2.0**-53
    with pytest.raises(InvalidValue, match="num_queries=0: expected a whole number >= 1"):
        smallest_delta(num_queries=0, num_labels=40)
    assert require_achievable_delta(1e-6, num_queries=600, num_labels=40) == 1e-6
    with pytest.raises(InvalidValue, match=r"target_delta=1e-30: expected at least 2\.67e-12, below which draws in"):
        require_achievable_delta(1e-30, num_queries=600, num_labels=40)
