"""The bounds on attacks that cards and quotes print, in numbers and in words, from the trade-off curve of a release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from pate.accounting.accountant import Accountant
from pate.accounting.rounding import ceil_to_decimals, format_delta, format_epsilon
from pate.validation import require, require_non_negative

# The probabilities of a false alarm for which a bound is printed, in decimals.
_FALSE_ALARM_RATES = ("0.001", "0.01", "0.1")
# The probabilities of a right guess without the release for which a bound is printed, in decimals, and in words.
_WORDS_OF_PRIOR_GUESS_CHANCE = {"0.000001": "one in a million", "0.5": "50%"}


@dataclass(frozen=True, kw_only=True)
class AttackBounds:
    """Upper bounds on what attacks learn from a release, whatever they know besides; all numbers are rounded up.

    A member is a unit of privacy: a person, or whatever else one change replaces.

    Attributes:
        found: the largest share of members that an attack finds, by the probability of a false alarm in decimals, such
            as "0.01".
        guessed: the largest probability of guessing a fact about one member rightly, given the release. The keys are
            the probabilities of the best guess without the release, in decimals.
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
        for bound_name, probability in probabilities.items():
            require(
                0 <= probability <= 1, f"attacks.{bound_name}", probability, "a number in [0, 1]"
            )
        if self.gdp_mu != math.inf:
            require_non_negative("attacks.gdp_mu", self.gdp_mu)

    @classmethod
    def from_accountant(cls, accountant: Accountant) -> Self:
        """Returns the bounds for all events of an accountant."""
        return cls(
            found={
                false_alarm_rate: _largest_true_alarm_rate(
                    accountant, alpha=float(false_alarm_rate)
                )
                for false_alarm_rate in _FALSE_ALARM_RATES
            },
            guessed={
                prior_guess_chance: _largest_true_alarm_rate(
                    accountant, alpha=float(prior_guess_chance)
                )
                for prior_guess_chance in _WORDS_OF_PRIOR_GUESS_CHANCE
            },
            advantage=float(format_delta(accountant.advantage())),
            gdp_mu=float(format_epsilon(accountant.gdp_mu())),
        )

    @property
    def sentence(self) -> str:
        """The bound on finding a member with 1% false alarms, as a sentence without its period."""
        share_of_members_found = percent(self.found["0.01"])
        return f"whoever looks for members with 1% false alarms finds at most {share_of_members_found} of them"

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The bounds as rows of a table: pairs of a description in words and the number as text."""
        rows: list[tuple[str, str]] = []
        for false_alarm_rate, share_found in self.found.items():
            rate = percent(float(false_alarm_rate))
            row_name = f"members that attacks find with {rate} false alarms, at most"
            rows.append((row_name, percent(share_found)))
        share_of_right_answers = percent((1 + self.advantage) / 2)
        row_name = "right answers to whether one member takes part, at most"
        rows.append((row_name, share_of_right_answers))
        for prior_guess_chance, chance_after_release in self.guessed.items():
            chance_in_words = _WORDS_OF_PRIOR_GUESS_CHANCE.get(
                prior_guess_chance, prior_guess_chance
            )
            row_name = f"right guesses of what is guessed with {chance_in_words} without the release, at most"
            rows.append((row_name, percent(chance_after_release)))
        mu = "none is known" if self.gdp_mu == math.inf else format_epsilon(self.gdp_mu)
        return [*rows, ("mu of a Gaussian release that hides a member no better", mu)]


def percent(probability: float) -> str:
    """Returns a probability as a percentage, rounded up to one decimal, or below 1% to three significant digits.

    >>> percent(0.21337), percent(0.01), percent(0.000512)
    ('21.4%', '1%', '0.0512%')
    """
    percentage = 100 * probability
    text = (
        ceil_to_decimals(percentage, num_decimals=1)
        if percentage >= 1
        else format_delta(percentage)
    )
    return f"{text.removesuffix('.0')}%"


def _largest_true_alarm_rate(accountant: Accountant, alpha: float) -> float:
    """Returns 1 - f(alpha) of the accountant's trade-off curve f, rounded up to three significant digits."""
    return float(format_delta(1 - accountant.trade_off(alpha)))
