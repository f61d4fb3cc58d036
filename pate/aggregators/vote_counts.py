"""Counting teachers' votes as far as an aggregator's price lets each teacher vote."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.aggregator import Aggregator
from pate.validation import InvalidValue, require_kind
from pate.votes.histogram import histogram
from pate.votes.vote_limit import limited


def counts_for(aggregator: Aggregator, blocks: Iterable[NDArray[np.bool_]]) -> NDArray[np.int64]:
    """Counts `[Q, L]` of votes in blocks `[c, Q, L]`, for an aggregator that reads counts.

    Counts do not say how many labels one teacher voted for. Where the price is for `max_votes_per_teacher` of them,
    every teacher keeps that many per query, chosen from its own votes alone. Whoever has the teachers' votes counts
    them here.

    Args:
        aggregator: what the counts are for.
        blocks: the votes of some teachers each, bits `[c, Q, L]`.

    Raises:
        InvalidValue: no blocks.
    """
    require_kind("aggregator", aggregator, Aggregator, "an aggregator of pate.aggregators")
    most, counts = aggregator.max_votes_per_teacher, None
    for block in blocks:
        counted = histogram(block if most is None else limited(block, most))
        counts = counted if counts is None else counts + counted
    if counts is None:
        raise InvalidValue("votes: expected the votes of at least one teacher")
    return counts
