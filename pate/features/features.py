"""Features of pictures or texts: recipe, what it is fitted on, extractor or vectors that it becomes, data with them."""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from pate.data.cache import Made, StampedFile, writable
from pate.data.dataset import Dataset, load_dataset
from pate.data.fitted_transform import FittedTransform
from pate.data.image_form import ImageForm
from pate.data.pictures import require_image_levels
from pate.data.preprocessing import Preprocessing
from pate.data.split import SPLITS, enter_bytes
from pate.data.texts.kinds import TEXT_KINDS
from pate.data.texts.reading import evenly_spaced, texts_digest
from pate.data.texts.vectors import TextReader, TextVectors
from pate.data.texts.weights import WEIGHTS_RULES, Weights
from pate.files.arrays import Spilled
from pate.files.digests import full_text
from pate.files.disk import (
    DamagedFile,
    file_digest,
    locked,
    make_folder,
    read_text,
    remove_partials,
    write_text,
)
from pate.progress import StageOpener, unwatched
from pate.validation import InvalidValue, require, require_choice, require_count, require_kind

Array = NDArray[np.float32]

FILE = "extractor.safetensors"  # its name in a bundle
_SMALLEST_STD = 1e-6
_VERSION = 1  # of what recipes do with their settings; in the name of what is kept
_WHITE = np.float32(255)
_KINDS = {"patches": "patches.PatchExtractor", "backbone": "backbone.BackboneExtractor"}
_BLOCK = 1024  # pictures whose features are kept together
_DIGEST = "extractor.sha256"
_REMEDY = "remove it, and the same command makes it again"
# numbers that a file may ask for, whatever it holds, and per number in it
_MODERATE = 2**24
_TIMES = 16


class PublicPictures:
    """The first pictures of a data set's public pool, at most so many; raises where it has no pictures.

    Formal guarantee: no private or test record can be reached through it, and no caller chooses which split a fit is
    shown: it is made of a whole data set and keeps `Dataset.public.inputs` alone.
    """

    def __init__(self, dataset: Dataset, most: int = 10_000) -> None:
        require_kind("dataset", dataset, Dataset, "a pate.data.Dataset")
        require(dataset.kind == "images", "dataset.kind", dataset.kind, "a data set of pictures")
        self.inputs: Any = dataset.public.take(slice(0, require_count("most", most))).inputs

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def shape(self) -> tuple[int, int, int]:  # channels, height and width
        """Channels, height and width of a picture."""
        return tuple(self.inputs.shape[1:])

    def batch(self, first: int, size: int) -> Array:
        """At most so many pictures from that one on."""
        return np.asarray(self.inputs[first : first + size], np.float32)

    @property
    def origin(self) -> dict[str, str | int]:  # what is said of features that were fitted on them
        """The description of the pictures that features were fitted on; public."""
        return {
            "fitted_on": "the public pool",
            "num_pictures": len(self),
            "pictures_sha256": self.digest(),
        }

    def digest(self) -> str:
        """SHA-256 of the pictures in their order, in hexadecimal."""
        digest = hashlib.sha256(repr((len(self), self.shape)).encode())
        enter_bytes(digest, self.inputs)
        return digest.hexdigest()


