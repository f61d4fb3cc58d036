"""Data sets that come in a package: composed digits, WordNet's glosses, yeast genes."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from pate.data import Dataset, DigitsGrid, Partition, WordNet40, Yeast, embedded
from tests.refusals import refused

SMALL = DigitsGrid(num_private=600, num_public=50, num_test=40, pool_size=12, seed=3)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return SMALL.load()


def tiles_of(digits: Dataset) -> dict[bytes, set[int]]:
    """The groups in which each 8x8 picture occurs, found from the pixels alone."""
    groups = defaultdict(set)
    for split in (digits.private, digits.public, digits.test):
        for image, group in zip(split.inputs[:, 0], split.group_ids.tolist(), strict=True):
            for row, column in ((0, 0), (0, 8), (8, 0), (8, 8)):
                tile = image[row : row + 8, column : column + 8]
                if tile.any():
                    groups[tile.tobytes()].add(group)
    return groups


def test_no_base_digit_is_in_two_groups_and_each_can_be_a_teacher(digits: Dataset) -> None:
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
    Partition.draw(digits.private.group_ids, 99, np.random.default_rng(0)).verify(digits.private)


def test_labels_say_which_digits_the_pixels_show(digits: Dataset) -> None:
    tiles, values = load_digits(return_X_y=True)
    digit_of = {
        (tile / 16).astype(np.float32).tobytes(): digit
        for tile, digit in zip(tiles, values, strict=True)
    }
    for image, labels in zip(digits.public.inputs[:, 0], digits.public.labels, strict=True):
        corners = (image[:8, :8], image[:8, 8:], image[8:, :8], image[8:, 8:])
        shown = {digit_of[corner.tobytes()] for corner in corners if corner.any()}
        assert set(np.flatnonzero(labels).tolist()) == shown


def test_the_same_parameters_give_the_same_arrays(digits: Dataset) -> None:
    again = SMALL.load()
    other = DigitsGrid(num_private=600, num_public=50, num_test=40, pool_size=12, seed=4).load()
    assert np.array_equal(digits.private.inputs, again.private.inputs)
    assert np.array_equal(digits.private.group_ids, again.private.group_ids)
    assert not np.array_equal(digits.private.inputs, other.private.inputs)


@pytest.mark.parametrize(
    ("parameters", "rule"),
    [
        ({"num_private": 0}, "a whole number >= 1"),
        ({"num_test": 2.5}, "a whole number >= 1"),
        ({"pool_size": 3}, "a whole number >= 4"),
        ({"pool_size": 1198}, "at most 1197, the number of private base digits"),
        ({"num_private": 98, "pool_size": 12}, "at least 99, one composite for each pool"),
        ({"seed": -1}, "a whole number >= 0"),
    ],
)
def test_impossible_parameters_are_refused(parameters: dict[str, int], rule: str) -> None:
    name, value = next(iter(parameters.items()))
    with refused(name, value, rule):
        DigitsGrid(**parameters)


@pytest.fixture(scope="module")
def wordnet() -> Dataset:
    return WordNet40().load()


def test_sizes_of_wordnet_and_features_are_unit_vectors_up_to_rounding(wordnet: Dataset) -> None:
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


def test_labels_are_those_of_the_source(wordnet: Dataset) -> None:
    """Prevalences counted independently of this code: about .56, .24, .13, .125, cardinality 4.45."""
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
    found = {
        int(record): set(names[labels])
        for split in (wordnet.private, wordnet.public, wordnet.test)
        for record, labels in zip(split.record_ids, split.labels, strict=True)
        if record in (2_084_071, 7_846)
    }
    assert {"animal", "vertebrate", "organism", "physical_entity"} <= found[2_084_071]
    assert "plant" not in found[2_084_071]
    assert {"person", "organism", "causal_agent"} <= found[7_846]


def test_a_ridge_regression_reaches_what_the_source_promises(wordnet: Dataset) -> None:
    """About .93 accuracy at a threshold of one half, where guessing each label's majority gives .89."""
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
def test_importing_the_data_sets_is_light() -> None:
    heavy = "torch", "sklearn", "scipy", "PIL", "hydra", "pandas"
    code = f"import sys, pate.data; print([name for name in {heavy!r} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


