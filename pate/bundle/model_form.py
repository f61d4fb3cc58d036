"""The form of a published model: its inputs, labels and threshold, in the file `schema.json` of a bundle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from pate.data import ImageForm, Preprocessing, TableSchema
from pate.extras import VERSION
from pate.features.extracted_form import ExtractedForm
from pate.files.atomic import write_text
from pate.files.reading import DamagedFile, damaged, read_json
from pate.files.strict_json import plain
from pate.validation import InvalidValue, require, require_text

SCHEMA = "schema.json"
"""The name of the file of a `ModelForm` in a bundle."""

REMEDY = "copy the folder anew from where it was published; a run writes it again from its release, at no cost"
"""The remedy for a damaged bundle."""

_VERSION = 1
_SCHEMA_RULE = "the schema of a published model"
_KINDS = ("features", "images")
# errors of a schema with values of another form
_SCHEMA_ERRORS = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


@dataclass(frozen=True)
class ModelForm:
    """The inputs, labels and threshold of a model. They are public: none was computed from private records."""

    name: str  # of the data set
    kind: str  # "features" or "images"
    labels: tuple[str, ...]  # their names, in the order of the model's outputs
    input_shape: tuple[int, ...]  # of one input, as the model takes it
    features: tuple[str, ...]  # a name for each number of an input; may be empty
    # makes inputs of a table or of pictures; None for a model that takes arrays
    preprocessing: Preprocessing | None
    # the probability from which a label is predicted, for all labels or for each
    threshold: float | tuple[float, ...]
    model: str  # the kind of student
    versions: Mapping[str, str] = field(
        default_factory=lambda: {"pate": VERSION, "numpy": np.__version__}
    )
    # whether each sample has exactly one of the labels, which are classes then; in the file if it is true
    one_class: bool = False

    def write(self, folder: Path | str) -> None:
        """Writes `schema.json` and the files of the preprocessing into the folder of a bundle."""
        values = {"format": _VERSION, **vars(self)}
        if not self.one_class:
            del values["one_class"]
        if self.preprocessing is not None:
            values["preprocessing"] = self.preprocessing.plain()
            self.preprocessing.save(folder)
        text = json.dumps(plain(values), indent=2, ensure_ascii=False, allow_nan=False)
        write_text(Path(folder, SCHEMA), text=text + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Reads the form from the folder of a bundle.

        Raises:
            InvalidValue: the file is missing, damaged or of a later version.
        """
        path = folder / SCHEMA
        values = read_json(path, rule=_SCHEMA_RULE, remedy=REMEDY)
        version = values.get("format") if isinstance(values, dict) else None
        is_later = isinstance(version, int) and version > _VERSION
        rule = f"a bundle of format {_VERSION}; install a later version"
        require(not is_later, "release", folder, rule)
        try:
            return cls._from_json(json_values=values, folder=folder)
        except DamagedFile:
            raise
        except _SCHEMA_ERRORS as error:
            fault = f"{type(error).__name__}: {error}"
            raise damaged(path, rule=_SCHEMA_RULE, finding=fault, remedy=REMEDY) from None

    @classmethod
    def _from_json(cls, json_values: Any, folder: Path) -> Self:
        """Returns the form from the JSON values of `schema.json`; raises if they have another form."""
        labels = tuple(require_text("labels", name) for name in json_values["labels"])
        require(0 < len(labels) == len(set(labels)), "labels", len(labels), "names, each once")
        require(json_values["kind"] in _KINDS, "kind", json_values["kind"], " or ".join(_KINDS))
        is_list = isinstance(json_values["features"], list)
        require(is_list, "features", type(json_values["features"]).__name__, "a list of names")
        # The model beside it has the same threshold, in (0, 1].
        threshold = json_values["threshold"]
        is_for_each = isinstance(threshold, list)
        threshold = tuple(map(float, threshold)) if is_for_each else float(threshold)
        form = cls(
            name=require_text("name", json_values["name"]),
            kind=json_values["kind"],
            labels=labels,
            input_shape=tuple(map(int, json_values["input_shape"])),
            features=tuple(map(str, json_values["features"])),
            preprocessing=_read_preprocessing(json_values["preprocessing"], folder),
            threshold=threshold,
            model=str(json_values["model"]),
            versions={str(key): str(value) for key, value in json_values["versions"].items()},
            one_class=json_values.get("one_class", False) is True,
        )
        if form.preprocessing is not None:
            shape = form.preprocessing.input_shape
            rule = f"inputs of shape {form.input_shape}"
            require(shape == form.input_shape, "preprocessing", shape, rule)
        return form


def _read_preprocessing(json_values: Any, folder: Path) -> Preprocessing | None:
    """Returns the preprocessing that the JSON values of `schema.json` describe; None if they describe none."""
    if json_values is None:
        return None
    kind = json_values["kind"]
    if kind == TableSchema.kind:
        return TableSchema.read(json_values, name="preprocessing", folder=folder)
    if kind == ImageForm.kind:
        return ImageForm.from_plain(json_values)
    if kind == ExtractedForm.kind:
        return ExtractedForm.from_plain(json_values, folder, remedy=REMEDY)
    kinds = (TableSchema.kind, ImageForm.kind, ExtractedForm.kind)
    raise InvalidValue("preprocessing.kind", kind, rule=" or ".join(kinds))
