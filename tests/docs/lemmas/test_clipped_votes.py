"""docs/proofs/clipped_votes.md, step by step."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

VECTORS = {labels: np.array(list(product((0, 1), repeat=labels))) for labels in range(1, 7)}


def shortened(vectors: np.ndarray, tau: int) -> np.ndarray:
    """w of norm l2."""
    return vectors * np.minimum(1.0, np.sqrt(tau / np.maximum(vectors.sum(axis=1, keepdims=True), 1)))


@pytest.mark.parametrize("num_labels", VECTORS)
def test_bits_with_at_most_tau_ones_differ_in_at_most_min_2_tau_l_places_and_it_is_attained(num_labels: int) -> None:
    for tau in range(1, num_labels + 1):
        few = VECTORS[num_labels][VECTORS[num_labels].sum(axis=1) <= tau]
        assert (few[:, None] != few).sum(axis=-1).max() == min(2 * tau, num_labels)


@pytest.mark.parametrize("num_labels", VECTORS)
def test_shortened_vectors_are_as_near_and_it_is_attained(num_labels: int) -> None:
    for tau in range(1, num_labels + 1):
        w = shortened(VECTORS[num_labels], tau)
        assert (w @ w.T >= 0).all()
        assert (w**2).sum(axis=1).max() == pytest.approx(min(tau, num_labels))
        distances = ((w[:, None] - w) ** 2).sum(axis=-1)
        assert distances.max() == pytest.approx(min(2 * tau, num_labels))


def test_a_cap_chosen_by_looking_at_others_moves_more() -> None:
    """Keep the most popular label: one teacher's change moves what three others keep."""
    votes = np.array([[1, 1, 0]] * 3 + [[0, 1, 0]])
    other = np.array([[1, 1, 0]] * 3 + [[1, 0, 0]])

    def popular(ensemble: np.ndarray) -> np.ndarray:
        best = ensemble.sum(axis=0).argmax()
        return np.eye(3)[[best if row[best] else row.argmax() for row in ensemble]].sum(axis=0)

    assert ((popular(votes) - popular(other)) ** 2).sum() > 2
