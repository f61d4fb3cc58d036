"""A fitted function from images to features.

An extractor has two steps. The method `measure` computes raw numbers for a batch of images, such as responses of
filters or vectors of a network. The method `project` centers these numbers and projects them on directions that
`with_projection` learned from public images.

Features are computed in batches of one size, with padding in the last. So on one machine, the features of an image are
equal, to the last bit, in training and in a published model.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from pate.array_types import Float32Array
from pate.data.fitted_transform import FittedTransform
from pate.features.projection import PrincipalProjection
from pate.features.public_pictures import PublicPictures
from pate.files.array_rows import Spilled
from pate.progress import StageOpener
from pate.threads import on_all_cores
from pate.validation import require

# The limit above which measurements would be moved to a file. They have to stay in memory, where they are decomposed.
_UNLIMITED_BYTES = 2**62
# An extractor from a file may need so many numbers in memory for one image, and so many more for each number in the
# file. Files that need more are refused.
_MAX_NUMBERS = 2**24
_MAX_NUMBERS_PER_FILE_NUMBER = 16


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class Extractor(FittedTransform):
    """A fitted function from images to features, which is determined by float32 arrays and settings.

    Features are computed in two steps. `measure` computes d numbers of each image, the measurements, and `project` maps
    them to features.

    Attributes:
        first_features: the features of the first public images that the fit has measured, as many as fill whole
            batches. They are not computed again. None if they fill no batch, and for an extractor from a file.
    """

    first_features: Float32Array | None = None

    metadata_key: ClassVar[str] = "extractor"
    description: ClassVar[str] = "an extractor of features"

    @classmethod
    def class_for_kind(cls, kind: str) -> type[FittedTransform]:
        """Returns the subclass whose attribute `kind` has this value; raises `LookupError` if there is none."""
        from pate.features.kinds import EXTRACTOR_KINDS  # imports this module

        return EXTRACTOR_KINDS[kind]

    @property
    def picture_shape(self) -> tuple[int, ...]:
        """The shape `(channels, height, width)` of an image."""
        channels, height, width = map(int, self.settings["picture_shape"])
        return channels, height, width

    @property
    def num_features(self) -> int:
        """The number of features of an image."""
        return int(self.arrays["projection"].shape[1])

    @property
    def batch_size(self) -> int:
        """The number of images that are processed together. Equal batches give equal features, bit for bit."""
        return 64

    @abstractmethod
    def _numbers_at_once(self) -> int:
        """Returns about how many numbers have to be in memory to process one image.

        Raises:
            ValueError: the shapes of arrays contradict the settings.
        """

    @abstractmethod
    def measure(self, images: Float32Array) -> Float32Array:
        """Returns the measurements `[num_images, d]` of one batch of images.

        Args:
            images: `[num_images, channels, height, width]` in [0, 1].
        """

    @abstractmethod
    def project(self, measurements: Float32Array) -> Float32Array:
        """Returns the features `[num_images, num_features]` for measurements `[num_images, d]`."""

    def with_projection(
        self, pictures: PublicPictures, *, dimension: int, seed: int, open_stage: StageOpener
    ) -> Self:
        """Returns the extractor with a projection that is fitted to public images.

        Measurements are standardized and projected on their principal directions. All features are then multiplied by
        one factor, so that the mean square of all features of all public images is 1.

        Args:
            pictures: the public images.
            dimension: the largest number of directions.
            seed: the seed of the randomized decomposition.
            open_stage: opens the stage that reports progress.

        Raises:
            InvalidValue: all public images have the same measurements.
        """
        with open_stage("projecting public pictures", len(pictures)) as advance:
            picture_measurements = self._measure_all(public_pictures=pictures, advance=advance)
            projection = PrincipalProjection.fit(
                picture_measurements, dimension=dimension, seed=seed
            )
        arrays = {**self.arrays, "center": projection.center, "projection": projection.matrix}
        extractor = replace(self, arrays=arrays)
        num_whole_batches = len(picture_measurements) // self.batch_size
        features_of_batches = [
            extractor.project(
                picture_measurements[
                    batch_index * self.batch_size : (batch_index + 1) * self.batch_size
                ]
            )
            for batch_index in range(num_whole_batches)
        ]
        return replace(
            extractor,
            first_features=np.concatenate(features_of_batches) if features_of_batches else None,
        )

    def _measure_all(
        self, public_pictures: PublicPictures, advance: Callable[[int], object]
    ) -> Float32Array:
        """Returns the measurements `[num_images, d]` of all public images.

        Args:
            public_pictures: the public images.
            advance: is called with the number of images that are measured so far.
        """

        def measure_batch(first_index: int) -> Float32Array:
            return self.measure(public_pictures.batch(first_index, batch_size=self.batch_size))

        first_indices = range(0, len(public_pictures), self.batch_size)
        measurements_of_batches = on_all_cores(measure_batch, items=first_indices)
        measurements = Spilled(most_bytes=_UNLIMITED_BYTES)
        for first_index, batch_measurements in zip(
            first_indices, measurements_of_batches, strict=True
        ):
            measurements.append(batch_measurements)
            advance(first_index + len(batch_measurements))
        return np.asarray(measurements.whole())

    def extract(self, images: Any) -> Float32Array:
        """Returns the features of images in memory, float32 `[num_images, num_features]`.

        Args:
            images: `[num_images, *picture_shape]` in [0, 1].

        Raises:
            InvalidValue: an image has another shape than `picture_shape`.
        """
        image_shape = tuple(images.shape[1:])
        rule = f"{self.picture_shape}, as the features were made for"
        require(image_shape == self.picture_shape, "pictures.shape[1:]", image_shape, rule)
        features = np.empty((len(images), self.num_features), np.float32)
        for first_image in range(0, len(images), self.batch_size):
            image_block = np.asarray(
                images[first_image : first_image + self.batch_size], np.float32
            )
            # The batch is filled up, because the last bits of a product of matrices depend on their shapes.
            image_batch = np.zeros((self.batch_size, *self.picture_shape), np.float32)
            image_batch[: len(image_block)] = image_block
            batch_features = self.project(self.measure(images=image_batch))
            features[first_image : first_image + len(image_block)] = batch_features[
                : len(image_block)
            ]
        return features

    def _output_for_artificial_input(self) -> Float32Array:
        """Returns the features of one gray image, which can be computed only if the arrays of a file fit together.

        Raises:
            ValueError: an array is not float32, or shapes contradict each other or the settings, or one image would
                take too much memory for a file of this size.
            KeyError: an array or a setting is missing.
        """
        num_numbers = sum(array.size for array in self.arrays.values())
        are_floats = all(array.dtype == np.float32 for array in self.arrays.values())
        most_numbers = _MAX_NUMBERS + _MAX_NUMBERS_PER_FILE_NUMBER * num_numbers
        if not are_floats or min(self.picture_shape) <= 0 or self._numbers_at_once() > most_numbers:
            raise ValueError("arrays of other shapes")
        batch_of_one_gray_image = np.full((1, *self.picture_shape), 0.5, np.float32)
        return self.project(self.measure(batch_of_one_gray_image))
