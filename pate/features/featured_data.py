"""A data set of pictures whose inputs are features."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pate.data.cache import StampedFile, writable
from pate.data.dataset import SPLITS, Dataset, ImageForm, Split, Stage, read, unwatched
from pate.features.features import FILE, ExtractedForm, Extractor, Features, PublicPictures, block_bytes, on_all_cores
from pate.files.disk import locked, make_folder, remove_partials, write_text
from pate.validation import InvalidValue

Rows = NDArray[np.float32]

_BLOCK = 1024
_DIGEST = "extractor.sha256"
_REMEDY = "remove it, and the same command makes it again"


@dataclass(frozen=True)
class FeaturedData:
    """Reads a data set of pictures and gives features in their place, to teachers, students and methods alike.

    The extractor is fitted on the public pool and kept; features of each split are extracted and kept as well, see
    `StampedFile`. Labels, ids and groups are those of the pictures, and `Dataset.private_cells` is their digest: a
    budget over several runs knows the records whatever features they are given.
    """

    data: Any  # what reads the pictures: a class with `load()`
    features: Features
    cache: Path  # the folder for extractors and features, as private as the pictures
    # Asked before anything is fitted, of a blank data set of the same sizes: raises where a plan cannot work on it, so
    # that nobody waits for features to hear of a mistake.
    check: Callable[[Dataset], object] | None = None

    def load(self, stage: Stage = unwatched) -> Dataset:
        """Reads the pictures, fits what is not fitted yet and extracts what is missing; a mistake is said before."""
        dataset = read(self.data, stage)
        if dataset.kind != "images":
            rule = f"none: {dataset.name} has no pictures, but {dataset.input_shape[0]} features already"
            raise InvalidValue(f"features={type(self.features).__name__.lower()}: expected {rule}")
        pictures = PublicPictures(dataset, self.features.most_pictures)
        self.features.check(pictures.shape)
        name = f"features-{type(self.features).__name__.lower()}-{self.features.identity(pictures)[:12]}"
        folder = self.cache.expanduser() / name
        if self.check is not None and not _is_whole(folder):
            self.check(_blank(dataset))
        with writable("features.cache", folder):
            make_folder(folder)
        extractor, known = self._extractor(folder, pictures, stage)

        def featured(name: str, split: Split) -> Split:
            of_first = known if name == "public" else None
            return replace(split, inputs=_features_of(split.inputs, extractor, folder, name, stage, of_first))

        form = ExtractedForm(cast("ImageForm | None", dataset.preprocessing), extractor)
        splits: dict[str, Any] = {name: featured(name, getattr(dataset, name)) for name in SPLITS}
        return replace(dataset, kind="features", preprocessing=form, private_cells=dataset.private_digest(), **splits)

    def _extractor(self, folder: Path, pictures: PublicPictures, stage: Stage) -> tuple[Extractor, Rows | None]:
        """The one that was kept, or else fitted and kept, and what it knows; a process that wants the same waits."""
        known = None
        with nullcontext() if _is_whole(folder) else locked(folder / "lock"):
            if not _is_whole(folder):
                remove_partials(folder, (re.escape(FILE), re.escape(_DIGEST)))
                extractor = self.features.fit(pictures, stage)
                extractor.save(folder / FILE)
                write_text(folder / _DIGEST, extractor.digest() + "\n")
                known = extractor.known
            return Extractor.load(folder / FILE, remedy=_REMEDY), known


def _is_whole(folder: Path) -> bool:
    """Whether an extractor is there, and is what was written."""
    try:
        with (folder / FILE).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        return (folder / _DIGEST).read_text(encoding="utf-8").strip() == found
    except (OSError, UnicodeDecodeError):
        return False


def _blank(dataset: Dataset) -> Dataset:
    """Of the same sizes, labels and groups, with features that say nothing."""
    splits: dict[str, Any] = {name: getattr(dataset, name) for name in SPLITS}
    splits = {name: replace(each, inputs=np.zeros((len(each), 2), np.float32)) for name, each in splits.items()}
    return replace(dataset, kind="features", preprocessing=None, **splits)


def _features_of(inputs: Any, extractor: Extractor, folder: Path, name: str, stage: Stage, known: Rows | None) -> Rows:
    """The features of all pictures of a split, mapped from a file; whoever writes to them changes no file.

    The stamp of a block is a digest of its features, so a file that was damaged is mended, too. It is named after its
    pictures, so that nobody changes it who reads others. Memory holds a few blocks a worker, never a split.
    """
    path = folder / f"{name}-{_digest(inputs)}.f32"
    shape = len(inputs), extractor.num_features
    file = StampedFile(path, path.with_suffix(".stamps"), shape, np.float32, _BLOCK, "features.cache")
    if _missing(file):
        with file.opened() as put:
            missing = _missing(file)
            with stage(f"features of the {name} pictures", len(inputs)) as advance:
                done = len(inputs) - sum(min(_BLOCK, len(inputs) - _BLOCK * block) for block in missing)
                advance(done)
                for block, made in zip(missing, _extracted(extractor, inputs, known, missing), strict=True):
                    put(np.array([block]), made[None], np.array([_stamp(made)]))
                    done += len(made)
                    advance(done)
    features: Rows = file.mapped("c")
    return features


def _missing(file: StampedFile) -> list[int]:
    """The blocks whose features are not those that were stamped."""
    known = file.known()
    if not known.any():
        return list(range(file.num_blocks))
    features = file.mapped()
    return [b for b, stamp in enumerate(known) if _stamp(features[b * _BLOCK : (b + 1) * _BLOCK]) != stamp]


def _stamp(features: Rows) -> int:
    """A number for a block of features; never 0."""
    return int.from_bytes(hashlib.sha256(np.ascontiguousarray(features).data).digest()[:8], "big") >> 1 | 1


def _digest(inputs: Any) -> str:
    """A name for pictures in their order."""
    digest = hashlib.sha256(repr(inputs.shape).encode())
    for first in range(0, len(inputs), _BLOCK):
        digest.update(block_bytes(inputs, first, first + _BLOCK))
    return digest.hexdigest()[:12]


def _extracted(extractor: Extractor, inputs: Any, known: Rows | None, blocks: list[int]) -> Iterator[Rows]:
    """Features block by block; those of the first pictures may be known."""

    def made(block: int) -> Rows:
        rows = slice(block * _BLOCK, (block + 1) * _BLOCK)
        if known is not None and rows.stop <= len(known):
            return known[rows]
        return extractor.features_of(inputs[rows])

    return on_all_cores(made, blocks)
