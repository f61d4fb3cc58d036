"""An attack on releases of labels, whose canaries are teachers with artificial votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import cast

import numpy as np

from pate.aggregators import Aggregator
from pate.aggregators.record import MemoryRecord
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.auditing.attack.records import Signs
from pate.validation import (
    require,
)
from pate.votes.shape import VoteShape
from pate.votes.source import TeacherVotes

# Crafts that are tried: gaps between counts, as shares of the teachers; labels with equal counts; steps of a stair.
_GAPS = (0.0, *np.geomspace(0.004, 0.6, 15), 0.2, 1 / 3)
_FEW_GAPS = (0.0, 0.1, 0.2)
_WIDTHS = (1, 4)
_STAIRS = (1, 2, 4, 7)
_WORTH = 1.25  # fewer canaries are chosen only where each is known so many times better
_ROWS = 500  # queries by which each craft is judged
_MORE_ROWS = 4000  # queries by which the best craft is judged again
_BLOCK = 64  # teachers whose votes are made at once


@dataclass(frozen=True)
class Craft:
    """A pattern of artificial votes, in which the votes of canaries decide the answers.

    Each canary has a sign, 1 or -1, for each query, or for each label of each query. With a coin of 1 the canary votes
    by its signs, with a coin of -1 by the opposite signs.

    Attributes:
        sides: 1, -1 or 0 for each of the first labels. A canary votes for the labels whose side is its coin times its
            sign in the query. Empty if a canary has a sign for each label; then it votes for the labels of sign 1.
        others: for each of the first labels, how many teachers that are no canaries vote for it. Empty if half of them
            vote for each label.
    """

    sides: tuple[int, ...] = ()
    others: tuple[int, ...] = ()

    @property
    def is_by_bit(self) -> bool:
        """Whether canaries have a sign for each label of a query, and not one sign for each query."""
        return not self.sides


class CraftedVotes(TeacherVotes):
    """The votes of m canaries and of all other teachers, by the pattern of a `Craft`.

    Attributes:
        signed_coins: the coin times the sign of each canary, 1 or -1, for each query, `[m, Q]`, or for each label of
            each query, `[m, Q * L]`.
        repeats: the number of teachers that cast the votes of each canary.
        num_others: the number of teachers that cast no canary's votes.
    """

    records_per_teacher = 1.0

    def __init__(
        self, craft: Craft, signed_coins: Signs, *, repeats: int, shape: VoteShape
    ) -> None:
        self.signed_coins = signed_coins
        self.repeats = repeats
        self.num_teachers = shape.num_teachers
        self.num_queries = shape.num_queries
        self.num_labels = shape.num_labels
        self.num_others = shape.num_teachers - repeats * len(signed_coins)
        self.sides = np.zeros(shape.num_labels, dtype=np.int64)
        self.others = np.zeros(shape.num_labels, dtype=np.int64)
        self.sides[: len(craft.sides)] = craft.sides
        self.others[: len(craft.others)] = craft.others
        self.by_bit = craft.is_by_bit

    def bits(self) -> Iterator[BoolArray]:
        """Yields the votes of all teachers in blocks of c teachers, bool `[c, Q, L]`; canaries come first."""
        for first in range(0, len(self.signed_coins), _BLOCK):
            block = self.signed_coins[first : first + _BLOCK]
            yield self._votes_by(block).repeat(self.repeats, axis=0)
        # The turns of the other teachers move on from query to query, so that no teacher always votes alike.
        places = 7 * np.arange(self.signed_coins.shape[1])
        for first in range(0, self.num_others, _BLOCK):
            turns = (
                np.arange(first, min(first + _BLOCK, self.num_others))[:, None] + places
            ) % self.num_others
            if self.by_bit:
                signs = np.where(turns < self.num_others // 2, 1, -1).astype(np.int8)
                yield self._votes_by(signs)
            else:
                # votes for one side begin at the first turn, for the other at the last: no teacher votes for both
                turns = np.where(
                    self.sides < 0, self.num_others - 1 - turns[:, :, None], turns[:, :, None]
                )
                yield np.asarray(turns < self.others)

    def label_shares(self) -> FloatArray:
        """Returns the fraction of queries in which each of N teachers votes for each label, `[N, L]`."""
        shares = [block.mean(axis=1) for block in self.bits()]
        return np.concatenate(shares)

    def _votes_by(self, signed_coins: Signs) -> BoolArray:
        """Returns the votes of c teachers, bool `[c, Q, L]`, from their `signed_coins`, `[c, Q]` or `[c, Q * L]`."""
        if self.by_bit:
            return np.asarray(signed_coins.reshape(-1, self.num_queries, self.num_labels) > 0)
        return np.asarray(signed_coins[:, :, None] * self.sides > 0)

    def _counted(self, max_votes: int | None) -> IntArray:
        """Returns the number of teachers that vote for each label of each query, `[Q, L]`, by a closed formula.

        No vote is left out, as `_crafts` yields patterns in which no teacher has more votes than the aggregator counts.
        """
        ahead = (self.signed_coins > 0).sum(axis=0)
        if self.by_bit:
            counts = self.num_others // 2 + self.repeats * ahead
            return np.asarray(counts.reshape(self.num_queries, self.num_labels))
        voting = np.where(
            self.sides > 0, ahead[:, None], len(self.signed_coins) - ahead[:, None]
        ) * (self.sides != 0)
        return np.asarray(self.others + self.repeats * voting)


@dataclass(frozen=True, eq=False, kw_only=True)
class TeacherAttack:
    """An attack that guesses the coins of canary teachers from a release of artificial votes.

    The guess is a linear function of F features of each query of the release.
    """

    aggregator: Aggregator  # draws the release
    shape: VoteShape  # the numbers of queries, labels and teachers of the release
    num_canaries: int  # m, at most an eighth of the teachers
    repeats: int = 1  # the number of teachers that vote like each canary; above 1 it breaks the price on purpose
    craft: Craft  # the pattern of the votes
    weights: FloatArray  # [F], the weight of each feature in the guess; fitted to releases that the attacker simulates
    # the fraction of a coin's variance that the features explain, in simulated releases
    score: float = 0.0

    @classmethod
    def rehearsed(
        cls,
        aggregator: Aggregator,
        shape: VoteShape,
        *,
        canary_counts: Sequence[int],
        repeats: int,
        rng: np.random.Generator,
    ) -> TeacherAttack:
        """Returns the attack whose pattern of votes and number of canaries guess best in simulated releases.

        A smaller number of canaries is chosen only if its score is more than 1.25 times as large.

        Args:
            aggregator: draws the release.
            shape: the numbers of queries, labels and teachers of the release.
            canary_counts: the numbers of canaries to try, the largest first.
            repeats: the number of teachers that vote like each canary.
            rng: draws coins and noise of the simulated releases.

        Raises:
            InvalidValue: there is no pattern in which canaries decide an answer, because there is only one label.
        """
        chosen: TeacherAttack | None = None
        for count in canary_counts:
            crafts = [*_crafts(aggregator, shape, num_others=shape.num_teachers - repeats * count)]
            require(
                bool(crafts),
                "num_labels",
                shape.num_labels,
                "two labels at least, for canaries to decide",
            )
            rehearsals = [
                cls(
                    aggregator=aggregator,
                    shape=shape,
                    num_canaries=count,
                    repeats=repeats,
                    weights=np.empty(0),
                    craft=craft,
                )._fitted(min_queries=_ROWS, rng=rng)
                for craft in crafts
            ]
            best = max(rehearsals, key=attrgetter("score"))
            best = best._fitted(min_queries=_MORE_ROWS, rng=rng)
            chosen = best if chosen is None or best.score > _WORTH * chosen.score else chosen
        return cast(TeacherAttack, chosen)

    def _fitted(self, min_queries: int, rng: np.random.Generator) -> TeacherAttack:
        """Returns the attack with weights and a score that are fitted to simulated releases.

        The weights are the least-squares fit of the sum of all canaries' signs by the features.

        Args:
            min_queries: the smallest number of queries to simulate.
            rng: draws signs and noise.
        """
        parts: list[tuple[Signs, FloatArray]] = []
        while sum(len(block) for _, block in parts) < min_queries:
            signs = self._signs(rng)
            parts.append((signs, self._features(signs, rng)))
        moved = np.concatenate([signs.sum(axis=0, dtype=np.float64) for signs, _ in parts])
        features = np.concatenate([block for _, block in parts])
        weights = np.linalg.lstsq(features, moved, rcond=1e-9)[0]
        by_chance = np.count_nonzero(features.any(axis=0)) / len(features)
        explained = float(((features @ weights) ** 2).sum() / (moved**2).sum()) - by_chance
        return replace(
            self, weights=weights, score=explained * len(features) / len(parts) / self.num_canaries
        )

    def guess(self, coins: Signs, rng: np.random.Generator) -> FloatArray:
        """Returns a score for each canary, `[m]`: its sign guesses the coin, its size is the confidence.

        Args:
            coins: the coin of each canary, 1 or -1, `[m]`.
            rng: draws the signs of the queries and the noise.
        """
        signs = self._signs(rng)
        signed_coins = signs * coins[:, None]
        features = self._features(signed_coins, rng)
        return np.asarray(signs.astype(np.float64) @ (features @ self.weights))

    def _signs(self, rng: np.random.Generator) -> Signs:
        """Draws the signs of all canaries, 1 or -1: for each query, `[m, Q]`, or for each label, `[m, Q * L]`."""
        signs_per_canary = self.shape.num_queries * (
            self.shape.num_labels if self.craft.is_by_bit else 1
        )
        return (
            2 * rng.integers(0, 2, (self.num_canaries, signs_per_canary), dtype=np.int8) - 1
        ).astype(np.int8)

    def _features(self, signed_coins: Signs, rng: np.random.Generator) -> FloatArray:
        """Draws a release of artificial votes and returns its features, `[Q, F]`; by bit, `[Q * L, 1]`.

        From each feature its mean over all asked queries is subtracted. The features of a query are its released bits
        or scores for the labels of the craft, the sum of those for the other labels, whether it was answered, and
        whether it was a hit. Hits count towards the halt of a session. All are 0 for queries after the halt. By bit
        (see `Craft.is_by_bit`) the only feature is the released bit or score.

        Args:
            signed_coins: the coin times the sign of each canary, see `CraftedVotes`.
            rng: draws the noise.
        """
        source = CraftedVotes(self.craft, signed_coins, repeats=self.repeats, shape=self.shape)
        expected = np.minimum.accumulate(source.sides) > 0  # the labels that a student expects

        def prior(labels: BoolArray, answered: BoolArray, num_queries: int) -> BoolArray:
            return np.broadcast_to(expected, (num_queries, len(expected)))

        aggregator = self.aggregator.with_prior(prior)
        release = aggregator.release(source, rng, record=MemoryRecord())
        values = np.asarray(getattr(release, "scores", release.labels), dtype=np.float64)
        if source.by_bit:
            return np.asarray(values.reshape(-1, 1) - values.mean())
        crafted, uncrafted = np.split(values, [len(self.craft.others)], axis=1)
        hits = getattr(release, "hits", np.zeros(len(values)))
        features = np.column_stack([crafted, uncrafted.sum(axis=1), release.answered, hits]).astype(
            np.float64
        )
        was_asked = np.arange(len(features)) < getattr(release, "num_asked", len(features))
        return np.asarray((features - features[was_asked].mean(axis=0)) * was_asked[:, None])


def _crafts(aggregator: Aggregator, shape: VoteShape, num_others: int) -> Iterator[Craft]:
    """Yields the patterns of votes that an attack tries.

    Fewer patterns are tried for an aggregator that reads the votes of each teacher, because it is slow.

    Args:
        aggregator: draws the release.
        shape: the numbers of queries, labels and teachers of the release.
        num_others: the number of teachers that are no canaries.
    """
    most_votes = aggregator.max_votes_per_teacher or shape.num_labels
    fixed = aggregator.exact_labels
    counted = aggregator.reads_counts
    if most_votes >= shape.num_labels and fixed is None:
        yield Craft()
    for width in _WIDTHS if fixed is None else (fixed,):
        for gap in (round(part * num_others) for part in (_GAPS if counted else _FEW_GAPS)):
            # two sets of labels: each other teacher votes for one of them
            if width <= most_votes and 2 * width <= shape.num_labels:
                first = (num_others + gap) // 2
                second = num_others - first
                yield Craft(
                    sides=(1,) * width + (-1,) * width, others=(first,) * width + (second,) * width
                )
            # falling counts with equal gaps: canaries raise every second count and lower the counts between
            for steps in _STAIRS:
                if (
                    counted
                    and most_votes >= shape.num_labels > width * steps
                    and gap * steps <= num_others
                ):
                    places = [min(label // width, steps) for label in range(shape.num_labels)]
                    counts = tuple(gap * (steps - place) for place in places if place < steps)
                    sides = tuple(1 - 2 * (place % 2) for place in places)
                    yield Craft(sides=sides, others=counts)
