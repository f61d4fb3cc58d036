"""A data set of pictures whose inputs are features."""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pate.data.cache import Made, StampedFile, writable
from pate.data.dataset import SPLITS, Dataset, ImageForm, Stage, enter, read, unwatched
from pate.features.features import FILE, ExtractedForm, Extractor, Features, PublicPictures, on_all_cores
from pate.files.disk import DamagedFile, file_digest, locked, make_folder, read_text, remove_partials, write_text
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
            blank = {name: np.zeros((len(getattr(dataset, name)), 2), np.float32) for name in SPLITS}
            self.check(_with_features(dataset, blank, None))
        with writable("features.cache", folder):
            make_folder(folder)
        extractor, known = self._extractor(folder, pictures, stage)
        features = {}
        for name in SPLITS:
            of_first = known if name == "public" else None
            features[name] = _features_of(getattr(dataset, name).inputs, extractor, folder, name, stage, of_first)
        form = ExtractedForm(cast("ImageForm | None", dataset.preprocessing), extractor)
        return replace(_with_features(dataset, features, form), private_cells=dataset.private_digest())

    def _extractor(self, folder: Path, pictures: PublicPictures, stage: Stage) -> tuple[Extractor, Rows | None]:
        """The one that was kept, or else fitted and kept, and what it knows; a process that wants the same waits."""
        known = None
        with nullcontext() if _is_whole(folder) else locked(folder / "lock"):
            if not _is_whole(folder):
                remove_partials(folder, (re.escape(FILE), re.escape(_DIGEST)))
                extractor = self.features.fit(pictures, stage)
                extractor.save(folder / FILE)
                write_text(folder / _DIGEST, extractor.digest + "\n")
                known = extractor.known
            return Extractor.load(folder / FILE, remedy=_REMEDY), known


def _is_whole(folder: Path) -> bool:
    """Whether an extractor is there, and is what was written."""
    try:
        return read_text(folder / _DIGEST, remedy=_REMEDY).strip() == file_digest(folder / FILE, remedy=_REMEDY)
    except (OSError, DamagedFile):
        return False


def _with_features(dataset: Dataset, inputs: dict[str, Rows], form: ExtractedForm | None) -> Dataset:
    """The same records with features in place of pictures."""
    splits: dict[str, Any] = {name: replace(getattr(dataset, name), inputs=each) for name, each in inputs.items()}
    return replace(dataset, kind="features", preprocessing=form, **splits)


def _features_of(inputs: Any, extractor: Extractor, folder: Path, name: str, stage: Stage, known: Rows | None) -> Rows:
    """Features of a split, mapped from a file named after its pictures; stamps are digests of blocks."""
    digest = hashlib.sha256(repr(inputs.shape).encode())
    enter(digest, inputs)
    path = folder / f"{name}-{digest.hexdigest()[:12]}.f32"
    shape = len(inputs), extractor.num_features
    file = StampedFile(path, path.with_suffix(".stamps"), shape, np.float32, _BLOCK, "features.cache")

    def missing() -> NDArray[np.int64]:
        """The blocks whose features are not those that were stamped."""
        stamps = file.known()
        if not stamps.any():
            return np.arange(len(stamps))
        features = file.mapped()
        good = [_stamp(features[b * _BLOCK : (b + 1) * _BLOCK]) == stamp for b, stamp in enumerate(stamps)]
        return np.flatnonzero(~np.array(good))

    def extracted(block: int) -> Rows:
        rows = slice(block * _BLOCK, (block + 1) * _BLOCK)
        if known is not None and rows.stop <= len(known):
            return known[rows]
        return extractor.features_of(inputs[rows])

    def made(blocks: NDArray[np.int64]) -> Iterator[Made]:
        for block, rows in zip(blocks, on_all_cores(extracted, blocks.tolist()), strict=True):
            yield np.array([block]), rows[None], np.array([_stamp(rows)])

    file.fill(missing, made, f"features of the {name} pictures", stage)
    features: Rows = file.mapped("c")
    return features


def _stamp(features: Rows) -> int:
    """A number for a block of features; never 0."""
    return int.from_bytes(hashlib.sha256(np.ascontiguousarray(features).data).digest()[:8], "big") >> 1 | 1
