"""The check of usefulness before anything is spent: plans that it refuses, and remedies that it suggests for them."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pytest

from pate.accounting import (
    Accountant,
    Budget,
    Event,
    ExactAccountant,
    PureDpAccountant,
    RdpAccountant,
)
from pate.accounting.loss_accountant import AccountantBesideRenyi
from pate.aggregators import (
    Aggregator,
    CenteredVotes,
    ClippedVotes,
    ConfidentGNMax,
    FixedTopK,
    GaussianVotes,
    GNMax,
    PowersetGNMax,
    StableTopK,
)
from pate.errors import InvalidValue, Remedy
from pate.pricing import (
    PricedRelease,
    budget_from_settings,
    cheapest_accountant,
    expected_release,
    plan_release,
    require_useful,
    suggest,
)
from pate.pricing.expectations import is_plan_useful
from pate.pricing.guard import group_votes_tell_more
from pate.pricing.remedies import RemedySearch, remedies, search_remedies
from pate.votes import VoteShape
from tests.refusals import ANY, Refusal, refused_parameter

PEELING = FixedTopK(k=5, epsilon=1.0)
CENTERED = CenteredVotes(noise_multiplier=1.0)
STABLE_TOP_K_WITH_TEST_TABLE = StableTopK(
    selection_scale=1.0, test="table", table_order=4.0, table_budget=0.01
)
AGGREGATORS: tuple[Aggregator, ...] = (
    CENTERED,
    ClippedVotes(noise_std=1.0, vote_clip=4),
    ConfidentGNMax(screening_std=2.0, threshold_share=0.6, noise_std=1.0),
    PEELING,
    GaussianVotes(noise_std=1.0),
    GNMax(noise_std=1.0),
    PowersetGNMax(noise_std=1.0),
    STABLE_TOP_K_WITH_TEST_TABLE,
)


@dataclass(frozen=True)
class Plan:
    """The arguments of `plan_release`."""

    aggregator: Aggregator
    shape: VoteShape
    budget: Budget

    def priced(self) -> PricedRelease:
        """Returns the plan with solved noise and its price."""
        return plan_release(self.aggregator, shape=self.shape, budget=self.budget)


NUM_GROUPS = 20_000
SHAPE = VoteShape(num_queries=600, num_labels=40, num_teachers=200)
pytestmark = pytest.mark.slow


UNLIMITED_SEARCH = RemedySearch(max_seconds=math.inf)


def budget(
    epsilon: float | None = 2.0,
    *,
    target_delta: float = 1e-6,
    accountant_class: Callable[[], Accountant] = RdpAccountant,
    epsilon_of_budget_class: dict[str, float] | None = None,
) -> Budget:
    """Returns a budget, by default with the quick Renyi accountant.

    Args:
        epsilon: the target epsilon; None keeps the noise.
        target_delta: the delta of the guarantee.
        accountant_class: the class of the accountant.
        epsilon_of_budget_class: the epsilon of each budget class of persons, by its name; None for one epsilon for all.
    """
    return budget_from_settings(
        target_delta=target_delta,
        target_epsilon=epsilon,
        accountant=accountant_class,
        budgets=epsilon_of_budget_class,
    )


def doubts_about(
    aggregator: Aggregator,
    shape: VoteShape = SHAPE,
    plan_budget: Budget | None = None,
    *,
    num_groups: int | None = None,
    allow_useless: bool = False,
    search: RemedySearch = UNLIMITED_SEARCH,
) -> tuple[str, ...]:
    """Returns the doubts about a plan in words; raises `InvalidValue` if the plan is refused.

    Args:
        aggregator: the aggregator before its noise is solved for.
        shape: the shape of the release.
        plan_budget: the budget; None for epsilon 2.
        num_groups: the number of private groups; None if unknown.
        allow_useless: whether a useless plan gives a doubt and is not refused.
        search: the search for remedies, by default without a limit of time.
    """
    plan_budget = plan_budget or budget()
    doubts = require_useful(
        aggregator,
        priced_release=plan_release(aggregator, shape=shape, budget=plan_budget),
        budget=plan_budget,
        num_groups=num_groups,
        allow_useless=allow_useless,
        search=search,
    )
    return tuple(map(str, doubts))


def doubts_about_plan(plan: Plan) -> tuple[str, ...]:
    """Returns the doubts about a plan for 20,000 private groups; raises `InvalidValue` if the plan is refused."""
    return doubts_about(
        aggregator=plan.aggregator, shape=plan.shape, plan_budget=plan.budget, num_groups=NUM_GROUPS
    )


def suggested_remedies(plan: Plan) -> tuple[Remedy, ...]:
    """Returns the remedies in the error that refuses a plan; empty if the plan is not refused."""
    try:
        doubts_about_plan(plan=plan)
    except InvalidValue as error:
        assert error.remedies or "nothing was found that works" in error.rule, error
        assert error.waiver == Remedy(name="allow_useless", value=True)
        return error.remedies
    return ()


def plan_with_remedy(plan: Plan, remedy: Remedy) -> Plan:
    """Returns a copy of the plan with the settings that a remedy names."""
    for change in (remedy, *remedy.also):
        if change.name == "target_epsilon":
            plan = replace(plan, budget=replace(plan.budget, epsilon=change.value))
        elif change.owner == "aggregator":
            aggregator = replace(plan.aggregator, **{change.name: change.value})
            plan = replace(plan, aggregator=aggregator)
        else:
            plan = replace(plan, shape=replace(plan.shape, **{change.name: change.value}))
    return plan


@pytest.mark.parametrize(
    "aggregator", AGGREGATORS, ids=[type(aggregator).__name__ for aggregator in AGGREGATORS]
)
def test_suggested_settings_are_not_refused(aggregator: Aggregator) -> None:
    """A plan whose target epsilon is too small to be useful is refused with remedies, each of which is then accepted.

    The plans are random.
    """
    rng = np.random.default_rng(AGGREGATORS.index(aggregator))
    shape = VoteShape(
        num_queries=int(10 ** rng.uniform(low=1.5, high=3.0)),
        num_labels=int(10 ** rng.uniform(low=1.0, high=2.0)),
        num_teachers=int(10 ** rng.uniform(low=0.5, high=2.3)),
    )
    target_epsilon = float(f"{10 ** rng.uniform(low=-0.5, high=0.3):.2g}")
    plan = Plan(aggregator=aggregator, shape=shape, budget=budget(epsilon=target_epsilon))
    remedies_found = suggested_remedies(plan=plan)
    assert remedies_found
    for remedy in remedies_found:
        doubts_about_plan(plan=plan_with_remedy(plan=plan, remedy=remedy))


@pytest.mark.parametrize("max_epsilon", [None, 1.0, 30.0])
def test_less_noise_is_suggested_if_the_queries_stay_affordable(
    max_epsilon: float | None,
) -> None:
    """If a fixed noise std of 2,000 is too large, a remedy lowers it, and the plan with this remedy is accepted.

    With `max_epsilon=1`, less noise would leave fewer than 20 queries, and there is no such remedy.
    """
    shape = VoteShape(num_queries=200, num_labels=20, num_teachers=100)
    plan = Plan(
        aggregator=GaussianVotes(noise_std=2000.0),
        shape=shape,
        budget=budget_from_settings(target_delta=1e-6, max_epsilon=max_epsilon),
    )
    noise_remedies = [
        remedy for remedy in suggested_remedies(plan=plan) if remedy.owner == "aggregator"
    ]
    assert len(noise_remedies) == (0 if max_epsilon == 1.0 else 1)
    for remedy in noise_remedies:
        doubts_about_plan(plan=plan_with_remedy(plan=plan, remedy=remedy))
        assert plan_with_remedy(plan=plan, remedy=remedy).priced().shape.num_queries >= 20


def test_teachers_and_queries_are_changed_together_if_neither_suffices() -> None:
    """The remedy with more teachers, 2000, also names fewer queries if neither change alone is enough.

    The plan with both changes is accepted; with either change alone it is refused.
    """
    shape = VoteShape(num_queries=2000, num_labels=40, num_teachers=50)
    plan = Plan(aggregator=PEELING, shape=shape, budget=budget(epsilon=0.4))
    (remedy_of_two_settings,) = [
        remedy for remedy in suggested_remedies(plan=plan) if remedy.name == "num_teachers"
    ]
    (queries_remedy,) = remedy_of_two_settings.also
    assert remedy_of_two_settings.value == 2000
    assert queries_remedy.name == "num_queries"
    doubts_about_plan(plan=plan_with_remedy(plan=plan, remedy=remedy_of_two_settings))
    for remedy_of_one_setting in (replace(remedy_of_two_settings, also=()), queries_remedy):
        with refused_parameter(
            "num_teachers", value=ANY, rule_words="release that tells something"
        ):
            doubts_about_plan(plan=plan_with_remedy(plan=plan, remedy=remedy_of_one_setting))


def test_plan_of_one_teacher_gets_no_remedies() -> None:
    """A plan with one teacher, who is always sure, is refused without remedies."""
    plan = Plan(
        aggregator=GaussianVotes(noise_std=1.0),
        shape=replace(SHAPE, num_teachers=1),
        budget=Budget(delta=1e-6, epsilon=2.0),
    )
    changes = remedies(
        plan.aggregator, useless_release=plan.priced(), budget=plan.budget, num_groups=1000
    )
    assert changes == []
    # The search above has shown that there are no remedies.
    search_without_time = RemedySearch(max_seconds=0)
    with refused_parameter("num_teachers", value=1, rule_words="the one teacher is sure"):
        doubts_about(
            aggregator=plan.aggregator,
            shape=plan.shape,
            plan_budget=plan.budget,
            search=search_without_time,
        )


@pytest.mark.parametrize("num_labels", [8, 12])
def test_fixed_top_k_is_judged_on_queries_with_k_labels(num_labels: int) -> None:
    """Fixed top-k that releases 5 labels is judged on made-up queries with 5 labels.

    The only doubt is its epsilon of 50.
    """
    shape = VoteShape(num_queries=100, num_labels=num_labels, num_teachers=200)
    plan = Plan(aggregator=FixedTopK(k=5, epsilon=50.0), shape=shape, budget=Budget(delta=1e-6))
    (line,) = doubts_about_plan(plan=plan)
    assert line.endswith("above 10 it promises one person little")


@pytest.mark.parametrize(
    ("aggregator", "num_teachers", "epsilon", "remedy_names"),
    [
        (
            GaussianVotes(noise_std=100.0),
            200,
            2.0,
            {"num_teachers", "target_epsilon", "num_queries"},
        ),
        (STABLE_TOP_K_WITH_TEST_TABLE, 100, 1.0, {"num_teachers", "target_epsilon"}),
    ],
    ids=["gaussian votes", "table"],
)
def test_useless_plans_are_refused(
    aggregator: Aggregator, num_teachers: int, epsilon: float, remedy_names: set[str]
) -> None:
    """A useless plan is refused with remedies for the settings `remedy_names`, each of which makes the plan useful."""
    shape = replace(SHAPE, num_teachers=num_teachers)
    plan = Plan(aggregator=aggregator, shape=shape, budget=budget(epsilon=epsilon))
    remedies_found = suggested_remedies(plan=plan)
    assert {remedy.name for remedy in remedies_found} == remedy_names
    for remedy in remedies_found:
        doubts_about_plan(plan=plan_with_remedy(plan=plan, remedy=remedy))


def test_votes_of_many_groups_tell_more_by_public_numbers() -> None:
    """For 61,629 groups, `group_votes_tell_more` says that centered votes of groups tell more than stable top-k.

    There each private group has a teacher of its own. The function denies this for 1,617 groups, for a release of
    centered votes, and if noise hides both.
    """
    shape = replace(SHAPE, num_teachers=400)
    plan_budget = Budget(delta=1e-6, epsilon=8.0)
    release_of_stable_top_k = plan_release(
        STABLE_TOP_K_WITH_TEST_TABLE, shape=shape, budget=plan_budget
    )
    assert group_votes_tell_more(
        release_of_stable_top_k, budget=plan_budget, centered_aggregator=CENTERED, num_groups=61_629
    )
    assert not group_votes_tell_more(
        release_of_stable_top_k, budget=plan_budget, centered_aggregator=CENTERED, num_groups=1_617
    )
    release_of_centered_votes = plan_release(CENTERED, shape=shape, budget=plan_budget)
    assert not group_votes_tell_more(
        release_of_centered_votes,
        budget=plan_budget,
        centered_aggregator=CENTERED,
        num_groups=61_629,
    )
    # At this price, noise hides the centered votes too.
    release_at_tiny_epsilon = replace(release_of_stable_top_k, epsilon=0.001)
    assert not group_votes_tell_more(
        release_at_tiny_epsilon, budget=plan_budget, centered_aggregator=CENTERED, num_groups=61_629
    )


def test_a_plan_short_of_its_remedy_is_not_useful() -> None:
    """A plan with 10% fewer teachers, 15% less epsilon or 10% more queries than its remedy names is not useful."""
    aggregator = GaussianVotes(noise_std=1.0)
    teachers_remedy, epsilon_remedy, queries_remedy = remedies(
        aggregator,
        useless_release=plan_release(aggregator, shape=SHAPE, budget=budget()),
        budget=budget(),
    )
    shape_with_fewer_teachers = replace(
        SHAPE, num_teachers=round(teachers_remedy.num_teachers * 0.9)
    )
    shape_with_more_queries = replace(SHAPE, num_queries=round(queries_remedy.num_queries * 1.1))
    for plan in (
        Plan(aggregator=aggregator, shape=shape_with_fewer_teachers, budget=budget()),
        Plan(
            aggregator=aggregator,
            shape=SHAPE,
            budget=budget(epsilon=epsilon_remedy.target_epsilon * 0.85),
        ),
        Plan(aggregator=aggregator, shape=shape_with_more_queries, budget=budget()),
    ):
        planned_release = plan.priced()
        assert expected_release(planned_release.aggregator, shape=plan.shape).success < 0.9


class CheapAccountant(AccountantBesideRenyi):
    """An accountant with 0.6 times the Renyi epsilon, in place of a tighter one that takes longer to compute.

    Its epsilon is no bound. The search for remedies begins with the Renyi accountant, and must find smaller changes by
    the lower prices of this one.
    """

    name = "cheap"

    def compose(self, event: Event, count: int = 1) -> Self:
        self._rdp.compose(event, count)
        self.failure_prob = self._rdp.failure_prob
        return self

    def get_epsilon(self, target_delta: float) -> float:
        return 0.6 * self._rdp.get_epsilon(target_delta)

    def get_delta(self, target_epsilon: float) -> float:
        return self._rdp.get_delta(target_epsilon=target_epsilon / 0.6)


@pytest.mark.parametrize("accountant_class", [RdpAccountant, CheapAccountant])
def test_each_change_is_the_smallest_with_two_digits(
    accountant_class: Callable[[], Any],
) -> None:
    """Each of three remedies makes a plan useful, and a change smaller by one unit of the second digit does not.

    The remedies change the number of teachers, the target epsilon, or the number of queries.
    """
    aggregator = GaussianVotes(noise_std=1.0)
    shape = VoteShape(num_queries=300, num_labels=10, num_teachers=100)
    plan = Plan(
        aggregator=aggregator,
        shape=shape,
        budget=budget(epsilon=2.0, accountant_class=accountant_class),
    )
    changes = remedies(
        aggregator, useless_release=plan.priced(), budget=plan.budget, num_groups=100_000
    )
    teachers_remedy, epsilon_remedy, queries_remedy = (change.remedy() for change in changes)
    fewer_teachers_remedy = Remedy(
        name="num_teachers", value=teachers_remedy.value - second_digit_unit(teachers_remedy.value)
    )
    smaller_epsilon_remedy = Remedy(
        name="target_epsilon",
        value=float(f"{epsilon_remedy.value - second_digit_unit(epsilon_remedy.value):.2g}"),
    )
    more_queries_remedy = Remedy(
        name="num_queries", value=queries_remedy.value + second_digit_unit(queries_remedy.value)
    )
    for change, smaller_change in (
        (teachers_remedy, fewer_teachers_remedy),
        (epsilon_remedy, smaller_epsilon_remedy),
        (queries_remedy, more_queries_remedy),
    ):
        assert change.name == smaller_change.name
        assert change.also == ()
        plan_after_remedy = plan_with_remedy(plan=plan, remedy=change)
        doubts_about(
            aggregator=plan_after_remedy.aggregator,
            shape=plan_after_remedy.shape,
            plan_budget=plan_after_remedy.budget,
        )
        planned_release = plan_with_remedy(plan=plan, remedy=smaller_change).priced()
        expected = expected_release(planned_release.aggregator, shape=planned_release.shape)
        assert expected.success < 0.9, smaller_change


def second_digit_unit(number: float) -> float:
    """Returns the value of one unit in the second digit of a number: 10 for 230 and 0.1 for 2.3."""
    return 10 ** (math.floor(math.log10(number)) - 1)


def test_search_reports_the_refusal_and_obeys_its_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The search for remedies begins no plan after 20 seconds, and reports the refusal before it begins.

    Each plan takes 7 seconds of a false clock, so three are tried. With 0 seconds, nothing is found and the search is
    marked as incomplete.
    """
    calls: list[object] = []
    seconds = 0.0

    def plan_for_seven_seconds(
        aggregator: Aggregator, vote_shape: VoteShape, budget: Budget
    ) -> PricedRelease:
        nonlocal seconds
        seconds += 7
        calls.append("plan")
        return plan_release(aggregator, shape=vote_shape, budget=budget)

    monkeypatch.setattr("pate.pricing.changed_plans.plan_or_none", plan_for_seven_seconds)

    def ignore_progress(done: int, note: str = "") -> None:
        pass

    def open_stage(name: str, total: int | None) -> AbstractContextManager[Callable[..., None]]:
        calls.append(name)
        return nullcontext(ignore_progress)

    def report_refusal(refusal: InvalidValue, seconds: float) -> None:
        calls.append((refusal.name, refusal.value, seconds))

    search_of_20_seconds = RemedySearch(
        max_seconds=20.0,
        report_refusal=report_refusal,
        open_stage=open_stage,
        clock=lambda: seconds,
    )
    with refused_parameter(
        "num_teachers",
        value=200,
        remedies=("num_teachers", "target_epsilon"),
        waiver="allow_useless",
    ):
        doubts_about(aggregator=GaussianVotes(noise_std=1.0), search=search_of_20_seconds)
    assert calls[0] == ("num_teachers", 200, 20.0)
    # The three plans begin at 0, 7 and 14 seconds.
    assert calls[1:] == ["searching for settings that work", "plan", "plan", "plan"]
    calls.clear()
    search_without_time = replace(search_of_20_seconds, max_seconds=0.0)
    with refused_parameter("num_teachers", value=200, rule_words="found nothing that works"):
        doubts_about(aggregator=GaussianVotes(noise_std=1.0), search=search_without_time)
    plan = Plan(aggregator=GaussianVotes(noise_std=1.0), shape=SHAPE, budget=budget())
    result = search_remedies(
        plan.aggregator,
        useless_release=plan.priced(),
        budget=plan.budget,
        num_groups=None,
        search=search_without_time,
    )
    assert not result.is_complete


