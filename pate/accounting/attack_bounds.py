"""The bounds on attacks that cards and quotes print, in numbers and in words, from the trade-off curve of a release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from pate.accounting.accountant import Accountant
from pate.accounting.rounding import format_delta, format_epsilon, round_up
from pate.validation import require, require_non_negative

_FALSE_ALARMS = ("0.001", "0.01", "0.1")
_GUESSES = {"0.000001": "one in a million", "0.5": "50%"}


@dataclass(frozen=True, kw_only=True)
class AttackBounds:
    """The most that any attack finds in a release, whatever it knows besides; all numbers are rounded up.

    A member is a unit of privacy: a person, or whatever else one change replaces.

    Attributes:
        found: the largest share of members that an attack finds, by the probability of a false alarm in decimals, such
            as "0.01".
        guessed: the largest probability of guessing a fact about one member rightly, by that of the best guess
            without the release.
        advantage: the largest difference between the probabilities of a right and of a false alarm.
        gdp_mu: the l2 sensitivity / noise std of a Gaussian release that hides a member no better; infinite where none
            is known.

    Source: docs/proofs/trade_off.md.
    """

    found: Mapping[str, float] = field(default_factory=dict)
    guessed: Mapping[str, float] = field(default_factory=dict)
    advantage: float
    gdp_mu: float

    def __post_init__(self) -> None:
        probabilities = {"advantage": self.advantage, **self.found, **self.guessed}
        for name, value in probabilities.items():
            require(0 <= value <= 1, f"attacks.{name}", value, "a number in [0, 1]")
        if self.gdp_mu != math.inf:
            require_non_negative("attacks.gdp_mu", self.gdp_mu)

    @classmethod
    def from_accountant(cls, accountant: Accountant) -> Self:
        """Returns the bounds for all events of an accountant."""
        return cls(
            found={rate: _largest_share(accountant, float(rate)) for rate in _FALSE_ALARMS},
            guessed={chance: _largest_share(accountant, float(chance)) for chance in _GUESSES},
            advantage=float(format_delta(accountant.advantage())),
            gdp_mu=float(format_epsilon(accountant.gdp_mu())),
        )

    @property
    def sentence(self) -> str:
        """The bound on finding a member with 1% false alarms, as a sentence without its period."""
        return f"whoever looks for members with 1% false alarms finds at most {percent(self.found['0.01'])} of them"

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The bounds as rows (name, text)."""
        rows = [
            (
                f"members that attacks find with {percent(float(rate))} false alarms, at most",
                percent(share),
            )
            for rate, share in self.found.items()
        ]
        right = percent((1 + self.advantage) / 2)
        rows.append(("right answers to whether one member takes part, at most", right))
        for chance, share in self.guessed.items():
            without = _GUESSES.get(chance, chance)
            name = f"right guesses of what is guessed with {without} without the release, at most"
            rows.append((name, percent(share)))
        mu = "none is known" if self.gdp_mu == math.inf else format_epsilon(self.gdp_mu)
        return [*rows, ("mu of a Gaussian release that hides a member no better", mu)]


def percent(probability: float) -> str:
    """Returns a probability as a percentage, rounded up to one decimal, or below 1% to three digits.

    >>> percent(0.21337), percent(0.01), percent(0.000512)
    ('21.4%', '1%', '0.0512%')
    """
    percentage = 100 * probability
    text = round_up(percentage, digits=1) if percentage >= 1 else format_delta(percentage)
    return f"{text.removesuffix('.0')}%"


def _largest_share(accountant: Accountant, alpha: float) -> float:
    """Returns 1 - f(alpha) of the accountant's trade-off curve f, rounded up to three digits."""
    return float(format_delta(1 - accountant.trade_off(alpha)))
