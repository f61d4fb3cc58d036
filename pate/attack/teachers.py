"""Canaries that are teachers: crafted votes, and guesses from what an aggregator releases of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import Aggregator, Release
from pate.aggregators.aggregator import ReleaseContext, without_warning
from pate.pricing import ReleaseShape
from pate.votes.source import VoteSource

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]
Signs = NDArray[np.int8]

REPEATS = 4
"""How often each canary counts where `sabotage=clip`."""

_GAPS = (0.0, 0.05, 0.1, 0.2, 0.3, 1 / 3, 0.4, 0.6)  # of the teachers, between two rival sets of labels
_SIZES = (1, 4)  # of these sets
_BLOCK = 64


@dataclass(frozen=True)
class Craft:
    """Queries made so that canaries decide.

    Attributes:
        size: labels of a set; each teacher votes for one of two rival sets. 0 lets each label be for itself, with half
            of the other teachers for it.
        gap: the other teachers' majority for the first set, in teachers.
    """

    size: int
    gap: int

    def signs(self, count: int, shape: ReleaseShape, rng: np.random.Generator) -> Signs:
        """Which way each canary votes on each query with a coin of +1, `[m, Q]`, or on each bit, `[m, Q * L]`."""
        width = shape.num_queries * (1 if self.size else shape.num_labels)
        return (2 * rng.integers(0, 2, (count, width), dtype=np.int8) - 1).astype(np.int8)

    def bits(self, ways: Signs, shape: ReleaseShape) -> Bits:
        """The votes of teachers that go these ways, `[c, Q, L]`."""
        if not self.size:
            return np.asarray(ways.reshape(-1, shape.num_queries, shape.num_labels) > 0)
        bits = np.zeros((len(ways), shape.num_queries, shape.num_labels), dtype=np.bool_)
        bits[:, :, : self.size] = (ways > 0)[:, :, None]
        bits[:, :, self.size : 2 * self.size] = (ways < 0)[:, :, None]
        return bits

    def seen(self, release: Release, shape: ReleaseShape) -> Array:
        """What a release says, `[Q or Q * L, F]`: labels of either set and the answer, or each score or bit."""
        said = np.asarray(getattr(release, "scores", release.labels), dtype=np.float64)
        if not self.size:
            return said.reshape(-1, 1)
        first, second = said[:, : self.size].sum(axis=1), said[:, self.size : 2 * self.size].sum(axis=1)
        rest = said.sum(axis=1) - first - second
        return np.stack([first, second, rest, release.answered.astype(np.float64)], axis=1)


class CraftedVotes(VoteSource):
    """Votes of canaries by their coins, and of all other teachers as the craft says.

    Args:
        craft: the queries.
        ways: of the canaries, `[m, Q]` or `[m, Q * L]`.
        repeats: how often a canary counts.
        shape: of the release.
    """

    def __init__(self, craft: Craft, ways: Signs, repeats: int, shape: ReleaseShape) -> None:
        self.craft, self.ways, self.repeats, self.shape = craft, ways, repeats, shape
        self.num_teachers, self.num_queries, self.num_labels = shape.num_teachers, shape.num_queries, shape.num_labels
        self.records_per_teacher = 1.0

    def bits(self) -> Iterator[Bits]:
        for first in range(0, len(self.ways), _BLOCK):
            yield self.craft.bits(self.ways[first : first + _BLOCK], self.shape).repeat(self.repeats, axis=0)
        others = self.num_teachers - self.repeats * len(self.ways)
        for_first = (others + self.craft.gap) // 2
        rows = np.arange(others)[:, None]
        places = np.arange(self.ways.shape[1])  # whose turn it is moves on, so that no teacher is always for the first
        for first in range(0, others, _BLOCK):
            turns = (rows[first : first + _BLOCK] + 7 * places) % others
            yield self.craft.bits(np.where(turns < for_first, 1, -1).astype(np.int8), self.shape)

    def label_shares(self) -> Array:
        return np.concatenate([block.mean(axis=1) for block in self.bits()])


@dataclass(frozen=True, eq=False, kw_only=True)
class TeacherAttack:
    """Guesses which way canary teachers vote from a release of crafted queries.

    Attributes:
        aggregator: what draws the release.
        shape: of the release.
        num_canaries: m, at most an eighth of the teachers.
        repeats: how often a canary counts: 1, but where the price is broken on purpose.
    """

    aggregator: Aggregator
    shape: ReleaseShape
    num_canaries: int
    repeats: int = 1

    def guess(self, coins: Signs, rng: np.random.Generator) -> Array:
        """A score for each canary, `[m]`: its sign guesses the coin, its size says how sure that is.

        What is most telling is found on rehearsals with coins of their own, before the release is drawn.
        """
        craft, weights = self._trained(rng)
        signs = craft.signs(len(coins), self.shape, rng)
        seen = self._seen(craft, signs * coins[:, None], rng)
        return np.asarray(signs.astype(np.float64) @ ((seen - seen.mean(axis=0)) @ weights))

    def _trained(self, rng: np.random.Generator) -> tuple[Craft, Array]:
        """The craft whose release follows the canaries' sum most closely, and the weights of what is seen."""
        best = max((self._fit(craft, rng) for craft in self._crafts()), key=lambda found: found[0])
        return best[1], best[2]

    def _crafts(self) -> Iterator[Craft]:
        most = self.aggregator.max_votes_per_teacher or self.shape.num_labels
        if most >= self.shape.num_labels and self.aggregator.exact_labels is None:
            yield Craft(0, 0)
        fixed = self.aggregator.exact_labels
        for size in _SIZES if fixed is None else (fixed,):
            if size <= most and 2 * size <= self.shape.num_labels:
                yield from (Craft(size, int(gap * self.shape.num_teachers)) for gap in _GAPS)

    def _fit(self, craft: Craft, rng: np.random.Generator) -> tuple[float, Craft, Array]:
        """How much of the variance of the canaries' sum a linear function of what is seen explains, and that."""
        signs = craft.signs(self.num_canaries, self.shape, rng)
        seen = self._seen(craft, signs, rng)
        moved, seen = signs.sum(axis=0, dtype=np.float64), seen - seen.mean(axis=0)
        weights = np.linalg.lstsq(seen, moved - moved.mean(), rcond=1e-9)[0]
        explained = float(((seen @ weights) ** 2).sum() / (moved**2).sum()) * len(moved)
        return explained, craft, np.asarray(weights)

    def _seen(self, craft: Craft, ways: Signs, rng: np.random.Generator) -> Array:
        source = CraftedVotes(craft, ways, self.repeats, self.shape)
        with without_warning():
            release = self.aggregator.release_from(source, ReleaseContext(rng))
        return craft.seen(release, self.shape)
