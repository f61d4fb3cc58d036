"""Features of pictures: the recipe, the public pictures that it is fitted on, the extractor that it becomes."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Dataset, Fitted, ImageForm, Preprocessing, Stage, enter
from pate.files.arrays import Spilled
from pate.files.values import full_text
from pate.validation import InvalidValue, require, require_count, require_kind

Array = NDArray[np.float32]

FILE = "extractor.safetensors"
"""Its name in a bundle."""

_SMALLEST_STD = 1e-6
_VERSION = 1  # of what recipes do with their settings; in the name of what is kept
_WHITE = np.float32(255)
_KINDS = {"patches": "patches.PatchExtractor", "backbone": "backbone.BackboneExtractor"}
_MODERATE, _TIMES = 2**24, 16  # numbers that a file may ask for, whatever it holds, and per number in it


class PublicPictures:
    """The first pictures of a data set's public pool, at most so many; raises where it has no pictures.

    Formal guarantee: whoever holds one can reach no private or test record through it. It is made of a whole data set
    and keeps `Dataset.public.inputs` alone, so that no caller chooses which split a fit is shown.
    """

    def __init__(self, dataset: Dataset, most: int = 10_000) -> None:
        require_kind("dataset", dataset, Dataset, "a pate.data.Dataset")
        require(dataset.kind == "images", "dataset.kind", dataset.kind, "a data set of pictures")
        self.inputs: Any = dataset.public.take(slice(0, require_count("most", most))).inputs

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return tuple(self.inputs.shape[1:])

    def batch(self, first: int, size: int) -> Array:
        """At most so many pictures from that one on."""
        return np.asarray(self.inputs[first : first + size], np.float32)

    @property
    def origin(self) -> dict[str, str | int]:
        """What is said of features that were fitted on them."""
        return {"fitted_on": "the public pool", "num_pictures": len(self), "pictures_sha256": self.digest()}

    def digest(self) -> str:
        """SHA-256 of the pictures in their order, in hexadecimal."""
        digest = hashlib.sha256(repr((len(self), self.shape)).encode())
        enter(digest, self.inputs)
        return digest.hexdigest()


def on_all_cores(make: Callable[[int], Array], items: Sequence[int]) -> Iterator[Array]:
    """What is made of each item, in order, each on one core: bits do not depend on how many cores there are."""
    import torch
    from joblib import cpu_count

    from pate.networks.device import one_thread

    workers = 1 if torch.cuda.is_available() else max(1, min(cpu_count(), len(items)))
    ahead = 2 * workers  # items in memory
    with one_thread(), ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        waiting = [pool.submit(make, item) for item in items[:ahead]]
        try:
            for place in range(len(items)):
                made = waiting.pop(0).result()
                waiting.extend(pool.submit(make, item) for item in items[place + ahead : place + ahead + 1])
                yield made
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def projection_of(
    pictures: PublicPictures,
    measure: Callable[[Array], Array],
    batch_size: int,
    *,
    dimension: int,
    seed: int,
    stage: Stage,
) -> tuple[dict[str, Array], Array]:
    """From many measurements `[n, d]` of pictures to fewer features `[n, k]`, `(measured - center) @ projection`.

    Measurements are standardized, then projected on their principal directions in the public pool, at most `dimension`.
    All features are scaled together, so that those of the public pictures have a mean square of 1.

    Returns:
        Center and projection, and the measurements.

    Raises:
        InvalidValue: pictures that are all alike.
    """
    from sklearn.decomposition import PCA

    with stage("projecting public pictures", len(pictures)) as advance:
        blocks = Spilled(2**62)
        firsts = range(0, len(pictures), batch_size)
        batches = on_all_cores(lambda first: measure(pictures.batch(first, batch_size)), firsts)
        for first, batch in zip(firsts, batches, strict=True):
            blocks.append(batch)
            advance(first + len(batch))
        measured = blocks.whole()
        center = measured.mean(axis=0, dtype=np.float64).astype(np.float32)
        standard = measured - center
        spread = np.sqrt(np.einsum("ij,ij->j", standard, standard) / np.float32(len(standard)))
        if not (spread > _SMALLEST_STD).any():
            raise InvalidValue("data: expected public pictures that differ, features are fitted on them")
        weight = np.where(spread > _SMALLEST_STD, 1 / np.maximum(spread, _SMALLEST_STD), 0).astype(np.float32)
        standard *= weight
        count = min(dimension, len(standard) - 1, standard.shape[1])
        few = count > 0.5 * min(standard.shape)
        solver = "full" if few else "randomized"
        found = PCA(count, copy=False, svd_solver=solver, random_state=seed, iterated_power=2)
        projected = found.fit_transform(standard)
        kept = projected.var(axis=0) > 1e-9 * projected.var(axis=0).max()
        directions = weight[:, None] * found.components_[kept].T
        scale = np.sqrt(np.mean(np.square(projected[:, kept], dtype=np.float64)))
    return {"center": center, "projection": np.ascontiguousarray(directions / scale, np.float32)}, measured


@dataclass(frozen=True, eq=False)
class Extractor(Fitted):
    """From pictures to features, by float32 arrays."""

    # features of the first pictures that it was fitted on, in whole batches; None once it is read from a file
    known: Array | None = None

    entry = "extractor"
    rule = "an extractor of features"

    @classmethod
    def of_kind(cls, kind: str) -> Any:
        module, _, name = _KINDS[kind].partition(".")
        return getattr(import_module(f"pate.features.{module}"), name)

    @property
    def picture_shape(self) -> tuple[int, ...]:
        """Channels, height and width of the pictures that it takes."""
        channels, height, width = map(int, self.settings["picture_shape"])
        return channels, height, width

    @property
    def num_features(self) -> int:
        """Numbers a picture."""
        return int(self.arrays["projection"].shape[1])

    @property
    def batch_size(self) -> int:
        """Pictures that are worked on at once; features are the same bytes for the same batches."""
        return 64

    @abstractmethod
    def _numbers_at_once(self) -> int:
        """About how many numbers are in memory for one picture; `ValueError` where shapes are not as settings say."""

    @abstractmethod
    def measured(self, images: Array) -> Array:
        """What is projected, `[n, d]`, of one batch of pictures `[n, channels, height, width]` in [0, 1]."""

    @abstractmethod
    def projected(self, measured: Array) -> Array:
        """Features `[n, num_features]` of one batch."""

    def features(self, images: Array) -> Array:
        """Features `[n, num_features]` of one batch of pictures."""
        return self.projected(self.measured(images))

    def fitted(self, projection: Mapping[str, Array], measured: Array) -> Self:
        """With what `projection_of` found, and the features of what it measured."""
        made = replace(self, arrays={**self.arrays, **projection})
        last = len(measured) // self.batch_size * self.batch_size
        batches = np.split(measured[:last], range(self.batch_size, last, self.batch_size)) if last else []
        known = [made.projected(batch) for batch in batches]
        return replace(made, known=np.concatenate(known) if known else None)

    def features_of(self, images: Any) -> NDArray[np.float32]:
        """Features of any number of pictures, in memory; raises where they have another shape."""
        found, wanted = tuple(images.shape[1:]), self.picture_shape
        require(found == wanted, "pictures.shape[1:]", found, f"{wanted}, as the features were made for")
        features = np.empty((len(images), self.num_features), np.float32)
        for first in range(0, len(images), self.batch_size):
            batch = np.zeros((self.batch_size, *wanted), np.float32)  # full: products of one shape treat pictures alike
            shown = np.asarray(images[first : first + self.batch_size], np.float32)
            batch[: len(shown)] = shown
            features[first : first + len(shown)] = self.features(batch)[: len(shown)]
        return features

    def tried(self) -> Array:
        """What it answers, asked for one picture."""
        held = sum(array.size for array in self.arrays.values())
        good = all(array.dtype == np.float32 for array in self.arrays.values()) and min(self.picture_shape) > 0
        if not good or self._numbers_at_once() > _MODERATE + _TIMES * held:
            raise ValueError("arrays of other shapes")
        return self.features(np.full((1, *self.picture_shape), 0.5, np.float32))


class Features(ABC):
    """A representation of pictures, chosen by `features=`.

    Formal guarantee: `fit` is given `PublicPictures` and nothing else, so what it returns is a function of the public
    pool, of the recipe's own settings and of files that these name. No private record has a part in it.

    A recipe is a frozen dataclass; its fields are public settings, but for `cache`.
    """

    cache: Any = None  # the folder to keep features in, as private as the pictures; None for one beside the run's
    most_pictures: int = 10_000  # public ones that a fit reads, the first

    @abstractmethod
    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Raises `InvalidValue` where pictures of that shape cannot be read, or a file that is needed is not there."""

    @abstractmethod
    def fit(self, pictures: PublicPictures, stage: Stage) -> Extractor:
        """The extractor; equal pictures and settings give the same one on the same machine."""

    def identity(self, pictures: PublicPictures) -> str:
        """A digest of all that an extractor depends on: settings, files, and the public pictures."""
        settings: Any = self
        kept = {item.name: getattr(self, item.name) for item in fields(settings) if item.name != "cache"}
        said = full_text([_VERSION, type(self).__qualname__, kept])
        return hashlib.sha256(f"{said}{pictures.digest()}".encode()).hexdigest()


