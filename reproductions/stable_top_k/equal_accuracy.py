"""What releases cost whose students are equally good: an aggregator's noise is found by its student's accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pate.accounting import Adjacency, RdpAccountant
from pate.accounting.conversion import zcdp_to_epsilon_classic
from pate.aggregators import Aggregator, CenteredVotes, ClippedVotes, GaussianVotes, StableTopK
from reproductions.stable_top_k.students import StudentExperiment

_STEPS = 7
_TEST_SHARE = 1.2  # test noise / selection noise, as in the paper's 60 / 50
_TAU = 4


@dataclass(frozen=True)
class AggregatorFamily:
    """An aggregator as a function of its noise.

    Attributes:
        name: for the table.
        make: the aggregator with that noise, for that adjacency.
        l2_squared: of a query's counts for add/remove, given L, where the paper charges a Gaussian on them; None where
            the aggregator knows what its paper prints.
        unit: of the noise.
        least: noise that changes hardly anything.
        most: noise that leaves hardly anything; a teacher's share of it, where the unit is votes.
    """

    name: str
    make: Callable[[float, Adjacency], Aggregator]
    l2_squared: Callable[[int], float] | None = None
    unit: str = "votes"
    least: float = 0.5
    most: float = 4.0

    def paper_epsilon(self, noise: float, *, num_queries: int, num_labels: int, target_delta: float) -> float | None:
        """What the paper prints, which is no bound; None where it prints nothing."""
        if self.l2_squared is None:
            aggregator = self.make(noise, Adjacency.ADD_REMOVE)
            return aggregator.paper_epsilon(num_queries=num_queries, target_delta=target_delta)
        rho = num_queries * self.l2_squared(num_labels) / (2 * noise**2)
        return zcdp_to_epsilon_classic(rho, target_delta=target_delta)


def families() -> list[AggregatorFamily]:
    """The rows of Table 2 of Zhu and Wang (2022), and the best of ours on the same votes."""
    return [
        AggregatorFamily("PATE", lambda noise, a: GaussianVotes(noise_std=noise, adjacency=a), float),
        AggregatorFamily(
            f"PATE-tau, tau {_TAU}",
            lambda noise, a: ClippedVotes(noise_std=noise, vote_clip=_TAU, norm="l2", adjacency=a),
            lambda num_labels: min(_TAU, num_labels),
        ),
        AggregatorFamily("StableTopK", _stable("gaussian")),
        AggregatorFamily("StableTopK, Gumbel (ours)", _stable("gumbel")),
        AggregatorFamily(
            "CenteredVotes (ours)",
            lambda noise, a: CenteredVotes(noise_multiplier=noise, adjacency=a),
            unit="sensitivities",
            least=0.05,
            most=100.0,
        ),
    ]


def _stable(kind: str) -> Callable[[float, Adjacency], Aggregator]:
    """Stable top-k with that noise in the selection."""
    return lambda noise, adjacency: StableTopK(
        selection_noise=kind,
        selection_scale=noise,
        test_std=_TEST_SHARE * noise,
        failure_prob=1e-9,
        adjacency=adjacency,
    )


def within_reach(experiment: StudentExperiment, compared: Sequence[AggregatorFamily]) -> float:
    """What the students of all families reach with hardly any noise."""
    quiet = [family.make(family.least, Adjacency.REPLACE_ONE) for family in compared]
    return min(float(np.mean(experiment.accuracies(aggregator))) for aggregator in quiet)


@dataclass(frozen=True)
class Aligned:
    """An aggregator with as much noise as its student bears.

    Attributes:
        name: of the family.
        adjacency: for which thresholds were set and the price is.
        noise: in the family's unit; None where no noise is small enough.
        unit: the family's.
        accuracies: of the students, one per seed.
        epsilon: sound, for that adjacency.
        paper_epsilon: what the paper would print; not a bound. None where it would print nothing.
    """

    name: str
    adjacency: Adjacency
    noise: float | None
    unit: str
    accuracies: tuple[float, ...]
    epsilon: float
    paper_epsilon: float | None


def aligned(family: AggregatorFamily, experiment: StudentExperiment, accuracy: float, adjacency: Adjacency) -> Aligned:
    """The most noise whose students' mean accuracy is at least the given one, found by halving, to a few percent."""
    low, high = family.least, family.most * (experiment.votes.num_teachers if family.unit == "votes" else 1)
    best = experiment.accuracies(family.make(low, adjacency))
    if float(np.mean(best)) < accuracy:
        return Aligned(family.name, adjacency, None, family.unit, best, math.inf, None)
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        found = experiment.accuracies(family.make(middle, adjacency))
        if float(np.mean(found)) >= accuracy:
            low, best = middle, found
        else:
            high = middle
    shape = {"num_queries": experiment.votes.num_queries, "num_labels": experiment.votes.num_labels}
    event = family.make(low, adjacency).event_for(**shape, num_teachers=experiment.votes.num_teachers)
    epsilon = RdpAccountant().compose(event).get_epsilon(experiment.target_delta)
    paper = family.paper_epsilon(low, **shape, target_delta=experiment.target_delta)
    return Aligned(family.name, adjacency, low, family.unit, best, epsilon, paper)
