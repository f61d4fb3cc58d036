"""What a budget buys, worked out by hand: Q queries of 1 / noise_std each cost Q / noise_std, and prices add up."""

from __future__ import annotations

import math
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
from pate.validation import InvalidValue
from pate.votes import VoteShape
from tests.refusals import refused


@dataclass(frozen=True, kw_only=True)
class OnePrice(GaussianVotes):
    """A release whose Q queries cost epsilon Q / noise_std by basic composition."""

    def event(self, shape: VoteShape) -> Event:
        return SelfComposedEvent(PureDpEvent(epsilon=1 / self.noise_std), count=shape.num_queries)


class Sum(Accountant):
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
    accountant: Any = Sum,
) -> Budget:
    """Returns a budget with the accountant `Sum`, by default at delta 1e-6 and without an epsilon."""
    return budget_from_settings(
        target_epsilon=target_epsilon,
        max_epsilon=max_epsilon,
        target_delta=target_delta,
        accountant=accountant,
    )


def test_a_target_epsilon_is_met_by_the_noise_for_all_queries() -> None:
    """Without a target epsilon, a plan of 600 queries keeps the noise of 200 and costs 3.

    With a target epsilon of 3, the noise is solved for: 200.
    """
    planned = plan_release(OnePrice(noise_std=200.0), shape=SHAPE, budget=budget())
    assert (planned.aggregator, planned.shape) == (OnePrice(noise_std=200.0), SHAPE)
    assert planned.event == planned.aggregator.event(SHAPE)
    assert planned.epsilon == pytest.approx(3.0, rel=1e-12)
    planned = plan_release(OnePrice(noise_std=1.0), shape=SHAPE, budget=budget(target_epsilon=3.0))
    assert planned.shape == SHAPE
    assert planned.aggregator.noise_std == pytest.approx(200.0, rel=2e-4)  # type: ignore[attr-defined]
    assert 3.0 * (1 - 2e-4) < planned.epsilon <= 3.0
    assert planned.event == planned.aggregator.event(SHAPE)


@pytest.mark.parametrize(("most", "queries"), [(1.004, 100), (0.0101, 1), (6.1, 600), (100.0, 600)])
def test_a_query_budget_is_met_by_fewer_queries(most: float, queries: int) -> None:
    """At 1/100 for each query, a maximal epsilon of `most` allows `queries` of 600 queries, and the
    noise stays.
    """
    planned = plan_release(OnePrice(noise_std=100.0), shape=SHAPE, budget=budget(max_epsilon=most))
    assert (planned.aggregator, planned.shape) == (
        OnePrice(noise_std=100.0),
        replace(SHAPE, num_queries=queries),
    )
    assert planned.epsilon == pytest.approx(queries / 100, rel=1e-12)
    assert planned.event == planned.aggregator.event(planned.shape)


def test_budget_decides_the_accountant() -> None:
    """An accountant that returns twice the Renyi epsilon, at a target of 8, gives the noise of the
    Renyi accountant at 4.
    """

    class Double(RdpAccountant):
        def get_epsilon(self, target_delta: float) -> float:
            return 2 * super().get_epsilon(target_delta)

    aggregator = GaussianVotes(noise_std=100.0)
    double = plan_release(
        aggregator, shape=SHAPE, budget=Budget(accountant=Double, delta=1e-6, epsilon=8.0)
    )  # type: ignore[arg-type]
    by_renyi = Budget(delta=1e-6, epsilon=4.0, accountant=RdpAccountant)
    single = plan_release(aggregator, shape=SHAPE, budget=by_renyi)
    assert double.aggregator.noise_std == pytest.approx(single.aggregator.noise_std, rel=3e-4)  # type: ignore[attr-defined]


@pytest.mark.parametrize("target_epsilon", [None, 8.0])
def test_plan_is_refused_if_failure_probabilities_use_up_delta(
    target_epsilon: float | None,
) -> None:
    """600 queries with a failure probability of 1e-8 each exceed delta 1e-6: the plan is refused,
    with and without a target epsilon.
    """
    failing = StableTopK(selection_scale=40.0, test_std=60.0, failure_prob=1e-8)
    with refused("failure_prob", value=1e-08):
        plan_release(
            failing,
            shape=SHAPE,
            budget=budget_from_settings(target_delta=1e-6, target_epsilon=target_epsilon),
        )


