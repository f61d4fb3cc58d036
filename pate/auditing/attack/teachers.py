"""An attack on releases of labels: canaries are teachers whose votes are crafted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import Aggregator
from pate.aggregators.record import MemoryRecord
from pate.auditing.attack.guesses import Array
from pate.auditing.attack.records import Bits, Signs
from pate.validation import (
    require,
)
from pate.votes.shape import VoteShape
from pate.votes.source import TeacherVotes

# queries made so that canaries decide: sides and others of labels
Craft = tuple[tuple[int, ...], tuple[int, ...]]
_GAPS = (0.0, *np.geomspace(0.004, 0.6, 15), 0.2, 1 / 3)  # between places, of the teachers
_FEW_GAPS = (0.0, 0.1, 0.2)
# labels of a place; places above the last
_WIDTHS = (1, 4)
_STAIRS = (1, 2, 4, 7)
_WORTH = 1.25  # times as much that each of them has to tell
# queries that a craft is judged by, and the best one
_ROWS = 500
_MORE_ROWS = 4000
_BLOCK = 64


class CraftedVotes(TeacherVotes):
    """Votes of canaries by their ways, `[m, Q]` or `[m, Q * L]`, and of all other teachers as the craft says."""

    records_per_teacher = 1.0

    def __init__(self, craft: Craft, ways: Signs, repeats: int, shape: VoteShape) -> None:
        self.ways = ways
        self.repeats = repeats
        self.num_teachers = shape.num_teachers
        self.num_queries = shape.num_queries
        self.num_labels = shape.num_labels
        self.total = shape.num_teachers - repeats * len(ways)
        self.sides, self.others = np.zeros((2, shape.num_labels), dtype=np.int64)
        self.sides[: len(craft[0])], self.others[: len(craft[1])] = craft
        self.by_bit = not craft[0]

    def bits(self) -> Iterator[Bits]:
        """Yields the crafted votes of all teachers, `[c, Q, L]` a block, canaries first."""
        for first in range(0, len(self.ways), _BLOCK):
            yield self._by(self.ways[first : first + _BLOCK]).repeat(self.repeats, axis=0)
        # whose turn it is moves on: no teacher always votes alike
        places = 7 * np.arange(self.ways.shape[1])
        for first in range(0, self.total, _BLOCK):
            turns = (
                np.arange(first, min(first + _BLOCK, self.total))[:, None] + places
            ) % self.total
            if self.by_bit:
                yield self._by(np.where(turns < self.total // 2, 1, -1).astype(np.int8))
            # one side from the first turn on, the other from the last: rivals share no teacher
            else:
                turns = np.where(
                    self.sides < 0, self.total - 1 - turns[:, :, None], turns[:, :, None]
                )
                yield np.asarray(turns < self.others)

    def label_shares(self) -> Array:
        """Returns each teacher's share of votes for each label, `[N, L]`."""
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
        voting = np.where(self.sides > 0, ahead[:, None], len(self.ways) - ahead[:, None]) * (
            self.sides != 0
        )
        return np.asarray(self.others + self.repeats * voting)


