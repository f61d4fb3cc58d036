"""Gap selection, which chooses how many labels k to release: its distributions, regularizers and refusals."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from pate.accounting import (
    Adjacency,
    BoundedRangeEvent,
    Event,
    OpposedMaximaEvent,
    PureDpEvent,
)
from pate.array_types import FloatArray
from pate.mechanisms import GapSelection
from pate.mechanisms.gap_selection import SELECTION_NOISES
from tests.refusals import ANY, refused_parameter

SELECTION = GapSelection(noise_scale=2.0, num_labels=4, num_teachers=6)


@pytest.mark.parametrize("noise", SELECTION_NOISES)
def test_a_batch_has_the_distributions_of_its_histograms(noise: str) -> None:
    """The distributions of a batch of three histograms are those of each histogram alone.

    A draw from the batch has one entry for each histogram.
    """
    k_selection = GapSelection(noise_scale=2.0, noise=noise, num_labels=4, num_teachers=6)
    histograms = np.array([[6, 5, 2, 0], [0, 1, 1, 6], [3, 3, 3, 3]])
    single_probs = np.stack([k_selection.probabilities(histogram) for histogram in histograms])
    batch_probs = k_selection.probabilities(histograms)
    np.testing.assert_allclose(batch_probs, single_probs, rtol=1e-12)
    np.testing.assert_allclose(single_probs.sum(axis=1), desired=1, rtol=1e-9)
    selected_of_batch = k_selection(histograms, rng=np.random.default_rng(0))
    assert selected_of_batch.shape == (3,)
    selected_of_one = k_selection(histograms[0], rng=np.random.default_rng(0))
    assert selected_of_one.shape == ()


@pytest.mark.parametrize("noise", SELECTION_NOISES)
def test_regularizer_may_be_a_function_or_a_list(noise: str) -> None:
    """A regularizer given as a function of k or as the list of its values gives the same distribution.

    A constant regularizer changes nothing, and a falling one moves probability to small k.
    """

    def probabilities_with(regularizer: Any) -> FloatArray:
        selection = dataclasses.replace(
            SELECTION, noise=noise, regularizer=regularizer, padded=True
        )
        vote_counts = np.array([6, 4, 3, 1])
        return selection.probabilities(vote_counts)

    probs_of_function = probabilities_with(regularizer=lambda k: -0.5 * k)
    probs_of_list = probabilities_with(regularizer=[0, -0.5, -1, -1.5, -2])
    np.testing.assert_allclose(probs_of_function, probs_of_list, rtol=1e-12)
    probs_of_constant = probabilities_with(regularizer=lambda k: 7.0)
    probs_without_regularizer = probabilities_with(regularizer=None)
    np.testing.assert_allclose(probs_of_constant, probs_without_regularizer, rtol=1e-9)
    assert probs_of_function[0] > probs_without_regularizer[0]
    assert probs_of_function[4] < probs_without_regularizer[4]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("noise", SELECTION_NOISES)
def test_only_the_largest_counts_matter_with_max_k(noise: str, padded: bool) -> None:
    """With `max_k=2`, histograms with the same three largest counts have one distribution.

    The number and the order of the other labels make no difference. If `padded`, k may also be 0.
    """
    distributions = []
    for vote_counts in ([6, 3, 1], [1, 6, 0, 3, 1], [1, 1, 6, 0, 0, 1, 3]):
        selection = dataclasses.replace(
            SELECTION, noise=noise, num_labels=len(vote_counts), padded=padded, max_k=2
        )
        distributions.append(selection.probabilities(np.array(vote_counts)))
    np.testing.assert_array_equal(distributions[0], distributions[1])
    np.testing.assert_array_equal(distributions[0], distributions[2])


@pytest.mark.parametrize(
    ("adjacency", "noise", "expected_event"),
    [
        ("replace_one", "gumbel", BoundedRangeEvent(epsilon=2 * 2 / 2.5)),
        ("replace_one", "laplace", PureDpEvent(epsilon=2 * 2 / 2.5)),
        ("replace_one", "exponential", PureDpEvent(epsilon=2 * 2 / 2.5)),
        ("replace_one", "gaussian", OpposedMaximaEvent(2.5 / 2, num_candidates=3)),
        ("add_remove", "gumbel", BoundedRangeEvent(epsilon=2 * 1 / 2.5)),
        ("add_remove", "laplace", PureDpEvent(epsilon=2 * 1 / 2.5)),
        ("add_remove", "exponential", PureDpEvent(epsilon=2 * 1 / 2.5)),
        ("add_remove", "gaussian", OpposedMaximaEvent(2.5 / 1, num_candidates=3)),
    ],
)
def test_price_of_each_noise_and_adjacency(
    adjacency: Adjacency, noise: str, expected_event: Event
) -> None:
    """The event of a gap selection is that of noise of scale 2.5 on gaps, the differences of successive sorted counts.

    One teacher changes a gap by 2 votes under replace-one and by 1 vote under add-remove.
    """
    selection = dataclasses.replace(SELECTION, noise_scale=2.5, noise=noise, adjacency=adjacency)
    assert selection.event == expected_event


@pytest.mark.parametrize("noise", SELECTION_NOISES)
@pytest.mark.parametrize("offset", [0.1, 1e6 + 0.3, 1e15, -(2.0**50)])
def test_large_offsets_do_not_round_gaps(noise: str, offset: float) -> None:
    """If a regularizer adds the same number to all candidates, the distribution stays as it is.

    Rounded sums would move by more than the price allows.
    """
    without_offset = GapSelection(noise_scale=100.0, noise=noise, num_labels=3, num_teachers=1000)
    with_offset = GapSelection(
        noise_scale=100.0,
        noise=noise,
        num_labels=3,
        num_teachers=1000,
        regularizer=[offset, offset],
    )
    histograms = np.array([[600, 600 - gap, 200] for gap in range(100, 117)])
    np.testing.assert_allclose(
        with_offset.probabilities(histograms),
        without_offset.probabilities(histograms),
        rtol=1e-12,
    )


def test_offsets_beside_which_gaps_would_be_rounded_are_refused() -> None:
    """A regularizer so large that a gap of one vote is lost in double precision is refused."""
    with refused_parameter("regularizer", value=1e17, rule_words="numbers up to 2**50"):
        GapSelection(noise_scale=1.0, num_labels=3, num_teachers=9, regularizer=[1e17, 1e17])
    selection = GapSelection(
        noise_scale=1.0, num_labels=3, num_teachers=1000, regularizer=[0.1, -3.0]
    )
    offset_of_each_candidate = selection.offsets.tolist()
    assert offset_of_each_candidate == pytest.approx([0.1, -3.0], abs=1e-12)


WRONG: list[tuple[str, Any]] = [
    *(("noise_scale", value) for value in (0.0, math.nan, "2")),
    ("noise", "gumble"),
    ("num_labels", 1),
    ("num_teachers", 0),
    ("adjacency", "swap"),
    *(("max_k", value) for value in (0, 2.0)),
    *(
        ("regularizer", value)
        for value in ([1.0, 2.0], [], [0.0] * 4, 3.0, "steep", np.zeros((2, 2)))
    ),
    *(
        ("regularizer", [0.0, v, 0.0])
        for v in (math.nan, math.inf, -math.inf, "1", None, True, [1.0], 1j)
    ),
    *(("regularizer", lambda k, v=v: v) for v in (math.nan, math.inf, "1", None, True, [1.0], 1j)),
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_impossible_parameters_are_refused_on_one_line(field: str, value: Any) -> None:
    """A gap selection whose parameter `field` has an impossible `value` is refused by the parameter's name."""
    with refused_parameter(field, value=ANY) as refusal:
        dataclasses.replace(SELECTION, **{field: value})
    assert "\n" not in str(refusal.value)
