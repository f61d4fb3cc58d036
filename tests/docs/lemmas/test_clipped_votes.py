"""docs/proofs/clipped_votes.md, step by step."""

import numpy as np


def test_a_cap_chosen_by_looking_at_others_moves_more() -> None:
    """Keep the most popular label: one teacher's change moves what three others keep."""
    votes = np.array([[1, 1, 0]] * 3 + [[0, 1, 0]])
    other = np.array([[1, 1, 0]] * 3 + [[1, 0, 0]])

    def popular(ensemble: np.ndarray) -> np.ndarray:
        best = ensemble.sum(axis=0).argmax()
        return np.eye(3)[[best if row[best] else row.argmax() for row in ensemble]].sum(axis=0)

    assert ((popular(votes) - popular(other)) ** 2).sum() > 2
