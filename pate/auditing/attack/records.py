"""An attack on `CenteredVotes`, whose canaries are private records."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import CenteredVotes
from pate.aggregators.record import MemoryRecord
from pate.array_types import Float32Array, FloatArray, IntArray
from pate.auditing.attack.aligned_sums import CanarySum
from pate.data import Dataset, Split
from pate.models.kernel_votes import KernelVotes
from pate.validation import (
    require,
)
from pate.votes.label_gaps import UNKNOWN, GapLabels, labels_with_gaps
from pate.votes.moment_votes import MomentVotes
from pate.votes.round_votes import RoundQuestion

Signs = NDArray[np.int8]
_UNCLIPPED = 16  # times the clip that is promised, a power of 2
# The share of a canary's labels that have their rarer value: few tell canaries apart, many are clipped.
_LEAST_RARER = 0.1
_MOST_RARER = 0.8
_EXACT = 1e-3  # of a canary's length: the noise of what is released without any


@dataclass(frozen=True, eq=False)
class AttackRound:
    """One round of a release: the sum of all votes before and after noise is added."""

    question: RoundQuestion  # the public input of the round
    exact: IntArray  # [D, L], the sum of the votes before noise, in steps of the grid
    released: IntArray  # [D, L], the sum after noise is added, in steps
    noise_std: float  # the standard deviation of the noise, in steps


class _RecordedVotes(MomentVotes):
    """Votes in rounds that record the question and the exact sum of each round.

    Votes are clipped at `clip_factor` times the clip that the noise is for. A factor above 1 breaks the release on
    purpose.
    """

    def __init__(self, clip_factor: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.clip_factor = clip_factor
        self.recorded: list[tuple[RoundQuestion, IntArray]] = []

    def total(self, question: RoundQuestion) -> IntArray:
        """Returns the exact sum of the votes of a round, `[D, L]`, in steps, and records the sum."""
        exact = self.clip_factor * super().total(self._with_wider_clip(question))
        self.recorded.append((question, exact))
        return exact

    def moved(
        self, inputs: Float32Array, labels: GapLabels, question: RoundQuestion
    ) -> tuple[FloatArray, FloatArray]:
        """Returns the features `[m, D]` and residuals `[m, L]` of m records in a round.

        Each record adds the outer product of its features and residuals, a matrix `[D, L]` in steps, to the sum of the
        round.
        """
        wider = self._with_wider_clip(question)
        features, residuals = self.record_factors(inputs, labels, question=wider)
        return features, self.clip_factor * residuals

    def _with_wider_clip(self, question: RoundQuestion) -> RoundQuestion:
        """Returns the question with `clip_factor` times its clip."""
        clipped = question.clipped_moments
        return replace(
            question, clipped_moments=replace(clipped, clip=self.clip_factor * clipped.clip)
        )


@dataclass(frozen=True, eq=False)
class RecordAttack:
    """An attack that guesses, from all released sums, which of two canary records replaces each of m private groups.

    The first variant of a canary has the inputs of a public record. The second variant has these inputs mirrored at the
    mean of the public records. Both variants have the same labels: 10% to 80% of them, at random, have the rarer value
    of the label. The attacker knows all other records, both variants of each canary, and all released sums.

    Where labels of private records have gaps, both variants have the same inputs and differ in what is known alone. A
    random half of the labels is known in the first variant, and the other half in the second.
    """

    aggregator: CenteredVotes  # draws the release
    dataset: Dataset  # the data set, in which canaries replace private groups
    num_canaries: int  # m, the number of groups that canaries replace
    num_queries: int  # the number of queries Q
    # the part that is broken on purpose. "features": features are fitted on the private records, canaries included;
    # "clip": votes are clipped at a larger norm; "seed": a second release of known records has the same noise
    sabotage: str | None = None

    def __post_init__(self) -> None:
        require(
            self.dataset.kind == "features",
            "data",
            self.dataset.kind,
            "features, such as features=patches gives",
        )
        has_gaps = self.dataset.private.known is not None
        rule = "noise, clip, charge or seed: where labels have gaps, canaries differ in these alone"
        require(not (has_gaps and self.sabotage == "features"), "sabotage", self.sabotage, rule)

    def draw_canaries(self, rng: np.random.Generator) -> Canaries:
        """Draws both variants of each canary, and the group that the canary replaces."""
        return Canaries.draw(self.dataset, self.num_canaries, rng)

    def canary_sums(
        self, canaries: Canaries, coins: Signs, rng: np.random.Generator
    ) -> list[CanarySum]:
        """Draws a release with canaries, and returns what each of its sums tells of their coins.

        Args:
            canaries: both variants of each canary.
            coins: the coin of each canary, `[m]`: 1 for the first variant, -1 for the mirrored variant.
            rng: draws the noise.
        """
        noise_seed = int(rng.integers(2**63))
        votes, rounds = self._released(canaries.planted(self.dataset, coins), noise_seed)
        sums: list[CanarySum] = []
        # with the same noise in both, the difference of two first rounds has none; in one all coins are 1
        if self.sabotage == "seed":
            _, planted_rounds = self._released(
                canaries.planted(self.dataset, coins=np.ones_like(coins)), noise_seed
            )
            first_round = rounds[0]
            features, residuals = votes.moved(
                canaries.inputs, canaries.labels, first_round.question
            )
            remaining_sum = (
                first_round.released - planted_rounds[0].released + features.T @ residuals
            )
            evidence = canaries.evidence(
                votes, first_round.question, remaining_sum=remaining_sum, noise_std=0.0
            )
            sums.append(evidence)
        else:
            for each_round in rounds:
                question = each_round.question
                features, residuals = votes.moved(
                    canaries.by(coins), canaries.labels_by(coins), question
                )
                known_sum = each_round.exact - features.T @ residuals
                remaining_sum = each_round.released - known_sum
                evidence = canaries.evidence(
                    votes, question, remaining_sum=remaining_sum, noise_std=each_round.noise_std
                )
                sums.append(evidence)
        # the sum of the private records' inputs is published without noise, and contains the canaries
        if self.sabotage == "features":
            moves = (canaries.inputs - canaries.mirrored).astype(np.float64) / 2
            std = _EXACT * float(np.linalg.norm(moves, axis=1).mean())
            sums.append(
                CanarySum(gram=moves @ moves.T / std**2, matched=moves @ (coins @ moves) / std**2)
            )
        return sums

    def _released(
        self, private: Split, noise_seed: int
    ) -> tuple[_RecordedVotes, list[AttackRound]]:
        """Draws a release of votes in rounds from private records, and returns the votes and the rounds.

        Args:
            private: the private records, canaries included.
            noise_seed: the seed of the noise.
        """
        groups, teacher_of = np.unique(private.group_ids, return_inverse=True)
        aggregator = self.aggregator
        record = MemoryRecord()
        source = KernelVotes(
            private=private,
            teacher_of=teacher_of.astype(np.int64),
            num_teachers=len(groups),
            public=private if self.sabotage == "features" else self.dataset.public,
            num_queries=self.num_queries,
            moments=partial(_RecordedVotes, _UNCLIPPED if self.sabotage == "clip" else 1),
        )
        aggregator.release(source, np.random.default_rng(noise_seed), record)
        votes = cast(
            _RecordedVotes,
            source.in_rounds(
                noise_multiplier=aggregator.votes_multiplier, recipe=aggregator.recipe
            ),
        )
        require(bool(votes.recorded), "aggregator.rounds", aggregator.rounds, "a release in rounds")
        multiplier = aggregator.votes_multiplier * math.sqrt(aggregator.num_rounds)
        return votes, [
            AttackRound(
                question=question,
                exact=exact,
                released=(record.committed(f"step-{number}") or {})["total"],
                noise_std=multiplier * question.clipped_moments.l2_sensitivity,
            )
            for number, (question, exact) in enumerate(votes.recorded)
        ]


@dataclass(frozen=True, eq=False)
class Canaries:
    """m canary records, each of which replaces one group of private records."""

    # [m], a row of the private split for each canary, from the group that it replaces
    rows: IntArray
    remaining_rows: IntArray  # `rows`, and all rows of groups that are not replaced
    # [m, d], the inputs of the first variants, which are those of public records
    inputs: Float32Array
    # [m, d], the inputs of the second variants: mirrored at the mean of all public records, or `inputs` with gaps
    mirrored: Float32Array
    labels: GapLabels  # [m, L], the labels of the first variants
    other_labels: (
        GapLabels  # [m, L], the labels of the second variants: they differ in what is known
    )

    @classmethod
    def draw(cls, dataset: Dataset, num_canaries: int, rng: np.random.Generator) -> Canaries:
        """Draws `num_canaries` canaries, and for each of them another private group, which it replaces."""
        private = dataset.private
        public = np.asarray(dataset.public.inputs)
        groups, first, group_of = np.unique(
            private.group_ids, return_index=True, return_inverse=True
        )
        chosen = rng.choice(len(groups), num_canaries, replace=False)
        gives_way = np.isin(group_of, chosen)
        gives_way[first[chosen]] = False
        inputs = public[rng.choice(len(public), num_canaries, replace=num_canaries > len(public))]
        mirrored = (2 * public.mean(axis=0, dtype=np.float64) - inputs).astype(np.float32)
        rarer = private.label_shares < 0.5
        labels = rarer ^ (
            rng.random((num_canaries, len(rarer)))
            >= rng.uniform(_LEAST_RARER, _MOST_RARER, size=(num_canaries, 1))
        )
        first_labels: GapLabels = labels
        other_labels: GapLabels = labels
        if private.known is not None:
            known = rng.random(labels.shape) < 0.5
            first_labels = labels_with_gaps(labels, known)
            other_labels = labels_with_gaps(labels, ~known)
            mirrored = inputs
        return cls(
            rows=first[chosen],
            remaining_rows=np.flatnonzero(~gives_way),
            inputs=inputs,
            mirrored=mirrored,
            labels=first_labels,
            other_labels=other_labels,
        )

    def planted(self, dataset: Dataset, coins: Signs) -> Split:
        """Returns the private records, in which canaries of the variants that the coins choose replace their groups."""
        private = dataset.private
        inputs = np.array(private.inputs)
        labels = private.labels.copy()
        inputs[self.rows] = self.by(coins)
        own_labels = self.labels_by(coins)
        labels[self.rows] = own_labels > 0
        known = private.known
        if known is not None:
            known = known.copy()
            known[self.rows] = own_labels != UNKNOWN
        planted = replace(private, inputs=inputs, labels=labels, known=known)
        return planted.take(self.remaining_rows)

    def by(self, coins: Signs) -> Float32Array:
        """Returns the inputs of the canaries, `[m, d]`: `inputs` for a coin of 1, `mirrored` for -1."""
        return np.where((coins > 0)[:, None], self.inputs, self.mirrored)

    def labels_by(self, coins: Signs) -> GapLabels:
        """Returns the labels of the canaries, `[m, L]`: `labels` for a coin of 1, `other_labels` for -1."""
        return np.where((coins > 0)[:, None], self.labels, self.other_labels)

    def evidence(
        self,
        votes: _RecordedVotes,
        question: RoundQuestion,
        *,
        remaining_sum: FloatArray | IntArray,
        noise_std: float,
    ) -> CanarySum:
        """Returns what the noisy sum of one round tells of the coins.

        The coin of a canary adds a known matrix `[D, L]` to the sum or subtracts it.

        Args:
            votes: the votes of the release.
            question: the question of the round.
            remaining_sum: the noisy sum, less the votes of all records that are no canaries, `[D, L]`.
            noise_std: the standard deviation of the noise, in steps; 0 for a sum without noise.
        """
        f, r = votes.moved(self.inputs, self.labels, question)
        g, s = votes.moved(self.mirrored, self.other_labels, question)
        # the middle between both variants of each canary, from which a coin moves the sum either way
        centered = remaining_sum - (f.T @ r + g.T @ s) / 2
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
        return CanarySum(gram=gram / variance, matched=matched / variance)
