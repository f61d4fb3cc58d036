"""Plans of releases, with prices worked out by hand: a query of `OnePrice` costs 1 / noise_std, and prices add up."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import pytest

from pate.accounting import (
    Accountant,
    ApproximateEvent,
    AutoAccountant,
    Budget,
    Event,
    ExactAccountant,
    GaussianEvent,
    NonPrivateEvent,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
)
from pate.aggregators import Aggregator, GaussianVotes, StableTopK
from pate.pricing import PricedRelease, budget_from_settings, largest_num_queries, plan_release
from pate.pricing.affordable_queries import require_achievable_delta
from pate.votes import VoteShape
from tests.refusals import ANY, Refusal, refused_parameter


@dataclass(frozen=True, kw_only=True)
class OnePrice(GaussianVotes):
    """A release whose Q queries cost epsilon Q / noise_std by basic composition."""

    def event(self, shape: VoteShape) -> Event:
        return SelfComposedEvent(PureDpEvent(epsilon=1 / self.noise_std), count=shape.num_queries)


class SumOfEpsilons(Accountant):
    """An accountant for events that only basic composition can price."""

    name = "sum"
    failure_prob = 0.0

    def __init__(self) -> None:
        self.total = 0.0

    def compose(self, event: Event, count: int = 1) -> Self:
        assert isinstance(event, SelfComposedEvent) and isinstance(event.event, PureDpEvent)
        self.total += count * event.count * event.event.epsilon
        return self

    def get_epsilon(self, target_delta: float) -> float:
        return self.total

    def get_delta(self, target_epsilon: float) -> float:
        return 0.0 if self.total <= target_epsilon else 1.0


SHAPE = VoteShape(num_queries=600, num_labels=40, num_teachers=800)


def budget(
    *,
    target_epsilon: float | None = None,
    max_epsilon: float | None = None,
    target_delta: float = 1e-6,
    accountant: Any = SumOfEpsilons,
) -> Budget:
    """Returns a budget with the accountant `SumOfEpsilons`, by default at delta 1e-6 and without an epsilon."""
    return budget_from_settings(
        target_epsilon=target_epsilon,
        max_epsilon=max_epsilon,
        target_delta=target_delta,
        accountant=accountant,
    )


def test_a_target_epsilon_is_met_by_the_noise_for_all_queries() -> None:
    """With a target epsilon of 3, a plan of 600 queries solves for the noise, 200.

    Without a target epsilon, a plan keeps a noise of 200 and costs 3.
    """
    planned = plan_release(OnePrice(noise_std=200.0), shape=SHAPE, budget=budget())
    assert planned.aggregator == OnePrice(noise_std=200.0)
    assert planned.shape == SHAPE
    assert planned.event == planned.aggregator.event(SHAPE)
    assert planned.epsilon == pytest.approx(3.0, rel=1e-12)
    planned = plan_release(OnePrice(noise_std=1.0), shape=SHAPE, budget=budget(target_epsilon=3.0))
    assert planned.shape == SHAPE
    assert planned.aggregator.noise_std == pytest.approx(200.0, rel=2e-4)  # type: ignore[attr-defined]
    assert 3.0 * (1 - 2e-4) < planned.epsilon <= 3.0
    assert planned.event == planned.aggregator.event(SHAPE)


@pytest.mark.parametrize(
    ("max_epsilon", "num_queries"), [(1.004, 100), (0.0101, 1), (6.1, 600), (100.0, 600)]
)
def test_a_query_budget_is_met_by_fewer_queries(max_epsilon: float, num_queries: int) -> None:
    """If each query costs 1/100, `max_epsilon` pays for `num_queries` of 600 queries, and the noise stays as it is."""
    planned = plan_release(
        OnePrice(noise_std=100.0), shape=SHAPE, budget=budget(max_epsilon=max_epsilon)
    )
    assert planned.aggregator == OnePrice(noise_std=100.0)
    assert planned.shape == replace(SHAPE, num_queries=num_queries)
    assert planned.epsilon == pytest.approx(num_queries / 100, rel=1e-12)
    assert planned.event == planned.aggregator.event(planned.shape)


def test_budget_decides_the_accountant() -> None:
    """The noise is solved for by the budget's accountant.

    An accountant that states twice the Renyi epsilon gives, at epsilon 8, the noise of the Renyi accountant at 4.
    """

    class DoubleAccountant(RdpAccountant):
        def get_epsilon(self, target_delta: float) -> float:
            return 2 * super().get_epsilon(target_delta)

    def solved_noise(budget: Budget) -> float:
        """Returns the noise of Gaussian votes that a plan finds for a budget."""
        planned = plan_release(GaussianVotes(noise_std=100.0), shape=SHAPE, budget=budget)
        assert isinstance(planned.aggregator, GaussianVotes)
        return planned.aggregator.noise_std

    budget_by_double_accountant = Budget(delta=1e-6, epsilon=8.0, accountant=DoubleAccountant)
    budget_by_renyi_accountant = Budget(delta=1e-6, epsilon=4.0, accountant=RdpAccountant)
    assert solved_noise(budget_by_double_accountant) == pytest.approx(
        solved_noise(budget_by_renyi_accountant), rel=3e-4
    )


@pytest.mark.parametrize("target_epsilon", [None, 8.0])
def test_plan_is_refused_if_failure_probabilities_use_up_delta(
    target_epsilon: float | None,
) -> None:
    """A plan is refused if the failure probabilities of its queries exceed delta, with and without a target epsilon.

    600 queries with a failure probability of 1e-8 each exceed delta 1e-6.
    """
    aggregator_with_failure_prob = StableTopK(
        selection_scale=40.0, test_std=60.0, failure_prob=1e-8
    )
    with refused_parameter("failure_prob", value=1e-08):
        plan_release(
            aggregator_with_failure_prob,
            shape=SHAPE,
            budget=budget_from_settings(target_delta=1e-6, target_epsilon=target_epsilon),
        )


def test_prices_equal_hand_computed_values() -> None:
    """12 events of epsilon 0.25 cost 3 by the accountant `SumOfEpsilons`; the default accountant is `AutoAccountant`.

    An event without privacy costs infinity, and so do failures that reach delta.
    """
    assert budget().epsilon_of(SelfComposedEvent(PureDpEvent(epsilon=0.25), count=12)) == 3.0
    default_budget = Budget(delta=1e-6)
    event = GaussianEvent(noise_multiplier=2.0)
    auto_epsilon = AutoAccountant().compose(event).get_epsilon(target_delta=1e-6)
    assert default_budget.epsilon_of(event) == auto_epsilon
    assert default_budget.epsilon_of(NonPrivateEvent()) == math.inf
    event_with_failure_prob = ApproximateEvent(PureDpEvent(epsilon=0.25), failure_prob=5e-7)
    assert default_budget.epsilon_of(event_with_failure_prob) < math.inf
    assert (
        default_budget.epsilon_of(SelfComposedEvent(event_with_failure_prob, count=2)) == math.inf
    )


GUMBEL = StableTopK(selection_scale=38.985, test_std=60.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aggregator", "max_epsilon"),
    [(GaussianVotes(noise_std=100.0), 8.0), (GUMBEL, 3.0), (GaussianVotes(noise_std=9000.0), 3.0)],
    ids=["much noise", "stable top-k", "very much noise"],
)
def test_one_more_query_exceeds_the_budget(aggregator: Aggregator, max_epsilon: float) -> None:
    """`largest_num_queries` returns an affordable number of queries, and one more query costs more than the budget."""
    num_queries = largest_num_queries(
        aggregator, max_epsilon=max_epsilon, target_delta=1e-6, num_labels=40, num_teachers=800
    )
    assert epsilon_of_queries(aggregator, num_queries=num_queries) <= max_epsilon
    assert epsilon_of_queries(aggregator, num_queries=num_queries + 1) > max_epsilon


def epsilon_of_queries(aggregator: Aggregator, *, num_queries: int) -> float:
    """Returns the epsilon of a number of queries with 40 labels each and 800 teachers, at delta 1e-6."""
    event = aggregator.event_for(num_queries=num_queries, num_labels=40, num_teachers=800)
    return AutoAccountant().compose(event).get_epsilon(target_delta=1e-6)


def test_number_of_queries_is_limited_by_draw_precision() -> None:
    """If the price does not limit the number of queries, the precision of draws does.

    For 4 labels the limit is delta / (4 * 2^-53), where 2^-53 is the precision of a draw, and at most 10^9. A session
    of any length costs epsilon 1 here.
    """

    class OneSession(GaussianVotes):
        def event(self, shape: VoteShape) -> PureDpEvent:
            return PureDpEvent(epsilon=1.0)

    def largest_count(target_delta: float) -> int:
        """Returns the largest number of queries of a session at a delta."""
        return largest_num_queries(
            OneSession(noise_std=1.0),
            target_delta=target_delta,
            max_epsilon=1.0,
            num_labels=4,
            num_teachers=8,
            accountant=ExactAccountant,
        )

    assert largest_count(target_delta=1e-9) == int(1e-9 * 2**53 / 4)
    assert largest_count(target_delta=0.5) == 10**9


def make_renyi_accountant() -> RdpAccountant:
    """Returns an empty accountant; stands for an accountant that is not a class."""
    return RdpAccountant()


@pytest.mark.parametrize(
    ("at_most", "expected"), [(1, 1), (825, 825), (826, 826), (827, 826), (10_000, 826)]
)
@pytest.mark.parametrize(
    "make_accountant", [RdpAccountant, make_renyi_accountant], ids=["class", "function"]
)
def test_at_most_limits_the_number_of_queries(
    at_most: int, expected: int, make_accountant: Callable[[], Accountant]
) -> None:
    """If 826 queries are affordable, `largest_num_queries` returns 826 or `at_most`, whichever is smaller.

    The accountant may be a class or a function.
    """
    largest = largest_num_queries(
        GaussianVotes(noise_std=100.0),
        max_epsilon=8.0,
        target_delta=1e-6,
        num_labels=40,
        num_teachers=800,
        accountant=make_accountant,
        at_most=at_most,
    )
    assert largest == expected


def test_event_is_priced_by_the_only_accountant_that_supports_it() -> None:
    """An event that only a user's accountant can price is priced by it: at 1 per query, a cap of 17.5 allows 17."""

    class OwnEvent(Event):
        pass

    class AggregatorOfOwnEvent(GaussianVotes):
        def event(self, shape: VoteShape) -> Event:
            return SelfComposedEvent(OwnEvent(), count=shape.num_queries)

    class AccountantOfOwnEvent(RdpAccountant):
        num_events = 0

        def compose(self, event: Event, count: int = 1) -> AccountantOfOwnEvent:
            self.num_events += event.count
            return self

        def get_epsilon(self, target_delta: float) -> float:
            return float(self.num_events)

    largest = largest_num_queries(
        AggregatorOfOwnEvent(noise_std=1.0),
        max_epsilon=17.5,
        target_delta=1e-6,
        num_labels=40,
        num_teachers=800,
        accountant=AccountantOfOwnEvent,
    )
    assert largest == 17


