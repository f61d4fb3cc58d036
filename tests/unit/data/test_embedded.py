"""Data sets that come in a package: composed digits, and definitions of WordNet."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_digits

from pate.data import Dataset, DigitsGrid, Partition, WordNet40
from tests.refusals import Refusal, refused_parameter

SMALL = DigitsGrid(num_private=600, num_public=50, num_test=40, pool_size=12, seed=3)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    """Returns a small data set of composed digits."""
    return SMALL.load()


def tiles_of(digits: Dataset) -> dict[bytes, set[int]]:
    """Returns the groups in which each 8x8 tile occurs, by the bytes of its pixels; blank tiles are left out."""
    groups = defaultdict(set)
    for split in (digits.private, digits.public, digits.test):
        for image, group in zip(split.inputs[:, 0], split.group_ids.tolist(), strict=True):
            for row, column in ((0, 0), (0, 8), (8, 0), (8, 8)):
                tile = image[row : row + 8, column : column + 8]
                if tile.any():
                    groups[tile.tobytes()].add(group)
    return groups


def test_no_base_digit_is_in_two_groups(digits: Dataset) -> None:
    """In pictures composed of digits, each tile of 8x8 pixels that is not blank occurs in one group only.

    The splits have the requested sizes. The private records are in 99 groups of 6 or 7 records.
    """
    assert (digits.name, digits.real, digits.kind) == ("digits_grid", False, "images")
    assert digits.private.inputs.shape == (600, 1, 16, 16)
    assert [len(digits.public), len(digits.test)] == [50, 40]
    assert digits.label_names == tuple("0123456789")
    assert (digits.private.inputs.min(), digits.private.inputs.max()) == (0.0, 1.0)
    tiles = tiles_of(digits)
    assert len(tiles) > 900
    assert all(len(groups) == 1 for groups in tiles.values())
    inked = digits.private.inputs.reshape(600, 2, 8, 2, 8).any(axis=(2, 4))
    # of 2,400 cells; the standard error is .009
    assert inked.mean() == pytest.approx(0.75, abs=0.045)
    counts = np.bincount(digits.private.group_ids)
    assert len(counts) == SMALL.num_pools == 99
    assert set(counts.tolist()) == {6, 7}
    Partition.draw(digits.private.group_ids, num_teachers=99, rng=np.random.default_rng(0)).verify(
        digits.private
    )


def test_labels_match_the_digits_in_the_pixels(digits: Dataset) -> None:
    """The labels of a picture are the digits of its tiles, found by their pixels."""
    tiles, values = load_digits(return_X_y=True)
    digit_of = {
        (tile / 16).astype(np.float32).tobytes(): digit
        for tile, digit in zip(tiles, values, strict=True)
    }
    for image, labels in zip(digits.public.inputs[:, 0], digits.public.labels, strict=True):
        corners = (image[:8, :8], image[:8, 8:], image[8:, :8], image[8:, 8:])
        digits_in_picture = {digit_of[corner.tobytes()] for corner in corners if corner.any()}
        assert set(np.flatnonzero(labels).tolist()) == digits_in_picture


def test_the_same_parameters_give_the_same_arrays(digits: Dataset) -> None:
    """Composed digits with the same parameters have the same inputs and groups, and other inputs with another seed."""
    again = SMALL.load()
    other = DigitsGrid(num_private=600, num_public=50, num_test=40, pool_size=12, seed=4).load()
    assert np.array_equal(digits.private.inputs, again.private.inputs)
    assert np.array_equal(digits.private.group_ids, again.private.group_ids)
    assert not np.array_equal(digits.private.inputs, other.private.inputs)


@pytest.mark.parametrize(
    ("digits_of", "refusal"),
    [
        (
            partial(DigitsGrid, num_private=0),
            refused_parameter("num_private", value=0, rule_words="a whole number >= 1"),
        ),
        (
            partial(DigitsGrid, num_test=2.5),  # type: ignore[arg-type]
            refused_parameter("num_test", value=2.5, rule_words="a whole number >= 1"),
        ),
        (
            partial(DigitsGrid, pool_size=3),
            refused_parameter("pool_size", value=3, rule_words="a whole number >= 4"),
        ),
        (
            partial(DigitsGrid, pool_size=1198),
            refused_parameter(
                "pool_size",
                value=1198,
                rule_words="at most 1197, the number of private base digits",
            ),
        ),
        (
            partial(DigitsGrid, num_private=98, pool_size=12),
            refused_parameter(
                "num_private", value=98, rule_words="at least 99, one composite for each pool"
            ),
        ),
        (
            partial(DigitsGrid, seed=-1),
            refused_parameter("seed", value=-1, rule_words="a whole number >= 0"),
        ),
    ],
)
def test_impossible_parameters_are_refused(
    digits_of: Callable[[], DigitsGrid], refusal: Refusal
) -> None:
    """An impossible number of records, size of a pool or seed of composed digits is refused by the parameter's name.

    A pool has the base digits from which the pictures of one group are composed.
    """
    with refusal:
        digits_of()


@pytest.fixture(scope="module")
def wordnet() -> Dataset:
    """Returns the data set of WordNet's definitions."""
    return WordNet40().load()


