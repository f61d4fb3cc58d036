"""Data sets that need no file of the user: composed images of digits, and glosses of WordNet."""

import bz2
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pate.accounting import PrivacyUnit
from pate.data.dataset import Dataset
from pate.data.split import Split
from pate.data.table.schema import TableSchema
from pate.data.table.text_column import TextColumn
from pate.data.texts.vectors import TextReader
from pate.progress import StageOpener, unwatched
from pate.validation import require, require_count

_CELLS = 4  # of a composite
# of 1,797 digits; the last 300 are for the test set
_NUM_PRIVATE_DIGITS = 1197
_NUM_PUBLIC_DIGITS = 300
_BLANK_PROBABILITY = 0.25
_INK_LEVELS = np.float32(16)

# of WordNet-40, made by `scripts/build_wordnet.py`
ARCHIVE = Path(__file__).parent / "wordnet" / "wordnet40.npz"
GLOSSES = ARCHIVE.with_name("glosses.txt.bz2")  # the texts of all records by id, a line each
_STEPS = np.float32(127)


@dataclass(frozen=True)
class DigitsGrid:
    """A reader that composes images of digits (8x8 pixels) into images of four cells (16x16 pixels).

    The 1,797 images of digits, called base digits below, are those of scikit-learn. Label d holds if a composed image
    shows the digit d. A cell is blank with probability 1/4, so an image shows 0 to 4 digits, and about 2.7 of the 10
    labels hold. Reports call the data synthetic: the pixels are real, but the choice of digits for an image is random.

    A base digit, that is the handwriting of a person, occurs in many composed images and is what has to be protected.
    So the base digits are first divided among the splits, and the private ones into disjoint pools of about
    `pool_size`. An image uses distinct digits of one pool, and the pool is the image's group. So there can be at most
    `1197 // pool_size` teachers. The public split and the test split have one pool each.

    Formal guarantees: no base digit is in two groups, hence none is in two splits or seen by two teachers. Equal
    parameters give equal arrays.

    Source: scikit-learn's `load_digits`, from the UCI "Optical Recognition of Handwritten Digits" data.
    """

    num_private: int = 20_000  # private composites, the same number (but for one) from each pool
    num_public: int = field(default=2_000, metadata={"public": True})  # public composites
    num_test: int = field(default=2_000, metadata={"public": True})  # test composites
    # base digits in a private pool, 4 to 1197; some pools have one or a few more.
    pool_size: int = field(default=12, metadata={"public": True})
    # of the split of the base digits and of all compositions; part of the data, not of the noise
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
        """The number of disjoint pools into which the private base digits are divided."""
        return _NUM_PRIVATE_DIGITS // self.pool_size

    def load(self) -> Dataset:
        """Composes the images and returns the data set: float32 `[n, 1, 16, 16]` in [0, 1], labels "0" to "9"."""
        from sklearn.datasets import load_digits  # heavy, and needed by this data set alone

        tiles, digits = load_digits(return_X_y=True)
        tiles = tiles.reshape(-1, 8, 8).astype(np.float32) / _INK_LEVELS
        rng = np.random.default_rng(self.seed)
        ends = _NUM_PRIVATE_DIGITS, _NUM_PRIVATE_DIGITS + _NUM_PUBLIC_DIGITS
        # the digits of the private pools, of the public one and of the test set's
        private_part, *parts = np.split(rng.permutation(len(tiles)), ends)
        pools = [*np.array_split(private_part, self.num_pools), *parts]
        dealt = rng.permutation(np.arange(self.num_private) % self.num_pools)
        pool_of = np.append(
            dealt, np.repeat([self.num_pools, self.num_pools + 1], [self.num_public, self.num_test])
        )
        # The base digits in the upper left, upper right, lower left and lower right cell, or -1 for a blank: [n, 4]
        visible = np.empty((len(pool_of), _CELLS), dtype=np.int64)
        for number, pool in enumerate(pools):
            composites = np.flatnonzero(pool_of == number)
            digits_of_pool = np.tile(pool, (len(composites), 1))
            visible[composites] = rng.permuted(digits_of_pool, axis=1)[:, :_CELLS]
        visible = np.where(rng.random(visible.shape) < _BLANK_PROBABILITY, -1, visible)
        inked = visible >= 0
        grid = (
            (tiles[visible] * inked[:, :, None, None])
            .reshape(-1, 2, 2, 8, 8)
            .transpose(0, 1, 3, 2, 4)
        )
        images = np.ascontiguousarray(grid.reshape(-1, 1, 16, 16), dtype=np.float32)
        labels = ((digits[visible][:, :, None] == np.arange(10)) & inked[:, :, None]).any(axis=1)
        rows = Split(
            inputs=images, labels=labels, record_ids=np.arange(len(pool_of)), group_ids=pool_of
        )
        ends = self.num_private, self.num_private + self.num_public
        private, public, test = map(rows.take, np.split(np.arange(len(pool_of)), ends))
        unit = PrivacyUnit("one pool of base digits, with all its composites")
        return Dataset(
            name="digits_grid",
            real=False,
            kind="images",
            label_names=tuple("0123456789"),
            private=private,
            public=public,
            test=test,
            group_unit=unit,
        )


