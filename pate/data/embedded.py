"""Data sets that need no file of the user: composed images of digits, and glosses of WordNet."""

import bz2
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pate.accounting import PrivacyUnit
from pate.array_types import Float32Array, IntArray
from pate.data.dataset import Dataset
from pate.data.split import Split
from pate.data.table.schema import TableSchema
from pate.data.table.text_column import TextColumn
from pate.data.texts.vectors import TextReader
from pate.progress import StageOpener, unwatched
from pate.validation import InvalidValue, require_count

ARCHIVE = Path(__file__).parent / "wordnet" / "wordnet40.npz"
"""The records of WordNet-40, which `scripts/build_wordnet.py` wrote."""

GLOSSES = ARCHIVE.with_name("glosses.txt.bz2")
"""The texts of all records of WordNet-40, a line each, in the order of their ids."""

# The numbers of private and of public digits. The other 300 of the 1,797 digits are for the test set.
_NUM_PRIVATE_DIGITS = 1197
_NUM_PUBLIC_DIGITS = 300
# A composed image has 2 x 2 cells, each with a digit of 8 x 8 pixels or blank.
_CELLS_PER_SIDE = 2
_NUM_CELLS = _CELLS_PER_SIDE**2
_DIGIT_SIDE = 8
_IMAGE_SIDE = _CELLS_PER_SIDE * _DIGIT_SIDE
_BLANK_PROBABILITY = 0.25
# The level of a pixel of a digit that is all ink.
_FULL_INK = np.float32(16)
# Inputs of WordNet-40 are stored as whole multiples of 1 / 127.
_STEPS = np.float32(127)


