"""A data set of images in which features replace the images."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from pate.array_types import Float32Array, IntArray
from pate.data.array_digest import add_bytes
from pate.data.cache import Blocks, StampedFile, writable
from pate.data.dataset import Dataset, load_dataset
from pate.data.image_form import ImageForm
from pate.data.split import SPLITS
from pate.features.extracted_form import FILE, ExtractedForm
from pate.features.extractor import Extractor
from pate.features.features import Features
from pate.features.public_pictures import PublicPictures
from pate.files.atomic import remove_partials, write_text
from pate.files.digests import file_digest
from pate.files.lock import file_lock
from pate.files.paths import make_folder
from pate.files.reading import DamagedFile, read_text
from pate.progress import StageOpener, unwatched
from pate.threads import on_all_cores
from pate.validation import InvalidValue

_BLOCK = 1024  # images whose features share a stamp
_DIGEST = "extractor.sha256"
_REMEDY = "remove it, and the same command makes it again"


@dataclass(frozen=True)
class FeaturedData:
    """A reader that replaces the images of a data set by features, for teachers, students and compared methods.

    The extractor is fitted on the public pool and cached. The features of each split are cached in a `StampedFile`.
    Labels, ids and groups are those of the images, and so is the digest by which a ledger recognizes the same records
    in several runs.
    """

    data: Any  # the reader of the pictures: an object with `load()`
    features: Features
    cache: Path  # the folder for extractors and features, as private as the images
    # A check before anything is fitted, of a blank data set of the same sizes: raises where a plan cannot work on it.
    check: Callable[[Dataset], object] | None = None

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the images, fits the extractor, and returns the data set with features. Cached results are reused.

        Raises:
            InvalidValue: the data have no images, the images have a size that the recipe cannot process, or the
                cache cannot be written. All three are checked before anything is fitted.
        """
        dataset = load_dataset(reader=self.data, stage=stage)
        kind = type(self.features).__name__.lower()
        if dataset.kind != "images":
            rule = f"none: {dataset.name} has no pictures, but {dataset.input_shape[0]} features already"
            raise InvalidValue("features", kind, rule=rule)
        pictures = PublicPictures(dataset, max_pictures=self.features.most_pictures)
        self.features.check(pictures.shape)
        identity = self.features.identity(pictures)
        folder = self.cache.expanduser() / f"features-{kind}-{identity[:12]}"
        if self.check is not None and not _has_extractor(folder):
            self.check(
                _with_features(
                    dataset, features_of_splits=_blank_features(dataset), preprocessing=None
                )
            )
        with writable(setting="features.cache", folder=folder):
            make_folder(folder)
        first_features = None
        # a second process that needs the same extractor waits
        with nullcontext() if _has_extractor(folder) else file_lock(folder / "lock"):
            if not _has_extractor(folder):
                remove_partials(folder, name_patterns=(re.escape(FILE), re.escape(_DIGEST)))
                fitted = self.features.fit(pictures, stage)
                fitted.save(folder / FILE)
                write_text(folder / _DIGEST, text=fitted.digest + "\n")
                first_features = fitted.first_features
            extractor = Extractor.load(folder / FILE, remedy=_REMEDY)
        features = {
            name: _features_of_split(
                name,
                getattr(dataset, name).inputs,
                extractor=extractor,
                folder=folder,
                stage=stage,
                first_features=first_features if name == "public" else None,
            )
            for name in SPLITS
        }
        form = ExtractedForm(cast("ImageForm | None", dataset.preprocessing), extractor)
        featured = _with_features(dataset, features_of_splits=features, preprocessing=form)
        return replace(featured, private_cells=dataset.private_digest())


def _has_extractor(folder: Path) -> bool:
    """Returns True if a folder holds a complete extractor."""
    try:
        digest = read_text(folder / _DIGEST, remedy=_REMEDY).strip()
        return digest == file_digest(folder / FILE, remedy=_REMEDY)
    except (OSError, DamagedFile):
        return False


def _blank_features(dataset: Dataset) -> dict[str, Float32Array]:
    return {name: np.zeros((len(getattr(dataset, name)), 2), np.float32) for name in SPLITS}


def _with_features(
    dataset: Dataset,
    features_of_splits: Mapping[str, Float32Array],
    preprocessing: ExtractedForm | None,
) -> Dataset:
    """Returns the data set with features in place of its images.

    Args:
        dataset: the data set of images.
        features_of_splits: the features of each split, by the split's name.
        preprocessing: the preprocessing for a published model; None if there is none.
    """
    return replace(
        dataset,
        kind="features",
        preprocessing=preprocessing,
        private=replace(dataset.private, inputs=features_of_splits["private"]),
        public=replace(dataset.public, inputs=features_of_splits["public"]),
        test=replace(dataset.test, inputs=features_of_splits["test"]),
    )


def _features_of_split(
    name: str,
    inputs: Any,
    extractor: Extractor,
    folder: Path,
    stage: StageOpener,
    *,
    first_features: Float32Array | None,
) -> Float32Array:
    """Returns the features of a split as a `np.memmap`; the file is named after the split's images.

    Args:
        name: the name of the split.
        inputs: the images, `[num_images, channels, height, width]`.
        extractor: computes the features.
        folder: the folder of the file.
        stage: opens the stage that reports progress.
        first_features: the features of the first images if the fit has already computed them; None otherwise.
    """
    digest = hashlib.sha256(repr(inputs.shape).encode())
    add_bytes(digest, array=inputs)
    path = folder / f"{name}-{digest.hexdigest()[:12]}.f32"
    file = StampedFile(
        path=path,
        stamps=path.with_suffix(".stamps"),
        shape=(len(inputs), extractor.num_features),
        dtype=np.float32,
        block=_BLOCK,
        setting="features.cache",
    )

    def missing_blocks() -> IntArray:
        stamps = file.read_stamps()
        features = file.mapped() if stamps.any() else np.empty((0, 1), np.float32)
        is_whole = [
            stamp == _stamp(features[block * _BLOCK : (block + 1) * _BLOCK])
            for block, stamp in enumerate(stamps)
        ]
        return np.flatnonzero(~np.array(is_whole))

    def extract_block(block: int) -> Float32Array:
        rows = slice(block * _BLOCK, (block + 1) * _BLOCK)
        if first_features is not None and rows.stop <= len(first_features):
            return first_features[rows]
        return extractor.extract(inputs[rows])

    def extract_blocks(block_numbers: IntArray) -> Iterator[Blocks]:
        blocks = on_all_cores(extract_block, items=block_numbers.tolist())
        for number, features in zip(block_numbers, blocks, strict=True):
            stamps = np.array([_stamp(features)])
            yield Blocks(numbers=np.array([number]), values=features[None], stamps=stamps)

    file.fill(missing_blocks, extract_blocks, f"features of the {name} pictures", stage)
    # copy on write: a reader may change its features, and the file stays as it is
    features: Float32Array = file.mapped("c")
    return features


def _stamp(features: Float32Array) -> int:
    """Returns a nonzero hash of a block of features. 0 would mark a missing block."""
    digest = hashlib.sha256(np.ascontiguousarray(features).data).digest()
    return int.from_bytes(digest[:8], "big") >> 1 | 1
