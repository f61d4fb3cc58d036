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
from pate.data.array_digest import add_entries
from pate.data.cache import Blocks, StampedFile, writable
from pate.data.dataset import Dataset, load_dataset
from pate.data.image_form import ImageForm
from pate.data.split import SPLITS
from pate.features.extracted_form import EXTRACTOR_FILE, ExtractedForm
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

# The number of images whose features share a stamp.
_IMAGES_PER_BLOCK = 1024
# The file with the digest of the extractor's file.
_DIGEST_FILE = "extractor.sha256"
_REMEDY = "remove it, and the same command makes it again"


@dataclass(frozen=True)
class FeaturedData:
    """A reader that replaces the images of a data set by features, for everything that learns from it.

    The extractor is fitted on the public pool and cached. The features of each split are cached in a `StampedFile`.
    Labels, ids and groups are those of the images, and so is the digest by which a ledger recognizes the same records
    in several runs.

    Attributes:
        data: the reader of the images, an object with a method `load`.
        features: the recipe of the features.
        cache: the folder for extractors and features, as private as the images.
        check: is called before an extractor is fitted, with the data set and two features that are all 0 in place of
            each image. It raises an error if the settings of a run cannot work on a data set of this size. With a
            cached extractor it is not called. None checks nothing.
    """

    data: Any
    features: Features
    cache: Path
    check: Callable[[Dataset], object] | None = None

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the images, fits the extractor, and returns the data set with features. Cached results are reused.

        Raises:
            InvalidValue: the data have no images, the images have a size that the recipe cannot process, or the
                cache cannot be written. All three are checked before anything is fitted.
        """
        dataset = load_dataset(reader=self.data, open_stage=stage)
        recipe_kind = type(self.features).__name__.lower()
        if dataset.kind != "images":
            rule = f"none: {dataset.name} has no pictures, but {dataset.input_shape[0]} features already"
            raise InvalidValue("features", recipe_kind, rule=rule)
        public_pictures = PublicPictures(dataset, max_pictures=self.features.most_pictures)
        self.features.check(public_pictures.picture_shape)
        recipe_digest = self.features.identity(public_pictures)
        recipe_folder = self.cache.expanduser() / f"features-{recipe_kind}-{recipe_digest[:12]}"
        if self.check is not None and not _has_extractor(recipe_folder):
            dataset_with_blank_features = _with_features(
                dataset, features_of_splits=_blank_features(dataset), preprocessing=None
            )
            self.check(dataset_with_blank_features)
        with writable(setting_name="features.cache", folder=recipe_folder):
            make_folder(recipe_folder)
        fitted_extractor, first_features = self._extractor(
            public_pictures, recipe_folder=recipe_folder, open_stage=stage
        )
        features_of_splits = {
            split_name: _features_of_split(
                split_name,
                split_images=getattr(dataset, split_name).inputs,
                extractor=fitted_extractor,
                recipe_folder=recipe_folder,
                open_stage=stage,
                first_features=first_features if split_name == "public" else None,
            )
            for split_name in SPLITS
        }
        featured_dataset = _with_features(
            dataset,
            features_of_splits=features_of_splits,
            preprocessing=ExtractedForm(
                image_form=cast("ImageForm | None", dataset.preprocessing),
                extractor=fitted_extractor,
            ),
        )
        return replace(featured_dataset, private_cells=dataset.private_digest())

    def _extractor(
        self, public_pictures: PublicPictures, recipe_folder: Path, open_stage: StageOpener
    ) -> tuple[Extractor, Float32Array | None]:
        """Returns the extractor that a folder holds; if there is none, fits the extractor and writes it there.

        A second process that needs the same extractor waits for the first one.

        Args:
            public_pictures: the public images.
            recipe_folder: the folder of the file, which exists.
            open_stage: opens the stages that report progress.

        Returns:
            The extractor, and its `first_features` if this call has fitted it; None otherwise.
        """
        first_features = None
        with nullcontext() if _has_extractor(recipe_folder) else file_lock(recipe_folder / "lock"):
            if not _has_extractor(recipe_folder):
                remove_partials(
                    recipe_folder,
                    name_patterns=(re.escape(EXTRACTOR_FILE), re.escape(_DIGEST_FILE)),
                )
                fitted_extractor = self.features.fit(public_pictures, stage=open_stage)
                fitted_extractor.save(recipe_folder / EXTRACTOR_FILE)
                write_text(recipe_folder / _DIGEST_FILE, text=fitted_extractor.digest + "\n")
                first_features = fitted_extractor.first_features
            return Extractor.load(recipe_folder / EXTRACTOR_FILE, remedy=_REMEDY), first_features


def _has_extractor(recipe_folder: Path) -> bool:
    """Returns True if a folder holds the file of an extractor, and a file with its digest that fits it."""
    try:
        stored_digest = read_text(recipe_folder / _DIGEST_FILE, remedy=_REMEDY).strip()
        return stored_digest == file_digest(recipe_folder / EXTRACTOR_FILE, remedy=_REMEDY)
    except (OSError, DamagedFile):
        return False


def _blank_features(dataset: Dataset) -> dict[str, Float32Array]:
    """Returns features that are all 0, `[num_records, 2]`, for each split of a data set, by the split's name."""
    return {
        split_name: np.zeros((len(getattr(dataset, split_name)), 2), np.float32)
        for split_name in SPLITS
    }


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
    split_name: str,
    split_images: Any,
    extractor: Extractor,
    recipe_folder: Path,
    open_stage: StageOpener,
    *,
    first_features: Float32Array | None,
) -> Float32Array:
    """Returns the features of a split, `[num_images, num_features]`, as a `np.memmap` of a file in the cache.

    The file is named after the split and a digest of its images. Blocks that it holds already are not computed again.

    Args:
        split_name: the name of the split.
        split_images: the images, `[num_images, channels, height, width]`.
        extractor: computes the features.
        recipe_folder: the folder of the file.
        open_stage: opens the stage that reports progress.
        first_features: the features of the first images if the fit has already computed them; None otherwise.
    """
    image_hash = hashlib.sha256(repr(split_images.shape).encode())
    add_entries(image_hash, array=split_images)
    features_file = recipe_folder / f"{split_name}-{image_hash.hexdigest()[:12]}.f32"
    stamped_file = StampedFile(
        array_file=features_file,
        stamps_file=features_file.with_suffix(".stamps"),
        shape=(len(split_images), extractor.num_features),
        dtype=np.float32,
        rows_per_block=_IMAGES_PER_BLOCK,
        setting_name="features.cache",
    )

    def find_missing_blocks() -> IntArray:
        block_stamps = stamped_file.read_stamps()
        features = stamped_file.mapped() if block_stamps.any() else np.empty((0, 1), np.float32)
        block_has_features = [
            stamp == _stamp(features[_rows_of_block(block_number)])
            for block_number, stamp in enumerate(block_stamps)
        ]
        return np.flatnonzero(~np.array(block_has_features))

    def extract_block(block_number: int) -> Float32Array:
        image_rows = _rows_of_block(block_number)
        if first_features is not None and image_rows.stop <= len(first_features):
            return first_features[image_rows]
        return extractor.extract(split_images[image_rows])

    def extract_blocks(block_numbers: IntArray) -> Iterator[Blocks]:
        features_of_blocks = on_all_cores(extract_block, items=block_numbers.tolist())
        for block_number, block_features in zip(block_numbers, features_of_blocks, strict=True):
            block_stamps = np.array([_stamp(block_features)])
            yield Blocks(
                numbers=np.array([block_number]), values=block_features[None], stamps=block_stamps
            )

    stamped_file.fill(
        find_missing_blocks=find_missing_blocks,
        compute_blocks=extract_blocks,
        stage_name=f"features of the {split_name} pictures",
        open_stage=open_stage,
    )
    # The array is copied on write: whoever changes its features leaves the file unchanged.
    features: Float32Array = stamped_file.mapped(mode="c")
    return features


def _rows_of_block(block_number: int) -> slice:
    """Returns the range of the images whose features are in a block of the cached file."""
    return slice(block_number * _IMAGES_PER_BLOCK, (block_number + 1) * _IMAGES_PER_BLOCK)


def _stamp(block_features: Float32Array) -> int:
    """Returns a nonzero hash of a block of features. 0 would mark a missing block."""
    digest_bytes = hashlib.sha256(np.ascontiguousarray(block_features).data).digest()
    return int.from_bytes(digest_bytes[:8], "big") >> 1 | 1
