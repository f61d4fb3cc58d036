"""A user's own method in a comparison, beside a PATE method."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import Budget, GaussianEvent, calibrate
from pate.array_types import BoolArray, Float32Array, FloatArray
from pate.comparison import Bench, Contender, Method, Trained, compare, read_runs
from pate.validation import InvalidValue
from tests.e2e.small_run import NUM_TEACHERS, SilentMonitor
from tests.unit.comparison.conftest import VOTES, pate_method, small_comparison_plan


@dataclass(frozen=True)
class Constant:
    """A model that predicts the same probabilities for every sample.

    Attributes:
        label_probabilities: the probability of each label, `[num_labels]`.
    """

    label_probabilities: FloatArray

    def predict(self, inputs: Float32Array) -> BoolArray:
        return self.predict_proba(inputs) >= 0.5

    def predict_proba(self, inputs: Float32Array) -> FloatArray:
        return np.tile(self.label_probabilities, (len(inputs), 1))


@dataclass(frozen=True)
class NoisyShares(Method):
    """A method that releases the fraction of records with each label, with Gaussian noise.

    One record moves the fractions by at most the root of the number of labels, over the number of records, in l2 norm.
    """

    name: str = "noisy_shares"

    def identity(self, bench: Bench) -> list[Any]:
        return [type(self).__name__]

    def columns(self, bench: Bench) -> dict[str, Any]:
        return {"adjacency": "replace_one"}

    def warnings(self, bench: Bench) -> Iterator[str]:
        yield "noisy_shares: says nothing of a sample"

    def at(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> Contender:
        if parameters is None:
            if (budget.epsilon or 0) < 1:
                raise InvalidValue(name="target_epsilon", value=budget.epsilon, rule="at least 1")
            accountant_class = budget.accountant
            noise_multiplier = calibrate(
                GaussianEvent,
                target_epsilon=budget.epsilon,
                target_delta=budget.delta,
                accountant=accountant_class,
            )
            parameters = {"noise_multiplier": noise_multiplier}
        labels = bench.dataset.private.labels
        noise_multiplier = parameters["noise_multiplier"]
        noise_std = noise_multiplier * np.sqrt(labels.shape[1]) / len(labels)

        def train(seed: int) -> Trained:
            """Returns a model that predicts the noisy prevalence of each label."""
            noise = np.random.default_rng(seed).normal(scale=noise_std, size=labels.shape[1])
            noisy_shares = np.clip(labels.mean(axis=0) + noise, a_min=0, a_max=1)
            return Trained(model=Constant(label_probabilities=noisy_shares))

        return Contender(
            epsilon=budget.epsilon_of(GaussianEvent(noise_multiplier)),
            parameters=parameters,
            train=train,
        )


@pytest.mark.slow
def test_own_method_is_compared_with_pate(tmp_path: Path) -> None:
    """A user's method that releases noisy shares of labels is compared with Gaussian votes.

    The method has one row with a note for epsilon 0.5, which it refuses, and a row for each seed at epsilon 5. Its
    warning and its parameters are shown. A second comparison writes the same table.
    """
    comparison_plan = small_comparison_plan(
        methods=(pate_method(name="votes", aggregator=VOTES), NoisyShares()),
        epsilons=(0.5, 5.0),
        allow_useless=False,
    )
    monitor = SilentMonitor()
    frontier = compare(comparison_plan, output_dir=tmp_path, monitor=monitor)
    rows = [
        run for run in read_runs(tmp_path / "comparison.csv") if run.aggregator == "noisy_shares"
    ]
    assert [(run.epsilon, run.seed) for run in rows] == [(0.5, None), (5.0, 0), (5.0, 1)]
    assert rows[0].note == "target_epsilon=0.5: expected at least 1"
    for run in rows[1:]:
        assert run.priced_epsilon <= 5.0
        assert run.micro_f1 > 0
        assert run.teacher is None
        assert run.num_teachers is None
        assert run.student is None
        assert run.num_answered is None
    assert monitor.lines == ["noisy_shares: says nothing of a sample"]
    assert [line.title for line in frontier.lines] == [f"votes ({NUM_TEACHERS})", "noisy_shares"]
    page = (tmp_path / "frontier.html").read_text()
    assert "noisy_shares" in page
    assert "noise_multiplier" in page
    first_table = (tmp_path / "comparison.csv").read_bytes()
    compare(comparison_plan, output_dir=tmp_path, monitor=SilentMonitor())
    assert (tmp_path / "comparison.csv").read_bytes() == first_table
