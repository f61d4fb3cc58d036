"""How pictures become features: a recipe that is fitted on public pictures, or on nothing."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

from pate.data.dataset import Stage
from pate.features.extractor import Extractor
from pate.features.public_pictures import PublicPictures
from pate.files.fingerprint import full_text

_VERSION = 1  # of what recipes do with their settings; in the name of what is kept


class Features(ABC):
    """A representation of pictures, chosen by `features=`.

    Formal guarantee: `fit` is given `PublicPictures` and nothing else, so what it returns is a function of the public
    pool, of the recipe's own settings and of files that these name. No private record has a part in it.

    A recipe is a frozen dataclass; its fields are public settings, but for `cache`.
    """

    cache: Any = None
    """The folder to keep features in from run to run, as private as the pictures; None for one beside the run's."""

    most_pictures: int = 10_000
    """Public pictures that a fit reads, the first ones."""

    @abstractmethod
    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Raises `InvalidValue` where pictures of that shape cannot be read, or a file that is needed is not there."""

    @abstractmethod
    def fit(self, pictures: PublicPictures, stage: Stage) -> Extractor:
        """The extractor; equal pictures and settings give the same one on the same machine."""

    def identity(self, pictures: PublicPictures) -> str:
        """A digest of all that an extractor depends on: settings, files, and the public pictures."""
        return hashlib.sha256(f"{self._said()}{pictures.digest()}".encode()).hexdigest()

    def _said(self) -> str:
        settings: Any = self
        kept = {item.name: getattr(self, item.name) for item in fields(settings) if item.name != "cache"}
        return full_text([_VERSION, type(self).__qualname__, kept])


@dataclass(frozen=True)
class NoFeatures(Features):
    """Inputs as the data set gives them."""

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Nothing to check."""

    def fit(self, pictures: PublicPictures, stage: Stage) -> Extractor:
        """There is nothing to fit."""
        raise TypeError("features=none fits nothing")
