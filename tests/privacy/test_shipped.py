"""The verifier finds nothing on all that ships, and the list of what ships is complete."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from pate import aggregators, mechanisms
from pate.accounting import Adjacency
from pate.aggregators import Aggregator
from pate.verification import Verdict, all_histograms, verify
from tests.privacy.case import Case, Counts, Shape
from tests.privacy.shipped import CASES, WITHOUT_LAW

ADJACENCIES = tuple(Adjacency)
SMALLER = [(labels, teachers) for labels in (1, 2, 3) for teachers in (1, 2, 4, 6)] + [(4, 1), (4, 3)]


def verdict_of(case: Case, shape: Shape) -> Verdict:
    subject = case.subject(shape)
    by_rank: dict[tuple[int, ...], Mapping[Any, float]] = {}

    def law(histogram: Counts) -> Mapping[Any, float]:
        """The law of the sorted counts, renamed from ranks to labels: few laws are computed."""
        order = np.argsort(-histogram, kind="stable")
        falling = tuple(histogram[order].tolist())
        if falling not in by_rank:
            by_rank[falling] = case.law(subject, np.array(falling), shape)
        labels = order.tolist()
        return {case.rename(outcome, labels): p for outcome, p in by_rank[falling].items()}

    return verify(
        law,
        num_labels=shape.num_labels,
        num_teachers=shape.num_teachers,
        adjacency=shape.adjacency,
        event=case.event(subject, shape),
        symmetric=True,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_nothing_is_found_on_the_largest_instance(adjacency: Adjacency, case: Case) -> None:
    verdict = verdict_of(case, Shape(adjacency, *case.largest)).require()
    assert verdict.sound
    assert case.tightness <= verdict.ratio <= 1 + 1e-9


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_nothing_is_found_on_smaller_instances(adjacency: Adjacency, case: Case) -> None:
    for num_labels, num_teachers in SMALLER:
        if num_labels >= case.min_labels and (num_labels, num_teachers) <= case.largest:
            assert verdict_of(case, Shape(adjacency, num_labels, num_teachers)).require().sound


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_laws_treat_labels_alike_up_to_the_tie_break(case: Case) -> None:
    """What `verdict_of` relies on: the probabilities of a histogram are those of its sorted counts, renamed."""
    shape = Shape(Adjacency.REPLACE_ONE, 3, 2)
    subject = case.subject(shape)
    for histogram in all_histograms(3, 2):
        order = np.argsort(-histogram, kind="stable")
        law = case.law(subject, histogram, shape)
        renamed = case.law(subject, histogram[order], shape)
        expected = {case.rename(outcome, order.tolist()): p for outcome, p in renamed.items()}
        for outcome in law.keys() | expected.keys():
            assert law.get(outcome, 0.0) == pytest.approx(expected.get(outcome, 0.0), rel=1e-9, abs=1e-15)


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
    without = {thing for thing in priced if thing.__name__ in WITHOUT_LAW}
    assert sorted(thing.__name__ for thing in priced - listed - without) == []
    assert not any(hasattr(thing, law) for thing in without for law in ("distribution", "probabilities", "law_of"))
