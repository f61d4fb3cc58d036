import numpy as np
import pytest

from pate.data import Dataset, Pixels, Split
from pate.validation import InvalidValue

LEVELS = np.arange(5 * 3 * 2 * 2, dtype=np.uint8).reshape(5, 3, 2, 2)
ROWS = np.array([4, 0, 2])


def split(levels: np.ndarray, rows: np.ndarray) -> Split:
    return Split(Pixels(levels, rows), np.ones((len(rows), 1), np.bool_), rows, rows)


def dataset(levels: np.ndarray) -> Dataset:
    parts = {"private": np.array([0, 1, 2]), "public": np.array([3]), "test": np.array([4])}
    splits = {role: split(levels, rows) for role, rows in parts.items()}
    return Dataset(name="toy", real=False, kind="images", label_names=("round",), **splits)


def test_reads_like_the_array_that_it_does_not_hold() -> None:
    pixels, array = Pixels(LEVELS, ROWS), LEVELS[ROWS] / np.float32(255)
    assert (pixels.shape, pixels.ndim, len(pixels)) == (array.shape, array.ndim, len(array))
    assert pixels.dtype == array.dtype == np.float32
    for rows in (slice(1), slice(None, None, 2), np.array([2, 0]), np.array([True, False, True]), np.array([], int)):
        assert pixels[rows].tolist() == array[rows].tolist()
        assert pixels[rows].dtype == np.float32
    assert np.asarray(pixels).tolist() == array.tolist()
    assert np.asarray(pixels, np.float64).dtype == np.float64
    assert np.isfinite(pixels).all()
    assert np.concatenate(list(pixels.blocks())).tolist() == LEVELS[ROWS].tolist()


def test_white_is_one_and_black_is_zero() -> None:
    levels = np.zeros((1, 1, 1, 2), np.uint8)
    levels[..., 1] = 255
    assert Pixels(levels, np.array([0]))[:].ravel().tolist() == [0.0, 1.0]


def test_a_split_takes_them_and_what_is_taken_is_an_array() -> None:
    taken = split(LEVELS, ROWS).take(np.array([1]))
    assert isinstance(taken.inputs, np.ndarray)
    assert taken.inputs.tolist() == (LEVELS[:1] / np.float32(255)).tolist()


def test_the_data_set_knows_the_shape_and_digests_the_levels() -> None:
    first, other = dataset(LEVELS), LEVELS.copy()
    assert first.input_shape == (3, 2, 2)
    assert first.digest() == dataset(other).digest()
    other[3, 0, 0, 0] += 1
    assert first.digest() != dataset(other).digest()


def test_other_levels_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"^levels\.dtype=float64: expected uint8$"):
        Pixels(LEVELS / 1.0, ROWS)
    with pytest.raises(InvalidValue, match=r"^levels\.ndim=3: expected 4"):
        Pixels(LEVELS[0], ROWS)
