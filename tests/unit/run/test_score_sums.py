"""Sums from which scores are released: counts by hand, groups of several records, unknown labels, and their design.

A design has the clips of the sums, and is made from public records.
"""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from pate.array_types import BoolArray, Float32Array
from pate.data import Split
from pate.models import StudentModel
from pate.run.score_model import Influences, ScoreModel
from pate.run.score_sums import (
    STEPS_PER_CLIP,
    RecordCounts,
    ScoreDesign,
    Subgroups,
    exact_sums,
    noisy_sums,
)

CLIPS = {
    "totals": 8.0,
    "squares": 64.0,
    "calibration": 8.0,
    "macro_f1": 8.0,
    "average_precision": 8.0,
    "sizes": 8.0,
    "subgroups": 8.0,
}


class InputStudent:
    """A student whose inputs are its probabilities."""

    def predict_proba(self, inputs: Float32Array) -> NDArray[Any]:
        """Returns the inputs."""
        return inputs

    def predict(self, inputs: Float32Array) -> BoolArray:
        """Returns whether each input is at least 1/2."""
        return np.asarray(inputs >= 0.5)


STUDENT_MODEL = cast(StudentModel, InputStudent())


def design_of(
    num_labels: int,
    *,
    most_counted_records: int = 1,
    has_unknown_labels: bool = False,
    clips: Mapping[str, float] = CLIPS,
    num_values_of_columns: tuple[int, ...] = (),
) -> ScoreDesign:
    """Returns a design of sums, by default for groups of one record, without gaps and subgroups.

    Args:
        num_labels: the number of labels.
        most_counted_records: the largest number of records of a group.
        has_unknown_labels: whether labels may be unknown.
        clips: the clip of each block of sums.
        num_values_of_columns: the number of values of each column of subgroups.
    """
    probabilities = np.full((4, num_labels), 0.5)
    return ScoreDesign(
        num_labels=num_labels,
        model_of_records=ScoreModel.of_public(probabilities, predicted=probabilities >= 0.5),
        most_counted_records=most_counted_records,
        has_gaps=has_unknown_labels,
        clips=clips,
        num_values=num_values_of_columns,
    )


def public_design(public: Split) -> ScoreDesign:
    """Returns the design from public records for 100 groups of test records."""
    return ScoreDesign.from_public(
        STUDENT_MODEL,
        public_split=public,
        noise_multiplier=1.0,
        num_test_groups=100,
        has_gaps=False,
    )


def split_of(probabilities: Any, labels: Any, *, groups: Any = None, known: Any = None) -> Split:
    """Returns records whose inputs are their probabilities of labels.

    Args:
        probabilities: the probabilities that `InputStudent` predicts, `[num_records, num_labels]`.
        labels: the true labels, of the same shape.
        groups: the group of each record; None where each record is a group of its own.
        known: the mask of the labels that are known; None where all are.
    """
    ids = np.arange(len(probabilities))
    return Split(
        inputs=np.asarray(probabilities, np.float32),
        labels=np.asarray(labels, bool),
        record_ids=ids,
        group_ids=ids if groups is None else np.asarray(groups),
        known=None if known is None else np.asarray(known, bool),
    )


def sums_of(
    score_design: ScoreDesign, test_split: Split, subgroup_divisions: tuple[Subgroups, ...] = ()
) -> Any:
    """Returns the exact sums of a design for test records, by block of sums, in units of records and labels."""
    sums = exact_sums(
        score_design,
        model=STUDENT_MODEL,
        test_split=test_split,
        subgroup_divisions=subgroup_divisions,
    )
    return {name: block * score_design.clips[name] / STEPS_PER_CLIP for name, block in sums.items()}


def test_hits_and_errors_are_counted() -> None:
    """Three records with one hit and three errors have the totals 1 and 3.

    A hit is a present label that is predicted.
    """
    test_split = split_of(
        probabilities=[[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]], labels=[[1, 1], [0, 0], [0, 0]]
    )
    score_design = design_of(num_labels=2)
    sums = sums_of(score_design=score_design, test_split=test_split)
    num_hits, num_errors = sums["totals"]
    assert (num_hits, num_errors) == pytest.approx((1, 3), abs=1e-4)
    squared_hits, scaled_hits_times_errors, squared_errors = sums["squares"]
    assert squared_hits == pytest.approx(1, abs=1e-3)
    assert scaled_hits_times_errors == pytest.approx(2**0.5, abs=1e-3)
    assert squared_errors == pytest.approx(3, abs=1e-3)