@pytest.mark.parametrize(
    ("make_shape", "name"),
    [
        (lambda: replace(SHAPE, num_queries=2.5), "num_queries"),
        (lambda: replace(SHAPE, num_labels=2.5), "num_labels"),
        (lambda: replace(SHAPE, num_teachers=2.5), "num_teachers"),
    ],
    ids=["queries", "labels", "teachers"],
)
def test_shape_of_fractions_is_refused(make_shape: Callable[[], VoteShape], name: str) -> None:
    """A shape of 2.5 queries, labels or teachers is refused."""
    with refused_parameter(name, value=2.5):
        make_shape()


@pytest.mark.parametrize(
    ("make_budget", "refusal"),
    [
        pytest.param(
            lambda: budget(target_delta=1.0),
            refused_parameter("target_delta", value=1.0),
            id="delta of 1",
        ),
        pytest.param(
            lambda: budget(target_epsilon=0.0),
            refused_parameter("target_epsilon", value=0.0),
            id="epsilon of 0",
        ),
        pytest.param(
            lambda: budget(max_epsilon=math.inf),
            refused_parameter("max_epsilon", value=math.inf),
            id="infinite epsilon",
        ),
        pytest.param(
            lambda: budget(accountant="rdp"),
            refused_parameter("accountant", value="rdp", rule_words="a class such as "),
            id="name of an accountant",
        ),
        pytest.param(
            lambda: budget(target_epsilon=8.0, max_epsilon=2.0),
            refused_parameter("max_epsilon", value=2.0, rule_words="no target_epsilon beside it"),
            id="two epsilons",
        ),
    ],
)
def test_impossible_budgets_are_refused(
    make_budget: Callable[[], Budget], refusal: Refusal
) -> None:
    """Settings that no budget has are refused, each with the name and the value of the setting."""
    with refusal:
        make_budget()


