"""An attack on releases in rounds: canaries are private records."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from pate.aggregators import CenteredVotes
from pate.aggregators.record import MemoryRecord
from pate.auditing.attack.guesses import Array
from pate.data import Dataset, Split
from pate.models.kernel_votes import KernelVotes
from pate.validation import (
    require,
)
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.moment_votes import MomentVotes
from pate.votes.weighted import Integers

Bits = NDArray[np.bool_]
Signs = NDArray[np.int8]
_UNCLIPPED = 16  # times the clip that is promised, a power of 2
# of the labels that are the rarer way in a canary: few tell canaries apart, many are clipped
_PRESENT = 0.1, 0.8
_EXACT = 1e-3  # of a canary's length: the noise of what is released without any


@dataclass(frozen=True, eq=False)
class Question:
    """The question of a round, to which each teacher's vote is a clipped mean product."""

    weights: Array  # `[D, L]`, of the student
    label_scale: Array  # `[L]`
    clipped: ClippedMoments  # the rule by which votes are clipped and added


@dataclass(frozen=True, eq=False)
class Round:
    """A round of a release that was overheard."""

    question: Question
    exact: Integers  # `[D, L]`, the sum of the votes, in steps
    released: Integers  # `[D, L]`, the sum with noise
    noise_std: float  # in steps


