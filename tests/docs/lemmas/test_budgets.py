"""Steps of docs/proofs/budgets.md."""

import math

import numpy as np
import pytest

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("num_clips", [1, 2])
@pytest.mark.parametrize("weight", [1.0, 0.4, 0.01, 1e-3, 1e-5])
def test_a_scale_below_the_weight_pays_for_the_rounding(num_clips: int, weight: float) -> None:
    """The rounded sum moves by at most a group's weight times the sensitivity if its votes are scaled by a little less.

    If they were scaled by the weight itself, the rounded sum would move further, unless the weight is 1. A group moves
    the sum by `num_clips` clips before rounding, 1 under add-remove and 2 under replace-one.
    """
    for num_entries, clip_in_steps in (
        (1, 2.0**14),
        (24_000, 2.0**14 * math.sqrt(24_000)),
        (9, 2.0**15 * 3),
    ):
        moved_clip = num_clips * clip_in_steps
        rounding = 3 * math.sqrt(num_entries)
        sensitivity = moved_clip * (1 + 2.0**-20) + rounding
        scale = weight - (1 - weight) * (sensitivity / moved_clip - 1)
        if scale < 2.0**-20:
            continue  # such a scale counts as 0
        moved = scale * moved_clip * (1 + 2.0**-20) + rounding
        assert moved <= weight * sensitivity * (1 + 1e-12)
        moved_by_weight = weight * moved_clip * (1 + 2.0**-20) + rounding
        assert weight == 1 or moved_by_weight > weight * sensitivity


def test_weights_of_shared_records_stay_within_each_owner_and_grow() -> None:
    """No owner's sum of weights exceeds 1 after a step that divides the weight of every record by a sum.

    An owner's sum adds up the weights of its records. A record has two or three owners, and its weight is divided by
    the largest of their sums. Six such steps are done, and from the second one on no weight falls.
    """
    num_records = 40
    for _ in range(30):
        num_owners_per_record = int(RNG.integers(low=2, high=4))
        owners_of_records = [
            RNG.integers(RNG.integers(low=1, high=12), size=num_records)
            for _ in range(num_owners_per_record)
        ]
        weights = np.ones(num_records)
        for step in range(6):
            weights_before = weights
            sums_of_owners = [
                np.bincount(owners, weights=weights)[owners] for owners in owners_of_records
            ]
            weights = weights / np.max(sums_of_owners, axis=0)
            for owners in owners_of_records:
                assert np.bincount(owners, weights=weights).max() <= 1 + 1e-12
            assert step == 0 or (weights >= weights_before * (1 - 1e-12)).all()


def test_a_greedy_choice_of_links_may_move_many_records() -> None:
    """If the first of 20 links of patients and doctors is removed, a greedy choice among them changes for all 20.

    The links form a path, and nobody may have two chosen links. Without that link, 10 links are no longer chosen and 10
    others are. So the graph must be fixed.
    """

    def choose_links(links: list[tuple[int, int]]) -> set[tuple[int, int]]:
        linked_patients: set[int] = set()
        linked_doctors: set[int] = set()
        chosen_links = set()
        for patient, doctor in links:
            if patient not in linked_patients and doctor not in linked_doctors:
                chosen_links.add((patient, doctor))
                linked_patients.add(patient)
                linked_doctors.add(doctor)
        return chosen_links

    # patient 0 - doctor 0, patient 0 - doctor 1, patient 1 - doctor 1, patient 1 - doctor 2, ...
    path_of_links = [(number // 2, (number + 1) // 2) for number in range(20)]
    assert len(choose_links(path_of_links) ^ choose_links(path_of_links[1:])) == 20
