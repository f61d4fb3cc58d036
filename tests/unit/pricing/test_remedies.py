"""What a refusal suggests, copied literally, is not refused: for random shapes, budgets and aggregators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

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
from pate.pricing import Budget, ReleaseShape, SettingNames, plan_release, require_useful
from pate.pricing.remedies import group_votes_tell_more, remedies
from pate.validation import InvalidValue

TABLE = StableTopK(selection_scale=1.0, test="table", table_order=4.0, table_budget=0.01)
AGGREGATORS: tuple[Aggregator, ...] = (
    CenteredVotes(noise_multiplier=1.0),
    ClippedVotes(noise_std=1.0, vote_clip=4),
    ConfidentGNMax(screening_std=2.0, threshold_share=0.6, noise_std=1.0),
    FixedTopK(k=5, epsilon=1.0),
    GaussianVotes(noise_std=1.0),
    GNMax(noise_std=1.0),
    PowersetGNMax(noise_std=1.0),
    TABLE,
)
Plan = tuple[Aggregator, ReleaseShape, Budget]
NAMES, GROUPS = SettingNames(), 20_000
pytestmark = pytest.mark.slow


def judged(plan: Plan) -> tuple[str, ...]:
    aggregator, _, budget = plan
    return require_useful(aggregator, plan_release(*plan), budget, names=NAMES, num_groups=GROUPS)


def suggested(plan: Plan) -> list[str]:
    """The alternatives that the refusal of a plan names, each one or several settings; none where it passes."""
    try:
        judged(plan)
    except InvalidValue as refused:
        works = str(refused).partition("what works: ")[2].partition("; allow_useless")[0]
        assert works or "nothing was found that works" in str(refused), refused
        return [each for each in works.split(", or ") if each]
    return []


def followed(plan: Plan, text: str) -> Plan:
    aggregator, shape, budget = plan
    for setting in text.split():
        name, value = setting.split("=")
        if name == "target_epsilon":
            budget = replace(budget, target_epsilon=float(value))
        elif name.startswith("aggregator."):
            aggregator = replace(aggregator, **{name.removeprefix("aggregator."): float(value)})
        else:
            shape = replace(shape, **{name: int(value)})
    return aggregator, shape, budget


@pytest.mark.parametrize("aggregator", AGGREGATORS, ids=lambda it: type(it).__name__)
def test_what_is_suggested_and_copied_is_not_refused(aggregator: Aggregator) -> None:
    """Of a random plan with a target that is too much to ask."""
    rng = np.random.default_rng(AGGREGATORS.index(aggregator))
    queries, labels, teachers = (int(10 ** rng.uniform(*ends)) for ends in ((1.5, 3.0), (1.0, 2.0), (0.5, 2.3)))
    shape = ReleaseShape(num_queries=queries, num_labels=labels, num_teachers=teachers)
    plan = aggregator, shape, Budget(target_delta=1e-6, target_epsilon=float(f"{10 ** rng.uniform(-0.5, 0.3):.2g}"))
    found = suggested(plan)
    assert found
    for text in found:
        judged(followed(plan, text))


@pytest.mark.parametrize("max_epsilon", [None, 1.0, 30.0])
def test_less_noise_is_suggested_where_the_queries_can_still_be_paid(max_epsilon: float | None) -> None:
    shape = ReleaseShape(num_queries=200, num_labels=20, num_teachers=100)
    plan = GaussianVotes(noise_std=2000.0), shape, Budget(target_delta=1e-6, max_epsilon=max_epsilon)
    found = [text for text in suggested(plan) if text.startswith("aggregator.")]
    assert len(found) == (0 if max_epsilon == 1.0 else 1), (
        "noise that 20 queries could not be paid with works for nobody"
    )
    for text in found:
        judged(followed(plan, text))
        assert plan_release(*followed(plan, text)).shape.num_queries >= 20


def test_teachers_and_queries_together_where_neither_alone_is_enough() -> None:
    shape = ReleaseShape(num_queries=2000, num_labels=40, num_teachers=50)
    plan = FixedTopK(k=5, epsilon=1.0), shape, Budget(target_delta=1e-6, target_epsilon=0.4)
    (both,) = [text for text in suggested(plan) if "num_teachers=" in text]
    assert both.startswith("num_teachers=2000 num_queries=")
    judged(followed(plan, both))
    for alone in both.split():
        with pytest.raises(InvalidValue, match="expected a release that tells something"):
            judged(followed(plan, alone))


def test_an_epsilon_that_promises_nothing_is_not_suggested() -> None:
    shape = ReleaseShape(num_queries=600, num_labels=40, num_teachers=1)
    plan = GaussianVotes(noise_std=1.0), shape, Budget(target_delta=1e-6, target_epsilon=2.0)
    found = remedies(plan[0], plan_release(*plan), plan[2], num_groups=1000)
    assert found.target_epsilon is None
    with pytest.raises(InvalidValue, match="even where the one teacher is sure"):
        judged(plan)


@pytest.mark.parametrize("num_labels", [8, 12])
def test_answers_of_exactly_k_labels_are_judged_on_queries_that_have_k(num_labels: int) -> None:
    shape = ReleaseShape(num_queries=100, num_labels=num_labels, num_teachers=200)
    quiet = FixedTopK(k=5, epsilon=50.0)
    assert judged((quiet, shape, Budget(target_delta=1e-6))) == ()


@pytest.mark.parametrize(
    ("aggregator", "num_teachers", "epsilon", "of"),
    [
        (GaussianVotes(noise_std=100.0), 200, 2.0, {"num_teachers", "target_epsilon", "num_queries"}),
        (TABLE, 100, 1.0, {"num_teachers", "target_epsilon"}),
    ],
    ids=["gaussian votes", "table"],
)
def test_plans_on_the_embedded_data_that_were_once_paid_for_without_a_word(
    aggregator: Aggregator, num_teachers: int, epsilon: float, of: set[str]
) -> None:
    shape = ReleaseShape(num_queries=600, num_labels=40, num_teachers=num_teachers)
    plan = aggregator, shape, Budget(target_delta=1e-6, target_epsilon=epsilon)
    found = suggested(plan)
    assert {text.partition("=")[0] for text in found} == of
    for text in found:
        judged(followed(plan, text))


def test_votes_of_all_groups_tell_more_by_public_numbers_where_there_are_many() -> None:
    """The first run of stable top-k on 61,629 groups; and neither where groups are few, nor of centered votes."""
    shape, of = (
        ReleaseShape(num_queries=600, num_labels=40, num_teachers=400),
        Budget(target_delta=1e-6, target_epsilon=8.0),
    )
    priced = plan_release(TABLE, shape, of)
    assert group_votes_tell_more(priced, of, num_groups=61_629)
    assert not group_votes_tell_more(priced, of, num_groups=1_617)
    centered = plan_release(CenteredVotes(noise_multiplier=1.0), shape, of)
    assert not group_votes_tell_more(centered, of, num_groups=61_629)
    assert not group_votes_tell_more(replace(priced, epsilon=0.001), of, num_groups=61_629), "noise hides these too"
