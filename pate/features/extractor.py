"""A fitted function from pictures to features.

An extractor has two steps. The method `measure` computes raw numbers for a batch of pictures, such as responses of
filters or vectors of a network. The method `project` centers these numbers and projects them on directions that
`with_projection` learned from public pictures.

All batches have the same size, with padding in the last. So the features of a picture are equal, to the last bit, in
training and in a published model.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.data.fitted_transform import FittedTransform
from pate.features.public_pictures import PublicPictures
from pate.files.arrays import Spilled
from pate.progress import StageOpener
from pate.validation import InvalidValue, require

Array = NDArray[np.float32]

_SMALLEST_STD = 1e-6  # of a measurement; one that varies less is left out
# of a direction, as a share of the largest; others are left out as rounding errors
_LEAST_VARIANCE = 1e-9
_KINDS = {"patches": "patches.PatchExtractor", "backbone": "backbone.BackboneExtractor"}
# The numbers in memory that an extractor from a file may ask for: so many, and so many per number in the file.
_MODERATE = 2**24
_NUMBERS_PER_NUMBER = 16


@dataclass(frozen=True, eq=False)
class Extractor(FittedTransform):
    """A fitted function from pictures to features, which is determined by float32 arrays.

    Features are computed in two steps: `measure`, then `project`.
    """

    # features of the first pictures of the fit, in whole batches, so that they are not computed again; None of an
    # extractor from a file
    first_features: Array | None = None

    entry = "extractor"
    rule = "an extractor of features"

    @classmethod
    def of_kind(cls, kind: str) -> Any:
        """Returns the class of extractors with this value of `kind`; raises `LookupError` if there is none."""
        module, _, name = _KINDS[kind].partition(".")
        return getattr(import_module(f"pate.features.{module}"), name)

    @property
    def picture_shape(self) -> tuple[int, ...]:
        """The shape `(channels, height, width)` of a picture."""
        channels, height, width = map(int, self.settings["picture_shape"])
        return channels, height, width

    @property
    def num_features(self) -> int:
        """The number of features of a picture."""
        return int(self.arrays["projection"].shape[1])

    @property
    def batch_size(self) -> int:
        """The number of pictures in a batch. Equal batches give equal features, bit for bit."""
        return 64

    @abstractmethod
    def _numbers_at_once(self) -> int:
        """Returns about how many numbers have to be in memory to process one picture.

        Raises:
            ValueError: the shapes of arrays contradict the settings.
        """

    @abstractmethod
    def measure(self, images: Array) -> Array:
        """Returns the measurements `[num_pictures, d]` of one batch of pictures.

        Args:
            images: `[num_pictures, channels, height, width]` in [0, 1].
        """

    @abstractmethod
    def project(self, measurements: Array) -> Array:
        """Returns the features `[num_pictures, num_features]` for measurements `[num_pictures, d]`."""

    def with_projection(
        self, pictures: PublicPictures, *, dimension: int, seed: int, stage: StageOpener
    ) -> Self:
        """Returns the extractor with a projection that is fitted to public pictures.

        Measurements are standardized and projected on their principal directions. All features are then multiplied by
        one factor, so that their mean square over the public pictures is 1.

        Args:
            pictures: the public pictures.
            dimension: the largest number of directions.
            seed: the seed of the randomized decomposition.
            stage: opens the stage that reports progress.

        Raises:
            InvalidValue: all public pictures have the same measurements.
        """
        from sklearn.decomposition import PCA

        batch_size = self.batch_size
        firsts = range(0, len(pictures), batch_size)

        def measure_batch(first_index: int) -> Array:
            return self.measure(images=pictures.batch(first_index, batch_size))

        blocks = Spilled(2**62)
        with stage("projecting public pictures", len(pictures)) as advance:
            for first, batch in zip(firsts, on_all_cores(measure_batch, items=firsts), strict=True):
                blocks.append(batch)
                advance(first + len(batch))
            measurements = blocks.whole()
            center = measurements.mean(axis=0, dtype=np.float64).astype(np.float32)
            standardized = measurements - center
            squares = np.einsum("ij,ij->j", standardized, standardized)
            std = np.sqrt(squares / np.float32(len(standardized)))
            varies = std > _SMALLEST_STD
            if not varies.any():
                rule = "public pictures that differ, features are fitted on them"
                raise InvalidValue("data", rule=rule)
            weights = np.where(varies, 1 / np.maximum(std, _SMALLEST_STD), 0).astype(np.float32)
            standardized *= weights
            count = min(dimension, len(standardized) - 1, standardized.shape[1])
            needs_most = count > 0.5 * min(standardized.shape)
            decomposition = PCA(
                count,
                copy=False,
                svd_solver="full" if needs_most else "randomized",
                random_state=seed,
                iterated_power=2,
            )
            projected = decomposition.fit_transform(standardized)
            variances = projected.var(axis=0)
            is_direction = variances > _LEAST_VARIANCE * variances.max()
            directions = weights[:, None] * decomposition.components_[is_direction].T
            scale = np.sqrt(np.mean(np.square(projected[:, is_direction], dtype=np.float64)))
        projection = np.ascontiguousarray(directions / scale, np.float32)
        arrays = {**self.arrays, "center": center, "projection": projection}
        extractor = replace(self, arrays=arrays)
        num_whole_batches = len(measurements) // batch_size
        features = [
            extractor.project(measurements[first : first + batch_size])
            for first in firsts[:num_whole_batches]
        ]
        return replace(extractor, first_features=np.concatenate(features) if features else None)

    def extract(self, images: Any) -> Array:
        """Returns the features of pictures in memory, float32 `[num_pictures, num_features]`.

        Args:
            images: `[num_pictures, *picture_shape]` in [0, 1].

        Raises:
            InvalidValue: the pictures have another shape.
        """
        shape = tuple(images.shape[1:])
        rule = f"{self.picture_shape}, as the features were made for"
        require(shape == self.picture_shape, "pictures.shape[1:]", shape, rule)
        features = np.empty((len(images), self.num_features), np.float32)
        for first in range(0, len(images), self.batch_size):
            pictures = np.asarray(images[first : first + self.batch_size], np.float32)
            # A full batch, as the last bits of a product of matrices depend on their shapes.
            batch = np.zeros((self.batch_size, *self.picture_shape), np.float32)
            batch[: len(pictures)] = pictures
            batch_features = self.project(self.measure(images=batch))
            features[first : first + len(pictures)] = batch_features[: len(pictures)]
        return features

    def sample_output(self) -> Array:
        """Returns the features of a gray picture, which tests that the arrays of a file fit together."""
        num_numbers = sum(array.size for array in self.arrays.values())
        are_floats = all(array.dtype == np.float32 for array in self.arrays.values())
        limit = _MODERATE + _NUMBERS_PER_NUMBER * num_numbers
        if not are_floats or min(self.picture_shape) <= 0 or self._numbers_at_once() > limit:
            raise ValueError("arrays of other shapes")
        return self.project(self.measure(np.full((1, *self.picture_shape), 0.5, np.float32)))


def on_all_cores(function: Callable[[int], Array], items: Sequence[int]) -> Iterator[Array]:
    """Yields `function(item)` for each item in order. Items are processed in parallel, each on one core.

    So the results do not depend on the number of cores, bit for bit.
    """
    import torch
    from joblib import cpu_count

    from pate.threads import one_thread

    num_workers = 1 if torch.cuda.is_available() else max(1, min(cpu_count(), len(items)))
    num_ahead = 2 * num_workers  # items that are computed or wait to be read
    with (
        one_thread(),
        ThreadPoolExecutor(num_workers, initializer=torch.set_num_threads, initargs=(1,)) as pool,
    ):
        futures = [pool.submit(function, item) for item in items[:num_ahead]]
        try:
            for index in range(len(items)):
                block = futures.pop(0).result()
                if index + num_ahead < len(items):
                    futures.append(pool.submit(function, items[index + num_ahead]))
                yield block
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
