"""Canaries that are teachers: crafted votes, and guesses from what an aggregator releases of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import Aggregator, Release
from pate.aggregators.aggregator import ReleaseContext, without_warning
from pate.pricing import ReleaseShape
from pate.validation import require
from pate.votes.source import VoteSource

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]
Signs = NDArray[np.int8]

_GAPS = (0.0, *np.geomspace(0.004, 0.6, 15), 0.2, 1 / 3)  # between places, of the teachers
_FEW_GAPS = (0.0, 0.1, 0.2)
_WIDTHS, _STAIRS = (1, 4), (1, 2, 4, 7)  # labels of a place; places above the last
_WORTH = 1.25  # times as much that each of them has to tell
_ROWS, _MORE_ROWS = 500, 4000  # queries that a craft is judged by, and the best one
_BLOCK = 64


@dataclass(frozen=True)
class Craft:
    """Queries made so that canaries decide."""

    # of each label: a canary votes for those of the side, 1 or -1, that its coin and the query's sign say. Empty where
    # each label has a sign of its own, and half of the other teachers.
    sides: tuple[int, ...] = ()
    others: tuple[int, ...] = ()  # of the first labels, how many of the other teachers vote for them

    def signs(self, count: int, shape: ReleaseShape, rng: np.random.Generator) -> Signs:
        """Which way each canary votes on each query with a coin of +1, `[m, Q]`, or on each bit, `[m, Q * L]`."""
        width = shape.num_queries * (1 if self.sides else shape.num_labels)
        return (2 * rng.integers(0, 2, (count, width), dtype=np.int8) - 1).astype(np.int8)

    def seen(self, release: Release, shape: ReleaseShape) -> Array:
        """What a release says, around its mean, `[Q or Q * L, F]`: bits or scores, answers, hits; 0 once it halts."""
        said = np.asarray(getattr(release, "scores", release.labels), dtype=np.float64)
        if not self.sides:
            return np.asarray(said.reshape(-1, 1) - said.mean())
        first, rest = np.split(said, [len(self.others)], axis=1)
        hits = getattr(release, "hits", np.zeros(len(said)))
        seen = np.column_stack([first, rest.sum(axis=1), release.answered, hits]).astype(np.float64)
        asked = np.arange(len(seen)) < getattr(release, "num_asked", len(seen))
        return np.asarray((seen - seen[asked].mean(axis=0)) * asked[:, None])


class CraftedVotes(VoteSource):
    """Votes of canaries by their ways, `[m, Q]` or `[m, Q * L]`, and of all other teachers as the craft says."""

    records_per_teacher = 1.0

    def __init__(self, craft: Craft, ways: Signs, repeats: int, shape: ReleaseShape) -> None:
        self.ways, self.repeats = ways, repeats
        self.num_teachers, self.num_queries, self.num_labels = shape.num_teachers, shape.num_queries, shape.num_labels
        self.total = shape.num_teachers - repeats * len(ways)
        self.sides, self.others = np.zeros((2, shape.num_labels), dtype=np.int64)
        self.sides[: len(craft.sides)], self.others[: len(craft.others)] = craft.sides, craft.others
        self.by_bit = not craft.sides

    def bits(self) -> Iterator[Bits]:
        for first in range(0, len(self.ways), _BLOCK):
            yield self._by(self.ways[first : first + _BLOCK]).repeat(self.repeats, axis=0)
        places = 7 * np.arange(self.ways.shape[1])  # whose turn it is moves on: no teacher always votes alike
        for first in range(0, self.total, _BLOCK):
            turns = (np.arange(first, min(first + _BLOCK, self.total))[:, None] + places) % self.total
            if self.by_bit:
                yield self._by(np.where(turns < self.total // 2, 1, -1).astype(np.int8))
            else:  # one side from the first turn on, the other from the last: rivals share no teacher
                turns = np.where(self.sides < 0, self.total - 1 - turns[:, :, None], turns[:, :, None])
                yield np.asarray(turns < self.others)

    def label_shares(self) -> Array:
        return np.concatenate([block.mean(axis=1) for block in self.bits()])

    def _by(self, ways: Signs) -> Bits:
        """The votes of teachers that go these ways, `[c, Q, L]`."""
        if self.by_bit:
            return np.asarray(ways.reshape(-1, self.num_queries, self.num_labels) > 0)
        return np.asarray(ways[:, :, None] * self.sides > 0)

    def _counted(self, max_votes: int | None) -> NDArray[np.int64]:
        """As `bits` have it, of which no teacher has over `max_votes`."""
        ahead = (self.ways > 0).sum(axis=0)
        if self.by_bit:
            counts = self.total // 2 + self.repeats * ahead
            return np.asarray(counts.reshape(self.num_queries, self.num_labels))
        voting = np.where(self.sides > 0, ahead[:, None], len(self.ways) - ahead[:, None]) * (self.sides != 0)
        return np.asarray(self.others + self.repeats * voting)


@dataclass(frozen=True, eq=False, kw_only=True)
class TeacherAttack:
    """Guesses which way canary teachers vote from a release of crafted queries."""

    aggregator: Aggregator  # what draws the release
    shape: ReleaseShape  # of the release
    num_canaries: int  # m, at most an eighth of the teachers
    repeats: int = 1  # how often a canary counts: 1, but where the price is broken on purpose
    craft: Craft  # the queries
    weights: Array  # `[F]`, of what is seen
    told: float  # how much of a coin they tell, in rehearsals

    @classmethod
    def rehearsed(
        cls, aggregator: Aggregator, shape: ReleaseShape, counts: Sequence[int], repeats: int, rng: np.random.Generator
    ) -> Self:
        """With the craft and the number of canaries of which releases tell most, on coins of its own."""
        chosen: Any = None
        for count in counts:
            made = {"aggregator": aggregator, "shape": shape, "num_canaries": count, "repeats": repeats}
            crafts = [*_crafts(aggregator, shape, shape.num_teachers - repeats * count)]
            require(bool(crafts), "num_labels", shape.num_labels, "two labels at least, for canaries to decide")
            best = max((cls.fitted(craft, _ROWS, rng, **made) for craft in crafts), key=lambda attack: attack.told)
            best = cls.fitted(best.craft, _MORE_ROWS, rng, **made)
            chosen = best if chosen is None or best.told > _WORTH * chosen.told else chosen
        return cast(Self, chosen)

    @classmethod
    def fitted(cls, craft: Craft, rows: int, rng: np.random.Generator, **made: Any) -> Self:
        """By least squares of the canaries' sum on what is seen."""
        attack = cls(**made, craft=craft, weights=np.empty(0), told=0.0)
        count, shape = attack.num_canaries, attack.shape
        parts: list[tuple[Signs, Array]] = []
        while sum(len(seen) for _, seen in parts) < rows:
            signs = craft.signs(count, shape, rng)
            parts.append((signs, attack._seen(signs, rng)))
        moved = np.concatenate([signs.sum(axis=0, dtype=np.float64) for signs, _ in parts])
        seen = np.concatenate([each for _, each in parts])
        weights = np.linalg.lstsq(seen, moved, rcond=1e-9)[0]
        by_chance = np.count_nonzero(seen.any(axis=0)) / len(seen)
        explained = float(((seen @ weights) ** 2).sum() / (moved**2).sum()) - by_chance
        return replace(attack, weights=weights, told=explained * len(seen) / len(parts) / count)

    def guess(self, coins: Signs, rng: np.random.Generator) -> Array:
        """A score for each canary, `[m]`: its sign guesses the coin, its size says how sure that is."""
        signs = self.craft.signs(len(coins), self.shape, rng)
        seen = self._seen(signs * coins[:, None], rng)
        return np.asarray(signs.astype(np.float64) @ (seen @ self.weights))

    def _seen(self, ways: Signs, rng: np.random.Generator) -> Array:
        source = CraftedVotes(self.craft, ways, self.repeats, self.shape)
        first = np.minimum.accumulate(source.sides) > 0  # what a student expects

        def prior(labels: Bits, answered: Bits, num_queries: int) -> Bits:
            return np.broadcast_to(first, (num_queries, len(first)))

        with without_warning():
            release = self.aggregator.release_from(source, ReleaseContext(rng, prior=prior))
        return self.craft.seen(release, self.shape)


def _crafts(aggregator: Aggregator, shape: ReleaseShape, total: int) -> Iterator[Craft]:
    """What to try, with `total` other teachers; little where each teacher's votes are read, which takes long."""
    most, fixed = aggregator.max_votes_per_teacher or shape.num_labels, aggregator.exact_labels
    counted = aggregator.input_form == "counts"
    if most >= shape.num_labels and fixed is None:
        yield Craft()
    for width in _WIDTHS if fixed is None else (fixed,):
        for gap in (round(part * total) for part in (_GAPS if counted else _FEW_GAPS)):
            if width <= most and 2 * width <= shape.num_labels:  # each other teacher votes for one of two sets
                first = (total + gap) // 2
                yield Craft((1,) * width + (-1,) * width, (first,) * width + (total - first,) * width)
            for steps in _STAIRS:  # places of falling counts; canaries move every second one up and all others down
                if counted and most >= shape.num_labels > width * steps and gap * steps <= total:
                    places = [min(label // width, steps) for label in range(shape.num_labels)]
                    counts = tuple(gap * (steps - place) for place in places if place < steps)
                    yield Craft(tuple(1 - 2 * (place % 2) for place in places), counts)
