"""The kinds of change that may make a refused release useful: more teachers, a larger epsilon, or fewer queries.

Each kind has candidates, from the least change to the largest. A plan by the budget's accountant takes up to seconds.
So the search of `remedies.py` begins near the candidate that is likely to be the least that works. There are two
estimates of its place: one by Renyi's prices, before any plan, and one by the first plan that works, where the budget's
accountant turns out cheaper than Renyi's.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pate.accounting import Budget
from pate.aggregators import Aggregator
from pate.errors import Remedy
from pate.pricing.expectations import is_plan_heard
from pate.pricing.priced_release import PricedRelease, changed_fields, with_fields
from pate.validation import InvalidValue
from pate.votes.shape import VoteShape


@dataclass(frozen=True, kw_only=True)
class Change:
    """Settings that a plan has in place of its own; None leaves a setting as it is.

    Attributes:
        num_teachers: the number of teachers.
        num_queries: the number of queries.
        target_epsilon: the epsilon that noise is solved for.
        noise: fields of the aggregator with their values, as pairs.
    """

    num_teachers: int | None = None
    num_queries: int | None = None
    target_epsilon: float | None = None
    noise: tuple[tuple[str, float], ...] = ()

    def remedy(self) -> Remedy:
        """Returns the change as a remedy of an error."""
        first, *further = self._remedies()
        return replace(first, also=tuple(further))

    def __str__(self) -> str:
        return " ".join(f"{remedy.name}={remedy.value:g}" for remedy in self._remedies())

    def _remedies(self) -> list[Remedy]:
        """Returns a remedy for each setting that is changed, with values of six digits."""
        remedies = []
        if self.num_teachers is not None:
            remedies.append(Remedy("num_teachers", self.num_teachers))
        if self.num_queries is not None:
            remedies.append(Remedy("num_queries", self.num_queries))
        if self.target_epsilon is not None:
            remedies.append(Remedy("target_epsilon", float(f"{self.target_epsilon:g}")))
        for name, value in self.noise:
            remedies.append(Remedy(name, float(f"{value:g}"), owner="aggregator"))
        return remedies


# Prices and tables of more teachers take long.
MOST_TEACHERS = 5000
# The fewest private groups that a suggested teacher has; a teacher of fewer hardly learns.
GROUPS_EACH = 10
# A suggestion never has fewer queries: a student hardly learns from them.
LEAST_QUERIES = 20
# A bound on epsilon beyond 100 promises nothing that is worth its noise.
_LARGEST_EPSILON = 100.0
# All numbers of two digits from 0.001 to 9900, as people write settings.
_NUMBERS = [float(f"{digits}e{power}") for power in range(-4, 4) for digits in range(10, 100)]
_COUNTS = [int(number) for number in _NUMBERS if number.is_integer()]
# Factors of less noise, each smaller by 0.7%, down to 2**-48.
_NOISE_FACTORS = [2 ** (-step / 100) for step in range(1, 4800)]


@dataclass(frozen=True)
class ChangeKind(ABC):
    """A kind of change.

    Attributes:
        candidates: the values of the changed setting, from the least change to the largest. If one works, all that
            follow work, too.
    """

    candidates: Sequence[float]

    @abstractmethod
    def change(self, candidate: float) -> Change:
        """Returns the change that a candidate stands for."""

    @abstractmethod
    def is_likely(self, candidate: float) -> bool:
        """Returns whether a candidate should work at Renyi's prices; later candidates are never less likely."""

    @abstractmethod
    def likely_place(self, place: int, planned: PricedRelease) -> int:
        """Returns the place of the least candidate that should work, given the plan of one that does.

        Args:
            place: the place of the candidate that works.
            planned: its plan by the budget's accountant, which may be cheaper than Renyi's.
        """