def test_prices_equal_hand_computed_values() -> None:
    """12 events of epsilon 0.25 cost 3 by the accountant `Sum`; the default accountant is
    `AutoAccountant`.

    An event without privacy costs infinity, and so do failures that reach delta.
    """
    assert budget().epsilon_of(SelfComposedEvent(PureDpEvent(epsilon=0.25), count=12)) == 3.0
    of_auto = Budget(delta=1e-6)
    event = GaussianEvent(noise_multiplier=2.0)
    assert of_auto.epsilon_of(event) == AutoAccountant().compose(event).get_epsilon(
        target_delta=1e-6
    )
    assert of_auto.epsilon_of(NonPrivateEvent()) == math.inf
    failing = ApproximateEvent(PureDpEvent(epsilon=0.25), failure_prob=5e-7)
    assert (
        of_auto.epsilon_of(failing)
        < of_auto.epsilon_of(SelfComposedEvent(failing, count=2))
        == math.inf
    )


GUMBEL = StableTopK(selection_scale=38.985, test_std=60.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aggregator", "budget"),
    [(GaussianVotes(noise_std=100.0), 8.0), (GUMBEL, 3.0), (GaussianVotes(noise_std=9000.0), 3.0)],
)
def test_one_more_query_exceeds_the_budget(aggregator: Aggregator, budget: float) -> None:
    """`largest_num_queries` returns a number of queries that costs at most the budget, and one more query costs more.

    A result of 999 queries is not checked with one more query.
    """
    most = largest_num_queries(
        aggregator, max_epsilon=budget, target_delta=1e-6, num_labels=40, num_teachers=800
    )
    assert epsilon(aggregator=aggregator, num_queries=most) <= budget
    assert most == 999 or epsilon(aggregator=aggregator, num_queries=most + 1) > budget


def test_number_of_queries_is_limited_by_draw_precision() -> None:
    """A session of any length costs epsilon 1, so that the price does not limit the number of queries.

    For 4 labels the limit is delta / (4 * 2^-53), where 2^-53 is the precision of a draw, and at most 10^9.
    """

    class OneSession(GaussianVotes):
        def event(self, shape: VoteShape) -> PureDpEvent:
            return PureDpEvent(epsilon=1.0)

    most = largest_num_queries(
        OneSession(noise_std=1.0),
        target_delta=1e-9,
        max_epsilon=1.0,
        num_labels=4,
        num_teachers=8,
        accountant=ExactAccountant,
    )
    assert most == int(1e-9 * 2**53 / 4)
    assert (
        largest_num_queries(
            OneSession(noise_std=1.0),
            target_delta=0.5,
            max_epsilon=1.0,
            num_labels=4,
            num_teachers=8,
            accountant=ExactAccountant,
        )
        == 10**9
    )


@pytest.mark.parametrize(
    ("at_most", "most"), [(1, 1), (825, 825), (826, 826), (827, 826), (10_000, 826)]
)
@pytest.mark.parametrize("accountant", [RdpAccountant, lambda: RdpAccountant()])
def test_at_most_limits_the_number_of_queries(at_most: int, most: int, accountant: Any) -> None:
    """826 queries are affordable; `at_most` lowers the result to itself if it is smaller.

    The accountant may be a class or a function.
    """
    largest = largest_num_queries(
        GaussianVotes(noise_std=100.0),
        max_epsilon=8.0,
        target_delta=1e-6,
        num_labels=40,
        num_teachers=800,
        accountant=accountant,
        at_most=at_most,
    )
    assert largest == most


