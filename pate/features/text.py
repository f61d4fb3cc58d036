"""Vectors of texts, chosen by `features=text`."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pate.data.texts.kinds import TEXT_KINDS
from pate.data.texts.reading import texts_digest
from pate.data.texts.vectors import TextReader, TextVectors
from pate.data.texts.weights import TEXT_WEIGHTS_RULES, TextWeights
from pate.features.extractor import Extractor
from pate.features.features import RECIPE_VERSION, Features
from pate.features.public_pictures import PublicPictures
from pate.files.atomic import write_text
from pate.files.digests import unabridged_repr
from pate.files.lock import file_lock
from pate.files.paths import make_folder
from pate.files.reading import DamagedFile, read_text
from pate.progress import StageOpener, unwatched
from pate.validation import InvalidValue, require, require_choice, require_count

_REMEDY = "remove it, and the same command makes it again"


@dataclass(frozen=True)
class Text(Features):
    """A recipe of vectors for the texts of a data set, fitted on the public texts.

    Attributes:
        kind: `tfidf` for words and parts of words of the public texts, `static` for vectors of words from a file, or
            `encoder` for vectors of a sentence encoder.
        weights: the file or folder of the vectors of words, or of the encoder, which must come from public data; None
            for `tfidf`.
        dimension: the largest number of components of a text's vector.
        seed: the seed of the directions of `tfidf`; the other kinds need none.
        cache: the folder in which fitted recipes and vectors of texts are kept; see `Features`.
    """

    kind: str = field(default="tfidf", metadata={"public": True})
    weights: str | None = None
    dimension: int = field(default=128, metadata={"public": True})
    seed: int = 0
    cache: str | None = field(default=None, metadata={"private": True})

    def __post_init__(self) -> None:
        require_choice("features.kind", self.kind, choices=tuple(TEXT_KINDS))
        weights_rule = TEXT_WEIGHTS_RULES.get(self.kind)  # None for `tfidf`, which reads no weights
        if weights_rule is not None:
            is_there = self._pretrained_files is not None and self._pretrained_files.path.exists()
            rule = f"{weights_rule}, which is there"
            require(is_there, "features.weights", self.weights, rule)
        elif self.weights is not None:
            rule = "none beside features.kind=tfidf"
            raise InvalidValue("features.weights", self.weights, rule=rule)
        require_count("features.dimension", self.dimension)
        require_count("features.seed", self.seed, minimum=0)

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Raises `InvalidValue`, because images have no texts; this recipe is used through `reader`."""
        raise InvalidValue("features", "text", rule="data with texts, and these are pictures")

    def fit(self, pictures: PublicPictures, stage: StageOpener) -> Extractor:
        """Raises `TypeError`, because images have no texts."""
        raise TypeError("features=text fits no pictures")

    def reader(self, data_reader: Any, cache_folder: Path | str) -> Any:
        """Returns a reader of the same data in which texts become vectors of this recipe.

        Args:
            data_reader: a reader of data with texts, such as `Table`.
            cache_folder: the folder of cached vectors.

        Raises:
            InvalidValue: the data have no texts.
        """
        text_columns = getattr(data_reader, "text", True)  # True: a reader that always has texts
        if not isinstance(data_reader, TextReader) or not text_columns:
            rule = "a column of texts, 'data.text=[NAME]'; or data=wordnet"
            raise InvalidValue("features", "text", rule=rule)
        return data_reader.with_text(partial(self.fit_texts, Path(cache_folder).expanduser()))

    def fit_texts(
        self, cache_folder: Path, texts: Sequence[str], open_stage: StageOpener = unwatched
    ) -> TextVectors:
        """Returns the transform that is fitted to public texts, from the cache if it was fitted to them before.

        Args:
            cache_folder: the folder in which the transform and its vectors are kept.
            texts: the public texts.
            open_stage: opens the stages that report progress.
        """
        pretrained_files = self._pretrained_files
        # The digest of the weights stands for the place where they lie.
        recipe_settings = {
            **asdict(self),
            "cache": None,
            "weights": None if pretrained_files is None else pretrained_files.sha256,
        }
        identity_text = unabridged_repr([RECIPE_VERSION, recipe_settings, texts_digest(texts)])
        identity_digest = hashlib.sha256(identity_text.encode()).hexdigest()
        transform_folder = make_folder(cache_folder / f"features-text-{identity_digest[:12]}")
        with file_lock(transform_folder / "lock"):
            try:
                transform_file = (
                    transform_folder / read_text(transform_folder / "name", remedy=_REMEDY).strip()
                )
                fitted_transform = TextVectors.load(
                    transform_file, remedy=_REMEDY, pretrained_files=pretrained_files
                )
            except DamagedFile:  # or there is no such file yet
                fitted_transform = self._fit_anew(texts, open_stage=open_stage)
                fitted_transform.save(transform_folder / fitted_transform.file)
                write_text(transform_folder / "name", text=fitted_transform.file + "\n")
        return replace(fitted_transform, cache=make_folder(transform_folder / "vectors"))

    def _fit_anew(self, texts: Sequence[str], open_stage: StageOpener) -> TextVectors:
        """Returns the transform that is fitted to public texts; the cache is not used."""
        text_class = TEXT_KINDS[self.kind]
        fitted_transform: TextVectors
        if self._pretrained_files is None:
            fitted_transform = text_class.fit(
                texts, open_stage=open_stage, dimension=self.dimension, seed=self.seed
            )
        else:
            fitted_transform = text_class.fit(
                texts,
                open_stage=open_stage,
                dimension=self.dimension,
                pretrained_files=self._pretrained_files,
            )
        return fitted_transform

    @cached_property
    def _pretrained_files(self) -> TextWeights | None:
        """The file or folder that `weights` names; None if `weights` is None."""
        return None if self.weights is None else TextWeights(Path(self.weights).expanduser())
