"""`features=text`: how texts become numbers, with what was fitted and made kept in a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pate.data.dataset import Stage, unwatched
from pate.data.texts import (
    TEXT_KINDS,
    WEIGHTS,
    TextReader,
    TextVectors,
    TfidfVectors,
    digest_of,
    digest_of_all,
    spread,
)
from pate.features.features import Extractor, Features, PublicPictures
from pate.files.disk import DamagedFile, locked, make_folder, read_text, write_text
from pate.files.values import full_text
from pate.validation import InvalidValue, require, require_choice, require_count

_VERSION = 1  # of what is made of settings and texts; in the name of what is kept
_REMEDY = "remove it, and the same command makes it again"


@dataclass(frozen=True)
class Text(Features):
    """A vector for each text, fitted on the public texts: of the tables and data sets that have some.

    Raises:
        InvalidValue: a setting out of range.
    """

    # `tfidf`, words and parts of words that public texts have; `static`, vectors of words from a file; `encoder`, what
    # an encoder of sentences says.
    kind: str = field(default="tfidf", metadata={"public": True})
    # the file or folder of these vectors, or of the encoder. They must come from public data.
    weights: str | None = None
    dimension: int = field(default=128, metadata={"public": True})  # numbers a text, at most
    seed: int = 0  # of the directions
    # the folder to keep vectors in, as private as the texts; None for `pate_cache` beside the run's.
    cache: str | None = field(default=None, metadata={"private": True})

    def __post_init__(self) -> None:
        require_choice("features.kind", self.kind, tuple(TEXT_KINDS))
        if (rule := WEIGHTS.get(self.kind)) is None:
            require(self.weights is None, "features.weights", self.weights, "none beside features.kind=tfidf")
        else:
            there = self.place is not None and self.place.exists()
            require(there, "features.weights", self.weights, f"{rule}, which is there")
        require_count("features.dimension", self.dimension)
        require_count("features.seed", self.seed, minimum=0)

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        raise InvalidValue("features=text: expected data with texts, and these are pictures")

    def fit(self, pictures: PublicPictures, stage: Stage) -> Extractor:
        raise TypeError("features=text fits no pictures")

    def reader(self, data: Any, cache: Path | str) -> Any:
        """The same reader of data, whose texts become vectors so; raises where it has none."""
        if not isinstance(data, TextReader) or not data.has_text:
            rule = "a column of texts, 'data.text=[NAME]'; or data=wordnet"
            raise InvalidValue(f"features=text: expected {rule}")
        return data.with_text(KeptFit(self, Path(cache)))

    def vectors_of(self, texts: Sequence[str], stage: Stage) -> TextVectors:
        """What is fitted on public texts."""
        if self.place is None:
            return TfidfVectors.fit(texts, stage, dimension=self.dimension, seed=self.seed)
        made: TextVectors = TEXT_KINDS[self.kind].fit(texts, stage, dimension=self.dimension, weights=self.place)
        return made

    @property
    def place(self) -> Path | None:
        """Where the weights lie."""
        return None if self.weights is None else Path(self.weights).expanduser()

    @property
    def said(self) -> list[object]:
        """All that vectors depend on but for the texts: settings, and the weights' digest for where they lie."""
        weights = None if self.place is None else digest_of_all(self.place)
        return [_VERSION, {**asdict(self), "cache": None, "weights": weights}]


@dataclass(frozen=True)
class KeptFit:
    """Fits once for each pool and setting, and keeps vectors of texts block by block, so that a killed run goes on."""

    recipe: Text
    cache: Path

    def __call__(self, texts: Sequence[str], stage: Stage = unwatched) -> TextVectors:
        said = full_text([*self.recipe.said, digest_of(spread(texts))])
        folder = self.cache.expanduser() / f"features-text-{hashlib.sha256(said.encode()).hexdigest()[:12]}"
        make_folder(folder)
        name = folder / "name"
        with locked(folder / "lock"):
            try:
                path = folder / read_text(name, remedy=_REMEDY).strip()
                vectors = TextVectors.load(path, remedy=_REMEDY, place=self.recipe.place)
            except DamagedFile:  # or not there yet
                vectors = self.recipe.vectors_of(texts, stage)
                vectors.save(folder)
                write_text(name, vectors.file + "\n")
        return vectors.beside(folder / "vectors")