@pytest.mark.parametrize("num_plans", [5, 12])
def test_interrupted_search_suggests_no_change_that_pure_dp_prices_above_the_budget(
    num_plans: int,
) -> None:
    """An interrupted search returns no change after 5 plans, and one useful change after 12 plans.

    The change is useful by the budget's accountant. Changes that only the Renyi accountant has priced are dropped, as
    `PureDpAccountant` prices a bounded range by its epsilon of pure DP, above the price of the Renyi accountant.
    """
    readings = iter(range(1000))
    plan = Plan(
        aggregator=PEELING,
        shape=SHAPE,
        budget=budget(epsilon=8.0, accountant_class=PureDpAccountant),
    )
    result = search_remedies(
        plan.aggregator,
        useless_release=plan.priced(),
        budget=plan.budget,
        num_groups=NUM_GROUPS,
        search=RemedySearch(max_seconds=num_plans, clock=lambda: float(next(readings))),
    )
    assert not result.is_complete
    assert len(result.changes) == (1 if num_plans == 12 else 0)
    for change in result.changes:
        changed_plan = plan_with_remedy(plan, remedy=change.remedy())
        assert is_plan_useful(changed_plan.priced())


def test_no_other_epsilon_is_suggested_for_budgets_of_classes() -> None:
    """A useless plan with an epsilon for each class of persons is refused with two remedies.

    The remedies are more teachers and fewer queries, and not another epsilon.
    """
    plan_budget = budget(epsilon=None, epsilon_of_budget_class={"cautious": 0.5, "usual": 1.0})
    with refused_parameter(
        "num_teachers", value=200, remedies=("num_teachers", "num_queries")
    ) as refusal:
        doubts_about(aggregator=CENTERED, plan_budget=plan_budget, num_groups=5000)
    assert all(remedy.also == () for remedy in refusal.value.remedies)


