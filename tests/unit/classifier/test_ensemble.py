"""The teachers of a fit: whole groups, one vote each for one change, and the aggregator's own form of votes."""

from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from pate.accounting import Ledger
from pate.aggregators import (
    Aggregator,
    BoundaryTopK,
    CenteredVotes,
    GaussianVotes,
    PowersetGNMax,
)
from pate.classifier.classifier import FittedVotes
from pate.classifier.samples import OneClass, Pools, Task
from pate.run.random_streams import RandomStreams
from pate.validation import InvalidValue
from tests.contract.case import charging

RNG = np.random.default_rng(0)
INPUTS = RNG.standard_normal((240, 3)).astype(np.float32)
MANY = INPUTS + 0.3 * RNG.standard_normal((240, 3)) > 0
ONE = (INPUTS + 0.3 * RNG.standard_normal((240, 3))).argmax(axis=1)[:, None] == np.arange(3)
GROUPS = np.arange(240) // 6
QUERIES = RNG.standard_normal((50, 3)).astype(np.float32)
TASKS = [(Task(3), MANY), (OneClass(np.arange(3)), ONE)]


def source(task: Task, targets: np.ndarray, **changes: Any) -> FittedVotes:
    given: dict[str, Any] = {
        "inputs": INPUTS,
        "groups": GROUPS,
        "queries": QUERIES,
        "teachers": 10,
        "seed": 3,
    }
    given |= {"estimator": GaussianNB(), "jobs": None} | changes
    pools = Pools(given["inputs"], targets, given["groups"], given["queries"])
    return FittedVotes(
        task,
        given["estimator"],
        pools,
        num_teachers=given["teachers"],
        streams=RandomStreams(given["seed"]),
        num_jobs=given["jobs"],
    )


def votes(task: Task, targets: np.ndarray, **changes: Any) -> np.ndarray:
    return np.concatenate(list(source(task, targets, **changes).bits()))


@pytest.mark.parametrize(("task", "targets"), TASKS, ids=["many", "one"])
@pytest.mark.parametrize("group", [0, 7, 39])
def test_replacing_one_group_changes_one_teacher_at_most(
    task: Task, targets: np.ndarray, group: int
) -> None:
    inputs = INPUTS.copy()
    changed = targets.copy()
    inputs[group == GROUPS] *= -5
    changed[group == GROUPS] = changed[group == GROUPS][:, ::-1]
    moved = (votes(task, targets) != votes(task, changed, inputs=inputs)).any(axis=(1, 2))
    assert moved.sum() == 1


def test_a_teacher_who_saw_one_class_votes_for_it() -> None:
    targets = np.tile([False, True, False], (240, 1))
    np.testing.assert_array_equal(
        votes(TASKS[1][0], targets), np.tile([False, True, False], (10, 50, 1))
    )


@pytest.mark.parametrize(
    "aggregator",
    [GaussianVotes(noise_std=1e-9), PowersetGNMax(noise_std=1e-9)],
    ids=["counts", "teachers"],
)
def test_votes_are_handed_over_as_the_aggregator_reads_them(
    aggregator: GaussianVotes | PowersetGNMax,
) -> None:
    cast = votes(*TASKS[0])
    ledger = Ledger(target_delta=1e-6)
    made = source(*TASKS[0])
    record = charging(ledger, aggregator, made)
    release = aggregator.release(made, np.random.default_rng(3), record)
    clear = np.abs(cast.sum(axis=0) - 5).min(axis=1) >= 3  # the same whatever is counted
    np.testing.assert_array_equal(release.labels[clear], cast.sum(axis=0)[clear] > 5)
    assert [entry.event for entry in ledger.entries] == [release.event]


class _Failing(GaussianNB):
    """Fails in a way, where a part has fewer than two records with the label."""

    def __init__(self, way: str = "fit") -> None:
        super().__init__()
        self.way = way

    def fit(self, X, y):  # noqa: N803
        if self.way == "singular" and y.sum() < 2:
            raise np.linalg.LinAlgError("Singular\nmatrix")
        return super().fit(X, y)

    def predict_proba(self, X):  # noqa: N803
        found = super().predict_proba(X)
        return {"shape": found[:-1], "nan": found * np.nan, "singular": found}[self.way]


SINGULAR = r"label 2, which 1 of \d+ records have; LinAlgError: Singular matrix\)"


@pytest.mark.parametrize(
    ("way", "words", "num_jobs"),
    [
        ("singular", SINGULAR, None),
        pytest.param("singular", SINGULAR, 2, marks=pytest.mark.process),
        ("shape", "InvalidValue: predictions.shape", None),
        ("nan", "InvalidValue: predictions=NaN or infinity: expected finite numbers", None),
    ],
)
def test_an_estimator_that_fails_on_a_part_is_named_with_the_label(
    way: str, words: str, num_jobs: int | None
) -> None:
    targets = MANY.copy()
    targets[:, 2] = np.arange(240) % 24 == 0
    made = source(Task(3), targets, groups=np.arange(240), estimator=_Failing(way), jobs=num_jobs)
    with pytest.raises(
        InvalidValue, match=rf"^estimator=_Failing: expected one that can be fitted .*part.*{words}"
    ):
        list(made.bits())


@pytest.mark.parametrize(
    "aggregator",
    [
        GaussianVotes(noise_std=3.0),
        PowersetGNMax(noise_std=3.0),
        CenteredVotes(noise_multiplier=1.0, prevalence_share=0.0),
        BoundaryTopK(selection_scale=1.0, test_std=0.3, failure_prob=1e-9, target_hits=3),
    ],
    ids=lambda each: type(each).__name__,
)
def test_nothing_is_charged_for_teachers_that_fail(aggregator: Aggregator) -> None:
    ledger = Ledger(target_delta=1e-5)
    made = source(Task(3), MANY, groups=np.arange(240), estimator=_Failing("nan"))
    with pytest.raises(InvalidValue, match=r"^estimator=_Failing"):
        record = charging(ledger, aggregator, made)
        aggregator.release(made, np.random.default_rng(3), record)
    assert ledger.entries == []
