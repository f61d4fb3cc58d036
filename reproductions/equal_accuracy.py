"""What releases cost whose students are equally good: an aggregator's noise is found by its student's accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, RdpAccountant
from pate.accounting.conversion import zcdp_to_epsilon_classic
from pate.aggregators import (
    Aggregator,
    CenteredVotes,
    ClippedVotes,
    GaussianVotes,
    Release,
    StableTopK,
    TeacherVotesAggregator,
    counts_for,
)
from pate.data import Split
from pate.student import Student
from pate.votes import VoteStore

_STEPS = 7
_TEST_SHARE = 1.2  # test noise / selection noise, as in the paper's 60 / 50
_TAU = 4


@dataclass(frozen=True)
class Family:
    """An aggregator as a function of its noise.

    Attributes:
        name: for the table.
        make: the aggregator with that noise, for that adjacency.
        paper_epsilon: what its paper prints, given the aggregator, Q, L and delta; None where it prints nothing.
        unit: of the noise.
        least: noise that changes hardly anything.
        most: noise that leaves hardly anything; a teacher's share of it, where the unit is votes.
    """

    name: str
    make: Callable[[float, Adjacency], Aggregator]
    paper_epsilon: Callable[[Aggregator, float, int, int, float], float | None]
    unit: str = "votes"
    least: float = 0.5
    most: float = 4.0


def _per_query(l2_squared: Callable[[int], float]) -> Callable[[Aggregator, float, int, int, float], float]:
    """A Gaussian on all counts of a query, as a paper charges it: sensitivity of add/remove, classic conversion."""

    def epsilon(_: Aggregator, noise: float, num_queries: int, num_labels: int, delta: float) -> float:
        rho = num_queries * l2_squared(num_labels) / (2 * noise**2)
        return zcdp_to_epsilon_classic(rho, target_delta=delta)

    return epsilon


def families() -> list[Family]:
    """The rows of Table 2 of Zhu and Wang (2022), and the best of ours on the same votes."""

    def stable(noise: float, adjacency: Adjacency) -> Aggregator:
        test_std = _TEST_SHARE * noise
        return StableTopK(
            selection_noise="gaussian", selection_scale=noise, test_std=test_std, failure_prob=1e-9, adjacency=adjacency
        )

    def gumbel(noise: float, adjacency: Adjacency) -> Aggregator:
        test_std = _TEST_SHARE * noise
        return StableTopK(selection_scale=noise, test_std=test_std, failure_prob=1e-9, adjacency=adjacency)

    return [
        Family("PATE", lambda noise, a: GaussianVotes(noise_std=noise, adjacency=a), _per_query(float)),
        Family(
            f"PATE-tau, tau {_TAU}",
            lambda noise, a: ClippedVotes(noise_std=noise, vote_clip=_TAU, norm="l2", adjacency=a),
            _per_query(lambda num_labels: min(_TAU, num_labels)),
        ),
        Family(
            "StableTopK",
            stable,
            lambda aggregator, _, num_queries, __, delta: aggregator.paper_epsilon(
                num_queries=num_queries, target_delta=delta
            ),
        ),
        Family("StableTopK, Gumbel (ours)", gumbel, lambda *_: None),
        Family(
            "CenteredVotes (ours)",
            lambda noise, a: CenteredVotes(noise_multiplier=noise, adjacency=a),
            lambda *_: None,
            unit="sensitivities",
            least=0.05,
            most=100.0,
        ),
    ]


@dataclass(frozen=True, eq=False)
class Task:
    """One vote file and what its releases are for.

    Attributes:
        votes: of all teachers, on disk.
        queries: float32 `[Q, d]`.
        test: inputs and labels that students are scored on; no epsilon covers the scores.
        student: the recipe.
        seeds: of noise and students.
        target_delta: in (0, 1).
    """

    votes: VoteStore
    queries: NDArray[np.float32]
    test: Split
    student: Student
    seeds: Sequence[int]
    target_delta: float

    def student_accuracies(self, aggregator: Aggregator) -> tuple[float, ...]:
        """The accuracy of a student of one release for each seed."""
        draw = self._draw_of(aggregator)
        releases = ((seed, draw(rng=np.random.default_rng(seed))) for seed in self.seeds)
        return tuple(self._accuracy(self.queries[r.answered], r.labels[r.answered], seed) for seed, r in releases)

    def prior_accuracy(self) -> float:
        """That of each label's majority."""
        share = self.test.labels.mean(axis=0)
        return float(np.maximum(share, 1 - share).mean())

    def within_reach(self, compared: Sequence[Family]) -> float:
        """What the students of all families reach with hardly any noise."""
        quiet = [family.make(family.least, Adjacency.REPLACE_ONE) for family in compared]
        return min(float(np.mean(self.student_accuracies(aggregator))) for aggregator in quiet)

    def _accuracy(self, inputs: NDArray[np.float32], labels: NDArray[np.bool_], seed: int) -> float:
        model = self.student.fit(inputs, labels, seed=seed)
        return float((model.predict(self.test.inputs) == self.test.labels).mean())

    def _draw_of(self, aggregator: Aggregator) -> Callable[..., Release]:
        """A release for each generator; the votes are read once."""
        total = self.votes.num_teachers
        if isinstance(aggregator, CenteredVotes):  # every release has a center of its own
            return partial(aggregator.aggregate, self._teacher_votes, num_teachers=total)
        if isinstance(aggregator, TeacherVotesAggregator):
            summary = aggregator.gather(self.votes.blocks(), num_teachers=total)
            return partial(aggregator.aggregate_summary, summary, num_teachers=total)
        return partial(aggregator.aggregate, counts_for(aggregator, self.votes.blocks()), num_teachers=total)

    @cached_property
    def _teacher_votes(self) -> NDArray[np.bool_]:
        return self.votes.teacher_votes()


@dataclass(frozen=True)
class Aligned:
    """An aggregator with as much noise as its student bears.

    Attributes:
        name: of the family.
        adjacency: for which thresholds were set and the price is.
        noise: in the family's unit; None where no noise is small enough.
        unit: the family's.
        accuracies: of the students, one a seed.
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


def aligned(family: Family, task: Task, accuracy: float, adjacency: Adjacency) -> Aligned:
    """The most noise whose students' mean accuracy is at least the given one, found by halving, to a few percent."""
    low, high = family.least, family.most * (task.votes.num_teachers if family.unit == "votes" else 1)
    best = task.student_accuracies(family.make(low, adjacency))
    if float(np.mean(best)) < accuracy:
        return Aligned(family.name, adjacency, None, family.unit, best, math.inf, None)
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        found = task.student_accuracies(family.make(middle, adjacency))
        if float(np.mean(found)) >= accuracy:
            low, best = middle, found
        else:
            high = middle
    aggregator, size = family.make(low, adjacency), (task.votes.num_queries, task.votes.num_labels)
    event = aggregator.event_for(num_queries=size[0], num_labels=size[1], num_teachers=task.votes.num_teachers)
    epsilon = RdpAccountant().compose(event).get_epsilon(task.target_delta)
    paper = family.paper_epsilon(aggregator, low, *size, task.target_delta)
    return Aligned(family.name, adjacency, low, family.unit, best, epsilon, paper)
