"""Steps of docs/proofs/budgets.md."""

import math

import numpy as np
import pytest

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("clips", [1, 2])
@pytest.mark.parametrize("weight", [1.0, 0.4, 0.01, 1e-3, 1e-5])
def test_a_scale_below_the_weight_pays_for_the_rounding(clips: int, weight: float) -> None:
    """A group's votes are scaled by less than its weight, so that the rounded sum moves by at most weight times
    sensitivity.

    Scaled by the weight itself, the rounded sum would move farther, unless the weight is 1.
    """
    # numbers of entries, and clips in steps
    for entries, length in ((1, 2.0**14), (24_000, 2.0**14 * math.sqrt(24_000)), (9, 2.0**15 * 3)):
        sensitivity = clips * length * (1 + 2.0**-20) + 3 * math.sqrt(entries)
        rounding = sensitivity / (clips * length) - 1
        scale = weight - (1 - weight) * rounding
        if scale < 2.0**-20:
            continue  # such a scale counts as 0
        moved = clips * scale * length * (1 + 2.0**-20) + 3 * math.sqrt(entries)
        assert moved <= weight * sensitivity * (1 + 1e-12)
        naive = clips * weight * length * (1 + 2.0**-20) + 3 * math.sqrt(entries)
        assert weight == 1 or naive > weight * sensitivity


def test_weights_of_shared_records_stay_within_each_owner_and_grow() -> None:
    """In each of six steps, each record's weight is divided by the largest sum of weights among its owners.

    Each record has two or three owners. After each step the weights of every owner's records sum to at most 1, and
    after the first step no weight falls.
    """
    for _ in range(30):
        owners = [
            RNG.integers(0, RNG.integers(1, 12), size=40) for _ in range(int(RNG.integers(2, 4)))
        ]
        weights = np.ones(40)
        for step in range(6):
            before = weights
            weights = weights / np.max(
                [np.bincount(owner, weights)[owner] for owner in owners], axis=0
            )
            assert max(np.bincount(owner, weights).max() for owner in owners) <= 1 + 1e-12
            assert step == 0 or (weights >= before * (1 - 1e-12)).all()


def test_a_greedy_choice_of_links_may_move_many_records() -> None:
    """Links of patients and doctors are chosen greedily so that nobody has two chosen links.

    Without the first of the 20 links of a path, the choice of all 20 links changes: 10 are no more chosen, and 10
    others are. So the graph must be fixed.
    """

    def chosen_links(edges: list[tuple[int, int]]) -> set[tuple[int, int]]:
        full: set[str] = set()
        chosen = set()
        for patient, doctor in edges:
            names = {f"p{patient}", f"d{doctor}"}
            if not names & full:
                chosen.add((patient, doctor))
                full |= names
        return chosen

    path = [(i // 2, (i + 1) // 2) for i in range(20)]  # p0-d0, p0-d1, p1-d1, p1-d2, ...
    assert len(chosen_links(path) ^ chosen_links(path[1:])) == 20