def test_unknown_labels_count_nowhere() -> None:
    """A label that is unknown counts neither as a hit nor as an error.

    A record with one known label of two counts as one record, and adds 0.5 to the sum of known shares.
    """
    test_split = split_of(probabilities=[[0.9, 0.9]], labels=[[1, 0]], known=[[1, 0]])
    score_design = design_of(num_labels=2, has_unknown_labels=True)
    sums = sums_of(score_design=score_design, test_split=test_split)
    num_hits, num_errors = sums["totals"]
    assert (num_hits, num_errors) == pytest.approx((1, 0), abs=1e-4)
    num_records, sum_of_known_shares = sums["sizes"]
    assert (num_records, sum_of_known_shares) == pytest.approx((1, 0.5), abs=1e-4)


def test_large_group_counts_as_much_as_the_largest_allowed() -> None:
    """A group of four records counts as two records if two is the largest number that counts in full."""
    test_split = split_of(probabilities=[[0.9]] * 4, labels=[[1]] * 4, groups=[7, 7, 7, 7])
    score_design = design_of(num_labels=1, most_counted_records=2)
    sums = sums_of(score_design=score_design, test_split=test_split)
    num_hits, num_errors = sums["totals"]
    assert (num_hits, num_errors) == pytest.approx((2, 0), abs=1e-4)
    num_records, sum_of_known_shares = sums["sizes"]
    assert (num_records, sum_of_known_shares) == pytest.approx((2, 2), abs=1e-4)


def test_group_longer_than_the_clip_is_scaled_down() -> None:
    """A group with 3 hits and 4 errors counts 0.6 and 0.8 clips."""
    test_split = split_of(probabilities=[[0.9] * 7], labels=[[1, 1, 1, 0, 0, 0, 0]])
    score_design = design_of(num_labels=7, clips=CLIPS | {"totals": 1.0, "squares": 1.0})
    sums = sums_of(score_design=score_design, test_split=test_split)
    num_hits, num_errors = sums["totals"]
    assert (num_hits, num_errors) == pytest.approx((0.6, 0.8), abs=1e-4)


