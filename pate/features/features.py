"""A recipe of features, chosen by `features=`: how to fit an extractor on public pictures."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from pate.features.extractor import Extractor
from pate.features.public_pictures import PublicPictures
from pate.files.digests import full_text
from pate.progress import StageOpener

VERSION = 1  # of the recipes' meaning; in the names of cached extractors and vectors


class Features(ABC):
    """A recipe of a representation of pictures.

    Formal guarantee: `fit` takes `PublicPictures` and no other data. So an extractor is a function of the public pool,
    of the recipe's own settings and of the files that these name. No private record has a part in it.

    A recipe is a frozen dataclass; its fields are public settings, but for `cache`.
    """

    # folder of extractors and features, as private as the pictures; None for `pate_cache` beside the run's folder
    cache: Path | str | None = None
    most_pictures: int = 10_000  # public pictures that a fit reads, the first ones

    @abstractmethod
    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Checks that pictures of a shape can be read.

        Raises:
            InvalidValue: they cannot, or a file that the recipe names is not there.
        """

    @abstractmethod
    def fit(self, pictures: PublicPictures, stage: StageOpener) -> Extractor:
        """Returns the extractor; equal pictures and settings give an equal one on the same machine."""

    def identity(self, pictures: PublicPictures) -> str:
        """Returns a digest of all that an extractor depends on: settings, files, and the public pictures."""
        settings = {
            item.name: getattr(self, item.name)
            for item in fields(cast("Any", self))
            if item.name != "cache"
        }
        text = full_text([VERSION, type(self).__qualname__, settings])
        return hashlib.sha256(f"{text}{pictures.digest()}".encode()).hexdigest()


@dataclass(frozen=True)
class NoFeatures(Features):
    """Inputs as the data set gives them."""

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Accepts pictures of any shape."""

    def fit(self, pictures: PublicPictures, stage: StageOpener) -> Extractor:
        """Raises `TypeError`: there is nothing to fit."""
        raise TypeError("features=none fits nothing")


@dataclass(frozen=True)
class Kernel(NoFeatures):
    """Inputs as they are, and a kernel's components in the rounds of kernel teachers: see `KernelTeacher.nonlinear`."""
