"""One thing that ships with a price and an exact distribution, as `test_shipped.py` runs it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pate.accounting import Adjacency, Event
from pate.aggregators import Aggregator
from pate.array_types import FloatArray, IntArray
from pate.testing import neighbors

Distribution = Mapping[Any, float]


@dataclass(frozen=True)
class SmallInstance:
    """The adjacency, and the numbers of labels and teachers of the small instance on which a mechanism is verified."""

    adjacency: Adjacency
    num_labels: int
    num_teachers: int


class Size(NamedTuple):
    """The numbers of labels and teachers of a small instance, for both adjacencies."""

    num_labels: int
    num_teachers: int


LARGEST_SIZE = Size(num_labels=4, num_teachers=6)
REFUTED_AT_SIZE = Size(num_labels=3, num_teachers=4)


def default_distribution(
    mechanism: Any, histogram: IntArray, small_instance: SmallInstance
) -> Distribution:
    """Returns the distribution that the mechanism or aggregator itself computes."""
    if isinstance(mechanism, Aggregator):
        return mechanism.distribution(histogram, num_teachers=small_instance.num_teachers)
    return mechanism.distribution(histogram)


def default_event(mechanism: Any, small_instance: SmallInstance) -> Event:
    """Returns the price of one release of one query."""
    if isinstance(mechanism, Aggregator):
        return mechanism.event_for(
            num_queries=1,
            num_labels=small_instance.num_labels,
            num_teachers=small_instance.num_teachers,
        )
    return mechanism.event


def rename_indices(outcome: Any, label_of_rank: list[int]) -> Any:
    """Returns a sequence of ranks as a sequence of labels; -1 stands for no label."""
    return tuple(label_of_rank[rank] if rank >= 0 else -1 for rank in outcome)


def rename_set(outcome: Any, label_of_rank: list[int]) -> Any:
    """Returns a set of ranks as a sorted tuple of labels; None stands for no answer."""
    return None if outcome is None else tuple(sorted(label_of_rank[rank] for rank in outcome))


def rename_short_set(outcome: Any, label_of_rank: list[int]) -> Any:
    """Returns a set of ranks as a sorted tuple of labels, filled up with -1."""
    chosen = sorted(label_of_rank[rank] for rank in outcome if rank >= 0)
    return (*chosen, *[-1] * (len(outcome) - len(chosen)))


def rename_bits(outcome: Any, label_of_rank: list[int]) -> Any:
    """Returns bits for each rank as bits for each label; None stands for no answer."""
    return (
        None
        if outcome is None
        else tuple(outcome[label_of_rank.index(label)] for label in range(len(label_of_rank)))
    )


def rename_number(outcome: Any, label_of_rank: list[int]) -> Any:
    """Returns a number unchanged, because it depends on no label."""
    return outcome


@dataclass(frozen=True)
class Case:
    """A mechanism or aggregator of the package, with its exact distribution and its price."""

    name: str  # of the test
    # returns the mechanism or aggregator for a small instance
    mechanism_for: Callable[[SmallInstance], Any]
    # the exact distribution of one histogram
    distribution: Callable[[Any, IntArray, SmallInstance], Distribution] = default_distribution
    event: Callable[[Any, SmallInstance], Event] = default_event  # the price of one release
    # on the largest instance some exact figure is at least this part of its price, so that a price smaller by this
    # factor would be found out
    tightness: float = 0.9
    largest_size: Size = LARGEST_SIZE  # the size of that instance
    min_labels: int = 1  # the fewest labels that it is made for
    # the size at which what is made for add/remove is refuted under replace-one; None where it is not
    replace_one_refuted_at_size: Size | None = REFUTED_AT_SIZE
    # an outcome over ranks as one over labels, given the label at each rank
    ranks_to_labels: Callable[[Any, list[int]], Any] = rename_indices

    def largest_instance(self, adjacency: Adjacency) -> SmallInstance:
        """Returns the largest instance."""
        return SmallInstance(
            adjacency,
            num_labels=self.largest_size.num_labels,
            num_teachers=self.largest_size.num_teachers,
        )


def by_rank(
    distribution: Callable[[IntArray], Distribution],
    ranks_to_labels: Callable[[Any, list[int]], Any],
) -> Callable[[IntArray], Distribution]:
    """Returns a function from histograms to distributions, which calls `distribution` once for equal sorted counts.

    Outcomes are renamed from ranks to labels. This holds for distributions that treat labels alike and break ties by
    the lowest index, which `test_shipped.py` checks.
    """
    of_sorted: dict[tuple[int, ...], Distribution] = {}

    def renamed(histogram: IntArray) -> Distribution:
        counts = histogram.tolist()
        falling = tuple(sorted(counts, reverse=True))
        if falling not in of_sorted:
            of_sorted[falling] = distribution(np.array(falling))
        # stable: ties to the lowest index
        labels = sorted(range(len(counts)), key=counts.__getitem__, reverse=True)
        return {ranks_to_labels(outcome, labels): p for outcome, p in of_sorted[falling].items()}

    return renamed


def pairs_of_laws(
    case: Case, small_instance: SmallInstance
) -> tuple[FloatArray, FloatArray, list[Any]]:
    """Returns the exact distributions of a case on one pair of neighbors of each kind, two arrays `[P, n]`, and
    the list of the n outcomes.
    """
    pairs = neighbors(
        small_instance.num_labels, small_instance.num_teachers, small_instance.adjacency
    ).up_to_names
    mechanism = case.mechanism_for(small_instance)
    law = by_rank(
        lambda histogram: case.distribution(mechanism, histogram, small_instance),
        ranks_to_labels=case.ranks_to_labels,
    )
    laws = {
        row: law(pairs.histograms[row]) for row in np.unique([pairs.first, pairs.second]).tolist()
    }
    outcomes = list(dict.fromkeys(outcome for each in laws.values() for outcome in each))
    rows = {row: [each.get(outcome, 0.0) for outcome in outcomes] for row, each in laws.items()}
    first, second = (
        np.array([rows[row] for row in side.tolist()]) for side in (pairs.first, pairs.second)
    )
    return first, second, outcomes


def outside_failure(
    first: FloatArray, second: FloatArray, outcomes: list[Any]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns both distributions `[P, n]` without the sets that only one neighbor of a pair can release.

    Their probability is added to that of the refusals. The third value is the probability that was moved in the first
    distribution of each pair, `[P]`.
    """
    refused = np.array([None in (outcome, outcome and outcome[0]) for outcome in outcomes])
    meant = []
    for law in (first, second):
        kept = np.where((first > 0) & (second > 0), law, 0.0)
        left = kept[:, refused].sum(axis=1, keepdims=True)
        meant.append(
            np.where(refused, kept * (1 + (1 - kept.sum(axis=1, keepdims=True)) / left), kept)
        )
    return meant[0], meant[1], np.maximum(first - meant[0], 0).sum(axis=1)
