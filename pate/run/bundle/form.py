"""What a published model takes and gives, by name: the schema of a bundle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from pate.data import ImageForm, Preprocessing, TableSchema
from pate.features.features import ExtractedForm
from pate.files.disk import DamagedFile, damaged, read_json, write_text
from pate.files.values import plain
from pate.models.student import StudentModel
from pate.validation import VERSION, InvalidValue, require, require_count, require_text

SCHEMA = "schema.json"
"""Its name in the bundle."""

_VERSION = 1
_SCHEMA_RULE = "the schema of a published model"
_KINDS = ("features", "images")


@dataclass(frozen=True)
class ModelForm:
    """Inputs, labels and threshold of a model. All of them are public: no private record has a part in them."""

    name: str  # of the data set
    kind: str  # "features" or "images"
    labels: tuple[str, ...]  # their names, in the order of the model's outputs
    input_shape: tuple[int, ...]  # of one input, as the model takes it
    features: tuple[str, ...]  # a name for each number of an input; none where there are none
    preprocessing: Preprocessing | None  # how inputs are made of a table or of pictures; None where they are given
    threshold: float | tuple[float, ...]  # the probability from which a label is predicted, for all labels or for each
    model: str  # the kind of student
    versions: Mapping[str, str] = field(default_factory=dict)  # of what wrote it

    @classmethod
    def of(
        cls, model: StudentModel, name: str, kind: str, labels: tuple[str, ...], preprocessing: Preprocessing | None
    ) -> Self:
        """That of a student, with the names of the data that it learned from."""
        return cls(
            name=name,
            kind=kind,
            labels=labels,
            input_shape=tuple(model.input_shape),
            features=() if preprocessing is None else preprocessing.feature_names,
            preprocessing=preprocessing,
            threshold=model.threshold,
            model=model.kind,
            versions={"pate": VERSION, "numpy": np.__version__},
        )

    def write(self, folder: Path | str) -> None:
        """Into a bundle's folder."""
        said = {"format": _VERSION, **vars(self)}
        if self.preprocessing is not None:
            said["preprocessing"] = self.preprocessing.plain()
            self.preprocessing.save(folder)
        write_text(Path(folder, SCHEMA), json.dumps(plain(said), indent=2, ensure_ascii=False, allow_nan=False) + "\n")

    @classmethod
    def read(cls, folder: Path | str, *, remedy: str) -> Self:
        """From a bundle's folder; raises where it is not there, is damaged, or is of a later version."""
        folder = Path(folder)
        path = folder / SCHEMA
        said = read_json(path, rule=_SCHEMA_RULE, remedy=remedy)
        if isinstance(said, dict) and isinstance(version := said.get("format"), int) and version > _VERSION:
            raise InvalidValue(f"release={folder}: expected a bundle of format {_VERSION}; install a later version")
        try:
            return cls._read(said, folder, remedy)
        except DamagedFile:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            raise damaged(path, _SCHEMA_RULE, f"{type(error).__name__}: {error}", remedy) from None

    @classmethod
    def _read(cls, said: Any, folder: Path, remedy: str) -> Self:
        labels = tuple(require_text("labels", name) for name in said["labels"])
        require(0 < len(labels) == len(set(labels)), "labels", len(labels), "names, each once")
        require(said["kind"] in _KINDS, "kind", said["kind"], " or ".join(_KINDS))
        threshold = said["threshold"]
        for number in threshold if isinstance(threshold, list) else [threshold]:
            require(0 < float(number) <= 1, "threshold", number, "a number in (0, 1]")
        require(isinstance(said["features"], list), "features", type(said["features"]).__name__, "a list of names")
        made: Preprocessing | None = None
        if (how := said["preprocessing"]) is not None:
            known = (TableSchema.kind, ImageForm.kind, ExtractedForm.kind)
            require(how["kind"] in known, "preprocessing.kind", how["kind"], " or ".join(known))
            if how["kind"] == TableSchema.kind:
                made = TableSchema.read(how, name="preprocessing", folder=folder)
            else:
                images = how["kind"] == ImageForm.kind
                made = ImageForm.read(how) if images else ExtractedForm.read(how, folder, remedy=remedy)
        form = cls(
            name=require_text("name", said["name"]),
            kind=said["kind"],
            labels=labels,
            input_shape=tuple(require_count("input_shape", size) for size in said["input_shape"]),
            features=tuple(map(str, said["features"])),
            preprocessing=made,
            threshold=tuple(map(float, threshold)) if isinstance(threshold, list) else float(threshold),
            model=str(said["model"]),
            versions={str(key): str(value) for key, value in said["versions"].items()},
        )
        if form.preprocessing is not None:
            found = form.preprocessing.input_shape
            require(found == form.input_shape, "preprocessing", found, f"inputs of shape {form.input_shape}")
        return form
