"""Sums over groups of test records that all released scores come from: public design, clipped counts, exact noise.

G is the number of groups, L the number of labels, n a number of records. The counts of a group are cut into blocks.
Each block has a clip, the largest l2 length of a group's counts, and a share of the price.

Everything in a `ScoreDesign` is computed from the student and public records. The sums are private until `noisy_sums`
has added noise.

Source: docs/proofs/scores.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from pate.accounting import ScoresEvent
from pate.accounting.special import ndtr
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.data import Split
from pate.mechanisms.noise.rounded_gaussian import RoundedGaussian
from pate.models.student_model import Predictor
from pate.run.score_model import Influences, ScoreModel

NUM_CALIBRATION_BINS = 10
"""The number of bins of probabilities, of equal widths, in which calibration is measured."""

INFLUENCE_BLOCKS = ("macro_f1", "average_precision")
"""The names of the blocks that sum influences of records on a score."""

STEPS_PER_CLIP = 2**20
"""The clip of every block, in steps of the grid on which counts are added."""

_PRICE_SHARES = {
    "totals": 0.33,
    "squares": 0.06,
    "calibration": 0.15,
    "macro_f1": 0.23,
    "average_precision": 0.23,
    "sizes": 0.05,
    "subgroups": 0.35,
}
"""The shares of the price by block; the shares of the blocks in use are scaled to the sum 1."""
# Labels that are rarer or more frequent than a student expects go together. So labels of public records are drawn with
# normal numbers that have this correlation: on WordNet lengths of influences are then as large as true ones.
_LABEL_CORRELATION = 0.6
# A group counts with at most as many records as this quantile of the sizes of public groups.
_SIZE_QUANTILE = 0.95
# The number of records whose predictions are computed at once.
_RECORDS_AT_ONCE = 4096
# The design is computed from at most this many public records.
_MAX_PUBLIC = 20_000
# The queries are left out of the design if at least this many other public records remain.
_MIN_POOL = 200
# The number of clips that are compared. The smallest is this quantile of the lengths of public groups, not a smaller
# one, as a student may err more than it expects.
_NUM_CLIPS = 101
_MIN_CLIP_QUANTILE = 0.9
# The noise is enlarged by this factor, which exceeds the rounding errors of a few operations.
_STD_MARGIN = 1 + 2.0**-40


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Subgroups:
    """A division of records by a column of their table: each record has at most one of the column's public values.

    Attributes:
        column_name: the name of the column.
        value_names: the public names of the values.
        test_value_indices: the index of the value of each test record, int64 `[num_test]`; -1 for none.
        public_value_indices: the index of the value of each public record, int64 `[num_public]`; -1 for none.
    """

    column_name: str
    value_names: tuple[str, ...]
    test_value_indices: IntArray
    public_value_indices: IntArray


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class RecordCounts:
    """The counts of n records, from which the scores of a student are computed, before they are added up by group.

    L is the number of labels. Labels that are unknown count nowhere.

    Attributes:
        hits: true where a label is predicted and present, `[n, L]`.
        false_alarms: true where a label is predicted and absent, `[n, L]`.
        misses: true where a label is present and not predicted, `[n, L]`.
        residual_sums_by_bin: the sum of label (0 or 1) - probability over the labels of a record in each bin of
            probability. The positive parts of the sums come first, then the negative parts, `[n, 2 *
            NUM_CALIBRATION_BINS]`.
        signed_f1_influences: the sum of the positive influences of a record's labels on macro-F1, and that of the
            negative ones without the sign, `[n, 2]`.
        signed_precision_influences: the same two sums of influences on the mean average precision, `[n, 2]`.
        known_share_of_records: the share of a record's labels that are known, `[n]`.
    """

    hits: BoolArray
    false_alarms: BoolArray
    misses: BoolArray
    residual_sums_by_bin: FloatArray
    signed_f1_influences: FloatArray
    signed_precision_influences: FloatArray
    known_share_of_records: FloatArray

    @classmethod
    def of_records(
        cls,
        probabilities: FloatArray,
        predicted: BoolArray,
        labels: BoolArray,
        *,
        known: BoolArray | None,
        influences_of_labels: Influences,
    ) -> RecordCounts:
        """Returns the counts of each record by itself; labels that are not known count nowhere.

        Args:
            probabilities: the student's probability of each label, `[n, L]`.
            predicted: the student's prediction of each label, `[n, L]`.
            labels: the true labels, `[n, L]`.
            known: which labels are known, `[n, L]`; None where all are.
            influences_of_labels: the influences of a label on macro-F1 and the mean average precision, by label and by
                cell of probability. The counts of a record hold the sums over its labels.
        """
        known_label_mask = np.ones(labels.shape, np.bool_) if known is None else known
        bin_indices = bins_of(probabilities)
        residuals = np.where(known_label_mask, labels - probabilities, 0.0)
        residual_sums = np.stack(
            [
                np.where(bin_indices == bin_index, residuals, 0.0).sum(axis=1)
                for bin_index in range(NUM_CALIBRATION_BINS)
            ],
            axis=1,
        )
        return cls(
            hits=predicted & labels & known_label_mask,
            false_alarms=predicted & ~labels & known_label_mask,
            misses=~predicted & labels & known_label_mask,
            residual_sums_by_bin=np.concatenate(
                [np.maximum(residual_sums, 0), np.maximum(-residual_sums, 0)], axis=1
            ),
            signed_f1_influences=_signed_sums(
                influences_of_labels.of_f1(predicted, labels) * known_label_mask
            ),
            signed_precision_influences=_signed_sums(
                influences_of_labels.of_precision(probabilities, labels) * known_label_mask
            ),
            known_share_of_records=known_label_mask.mean(axis=1),
        )


@dataclass(frozen=True, kw_only=True, eq=False)  # compared by identity, as its parts are
class ScoreDesign:
    """The public design of the noisy sums from which scores come: blocks of counts, their clips, their price shares.

    Formal guarantee: one change replaces a group of test records by another group with any records. Let every block of
    a group's counts be at least 0 and at most as long as its clip. Then two groups differ in a block by at most sqrt(2)
    clips in l2, and the noise of the block is `noise_multiplier` / sqrt(share) times that. So all blocks together cost
    one Gaussian release of `noise_multiplier` (docs/proofs/scores.md).

    Attributes:
        num_labels: the number of labels.
        most_counted_records: the largest number of records of a group that count in full. The records of a larger group
            count less, and together as much as this many.
        has_gaps: whether labels of test records may be unknown.
        model_of_records: the student's own model of records; influences are the derivatives of scores at this model.
        num_values: the number of values of each column of subgroups.
        clips: the largest l2 length of a group's counts in each block, > 0, by block.
        clip_losses: the mean length that the clip cuts off the counts of a public group, by block. Those of "squares"
            and "sizes" are of no use, as other clips take the place of theirs.
    """

    num_labels: int
    most_counted_records: int
    has_gaps: bool
    model_of_records: ScoreModel
    num_values: tuple[int, ...] = ()
    clips: Mapping[str, float] = field(default_factory=dict)
    clip_losses: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def influences_of_labels(self) -> Influences:
        """How much each label of a record moves macro-F1 and the mean average precision."""
        return self.model_of_records.influences_of_labels

    @property
    def blocks(self) -> dict[str, int]:
        """The number of counts in each block, by the block's name.

        Every design has "totals" (hits and errors), "squares" (their products), "calibration", "macro_f1" and
        "average_precision". It has "sizes" if a group may count with several records or labels may be unknown. It has
        "subgroups" if there are columns of subgroups.
        """
        block_sizes = {
            "totals": 2,
            "squares": 3,
            "calibration": 2 * NUM_CALIBRATION_BINS,
            "macro_f1": 2,
            "average_precision": 2,
        }
        if self.most_counted_records > 1 or self.has_gaps:
            block_sizes["sizes"] = 2
        if self.num_values:
            block_sizes["subgroups"] = 2 * sum(self.num_values)
        return block_sizes

    @property
    def price_shares(self) -> dict[str, float]:
        """The share of the price that each block of `blocks` has, by name; the shares add up to 1."""
        total = math.fsum(_PRICE_SHARES[name] for name in self.blocks)
        return {name: _PRICE_SHARES[name] / total for name in self.blocks}

    def noise_stds(self, noise_multiplier: float) -> dict[str, float]:
        """Returns the standard deviation of the noise in each count of a block, by block, in steps (`STEPS_PER_CLIP`).

        Args:
            noise_multiplier: the noise std / l2 sensitivity of all blocks together.
        """
        sensitivity = math.sqrt(2) * STEPS_PER_CLIP
        return {
            block_name: noise_multiplier * sensitivity / math.sqrt(price_share) * _STD_MARGIN
            for block_name, price_share in self.price_shares.items()
        }

    def event(self, noise_multiplier: float) -> ScoresEvent:
        """Returns the price of all blocks together; `noise_multiplier` is noise std / l2 sensitivity of all of them."""
        return ScoresEvent(noise_multiplier=noise_multiplier)

    def group_counts(
        self,
        counts_per_record: RecordCounts,
        group_of: IntArray,
        value_indices_by_column: Sequence[IntArray] = (),
    ) -> dict[str, FloatArray]:
        """Returns the counts of G groups by block, `[G, size of the block]`; all are >= 0, and no block is clipped yet.

        The block "squares" has products of two counts of "totals", which are clipped by the clip of "totals" before
        they are multiplied.

        Args:
            counts_per_record: the counts of n records.
            group_of: the group of each record, 0 to G - 1 in rising order, `[n]`.
            value_indices_by_column: for each column of subgroups the index of each record's value, `[n]`; -1 for none.
        """
        hits_per_record = counts_per_record.hits.sum(axis=1)
        errors_per_record = counts_per_record.false_alarms.sum(
            axis=1
        ) + counts_per_record.misses.sum(axis=1)
        hits_and_errors_per_record = np.stack([hits_per_record, errors_per_record], axis=1).astype(
            np.float64
        )
        hits_and_errors_per_group = self._group_sums(hits_and_errors_per_record, group_of=group_of)
        clip = self.clips.get("totals", math.inf)
        clipped_group_hits_and_errors = (
            hits_and_errors_per_group * _clip_factors(hits_and_errors_per_group, clip=clip)[:, None]
        )
        group_counts_by_block = {
            "totals": hits_and_errors_per_group,
            # squares of what is clipped in `totals`
            "squares": np.stack(
                [
                    clipped_group_hits_and_errors[:, 0] ** 2,
                    math.sqrt(2)
                    * clipped_group_hits_and_errors[:, 0]
                    * clipped_group_hits_and_errors[:, 1],
                    clipped_group_hits_and_errors[:, 1] ** 2,
                ],
                axis=1,
            ),
            "calibration": self._group_sums(
                counts_per_record.residual_sums_by_bin, group_of=group_of
            ),
            "macro_f1": self._group_sums(counts_per_record.signed_f1_influences, group_of=group_of),
            "average_precision": self._group_sums(
                counts_per_record.signed_precision_influences, group_of=group_of
            ),
        }
        if "sizes" in self.blocks:
            record_ones = np.ones(len(counts_per_record.known_share_of_records))
            group_counts_by_block["sizes"] = self._group_sums(
                np.stack([record_ones, counts_per_record.known_share_of_records], axis=1),
                group_of=group_of,
            )
        if self.num_values:
            hits_and_errors_by_value = [
                np.where(
                    (value_index_of_record == value_index)[:, None], hits_and_errors_per_record, 0.0
                )
                for value_index_of_record, num_values in zip(
                    value_indices_by_column, self.num_values, strict=True
                )
                for value_index in range(num_values)
            ]
            group_counts_by_block["subgroups"] = self._group_sums(
                np.concatenate(hits_and_errors_by_value, axis=1), group_of=group_of
            )
        return group_counts_by_block

    def _group_sums(self, count_columns: FloatArray, group_of: IntArray) -> FloatArray:
        """Returns the sum of each column over the records of each of G groups, `[G, k]`.

        The records of a group with more than `most_counted_records` records count less, and together as much as so
        many.

        Args:
            count_columns: k counts of each of n records, `[n, k]`.
            group_of: the group of each record, 0 to G - 1 in rising order, `[n]`.
        """
        group_sizes = np.bincount(group_of)
        weighted_record_counts = (
            count_columns * np.minimum(1.0, self.most_counted_records / group_sizes)[group_of, None]
        )
        first_row_of_groups = np.searchsorted(group_of, np.arange(len(group_sizes)))
        return np.asarray(np.add.reduceat(weighted_record_counts, first_row_of_groups, axis=0))

    def clipped_steps(self, group_counts_by_block: Mapping[str, FloatArray]) -> dict[str, IntArray]:
        """Returns the clipped counts of each of G groups as whole steps, int64 `[G, size of the block]` by block.

        A step is the block's clip / `STEPS_PER_CLIP`. Every count is at least 0. The squares of a group's counts in a
        block add up to at most `STEPS_PER_CLIP`**2, which is checked in whole numbers. If rounding errors break that,
        the group's counts in the block are set to 0.

        Args:
            group_counts_by_block: the counts of each group by block, as `group_counts` returns them.
        """
        clipped = {}
        for block_name, group_counts in group_counts_by_block.items():
            steps_per_count = STEPS_PER_CLIP / self.clips[block_name]
            steps = np.floor(
                group_counts
                * (_clip_factors(group_counts, clip=self.clips[block_name]) * steps_per_count)[
                    :, None
                ]
            )
            whole_steps_of_groups = np.clip(steps, 0, STEPS_PER_CLIP).astype(np.int64)
            is_short = np.square(whole_steps_of_groups).sum(axis=1) <= STEPS_PER_CLIP**2
            clipped[block_name] = whole_steps_of_groups * is_short[:, None]
        return clipped

    def with_clips(self, clips: Mapping[str, float], *, most_counted_records: int) -> ScoreDesign:
        """Returns this design with the clips, and `most_counted_records`, with which noisy sums were drawn earlier."""
        return replace(self, clips=dict(clips), most_counted_records=most_counted_records)

    @classmethod
    def from_public(
        cls,
        model: Predictor,
        public_split: Split,
        *,
        noise_multiplier: float,
        num_test_groups: int,
        has_gaps: bool,
        num_queries: int = 0,
        subgroup_divisions: Sequence[Subgroups] = (),
    ) -> ScoreDesign:
        """Returns the design for the scores of a student.

        Clips are found on groups of public records, whose labels are drawn with the student's probabilities. A clip
        balances two errors: the noise, which grows with the clip, and the counts that it cuts off. But the clip of
        "squares" is the square of that of "totals", and no group exceeds that of "sizes".

        Args:
            model: the student.
            public_split: the public records; their labels are not used.
            noise_multiplier: the noise std / l2 sensitivity of all blocks together.
            num_test_groups: the number of groups of test records.
            has_gaps: whether labels of test records may be unknown.
            num_queries: the number of queries, which are the first public records. The student was trained on them, so
                they are left out if at least 200 other public records remain.
            subgroup_divisions: the divisions of records by columns, for which micro-F1 is released too.
        """
        first_row = num_queries if len(public_split) - num_queries >= _MIN_POOL else 0
        row_indices = np.arange(first_row, min(len(public_split), first_row + _MAX_PUBLIC))
        row_indices = row_indices[np.argsort(public_split.group_ids[row_indices], kind="stable")]
        student_probabilities, predicted_labels = _predictions(
            model, split=public_split, row_indices=row_indices
        )
        _, group_of = np.unique(public_split.group_ids[row_indices], return_inverse=True)
        most_counted_records = int(
            np.quantile(np.bincount(group_of), _SIZE_QUANTILE, method="higher")
        )
        design_without_clips = cls(
            num_labels=student_probabilities.shape[1],
            most_counted_records=most_counted_records,
            has_gaps=has_gaps,
            model_of_records=ScoreModel.of_public(
                student_probabilities, predicted=predicted_labels
            ),
            num_values=tuple(len(division.value_names) for division in subgroup_divisions),
        )
        counts_per_record = RecordCounts.of_records(
            student_probabilities,
            predicted=predicted_labels,
            labels=_drawn_labels(student_probabilities),
            known=None,
            influences_of_labels=design_without_clips.influences_of_labels,
        )
        value_indices_by_column = [
            division.public_value_indices[row_indices] for division in subgroup_divisions
        ]
        group_counts_by_block = design_without_clips.group_counts(
            counts_per_record, group_of=group_of, value_indices_by_column=value_indices_by_column
        )
        group_lengths_by_block = {
            block_name: np.linalg.norm(group_counts, axis=1)
            for block_name, group_counts in group_counts_by_block.items()
        }
        clip_by_block = {}
        clip_loss_by_block = {}
        for block_name, count_lengths_of_groups in group_lengths_by_block.items():
            num_counts_in_block = design_without_clips.blocks[block_name]
            noise_length_per_clip = noise_multiplier * math.sqrt(
                2 * num_counts_in_block / design_without_clips.price_shares[block_name]
            )
            clip_by_block[block_name], clip_loss_by_block[block_name] = _balanced_clip(
                count_lengths_of_groups,
                noise_per_clip_and_group=noise_length_per_clip / num_test_groups,
            )
        clip_by_block["squares"] = clip_by_block["totals"] ** 2
        if "sizes" in clip_by_block:
            clip_by_block["sizes"] = math.sqrt(2) * most_counted_records
        return replace(design_without_clips, clips=clip_by_block, clip_losses=clip_loss_by_block)


def bins_of(probabilities: FloatArray) -> IntArray:
    """Returns the bin of each probability, 0 to `NUM_CALIBRATION_BINS` - 1, in an array of the same shape.

    The bins divide the probabilities from 0 to 1 into equal widths.
    """
    return np.minimum(
        (probabilities * NUM_CALIBRATION_BINS).astype(np.int64), NUM_CALIBRATION_BINS - 1
    )


def _drawn_labels(probabilities: FloatArray) -> BoolArray:
    """Returns labels that are drawn with given probabilities, bool `[n, L]`; the labels of a record are correlated.

    The draws have a fixed seed: the labels are made up for public records, and no privacy depends on them.

    Args:
        probabilities: the student's probability of each label of n records, `[n, L]`.
    """
    rng = np.random.default_rng(0)
    error_of_record = rng.standard_normal((len(probabilities), 1)) * math.sqrt(_LABEL_CORRELATION)
    error_of_label = rng.standard_normal(probabilities.shape) * math.sqrt(1 - _LABEL_CORRELATION)
    return np.asarray(ndtr(error_of_record + error_of_label) < probabilities)


def _balanced_clip(
    count_lengths_of_groups: FloatArray, *, noise_per_clip_and_group: float
) -> tuple[float, float]:
    """Returns the clip with the smallest error, and the mean length that it cuts off a group.

    The error is the root of the sum of two squares. One is of the length of the noise, divided by the number of test
    groups, and the other of the mean length that is cut off.

    Args:
        count_lengths_of_groups: the l2 lengths of the counts of G public groups, `[G]`.
        noise_per_clip_and_group: the length of the noise for a clip of 1, divided by the number of groups of test
            records.
    """
    candidate_clips = np.quantile(
        count_lengths_of_groups, np.linspace(_MIN_CLIP_QUANTILE, 1, _NUM_CLIPS)
    )
    mean_lengths_cut_off = np.array(
        [np.maximum(count_lengths_of_groups - clip, 0).mean() for clip in candidate_clips]
    )
    best_index = int(
        np.argmin(np.hypot(noise_per_clip_and_group * candidate_clips, mean_lengths_cut_off))
    )
    if candidate_clips[best_index] <= 0:  # all counts of public groups are 0
        return 1.0, 0.0
    return float(candidate_clips[best_index]), float(mean_lengths_cut_off[best_index])


def exact_sums(
    score_design: ScoreDesign,
    model: Predictor,
    test_split: Split,
    subgroup_divisions: Sequence[Subgroups] = (),
) -> dict[str, IntArray]:
    """Returns the sums of clipped counts over all groups of test records, by block. Private: no noise is in them.

    Args:
        score_design: the public design of the sums: their blocks and clips.
        model: the student.
        test_split: the test records.
        subgroup_divisions: the divisions of records by columns, for which micro-F1 is released too.

    Returns:
        Whole numbers of steps (`STEPS_PER_CLIP`), int64 `[size of the block]` by the block's name.
    """
    sums_by_block = {
        block_name: np.zeros(block_size, dtype=np.int64)
        for block_name, block_size in score_design.blocks.items()
    }
    for row_indices, group_of in _whole_groups(test_split.group_ids):
        student_probabilities, predicted_labels = _predictions(
            model, split=test_split, row_indices=row_indices
        )
        counts_per_record = RecordCounts.of_records(
            student_probabilities,
            predicted=predicted_labels,
            labels=test_split.labels[row_indices],
            known=None if test_split.known is None else test_split.known[row_indices],
            influences_of_labels=score_design.influences_of_labels,
        )
        value_indices_by_column = [
            division.test_value_indices[row_indices] for division in subgroup_divisions
        ]
        group_counts_by_block = score_design.group_counts(
            counts_per_record, group_of=group_of, value_indices_by_column=value_indices_by_column
        )
        steps_by_block = score_design.clipped_steps(group_counts_by_block)
        for block_name, group_steps in steps_by_block.items():
            sums_by_block[block_name] += group_steps.sum(axis=0)
    return sums_by_block


def noisy_sums(
    score_design: ScoreDesign,
    sums_by_block: Mapping[str, IntArray],
    *,
    noise_multiplier: float,
    rng: np.random.Generator,
) -> dict[str, IntArray]:
    """Returns the sums plus Gaussian noise that is drawn exactly and rounded to whole steps, int64 by block.

    A step is a block's clip / `STEPS_PER_CLIP`. The price of all sums is `score_design.event(noise_multiplier)`.

    Args:
        score_design: the public design of the sums, which divides the noise among blocks.
        sums_by_block: the sums without noise, in steps, as `exact_sums` returns them.
        noise_multiplier: the noise std / l2 sensitivity of all blocks together.
        rng: the source of the noise.
    """
    return {
        block_name: sums_by_block[block_name]
        + RoundedGaussian(std=noise_std).sample(sums_by_block[block_name].shape, rng=rng)
        for block_name, noise_std in score_design.noise_stds(noise_multiplier).items()
    }


def _signed_sums(entries: FloatArray) -> FloatArray:
    """Returns for each row the sum of its positive entries, and that of its negative ones without the sign, `[n, 2]`.

    Args:
        entries: n rows of numbers, `[n, L]`.
    """
    return np.stack(
        [np.maximum(entries, 0).sum(axis=1), np.maximum(-entries, 0).sum(axis=1)], axis=1
    )


def _clip_factors(group_counts: FloatArray, *, clip: float) -> FloatArray:
    """Returns for each of G rows a factor below 1 that makes its Euclidean length at most the clip, `[G]`."""
    count_lengths_of_groups = np.linalg.norm(group_counts, axis=1)
    # a little shorter than the clip, so that no rounding error exceeds it
    return np.asarray(
        np.minimum(1.0, clip / np.maximum(count_lengths_of_groups, 1e-300)) * (1 - 2.0**-40)
    )


def _predictions(
    model: Predictor, *, split: Split, row_indices: IntArray
) -> tuple[FloatArray, BoolArray]:
    """Returns the student's probabilities, in [0, 1], and its predictions for rows of a split, `[n, L]` each."""
    probability_blocks = []
    predicted_blocks = []
    for first_position in range(0, len(row_indices), _RECORDS_AT_ONCE):
        inputs = split.take(row_indices[first_position : first_position + _RECORDS_AT_ONCE]).inputs
        probabilities_of_block = np.nan_to_num(np.asarray(model.predict_proba(inputs), np.float64))
        probability_blocks.append(np.clip(probabilities_of_block, 0, 1))
        predicted_blocks.append(model.predict(inputs))
    return np.concatenate(probability_blocks), np.concatenate(predicted_blocks)


def _whole_groups(group_ids: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yields blocks of rows that hold whole groups: the row numbers, and the group of each row within the block.

    Groups within a block are numbered 0, 1, ... in rising order. A block has about 4,096 rows; a larger group has a
    larger block.

    Args:
        group_ids: the group of each row of the split, `[num_rows]`.
    """
    rows_by_group = np.argsort(group_ids, kind="stable")
    ordered_group_ids = group_ids[rows_by_group]
    block_start = 0
    while block_start < len(rows_by_group):
        block_end = min(block_start + _RECORDS_AT_ONCE, len(rows_by_group))
        # The block ends with the last record of a group.
        block_end = int(
            np.searchsorted(ordered_group_ids, ordered_group_ids[block_end - 1], side="right")
        )
        group_of_row = np.cumsum(
            np.append(False, np.diff(ordered_group_ids[block_start:block_end]) != 0)
        )
        yield rows_by_group[block_start:block_end], group_of_row.astype(np.int64)
        block_start = block_end