def test_allowed_useless_release_gives_a_doubt_without_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `allow_useless`, a useless plan gives one doubt, and no remedies are looked for."""
    monkeypatch.setattr("pate.pricing.guard.search_remedies", None)
    (line,) = doubts_about(aggregator=GaussianVotes(noise_std=1.0), allow_useless=True)
    assert line.endswith("where chance has 50%; allowed by allow_useless=True")


@pytest.mark.parametrize(
    "plan_budget",
    [budget(epsilon=1e-12), budget(epsilon=1e-30), budget(epsilon=None)],
    ids=["epsilon of 1e-12", "epsilon of 1e-30", "fixed noise"],
)
@pytest.mark.parametrize("noise_scale", [1e8, 1e12])
def test_nearly_free_and_useless_release_is_refused(
    plan_budget: Budget, noise_scale: float
) -> None:
    """A release that tells nothing is refused with remedies, even if its epsilon is nearly 0.

    With `allow_useless`, the release gives a doubt.
    """
    centered = CenteredVotes(noise_multiplier=noise_scale)
    for aggregator in (
        GaussianVotes(noise_std=noise_scale),
        FixedTopK(k=5, epsilon=1e-15),
        centered,
    ):
        with refused_parameter(
            "num_teachers", value=200, rule_words="of the answered bits would be right"
        ) as caught:
            doubts_about(aggregator=aggregator, plan_budget=plan_budget)
        assert caught.value.remedies
        (line,) = doubts_about(aggregator=aggregator, plan_budget=plan_budget, allow_useless=True)
        assert line.endswith("allowed by allow_useless=True")


def test_release_that_answers_only_unanimous_queries_is_refused() -> None:
    """A plan of stable top-k that would answer hardly any query with its 50 teachers is refused.

    The plan with the suggested number of teachers, or with the suggested epsilon, is accepted.
    """
    shape = VoteShape(num_queries=100, num_labels=40, num_teachers=50)
    plan_budget = budget(epsilon=12.0)
    with refused_parameter("num_teachers", value=50, rule_words="of the queries would be answered"):
        doubts_about(aggregator=STABLE_TOP_K_WITH_TEST_TABLE, shape=shape, plan_budget=plan_budget)
    teachers_remedy, epsilon_remedy, *_ = remedies(
        STABLE_TOP_K_WITH_TEST_TABLE,
        useless_release=plan_release(STABLE_TOP_K_WITH_TEST_TABLE, shape=shape, budget=plan_budget),
        budget=plan_budget,
    )
    shape_with_more_teachers = replace(shape, num_teachers=teachers_remedy.num_teachers)
    assert (
        doubts_about(
            aggregator=STABLE_TOP_K_WITH_TEST_TABLE,
            shape=shape_with_more_teachers,
            plan_budget=plan_budget,
        )
        is not None
    )
    assert (
        doubts_about(
            aggregator=STABLE_TOP_K_WITH_TEST_TABLE,
            shape=shape,
            plan_budget=replace(plan_budget, epsilon=epsilon_remedy.target_epsilon),
        )
        is not None
    )


def test_release_without_noise_or_expectation_gives_no_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A release of all labels, whose epsilon is 0, gives no doubt, nor does one whose votes cannot be made up."""
    budget_of_given_noise = budget(epsilon=None)
    all_labels = FixedTopK(k=40, epsilon=1.0)  # releases each of the 40 labels, so it costs nothing
    assert doubts_about(aggregator=all_labels, plan_budget=budget_of_given_noise) == ()

    def refuse_votes(aggregator: Aggregator, shape: VoteShape, agreement: float = 1.0) -> None:
        raise InvalidValue(name="votes", value="made up", rule="others")

    monkeypatch.setattr("pate.pricing.expectations.expected_release", refuse_votes)
    much_noise = GaussianVotes(noise_std=1e6)
    assert doubts_about(aggregator=much_noise, plan_budget=budget_of_given_noise) == ()


