"""A data set of pictures whose inputs are features."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from pate.data.dataset import Dataset, LoadsInStages, Split, Stage, require_dataset, unwatched
from pate.data.image_form import ImageForm
from pate.features.cache import FeatureCache
from pate.features.extracted_form import FILE, ExtractedForm
from pate.features.extractor import Extractor
from pate.features.features import Features
from pate.features.public_pictures import PublicPictures
from pate.files.atomic import locked, make_folder, remove_partials, write_text
from pate.validation import InvalidValue

_DIGEST = "extractor.sha256"
_REMEDY = "remove it, and the same command makes it again"


@dataclass(frozen=True)
class FeaturedData:
    """Reads a data set of pictures and gives features in their place, to teachers, students and methods alike.

    The extractor is fitted on the public pool and kept; features of each split are extracted and kept as well, see
    `FeatureCache` for what a kill or a full disk leaves behind. Labels, ids and groups are those of the pictures, and
    `Dataset.private_cells` is their digest, so that a budget over several runs knows the records whatever features they
    are given.

    Attributes:
        data: what reads the pictures: a class with `load()`.
        features: the recipe.
        cache: the folder for extractors and features, as private as the pictures.
        check: asked before anything is fitted, of a blank data set of the same sizes: raises where a plan cannot work
            on it, so that nobody waits for features to hear of a mistake.
    """

    data: Any
    features: Features
    cache: Path
    check: Callable[[Dataset], object] | None = None

    def load(self) -> Dataset:
        """See `load_in_stages`."""
        return self.load_in_stages(unwatched)

    def load_in_stages(self, stage: Stage) -> Dataset:
        """Reads the pictures, fits what is not fitted yet and extracts what is missing.

        Raises:
            InvalidValue: a data set without pictures; settings or files that do not fit them, before anything is
                fitted.
        """
        watched = isinstance(self.data, LoadsInStages)
        dataset = require_dataset(self.data.load_in_stages(stage) if watched else self.data.load())
        if dataset.kind != "images":
            rule = f"none: {dataset.name} has no pictures, but {dataset.input_shape[0]} features already"
            raise InvalidValue(f"features={type(self.features).__name__.lower()}: expected {rule}")
        pictures = PublicPictures(dataset, self.features.most_pictures)
        self.features.check(pictures.shape)
        folder = self.cache.expanduser() / self._name(pictures)
        if self.check is not None and not _is_whole(folder):
            self.check(_blank(dataset))
        self._make(folder)
        extractor, cache = self._extractor(folder, pictures, stage), FeatureCache(folder)

        def featured(name: str, split: Split) -> Split:
            return replace(split, inputs=cache.fill(name, split.inputs, extractor, stage))

        form = ExtractedForm(cast("ImageForm | None", dataset.preprocessing), extractor)
        return replace(
            dataset,
            kind="features",
            private=featured("private", dataset.private),
            public=featured("public", dataset.public),
            test=featured("test", dataset.test),
            preprocessing=form,
            private_cells=dataset.private_digest(),
        )

    def _name(self, pictures: PublicPictures) -> str:
        return f"features-{type(self.features).__name__.lower()}-{self.features.identity(pictures)[:12]}"

    def _make(self, folder: Path) -> None:
        try:
            make_folder(folder)
        except OSError as error:
            rule = f"a folder that can be written ({error.strerror})"
            raise InvalidValue(f"features.cache={self.cache}: expected {rule}") from error

    def _extractor(self, folder: Path, pictures: PublicPictures, stage: Stage) -> Extractor:
        """The one that was kept, or else fitted and kept; a process that wants the same waits."""
        with nullcontext() if _is_whole(folder) else locked(folder / "lock"):
            if not _is_whole(folder):
                remove_partials(folder, (re.escape(FILE), re.escape(_DIGEST)))
                extractor = self.features.fit(pictures, stage)
                extractor.save(folder / FILE)
                write_text(folder / _DIGEST, extractor.digest() + "\n")
            return Extractor.load(folder / FILE, remedy=_REMEDY)


def _is_whole(folder: Path) -> bool:
    """Whether an extractor is there, and is what was written."""
    try:
        with (folder / FILE).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        return (folder / _DIGEST).read_text(encoding="utf-8").strip() == found
    except (OSError, UnicodeDecodeError):
        return False


def _blank(dataset: Dataset) -> Dataset:
    """Of the same sizes, labels and groups, with features that say nothing."""

    def blank(split: Split) -> Split:
        return replace(split, inputs=np.zeros((len(split), 2), np.float32))

    private, public, test = map(blank, (dataset.private, dataset.public, dataset.test))
    return replace(dataset, kind="features", preprocessing=None, private=private, public=public, test=test)