@dataclass(frozen=True)
class MoreTeachers(ChangeKind):
    """More teachers. The noise of a plan hardly depends on their number, so one plan tells of all of them.

    Attributes:
        priced: the refused release, priced by Renyi's accountant.
    """

    priced: PricedRelease

    @classmethod
    def than(cls, priced: PricedRelease, num_groups: int | None) -> "MoreTeachers":
        """Returns larger numbers of teachers, at most one for ten private groups where the groups are counted."""
        limit = MOST_TEACHERS
        if num_groups is not None:
            limit = min(num_groups // GROUPS_EACH, MOST_TEACHERS)
        current = priced.shape.num_teachers
        counts = [count for count in sorted({*_COUNTS, limit}) if current < count <= limit]
        return cls(counts, priced)

    def change(self, candidate: float) -> Change:
        """Returns the number of teachers."""
        return Change(num_teachers=int(candidate))

    def is_likely(self, candidate: float) -> bool:
        """Returns whether so many teachers are heard through the noise of the refused release."""
        return self._is_heard(candidate, self.priced)

    def likely_place(self, place: int, planned: PricedRelease) -> int:
        """Returns the place of the fewest teachers that are heard through the noise of a plan that works."""

        def is_heard(candidate: float) -> bool:
            return self._is_heard(candidate, planned)

        return bisect_left(self.candidates, True, hi=place, key=is_heard)

    def _is_heard(self, num_teachers: float, planned: PricedRelease) -> bool:
        """Returns whether so many teachers are heard through the noise of a plan."""
        shape = replace(self.priced.shape, num_teachers=int(num_teachers))
        return is_plan_heard(replace(planned, shape=shape))


@dataclass(frozen=True)
class LargerEpsilon(ChangeKind):
    """A larger epsilon.

    Attributes:
        renyi_budget: the budget of the refused release, by Renyi's accountant.
        lowest: Renyi's price of noise through which unanimous teachers are heard.
    """

    renyi_budget: Budget
    lowest: float

    @classmethod
    def than(cls, quiet: PricedRelease, renyi_budget: Budget) -> "LargerEpsilon":
        """Returns larger epsilons than the budget's, up to 100.

        Args:
            quiet: the refused release with noise through which unanimous teachers are heard (`with_less_noise`).
            renyi_budget: the budget, by Renyi's accountant.
        """
        epsilon = renyi_budget.epsilon or 0.0
        larger = [number for number in _NUMBERS if epsilon < number <= _LARGEST_EPSILON]
        lowest = max(epsilon, price_or_infinity(quiet.aggregator, quiet.shape, renyi_budget))
        return cls(larger, renyi_budget, lowest)

    def change(self, candidate: float) -> Change:
        """Returns the epsilon."""
        return Change(target_epsilon=candidate)

    def is_likely(self, candidate: float) -> bool:
        """Returns whether the epsilon pays for noise through which unanimous teachers are heard."""
        return candidate >= self.lowest

    def likely_place(self, place: int, planned: PricedRelease) -> int:
        """Returns the place of the epsilon that is smaller by the ratio of the two accountants' prices."""
        ratio = _renyi_ratio(planned, self.renyi_budget)
        return bisect_left(self.candidates, self.candidates[place] / ratio, hi=place)


@dataclass(frozen=True)
class FewerQueries(ChangeKind):
    """Fewer queries, with as many teachers as before or with another number of them.

    Attributes:
        quiet: the refused release with noise through which unanimous teachers are heard.
        renyi_budget: the budget of the refused release, by Renyi's accountant.
        num_teachers: the number of teachers that is set together with the queries; None leaves it.
    """

    quiet: PricedRelease
    renyi_budget: Budget
    num_teachers: int | None = None

    @classmethod
    def than(
        cls, quiet: PricedRelease, renyi_budget: Budget, num_teachers: int | None = None
    ) -> "FewerQueries":
        """Returns smaller numbers of queries, down to 20, the largest first."""
        current = quiet.shape.num_queries
        counts = [count for count in reversed(_COUNTS) if LEAST_QUERIES <= count < current]
        return cls(counts, quiet, renyi_budget, num_teachers)

    def change(self, candidate: float) -> Change:
        """Returns the number of queries, and that of teachers where it is set, too."""
        return Change(num_teachers=self.num_teachers, num_queries=int(candidate))

    def is_likely(self, candidate: float) -> bool:
        """Returns whether the budget pays for so many queries with noise through which teachers are heard."""
        shape = replace(self.quiet.shape, num_queries=int(candidate))
        price = price_or_infinity(self.quiet.aggregator, shape, self.renyi_budget)
        return price <= (self.renyi_budget.epsilon or 0.0)

    def likely_place(self, place: int, planned: PricedRelease) -> int:
        """Returns the place of the number of queries that the ratio of the two accountants' prices allows."""
        # An epsilon grows about as the square root of the number of queries.
        most_queries = self.candidates[place] * _renyi_ratio(planned, self.renyi_budget) ** 2

        def is_affordable(count: float) -> bool:
            return count <= most_queries

        return bisect_left(self.candidates, True, hi=place, key=is_affordable)


def with_less_noise(priced: PricedRelease) -> PricedRelease | None:
    """Returns the release with the most noise through which unanimous teachers are heard; None where there is none.

    The noise has four digits. The price and the event of the result are those of the release.
    """

    def scaled(factor: float) -> PricedRelease:
        """Returns the release with its noise times a factor, in four digits."""
        quieter = priced.aggregator.scaled(factor)
        changed = changed_fields(priced.aggregator, quieter)
        rounded = {name: float(f"{value:.4g}") for name, value in changed.items()}
        return replace(priced, aggregator=with_fields(quieter, rounded))

    def is_heard(factor: float) -> bool:
        return is_plan_heard(scaled(factor))

    try:
        place = bisect_left(_NOISE_FACTORS, True, key=is_heard)
        return scaled(_NOISE_FACTORS[place]) if place < len(_NOISE_FACTORS) else None
    except InvalidValue:  # the noise of this aggregator cannot be scaled
        return None


def price_or_infinity(aggregator: Aggregator, shape: VoteShape, budget: Budget) -> float:
    """Returns the price of a release by the budget's accountant; infinity for a release that cannot be."""
    try:
        return budget.epsilon_of(aggregator.event(shape))
    except InvalidValue:
        return math.inf


def _renyi_ratio(planned: PricedRelease, renyi_budget: Budget) -> float:
    """Returns Renyi's price of a plan over the price that the budget's accountant has for it."""
    price = price_or_infinity(planned.aggregator, planned.shape, renyi_budget)
    return price / planned.epsilon
