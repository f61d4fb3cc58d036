"""Verdicts of the verifier on a claim, with the pairs of neighbors that come nearest to it or refute it."""

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

from pate.testing.divergences import RELATIVE_SLACK, SLACK

# The two measures of a `WorstPair`.
RENYI = "Renyi divergence"
DELTA = "delta"


class PriceRefuted(ValueError):
    """The error that a price is too small. The message states the claim, and the divergence or test that refutes it."""


@dataclass(frozen=True)
class WorstPair:
    """The pair of neighbors with the largest divergence at one order, or one epsilon, of a claim.

    For samples, it is one of the pairs that were tested.

    Attributes:
        measure: "Renyi divergence" or "delta".
        at: the order of the Renyi divergence, or the epsilon of the delta.
        exact: the divergence of `first` from `second`; for several releases and for samples, a lower bound on it.
        claimed: the claimed bound on the divergence.
        first: the first histogram, or the name of the first distribution.
        second: the second histogram, or the name of the second distribution.
    """

    measure: str
    at: float
    exact: float
    claimed: float
    first: Any
    second: Any

    @property
    def ratio(self) -> float:
        """The exact divergence divided by the claimed bound.

        The ratio is 0 if the exact divergence is at most a rounding error, or if the claimed bound is infinite. For
        a larger divergence and a bound of 0 it is infinity.
        """
        claimed_divergence = self.claimed
        if self.exact <= SLACK or math.isinf(claimed_divergence):
            return 0.0
        return self.exact / claimed_divergence if claimed_divergence > 0 else math.inf

    @property
    def exceeds(self) -> bool:
        """Whether the exact divergence exceeds the claimed bound by more than rounding errors.

        Rounding errors are 1e-9 of the bound plus 1e-13.
        """
        return self.exact > self.claimed * (1 + RELATIVE_SLACK) + SLACK

    def __str__(self) -> str:
        point = "order" if self.measure == RENYI else "epsilon"
        figures = f"exact {self.exact:.4g}, claimed {self.claimed:.4g}, {self.ratio:.4g} of it"
        return f"{self.measure} at {point} {self.at:.4g}: {figures}; {self.first} -> {self.second}"


# The key by which the worst of several pairs is chosen.
_BY_EXCESS_AND_RATIO = attrgetter("exceeds", "ratio", "exact")


@dataclass(frozen=True)
class Verdict:
    """The result of a comparison of a claim with exact distributions, or with samples, on pairs of neighbors.

    Samples can refute a claim but never confirm it.

    Attributes:
        worst_pairs: the pair with the largest divergence, for each order and each epsilon of the claim; for samples,
            the pair of each test.
        num_pairs: the number of ordered pairs that the comparison covers; for samples, the number of tests.
        exhaustive: whether the divergences are exact for all pairs, up to rounding and quadrature; False for several
            releases and for samples.
        confidence: for samples, the confidence of a refutation; None for exact distributions.
    """

    worst_pairs: tuple[WorstPair, ...]
    num_pairs: int
    exhaustive: bool = True
    confidence: float | None = None

    @property
    def refuted(self) -> bool:
        """Whether the divergence of some pair exceeds the claim."""
        return any(pair.exceeds for pair in self.worst_pairs)

    @property
    def sound(self) -> bool:
        """Whether the claim holds for all pairs that were covered, at the orders and epsilons that the claim names.

        False if the claim is refuted, and also if the comparison cannot confirm it (`exhaustive` is False).
        """
        return self.exhaustive and not self.refuted

    @property
    def worst(self) -> WorstPair:
        """The pair that refutes the claim with the largest ratio, or if none does, the pair with the largest ratio."""
        return max(self.worst_pairs, key=_BY_EXCESS_AND_RATIO)

    @property
    def renyi(self) -> WorstPair | None:
        """The worst pair for Renyi divergences, by the rule of `worst`; None if the claim has no such bound."""
        return self._worst_of(measure=RENYI)

    @property
    def delta(self) -> WorstPair | None:
        """The worst pair for deltas, by the rule of `worst`; None if the claim has no such bound."""
        return self._worst_of(measure=DELTA)

    @property
    def ratio(self) -> float:
        """The largest ratio of an exact divergence to its claimed bound."""
        return max(pair.ratio for pair in self.worst_pairs)

    def require(self) -> Self:
        """Returns this verdict; raises `PriceRefuted`, with the worst pair, if the claim is refuted."""
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
        lines = [f"{head} {extent}"]
        for worst_pair in (self.renyi, self.delta):
            if worst_pair is not None:
                lines.append(f"  {worst_pair}")
        return "\n".join(lines)

    def _worst_of(self, measure: str) -> WorstPair | None:
        """Returns the worst pair of a measure, "Renyi divergence" or "delta"; None if the claim has no such bound."""
        pairs = [pair for pair in self.worst_pairs if pair.measure == measure]
        return max(pairs, key=_BY_EXCESS_AND_RATIO, default=None)
