"""Canaries that are records: planted into a copy of the data, and guessed from what rounds of votes release."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from pate.aggregators import CenteredVotes
from pate.aggregators.aggregator import Drawn, ReleaseContext
from pate.data import Dataset, Split
from pate.models.kernel import KernelVotes
from pate.teachers import KernelTeacher
from pate.validation import require
from pate.votes.clipping import ClippedMoments, Integers
from pate.votes.moment_votes import MomentVotes

Array = NDArray[np.float64]
Signs = NDArray[np.int8]

_UNCLIPPED = 16  # times the clip that is promised, a power of 2
_PRESENT = 0.1, 0.8  # of the labels that are the rarer way in a canary: few tell canaries apart, many are clipped
_EXACT = 1e-3  # of a canary's length: the noise of what is released without any


@dataclass(frozen=True, eq=False)
class _Round:
    """What one round asked and released, and the sum behind it: known to whoever knows all records and coins.

    Attributes:
        asked: the student's weights `[D, L]`, the labels' scale `[L]`, and how the sum is clipped.
        exact: `[D, L]`, in steps, without noise.
        total: the same as released.
        std: of its noise, in steps.
    """

    asked: tuple[Array, Array, ClippedMoments]
    exact: Integers
    total: Integers
    std: float


class _OverheardVotes(MomentVotes):
    """Keeps what rounds asked, and the sums that they were drawn around."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.overheard: list[tuple[tuple[Array, Array, ClippedMoments], Integers]] = []

    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        exact = self._exact(weights, label_scale, clipped)
        self.overheard.append(((weights, label_scale, clipped), exact))
        return exact

    def _exact(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        return super().total(weights, label_scale, clipped)


class UnclippedVotes(_OverheardVotes):
    """A test double: votes that are hardly clipped, beside noise that was made for the clip."""

    def _exact(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        return _UNCLIPPED * super()._exact(weights, label_scale, _wider(clipped))

    def of_each(
        self,
        inputs: NDArray[np.float32],
        labels: NDArray[np.bool_],
        weights: Array,
        label_scale: Array,
        clipped: ClippedMoments,
    ) -> tuple[Array, Array]:
        features, residuals = super().of_each(inputs, labels, weights, label_scale, _wider(clipped))
        return features, _UNCLIPPED * residuals


def _wider(clipped: ClippedMoments) -> ClippedMoments:
    return replace(clipped, clip=_UNCLIPPED * clipped.clip)


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordAttack:
    """Guesses which of two records stands in the place of each canary's group, from the sums of all rounds.

    A canary has the inputs of a public record, or these mirrored at the pool's mean, and labels that are mostly the
    rarer way. Whoever guesses knows all other records, both variants of each canary, and all that was released.

    Attributes:
        aggregator: what draws the release.
        dataset: whose private groups give way to canaries.
        num_canaries: m, groups.
        num_queries: Q.
        fitted_on_private: whether features are fitted on the private records, canaries included.
        unclipped: whether votes are not clipped as promised.
        same_noise: whether a second run on known records draws the same noise.
    """

    aggregator: CenteredVotes
    dataset: Dataset
    num_canaries: int
    num_queries: int
    fitted_on_private: bool = False
    unclipped: bool = False
    same_noise: bool = False

    def __post_init__(self) -> None:
        require(self.dataset.kind == "features", "data", self.dataset.kind, "features, such as features=patches gives")
        groups = self.dataset.private.num_groups
        require(2 * self.num_canaries <= groups, "num_canaries", self.num_canaries, f"at most half of {groups} groups")

    def guess(self, coins: Signs, rng: np.random.Generator) -> Array:
        """A score for each canary, `[m]`: its sign guesses the coin, its size says how sure that is.

        Args:
            coins: `[m]`, +1 for the public record's inputs, -1 for the mirrored ones.
            rng: of canaries and noise.
        """
        canaries, noise = _Canaries.of(self.dataset, self.num_canaries, rng), int(rng.integers(2**63))
        votes, rounds = self._released(canaries.planted(self.dataset, coins), noise)
        if self.same_noise:
            _, others = self._released(canaries.planted(self.dataset, np.ones_like(coins)), noise)
            sums = [_Evidence.of_difference(rounds[0], others[0], votes, canaries)]
        else:
            sums = [_Evidence.of_round(each, votes, canaries, coins) for each in rounds]
        if self.fitted_on_private:
            sums.append(_Evidence.of_center(canaries, coins))
        # Of what is seen, D^T coins + noise in each sum, the coins' best linear estimate.
        gram = sum(each.gram for each in sums) + np.eye(len(coins))
        return np.asarray(scipy.linalg.solve(gram, sum(each.matched for each in sums), assume_a="pos"))

    def _released(self, private: Split, noise: int) -> tuple[_OverheardVotes, list[_Round]]:
        groups, teacher_of = np.unique(private.group_ids, return_inverse=True)
        public = self.dataset.public
        source = KernelVotes(
            inputs=private.inputs,
            labels=private.labels,
            teacher_of=teacher_of.astype(np.int64),
            num_teachers=len(groups),
            num_groups=len(groups),
            records_per_group=KernelTeacher.records_per_group(public),
            public_inputs=private.inputs if self.fitted_on_private else public.inputs,
            num_queries=self.num_queries,
            moments=UnclippedVotes if self.unclipped else _OverheardVotes,
        )
        drawn, made = Drawn(), self.aggregator
        made.release_from(source, ReleaseContext(np.random.default_rng(noise), None, drawn))
        votes = cast(_OverheardVotes, source.in_rounds(noise_multiplier=made.votes_multiplier))
        require(bool(votes.overheard), "aggregator.rounds", made.rounds, "a release in rounds")
        wider, rounds = made.in_rounds.noise_multiplier * math.sqrt(made.in_rounds.num_rounds), list[_Round]()
        for number, (asked, exact) in enumerate(votes.overheard):
            total = (drawn.read(f"step-{number}") or {})["total"]
            rounds.append(_Round(asked, exact, total, wider * asked[2].l2_sensitivity))
        return votes, rounds


@dataclass(frozen=True, eq=False)
class _Canaries:
    """Where canaries stand, their two inputs `[m, d]` and their labels `[m, L]`."""

    rows: NDArray[np.int64]
    kept: NDArray[np.int64]  # rows of the private split: one of each canary's group, all of other groups
    inputs: NDArray[np.float32]
    mirrored: NDArray[np.float32]
    labels: NDArray[np.bool_]

    @classmethod
    def of(cls, dataset: Dataset, count: int, rng: np.random.Generator) -> _Canaries:
        private, public = dataset.private, np.asarray(dataset.public.inputs)
        groups, first, group_of = np.unique(private.group_ids, return_index=True, return_inverse=True)
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
        inputs, labels = np.array(private.inputs), private.labels.copy()
        inputs[self.rows], labels[self.rows] = self.by(coins), self.labels
        return replace(private, inputs=inputs, labels=labels).take(self.kept)

    def by(self, coins: Signs) -> NDArray[np.float32]:
        """The inputs that the coins choose."""
        return np.where((coins > 0)[:, None], self.inputs, self.mirrored)


@dataclass(frozen=True, eq=False)
class _Evidence:
    """What one noisy sum says of the coins: it moves by `differences[i]` with coin i, and all else in it is known.

    Attributes:
        gram: `[m, m]`, products of the differences, over the noise's variance.
        matched: `[m]`, products of what is left of the sum with the differences, over the same.
    """

    gram: Array
    matched: Array

    @classmethod
    def of_round(cls, heard: _Round, votes: MomentVotes, canaries: _Canaries, coins: Signs) -> _Evidence:
        """Of a round: its sum without the known records and the middle of each canary."""
        features, residuals = votes.of_each(canaries.by(coins), canaries.labels, *heard.asked)
        others = heard.exact - features.T @ residuals
        return cls._of_products(heard, votes, canaries, heard.total - others, heard.std)

    @classmethod
    def of_difference(cls, heard: _Round, known: _Round, votes: MomentVotes, canaries: _Canaries) -> _Evidence:
        """Of two first rounds with the same noise; in the second one all canaries are known to be +1."""
        features, residuals = votes.of_each(canaries.inputs, canaries.labels, *heard.asked)
        rest = heard.total - known.total + features.T @ residuals
        return cls._of_products(heard, votes, canaries, rest, 0.0)

    @classmethod
    def of_center(cls, canaries: _Canaries, coins: Signs) -> _Evidence:
        """Of the mean of records that canaries are among, times their number: there is no noise on it."""
        differences = (canaries.inputs - canaries.mirrored).astype(np.float64) / 2
        std = _EXACT * float(np.linalg.norm(differences, axis=1).mean())
        return cls(differences @ differences.T / std**2, differences @ (coins @ differences) / std**2)

    @classmethod
    def _of_products(cls, heard: _Round, votes: MomentVotes, canaries: _Canaries, rest: Array, std: float) -> _Evidence:
        (f, r), (g, s) = (
            votes.of_each(each, canaries.labels, *heard.asked) for each in (canaries.inputs, canaries.mirrored)
        )
        rest = rest - (f.T @ r + g.T @ s) / 2
        gram = ((f @ f.T) * (r @ r.T) + (g @ g.T) * (s @ s.T) - (f @ g.T) * (r @ s.T) - (g @ f.T) * (s @ r.T)) / 4
        matched = (np.einsum("ij,ij->i", f @ rest, r) - np.einsum("ij,ij->i", g @ rest, s)) / 2
        variance = std**2 or _EXACT**2 * float(gram.diagonal().mean())
        return cls(gram / variance, matched / variance)