@dataclass(frozen=True)
class DigitsGrid:
    """A reader that composes images of digits (8x8 pixels) into images of four cells (16x16 pixels).

    The 1,797 images of digits, called base digits below, are those of scikit-learn. Label d holds if a composed image
    shows the digit d. A cell is blank with probability 1/4, so an image shows 0 to 4 digits, and about 2.7 of the 10
    labels hold. Reports call the data synthetic: the pixels are real, but the choice of digits for an image is random.

    A base digit, that is the handwriting of a person, occurs in many composed images and is what has to be protected.
    So the base digits are first divided among the splits, and the private ones into disjoint pools of at least
    `pool_size`. An image uses distinct digits of one pool, and the pool is the image's group. So there can be at most
    `1197 // pool_size` teachers. The public split and the test split have one pool each.

    Formal guarantees: no base digit is in two groups, hence none is in two splits or seen by two teachers. Equal
    parameters give equal arrays.

    Attributes:
        num_private: the number of private composed images. Each pool has the same number, or one more.
        num_public: the number of public composed images.
        num_test: the number of composed images for test.
        pool_size: the number of base digits that each private pool has at least, 4 to 1197. The number of pools is the
            largest that this allows, and the sizes of two pools differ by at most one.
        seed: the seed of the division of the base digits and of all compositions; part of the data, not of the noise.

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
        require_count("pool_size", self.pool_size, minimum=_NUM_CELLS)
        require_count("seed", self.seed, minimum=0)
        if self.pool_size > _NUM_PRIVATE_DIGITS:
            rule = f"at most {_NUM_PRIVATE_DIGITS}, the number of private base digits"
            raise InvalidValue("pool_size", self.pool_size, rule=rule)
        if self.num_private < self.num_pools:
            rule = f"at least {self.num_pools}, one composite for each pool of base digits"
            raise InvalidValue("num_private", self.num_private, rule=rule)

    @property
    def num_pools(self) -> int:
        """The number of disjoint pools into which the private base digits are divided."""
        return _NUM_PRIVATE_DIGITS // self.pool_size

    def load(self) -> Dataset:
        """Composes the images and returns the data set: float32 `[n, 1, 16, 16]` in [0, 1], labels "0" to "9"."""
        from sklearn.datasets import load_digits  # loads slowly

        pixels, digits = load_digits(return_X_y=True)
        base_digits = pixels.reshape(-1, _DIGIT_SIDE, _DIGIT_SIDE).astype(np.float32) / _FULL_INK
        rng = np.random.default_rng(self.seed)
        digit_indices_of_pools = self._draw_pools(num_base_digits=len(base_digits), rng=rng)
        pool_of_image = self._draw_pool_of_image(rng)
        base_digit_of_cell = _draw_base_digits(
            digit_indices_of_pools=digit_indices_of_pools, pool_of_image=pool_of_image, rng=rng
        )
        is_filled = base_digit_of_cell >= 0
        # A blank cell has the number -1 and so takes the last digit here; `is_filled` leaves it out.
        is_digit_in_cell = digits[base_digit_of_cell][:, :, None] == np.arange(10)
        all_images = Split(
            inputs=_compose_one_channel_images(
                base_digits=base_digits, base_digit_of_cell=base_digit_of_cell
            ),
            labels=(is_digit_in_cell & is_filled[:, :, None]).any(axis=1),
            record_ids=np.arange(len(pool_of_image)),
            group_ids=pool_of_image,
        )
        split_ends = (self.num_private, self.num_private + self.num_public)
        rows_of_splits = np.split(np.arange(len(pool_of_image)), split_ends)
        private, public, test = map(all_images.take, rows_of_splits)
        return Dataset(
            name="digits_grid",
            real=False,
            kind="images",
            label_names=tuple("0123456789"),
            private=private,
            public=public,
            test=test,
            group_unit=PrivacyUnit("one pool of base digits, with all its composites"),
        )

    def _draw_pools(self, num_base_digits: int, rng: np.random.Generator) -> list[IntArray]:
        """Divides the base digits at random, and returns the numbers of the base digits in each pool.

        A base digit is an image of a single digit, with a number from 0 to `num_base_digits` - 1. The private pools
        come first, and their sizes differ by at most one. Then come the public pool and the test pool.
        """
        split_ends = (_NUM_PRIVATE_DIGITS, _NUM_PRIVATE_DIGITS + _NUM_PUBLIC_DIGITS)
        private_digit_indices, public_digit_indices, test_digit_indices = np.split(
            rng.permutation(num_base_digits), split_ends
        )
        private_pools = np.array_split(private_digit_indices, self.num_pools)
        return [*private_pools, public_digit_indices, test_digit_indices]

    def _draw_pool_of_image(self, rng: np.random.Generator) -> IntArray:
        """Returns the number of each image's pool, its index in the list of `_draw_pools`, `[num_images]`.

        Private images come first, dealt to the private pools evenly and in random order. Public images follow, then
        test images.
        """
        pool_of_private_image = rng.permutation(np.arange(self.num_private) % self.num_pools)
        public_pool_number = self.num_pools
        test_pool_number = public_pool_number + 1
        pool_of_public_image = np.full(self.num_public, public_pool_number)
        pool_of_test_image = np.full(self.num_test, test_pool_number)
        return np.concatenate([pool_of_private_image, pool_of_public_image, pool_of_test_image])


def _draw_base_digits(
    digit_indices_of_pools: Sequence[IntArray], pool_of_image: IntArray, rng: np.random.Generator
) -> IntArray:
    """Returns the number of the base digit in each cell of each image, `[num_images, 4]`; -1 for a blank cell.

    The cells are the upper left, upper right, lower left and lower right one.

    Args:
        digit_indices_of_pools: the numbers of the base digits in each pool.
        pool_of_image: the pool of each image, `[num_images]`.
        rng: draws the digits and the blank cells.
    """
    base_digit_of_cell = np.empty((len(pool_of_image), _NUM_CELLS), dtype=np.int64)
    for pool_number, digit_indices_of_pool in enumerate(digit_indices_of_pools):
        image_rows = np.flatnonzero(pool_of_image == pool_number)
        digit_indices_of_images = np.tile(digit_indices_of_pool, (len(image_rows), 1))
        base_digit_of_cell[image_rows] = rng.permuted(digit_indices_of_images, axis=1)[
            :, :_NUM_CELLS
        ]
    is_blank = rng.random(base_digit_of_cell.shape) < _BLANK_PROBABILITY
    return np.where(is_blank, -1, base_digit_of_cell)


def _compose_one_channel_images(
    base_digits: Float32Array, base_digit_of_cell: IntArray
) -> Float32Array:
    """Returns the composed images, `[num_images, 1, 16, 16]`.

    Args:
        base_digits: the images of the base digits, `[num_base_digits, 8, 8]`.
        base_digit_of_cell: the number of the base digit in each cell, `[num_images, 4]`; -1 for a blank cell. The cells
            are the upper left, upper right, lower left and lower right one.
    """
    is_filled = base_digit_of_cell >= 0
    # A blank cell has the number -1 and so takes the last image here; `is_filled` makes it 0.
    cells_of_images = base_digits[base_digit_of_cell] * is_filled[:, :, None, None]
    rows_and_columns = (_CELLS_PER_SIDE, _CELLS_PER_SIDE)
    # [num_images, row of cells, column of cells, row of pixels, column of pixels]
    grid = cells_of_images.reshape(
        (len(cells_of_images), *rows_and_columns, _DIGIT_SIDE, _DIGIT_SIDE)
    )
    # The two axes of rows come before the two axes of columns.
    images = grid.swapaxes(2, 3).reshape((len(cells_of_images), 1, _IMAGE_SIDE, _IMAGE_SIDE))
    return np.ascontiguousarray(images, dtype=np.float32)


@dataclass(frozen=True)
class WordNet40(TextReader):
    """A reader of noun synsets of WordNet 3.0: the input is a gloss (a definition), the 40 labels are hypernyms.

    A record is a synset. A group is all synsets whose glosses are equal apart from examples, letter case and
    punctuation. 62,115 records are private, 10,000 public (in a fixed random order) and 10,000 for test. The file that
    the package ships fixes the splits.

    An input is the tf-idf vector of the gloss without its examples, reduced by truncated SVD to 128 dimensions, scaled
    to length 1, and stored in 8 bits; it is 0 for a gloss without a known word. This transform is fitted on the 10,000
    public glosses alone. The labels are the 40 hypernyms that hold most often in the public pool, without the root.
    Groups, and hence splits, depend on the private glosses by equality of text; nothing else does.

    With `features=text`, the glosses are read as a column `gloss` and become vectors of text in place of these inputs.

    Source: WordNet 3.0, Princeton University; its license is in LICENSE-WORDNET beside the file.
    """

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the file that the package ships, and returns the data set.

        Inputs are float32 `[n, 128]`, multiples of 1/127 in [-1, 1], or vectors of text with `features=text`.
        """
        with np.load(ARCHIVE, allow_pickle=False) as arrays:
            label_names = tuple(str(name) for name in arrays["label_names"])
            all_synsets = Split(
                inputs=arrays["features"].astype(np.float32) / _STEPS,
                labels=np.unpackbits(arrays["labels"], axis=1, count=len(label_names)).view(
                    np.bool_
                ),
                record_ids=arrays["record_ids"].astype(np.int64),
                # The group of each synset is the smallest id of a synset with the same gloss.
                group_ids=arrays["group_ids"].astype(np.int64),
            )
            split_ends = np.cumsum(arrays["split_sizes"])[:-1]
        public, test, private = map(
            all_synsets.take, np.split(np.arange(len(all_synsets)), split_ends)
        )
        dataset = Dataset(
            name="wordnet",
            real=True,
            kind="features",
            label_names=label_names,
            private=private,
            public=public,
            test=test,
            # The ids are the offsets of synsets in WordNet, which are public.
            public_ids=public.record_ids,
            group_unit=PrivacyUnit(
                "one family of synsets with the same gloss, with all its synsets"
            ),
        )
        if self.text_fit is None:
            return dataset
        glosses = bz2.decompress(GLOSSES.read_bytes()).decode().split("\n")
        sorted_ids = np.sort(all_synsets.record_ids)
        splits = {"private": private, "public": public, "test": test}
        texts_by_split: dict[str, list[str]] = {}
        for split_name, split in splits.items():
            lines = np.searchsorted(sorted_ids, split.record_ids).tolist()
            texts_by_split[split_name] = [glosses[line] for line in lines]
        open_stage = stage
        text_transform = self.text_fit(texts_by_split["public"], open_stage)
        for split_name, split in splits.items():
            split_texts = texts_by_split[split_name]
            with open_stage(f"vectors of the {split_name} texts", len(split_texts)) as advance:
                inputs = text_transform.vectors(split_texts, report_progress=advance)
                splits[split_name] = replace(split, inputs=inputs)
        schema = TableSchema(columns=(TextColumn(name="gloss", text_transform=text_transform),))
        return replace(
            dataset,
            preprocessing=schema,
            private_cells=dataset.private_digest(),
            private=splits["private"],
            public=splits["public"],
            test=splits["test"],
        )
