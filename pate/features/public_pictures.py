"""The images on which features may be fitted."""

import hashlib

import numpy as np

from pate.array_types import Float32Array
from pate.data.array_digest import add_entries
from pate.data.dataset import Dataset
from pate.validation import require, require_count, require_kind


class PublicPictures:
    """The first images of a data set's public pool.

    Formal guarantee: an object of this class gives no access to a private or test record, and no caller chooses the
    split that is fitted on. The constructor takes a whole data set and keeps only the first of `Dataset.public.inputs`.

    Args:
        dataset: a data set of images.
        max_pictures: the largest number of images.

    Raises:
        InvalidValue: `dataset` is no data set of the kind "images", or `max_pictures` is no whole number >= 1.
    """

    def __init__(self, dataset: Dataset, max_pictures: int = 10_000) -> None:
        require_kind("dataset", value=dataset, kind=Dataset, rule="a pate.data.Dataset")
        require(dataset.kind == "images", "dataset.kind", dataset.kind, "a data set of pictures")
        num_pictures = require_count("max_pictures", max_pictures)
        self.inputs = dataset.public.take(slice(0, num_pictures)).inputs

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def picture_shape(self) -> tuple[int, int, int]:
        """The shape `(channels, height, width)` of an image."""
        return tuple(self.inputs.shape[1:])

    def batch(self, first_index: int, batch_size: int) -> Float32Array:
        """Returns up to `batch_size` consecutive images, float32 `[num_images, *picture_shape]` in [0, 1].

        Args:
            first_index: the index of the first image.
            batch_size: the largest number of images.
        """
        return np.asarray(self.inputs[first_index : first_index + batch_size], np.float32)

    @property
    def origin(self) -> dict[str, str | int]:
        """The public description of the images, for the model's card: values by name."""
        return {
            "fitted_on": "the public pool",
            "num_pictures": len(self),
            "pictures_sha256": self.digest(),
        }

    def digest(self) -> str:
        """Returns the SHA-256 digest of the images in their order, in hexadecimal."""
        pictures_hash = hashlib.sha256(repr((len(self), self.picture_shape)).encode())
        add_entries(pictures_hash, array=self.inputs)
        return pictures_hash.hexdigest()
