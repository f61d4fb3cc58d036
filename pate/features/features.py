"""Recipes of features, chosen by `features=`: they fit an extractor on public images."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from pate.features.extractor import Extractor
from pate.features.public_pictures import PublicPictures
from pate.files.digests import unabridged_repr
from pate.progress import StageOpener

RECIPE_VERSION = 1
"""The version of all recipes, which is part of the names of cached extractors and vectors."""


class Features(ABC):
    """A recipe of a representation of images, which is fitted on public images.

    Formal guarantee: `fit` accepts only `PublicPictures`. So an extractor is a function of the public pool, the
    settings of the recipe and the files that these settings name. It depends on no private record.

    A recipe is a frozen dataclass. All of its fields except `cache` are public settings.
    """

    # The values of recipes without these settings. A recipe with one of them declares it as a field.

    # The folder of extractors and features, as private as the images; None for `pate_cache` beside the run's folder.
    cache: Path | str | None = None
    # The largest number of public images that a fit reads, the first ones.
    most_pictures: int = 10_000

    @abstractmethod
    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Checks that the recipe can process images of a shape.

        Args:
            picture_shape: `(channels, height, width)`.

        Raises:
            InvalidValue: the recipe cannot process such images, or a file that it names does not exist.
        """

    @abstractmethod
    def fit(self, pictures: PublicPictures, stage: StageOpener) -> Extractor:
        """Returns the extractor that is fitted to public images.

        On one machine, equal images and settings give equal extractors.

        Args:
            pictures: the public images.
            stage: opens the stages that report progress.
        """

    def identity(self, pictures: PublicPictures) -> str:
        """Returns a digest of everything that the extractor depends on: the public images and the settings but `cache`.

        A recipe that reads files overrides this method, and adds their contents.
        """
        recipe_settings = {
            field.name: getattr(self, field.name)
            for field in fields(cast("Any", self))  # every recipe is a dataclass, this class is not
            if field.name != "cache"
        }
        recipe_text = unabridged_repr([RECIPE_VERSION, type(self).__qualname__, recipe_settings])
        return hashlib.sha256(f"{recipe_text}{pictures.digest()}".encode()).hexdigest()


@dataclass(frozen=True)
class NoFeatures(Features):
    """A recipe that leaves the inputs of the data set unchanged."""

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Accepts images of any shape."""

    def fit(self, pictures: PublicPictures, stage: StageOpener) -> Extractor:
        """Raises `TypeError`, because there is nothing to fit."""
        raise TypeError("features=none fits nothing")


@dataclass(frozen=True)
class Kernel(NoFeatures):
    """A recipe that leaves inputs unchanged, but gives kernel teachers a nonlinear kernel.

    The kernel's components are computed when the teachers are trained: see `KernelTeacher.nonlinear`.
    """