def test_groups_are_whole_across_blocks_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums do not depend on where blocks of records end."""
    rng = np.random.default_rng(0)
    test_split = split_of(
        probabilities=rng.random((60, 2)),
        labels=rng.random((60, 2)) < 0.5,
        groups=rng.integers(0, 9, 60),
    )
    score_design = design_of(num_labels=2, most_counted_records=3)
    whole = sums_of(score_design=score_design, test_split=test_split)
    monkeypatch.setattr("pate.run.score_sums._RECORDS_AT_ONCE", 7)
    for name, block in sums_of(score_design=score_design, test_split=test_split).items():
        assert block == pytest.approx(whole[name], abs=1e-3)


def test_records_count_in_their_subgroup_alone() -> None:
    """A record counts in its own subgroup only, and a record without a value in none."""
    test_split = split_of(probabilities=[[0.9], [0.9], [0.9]], labels=[[1], [0], [1]])
    value_index_of_record = np.array([0, 1, -1])
    division = Subgroups(
        column_name="sex",
        value_names=("f", "m"),
        test_value_indices=value_index_of_record,
        public_value_indices=value_index_of_record,
    )
    score_design = design_of(num_labels=1, num_values_of_columns=(2,))
    sums = sums_of(score_design=score_design, test_split=test_split, subgroup_divisions=(division,))
    hits_of_f, errors_of_f, hits_of_m, errors_of_m = sums["subgroups"]
    assert (hits_of_f, errors_of_f) == pytest.approx((1, 0), abs=1e-4)
    assert (hits_of_m, errors_of_m) == pytest.approx((0, 1), abs=1e-4)


def test_calibration_sums_labels_less_probabilities_by_bin() -> None:
    """In each of ten bins of probability, a record sums label minus probability over its labels in the bin.

    Positive sums and negative sums, without their sign, are kept apart. A present label of probability 0.9 gives 0.1 in
    the last positive bin. An absent label of 0.25 gives 0.25 in bin 2 of the negative ones, counted from 0.
    """
    influences = design_of(num_labels=2).influences_of_labels
    counts = RecordCounts.of_records(
        probabilities=np.array([[0.9, 0.25]]),
        predicted=np.array([[True, False]]),
        labels=np.array([[True, False]]),
        known=None,
        influences_of_labels=influences,
    )
    assert counts.residual_sums_by_bin[0, 9] == pytest.approx(0.1)
    assert counts.residual_sums_by_bin[0, 12] == pytest.approx(0.25)
    assert counts.residual_sums_by_bin.sum() == pytest.approx(0.35)


def test_influences_of_a_record_are_split_by_sign() -> None:
    """A hit moves macro-F1 up, an error moves it down, and an unknown label moves nothing."""
    num_cells = 480
    influences = Influences(
        f1_influence_of_hit=np.array([0.5, 0.5, 0.5]),
        f1_influence_of_error=np.array([-0.25, -0.25, -0.25]),
        precision_influence_of_present=np.zeros((num_cells, 3)),
        precision_influence_of_absent=np.zeros((num_cells, 3)),
    )
    counts = RecordCounts.of_records(
        probabilities=np.full((2, 3), 0.9),
        predicted=np.ones((2, 3), bool),
        labels=np.array([[True, False, True], [True, True, False]]),
        known=np.array([[True, True, True], [True, True, False]]),
        influences_of_labels=influences,
    )
    positive_sum_of_record, negative_sum_of_record = counts.signed_f1_influences.T
    assert positive_sum_of_record == pytest.approx([1.0, 1.0])
    assert negative_sum_of_record == pytest.approx([0.25, 0.0])


def test_design_depends_on_public_records_and_the_student_alone() -> None:
    """Public records with equal inputs and other labels give equal clips."""
    rng = np.random.default_rng(1)
    probabilities = rng.random((50, 3))
    designs = [
        public_design(public=split_of(probabilities=probabilities, labels=np.full((50, 3), label)))
        for label in (False, True)
    ]
    assert designs[0].clips == designs[1].clips
    assert designs[0].clip_losses == designs[1].clip_losses


def test_more_groups_or_less_noise_take_longer_clips() -> None:
    """With more groups of test records, or with less noise, clips are longer and cut off less.

    Noise is then a smaller part of a sum.
    """
    public = split_of(
        probabilities=np.random.default_rng(2).random((200, 5)), labels=np.zeros((200, 5))
    )
    designs = [
        ScoreDesign.from_public(
            STUDENT_MODEL,
            public_split=public,
            noise_multiplier=noise_multiplier,
            num_test_groups=num_groups,
            has_gaps=False,
        )
        for noise_multiplier, num_groups in ((1.0, 10), (1.0, 10_000), (0.001, 10))
    ]
    few_groups, *others = designs
    for score_design in others:
        for name in ("totals", "calibration", "macro_f1", "average_precision"):
            assert few_groups.clips[name] < score_design.clips[name]
            assert few_groups.clip_losses[name] > score_design.clip_losses[name]


def test_public_records_that_count_nothing_have_a_clip() -> None:
    """Each clip is above 0 even for a student that is always sure and predicts nothing."""
    score_design = public_design(
        public=split_of(probabilities=np.zeros((20, 2)), labels=np.zeros((20, 2)))
    )
    assert all(clip > 0 for clip in score_design.clips.values())


def test_noise_has_the_stated_deviation() -> None:
    """The standard deviation of 2,000 noisy sums of 0 is that of the design, within 5%."""
    score_design = design_of(num_labels=1, num_values_of_columns=(1000,))
    zero_sums = {name: np.zeros(size, np.int64) for name, size in score_design.blocks.items()}
    noisy = noisy_sums(
        score_design, sums_by_block=zero_sums, noise_multiplier=1.0, rng=np.random.default_rng(2)
    )
    std = score_design.noise_stds(1.0)["subgroups"]
    assert noisy["subgroups"].std() == pytest.approx(std, rel=0.05)