class TestDelta:
    def test_delta_above_one_over_the_groups_gives_a_doubt(self) -> None:
        """Delta 1e-4 gives a doubt, a warning that refuses nothing, with 20,000 groups and none with 9,000.

        At delta above 1 / groups, a mechanism that publishes a group at random would be allowed.
        """
        shape_of_many_teachers = replace(SHAPE, num_teachers=2000)
        (line,) = doubts_about(
            aggregator=GaussianVotes(noise_std=1.0),
            shape=shape_of_many_teachers,
            plan_budget=budget(target_delta=1e-4),
            num_groups=20_000,
        )
        assert line.startswith(
            "target_delta=0.0001: above 1 / 20000, one over the private groups: publishing a group"
        )
        assert (
            doubts_about(
                aggregator=GaussianVotes(noise_std=1.0),
                shape=shape_of_many_teachers,
                plan_budget=budget(target_delta=1e-4),
                num_groups=9_000,
            )
            == ()
        )

    def test_delta_of_a_hundredth_is_refused_unless_allowed(self) -> None:
        """Delta 0.01 is refused, and gives a doubt with `allow_useless`; delta 0.0099 is accepted."""
        shape_of_many_teachers = replace(SHAPE, num_teachers=2000)
        plan_budget = budget(target_delta=0.01)
        with pytest.raises(InvalidValue) as refusal:
            doubts_about(
                aggregator=GaussianVotes(noise_std=1.0),
                shape=shape_of_many_teachers,
                plan_budget=plan_budget,
            )
        assert (refusal.value.name, refusal.value.value) == ("target_delta", 0.01)
        assert refusal.value.waiver == Remedy(name="allow_useless", value=True)
        (line,) = doubts_about(
            aggregator=GaussianVotes(noise_std=1.0),
            shape=shape_of_many_teachers,
            plan_budget=plan_budget,
            allow_useless=True,
        )
        assert "allowed by allow_useless=True" in line
        doubts_about(
            aggregator=GaussianVotes(noise_std=1.0),
            shape=shape_of_many_teachers,
            plan_budget=replace(plan_budget, delta=0.0099),
        )