class _OverheardVotes(MomentVotes):
    """Votes in rounds that keep each question and its exact sum.

    Votes are clipped at `times` the clip of the noise: 1, or more to break the release on purpose.
    """

    def __init__(self, times: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.times = times
        self.overheard = list[tuple[Question, Integers]]()

    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        """Returns the exact sum `[D, L]` of a round, in steps, and keeps it."""
        exact = self.times * super().total(
            weights, label_scale, replace(clipped, clip=self.times * clipped.clip)
        )
        self.overheard.append((Question(weights, label_scale, clipped), exact))
        return exact

    def moved(
        self, inputs: NDArray[np.float32], labels: NDArray[np.bool_], question: Question
    ) -> tuple[Array, Array]:
        """Returns features `[m, D]` and residuals `[m, L]` of records, whose products they add to the sum."""
        clipped = question.clipped
        wider = replace(clipped, clip=self.times * clipped.clip)
        features, residuals = self.record_factors(
            inputs, labels, question.weights, question.label_scale, wider
        )
        return features, self.times * residuals


@dataclass(frozen=True, eq=False)
class RecordAttack:
    """An attack that guesses which of two records stands in the place of each canary's group, from all released sums.

    A canary has the inputs of a public record, or those mirrored at the pool's mean, and mostly the rarer value of each
    label. Whoever guesses knows all other records, both variants of each canary, and all that was released.
    """

    aggregator: CenteredVotes  # what draws the release
    dataset: Dataset  # whose private groups give way to canaries
    num_canaries: int  # m, groups
    num_queries: int  # Q
    # "features": features are fitted on the private records, canaries included; "clip": votes are not clipped as
    # promised; "seed": a second run on known records draws the same noise
    sabotage: str | None = None

    def __post_init__(self) -> None:
        require(
            self.dataset.kind == "features",
            "data",
            self.dataset.kind,
            "features, such as features=patches gives",
        )

    def guess(self, coins: Signs, rng: np.random.Generator) -> Array:
        """Returns a score for each canary, `[m]`: its sign guesses the coin, its size is the confidence.

        `coins`, `[m]`, are 1 for the inputs of the public record, -1 for the mirrored ones. The generator draws
        canaries and noise.
        """
        canaries = _Canaries.draw(self.dataset, self.num_canaries, rng)
        noise = int(rng.integers(2**63))
        votes, rounds = self._released(canaries.planted(self.dataset, coins), noise)
        sums = []
        # with the same noise in both, the difference of two first rounds has none; in one all coins are 1
        if self.sabotage == "seed":
            _, planted_rounds = self._released(
                canaries.planted(self.dataset, np.ones_like(coins)), noise
            )
            first_round = rounds[0]
            features, residuals = votes.moved(
                canaries.inputs, canaries.labels, first_round.question
            )
            remainder = first_round.released - planted_rounds[0].released + features.T @ residuals
            sums.append(canaries.evidence(votes, first_round.question, remainder, 0.0))
        else:
            for each_round in rounds:
                question = each_round.question
                features, residuals = votes.moved(canaries.by(coins), canaries.labels, question)
                known_sum = each_round.exact - features.T @ residuals
                remainder = each_round.released - known_sum
                sums.append(canaries.evidence(votes, question, remainder, each_round.noise_std))
        # the mean of records that canaries are among, times their number, has no noise
        if self.sabotage == "features":
            moves = (canaries.inputs - canaries.mirrored).astype(np.float64) / 2
            std = _EXACT * float(np.linalg.norm(moves, axis=1).mean())
            sums.append((moves @ moves.T / std**2, moves @ (coins @ moves) / std**2))
        # Each sum is D^T coins + noise; this is the best linear estimate of the coins from all sums.
        gram = sum(block_gram for block_gram, _ in sums) + np.eye(len(coins))
        return np.asarray(
            scipy.linalg.solve(gram, sum(matched for _, matched in sums), assume_a="pos")
        )

    def _released(self, private: Split, noise: int) -> tuple[_OverheardVotes, list[Round]]:
        """Releases rounds of votes on private records, with noise of a seed, and returns the votes and the rounds."""
        groups, teacher_of = np.unique(private.group_ids, return_inverse=True)
        aggregator = self.aggregator
        record = MemoryRecord()
        source = KernelVotes(
            private=private,
            teacher_of=teacher_of.astype(np.int64),
            num_teachers=len(groups),
            public=private if self.sabotage == "features" else self.dataset.public,
            num_queries=self.num_queries,
            moments=partial(_OverheardVotes, _UNCLIPPED if self.sabotage == "clip" else 1),
        )
        aggregator.release(source, np.random.default_rng(noise), record)
        votes = cast(
            _OverheardVotes,
            source.in_rounds(
                noise_multiplier=aggregator.votes_multiplier, recipe=aggregator.recipe
            ),
        )
        require(
            bool(votes.overheard), "aggregator.rounds", aggregator.rounds, "a release in rounds"
        )
        multiplier = aggregator.votes_multiplier * math.sqrt(aggregator.num_rounds)
        return votes, [
            Round(
                question=question,
                exact=exact,
                released=(record.committed(f"step-{number}") or {})["total"],
                noise_std=multiplier * question.clipped.l2_sensitivity,
            )
            for number, (question, exact) in enumerate(votes.overheard)
        ]


@dataclass(frozen=True, eq=False)
class _Canaries:
    """Canaries, each in the place of a private group."""

    rows: NDArray[np.int64]  # `[m]`, of the private split, one of each canary's group
    remaining_rows: NDArray[np.int64]  # `rows`, and all rows of other groups
    inputs: NDArray[np.float32]  # `[m, d]`, of public records
    mirrored: NDArray[np.float32]  # `[m, d]`, the inputs mirrored at the mean of the pool
    labels: NDArray[np.bool_]  # `[m, L]`

    @classmethod
    def draw(cls, dataset: Dataset, count: int, rng: np.random.Generator) -> _Canaries:
        """Draws canaries, each in the place of another private group of the data set."""
        private = dataset.private
        public = np.asarray(dataset.public.inputs)
        groups, first, group_of = np.unique(
            private.group_ids, return_index=True, return_inverse=True
        )
        chosen = rng.choice(len(groups), count, replace=False)
        gives_way = np.isin(group_of, chosen)
        gives_way[first[chosen]] = False
        inputs = public[rng.choice(len(public), count, replace=count > len(public))]
        mirrored = (2 * public.mean(axis=0, dtype=np.float64) - inputs).astype(np.float32)
        rarer = private.labels.mean(axis=0) < 0.5
        labels = rarer ^ (rng.random((count, len(rarer))) >= rng.uniform(*_PRESENT, (count, 1)))
        return cls(first[chosen], np.flatnonzero(~gives_way), inputs, mirrored, labels)

    def planted(self, dataset: Dataset, coins: Signs) -> Split:
        """Returns the private split with the canaries that the coins choose."""
        private = dataset.private
        inputs = np.array(private.inputs)
        labels = private.labels.copy()
        inputs[self.rows] = self.by(coins)
        labels[self.rows] = self.labels
        return replace(private, inputs=inputs, labels=labels).take(self.remaining_rows)

    def by(self, coins: Signs) -> NDArray[np.float32]:
        """Returns the inputs that the coins choose, `[m, d]`."""
        return np.where((coins > 0)[:, None], self.inputs, self.mirrored)

    def evidence(
        self,
        votes: _OverheardVotes,
        question: Question,
        remainder: Array | Integers,
        noise_std: float,
    ) -> tuple[Array, Array]:
        """Returns the normal equations of the coins from one noisy sum.

        The sum moves by a matrix with each coin. The equations have the inner products of these matrices, `[m, m]`, and
        those with the sum, `[m]`, both over the variance of the noise.

        Args:
            votes: that were asked.
            question: of the round.
            remainder: the noisy sum without the known records, `[D, L]`.
            noise_std: in steps; 0 for a sum without noise.
        """
        f, r = votes.moved(self.inputs, self.labels, question)
        g, s = votes.moved(self.mirrored, self.labels, question)
        # the middle between both variants of each canary, from which a coin moves the sum either way
        centered = remainder - (f.T @ r + g.T @ s) / 2
        gram = (
            (f @ f.T) * (r @ r.T)
            + (g @ g.T) * (s @ s.T)
            - (f @ g.T) * (r @ s.T)
            - (g @ f.T) * (s @ r.T)
        ) / 4
        matched = (
            np.einsum("ij,ij->i", f @ centered, r) - np.einsum("ij,ij->i", g @ centered, s)
        ) / 2
        variance = noise_std**2 or _EXACT**2 * float(gram.diagonal().mean())
        return gram / variance, matched / variance
