"""Plans that can tell nothing, at every door: refused before anything is charged, with what works; and it works."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

from pate import PATEClassifier
from pate.aggregators import GaussianVotes
from pate.classifier import DoubtfulPlan
from pate.comparison import ComparisonPlan, PATEMethod, compare
from pate.pipeline import train
from pate.student import LinearStudent
from pate.teachers import StackedEngine
from pate.validation import InvalidValue
from tests.e2e.small_run import SilentMonitor, small_dataset, small_plan

pytestmark = pytest.mark.slow

USELESS: dict[str, Any] = {"aggregator": GaussianVotes(noise_std=1.0), "target_epsilon": 2.0, "allow_useless": False}


def works(error: InvalidValue, pattern: str) -> float:
    found = re.search(pattern + r"=([\d.]*\d)", str(error).partition("what works: ")[2])
    assert found is not None, error
    return float(found.group(1))


def test_training_is_refused_before_the_charge_the_suggestion_works_and_allowed_it_has_a_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"teacher\.num_teachers=24: expected a release that tells something") as no:
        train(small_plan(**USELESS), tmp_path / "no")
    assert not [path for path in (tmp_path / "no").rglob("*") if path.name != "run.lock"]
    epsilon = works(no.value, "target_epsilon")
    monitor = SilentMonitor()
    report = train(small_plan(**(USELESS | {"target_epsilon": epsilon})), tmp_path / "yes", monitor)
    assert report.privacy.epsilon <= epsilon
    assert not [line for line in monitor.lines if "90% or 70%" in line and "in 8" in line]
    assert report.release.label_accuracy > 0.75
    report = train(small_plan(**(USELESS | {"allow_useless": True})), tmp_path / "allowed", monitor)
    assert report.privacy.epsilon <= 2.0
    assert any(line.endswith("allowed by allow_useless=true") for line in monitor.lines)


def test_the_classifier_refuses_before_its_ledger_exists_and_the_suggestion_works(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((2400, 5))
    labels = inputs[:, :3] > 0
    data = {"X": inputs[:2000], "y": labels[:2000], "X_public": inputs[2000:]}
    given: dict[str, Any] = {"n_teachers": 20, "ledger": tmp_path / "ledger"}
    with pytest.raises(InvalidValue, match=r"n_teachers=20: expected .* allow_useless=True goes on") as refused:
        PATEClassifier(RidgeClassifier(), epsilon=0.1, **given).fit(**data)
    assert not (tmp_path / "ledger").exists()
    epsilon = works(refused.value, "epsilon")
    model = PATEClassifier(RidgeClassifier(), epsilon=epsilon, **given).fit(**data)
    assert (model.predict(inputs[2000:]) == labels[2000:]).mean() > 0.85
    with pytest.warns(DoubtfulPlan, match="allowed by allow_useless=True"):
        PATEClassifier(RidgeClassifier(), n_teachers=20, epsilon=0.1, allow_useless=True).fit(**data)


def test_a_comparison_has_a_row_that_says_why(tmp_path: Path) -> None:
    shared = {name: getattr(small_plan(), name) for name in ("teacher", "num_teachers", "student")}
    plan = ComparisonPlan(
        load_dataset=small_dataset,
        methods=(PATEMethod(name="votes", aggregator=GaussianVotes(noise_std=1.0), **shared),),
        engine=StackedEngine(),
        student=LinearStudent(),
        num_queries=40,
        target_delta=1e-5,
        epsilons=(2.0, 50.0),
        seeds=(0,),
        num_workers=1,
    )

    def compared(**changes: Any) -> list[Any]:
        frontier = compare(replace(plan, **changes), tmp_path, SilentMonitor())
        return [run for run in frontier.runs if run.epsilon is not None]

    first = compared()
    assert "'aggregators=[votes@24]': expected a release that tells something" in first[0].note
    assert "epsilons=[" in first[0].note
    assert (first[0].micro_f1, first[1].note) == (None, "")
    assert compared() == first
    allowed = compared(allow_useless=True)
    assert allowed[0].micro_f1 is not None and allowed[1] == first[1]
    assert compared() == first, "what was trained when it was allowed is not shown where it is not"
