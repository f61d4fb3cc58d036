"""What a verification found: the worst pair at each point of a claim."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from pate.verification.divergences import RELATIVE_SLACK, SLACK

RENYI = "Renyi divergence"
DELTA = "delta"


class PriceRefuted(ValueError):
    """A mechanism costs more than claimed. The message names the pair, the exact figure and the claim."""


@dataclass(frozen=True)
class WorstPair:
    """The worst pair at one point of a claim.

    Attributes:
        measure: "Renyi divergence" or "delta".
        at: the order, or the epsilon.
        exact: the largest divergence of first from second; for several releases, a lower bound on it.
        claimed: what it was said to be at most.
        first: the pair's first histogram (or the name of a distribution).
        second: its neighbor.
    """

    measure: str
    at: float
    exact: float
    claimed: float
    first: Any
    second: Any

    @property
    def ratio(self) -> float:
        """Exact over claimed; 0 where the exact figure is rounding, or the claim infinite."""
        if self.exact <= SLACK or math.isinf(self.claimed):
            return 0.0
        return self.exact / self.claimed if self.claimed > 0 else math.inf

    @property
    def exceeds(self) -> bool:
        """Whether the claim is refuted here, beyond rounding: 1e-9 of it, or 1e-13."""
        return self.exact > self.claimed * (1 + RELATIVE_SLACK) + SLACK

    def __str__(self) -> str:
        point = "order" if self.measure == RENYI else "epsilon"
        figures = f"exact {self.exact:.4g}, claimed {self.claimed:.4g}"
        return (
            f"{self.measure} at {point} {self.at:.4g}: {figures}, {self.ratio:.4g} of it; {self.first} -> {self.second}"
        )


@dataclass(frozen=True)
class Verdict:
    """The outcome of an enumeration.

    Attributes:
        worst_pairs: the worst pair for each order and for each epsilon of the claim.
        num_pairs: how many ordered pairs were looked at.
        exhaustive: whether the exact figures are exact for all of them; for several releases they are lower bounds.
    """

    worst_pairs: tuple[WorstPair, ...]
    num_pairs: int
    exhaustive: bool = True

    @property
    def refuted(self) -> bool:
        """Whether some pair exceeds the claim."""
        return any(pair.exceeds for pair in self.worst_pairs)

    @property
    def sound(self) -> bool:
        """Whether the claim holds for every pair, at the orders and epsilons looked at; False where that is open."""
        return self.exhaustive and not self.refuted

    @property
    def worst(self) -> WorstPair:
        """The pair with the largest ratio of exact to claimed; one that refutes before one that does not."""
        return _worst(self.worst_pairs)

    @property
    def renyi(self) -> WorstPair | None:
        """The worst Renyi divergence; None where the claim has none."""
        return _worst_or_none(self.worst_pairs, RENYI)

    @property
    def delta(self) -> WorstPair | None:
        """The worst hockey-stick divergence; None where the claim has none."""
        return _worst_or_none(self.worst_pairs, DELTA)

    @property
    def ratio(self) -> float:
        """The largest ratio of exact to claimed."""
        return max(pair.ratio for pair in self.worst_pairs)

    def require(self) -> Self:
        """Returns itself unless refuted.

        Raises:
            PriceRefuted: with the worst pair.
        """
        if self.refuted:
            raise PriceRefuted(f"price refuted: {self.worst}")
        return self

    def __str__(self) -> str:
        head = "REFUTED" if self.refuted else "holds" if self.exhaustive else "not refuted"
        lines = [f"{head} on {self.num_pairs} ordered pairs"]
        return "\n".join(lines + [f"  {pair}" for pair in (self.renyi, self.delta) if pair is not None])


def _worst(worst_pairs: Iterable[WorstPair]) -> WorstPair:
    return max(worst_pairs, key=lambda pair: (pair.exceeds, pair.ratio))


def _worst_or_none(worst_pairs: Iterable[WorstPair], measure: str) -> WorstPair | None:
    of_kind = [pair for pair in worst_pairs if pair.measure == measure]
    return _worst(of_kind) if of_kind else None
