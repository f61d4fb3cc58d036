"""Handwritten digits in a 2x2 grid: real pixels, several labels per image, nothing to fetch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Dataset, Split
from pate.validation import require, require_count

_CELLS = 4
_NUM_PRIVATE_DIGITS, _NUM_PUBLIC_DIGITS = 1197, 300  # of 1797; the last 300 are for the test set
_BLANK_PROBABILITY = 0.25
_INK_LEVELS = np.float32(16)


@dataclass(frozen=True)
class DigitsGrid:
    """Scikit-learn's 1,797 digits of 8x8 pixels, composed into 16x16 images; label d: "it shows a d".

    A cell is blank with probability 1/4, so an image shows 0 to 4 digits and about 2.7 of the 10 labels hold.

    Reports call it synthetic: the pixels are real, but which digits meet in a picture is drawn at random.

    What is private is a base digit, somebody's handwriting, not a composite: one base digit is in many
    composites. So the base digits are first dealt to the splits (1,197 private, 300 public, 300 test), and the
    private ones to disjoint pools of about `pool_size`. A composite takes distinct digits from one pool, and
    the pool is its group. Whatever keeps groups together therefore keeps base digits together. The price is
    variety: `pool_size` bounds what a teacher of one pool has seen, and `1197 // pool_size` pools bound the
    number of teachers. The public and the test split, which nobody partitions, are one pool each.

    Formal guarantees:
        * No base digit is in two groups, hence none in two splits or at two teachers.
        * The same parameters give the same arrays.

    Attributes:
        num_private: private composites, the same number (but for one) from each pool.
        num_public: public composites.
        num_test: test composites.
        pool_size: base digits in a private pool, 4 to 1197; some pools have one or a few more.
        seed: of the split of the base digits and of all compositions; part of the data, not of the noise.

    Source: scikit-learn's `load_digits`, from the UCI "Optical Recognition of Handwritten Digits" data.
    """

    num_private: int = 20_000
    num_public: int = field(default=2_000, metadata={"public": True})
    num_test: int = field(default=2_000, metadata={"public": True})
    pool_size: int = field(default=12, metadata={"public": True})
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_private", "num_public", "num_test"):
            require_count(name, getattr(self, name))
        require_count("pool_size", self.pool_size, minimum=_CELLS)
        require_count("seed", self.seed, minimum=0)
        rule = f"at most {_NUM_PRIVATE_DIGITS}, the number of private base digits"
        require(self.pool_size <= _NUM_PRIVATE_DIGITS, "pool_size", self.pool_size, rule)
        rule = f"at least {self.num_pools}, one composite for each pool of base digits"
        require(self.num_private >= self.num_pools, "num_private", self.num_private, rule)

    @property
    def num_pools(self) -> int:
        """The number of private groups."""
        return _NUM_PRIVATE_DIGITS // self.pool_size

    def load(self) -> Dataset:
        """Composes the images: float32 `[n, 1, 16, 16]` in [0, 1], labels "0" to "9"."""
        from sklearn.datasets import load_digits  # heavy, and needed by this data set alone

        tiles, digits = load_digits(return_X_y=True)
        tiles = tiles.reshape(-1, 8, 8).astype(np.float32) / _INK_LEVELS
        rng = np.random.default_rng(self.seed)
        ends = _NUM_PRIVATE_DIGITS, _NUM_PRIVATE_DIGITS + _NUM_PUBLIC_DIGITS
        private, public, test = np.split(rng.permutation(len(tiles)), ends)
        pools = [*np.array_split(private, self.num_pools), public, test]
        pool_of = np.concatenate(
            [
                rng.permutation(np.arange(self.num_private) % self.num_pools),
                np.full(self.num_public, self.num_pools),
                np.full(self.num_test, self.num_pools + 1),
            ]
        )
        shown = draw_cells(pools, pool_of, rng)
        rows = Split(*compose(tiles, digits, shown), np.arange(len(pool_of)), pool_of)
        ends = self.num_private, self.num_private + self.num_public
        return Dataset(
            name="digits_grid",
            real=False,
            kind="images",
            label_names=tuple("0123456789"),
            private=rows.take(slice(ends[0])),
            public=rows.take(slice(*ends)),
            test=rows.take(slice(ends[1], None)),
        )


def draw_cells(
    pools: list[NDArray[np.int64]], pool_of: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Returns the base digit in each cell, int64 `[n, 4]`: distinct ones of the image's pool; -1 is blank."""
    shown = np.empty((len(pool_of), _CELLS), dtype=np.int64)
    for number, pool in enumerate(pools):
        rows = np.flatnonzero(pool_of == number)
        shown[rows] = rng.permuted(np.tile(pool, (len(rows), 1)), axis=1)[:, :_CELLS]
    return np.where(rng.random(shown.shape) < _BLANK_PROBABILITY, -1, shown)


def compose(
    tiles: NDArray[np.float32], digits: NDArray[np.int64], shown: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Puts base digits into their cells, row by row.

    Args:
        tiles: float32 `[num_digits, 8, 8]`.
        digits: int64 `[num_digits]`, which digit each tile is.
        shown: int64 `[n, 4]`, tiles of the upper left, upper right, lower left and lower right cell, or -1.

    Returns:
        Images `[n, 1, 16, 16]` and labels `[n, 10]`.
    """
    inked = shown >= 0  # [n, 4]
    grid = (tiles[shown] * inked[:, :, None, None]).reshape(-1, 2, 2, 8, 8)
    images = grid.transpose(0, 1, 3, 2, 4).reshape(-1, 1, 16, 16)
    labels = (digits[shown][:, :, None] == np.arange(10)) & inked[:, :, None]  # [n, 4, 10]
    return np.ascontiguousarray(images, dtype=np.float32), labels.any(axis=1)