@dataclass(frozen=True, eq=False, kw_only=True)
class TeacherAttack:
    """Guesses which way canary teachers vote from a release of crafted queries."""

    aggregator: Aggregator  # what draws the release
    shape: VoteShape  # of the release
    num_canaries: int  # m, at most an eighth of the teachers
    repeats: int = 1  # how often a canary counts: 1, but where the price is broken on purpose
    # Of each label: a canary votes for those of the side, 1 or -1, that its coin and the query's sign say; and of the
    # first labels how many of the other teachers vote for them. Empty where each label has a sign of its own, and half
    # of the other teachers.
    craft: Craft
    weights: Array  # `[F]`, of what is seen
    told: float = 0.0  # how much of a coin they tell, in rehearsals

    @classmethod
    def rehearsed(
        cls,
        aggregator: Aggregator,
        shape: VoteShape,
        counts: Sequence[int],
        repeats: int,
        rng: np.random.Generator,
    ) -> TeacherAttack:
        """With the craft and the number of canaries of which releases tell most, on coins of its own."""
        chosen: TeacherAttack | None = None
        for count in counts:
            crafts = [*_crafts(aggregator, shape, shape.num_teachers - repeats * count)]
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
                )._fitted(_ROWS, rng)
                for craft in crafts
            ]
            best = max(rehearsals, key=lambda rehearsal: rehearsal.told)
            best = best._fitted(_MORE_ROWS, rng)
            chosen = best if chosen is None or best.told > _WORTH * chosen.told else chosen
        return cast(TeacherAttack, chosen)

    def _fitted(self, rows: int, rng: np.random.Generator) -> TeacherAttack:
        """By least squares of the canaries' sum on what is seen."""
        parts: list[tuple[Signs, Array]] = []
        while sum(len(block) for _, block in parts) < rows:
            signs = self._signs(rng)
            parts.append((signs, self._seen(signs, rng)))
        moved = np.concatenate([signs.sum(axis=0, dtype=np.float64) for signs, _ in parts])
        seen = np.concatenate([block for _, block in parts])
        weights = np.linalg.lstsq(seen, moved, rcond=1e-9)[0]
        by_chance = np.count_nonzero(seen.any(axis=0)) / len(seen)
        explained = float(((seen @ weights) ** 2).sum() / (moved**2).sum()) - by_chance
        return replace(
            self, weights=weights, told=explained * len(seen) / len(parts) / self.num_canaries
        )

    def guess(self, coins: Signs, rng: np.random.Generator) -> Array:
        """A score for each canary, `[m]`: its sign guesses the coin, its size says how sure that is."""
        signs = self._signs(rng)
        features = self._seen(signs * coins[:, None], rng)
        return np.asarray(signs.astype(np.float64) @ (features @ self.weights))

    def _signs(self, rng: np.random.Generator) -> Signs:
        """Which way each canary votes on each query with a coin of +1, `[m, Q]`, or on each bit, `[m, Q * L]`."""
        width = self.shape.num_queries * (1 if self.craft[0] else self.shape.num_labels)
        return (2 * rng.integers(0, 2, (self.num_canaries, width), dtype=np.int8) - 1).astype(
            np.int8
        )

    def _seen(self, ways: Signs, rng: np.random.Generator) -> Array:
        """What a release says, around its mean, `[Q or Q * L, F]`: bits or scores, answers, hits; 0 once it halts."""
        source = CraftedVotes(self.craft, ways, self.repeats, self.shape)
        first = np.minimum.accumulate(source.sides) > 0  # what a student expects

        def prior(labels: Bits, answered: Bits, num_queries: int) -> Bits:
            return np.broadcast_to(first, (num_queries, len(first)))

        aggregator = self.aggregator.with_prior(prior)
        release = aggregator.release(source, rng, MemoryRecord())
        values = np.asarray(getattr(release, "scores", release.labels), dtype=np.float64)
        if source.by_bit:
            return np.asarray(values.reshape(-1, 1) - values.mean())
        chosen, rest = np.split(values, [len(self.craft[1])], axis=1)
        hits = getattr(release, "hits", np.zeros(len(values)))
        seen = np.column_stack([chosen, rest.sum(axis=1), release.answered, hits]).astype(
            np.float64
        )
        was_asked = np.arange(len(seen)) < getattr(release, "num_asked", len(seen))
        return np.asarray((seen - seen[was_asked].mean(axis=0)) * was_asked[:, None])


def _crafts(aggregator: Aggregator, shape: VoteShape, total: int) -> Iterator[Craft]:
    """What to try, with `total` other teachers; little where each teacher's votes are read, which takes long."""
    most = aggregator.max_votes_per_teacher or shape.num_labels
    fixed = aggregator.exact_labels
    counted = aggregator.reads_counts
    if most >= shape.num_labels and fixed is None:
        yield (), ()
    for width in _WIDTHS if fixed is None else (fixed,):
        for gap in (round(part * total) for part in (_GAPS if counted else _FEW_GAPS)):
            # each other teacher votes for one of two sets
            if width <= most and 2 * width <= shape.num_labels:
                first = (total + gap) // 2
                yield (1,) * width + (-1,) * width, (first,) * width + (total - first,) * width
            # places of falling counts; canaries move every second one up and all others down
            for steps in _STAIRS:
                if counted and most >= shape.num_labels > width * steps and gap * steps <= total:
                    places = [min(label // width, steps) for label in range(shape.num_labels)]
                    counts = tuple(gap * (steps - place) for place in places if place < steps)
                    yield tuple(1 - 2 * (place % 2) for place in places), counts
