"""`simulate_answers` simulates experts by one Newton step, and writes files that `pate-release` reads."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from pate.data import Dataset
from pate.votes import ExpertAnswers, PublicAnswers
from scripts.simulate_answers import LogisticPrior, Simulation, with_constant, write_simulation
from tests.e2e.small_run import small_dataset


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Returns a small data set with 960 private and 140 public records."""
    return small_dataset()


@pytest.mark.slow
def test_an_expert_is_the_prior_after_one_newton_step(dataset: Dataset) -> None:
    """The answers of an expert with three private examples are those of one Newton step from the public prior.

    The reference inverts the whole Hessian of each label.
    """
    prior = LogisticPrior(dataset.public.inputs[:60], dataset.public.labels[:60])
    queries = with_constant(dataset.public.inputs[60:70])
    example_inputs = dataset.private.inputs[:6].reshape(2, 3, -1)
    example_labels = dataset.private.labels[:6].reshape(2, 3, -1)
    log_odds = prior.answers_after(
        examples=example_inputs, labels=example_labels, queries=queries, weight=8.0
    )
    example_features = with_constant(example_inputs[1])
    for label in range(example_labels.shape[2]):
        shares = expit(example_features @ prior.weights[:, label])
        precision = np.linalg.inv(prior.covariances[label])
        hessian = (
            precision + 8.0 * (example_features.T * (shares * (1 - shares))) @ example_features
        )
        step = np.linalg.solve(
            hessian, 8.0 * example_features.T @ (example_labels[1, :, label] - shares)
        )
        np.testing.assert_allclose(
            log_odds[1, :, label], queries @ (prior.weights[:, label] + step), rtol=1e-6
        )


@pytest.mark.slow
def test_the_files_are_answers_of_prompts_with_separate_groups(
    dataset: Dataset, tmp_path: Path
) -> None:
    """The simulated files are read as answers of experts, and bits are 1 where probabilities exceed 0.5."""
    simulation = Simulation(num_experts=12, num_examples=4, num_queries=30, num_labeled=60)
    write_simulation(tmp_path, simulation, dataset)
    public = PublicAnswers.read(tmp_path / "public.npz")
    answers = ExpertAnswers(paths=[tmp_path / "answers.npz"], public=public)
    bits = ExpertAnswers(paths=[tmp_path / "bits.npz"], public=public)
    assert answers.shape == bits.shape
    assert answers.num_teachers == 12
    for probabilities, bit in zip(answers.confidences(), bits.confidences(), strict=True):
        np.testing.assert_array_equal(probabilities > 0.5, bit)
