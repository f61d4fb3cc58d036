"""Sums of scores: counts by hand, groups of several records, unknown labels, and the design from public records."""

from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from pate.data import Split
from pate.models import StudentModel
from pate.run.score_sums import (
    STEPS_PER_CLIP,
    RecordCounts,
    ScoreDesign,
    Subgroups,
    exact_sums,
    noisy_sums,
)

CLIPS = {
    "labels": 8.0,
    "totals": 8.0,
    "squares": 64.0,
    "calibration": 8.0,
    "sizes": 8.0,
    "subgroups": 8.0,
}


class InputStudent:
    """A student whose inputs are its probabilities."""

    def predict_proba(self, inputs: NDArray[np.float32]) -> NDArray[Any]:
        """Returns the inputs."""
        return inputs

    def predict(self, inputs: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Returns the inputs of 1/2 and more."""
        return np.asarray(inputs >= 0.5)


STUDENT = cast(StudentModel, InputStudent())


def split_of(probabilities: Any, labels: Any, *, groups: Any = None, known: Any = None) -> Split:
    """Returns records with these probabilities; each is a group of its own unless `groups` says otherwise."""
    ids = np.arange(len(probabilities))
    return Split(
        inputs=np.asarray(probabilities, np.float32),
        labels=np.asarray(labels, bool),
        record_ids=ids,
        group_ids=ids if groups is None else np.asarray(groups),
        known=None if known is None else np.asarray(known, bool),
    )


def sums_of(design: ScoreDesign, test: Split, subgroups: tuple[Subgroups, ...] = ()) -> Any:
    """Returns the exact sums of a design in records and labels, by block."""
    sums = exact_sums(design, STUDENT, test, subgroups)
    return {name: block * design.clips[name] / STEPS_PER_CLIP for name, block in sums.items()}


def test_hits_and_errors_are_counted_by_label() -> None:
    """Of three records: hits [1, 0], false alarms [1, 1], misses [0, 1], and totals 1 and 3."""
    test = split_of([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]], labels=[[1, 1], [0, 0], [0, 0]])
    design = ScoreDesign(num_labels=2, most_records=1, has_gaps=False, clips=CLIPS)
    sums = sums_of(design, test)
    assert sums["labels"] == pytest.approx([1, 0, 1, 1, 0, 1], abs=1e-4)
    assert sums["totals"] == pytest.approx([1, 3], abs=1e-4)
    assert sums["squares"] == pytest.approx([1, 2**0.5, 3], abs=1e-3)


def test_unknown_labels_count_nowhere() -> None:
    """A label that is not known is no hit and no error, and half a record has its labels known."""
    test = split_of([[0.9, 0.9]], labels=[[1, 0]], known=[[1, 0]])
    design = ScoreDesign(num_labels=2, most_records=1, has_gaps=True, clips=CLIPS)
    sums = sums_of(design, test)
    assert sums["labels"] == pytest.approx([1, 0, 0, 0, 0, 0], abs=1e-4)
    assert sums["sizes"] == pytest.approx([1, 0.5], abs=1e-4)


def test_large_group_counts_as_much_as_the_largest_allowed() -> None:
    """Four records of one group count as two where two count in full."""
    test = split_of([[0.9]] * 4, labels=[[1]] * 4, groups=[7, 7, 7, 7])
    design = ScoreDesign(num_labels=1, most_records=2, has_gaps=False, clips=CLIPS)
    sums = sums_of(design, test)
    assert sums["totals"] == pytest.approx([2, 0], abs=1e-4)
    assert sums["sizes"] == pytest.approx([2, 2], abs=1e-4)


def test_group_longer_than_the_clip_is_scaled_down() -> None:
    """A group with 3 hits and 4 errors counts 0.6 and 0.8 clips."""
    test = split_of([[0.9] * 7], labels=[[1, 1, 1, 0, 0, 0, 0]])
    design = ScoreDesign(
        num_labels=7, most_records=1, has_gaps=False, clips=CLIPS | {"totals": 1.0, "squares": 1.0}
    )
    sums = sums_of(design, test)
    assert sums["totals"] == pytest.approx([0.6, 0.8], abs=1e-4)


def test_groups_are_whole_across_blocks_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums do not depend on where blocks of records end."""
    rng = np.random.default_rng(0)
    test = split_of(
        rng.random((60, 2)), labels=rng.random((60, 2)) < 0.5, groups=rng.integers(0, 9, 60)
    )
    design = ScoreDesign(num_labels=2, most_records=3, has_gaps=False, clips=CLIPS)
    whole = sums_of(design, test)
    monkeypatch.setattr("pate.run.score_sums._RECORDS_AT_ONCE", 7)
    for name, block in sums_of(design, test).items():
        assert block == pytest.approx(whole[name], abs=1e-3)


def test_records_count_in_their_subgroup_alone() -> None:
    """A record without a value counts in no subgroup."""
    test = split_of([[0.9], [0.9], [0.9]], labels=[[1], [0], [1]])
    values = np.array([0, 1, -1])
    division = Subgroups(column="sex", names=("f", "m"), of_test=values, of_public=values)
    design = ScoreDesign(num_labels=1, most_records=1, has_gaps=False, num_values=(2,), clips=CLIPS)
    assert sums_of(design, test, (division,))["subgroups"] == pytest.approx([1, 0, 0, 1], abs=1e-4)


def test_calibration_sums_labels_less_probabilities_by_bin() -> None:
    """Presence at .9 adds .1 to the upper half of the last bin, absence at .25 adds .25 to the lower half of bin 2."""
    counts = RecordCounts.of_records(
        np.array([[0.9, 0.25]]),
        np.array([[True, False]]),
        labels=np.array([[True, False]]),
        known=None,
    )
    assert counts.calibration[0, 9] == pytest.approx(0.1)
    assert counts.calibration[0, 12] == pytest.approx(0.25)
    assert counts.calibration.sum() == pytest.approx(0.35)


def test_design_depends_on_public_records_and_the_student_alone() -> None:
    """Equal public inputs with other labels give an equal design."""
    rng = np.random.default_rng(1)
    probabilities = rng.random((50, 3))
    designs = [
        ScoreDesign.from_public(
            STUDENT, split_of(probabilities, labels=np.full((50, 3), label)), has_gaps=False
        )[0]
        for label in (False, True)
    ]
    assert designs[0] == designs[1]


def test_noise_has_the_stated_deviation() -> None:
    """Of 2,000 noisy sums of 0 the deviation is that of the design within 5%."""
    design = ScoreDesign(num_labels=700, most_records=1, has_gaps=False, clips=CLIPS)
    zeros = {name: np.zeros(size, np.int64) for name, size in design.blocks.items()}
    noisy = noisy_sums(design, zeros, noise_multiplier=1.0, rng=np.random.default_rng(2))
    std = design.noise_stds(1.0)["labels"]
    assert noisy["labels"].std() == pytest.approx(std, rel=0.05)