HEADER = "Att1,Att2,Class1,Class2,Class3"
ROWS = [f"{i / 10},{-i / 10},{i % 2},1,0" for i in range(10)]


@pytest.fixture
def genes(tmp_path: Path) -> Path:
    path = tmp_path / "genes.csv"
    path.write_text("\n".join([HEADER, *ROWS]) + "\n")
    return path


def test_a_small_table_by_hand(genes: Path) -> None:
    packed = genes.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(genes.read_bytes()))
    dataset, again = (Yeast(path=path, num_public=3, num_test=2).load() for path in (genes, packed))
    assert (
        dataset.digest()
        == again.digest()
        != Yeast(genes, num_public=3, num_test=2, seed=1).load().digest()
    )
    assert (dataset.name, dataset.real, dataset.kind) == ("yeast", True, "features")
    assert dataset.label_names == ("Class1", "Class2", "Class3")
    splits = dataset.private, dataset.public, dataset.test
    assert [len(split) for split in splits] == [5, 3, 2]
    assert sorted(np.concatenate([split.record_ids for split in splits]).tolist()) == list(
        range(10)
    )
    for split in splits:
        for record, inputs, labels in zip(
            split.record_ids, split.inputs, split.labels, strict=True
        ):
            assert inputs.tolist() == [np.float32(record / 10), np.float32(-record / 10)]
            assert labels.tolist() == [record % 2 == 1, True, False]


REFUSED = [
    "",
    "Att1\n",
    f"{HEADER}\n0.1,1,0,0\n",
    f"{HEADER}\n0.1,0.2,0.3,1\n0.1\n",
    f"{HEADER}\nnan,0.2,1,0,0\n",
]
REFUSED += [
    f"{HEADER}\n0.1,0.2,2,0,0\n",
    f"{HEADER}\n0.1,x,1,0,0\n",
    "Att1,Att2\n0.1,0.2\n",
    "Class1,Class2\n0,1\n",
]
REFUSED += ["Ä,Class1\n0.1,1\n"]


def test_a_file_that_is_no_such_table_is_refused_in_one_line(tmp_path: Path) -> None:
    files = [tmp_path / f"{place}.csv" for place in range(len(REFUSED))]
    for path, content in zip(files, REFUSED, strict=True):
        path.write_text(content)
    torn = tmp_path / "torn.csv.gz"
    torn.write_bytes(gzip.compress(b"Att1,Class1\n0.5,1\n")[:-9])
    for path in (*files, torn, tmp_path / "absent.csv"):
        with refused("data.path", path):
            Yeast(path=path).load()


def test_splits_larger_than_the_table_are_refused(genes: Path) -> None:
    with refused("num_public + num_test", 10):
        Yeast(path=genes, num_public=5, num_test=5).load()
    with refused("num_public", 0, "a whole number >= 1"):
        Yeast(path=genes, num_public=0)


def test_without_river_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with refused("data", "yeast"):
        Yeast().load()


@pytest.mark.process
def test_river_is_found_without_being_imported(
    genes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site" / "river" / "datasets"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError('river was imported')\n")
    (folder / "yeast.csv.gz").write_bytes(gzip.compress(genes.read_bytes()))
    code = "from pate.data import Yeast; print(len(Yeast(num_public=3, num_test=2).load().private))"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}:{Path(__file__).parents[3]}")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "5"


@pytest.mark.skipif(
    find_spec("river") is None, reason="the optional river package is not installed"
)
def test_the_real_file_has_the_published_figures() -> None:
    """2,417 genes, 103 features, 14 labels, cardinality 4.24 (Tsoumakas et al., MULAN)."""
    dataset = Yeast().load()
    splits = dataset.private, dataset.public, dataset.test
    assert [len(split) for split in splits] == [1617, 400, 400]
    assert dataset.private.inputs.shape[1] == 103
    assert dataset.num_labels == 14
    assert sum(split.labels.sum() for split in splits) / 2417 == pytest.approx(4.237, abs=0.001)