class TestSuggestion:
    @pytest.mark.parametrize(
        "aggregator", [GaussianVotes(noise_std=1.0), PEELING], ids=["votes", "peeling"]
    )
    def test_suggestion_is_useful_and_of_moderate_size(self, aggregator: Aggregator) -> None:
        """The suggestion has between 100 and 3,000 teachers, and a success of at least 90%.

        The success is the probability that a query is answered, times the share of right labels. A student would
        learn as much from fewer queries that are answered without noise, the `clear_queries`.
        """
        suggestion = suggest(
            aggregator, shape=SHAPE, budget=budget(epsilon=4.0), num_private=62_115
        )
        shape = replace(
            SHAPE, num_teachers=suggestion.num_teachers, num_queries=suggestion.num_queries
        )
        planned_release = plan_release(aggregator, shape=shape, budget=budget(epsilon=4.0))
        assert expected_release(planned_release.aggregator, shape=shape).success >= 0.9
        assert suggestion.records_per_teacher == pytest.approx(62_115 / suggestion.num_teachers)
        assert 100 < suggestion.num_teachers < 3000
        assert 0 < suggestion.clear_queries < suggestion.num_queries

    def test_more_private_records_improve_the_suggestion(self) -> None:
        """With ten times the records, the suggestion has more than 1.5 times the clear queries.

        These are the queries, answered without noise, from which a student would learn as much.
        """
        fewer_records = suggest(
            PEELING, shape=SHAPE, budget=budget(epsilon=4.0), num_private=10_000
        )
        more_records = suggest(
            PEELING, shape=SHAPE, budget=budget(epsilon=4.0), num_private=100_000
        )
        assert more_records.clear_queries > 1.5 * fewer_records.clear_queries

    def test_suggestion_stays_within_the_pool(self) -> None:
        """With `max_queries=300`, `suggest` returns at most 300 queries."""
        suggestion = suggest(PEELING, shape=SHAPE, budget=budget(epsilon=4.0), max_queries=300)
        assert suggestion.num_queries <= 300

    @pytest.mark.parametrize(
        ("plan_budget", "num_private", "refusal"),
        [
            (budget(epsilon=None), None, refused_parameter("suggest", value="true")),
            (
                budget(epsilon=0.001),
                1000,
                refused_parameter("target_epsilon", value=0.001, rule_words="up to 100 were tried"),
            ),
            (budget(epsilon=2.0), 50, refused_parameter("num_private", value=50)),
        ],
        ids=["fixed noise", "small epsilon", "few records"],
    )
    def test_missing_suggestion_gives_a_reason(
        self, plan_budget: Budget, num_private: int | None, refusal: Refusal
    ) -> None:
        """`suggest` raises with the reason if noise is fixed, epsilon is too small, or private records are too few."""
        with refusal:
            suggest(PEELING, shape=SHAPE, budget=plan_budget, num_private=num_private)


def test_cheapest_quick_accountant_is_chosen() -> None:
    """`cheapest_accountant` names the exact accountant for one Gaussian, and the Renyi accountant for many bits.

    If the budget's own accountant is cheapest, it names that one.
    """

    def cheapest_name(aggregator: Aggregator, *, budget: Budget) -> str:
        """Returns the name of the cheapest accountant for a release with the noise of the aggregator."""
        release = plan_release(aggregator, shape=SHAPE, budget=budget)
        accountants = {"rdp": RdpAccountant, "exact": ExactAccountant}
        return cheapest_accountant(release, budget=budget, accountants=accountants).accountant

    renyi_budget = budget(epsilon=None)
    auto_budget = Budget(delta=1e-6)
    centered_votes = CenteredVotes(noise_multiplier=5.0)
    gaussian_votes = GaussianVotes(noise_std=200.0)
    assert cheapest_name(aggregator=centered_votes, budget=renyi_budget) == "exact"
    assert cheapest_name(aggregator=gaussian_votes, budget=renyi_budget) == "rdp"
    assert cheapest_name(aggregator=gaussian_votes, budget=auto_budget) == "auto"
