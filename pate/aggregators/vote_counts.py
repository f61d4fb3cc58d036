"""The counts of votes for an aggregator, from the votes of each teacher."""

from __future__ import annotations

from collections.abc import Iterable

from pate.aggregators.aggregator import Aggregator
from pate.array_types import BoolArray, IntArray
from pate.validation import InvalidValue, require_kind
from pate.votes.counts import histogram, limit_votes


def counts_for(aggregator: Aggregator, blocks: Iterable[BoolArray]) -> IntArray:
    """Returns the counts of votes, `[num_queries, num_labels]`, for an aggregator that reads counts.

    Counts do not show how many labels one teacher voted for. Where the price allows a teacher at most
    `max_votes_per_teacher` labels of a query, a teacher with more keeps that many, chosen from its own votes alone.

    Args:
        aggregator: the aggregator that the counts are for.
        blocks: bits, each block `[num_teachers_in_block, num_queries, num_labels]`.

    Raises:
        InvalidValue: there is no block.
    """
    require_kind("aggregator", aggregator, Aggregator, rule="an aggregator of pate.aggregators")
    max_votes = aggregator.max_votes_per_teacher
    counts: IntArray | None = None
    for block in blocks:
        limited_block = block if max_votes is None else limit_votes(block, max_votes=max_votes)
        block_counts = histogram(limited_block)
        counts = block_counts if counts is None else counts + block_counts
    if counts is None:
        raise InvalidValue("votes", rule="the votes of at least one teacher")
    return counts