def test_smallest_achievable_delta_is_2_to_the_minus_53_for_each_label() -> None:
    """For 600 queries of 40 labels, the smallest delta that draws can keep is 24,000 * 2^-53 = 2.67e-12."""
    smallest = 24_000 * 2.0**-53
    assert (
        require_achievable_delta(target_delta=smallest, num_queries=600, num_labels=40) == smallest
    )
    with refused_parameter("target_delta", value=1e-30, rule_words="at least 2.67e-12"):
        require_achievable_delta(target_delta=1e-30, num_queries=600, num_labels=40)
    with refused_parameter("num_queries", value=0):
        require_achievable_delta(target_delta=1e-6, num_queries=0, num_labels=40)


@pytest.mark.parametrize(
    ("make_plan", "refusal"),
    [
        pytest.param(
            lambda: plan_cheap_queries(max_epsilon=0.001),
            refused_parameter(
                "max_epsilon", value=0.001, rule_words="at least 0.1000, the price of one query"
            ),
            id="less than one query costs",
        ),
        pytest.param(
            lambda: plan_cheap_queries(target_delta=1e-12),
            refused_parameter("target_delta", value=1e-12, rule_words="at least 2.67e-12"),
            id="delta too small for 600 queries",
        ),
        pytest.param(
            lambda: plan_cheap_queries(target_delta=1e-15, max_epsilon=1.0),
            refused_parameter("target_delta", value=1e-15, rule_words="at least 4.45e-15"),
            id="delta too small for one query",
        ),
    ],
)
def test_plan_refuses_impossible_budgets(
    make_plan: Callable[[], PricedRelease], refusal: Refusal
) -> None:
    """A plan is refused if its budget pays for no query, or if its delta is too small for the precision of draws."""
    with refusal:
        make_plan()


