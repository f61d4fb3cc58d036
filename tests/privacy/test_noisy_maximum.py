"""The exact accountant's delta of a gap selection is at least the exact one on all small neighbors."""

from dataclasses import replace

import numpy as np
import pytest

from pate.accounting import Adjacency, ExactAccountant
from pate.accounting.events import Event
from pate.mechanisms import GapSelection
from pate.testing.divergences import hockey_stick
from tests.privacy.histograms import neighbors

EPSILONS = np.array([0.1, 0.3, 0.6, 1.0, 1.6, 2.4])
ROUNDING = 1e-9  # the rounding error of exact probabilities, which are integrals


def largest_deltas(selection: GapSelection) -> np.ndarray:
    """Returns the largest exact delta of any two neighbors at each of `EPSILONS`; an outcome is the size k."""
    first_counts, second_counts = neighbors(
        selection.num_labels, selection.num_teachers, selection.adjacency
    )
    # The law depends on the sorted counts alone, so each sorted histogram is integrated once.
    sorted_counts = np.sort(np.concatenate([first_counts, second_counts]), axis=1)
    histograms, indices = np.unique(sorted_counts, axis=0, return_inverse=True)
    laws = np.stack([selection.probabilities(histogram) for histogram in histograms])
    first_laws, second_laws = np.split(laws[indices.reshape(-1)], 2)
    return hockey_stick(first_laws, second_laws, EPSILONS).max(axis=0)


def priced_deltas(event: Event) -> np.ndarray:
    """Returns the exact accountant's delta of an event at each of `EPSILONS`."""
    accountant = ExactAccountant().compose(event)
    return np.array([accountant.get_delta(target_epsilon=float(epsilon)) for epsilon in EPSILONS])


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("noise_scale", [0.7, 1.5, 4.0])
def test_no_two_small_neighbors_are_farther_apart_than_is_priced(
    adjacency: Adjacency, noise_scale: float
) -> None:
    """The exact delta of a gap selection with Gaussian noise is at most the exact accountant's.

    All neighbors of three teachers are compared. Negative control: the price for twice the noise is exceeded.
    """
    selection = GapSelection(
        noise_scale=noise_scale,
        noise="gaussian",
        num_labels=4,
        num_teachers=3,
        adjacency=adjacency,
    )
    exact = largest_deltas(selection)
    assert (exact <= priced_deltas(selection.event) + ROUNDING).all()
    event_of_more_noise = replace(selection, noise_scale=2 * noise_scale).event
    assert (exact > priced_deltas(event_of_more_noise) + ROUNDING).any()