@dataclass(frozen=True)
class WordNet40(TextReader):
    """A reader of noun synsets of WordNet 3.0: the input is a gloss (a definition), the 40 labels are hypernyms.

    A record is a synset. A group is all synsets with the same gloss. 62,115 records are private, 10,000 public (in a
    fixed random order) and 10,000 for test. The file that the package ships fixes the splits.

    An input is the tf-idf vector of the gloss without its examples, reduced by truncated SVD to 128 dimensions, scaled
    to length 1, and stored in 8 bits. This transform is fitted on the 10,000 public glosses alone. The labels are the
    40 hypernyms that hold most often in the public pool, without the root. Groups, and hence splits, depend on the
    private glosses by equality of text; nothing else does.

    With `features=text`, the glosses are read as a column `gloss` and become vectors of text in place of these inputs.

    Source: WordNet 3.0, Princeton University; its license is in LICENSE-WORDNET beside the file.
    """

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the file that the package ships, and returns the data set.

        Inputs are float32 `[n, 128]`, multiples of 1/127 in [-1, 1], or vectors of text with `features=text`.
        """
        with np.load(ARCHIVE, allow_pickle=False) as arrays:
            names = tuple(str(name) for name in arrays["label_names"])
            rows = Split(
                inputs=arrays["features"].astype(np.float32) / _STEPS,
                labels=np.unpackbits(arrays["labels"], axis=1, count=len(names)).view(np.bool_),
                record_ids=arrays["record_ids"].astype(np.int64),
                group_ids=arrays["group_ids"].astype(np.int64),
            )
            ends = np.cumsum(arrays["split_sizes"])[:-1]
        public, test, private = map(rows.take, np.split(np.arange(len(rows)), ends))
        dataset = Dataset(
            name="wordnet",
            real=True,
            kind="features",
            label_names=names,
            private=private,
            public=public,
            test=test,
            public_ids=public.record_ids,  # the offsets of synsets, which WordNet publishes
            group_unit=PrivacyUnit(
                "one family of synsets with the same gloss, with all its synsets"
            ),
        )
        if self.text_fit is None:
            return dataset
        lines = bz2.decompress(GLOSSES.read_bytes()).decode().split("\n")  # by the order of ids
        order = np.sort(rows.record_ids)
        splits = {"private": private, "public": public, "test": test}
        places = {
            name: np.searchsorted(order, split.record_ids).tolist()
            for name, split in splits.items()
        }
        texts = {name: [lines[place] for place in places[name]] for name in splits}
        vectors = self.text_fit(texts["public"], stage)
        for name, split in splits.items():
            with stage(f"vectors of the {name} texts", len(texts[name])) as advance:
                splits[name] = replace(split, inputs=vectors.vectors(texts[name], advance))
        form = TableSchema((TextColumn("gloss", missing=False, vectors=vectors),))
        return replace(
            dataset,
            preprocessing=form,
            private_cells=dataset.private_digest(),
            private=splits["private"],
            public=splits["public"],
            test=splits["test"],
        )
