"""The embedded data set."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pate.data import Dataset, WordNet40


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return WordNet40().load()


def test_sizes_and_kind(dataset: Dataset) -> None:
    assert (dataset.name, dataset.real, dataset.kind) == ("wordnet", True, "features")
    assert [len(dataset.private), len(dataset.public), len(dataset.test)] == [62_115, 10_000, 10_000]
    assert dataset.private.inputs.shape == (62_115, 128)
    assert dataset.num_labels == 40


def test_features_are_unit_vectors_up_to_rounding(dataset: Dataset) -> None:
    lengths = np.linalg.norm(dataset.public.inputs, axis=1)
    silent = lengths == 0  # no known word
    assert silent.mean() < 0.02
    assert np.abs(lengths[~silent] - 1).max() < np.sqrt(128) * 0.5 / 127


def test_labels_are_those_of_the_source(dataset: Dataset) -> None:
    """Prevalences counted independently of this code: about .56, .24, .13, .125, cardinality 4.45."""
    prevalence = dict(zip(dataset.label_names, dataset.private.labels.mean(axis=0), strict=True))
    for name, expected in {
        "physical_entity": 0.56,
        "organism": 0.24,
        "artifact": 0.13,
        "person": 0.125,
    }.items():
        assert prevalence[name] == pytest.approx(expected, abs=0.01)
    assert max(prevalence.values()) <= 0.6
    assert min(prevalence.values()) >= 0.01
    assert dataset.private.labels.sum(axis=1).mean() == pytest.approx(4.45, abs=0.02)


def test_the_hierarchy_holds_in_every_row(dataset: Dataset) -> None:
    column = {name: dataset.private.labels[:, i] for i, name in enumerate(dataset.label_names)}
    for below, above in [("person", "organism"), ("vertebrate", "chordate"), ("organism", "physical_entity")]:
        assert not (column[below] & ~column[above]).any()
        assert column[below].any()


def test_known_synsets_carry_their_labels(dataset: Dataset) -> None:
    """02084071 is dog in WordNet 3.0, 00007846 person."""
    names = np.array(dataset.label_names)
    found = {
        int(record): set(names[labels])
        for split in (dataset.private, dataset.public, dataset.test)
        for record, labels in zip(split.record_ids, split.labels, strict=True)
        if record in (2_084_071, 7_846)
    }
    assert {"animal", "vertebrate", "organism", "physical_entity"} <= found[2_084_071]
    assert "plant" not in found[2_084_071]
    assert {"person", "organism", "causal_agent"} <= found[7_846]


def test_the_public_order_is_shuffled(dataset: Dataset) -> None:
    ids = dataset.public.record_ids
    assert abs(np.corrcoef(np.arange(len(ids)), ids)[0, 1]) < 0.05  # five standard errors
    first = dataset.public.labels[:600].mean(axis=0)
    assert np.abs(first - dataset.public.labels.mean(axis=0)).max() < 0.1  # five standard errors of .020


def test_a_ridge_regression_reaches_what_the_source_promises(dataset: Dataset) -> None:
    """About .93 accuracy at a threshold of one half, where guessing each label's majority gives .89."""
    inputs = dataset.private.inputs.astype(np.float64)
    center, prevalence = inputs.mean(axis=0), dataset.private.labels.mean(axis=0)
    centered = inputs - center
    gram = centered.T @ centered + np.eye(128)
    weights = np.linalg.solve(gram, centered.T @ (dataset.private.labels - prevalence))
    predicted = (dataset.test.inputs - center) @ weights + prevalence >= 0.5
    true = dataset.test.labels
    assert (predicted == true).mean() == pytest.approx(0.934, abs=0.004)
    assert 2 * (predicted & true).sum() / (predicted.sum() + true.sum()) == pytest.approx(0.64, abs=0.03)
    assert (true == (prevalence > 0.5)).mean() == pytest.approx(0.892, abs=0.003)


@pytest.mark.process
def test_importing_the_data_sets_is_light() -> None:
    heavy = "torch", "sklearn", "scipy", "PIL", "hydra", "pandas"
    code = f"import sys, pate.data; print([name for name in {heavy!r} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
