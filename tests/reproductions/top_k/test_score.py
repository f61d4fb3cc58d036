"""Scores by hand, and repeated draws."""

from __future__ import annotations

import numpy as np
import pytest

from pate.accounting import NoOpEvent
from reproductions.top_k.contender import Contender
from reproductions.top_k.score import repeated, scores

COUNTS = np.array([5, 0, 9, 7, 7, 0])


def test_scores_by_hand() -> None:
    picks = np.array([[2, 3, 0], [0, 2, -1], [1, 5, 2], [-1, -1, -1]])
    found = scores(COUNTS, picks, k=3, ordered=True)  # true counts 9, 7, 7
    assert found.recall == pytest.approx([2 / 3, 1 / 3, 1 / 3, 0])
    assert found.precision == pytest.approx([2 / 3, 1 / 2, 1 / 3, 1])
    assert found.l_inf.tolist() == [2, 7, 9, 9]
    assert found.l_1.tolist() == [2, 13, 18, 23]
    assert found.k_relative.tolist() == [2, 7, 7, 7]


def test_sets_are_compared_in_their_best_order() -> None:
    assert scores(COUNTS, np.array([[3, 2, 0]]), k=3, ordered=True).l_1.tolist() == [6]
    assert scores(COUNTS, np.array([[3, 2, 0]]), k=3, ordered=False).l_1.tolist() == [2]


def test_ties_are_interchangeable_and_zeros_are_never_true() -> None:
    assert scores(COUNTS, np.array([[2, 3], [2, 4]]), k=2, ordered=True).recall.tolist() == [1, 1]
    everything = scores(COUNTS, np.array([[0, 1, 2, 3, 4]]), k=5, ordered=True)
    assert everything.recall.tolist() == [1]
    assert everything.precision.tolist() == [4 / 5]
    assert scores(COUNTS, np.array([[2, 3, 4]]), k=2, ordered=True).precision == pytest.approx([2 / 3])


def test_longer_outcomes_are_cut_in_the_errors() -> None:
    found = scores(COUNTS, np.array([[2, 3, 4, 0]]), k=2, ordered=True)
    assert found.l_1.tolist() == [0]


def test_draws_are_repeated_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def pick(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        sizes.append(len(counts))
        return rng.integers(0, 2, (len(counts), 1))

    monkeypatch.setattr("reproductions.top_k.score._NUMBERS_AT_ONCE", 12)
    found = repeated(
        Contender(NoOpEvent(), pick), np.array([1, 0, 0]), k=1, ordered=True, repeats=10, rng=np.random.default_rng(0)
    )
    assert sizes == [4, 4, 2]
    assert found.recall.shape == (10,)
    assert set(found.recall.tolist()) == {0.0, 1.0}
