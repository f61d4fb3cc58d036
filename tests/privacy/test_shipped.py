"""The verifier finds nothing on all that ships, and the list of what ships is complete."""

import inspect
from typing import Any

import numpy as np
import pytest

from pate import aggregators, mechanisms
from pate.accounting import Accountant, Adjacency, ExactAccountant, PldAccountant
from pate.aggregators import Aggregator
from pate.verification import Verdict, all_histograms, verify
from tests.privacy.case import Case, Shape, by_rank
from tests.privacy.shipped import CASES, WITHOUT_DISTRIBUTION

ADJACENCIES = tuple(Adjacency)
TIGHT = {"PeelingTopK-2.0", "GapSelection-gumbel", "StabilityTest-gaussian-1", "StableTopK-gumbel", "GaussianVotes"}
SMALLER = [(labels, teachers) for labels in (1, 2, 3) for teachers in (1, 2, 4, 6)] + [(4, 1), (4, 3)]


def verdict_of(case: Case, shape: Shape, **options: Any) -> Verdict:
    subject = case.subject(shape)
    return verify(
        by_rank(lambda histogram: case.distribution(subject, histogram, shape), case.rename),
        num_labels=shape.num_labels,
        num_teachers=shape.num_teachers,
        adjacency=shape.adjacency,
        event=case.event(subject, shape),
        symmetric=True,
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_nothing_is_found_on_the_largest_instance(adjacency: Adjacency, case: Case) -> None:
    verdict = verdict_of(case, Shape(adjacency, *case.largest)).require()
    assert verdict.sound
    assert case.tightness <= verdict.ratio <= 1 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_nothing_is_found_on_smaller_instances(adjacency: Adjacency, case: Case) -> None:
    for num_labels, num_teachers in SMALLER:
        if num_labels >= case.min_labels and (num_labels, num_teachers) <= case.largest:
            assert verdict_of(case, Shape(adjacency, num_labels, num_teachers)).require().sound


@pytest.mark.parametrize("accountant", [ExactAccountant, PldAccountant])
@pytest.mark.parametrize("case", [case for case in CASES if case.name in TIGHT], ids=lambda case: case.name)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_sharper_accountants_print_no_less_than_is_spent(
    adjacency: Adjacency, case: Case, accountant: type[Accountant]
) -> None:
    """Once, for all pairs, and three times on the worst of them; their prices are nearly attained."""
    shape = Shape(adjacency, 3, 3)
    once, thrice = (
        verdict_of(case, shape, accountant=accountant, count=count, orders=(), epsilons=(0.5, 2.0), deltas=(1e-3,))
        for count in (1, 3)
    )
    assert once.require().sound
    assert not thrice.require().sound
    assert once.ratio > 0.8
    assert thrice.ratio > 0.6


def test_the_names_of_tight_cases_exist() -> None:
    assert {case.name for case in CASES} >= TIGHT


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_distributions_treat_labels_alike_up_to_the_tie_break(case: Case) -> None:
    """What `by_rank` relies on: the probabilities of a histogram are those of its sorted counts, renamed."""
    shape = Shape(Adjacency.REPLACE_ONE, 3, 2)
    subject = case.subject(shape)
    for histogram in all_histograms(3, 2):
        order = np.argsort(-histogram, kind="stable")
        distribution = case.distribution(subject, histogram, shape)
        renamed = case.distribution(subject, histogram[order], shape)
        expected = {case.rename(outcome, order.tolist()): p for outcome, p in renamed.items()}
        for outcome in distribution.keys() | expected.keys():
            assert distribution.get(outcome, 0.0) == pytest.approx(expected.get(outcome, 0.0), rel=1e-9, abs=1e-15)


def test_every_mechanism_and_aggregator_with_a_price_is_in_the_list() -> None:
    """A new one needs a line in `shipped.py`."""
    shape = Shape(Adjacency.REPLACE_ONE, 3, 3)
    listed = {type(case.subject(shape)) for case in CASES}
    exported = [getattr(module, name) for module in (mechanisms, aggregators) for name in module.__all__]
    priced = {
        thing
        for thing in exported
        if inspect.isclass(thing)
        and not inspect.isabstract(thing)
        and (isinstance(getattr(thing, "event", None), property) or issubclass(thing, Aggregator))
    }
    assert len(priced) >= 10
    without = {thing for thing in priced if thing.__name__ in WITHOUT_DISTRIBUTION}
    assert sorted(thing.__name__ for thing in priced - listed - without) == []
    assert not any(
        hasattr(thing, distribution)
        for thing in without
        for distribution in ("distribution", "probabilities", "distribution_of")
    )
