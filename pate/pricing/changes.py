"""The kinds of change that can make a refused release useful: more teachers, a larger epsilon, or fewer queries.

Each kind has a list of candidate values, from the smallest change to the largest. A plan by the budget's accountant
takes up to seconds. So the search in `remedies.py` starts near the first candidate that is likely to work. Its index is
estimated twice. The first estimate is by the prices of the Renyi accountant (`is_useful_by_renyi`). Once a candidate
works, the second is by the plan of that candidate, as the budget's accountant may have lower prices (`refined_index`).
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from pate.accounting import Budget
from pate.aggregators import Aggregator
from pate.errors import Remedy
from pate.pricing.expectations import is_plan_useful
from pate.pricing.priced_release import PricedRelease, changed_fields, with_fields
from pate.validation import InvalidValue
from pate.votes.shape import VoteShape

# The largest number of teachers that is suggested. Prices and tables of more teachers take long.
MAX_TEACHERS = 5000
# The smallest number of private groups of a suggested teacher. A teacher of fewer groups hardly learns.
MIN_GROUPS_PER_TEACHER = 10
# The smallest number of queries that is suggested. A student hardly learns from fewer.
MIN_QUERIES = 20
# The largest epsilon that is suggested. A larger one promises nothing that is worth its noise.
_MAX_EPSILON = 100.0
# All numbers with two digits from 0.001 to 99000, as people write settings.
_TWO_DIGIT_NUMBERS = [
    float(f"{digits}e{power}") for power in range(-4, 4) for digits in range(10, 100)
]
_TWO_DIGIT_COUNTS = [int(number) for number in _TWO_DIGIT_NUMBERS if number.is_integer()]
# Factors of less noise, each smaller by 0.7%, down to 2**-48.
_FALLING_NOISE_FACTORS = [2 ** (-step / 100) for step in range(1, 4800)]


@dataclass(frozen=True, kw_only=True)
class Change:
    """New settings of a refused release; None, or an empty tuple, leaves a setting unchanged.

    Attributes:
        num_teachers: the number of teachers.
        num_queries: the number of queries.
        target_epsilon: the epsilon for which the noise is found.
        noise: pairs (name, value) of fields of the aggregator that set its noise.
    """

    num_teachers: int | None = None
    num_queries: int | None = None
    target_epsilon: float | None = None
    noise: tuple[tuple[str, float], ...] = ()

    def remedy(self) -> Remedy:
        """Returns the change as one `Remedy`, which an error suggests: all new settings together."""
        first_remedy, *further_remedies = self._remedies()
        return replace(first_remedy, also=tuple(further_remedies))

    def __str__(self) -> str:
        return " ".join(f"{remedy.name}={remedy.value:g}" for remedy in self._remedies())

    def _remedies(self) -> list[Remedy]:
        """Returns a `Remedy`, a name with a value, for each changed setting; epsilon and noise have six digits."""
        remedies = []
        if self.num_teachers is not None:
            remedies.append(Remedy(name="num_teachers", value=self.num_teachers))
        if self.num_queries is not None:
            remedies.append(Remedy(name="num_queries", value=self.num_queries))
        if self.target_epsilon is not None:
            remedies.append(Remedy(name="target_epsilon", value=float(f"{self.target_epsilon:g}")))
        for noise_field, field_value in self.noise:
            remedies.append(
                Remedy(name=noise_field, value=float(f"{field_value:g}"), owner="aggregator")
            )
        return remedies


@dataclass(frozen=True)
class ChangeKind(ABC):
    """A kind of change, with the values that the search tries for one setting.

    Attributes:
        candidates: the values of the changed setting, from the smallest change to the largest. If a candidate makes the
            release useful (`is_plan_useful`), so do all later ones.
    """

    candidates: Sequence[float]

    @abstractmethod
    def change(self, candidate: float) -> Change:
        """Returns the change that gives the setting the value `candidate`."""

    @abstractmethod
    def is_useful_by_renyi(self, candidate: float) -> bool:
        """Returns True if the Renyi accountant's prices suggest that a candidate makes the refused release useful.

        If the result is True for a candidate, it is True for all later ones.
        """

    @abstractmethod
    def refined_index(self, working_index: int, priced_plan: PricedRelease) -> int:
        """Returns an estimate of the index of the first candidate that makes the refused release useful.

        The estimate is `working_index` or less. It may be less if the budget's accountant has lower prices than the
        Renyi accountant, so that a smaller change may do.

        Args:
            working_index: the index in `candidates` of a change that makes the release useful.
            priced_plan: the plan of the release with that change, by the budget's accountant.
        """


@dataclass(frozen=True)
class MoreTeachers(ChangeKind):
    """The change to more teachers.

    The noise that a budget needs hardly depends on the number of teachers. So the noise of one plan is enough to judge
    all candidates.

    Attributes:
        renyi_release: the refused release, priced by the Renyi accountant.
    """

    renyi_release: PricedRelease

    @classmethod
    def from_release(cls, renyi_release: PricedRelease, *, num_groups: int | None) -> Self:
        """Returns the kind of change whose candidates are numbers of teachers above that of a release, up to 5,000.

        With a known number of private groups, each teacher of a candidate has at least ten of them.

        Args:
            renyi_release: the refused release, priced by the Renyi accountant.
            num_groups: the number of private groups; None if unknown, for no upper limit of this kind.
        """
        max_teachers = MAX_TEACHERS
        if num_groups is not None:
            max_teachers = min(num_groups // MIN_GROUPS_PER_TEACHER, MAX_TEACHERS)
        current_num_teachers = renyi_release.shape.num_teachers
        larger_teacher_counts = [
            count
            for count in sorted({*_TWO_DIGIT_COUNTS, max_teachers})
            if current_num_teachers < count <= max_teachers
        ]
        return cls(candidates=larger_teacher_counts, renyi_release=renyi_release)

    def change(self, candidate: float) -> Change:
        """Returns the change that sets the number of teachers to `candidate`."""
        return Change(num_teachers=int(candidate))

    def is_useful_by_renyi(self, candidate: float) -> bool:
        """Returns True if a release with `candidate` teachers and the noise of the refused release is useful."""
        return self._is_useful(num_teachers=candidate, priced_plan=self.renyi_release)

    def refined_index(self, working_index: int, priced_plan: PricedRelease) -> int:
        """Returns the index of the smallest number of teachers at which a release with the planned noise is useful.

        The result is at most `working_index`, the index of the number of teachers in `priced_plan`.
        """

        def is_useful(num_teachers: float) -> bool:
            """Returns True if a release with a number of teachers and the noise of `priced_plan` is useful."""
            return self._is_useful(num_teachers, priced_plan)

        return bisect_left(self.candidates, x=True, hi=working_index, key=is_useful)

    def _is_useful(self, num_teachers: float, priced_plan: PricedRelease) -> bool:
        """Returns True if a release with the noise of a plan, but another number of teachers, is useful.

        Args:
            num_teachers: the number of teachers.
            priced_plan: the plan with the noise.
        """
        vote_shape = replace(self.renyi_release.shape, num_teachers=int(num_teachers))
        return is_plan_useful(replace(priced_plan, shape=vote_shape))


@dataclass(frozen=True)
class LargerEpsilon(ChangeKind):
    """The change to a larger epsilon.

    Attributes:
        budget_with_renyi_accountant: the budget of the refused release, with the Renyi accountant.
        lowest_epsilon: the price by the Renyi accountant of noise small enough for a useful release; the epsilon of the
            budget if that is larger.
    """

    budget_with_renyi_accountant: Budget
    lowest_epsilon: float

    @classmethod
    def from_aggregator(
        cls,
        less_noisy_aggregator: Aggregator,
        *,
        vote_shape: VoteShape,
        budget_with_renyi_accountant: Budget,
    ) -> Self:
        """Returns the kind of change whose candidates are larger epsilons than that of the budget, up to 100.

        Args:
            less_noisy_aggregator: the aggregator of the refused release, with noise small enough for a useful release.
            vote_shape: the shape of the votes of the refused release.
            budget_with_renyi_accountant: the budget of the refused release, with the Renyi accountant.
        """
        epsilon = budget_with_renyi_accountant.required_epsilon()
        larger_epsilons = [
            number for number in _TWO_DIGIT_NUMBERS if epsilon < number <= _MAX_EPSILON
        ]
        price = price_or_infinity(
            less_noisy_aggregator, vote_shape=vote_shape, budget=budget_with_renyi_accountant
        )
        return cls(
            candidates=larger_epsilons,
            budget_with_renyi_accountant=budget_with_renyi_accountant,
            lowest_epsilon=max(epsilon, price),
        )

    def change(self, candidate: float) -> Change:
        """Returns the change that sets the epsilon to `candidate`."""
        return Change(target_epsilon=candidate)

    def is_useful_by_renyi(self, candidate: float) -> bool:
        """Returns True if `candidate` is at least the price of noise small enough for a useful release."""
        return candidate >= self.lowest_epsilon

    def refined_index(self, working_index: int, priced_plan: PricedRelease) -> int:
        """Returns the index of the smallest candidate that is at least the planned epsilon divided by a ratio.

        The ratio is the price of `priced_plan` by the Renyi accountant over that by the budget's accountant. The
        result is at most `working_index`.
        """
        ratio = _renyi_ratio(priced_plan, self.budget_with_renyi_accountant)
        likely_epsilon = self.candidates[working_index] / ratio
        larger_epsilons = self.candidates
        return bisect_left(larger_epsilons, x=likely_epsilon, hi=working_index)


@dataclass(frozen=True)
class FewerQueries(ChangeKind):
    """The change to fewer queries, with the same number of teachers or with another one.

    Attributes:
        less_noisy_aggregator: the aggregator of the refused release, with noise small enough for a useful release.
        vote_shape: the shape of the votes of the refused release, with `new_num_teachers` teachers if that is not None.
        budget_with_renyi_accountant: the budget of the refused release, with the Renyi accountant.
        new_num_teachers: the number of teachers that is set together with the queries; None leaves it unchanged.
    """

    less_noisy_aggregator: Aggregator
    vote_shape: VoteShape
    budget_with_renyi_accountant: Budget
    new_num_teachers: int | None = None

    @classmethod
    def from_aggregator(
        cls,
        less_noisy_aggregator: Aggregator,
        *,
        vote_shape: VoteShape,
        budget_with_renyi_accountant: Budget,
        new_num_teachers: int | None = None,
    ) -> Self:
        """Returns the kind of change whose candidates are numbers of queries below that of a release, down to 20.

        The candidates are all such numbers up to 99,000 with two significant digits, from large to small. Some may cost
        more than the budget.

        Args:
            less_noisy_aggregator: the aggregator of the refused release, with noise small enough for a useful release.
            vote_shape: the shape of the votes of the refused release, with `new_num_teachers` teachers if that is not
                None.
            budget_with_renyi_accountant: the budget of the refused release, with the Renyi accountant.
            new_num_teachers: the number of teachers that is set together with the queries; None leaves it unchanged.
        """
        falling_query_counts = [
            count
            for count in reversed(_TWO_DIGIT_COUNTS)
            if MIN_QUERIES <= count < vote_shape.num_queries
        ]
        return cls(
            candidates=falling_query_counts,
            less_noisy_aggregator=less_noisy_aggregator,
            vote_shape=vote_shape,
            budget_with_renyi_accountant=budget_with_renyi_accountant,
            new_num_teachers=new_num_teachers,
        )

    def change(self, candidate: float) -> Change:
        """Returns the change to `candidate` queries, and to `new_num_teachers` if that is not None."""
        return Change(num_teachers=self.new_num_teachers, num_queries=int(candidate))

    def is_useful_by_renyi(self, candidate: float) -> bool:
        """Returns True if the budget pays for `candidate` queries with noise small enough for a useful release."""
        vote_shape = replace(self.vote_shape, num_queries=int(candidate))
        price = price_or_infinity(
            self.less_noisy_aggregator,
            vote_shape=vote_shape,
            budget=self.budget_with_renyi_accountant,
        )
        return price <= self.budget_with_renyi_accountant.required_epsilon()

    def refined_index(self, working_index: int, priced_plan: PricedRelease) -> int:
        """Returns the index of the largest candidate of at most the planned number of queries times a squared ratio.

        The ratio is the price of `priced_plan` by the Renyi accountant over that by the budget's accountant. The
        result is at most `working_index`.
        """
        # An epsilon grows about as the square root of the number of queries.
        ratio = _renyi_ratio(priced_plan, self.budget_with_renyi_accountant)
        max_queries = self.candidates[working_index] * ratio**2

        def is_affordable(num_queries: float) -> bool:
            """Returns True if a number of queries is at most `max_queries`, an estimate of what the budget pays for."""
            return num_queries <= max_queries

        falling_query_counts = self.candidates
        return bisect_left(falling_query_counts, x=True, hi=working_index, key=is_affordable)


def less_noisy_aggregator(priced_release: PricedRelease) -> Aggregator | None:
    """Returns the aggregator of a release with the largest noise, below its own, that is useful; None if none is.

    Useful means `is_plan_useful`. The noise is found to 0.7% and rounded to four significant digits. None is also
    returned for an aggregator whose noise cannot be scaled.
    """

    def is_useful(noise_factor: float) -> bool:
        """Returns True if the release `priced_release` is useful with its noise multiplied by a factor."""
        aggregator = _with_noise_factor(priced_release.aggregator, noise_factor)
        return is_plan_useful(replace(priced_release, aggregator=aggregator))

    try:
        index = bisect_left(_FALLING_NOISE_FACTORS, x=True, key=is_useful)
        if index == len(_FALLING_NOISE_FACTORS):
            return None
        return _with_noise_factor(priced_release.aggregator, _FALLING_NOISE_FACTORS[index])
    except InvalidValue:  # the noise of this aggregator cannot be scaled
        return None


def _with_noise_factor(aggregator: Aggregator, noise_factor: float) -> Aggregator:
    """Returns a copy of an aggregator with its noise multiplied by a factor and rounded to four significant digits."""
    scaled_aggregator = aggregator.scaled(noise_factor)
    changed_values = changed_fields(
        aggregator_before=aggregator, aggregator_after=scaled_aggregator
    )
    rounded_values = {
        field_name: float(f"{value:.4g}") for field_name, value in changed_values.items()
    }
    return with_fields(scaled_aggregator, new_values=rounded_values)


def price_or_infinity(aggregator: Aggregator, vote_shape: VoteShape, budget: Budget) -> float:
    """Returns the epsilon of a release at the budget's delta, by its accountant; infinity if it cannot be priced."""
    try:
        return budget.epsilon_of(aggregator.event(vote_shape))
    except InvalidValue:
        return math.inf


def _renyi_ratio(priced_plan: PricedRelease, budget_with_renyi_accountant: Budget) -> float:
    """Returns the price of a plan by the Renyi accountant, divided by its price by the accountant of its own budget.

    Args:
        priced_plan: the plan, with its price by the accountant of its own budget.
        budget_with_renyi_accountant: the same budget, with the Renyi accountant.
    """
    price = price_or_infinity(
        priced_plan.aggregator, vote_shape=priced_plan.shape, budget=budget_with_renyi_accountant
    )
    return price / priced_plan.epsilon
