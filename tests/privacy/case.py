"""Cases for `test_shipped.py`: mechanisms or aggregators of the package with price and exact distribution."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from pate.accounting import Adjacency, Event
from pate.aggregators import Aggregator
from pate.array_types import FloatArray, IntArray
from pate.testing import neighbors

Distribution = Mapping[Any, float]


@dataclass(frozen=True)
class SmallInstance:
    """The adjacency and the numbers of labels and teachers for which a mechanism is verified on all histograms."""

    adjacency: Adjacency
    num_labels: int
    num_teachers: int


class Size(NamedTuple):
    """The numbers of labels and teachers of a small instance."""

    num_labels: int
    num_teachers: int


LARGEST_SIZE = Size(num_labels=4, num_teachers=6)
REFUTED_AT_SIZE = Size(num_labels=3, num_teachers=4)


def default_distribution(
    mechanism: Any, histogram: IntArray, small_instance: SmallInstance
) -> Distribution:
    """Returns the distribution that the code of the mechanism or aggregator computes."""
    if isinstance(mechanism, Aggregator):
        return mechanism.distribution(histogram, num_teachers=small_instance.num_teachers)
    return _distribution_of_mechanism(mechanism, counts=tuple(histogram.tolist()))


# A top-k mechanism knows no number of teachers, so instances with different numbers have histograms in common.
@lru_cache(maxsize=1000)
def _distribution_of_mechanism(mechanism: Any, counts: tuple[int, ...]) -> Distribution:
    """Returns the distribution of a mechanism for one histogram."""
    return mechanism.distribution(np.array(counts))


def default_event(mechanism: Any, small_instance: SmallInstance) -> Event:
    """Returns the event, that is the price, of the release of one query."""
    if isinstance(mechanism, Aggregator):
        return mechanism.event_for(
            num_queries=1,
            num_labels=small_instance.num_labels,
            num_teachers=small_instance.num_teachers,
        )
    return mechanism.event


def rename_indices(outcome: Any, label_of_rank: list[int]) -> Any:
    """Returns a sequence of labels, given their ranks; -1 stands for no label."""
    return tuple(label_of_rank[rank] if rank >= 0 else -1 for rank in outcome)


def rename_set(outcome: Any, label_of_rank: list[int]) -> Any:
    """Returns a sorted tuple of labels, given the set of their ranks; None stands for no answer."""
    return None if outcome is None else tuple(sorted(label_of_rank[rank] for rank in outcome))


def rename_short_set(outcome: Any, label_of_rank: list[int]) -> Any:
    """Returns a sorted tuple of labels, given a tuple of their ranks; each -1, for no label, is moved to the end."""
    chosen = sorted(label_of_rank[rank] for rank in outcome if rank >= 0)
    return (*chosen, *[-1] * (len(outcome) - len(chosen)))


def rename_bits(outcome: Any, label_of_rank: list[int]) -> Any:
    """Returns a bit for each label, given one for each rank; None stands for no answer."""
    return (
        None
        if outcome is None
        else tuple(outcome[label_of_rank.index(label)] for label in range(len(label_of_rank)))
    )


def rename_number(outcome: Any, label_of_rank: list[int]) -> Any:
    """Returns a number unchanged, as it depends on no label."""
    return outcome


@dataclass(frozen=True)
class Case:
    """A mechanism or aggregator of the package, with its exact distribution and its price.

    Attributes:
        name: the name of the case in the ids of tests.
        mechanism_for: returns the mechanism or aggregator for a small instance.
        distribution: returns the exact distribution for one histogram.
        event: returns the price of one release.
        tightness: the share of the price that some exact divergence on the largest instance reaches: the price times
            any smaller share would be refuted.
        largest_size: the numbers of labels and teachers of the largest instance.
        min_labels: the smallest number of labels that the mechanism is made for.
        replace_one_refuted_at_size: the numbers of labels and teachers at which some replace-one neighbors exceed the
            price for add/remove; None if that is not tested.
        epsilon: the epsilon of a top-k mechanism, outside of its failure probability; None for other mechanisms.
        failure_reached_at_size: the numbers of labels and teachers at which some exact delta is over 90% of the failure
            probability, at `epsilon`, or at 50 if that is None; None if this is not tested.
        has_stability_test: whether a set of labels is released only if it passes a stability test.
        is_curve_attained: whether a Renyi divergence on the largest instance, without the outcomes of probability 0 on
            the neighbor, exceeds 90% of the price at its order.
        is_range_attained: whether the event is a bounded range that some neighbors with 4 labels and 3 teachers are
            tested to attain.
        is_sharply_priced: whether 3 labels and 3 teachers are tested to attain over 80% of the exact and of the PLD
            accountant's price of one release, and over 60% of that of three releases.
        relabel_outcome: returns an outcome on ranks, the first argument, as one on labels; the second argument is the
            label at each rank.
    """

    name: str
    mechanism_for: Callable[[SmallInstance], Any]
    distribution: Callable[[Any, IntArray, SmallInstance], Distribution] = default_distribution
    event: Callable[[Any, SmallInstance], Event] = default_event
    tightness: float = 0.9
    largest_size: Size = LARGEST_SIZE
    min_labels: int = 1
    replace_one_refuted_at_size: Size | None = REFUTED_AT_SIZE
    epsilon: float | None = None
    failure_reached_at_size: Size | None = None
    has_stability_test: bool = False
    is_curve_attained: bool = False
    is_range_attained: bool = False
    is_sharply_priced: bool = False
    relabel_outcome: Callable[[Any, list[int]], Any] = rename_indices

    def largest_instance(self, adjacency: Adjacency) -> SmallInstance:
        """Returns the largest instance on which the case is verified."""
        return SmallInstance(
            adjacency,
            num_labels=self.largest_size.num_labels,
            num_teachers=self.largest_size.num_teachers,
        )


def by_rank(
    distribution: Callable[[IntArray], Distribution],
    relabel_outcome: Callable[[Any, list[int]], Any],
) -> Callable[[IntArray], Distribution]:
    """Returns a function from histograms to distributions, which calls `distribution` once for equal sorted counts.

    Outcomes are renamed from ranks to labels. The distributions must treat labels alike and break ties by the lowest
    index, which `test_shipped.py` checks.
    """
    laws_of_sorted: dict[tuple[int, ...], Distribution] = {}

    @cache  # Most histograms have the same outcomes by rank, and there are few orders of labels.
    def labeled_outcomes(
        outcomes: tuple[Any, ...], label_of_rank: tuple[int, ...]
    ) -> tuple[Any, ...]:
        return tuple(relabel_outcome(outcome, list(label_of_rank)) for outcome in outcomes)

    def distribution_over_labels(histogram: IntArray) -> Distribution:
        counts = histogram.tolist()
        falling = tuple(sorted(counts, reverse=True))
        if falling not in laws_of_sorted:
            laws_of_sorted[falling] = distribution(np.array(falling))
        law = laws_of_sorted[falling]
        # The sort is stable, so the lowest index of tied counts comes first.
        label_of_rank = tuple(sorted(range(len(counts)), key=counts.__getitem__, reverse=True))
        return dict(zip(labeled_outcomes(tuple(law), label_of_rank), law.values(), strict=True))

    return distribution_over_labels


def pairs_of_laws(
    case: Case, small_instance: SmallInstance
) -> tuple[FloatArray, FloatArray, list[Any]]:
    """Returns the exact distributions of a case on pairs of neighbors, of which no two differ only in names of labels.

    These are two arrays `[P, n]`, for the first and the second neighbors, and the list of the n outcomes.
    """
    pairs = neighbors(
        small_instance.num_labels, small_instance.num_teachers, small_instance.adjacency
    ).up_to_names
    mechanism = case.mechanism_for(small_instance)

    def distribution(histogram: IntArray) -> Distribution:
        return case.distribution(mechanism, histogram, small_instance)

    law_of = by_rank(distribution, relabel_outcome=case.relabel_outcome)
    laws = {
        index: law_of(pairs.histograms[index])
        for index in np.unique([pairs.first_rows, pairs.second_rows]).tolist()
    }
    outcomes = list(dict.fromkeys(outcome for law in laws.values() for outcome in law))
    probabilities = {
        index: [law.get(outcome, 0.0) for outcome in outcomes] for index, law in laws.items()
    }
    first, second = (
        np.array([probabilities[index] for index in side.tolist()])
        for side in (pairs.first_rows, pairs.second_rows)
    )
    return first, second, outcomes


def without_failure(
    first_laws: FloatArray, second_laws: FloatArray, outcomes: list[Any]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns both distributions `[num_pairs, n]` without the sets that only one neighbor of a pair can release.

    Their probability is added to that of the refusals. The third value is the probability that was moved in the first
    distribution of each pair, `[num_pairs]`.
    """
    is_refusal = np.array([_is_refusal(outcome) for outcome in outcomes])
    is_common = (first_laws > 0) & (second_laws > 0)
    laws_without_failure = []
    for laws in (first_laws, second_laws):
        probs_if_common = np.where(is_common, laws, 0.0)
        removed_mass = 1 - probs_if_common.sum(axis=1, keepdims=True)
        refused_mass = probs_if_common[:, is_refusal].sum(axis=1, keepdims=True)
        laws_without_failure.append(
            np.where(
                is_refusal, probs_if_common * (1 + removed_mass / refused_mass), probs_if_common
            )
        )
    first_without_failure, second_without_failure = laws_without_failure
    moved_mass = np.maximum(first_laws - first_without_failure, 0).sum(axis=1)
    return first_without_failure, second_without_failure, moved_mass


def _is_refusal(outcome: Any) -> bool:
    """Returns True for None, and for a tuple that begins with None."""
    return outcome is None or outcome[:1] == (None,)
