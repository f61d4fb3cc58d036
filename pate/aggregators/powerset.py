"""Powerset voting: a release of the set of labels with the largest noisy count.

A teacher votes for one set of labels. So the release costs as much as `GNMax` over single labels. All sets compete,
2**L of them unless their size is limited. Only the sets that some teacher voted for are in memory. Each other set has a
count of 0. The largest noise of these sets is drawn at once. The set that has this noise is then drawn uniformly.

Source: Dziedzic et al. 2022; docs/proofs/winner.md and gnmax.md.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, SelfComposedEvent, WinnerEvent
from pate.aggregators.aggregator import Aggregator, Rng
from pate.aggregators.answers import Answers
from pate.aggregators.expectation import ExpectedRelease, expected_from_summary, expected_from_votes
from pate.array_types import BoolArray, IntArray
from pate.mechanisms.noise.comparisons import ExactValues, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_largest, draw_noise
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms
from pate.mechanisms.noise.weighted_index import index_of
from pate.mechanisms.parameters import COUNT, NOISE
from pate.votes.counts import limit_votes
from pate.votes.made_up import MadeUpVotes
from pate.votes.shape import VoteShape
from pate.votes.source import TeacherVotes, VoteSource

# A structured array with a row for each query and set that teachers voted for: `query`, `labels`, `count`.
Summary = NDArray[np.void]

# The largest number of sets for which noise is drawn at a time.
_SETS_PER_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class PowersetGNMax(Aggregator):
    """Releases, for each query, the set of labels whose count of teachers + N(0, noise_std**2) is largest.

    Every query is answered. All sets of at most `max_size` labels compete; without a `max_size` these are all 2**L sets
    of L labels. A teacher with a larger set votes for its `max_size` most confident labels (see `ClippedVotes`). Sets
    that no teacher voted for have a count of 0. The largest noise of these sets is drawn at once, and the set that has
    this noise is drawn uniformly. The result has the same distribution as independent noise on each set. The largest
    noise of 2**40 sets is about 7 noise_std, so a set with votes wins only where enough teachers agree.

    Formal guarantee: a teacher votes for exactly one set. So replace-one moves at most two counts by 1, and add/remove
    one. Only the set with the largest noisy count is released (`WinnerEvent`). For any L a query costs about
    0.65 a / noise_std**2 at an order a up to about noise_std / 2 under replace-one, and half of it under add/remove.
    Source: Dziedzic et al. 2022, powerset voting; docs/proofs/winner.md and gnmax.md.

    Attributes:
        noise_std: standard deviation of the noise in votes, > 0.
        max_size: the largest number of labels in a set, >= 1 and public; None for no limit.

    >>> votes = np.array([[[True, True, False]], [[True, True, False]], [[True, False, True]]])
    >>> aggregator = PowersetGNMax(noise_std=0.1)
    >>> aggregator.aggregate(votes, num_teachers=3, rng=np.random.default_rng(0)).labels
    array([[ True,  True, False]])
    """

    reads: ClassVar[type[VoteSource]] = TeacherVotes
    queries_at_once: ClassVar[int | None] = None

    noise_std: float = field(metadata=NOISE)
    max_size: int | None = field(default=None, metadata=COUNT)

    @property
    def max_labels(self) -> int | None:
        """The largest number of labels that an answer may name: `max_size`."""
        return self.max_size

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of releasing one set for each query; see `Aggregator.event`."""
        winner_event = WinnerEvent(self.noise_std, num_moving=self.adjacency.num_moved)
        return SelfComposedEvent(winner_event, count=shape.num_queries)

    def summarize(self, votes: VoteSource) -> Summary:
        """Returns the different sets that teachers voted for, one row for each query and set.

        A row of the structured array has a query, the labels of the set, bool `[num_labels]`, and the number of
        teachers who voted for it. The order of the rows does not depend on the order of the teachers.
        """
        max_size = self.max_size or votes.num_labels
        blocks_of_confidences = votes.require_type(TeacherVotes).confidences()
        checked_blocks = self.checked_blocks(blocks_of_confidences, vote_shape=votes.shape)
        votes_of_first_block = limit_votes(next(checked_blocks), max_votes=max_size)
        sets_with_counts = _add_up_equal_sets(_rows_of_votes(votes_of_first_block))
        for block in checked_blocks:
            block_votes = limit_votes(block, max_votes=max_size)
            block_sets_with_counts = _add_up_equal_sets(_rows_of_votes(block_votes))
            sets_with_counts = _add_up_equal_sets(
                np.concatenate([sets_with_counts, block_sets_with_counts])
            )
        return sets_with_counts

    def draw(self, summary: Summary, shape: VoteShape, rng: Rng) -> Answers:
        """Draws, for each query, the set with the largest noisy count among all sets, with or without votes."""
        num_queries = shape.num_queries
        num_labels = shape.num_labels
        # The row of the first set of each query, and the number of sets with votes of each query: [num_queries].
        first_row_of_query = np.searchsorted(summary["query"], np.arange(num_queries))
        num_voted_sets = np.diff(np.append(first_row_of_query, len(summary)))
        max_size = num_labels if self.max_size is None else min(self.max_size, num_labels)
        num_sets_by_size = [math.comb(num_labels, size) for size in range(max_size + 1)]
        labels = np.empty((num_queries, num_labels), dtype=np.bool_)
        queries_per_block = max(1, _SETS_PER_BLOCK // int(num_voted_sets.max()))
        for start in range(0, num_queries, queries_per_block):
            query_range = slice(start, start + queries_per_block)
            winner_columns = self._draw_winners(
                summary["count"],
                first_row_of_query=first_row_of_query[query_range],
                num_voted_sets=num_voted_sets[query_range],
                num_all_sets=sum(num_sets_by_size),
                rng=rng,
            )
            winner_has_no_votes = winner_columns == num_voted_sets[query_range]
            winner_rows = first_row_of_query[query_range] + np.minimum(
                winner_columns, num_voted_sets[query_range] - 1
            )
            labels[query_range] = summary["labels"][winner_rows]
            for query in (start + np.flatnonzero(winner_has_no_votes)).tolist():
                first_row = first_row_of_query[query]
                voted_sets = summary["labels"][first_row : first_row + num_voted_sets[query]]
                labels[query] = _draw_unvoted_set(
                    voted_sets, num_sets_by_size=num_sets_by_size, rng=rng
                )
        return Answers.to_all(labels=labels)

    def _draw_winners(
        self,
        counts_of_rows: IntArray,
        *,
        first_row_of_query: IntArray,
        num_voted_sets: IntArray,
        num_all_sets: int,
        rng: Rng,
    ) -> IntArray:
        """Draws, for each query, the index of the set with the largest noisy count.

        The result is int `[num_queries]`. An index below `num_voted_sets` is a set with votes; `num_voted_sets` stands
        for the sets without votes.

        Args:
            counts_of_rows: `[num_rows]`, the number of teachers for each row of the summary.
            first_row_of_query: `[num_queries]`, the first row of each query.
            num_voted_sets: `[num_queries]`, the number of sets with votes of each query.
            num_all_sets: the number of all sets that compete.
            rng: the source of all noise.
        """
        # A row for each query: its sets with votes, and behind them one column for all sets without votes.
        set_columns = np.arange(int(num_voted_sets.max()) + 1)
        is_voted_set = set_columns < num_voted_sets[:, None]
        summary_rows = np.minimum(
            first_row_of_query[:, None] + set_columns, len(counts_of_rows) - 1
        )
        set_counts = np.where(is_voted_set, counts_of_rows[summary_rows], 0)
        # Python's whole numbers, as there may be 2**L sets.
        num_unvoted_by_query: list[int] = [
            num_all_sets - number for number in num_voted_sets.tolist()
        ]
        log_num_unvoted_by_query = np.array(
            [[math.log(max(number, 1))] for number in num_unvoted_by_query]
        )

        def count_unvoted_sets_of_query(row: int, column: int) -> int:
            return num_unvoted_by_query[row]

        largest_noise_of_unvoted = draw_largest(
            noise_kind="gaussian",
            log_num_noises=log_num_unvoted_by_query,
            count_noises=count_unvoted_sets_of_query,
            rng=rng,
        )
        noise_of_voted_sets = draw_noise(noise_kind="gaussian", shape=set_counts.shape, rng=rng)
        drawn_noise = noise_of_voted_sets.with_replaced_columns(
            new_noise=largest_noise_of_unvoted, column_of_row=num_voted_sets
        )
        set_competes = is_voted_set
        set_competes[np.arange(len(num_voted_sets)), num_voted_sets] = (
            np.array(num_unvoted_by_query) > 0
        )
        set_counts_in_scales = ExactValues.scaled(set_counts, noise_scale=self.noise_std)
        return largest_noisy(set_counts_in_scales, drawn_noise, k=1, candidate_mask=set_competes)[
            :, 0
        ]


def _rows_of_votes(vote_bits: BoolArray) -> Summary:
    """Returns one row for each teacher and query: the query, the set of labels that the teacher votes for, and 1.

    The third number is the count of teachers. Rows of equal sets are not merged.

    Args:
        vote_bits: bool `[num_teachers_in_block, num_queries, num_labels]`.
    """
    num_teachers, num_queries, num_labels = vote_bits.shape
    row_dtype = np.dtype(
        [("query", np.int64), ("labels", np.bool_, (num_labels,)), ("count", np.int64)]
    )
    rows = np.empty((num_teachers, num_queries), dtype=row_dtype)
    rows["query"] = np.arange(num_queries)
    rows["labels"] = vote_bits
    rows["count"] = 1
    return rows.reshape(-1)


def _right_sets(made_up_votes: MadeUpVotes) -> Summary:
    """Returns one row for each made-up query: its set of present labels, and how many teachers vote for exactly it."""
    rows = _rows_of_votes(made_up_votes.labels[None])
    # Unless every teacher misses a label of a query, no teacher misses two, so all who miss one are counted once.
    missing_votes_by_label = (
        made_up_votes.num_teachers - made_up_votes.counts()
    ) * made_up_votes.labels
    rows["count"] = np.maximum(made_up_votes.num_teachers - missing_votes_by_label.sum(axis=1), 0)
    return rows


def _add_up_equal_sets(sets_with_counts: Summary) -> Summary:
    """Returns rows in which no set of a query occurs twice; the counts of merged rows are added up.

    The rows are sorted by query and labels. Each row has a query, a set of labels and a count of teachers.
    """
    packed_labels = np.packbits(sets_with_counts["labels"], axis=1)
    sorting_order = np.lexsort((*packed_labels.T[::-1], sets_with_counts["query"]))
    sorted_rows = sets_with_counts[sorting_order]
    packed_labels = packed_labels[sorting_order]
    is_new = np.ones(len(sorted_rows), dtype=np.bool_)
    has_other_query = sorted_rows["query"][1:] != sorted_rows["query"][:-1]
    has_other_labels = (packed_labels[1:] != packed_labels[:-1]).any(axis=1)
    is_new[1:] = has_other_query | has_other_labels
    starts_of_sets = np.flatnonzero(is_new)
    merged = sorted_rows[starts_of_sets].copy()
    merged["count"] = np.add.reduceat(sorted_rows["count"], starts_of_sets)
    return merged


def _draw_unvoted_set(voted_sets: BoolArray, *, num_sets_by_size: list[int], rng: Rng) -> BoolArray:
    """Draws a set of labels, bool `[num_labels]`, uniformly from all sets of allowed sizes but those in `voted_sets`.

    Sets are drawn until one has no votes, so at least one set of an allowed size must have none.

    Args:
        voted_sets: bool `[num_voted_sets, num_labels]`, the sets with votes.
        num_sets_by_size: the number of sets with 0, 1, ... labels, up to the largest allowed size.
        rng: the source of the draw.
    """
    voted = {row.tobytes() for row in voted_sets}
    size_intervals = [(number, number) for number in num_sets_by_size]

    def enclose_size_weights(decimal_digits: int) -> list[tuple[int, int]]:
        return size_intervals  # whole numbers, exact for any number of digits

    # The size of a set is drawn by the share of such sets, and then its labels as the first of a random order.
    while True:
        lazy_uniform = LazyUniforms.draw((1,), rng).entry((0,))
        size = index_of(lazy_uniform, enclose_weights=enclose_size_weights)
        candidate_set = np.zeros(voted_sets.shape[1], dtype=np.bool_)
        candidate_set[rng.permutation(len(candidate_set))[:size]] = True
        if candidate_set.tobytes() not in voted:
            return candidate_set


@expected_from_votes.register(PowersetGNMax)
def _expected_from_powerset(
    aggregator: PowersetGNMax, made_up_votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expected shares of right labels, measured on sets that are drawn for made-up queries.

    Only the set of a query's present labels counts as one with votes. All other sets have few votes, which are left
    out. `num_queries` is not read.
    """
    return expected_from_summary(
        aggregator, summary=_right_sets(made_up_votes), made_up_votes=made_up_votes
    )
