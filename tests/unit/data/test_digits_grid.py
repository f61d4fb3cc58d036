from collections import defaultdict

import numpy as np
import pytest
from sklearn.datasets import load_digits

from pate.data import Dataset, DigitsGrid, Partition
from pate.data.embedded import compose, draw_cells
from pate.validation import InvalidValue

SMALL = DigitsGrid(num_private=600, num_public=50, num_test=40, pool_size=12, seed=3)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return SMALL.load()


def tiles_of(dataset: Dataset) -> dict[bytes, set[int]]:
    """The groups in which each 8x8 picture occurs, found from the pixels alone."""
    groups = defaultdict(set)
    for split in (dataset.private, dataset.public, dataset.test):
        for image, group in zip(split.inputs[:, 0], split.group_ids.tolist(), strict=True):
            for row, column in ((0, 0), (0, 8), (8, 0), (8, 8)):
                tile = image[row : row + 8, column : column + 8]
                if tile.any():
                    groups[tile.tobytes()].add(group)
    return groups


def test_sizes_and_kind(dataset: Dataset) -> None:
    assert (dataset.name, dataset.real, dataset.kind) == ("digits_grid", False, "images")
    assert dataset.private.inputs.shape == (600, 1, 16, 16)
    assert [len(dataset.public), len(dataset.test)] == [50, 40]
    assert dataset.label_names == tuple("0123456789")
    assert (dataset.private.inputs.min(), dataset.private.inputs.max()) == (0.0, 1.0)


def test_no_base_digit_is_in_two_groups(dataset: Dataset) -> None:
    tiles = tiles_of(dataset)
    assert len(tiles) > 900
    assert all(len(groups) == 1 for groups in tiles.values())


def test_every_group_has_its_share_and_can_be_a_teacher(dataset: Dataset) -> None:
    counts = np.bincount(dataset.private.group_ids)
    assert len(counts) == SMALL.num_pools == 99
    assert set(counts.tolist()) == {6, 7}
    Partition.draw(dataset.private.group_ids, 99, np.random.default_rng(0)).verify(dataset.private)


def test_labels_say_which_digits_the_pixels_show(dataset: Dataset) -> None:
    tiles, digits = load_digits(return_X_y=True)
    digit_of = {(tile / 16).astype(np.float32).tobytes(): digit for tile, digit in zip(tiles, digits, strict=True)}
    for image, labels in zip(dataset.public.inputs[:, 0], dataset.public.labels, strict=True):
        corners = (image[:8, :8], image[:8, 8:], image[8:, :8], image[8:, 8:])
        shown = {digit_of[corner.tobytes()] for corner in corners if corner.any()}
        assert set(np.flatnonzero(labels).tolist()) == shown


def test_the_same_parameters_give_the_same_arrays(dataset: Dataset) -> None:
    again = SMALL.load()
    other = DigitsGrid(num_private=600, num_public=50, num_test=40, pool_size=12, seed=4).load()
    assert np.array_equal(dataset.private.inputs, again.private.inputs)
    assert np.array_equal(dataset.private.group_ids, again.private.group_ids)
    assert not np.array_equal(dataset.private.inputs, other.private.inputs)


def test_compose_by_hand() -> None:
    tiles = np.stack([np.full((8, 8), 0.25), np.full((8, 8), 0.5)]).astype(np.float32)
    images, labels = compose(tiles, np.array([7, 2]), np.array([[1, -1, 0, 1], [-1, -1, -1, -1]]))
    corners = images[0, 0, [0, 0, 15, 15], [0, 15, 0, 15]]
    assert corners.tolist() == [0.5, 0.0, 0.25, 0.5]
    assert np.flatnonzero(labels[0]).tolist() == [2, 7]
    assert not images[1].any()
    assert not labels[1].any()


def test_cells_are_distinct_digits_of_the_pool_and_a_quarter_is_blank() -> None:
    pools = [np.arange(5), np.arange(5, 25)]
    pool_of = np.arange(4000) % 2
    shown = draw_cells(pools, pool_of, np.random.default_rng(0))
    assert set(shown[0::2].ravel().tolist()) == {-1, *range(5)}
    assert set(shown[1::2].ravel().tolist()) == {-1, *range(5, 25)}
    inked = [row[row >= 0].tolist() for row in shown]
    assert all(len(set(row)) == len(row) for row in inked)
    # 16,000 cells: the standard error of a quarter is 0.0034
    assert (shown < 0).mean() == pytest.approx(0.25, abs=0.017)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"num_private": 0}, r"^num_private=0: expected a whole number >= 1$"),
        ({"num_test": 2.5}, r"^num_test=2\.5: expected a whole number >= 1$"),
        ({"pool_size": 3}, r"^pool_size=3: expected a whole number >= 4$"),
        ({"pool_size": 1198}, r"^pool_size=1198: expected at most 1197, the number of private base digits$"),
        (
            {"num_private": 98, "pool_size": 12},
            r"^num_private=98: expected at least 99, one composite for each pool",
        ),
        ({"seed": -1}, r"^seed=-1: expected a whole number >= 0$"),
    ],
)
def test_impossible_parameters_are_refused(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        DigitsGrid(**parameters)