@pytest.mark.slow
def test_wordnet_has_known_sizes_and_unit_vectors(wordnet: Dataset) -> None:
    """WordNet's data set has 62,115 private records of 128 features and 40 labels.

    Under 2% of the public inputs are 0, and the others have length 1 within rounding. The public rows are shuffled.
    """
    assert (wordnet.name, wordnet.real, wordnet.kind) == ("wordnet", True, "features")
    assert [len(wordnet.private), len(wordnet.public), len(wordnet.test)] == [
        62_115,
        10_000,
        10_000,
    ]
    assert (wordnet.private.inputs.shape, wordnet.num_labels) == ((62_115, 128), 40)
    lengths = np.linalg.norm(wordnet.public.inputs, axis=1)
    silent = lengths == 0  # no known word
    assert silent.mean() < 0.02
    assert np.abs(lengths[~silent] - 1).max() < np.sqrt(128) * 0.5 / 127
    # in a random order
    ids = wordnet.public.record_ids
    labels = wordnet.public.labels
    assert abs(np.corrcoef(np.arange(len(ids)), ids)[0, 1]) < 0.05  # five standard errors
    # five standard errors of .020
    assert np.abs(labels[:600].mean(axis=0) - labels.mean(axis=0)).max() < 0.1


@pytest.mark.slow
def test_wordnet_labels_have_the_prevalences_of_the_source(wordnet: Dataset) -> None:
    """Frequencies of labels, labels that imply others, and two records of WordNet are as counted independently."""
    prevalence = dict(zip(wordnet.label_names, wordnet.private.labels.mean(axis=0), strict=True))
    counted = {"physical_entity": 0.56, "organism": 0.24, "artifact": 0.13, "person": 0.125}
    assert {name: prevalence[name] for name in counted} == pytest.approx(counted, abs=0.01)
    assert 0.01 <= min(prevalence.values()) < max(prevalence.values()) <= 0.6
    assert wordnet.private.labels.sum(axis=1).mean() == pytest.approx(4.45, abs=0.02)
    column = {name: wordnet.private.labels[:, i] for i, name in enumerate(wordnet.label_names)}
    for below, above in [
        ("person", "organism"),
        ("vertebrate", "chordate"),
        ("organism", "physical_entity"),
    ]:
        assert not (column[below] & ~column[above]).any()
        assert column[below].any()
    # 02084071 is dog in WordNet 3.0, 00007846 person.
    names = np.array(wordnet.label_names)
    label_names_of = {
        int(record): set(names[labels])
        for split in (wordnet.private, wordnet.public, wordnet.test)
        for record, labels in zip(split.record_ids, split.labels, strict=True)
        if record in (2_084_071, 7_846)
    }
    assert {"animal", "vertebrate", "organism", "physical_entity"} <= label_names_of[2_084_071]
    assert "plant" not in label_names_of[2_084_071]
    assert {"person", "organism", "causal_agent"} <= label_names_of[7_846]


@pytest.mark.slow
def test_ridge_regression_beats_the_majority_on_wordnet(wordnet: Dataset) -> None:
    """Ridge regression on the private records has an accuracy of about 0.934 on the test records.

    A guess of each label's more frequent value has 0.892.
    """
    inputs = wordnet.private.inputs.astype(np.float64)
    center = inputs.mean(axis=0)
    prevalence = wordnet.private.labels.mean(axis=0)
    centered = inputs - center
    gram = centered.T @ centered + np.eye(128)
    weights = np.linalg.solve(gram, centered.T @ (wordnet.private.labels - prevalence))
    predicted = (wordnet.test.inputs - center) @ weights + prevalence >= 0.5
    true = wordnet.test.labels
    assert (predicted == true).mean() == pytest.approx(0.934, abs=0.004)
    assert 2 * (predicted & true).sum() / (predicted.sum() + true.sum()) == pytest.approx(
        0.64, abs=0.03
    )
    assert (true == (prevalence > 0.5)).mean() == pytest.approx(0.892, abs=0.003)


@pytest.mark.process
def test_importing_the_data_sets_loads_no_heavy_package() -> None:
    """A process that imports `pate.data` has loaded neither torch, sklearn, scipy, PIL, hydra nor pandas."""
    heavy = "torch", "sklearn", "scipy", "PIL", "hydra", "pandas"
    code = f"import sys, pate.data; print([name for name in {heavy!r} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