@dataclass(frozen=True)
class NoFeatures(Features):
    """Inputs as the data set gives them."""

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Nothing to check."""

    def fit(self, pictures: PublicPictures, stage: Stage) -> Extractor:
        raise TypeError("features=none fits nothing")


@dataclass(frozen=True)
class Kernel(NoFeatures):
    """Inputs as they are, and a kernel's components in the rounds of kernel teachers: see `KernelTeacher.nonlinear`."""


@dataclass(frozen=True, eq=False)
class ExtractedForm(Preprocessing):
    """Pictures brought to one size, then through the extractor."""

    pictures: ImageForm | None  # how they are brought to the extractor's size; None where only arrays can be given
    extractor: Extractor

    kind: ClassVar[str] = "extracted"

    @property
    def feature_names(self) -> tuple[str, ...]:
        return ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.extractor.num_features,)

    @property
    def origin(self) -> Mapping[str, Any]:
        return {
            "features": self.extractor.kind,
            "dimension": self.extractor.num_features,
            **self.extractor.origin,
            "extractor_sha256": self.extractor.digest,
        }

    def inputs(self, given: Any) -> NDArray[np.float32]:
        """Of a list of files or of PIL images, or of an array of pictures `[n, channels, height, width]`."""
        wanted = self.extractor.picture_shape
        shape = f"[n, {', '.join(map(str, wanted))}]"
        if isinstance(given, np.ndarray):  # as bytes or as numbers in [0, 1]
            require(given.shape[1:] == wanted, "data.shape", given.shape, shape)
            shown = given.astype(np.float32)
            return self.extractor.features_of(shown / _WHITE if given.dtype == np.uint8 else shown)
        if self.pictures is None:
            raise InvalidValue(f"data={type(given).__name__}: expected an array of pictures {shape}")
        return self.extractor.features_of(self.pictures.inputs(given))

    def plain(self) -> dict[str, Any]:
        """The arrays are in the file beside."""
        return {
            "kind": self.kind,
            "pictures": None if self.pictures is None else self.pictures.plain(),
            "extractor": {
                "kind": self.extractor.kind,
                "file": FILE,
                "sha256": self.extractor.digest,
                "settings": dict(self.extractor.settings),
                "origin": dict(self.extractor.origin),
            },
        }

    def save(self, folder: Path | str) -> None:
        self.extractor.save(Path(folder, FILE))

    @classmethod
    def read(cls, said: Mapping[str, Any], folder: Path | str, *, remedy: str) -> Self:
        """From what `plain` gave, and the file beside it."""
        extractor = Extractor.load(Path(folder, FILE), remedy=remedy, sha256=said["extractor"]["sha256"])
        pictures = None if said["pictures"] is None else ImageForm.read(said["pictures"])
        if pictures is not None:
            found = pictures.input_shape
            require(found == extractor.picture_shape, "pictures", found, f"pictures {extractor.picture_shape}")
        return cls(pictures, extractor)