def test_event_is_priced_by_the_only_accountant_that_supports_it() -> None:
    """A user's event is known to the user's accountant alone, which counts 1 for each query: a cap
    of 17.5 allows 17 queries.
    """

    class Mine(Event):
        pass

    class Own(GaussianVotes):
        def event(self, shape: VoteShape) -> Event:
            return SelfComposedEvent(Mine(), count=shape.num_queries)

    class Counts(RdpAccountant):
        num_events = 0

        def compose(self, event: Event, count: int = 1) -> Counts:
            self.num_events += event.count
            return self

        def get_epsilon(self, target_delta: float) -> float:
            return float(self.num_events)

    largest = largest_num_queries(
        Own(noise_std=1.0),
        max_epsilon=17.5,
        target_delta=1e-6,
        num_labels=40,
        num_teachers=800,
        accountant=Counts,
    )
    assert largest == 17


def epsilon(aggregator: Aggregator, num_queries: int, make: Any = AutoAccountant) -> float:
    """Returns the epsilon of an aggregator for a number of queries at delta 1e-6."""
    return (
        make()
        .compose(aggregator.event_for(num_queries=num_queries, num_labels=40, num_teachers=800))
        .get_epsilon(target_delta=1e-6)
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((lambda n=n: replace(SHAPE, **{n: 2.5}), f"{n}=2.5: ") for n in vars(SHAPE)),
        (
            lambda: require_achievable_delta(target_delta=1e-6, num_queries=0, num_labels=40),
            "num_queries=0: ",
        ),
        (
            lambda: require_achievable_delta(target_delta=1e-30, num_queries=600, num_labels=40),
            "target_delta=1e-30: .* 2.67e-12, below",
        ),
        (lambda: budget(target_delta=1.0), "target_delta=1.0: "),
        (lambda: budget(target_epsilon=0.0), "target_epsilon=0.0: "),
        (lambda: budget(max_epsilon=math.inf), "max_epsilon=inf: "),
        (lambda: budget(accountant="rdp"), "accountant=rdp: expected a class such as "),
        (
            lambda: budget(target_epsilon=8.0, max_epsilon=2.0),
            "max_epsilon=2.0: expected no target_epsilon beside it",
        ),
        (
            lambda: bought(max_epsilon=0.001),
            "max_epsilon=0.001: expected at least 0.1000, the price of one query",
        ),
        (
            lambda: bought(target_delta=1e-12),
            "target_delta=1e-12: expected at least 2.67e-12, below which draws",
        ),
        (
            lambda: bought(target_delta=1e-15, max_epsilon=1.0),
            "target_delta=1e-15: .* 4.45e-15, below",
        ),
        (lambda: asked(at_most=0), "at_most=0: "),
        (
            lambda: asked(target_delta=1e-15),
            "target_delta=1e-15: expected at least 4.45e-15, below which draws",
        ),
        (
            lambda: asked(max_epsilon=0.01),
            "max_epsilon=0.01: expected at least 0.*, the price of one query",
        ),
        (lambda: asked(max_epsilon=math.nan), "max_epsilon=nan: "),
        (
            lambda: asked(target_delta=1e-10, failing=1e-9),
            "failure_prob: expected .*, and 1e-09 in all uses up target_delta=1e-10",
        ),
    ],
)
def test_impossible_values_are_refused(make: Any, message: str) -> None:
    """`make` plans a release, or builds its shape or budget, with one impossible value: the error
    has the words `message`.
    """
    assert (
        require_achievable_delta(target_delta=24_000 * 2.0**-53, num_queries=600, num_labels=40)
        == 24_000 * 2.0**-53
    )
    with pytest.raises(InvalidValue, match=message):
        make()


def bought(*, max_epsilon: float | None = None, target_delta: float = 1e-6) -> PricedRelease:
    """Returns the planned release of queries that cost epsilon 0.1 each."""
    return plan_release(
        OnePrice(noise_std=10.0),
        shape=SHAPE,
        budget=budget(max_epsilon=max_epsilon, target_delta=target_delta),
    )


def asked(
    *,
    max_epsilon: float = 8.0,
    target_delta: float = 1e-6,
    failing: float | None = None,
    at_most: int | None = None,
) -> int:
    """Returns the largest number of queries of stable top-k under a budget."""
    aggregator = replace(GUMBEL, failure_prob=failing)
    return largest_num_queries(
        aggregator,
        max_epsilon=max_epsilon,
        target_delta=target_delta,
        at_most=at_most,
        num_labels=40,
        num_teachers=800,
    )
