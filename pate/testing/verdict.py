"""Verdicts on a claim: the worst pair of neighbors at each of its points."""

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

from pate.testing.divergences import RELATIVE_SLACK, SLACK

RENYI = "Renyi divergence"
DELTA = "delta"


class PriceRefuted(ValueError):
    """A refusal of a price that is too small. The message names the pair, the exact figure and the claim."""


@dataclass(frozen=True)
class WorstPair:
    """The worst pair at one point of a claim."""

    measure: str  # "Renyi divergence" or "delta"
    at: float  # the order, or the epsilon
    # the largest divergence of first from second; for several releases and for draws, a lower bound on it
    exact: float
    claimed: float
    first: Any  # a histogram, or the name of a distribution
    second: Any

    @property
    def ratio(self) -> float:
        """The exact figure over the claimed one; 0 where the exact figure is rounding, or the claim infinite."""
        if self.exact <= SLACK or math.isinf(self.claimed):
            return 0.0
        return self.exact / self.claimed if self.claimed > 0 else math.inf

    @property
    def exceeds(self) -> bool:
        """True where the pair refutes the claim by more than rounding: 1e-9 of it, and 1e-13."""
        return self.exact > self.claimed * (1 + RELATIVE_SLACK) + SLACK

    def __str__(self) -> str:
        point = "order" if self.measure == RENYI else "epsilon"
        figures = f"exact {self.exact:.4g}, claimed {self.claimed:.4g}, {self.ratio:.4g} of it"
        return f"{self.measure} at {point} {self.at:.4g}: {figures}; {self.first} -> {self.second}"


_RANK = attrgetter("exceeds", "ratio", "exact")  # of a pair among others


@dataclass(frozen=True)
class Verdict:
    """The outcome of an enumeration, or of draws, which can refute a price and never confirm one."""

    # the worst pair for each order and for each epsilon of the claim
    worst_pairs: tuple[WorstPair, ...]
    # the number of ordered pairs that were compared; of draws, that of tests which share the error probability
    num_pairs: int
    # True where the figures are exact for all pairs; for several releases they are lower bounds
    exhaustive: bool = True
    confidence: float | None = None  # of draws: the confidence in the lower bounds

    @property
    def refuted(self) -> bool:
        """True where some pair exceeds the claim."""
        return any(pair.exceeds for pair in self.worst_pairs)

    @property
    def sound(self) -> bool:
        """True where the claim holds for every pair at its orders and epsilons; False also where that is open."""
        return self.exhaustive and not self.refuted

    @property
    def worst(self) -> WorstPair:
        """The pair with the largest ratio of exact to claimed; pairs that refute the claim come first."""
        return max(self.worst_pairs, key=_RANK)

    @property
    def renyi(self) -> WorstPair | None:
        """The worst Renyi divergence; None where the claim has none."""
        return max(
            (pair for pair in self.worst_pairs if pair.measure == RENYI), key=_RANK, default=None
        )

    @property
    def delta(self) -> WorstPair | None:
        """The worst hockey-stick divergence; None where the claim has none."""
        return max(
            (pair for pair in self.worst_pairs if pair.measure == DELTA), key=_RANK, default=None
        )

    @property
    def ratio(self) -> float:
        """The largest ratio of exact to claimed."""
        return max(pair.ratio for pair in self.worst_pairs)

    def require(self) -> Self:
        """Returns the verdict; raises `PriceRefuted`, with the worst pair, where the claim is refuted."""
        if self.refuted:
            at = "" if self.confidence is None else f" at confidence {self.confidence}"
            raise PriceRefuted(f"price refuted{at}: {self.worst}")
        return self

    def __str__(self) -> str:
        head = "holds" if self.exhaustive else "not refuted"
        if self.refuted:
            head = "REFUTED"
        extent = f"on {self.num_pairs} ordered pairs"
        if self.confidence is not None:
            extent = (
                f"at confidence {self.confidence}, {self.num_pairs} tests (exact = lower bound)"
            )
        return "\n".join(
            [
                f"{head} {extent}",
                *(f"  {pair}" for pair in (self.renyi, self.delta) if pair is not None),
            ]
        )
