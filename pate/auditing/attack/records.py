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
# the student's weights `[D, L]`, the labels' scale `[L]`, the clipped sum
Asked = tuple[Array, Array, ClippedMoments]
# what was asked, the sum as it is and as released, its noise's std
Round = tuple[Asked, Integers, Integers, float]
_UNCLIPPED = 16  # times the clip that is promised, a power of 2
# of the labels that are the rarer way in a canary: few tell canaries apart, many are clipped
_PRESENT = 0.1, 0.8
_EXACT = 1e-3  # of a canary's length: the noise of what is released without any


class _OverheardVotes(MomentVotes):
    """Keeps what rounds asked and the exact sums `[D, L]` in steps, clipped at `times` the clip of the noise."""

    def __init__(self, times: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.times = times
        self.overheard = list[tuple[Asked, Integers]]()

    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        exact = self.times * super().total(
            weights, label_scale, replace(clipped, clip=self.times * clipped.clip)
        )
        self.overheard.append(((weights, label_scale, clipped), exact))
        return exact

    def moved(
        self, inputs: NDArray[np.float32], labels: NDArray[np.bool_], asked: Asked
    ) -> tuple[Array, Array]:
        """The features `[m, D]` and residuals `[m, L]` of records, whose products are what they add to a sum."""
        weights, label_scale, clipped = asked
        wider = replace(clipped, clip=self.times * clipped.clip)
        features, residuals = self.of_each(inputs, labels, weights, label_scale, wider)
        return features, self.times * residuals


@dataclass(frozen=True, eq=False)
class RecordAttack:
    """Guesses which of two records stands in the place of each canary's group, from the sums of all rounds.

    A canary has the inputs of a public record, or these mirrored at the pool's mean, and labels that are mostly the
    rarer way. Whoever guesses knows all other records, both variants of each canary, and all that was released.
    """

    aggregator: CenteredVotes  # what draws the release
    dataset: Dataset  # whose private groups give way to canaries
    num_canaries: int  # m, groups
    num_queries: int  # Q
    # "features": fitted on the private records, canaries included; "clip": votes are not clipped as promised; "seed": a
    # second run on known records draws the same noise
    sabotage: str | None = None

    def __post_init__(self) -> None:
        require(
            self.dataset.kind == "features",
            "data",
            self.dataset.kind,
            "features, such as features=patches gives",
        )

    def guess(self, coins: Signs, rng: np.random.Generator) -> Array:
        """A score for each canary, `[m]`: its sign guesses the coin, its size says how sure that is.

        `coins`, `[m]`, are +1 for the public record's inputs, -1 for the mirrored ones; canaries and noise are drawn.
        """
        canaries = _Canaries.of(self.dataset, self.num_canaries, rng)
        noise = int(rng.integers(2**63))
        votes, rounds = self._released(canaries.planted(self.dataset, coins), noise)
        sums = []
        # the difference of two first rounds, in one of which all coins are known to be +1
        if self.sabotage == "seed":
            _, planted_rounds = self._released(
                canaries.planted(self.dataset, np.ones_like(coins)), noise
            )
            (asked_labels, _, total, _) = rounds[0]
            known = planted_rounds[0][2]
            features, residuals = votes.moved(canaries.inputs, canaries.labels, asked_labels)
            sums.append(
                canaries.evidence(votes, asked_labels, total - known + features.T @ residuals, 0.0)
            )
        else:
            for asked_labels, exact, total, std in rounds:
                features, residuals = votes.moved(canaries.by(coins), canaries.labels, asked_labels)
                sums.append(
                    canaries.evidence(
                        votes, asked_labels, total - (exact - features.T @ residuals), std
                    )
                )
        # the mean of records that canaries are among, times their number, has no noise
        if self.sabotage == "features":
            moves = (canaries.inputs - canaries.mirrored).astype(np.float64) / 2
            std = _EXACT * float(np.linalg.norm(moves, axis=1).mean())
            sums.append((moves @ moves.T / std**2, moves @ (coins @ moves) / std**2))
        # Of what is seen, D^T coins + noise in each sum, the coins' best linear estimate.
        gram = sum(block_gram for block_gram, _ in sums) + np.eye(len(coins))
        return np.asarray(
            scipy.linalg.solve(gram, sum(matched for _, matched in sums), assume_a="pos")
        )

    def _released(self, private: Split, noise: int) -> tuple[_OverheardVotes, list[Round]]:
        """Rounds of votes on private records, with noise of a seed."""
        groups, teacher_of = np.unique(private.group_ids, return_inverse=True)
        made = self.aggregator
        record = MemoryRecord()
        source = KernelVotes(
            private=private,
            teacher_of=teacher_of.astype(np.int64),
            num_teachers=len(groups),
            public=private if self.sabotage == "features" else self.dataset.public,
            num_queries=self.num_queries,
            moments=partial(_OverheardVotes, _UNCLIPPED if self.sabotage == "clip" else 1),
        )
        made.release(source, np.random.default_rng(noise), record)
        votes = cast(
            _OverheardVotes,
            source.in_rounds(noise_multiplier=made.votes_multiplier, recipe=made.recipe),
        )
        require(bool(votes.overheard), "aggregator.rounds", made.rounds, "a release in rounds")
        wider = made.votes_multiplier * math.sqrt(made.num_rounds)
        return votes, [
            (
                asked_labels,
                exact,
                (record.committed(f"step-{number}") or {})["total"],
                wider * asked_labels[2].l2_sensitivity,
            )
            for number, (asked_labels, exact) in enumerate(votes.overheard)
        ]


@dataclass(frozen=True, eq=False)
class _Canaries:
    """Where canaries stand, their two inputs `[m, d]` and their labels `[m, L]`."""

    rows: NDArray[np.int64]
    # rows of the private split: one of each canary's group, all of other groups
    kept: NDArray[np.int64]
    inputs: NDArray[np.float32]
    mirrored: NDArray[np.float32]
    labels: NDArray[np.bool_]

    @classmethod
    def of(cls, dataset: Dataset, count: int, rng: np.random.Generator) -> _Canaries:
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
        """The private split with a canary in each place."""
        private = dataset.private
        inputs = np.array(private.inputs)
        labels = private.labels.copy()
        inputs[self.rows] = self.by(coins)
        labels[self.rows] = self.labels
        return replace(private, inputs=inputs, labels=labels).take(self.kept)

    def by(self, coins: Signs) -> NDArray[np.float32]:
        """The inputs that the coins choose."""
        return np.where((coins > 0)[:, None], self.inputs, self.mirrored)

    def evidence(
        self, votes: _OverheardVotes, asked: Asked, rest: Array | Integers, std: float
    ) -> tuple[Array, Array]:
        """What a noisy sum, of which `rest` is left without the known records, says of the coins.

        It moves by a difference with each. Products of these, `[m, m]`, and with the rest, `[m]`, over the variance.
        """
        (f, r), (g, s) = (
            votes.moved(inputs, self.labels, asked) for inputs in (self.inputs, self.mirrored)
        )
        rest = rest - (f.T @ r + g.T @ s) / 2
        gram = (
            (f @ f.T) * (r @ r.T)
            + (g @ g.T) * (s @ s.T)
            - (f @ g.T) * (r @ s.T)
            - (g @ f.T) * (s @ r.T)
        ) / 4
        matched = (np.einsum("ij,ij->i", f @ rest, r) - np.einsum("ij,ij->i", g @ rest, s)) / 2
        variance = std**2 or _EXACT**2 * float(gram.diagonal().mean())
        return gram / variance, matched / variance
