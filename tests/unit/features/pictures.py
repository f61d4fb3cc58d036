"""Small drawn pictures of a bar: brighter or darker than the ground, upright or lying, at one of two sides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pate.data import Dataset, ImageForm, Pixels, Split
from pate.features import Patches

SIDE = 12
SMALL = Patches(dimension=24, num_filters=16, patch_size=4, num_patches=2_000)
SIZES = {"private": 160, "public": 60, "test": 40}
NAMES = ("upright", "left or top", "clear")


def drawn_pictures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws pictures `[count, 3, SIDE, SIDE]` of bytes, and their labels `[count, 3]`."""
    rng = np.random.default_rng(seed)
    labels = rng.random((count, len(NAMES))) < 0.5
    levels = rng.integers(118, 138, size=(count, 3, SIDE, SIDE))
    for picture, (upright, first, clear) in zip(levels, labels, strict=True):
        start = rng.integers(0, 5) + (0 if first else SIDE // 2)
        turned = picture.transpose(0, 2, 1) if upright else picture
        turned[:, start : start + 2] += rng.choice([-1, 1]) * (110 if clear else 50)
    return levels.astype(np.uint8), labels


def dataset(*, private_picture_seed: int = 0, public_picture_seed: int = 1) -> Dataset:
    """Returns a data set of drawn pictures, with one seed for the private and one for the public pictures."""
    parts = {}
    first = 0
    for place, (name, count) in enumerate(SIZES.items()):
        seed = {"private": private_picture_seed, "public": public_picture_seed}.get(name, place)
        levels, labels = drawn_pictures(count=count, seed=seed)
        ids = np.arange(first, first + count)
        inputs: Any = Pixels(levels, rows=np.arange(count))
        parts[name] = Split(inputs=inputs, labels=labels, record_ids=ids, group_ids=ids)
        first += count
    form = ImageForm(channels=3, height=SIDE, width=SIDE)
    return Dataset(
        name="bars",
        real=False,
        kind="images",
        label_names=NAMES,
        private=parts["private"],
        public=parts["public"],
        test=parts["test"],
        preprocessing=form,
    )


class UnreadablePixels(Pixels):
    """Pictures that raise an error when they are read."""

    def __getitem__(self, rows: Any) -> Any:
        raise AssertionError("somebody looked at private pictures")

    def blocks(self) -> Any:
        raise AssertionError("somebody looked at private pictures")


def with_unreadable_private_pictures(data: Dataset) -> Dataset:
    """Returns the data set with private and test pictures that raise an error when they are read."""

    def with_unreadable_pictures(split: Split) -> Split:
        levels = np.zeros((len(split), 3, SIDE, SIDE), np.uint8)
        return replace(split, inputs=UnreadablePixels(levels, rows=np.arange(len(split))))

    return replace(
        data,
        private=with_unreadable_pictures(split=data.private),
        test=with_unreadable_pictures(split=data.test),
    )


@dataclass(frozen=True)
class ReaderOfDataset:
    """A reader that returns a data set in memory."""

    dataset: Dataset

    def load(self) -> Dataset:
        return self.dataset
