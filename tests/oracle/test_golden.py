"""The package computes the golden values, which were computed outside of it."""

from typing import Any

import numpy as np
import pytest

from pate.accounting import NoisyMaxGaussianEvent
from pate.accounting.rdp import rdp_curve_of
from tests.oracle.golden import EVALUATORS, entries, evaluate
from tests.refusals import refused_parameter

ENTRIES = entries()


def assert_matches(value: Any, expected: Any, rtol: float) -> None:
    """Fails unless numbers, lists of numbers, or dictionaries of numbers with the same keys agree within `rtol`."""
    if isinstance(expected, dict):
        assert value.keys() == expected.keys()
        for key, number in expected.items():
            assert value[key] == pytest.approx(number, rel=rtol, abs=0.0), key
    else:
        np.testing.assert_allclose(value, expected, rtol=rtol)


@pytest.mark.parametrize(
    "entry", ENTRIES, ids=[f"{entry['name']}-{index}" for index, entry in enumerate(ENTRIES)]
)
def test_a_golden_entry_is_reproduced(entry: dict[str, Any]) -> None:
    """The package computes the stored value of a golden entry within the entry's tolerance."""
    assert_matches(
        evaluate(entry["name"], inputs=entry["inputs"]), expected=entry["value"], rtol=entry["rtol"]
    )


def test_every_entry_is_evaluated() -> None:
    """`EVALUATORS` has a function for each name among the golden entries, and no other.

    There are at least 32 entries.
    """
    assert {entry["name"] for entry in ENTRIES} == EVALUATORS.keys()
    assert len(ENTRIES) >= 32


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    """`evaluate` refuses a misspelled name, and the error suggests the nearest one."""
    with refused_parameter(
        "name", value="gap_select_prob", rule_words="did you mean gap_select_probs"
    ):
        evaluate(name="gap_select_prob", inputs={})


def test_the_comparison_notices_a_relative_error_of_twice_the_tolerance() -> None:
    """The comparison fails for each stored value if it is changed by twice its tolerance."""
    for entry in ENTRIES:
        wrong = _scaled(entry["value"], factor=1 + 2 * entry["rtol"] + 1e-14)
        with pytest.raises(AssertionError):
            assert_matches(wrong, expected=entry["value"], rtol=entry["rtol"])


@pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES if entry["name"] == "rnm_gauss_tie_renyi"]
)
def test_noisy_max_bound_lies_between_the_tied_divergence_and_corollary_9(
    entry: dict[str, Any],
) -> None:
    """The package's price of a noisy maximum is at least the stored divergence of tied gaps.

    The price is at most the bound of Corollary 9 of Zhu & Wang 2022.
    """
    inputs = entry["inputs"]
    order = np.array([inputs["alpha"]])
    bound = rdp_curve_of(
        NoisyMaxGaussianEvent(noise_multiplier=inputs["sigma"], num_candidates=inputs["n_gaps"])
    )(order)[0]
    corollary_9 = 2 * inputs["alpha"] / inputs["sigma"] ** 2 + np.log(inputs["n_gaps"]) / (
        inputs["alpha"] - 1
    )
    assert entry["value"] <= bound <= corollary_9


def _scaled(golden_value: Any, factor: float) -> Any:
    """Returns a number, or a list or dictionary of numbers, times a factor."""
    if isinstance(golden_value, dict):
        return {key: number * factor for key, number in golden_value.items()}
    return np.asarray(golden_value) * factor
