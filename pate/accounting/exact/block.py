"""Blocks of steps: what many adaptive steps do together, as one pair of distributions that dominates them.

The profile of a block, the adversary's best play in it, is the profile of a pair. That pair dominates the block in
every adaptive composition, whatever comes before and after it (docs/proofs/exact_composition.md). Pairs on one grid of
losses are then composed by sums of products, all of them numbers >= 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from pate.accounting.pld.profile import lower_hull

Array = NDArray[np.float64]

_ROUNDING = 1e-11  # relative: of a hull's values between its corners, and of the sums of a profile


@dataclass(frozen=True, eq=False)
class Block:
    """A pair of distributions by the losses of the first: masses at multiples of a spacing, both ways from 0.

    Attributes:
        masses: `[2 n + 1]` at -n..n times the spacing; they may sum to a little more than 1.
        missing: mass on an infinite loss.
        spacing: > 0.
    """

    masses: Array
    missing: float
    spacing: float

    @classmethod
    def above(cls, values: Array, spacing: float) -> Block:
        """A pair whose profile is nowhere below these values at 0, 1, 2, … times the spacing, or their mirror image.

        Args:
            values: `[N]` upper bounds for a profile that is convex in exp(epsilon) and its own mirror image:
                delta(-epsilon) = 1 - exp(-epsilon) + exp(-epsilon) delta(epsilon).
            spacing: between the epsilons.
        """
        losses = np.arange(len(values), dtype=np.float64) * spacing
        kept = lower_hull(np.exp(losses), values)
        hull = np.interp(np.exp(losses), np.exp(losses)[kept], values[kept])
        whole = np.concatenate([_mirrored(hull[1:], losses[1:])[::-1], hull])
        right = _masses(hull, spacing)
        missing = float(hull[-1])
        made = cls(np.concatenate([(right[1:] * np.exp(-losses[1:]))[::-1], right]), missing, spacing)
        reached = made.profile()
        lacking = np.divide(whole, reached, out=np.ones_like(whole), where=whole > 0)
        factor = max(1.0, float(lacking.max()), 1 / (float(made.masses.sum()) + missing)) * (1 + _ROUNDING)
        return cls(made.masses * factor, missing * factor, spacing)

    def profile(self) -> Array:
        """Its delta at -n..n times the spacing, `[2 n + 1]`, to a relative 1e-11."""
        near, far = -np.expm1(-self.spacing), np.exp(-self.spacing)
        beyond = [0.0, *np.cumsum(self.masses[:0:-1]).tolist()]  # from the last place down: the mass farther up
        deltas = [*accumulate(beyond, lambda delta, mass: near * mass + far * delta)]
        return np.array(deltas[::-1]) + self.missing

    def times(self, other: Block, *, most: int) -> Block:
        """Both, one after the other; losses beyond `most` times the spacing are moved to it or count as infinite."""
        masses = np.convolve(self.masses, other.masses)
        masses *= 1 + min(len(self.masses), len(other.masses)) * 2.0**-51
        missing = self.missing * max(other.total, 1.0) + other.missing * max(self.total, 1.0)
        middle = len(masses) // 2
        if middle > most:
            missing += float(masses[middle + most + 1 :].sum()) * (1 + _ROUNDING)
            below = float(masses[: middle - most].sum()) * (1 + _ROUNDING)
            masses = masses[middle - most : middle + most + 1].copy()
            masses[0] += below
        return Block(masses, missing * (1 + _ROUNDING), self.spacing)

    def power(self, count: int, *, most: int) -> Block:
        """It `count` >= 1 times."""
        square, done = self, None
        while True:
            if count & 1:
                done = square if done is None else done.times(square, most=most)
            count >>= 1
            if count == 0:
                return done if done is not None else square
            square = square.times(square, most=most)

    @property
    def total(self) -> float:
        """All mass."""
        return float(self.masses.sum()) + self.missing


def _mirrored(values: Array, losses: Array) -> Array:
    """The profile at minus these losses."""
    return np.asarray(-np.expm1(-losses) + np.exp(-losses) * values)


def _masses(hull: Array, spacing: float) -> Array:
    """The masses at 0, 1, … of the pair whose profile is linear in exp(epsilon) between these values, or nearly."""
    before = np.append(_mirrored(hull[1:2], np.array([spacing])), hull[:-1])
    after = np.append(hull[1:], hull[-1])
    return np.asarray(np.maximum((before - hull) / -np.expm1(-spacing) - (hull - after) / np.expm1(spacing), 0.0))