@pytest.mark.parametrize(
    ("count_queries", "refusal"),
    [
        pytest.param(
            lambda: affordable_queries(at_most=0),
            refused_parameter("at_most", value=0),
            id="no queries",
        ),
        pytest.param(
            lambda: affordable_queries(target_delta=1e-15),
            refused_parameter("target_delta", value=1e-15, rule_words="at least 4.45e-15"),
            id="delta too small for one query",
        ),
        pytest.param(
            lambda: affordable_queries(max_epsilon=0.01),
            refused_parameter("max_epsilon", value=0.01, rule_words=", the price of one query"),
            id="less than one query costs",
        ),
        pytest.param(
            lambda: affordable_queries(max_epsilon=math.nan),
            refused_parameter("max_epsilon", value=math.nan),
            id="epsilon is no number",
        ),
        pytest.param(
            lambda: affordable_queries(target_delta=1e-10, failure_prob=1e-9),
            refused_parameter(
                "failure_prob", value=ANY, rule_words="1e-09 in all uses up target_delta=1e-10"
            ),
            id="failures use up delta",
        ),
    ],
)
def test_largest_number_of_queries_refuses_impossible_values(
    count_queries: Callable[[], int], refusal: Refusal
) -> None:
    """`largest_num_queries` refuses values for which not a single query is possible."""
    with refusal:
        count_queries()


def plan_cheap_queries(
    *, max_epsilon: float | None = None, target_delta: float = 1e-6
) -> PricedRelease:
    """Returns the planned release of queries that cost epsilon 0.1 each."""
    return plan_release(
        OnePrice(noise_std=10.0),
        shape=SHAPE,
        budget=budget(max_epsilon=max_epsilon, target_delta=target_delta),
    )


def affordable_queries(
    *,
    max_epsilon: float = 8.0,
    target_delta: float = 1e-6,
    failure_prob: float | None = None,
    at_most: int | None = None,
) -> int:
    """Returns the largest number of queries of stable top-k under a budget, and at most `at_most`."""
    aggregator = replace(GUMBEL, failure_prob=failure_prob)
    return largest_num_queries(
        aggregator,
        max_epsilon=max_epsilon,
        target_delta=target_delta,
        at_most=at_most,
        num_labels=40,
        num_teachers=800,
    )
