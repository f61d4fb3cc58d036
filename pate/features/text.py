"""`features=text`: how texts become numbers, with what was fitted and made kept in a folder."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pate.data.dataset import Stage, unwatched
from pate.data.texts import TEXT_KINDS, WEIGHTS, TextReader, TextVectors, Weights, digest_of, spread
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
            there = self._weights is not None and self._weights.place.exists()
            require(there, "features.weights", self.weights, f"{rule}, which is there")
        require_count("features.dimension", self.dimension)
        require_count("features.seed", self.seed, minimum=0)

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        raise InvalidValue("features=text: expected data with texts, and these are pictures")

    def fit(self, pictures: PublicPictures, stage: Stage) -> Extractor:
        raise TypeError("features=text fits no pictures")

    def reader(self, data: Any, cache: Path | str) -> Any:
        """The same reader of data, whose texts become vectors so; raises where it has none."""
        if not isinstance(data, TextReader) or not getattr(data, "text", True):
            raise InvalidValue("features=text: expected a column of texts, 'data.text=[NAME]'; or data=wordnet")
        return data.with_text(partial(self.vectors_of, Path(cache).expanduser()))

    def vectors_of(self, cache: Path, texts: Sequence[str], stage: Stage = unwatched) -> TextVectors:
        """What is fitted on public texts, once for each pool and setting; vectors are kept block by block beside it."""
        weights = self._weights  # in the name their digest stands for where they lie
        said = {**asdict(self), "cache": None, "weights": None if weights is None else weights.sha256}
        name = hashlib.sha256(full_text([_VERSION, said, digest_of(spread(texts))]).encode()).hexdigest()
        folder = make_folder(cache / f"features-text-{name[:12]}")
        with locked(folder / "lock"):
            try:
                path = folder / read_text(folder / "name", remedy=_REMEDY).strip()
                vectors = TextVectors.load(path, remedy=_REMEDY, weights=weights)
            except DamagedFile:  # or not there yet
                how: dict[str, Any] = {"seed": self.seed} if weights is None else {"weights": weights}
                vectors = TEXT_KINDS[self.kind].fit(texts, stage, dimension=self.dimension, **how)
                vectors.save(folder / vectors.file)
                write_text(folder / "name", vectors.file + "\n")
        return replace(vectors, kept=make_folder(folder / "vectors"))

    @cached_property
    def _weights(self) -> Weights | None:
        return None if self.weights is None else Weights(Path(self.weights).expanduser())
