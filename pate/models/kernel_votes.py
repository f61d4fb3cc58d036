"""The votes of `KernelTeacher` and `ConvexTeacher`, released at once or in rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.pool import in_order
from pate.validation import InvalidValue, require, require_each
from pate.votes.blocks import LowRankVotes
from pate.votes.label_gaps import labels_with_gaps
from pate.votes.label_shares import RecordShares, shares_of_teachers
from pate.votes.moment_votes import MomentVotes
from pate.votes.public_pca import PublicPCA, affordable_directions
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.source import FunctionVotes, GroupVotes

if TYPE_CHECKING:
    from pate.data import Split

_BLOCK_ENTRIES = 2**22  # the largest number of entries of the votes of a block
_BLOCK_RECORDS = 4096  # the number of records whose features are computed at once


def records_per_group(public_split: Split, recipe: Recipe = DEFAULT_RECIPE) -> float:
    """Returns the mean number of records of a group in the public pool.

    The result is 1 if the pool has fewer than `recipe.fewest_public_groups` groups.
    """
    num_groups = public_split.num_groups
    has_enough = num_groups >= recipe.fewest_public_groups
    return len(public_split) / num_groups if has_enough else 1.0


def weights_of_rows(group_ids: IntArray, recipe: Recipe = DEFAULT_RECIPE) -> FloatArray | None:
    """Returns the weights of public rows that make all public groups count alike, `[num_public]`.

    The weight of a row is one over the number of rows of its group.

    The result is None if the rows count alike: if no group has two rows, or if there are fewer than
    `recipe.fewest_public_groups` groups.

    Args:
        group_ids: `[num_public]`, the group of each public row.
        recipe: the constants of the method.
    """
    _, group_of_row, group_sizes = np.unique(group_ids, return_inverse=True, return_counts=True)
    if group_sizes.max() == 1 or len(group_sizes) < recipe.fewest_public_groups:
        return None
    return np.asarray(1 / group_sizes[group_of_row])


@dataclass(eq=False, kw_only=True)  # a generated __eq__ fails on arrays
class KernelVotes(FunctionVotes):
    """The votes of `KernelTeacher`, which are computed from the private records whenever they are read.

    No epsilon covers them. The votes of a teacher for a label, one number for each query, are a combination of public
    directions.

    Attributes:
        private_split: the private records.
        teacher_of: `[num_records]`, the index of the teacher of each record, private.
        num_teachers: the number of teachers.
        public_split: the whole public pool; its first samples are the queries.
        num_queries: the number of queries.
        num_public_directions: the number of directions of the pool; None for as many as the noise makes worthwhile.
        make_moment_votes: makes the votes that are released in rounds, called with the arguments of `MomentVotes`.
        nonlinear: whether components of a kernel are added in rounds; see `KernelTeacher`.
    """

    private_split: Split
    teacher_of: IntArray
    num_teachers: int
    public_split: Split
    num_queries: int
    num_public_directions: int | None = None
    make_moment_votes: Callable[..., MomentVotes] = MomentVotes
    nonlinear: bool | None = False

    def __post_init__(self) -> None:
        self.num_labels = self.private_split.labels.shape[1]
        self.num_groups = self.private_split.num_groups
        self.records_per_teacher = self.num_groups / self.num_teachers
        self.queries = np.asarray(self.public_split.inputs[: self.num_queries], dtype=np.float32)

    def bits(self) -> Iterator[BoolArray]:
        """Raises `InvalidValue`, as the votes of these teachers are real numbers and not bits."""
        rule = "teachers that are trained, such as linear, or aggregator=centered_votes"
        raise InvalidValue("teacher", "KernelTeacher", rule=rule)

    def label_shares(self) -> FloatArray:
        """Returns the share of each teacher's records that have each label, `[num_teachers, num_labels]`."""
        return shares_of_teachers(
            bits=self.private_split.labels,
            teacher_of=self.teacher_of,
            num_teachers=self.num_teachers,
        )

    def known_shares(self) -> FloatArray | None:
        """Returns the share of each teacher's records for which each label is known, `[num_teachers, num_labels]`.

        None means that labels have no gaps.
        """
        known_label_mask = self.private_split.known
        if known_label_mask is None:
            return None
        return shares_of_teachers(
            bits=known_label_mask, teacher_of=self.teacher_of, num_teachers=self.num_teachers
        )

    def share_sums(self) -> RecordShares:
        """Returns an object that sums label shares over the teachers, a block of teachers at a time.

        The share of a teacher for a label is the fraction of its records that have the label.
        """
        return RecordShares(
            labels=self.private_split.labels,
            teacher_of=self.teacher_of,
            num_teachers=self.num_teachers,
            teacher_weights=self.weights,
            known_label_mask=self.private_split.known,
        )

    def span(self, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE) -> FloatArray:
        """Returns the public orthonormal basis that all votes are combinations of, `[num_queries, num_directions]`.

        Args:
            noise_multiplier: the noise of the release, which determines the number of directions.
            recipe: the constants of the method.
        """
        public_pca = self._directions_at_once(noise_multiplier, recipe=recipe)
        cache_key = ("span", noise_multiplier, recipe)
        compute_span = partial(public_pca.span, self.queries)
        return np.asarray(self.cached(cache_key, compute=compute_span))

    def votes_around(
        self, center: FloatArray, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterator[LowRankVotes]:
        """Yields the votes of the teachers by the rule of `KernelTeacher`, a block of teachers at a time.

        Inputs are read a few thousand rows at a time, so images may stay on disk.

        Args:
            center: the prevalence p of each label, `[num_labels]`, or one number for all labels.
            noise_multiplier: the noise of the release, which determines the number of directions.
            recipe: the constants of the method.

        Raises:
            InvalidValue: `center` has an entry for each query, or a teacher has no record.
        """
        require(center.ndim < 2, "center.shape", center.shape, "one number for each label")
        inputs = self.private_split.inputs
        labels = self.private_split.labels
        known_label_mask = self.private_split.known
        prevalence_of_labels = np.broadcast_to(center, (self.num_labels,))
        num_teachers = self.num_teachers
        public_pca = self._directions_at_once(noise_multiplier, recipe=recipe)
        basis_columns = public_pca.span(self.queries)
        row_indices_by_teacher = np.argsort(self.teacher_of, kind="stable")
        teacher_sizes = np.bincount(self.teacher_of, minlength=num_teachers)
        rule = f"{len(teacher_sizes)}, the teachers of the partition"
        require(len(teacher_sizes) == num_teachers, "num_teachers", num_teachers, rule)
        require_each(
            "teacher", np.arange(num_teachers), teacher_sizes > 0, rule="at least one record"
        )
        # The records of teacher t are row_indices_by_teacher[teacher_bounds[t] : teacher_bounds[t + 1]].
        teacher_bounds = np.append(0, np.cumsum(teacher_sizes))
        teachers_at_once = max(1, _BLOCK_ENTRIES // (basis_columns.shape[1] * self.num_labels))

        def compute_features(row_indices: NDArray[np.intp]) -> FloatArray:
            return public_pca.features(inputs[row_indices])

        for first_teacher in range(0, num_teachers, teachers_at_once):
            teacher_bounds_of_block = teacher_bounds[
                first_teacher : first_teacher + teachers_at_once + 1
            ]
            block_row_indices = row_indices_by_teacher[
                teacher_bounds_of_block[0] : teacher_bounds_of_block[-1]
            ]
            row_index_blocks = np.split(
                block_row_indices, range(_BLOCK_RECORDS, len(block_row_indices), _BLOCK_RECORDS)
            )
            # The features of all records of the block, [num_block_records, num_directions].
            features = np.concatenate(list(in_order(compute_features, items=row_index_blocks)))
            residuals: FloatArray = labels[block_row_indices] - prevalence_of_labels
            if known_label_mask is not None:
                residuals *= known_label_mask[block_row_indices]
            # The weights of each teacher in the directions, [num_block_teachers, num_directions, num_labels].
            teacher_sizes_of_block = np.diff(teacher_bounds_of_block)
            if (teacher_sizes_of_block == 1).all():
                weights_of_teachers = np.asarray(features[:, :, None] * residuals[:, None, :])
            else:
                bounds_within_block = teacher_bounds_of_block - teacher_bounds_of_block[0]
                record_ranges = pairwise(bounds_within_block.tolist())
                weights_of_teachers = np.stack(
                    [features[start:end].T @ residuals[start:end] for start, end in record_ranges]
                )
            vote_factors = np.sqrt(self.num_queries / teacher_sizes_of_block)
            weights_of_teachers *= vote_factors[:, None, None]
            yield LowRankVotes(span=basis_columns, weights=weights_of_teachers)

    def in_rounds(
        self,
        *,
        noise_multiplier: float,
        least_directions: int = 0,
        recipe: Recipe = DEFAULT_RECIPE,
    ) -> MomentVotes:
        """Returns the votes in the form that is released in rounds.

        In each round, a `KernelTeacher` votes for the mean over its records of features times residuals, times a factor
        for the number of its records. A residual is a label minus the prediction of the student of the round before.

        Args:
            noise_multiplier: the standard deviation of the noise over the sensitivity, for all rounds together. It
                determines the number of directions.
            least_directions: the number of directions that are kept even if the noise allows fewer, if the pool has as
                many and `num_public_directions` is None.
            recipe: the constants of the method.
        """
        public_pca = self._directions_in_rounds(
            noise_multiplier, least_directions=least_directions, recipe=recipe
        )
        private_split = self.private_split
        num_public_rows = max(recipe.public_rows, self.num_queries)
        # The prevalence of a label is a mean over teachers. If each teacher has one group, it is a mean over groups, so
        # that public groups count alike, too.
        public_row_weights = None
        if self.num_groups == self.num_teachers:
            public_row_weights = weights_of_rows(
                self.public_split.group_ids[:num_public_rows], recipe=recipe
            )
        groups_per_teacher = self.records_per_teacher
        records_per_public_group = records_per_group(public_split=self.public_split, recipe=recipe)
        make_votes = partial(
            self.make_moment_votes,
            public_pca=public_pca,
            public_inputs=self.public_split.inputs[:num_public_rows],
            public_row_weights=public_row_weights,
            inputs=private_split.inputs,
            labels=labels_with_gaps(private_split.labels, known_label_mask=private_split.known),
            teacher_of=self.teacher_of,
            num_teachers=self.num_teachers,
            records_per_teacher=groups_per_teacher * records_per_public_group,
            weights=self.weights,
            make_round_sums=self.make_round_sums,
            feature_storage=self.feature_storage,
        )
        # Directions of one pool and one recipe are alike if they are equally many.
        cache_key = ("moments", public_pca.width, recipe)
        moments: MomentVotes = self.cached(cache_key, compute=make_votes)
        return moments

    def _directions_at_once(self, noise_multiplier: float, *, recipe: Recipe) -> PublicPCA:
        """Returns the public directions for a release in one round; there are at most as many as queries."""
        num_directions = self._num_affordable(
            noise_multiplier, noise_share=recipe.noise_share_at_once
        )
        num_directions = min(num_directions, self.num_queries)
        fit_directions = partial(
            PublicPCA.fit,
            np.asarray(self.public_split.inputs),
            max_directions=num_directions,
            recipe=recipe,
        )
        cache_key = ("directions", num_directions, recipe)
        public_pca: PublicPCA = self.cached(cache_key, compute=fit_directions)
        return public_pca

    def _directions_in_rounds(
        self, noise_multiplier: float, *, least_directions: int, recipe: Recipe
    ) -> PublicPCA:
        """Returns the public directions for a release in rounds, with components of a kernel if `nonlinear` allows.

        The arguments are those of `in_rounds`.
        """
        num_directions = self._num_affordable(
            noise_multiplier, noise_share=recipe.noise_share_in_rounds
        )
        least_to_keep = 0 if self.num_public_directions else least_directions
        # None leaves the kernel to the recipe. True adds it wherever there is room for a component.
        kernel_from_multiple = {None: recipe.kernel_from, True: 1.0, False: None}[self.nonlinear]
        fit_directions = partial(
            PublicPCA.fit,
            np.asarray(self.public_split.inputs),
            max_directions=num_directions,
            least_directions=least_to_keep,
            ridge=recipe.ridge_in_rounds,
            kernel_from_multiple=kernel_from_multiple,
            recipe=recipe,
        )
        cache_key = ("directions in rounds", num_directions, least_to_keep, recipe)
        public_pca: PublicPCA = self.cached(cache_key, compute=fit_directions)
        return public_pca

    def _num_affordable(self, noise_multiplier: float, *, noise_share: float) -> int:
        """Returns `num_public_directions`; if it is None, the number of directions that the noise makes worthwhile.

        Only public numbers are used.

        Args:
            noise_multiplier: the noise of the release.
            noise_share: the greatest variance of the noise in a score, along all directions, that is worthwhile,
                relative to the variance of the labels.
        """
        if self.num_public_directions:
            return self.num_public_directions
        num_records = self.num_groups * self.total_weight / self.num_teachers
        return affordable_directions(
            noise_multiplier=noise_multiplier,
            noise_share=noise_share,
            num_labels=self.num_labels,
            num_teachers=max(1, round(self.total_weight)),
            num_records=max(1, round(num_records)),
        )


class GroupKernelVotes(KernelVotes, GroupVotes):
    """The votes of `ConvexTeacher`: one vote for each private group, released in rounds."""

    def votes_around(
        self, center: FloatArray, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterator[LowRankVotes]:
        """Raises `InvalidValue`, as these votes can be released in rounds only."""
        raise InvalidValue("teacher", "ConvexTeacher", rule="centered_votes, which asks in rounds")