def on_all_cores(make: Callable[[int], Array], items: Sequence[int]) -> Iterator[Array]:
    """What is made of each item, in order, each on one core: bits do not depend on how many cores there are."""
    import torch
    from joblib import cpu_count

    from pate.threads import one_thread

    workers = 1 if torch.cuda.is_available() else max(1, min(cpu_count(), len(items)))
    ahead = 2 * workers  # items in memory
    with (
        one_thread(),
        ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool,
    ):
        waiting = [pool.submit(make, item) for item in items[:ahead]]
        try:
            for place in range(len(items)):
                block = waiting.pop(0).result()
                waiting.extend(
                    pool.submit(make, item) for item in items[place + ahead : place + ahead + 1]
                )
                yield block
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True, eq=False)
class Extractor(FittedTransform):
    """From pictures to features, by float32 arrays."""

    # of the first pictures of the fit, in whole batches; None if read from a file
    known: Array | None = None

    entry = "extractor"
    rule = "an extractor of features"

    @classmethod
    def of_kind(cls, kind: str) -> Any:
        """Returns the class of extractors that a file names."""
        module, _, name = _KINDS[kind].partition(".")
        return getattr(import_module(f"pate.features.{module}"), name)

    @property
    def picture_shape(self) -> tuple[int, ...]:
        """Channels, height and width of the pictures that it takes."""
        channels, height, width = map(int, self.settings["picture_shape"])
        return channels, height, width

    @property
    def num_features(self) -> int:
        """The number of features of a picture."""
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

    def fitted(
        self, pictures: PublicPictures, *, dimension: int, seed: int, stage: StageOpener
    ) -> Self:
        """With a projection of standardized measurements `[n, d]` on at most `dimension` of their principal directions.

        All features are scaled together, so that those of the public pictures have a mean square of 1. Raises
        `InvalidValue` where these are all alike.
        """
        from sklearn.decomposition import PCA

        size = self.batch_size
        blocks = Spilled(2**62)
        with stage("projecting public pictures", len(pictures)) as advance:
            firsts = range(0, len(pictures), size)
            for first, batch in zip(
                firsts,
                on_all_cores(lambda first: self.measured(pictures.batch(first, size)), firsts),
                strict=True,
            ):
                blocks.append(batch)
                advance(first + len(batch))
            measured = blocks.whole()
            center = measured.mean(axis=0, dtype=np.float64).astype(np.float32)
            standard = measured - center
            spread = np.sqrt(np.einsum("ij,ij->j", standard, standard) / np.float32(len(standard)))
            if not (spread > _SMALLEST_STD).any():
                raise InvalidValue(
                    "data", rule="public pictures that differ, features are fitted on them"
                )
            weight = np.where(
                spread > _SMALLEST_STD, 1 / np.maximum(spread, _SMALLEST_STD), 0
            ).astype(np.float32)
            standard *= weight
            count = min(dimension, len(standard) - 1, standard.shape[1])
            solver = "full" if count > 0.5 * min(standard.shape) else "randomized"
            decomposition = PCA(
                count, copy=False, svd_solver=solver, random_state=seed, iterated_power=2
            )
            projected = decomposition.fit_transform(standard)
            has_variance = projected.var(axis=0) > 1e-9 * projected.var(axis=0).max()
            directions = weight[:, None] * decomposition.components_[has_variance].T
            scale = np.sqrt(np.mean(np.square(projected[:, has_variance], dtype=np.float64)))
        learned = {
            "center": center,
            "projection": np.ascontiguousarray(directions / scale, np.float32),
        }
        made = replace(self, arrays={**self.arrays, **learned})
        known = [
            made.projected(measured[first : first + size])
            for first in firsts[: len(measured) // size]
        ]
        return replace(made, known=np.concatenate(known) if known else None)

    def features_of(self, images: Any) -> NDArray[np.float32]:
        """Features of any number of pictures, in memory; raises where they have another shape."""
        shape = tuple(images.shape[1:])
        picture_shape = self.picture_shape
        require(
            shape == picture_shape,
            "pictures.shape[1:]",
            shape,
            f"{picture_shape}, as the features were made for",
        )
        features = np.empty((len(images), self.num_features), np.float32)
        for first in range(0, len(images), self.batch_size):
            # full: products of one shape treat pictures alike
            batch = np.zeros((self.batch_size, *picture_shape), np.float32)
            shown = np.asarray(images[first : first + self.batch_size], np.float32)
            batch[: len(shown)] = shown
            features[first : first + len(shown)] = self.projected(self.measured(batch))[
                : len(shown)
            ]
        return features

    def sample_output(self) -> Array:
        """Returns features of a blank picture, to see that the arrays of a file work."""
        held = sum(array.size for array in self.arrays.values())
        good = (
            all(array.dtype == np.float32 for array in self.arrays.values())
            and min(self.picture_shape) > 0
        )
        if not good or self._numbers_at_once() > _MODERATE + _TIMES * held:
            raise ValueError("arrays of other shapes")
        return self.projected(self.measured(np.full((1, *self.picture_shape), 0.5, np.float32)))


class Features(ABC):
    """A representation of pictures, chosen by `features=`.

    Formal guarantee: `fit` is given `PublicPictures` and nothing else, so what it returns is a function of the public
    pool, of the recipe's own settings and of files that these name. No private record has a part in it.

    A recipe is a frozen dataclass; its fields are public settings, but for `cache`.
    """

    # folder of what is kept, as private as its source; None for `pate_cache` beside the run's
    cache: Any = None
    most_pictures: int = 10_000  # public ones that a fit reads, the first

    @abstractmethod
    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Raises `InvalidValue` where pictures of that shape cannot be read, or a file that is needed is not there."""

    @abstractmethod
    def fit(self, pictures: PublicPictures, stage: StageOpener) -> Extractor:
        """The extractor; equal pictures and settings give the same one on the same machine."""

    def identity(self, pictures: PublicPictures) -> str:
        """A digest of all that an extractor depends on: settings, files, and the public pictures."""
        key_fields = {
            item.name: getattr(self, item.name)
            for item in fields(cast("Any", self))
            if item.name != "cache"
        }
        key_text = full_text([_VERSION, type(self).__qualname__, key_fields])
        return hashlib.sha256(f"{key_text}{pictures.digest()}".encode()).hexdigest()


@dataclass(frozen=True)
class NoFeatures(Features):
    """Inputs as the data set gives them."""

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Takes pictures of any shape."""

    def fit(self, pictures: PublicPictures, stage: StageOpener) -> Extractor:
        """Raises `TypeError`: there is nothing to fit."""
        raise TypeError("features=none fits nothing")


@dataclass(frozen=True)
class Kernel(NoFeatures):
    """Inputs as they are, and a kernel's components in the rounds of kernel teachers: see `KernelTeacher.nonlinear`."""


@dataclass(frozen=True)
class Text(Features):
    """A vector for each text, fitted on the public texts: of the tables and data sets that have some."""

    # `tfidf`, words and parts of words that public texts have; `static`, vectors of words from a file; `encoder`, what
    # an encoder of sentences says.
    kind: str = field(default="tfidf", metadata={"public": True})
    # file or folder of these vectors, or of the encoder; they must come from public data
    weights: str | None = None
    dimension: int = field(default=128, metadata={"public": True})  # numbers a text, at most
    seed: int = 0  # of the directions
    cache: str | None = field(default=None, metadata={"private": True})

    def __post_init__(self) -> None:
        require_choice("features.kind", self.kind, tuple(TEXT_KINDS))
        if (rule := WEIGHTS_RULES.get(self.kind)) is None:
            require(
                self.weights is None,
                "features.weights",
                self.weights,
                "none beside features.kind=tfidf",
            )
        else:
            has_weights = self._weights is not None and self._weights.place.exists()
            require(has_weights, "features.weights", self.weights, f"{rule}, which is there")
        require_count("features.dimension", self.dimension)
        require_count("features.seed", self.seed, minimum=0)

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Raises `InvalidValue`: pictures have no texts."""
        raise InvalidValue("features", "text", rule="data with texts, and these are pictures")

    def fit(self, pictures: PublicPictures, stage: StageOpener) -> Extractor:
        """Raises `TypeError`: pictures have no texts."""
        raise TypeError("features=text fits no pictures")

    def reader(self, data: Any, cache: Path | str) -> Any:
        """The same reader of data, whose texts become vectors so; raises where it has none."""
        if not isinstance(data, TextReader) or not getattr(data, "text", True):
            raise InvalidValue(
                "features", "text", rule="a column of texts, 'data.text=[NAME]'; or data=wordnet"
            )
        return data.with_text(partial(self.vectors_of, Path(cache).expanduser()))

    def vectors_of(
        self, cache: Path, texts: Sequence[str], stage: StageOpener = unwatched
    ) -> TextVectors:
        """What is fitted on public texts, once for each pool and setting; vectors are kept block by block beside it."""
        weights = self._weights  # in the name their digest stands for where they lie
        description = {
            **asdict(self),
            "cache": None,
            "weights": None if weights is None else weights.sha256,
        }
        name = hashlib.sha256(
            full_text([_VERSION, description, texts_digest(evenly_spaced(texts))]).encode()
        ).hexdigest()
        folder = make_folder(cache / f"features-text-{name[:12]}")
        with locked(folder / "lock"):
            try:
                path = folder / read_text(folder / "name", remedy=_REMEDY).strip()
                vectors = TextVectors.load(path, remedy=_REMEDY, weights=weights)
            except DamagedFile:  # or not there yet
                fit = partial(TEXT_KINDS[self.kind].fit, texts, stage, dimension=self.dimension)
                vectors = fit(seed=self.seed) if weights is None else fit(weights=weights)
                vectors.save(folder / vectors.file)
                write_text(folder / "name", vectors.file + "\n")
        return replace(vectors, cache=make_folder(folder / "vectors"))

    @cached_property
    def _weights(self) -> Weights | None:
        return None if self.weights is None else Weights(Path(self.weights).expanduser())


@dataclass(frozen=True, eq=False)
class ExtractedForm(Preprocessing):
    """Pictures brought to one size, then through the extractor."""

    # how they are brought to the extractor's size; None where only arrays can be given
    pictures: ImageForm | None
    extractor: Extractor

    kind: ClassVar[str] = "extracted"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """No names: features of pictures have none."""
        return ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input: `(num_features,)`."""
        return (self.extractor.num_features,)

    @property
    def origin(self) -> Mapping[str, Any]:
        """The description of the extractor: its kind, dimension, origin and digest; public."""
        extractor = self.extractor
        description = {"features": extractor.kind, "dimension": extractor.num_features}
        return {**description, **extractor.origin, "extractor_sha256": extractor.digest}

    def inputs(self, given: Any) -> NDArray[np.float32]:
        """Of a list of files or of PIL images, or of an array of pictures `[n, channels, height, width]`."""
        picture_shape = self.extractor.picture_shape
        shape = f"[n, {', '.join(map(str, picture_shape))}]"
        if isinstance(given, np.ndarray):  # as bytes or as numbers in [0, 1]
            require(given.shape[1:] == picture_shape, "data.shape", given.shape, shape)
            require_image_levels("data", given)
            shown = given.astype(np.float32)
            return self.extractor.features_of(shown / _WHITE if given.dtype == np.uint8 else shown)
        if self.pictures is None:
            raise InvalidValue("data", type(given).__name__, rule=f"an array of pictures {shape}")
        return self.extractor.features_of(self.pictures.inputs(given))

    def plain(self) -> dict[str, Any]:  # the arrays are in the file beside
        """Returns the form as JSON can hold it; the extractor's arrays lie in a file beside it."""
        extractor = self.extractor
        pictures = None if self.pictures is None else self.pictures.plain()
        description: dict[str, Any] = {
            "kind": extractor.kind,
            "file": FILE,
            "sha256": extractor.digest,
        }
        description |= {"settings": dict(extractor.settings), "origin": dict(extractor.origin)}
        return {"kind": self.kind, "pictures": pictures, "extractor": description}

    def save(self, folder: Path | str) -> None:
        """Writes the extractor's arrays into a folder."""
        self.extractor.save(Path(folder, FILE))

    @classmethod
    def read(cls, said: Mapping[str, Any], folder: Path | str, *, remedy: str) -> Self:
        """From what `plain` gave, and the file beside it."""
        extractor = Extractor.load(
            Path(folder, FILE), remedy=remedy, sha256=said["extractor"]["sha256"]
        )
        pictures = None if said["pictures"] is None else ImageForm.from_plain(said["pictures"])
        if pictures is not None:
            shape = pictures.input_shape
            require(
                shape == extractor.picture_shape,
                "pictures",
                shape,
                f"pictures {extractor.picture_shape}",
            )
        return cls(pictures, extractor)


@dataclass(frozen=True)
class FeaturedData:
    """Reads a data set of pictures and gives features in their place, to teachers, students and methods alike.

    The extractor is fitted on the public pool and kept, and so are features of each split: see `StampedFile`. Labels,
    ids and groups are those of the pictures, and their digest, by which a budget of several runs knows the records.
    """

    data: Any  # what reads the pictures: a class with `load()`
    features: Features
    cache: Path  # the folder for extractors and features, as private as the pictures
    # Asked before anything is fitted, of a blank data set of the same sizes: raises where a plan cannot work on it.
    check: Callable[[Dataset], object] | None = None

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the pictures, fits what is not fitted yet and extracts what is missing; a mistake is said before."""
        dataset = load_dataset(self.data, stage)
        if dataset.kind != "images":
            rule = f"none: {dataset.name} has no pictures, but {dataset.input_shape[0]} features already"
            raise InvalidValue("features", type(self.features).__name__.lower(), rule=rule)
        pictures = PublicPictures(dataset, self.features.most_pictures)
        self.features.check(pictures.shape)
        name = f"features-{type(self.features).__name__.lower()}-{self.features.identity(pictures)[:12]}"
        folder = self.cache.expanduser() / name
        if self.check is not None and not _is_whole(folder):
            blank = {
                name: np.zeros((len(getattr(dataset, name)), 2), np.float32) for name in SPLITS
            }
            self.check(_with_features(dataset, blank, None))
        with writable("features.cache", folder):
            make_folder(folder)
        known = None
        # who wants the same waits
        with nullcontext() if _is_whole(folder) else locked(folder / "lock"):
            if not _is_whole(folder):
                remove_partials(folder, (re.escape(FILE), re.escape(_DIGEST)))
                made = self.features.fit(pictures, stage)
                made.save(folder / FILE)
                write_text(folder / _DIGEST, made.digest + "\n")
                known = made.known
            extractor = Extractor.load(folder / FILE, remedy=_REMEDY)
        features = {}
        for name in SPLITS:
            of_first = known if name == "public" else None
            features[name] = _features_of(
                getattr(dataset, name).inputs, extractor, folder, name, stage, of_first
            )
        form = ExtractedForm(cast("ImageForm | None", dataset.preprocessing), extractor)
        return replace(
            _with_features(dataset, features, form), private_cells=dataset.private_digest()
        )


def _is_whole(folder: Path) -> bool:
    try:
        return read_text(folder / _DIGEST, remedy=_REMEDY).strip() == file_digest(
            folder / FILE, remedy=_REMEDY
        )
    except (OSError, DamagedFile):
        return False


def _with_features(
    dataset: Dataset, inputs: dict[str, Array], form: ExtractedForm | None
) -> Dataset:
    return replace(
        dataset,
        kind="features",
        preprocessing=form,
        private=replace(dataset.private, inputs=inputs["private"]),
        public=replace(dataset.public, inputs=inputs["public"]),
        test=replace(dataset.test, inputs=inputs["test"]),
    )


def _features_of(
    inputs: Any, by: Extractor, folder: Path, name: str, stage: StageOpener, known: Array | None
) -> Array:
    """Features of a split, mapped from a file named after its pictures; stamps are digests of blocks."""
    digest = hashlib.sha256(repr(inputs.shape).encode())
    enter_bytes(digest, inputs)
    path = folder / f"{name}-{digest.hexdigest()[:12]}.f32"
    shape = len(inputs), by.num_features
    file = StampedFile(
        path, path.with_suffix(".stamps"), shape, np.float32, _BLOCK, "features.cache"
    )

    def missing() -> NDArray[np.int64]:
        stamps = file.known()
        features = file.mapped() if stamps.any() else np.empty((0, 1), np.float32)
        good = [
            stamp == _stamp(features[b * _BLOCK : (b + 1) * _BLOCK])
            for b, stamp in enumerate(stamps)
        ]
        return np.flatnonzero(~np.array(good))

    def extracted(block: int) -> Array:
        rows = slice(block * _BLOCK, (block + 1) * _BLOCK)
        if known is not None and rows.stop <= len(known):
            return known[rows]
        return by.features_of(inputs[rows])

    def made(blocks: NDArray[np.int64]) -> Iterator[Made]:
        for block, rows in zip(blocks, on_all_cores(extracted, blocks.tolist()), strict=True):
            yield np.array([block]), rows[None], np.array([_stamp(rows)])

    file.fill(missing, made, f"features of the {name} pictures", stage)
    features: Array = file.mapped("c")
    return features


def _stamp(features: Array) -> int:
    """A number for a block of features; never 0."""
    return (
        int.from_bytes(hashlib.sha256(np.ascontiguousarray(features).data).digest()[:8], "big") >> 1
        | 1
    )
