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
from pate.models.student_model import StudentModel
from pate.validation import InvalidValue, require, require_kind, require_text

SCHEMA = "schema.json"
"""The name of the file of a `ModelForm` in a bundle."""

REMEDY = "copy the folder anew from where it was published; a run writes it again from its release, at no cost"
"""The remedy for a damaged bundle."""

# The version of the file's format.
_VERSION = 1
# The content of the file, as errors describe it.
_SCHEMA_RULE = "the schema of a published model"
# The kinds of data sets.
_KINDS = ("features", "images")
# The errors that a schema with values of another form causes.
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
    """The inputs, labels and threshold of a model.

    All of them are public: they come from settings, public records and released labels.

    Attributes:
        name: the name of the data set.
        kind: the kind of the data set, "features" or "images".
        labels: the names of the labels, in the order of the model's outputs.
        input_shape: the shape of one input of the model.
        features: a name for each number of an input; may be empty.
        preprocessing: makes inputs from a table or from pictures; None for a model that takes arrays.
        threshold: the smallest probability with which a label is predicted: one number for all labels, or one for each
            label.
        model: the kind of the student.
        versions: the versions of packages that wrote the model, by name.
        one_class: whether each sample has exactly one of the labels, which are classes then. It is left out of the file
            if it is false.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    input_shape: tuple[int, ...]
    features: tuple[str, ...]
    preprocessing: Preprocessing | None
    threshold: float | tuple[float, ...]
    model: str
    versions: Mapping[str, str] = field(
        default_factory=lambda: {"pate": VERSION, "numpy": np.__version__}
    )
    one_class: bool = False

    @classmethod
    def from_student(
        cls,
        model: StudentModel,
        *,
        data_name: str,
        data_kind: str,
        label_names: tuple[str, ...],
        preprocessing: Preprocessing | None,
        one_class: bool = False,
    ) -> Self:
        """Returns the form of a trained student.

        Args:
            model: the student.
            data_name: the name of the data set.
            data_kind: the kind of the data set, "features" or "images".
            label_names: the names of the labels, in the order of the model's outputs.
            preprocessing: makes inputs from a table or from pictures; None for a model that takes arrays.
            one_class: whether each sample has exactly one of the labels.
        """
        return cls(
            name=data_name,
            kind=data_kind,
            labels=label_names,
            features=() if preprocessing is None else preprocessing.feature_names,
            preprocessing=preprocessing,
            input_shape=tuple(model.input_shape),
            threshold=model.threshold,
            model=model.kind,
            one_class=one_class,
        )

    @property
    def takes_pictures(self) -> bool:
        """Whether the model takes files of pictures, which the preprocessing turns into arrays."""
        if isinstance(self.preprocessing, ExtractedForm):
            return self.preprocessing.image_form is not None
        return isinstance(self.preprocessing, ImageForm)

    def write(self, folder: Path | str) -> None:
        """Writes `schema.json` and the files of the preprocessing into the folder of a bundle."""
        value_by_form_field = {"format": _VERSION, **vars(self)}
        if not self.one_class:
            del value_by_form_field["one_class"]
        if self.preprocessing is not None:
            value_by_form_field["preprocessing"] = self.preprocessing.plain()
            self.preprocessing.save(folder)
        model_form_text = json.dumps(
            plain(value_by_form_field), indent=2, ensure_ascii=False, allow_nan=False
        )
        write_text(Path(folder, SCHEMA), text=model_form_text + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Reads the form from the folder of a bundle.

        Raises:
            InvalidValue: the file is missing, damaged or of a later version.
        """
        schema_file = folder / SCHEMA
        form_values = read_json(schema_file, rule=_SCHEMA_RULE, remedy=REMEDY)
        version = form_values.get("format") if isinstance(form_values, dict) else None
        if isinstance(version, int) and version > _VERSION:
            rule = f"a bundle of format {_VERSION}; install a later version"
            raise InvalidValue("release", folder, rule=rule)
        try:
            return cls._from_json(form_values, folder=folder)
        except DamagedFile:
            raise
        except _SCHEMA_ERRORS as error:
            fault = f"{type(error).__name__}: {error}"
            raise damaged(schema_file, rule=_SCHEMA_RULE, finding=fault, remedy=REMEDY) from None

    @classmethod
    def _from_json(cls, form_values: Any, *, folder: Path) -> Self:
        """Returns the form that the JSON values of `schema.json` describe; raises if they describe none.

        Args:
            form_values: the content of `schema.json`.
            folder: the folder of the bundle, which has the files of the preprocessing.
        """
        label_names = tuple(
            require_text("labels", label_name) for label_name in form_values["labels"]
        )
        require(
            0 < len(label_names) == len(set(label_names)),
            "labels",
            len(label_names),
            "names, each once",
        )
        data_kind = form_values["kind"]
        require(data_kind in _KINDS, "kind", value=data_kind, rule=" or ".join(_KINDS))
        require_kind("features", form_values["features"], kind=list, rule="a list of names")
        # `Bundle.load` compares the threshold with that of the model, which is in (0, 1].
        threshold: float | tuple[float, ...]
        threshold_in_json = form_values["threshold"]
        if isinstance(threshold_in_json, list):
            # One number for each label.
            threshold = tuple(map(float, threshold_in_json))
        else:
            # One number for all labels, which JSON may write as an integer.
            threshold = float(threshold_in_json)
        data_name = require_text("name", form_values["name"])
        model_form = cls(
            name=data_name,
            kind=data_kind,
            labels=label_names,
            input_shape=tuple(map(int, form_values["input_shape"])),
            features=tuple(map(str, form_values["features"])),
            preprocessing=_read_preprocessing(form_values["preprocessing"], folder=folder),
            threshold=threshold,
            model=str(form_values["model"]),
            versions={
                str(package): str(version) for package, version in form_values["versions"].items()
            },
            one_class=form_values.get("one_class", False) is True,
        )
        if model_form.preprocessing is not None:
            input_shape = model_form.preprocessing.input_shape
            rule = f"inputs of shape {model_form.input_shape}"
            require(
                input_shape == model_form.input_shape, "preprocessing", value=input_shape, rule=rule
            )
        return model_form


def _read_preprocessing(preprocessing_values: Any, *, folder: Path) -> Preprocessing | None:
    """Returns the preprocessing that the JSON values of `schema.json` describe; None if they describe none."""
    if preprocessing_values is None:
        return None
    preprocessing_kind = preprocessing_values["kind"]
    if preprocessing_kind == TableSchema.kind:
        return TableSchema.read(preprocessing_values, name="preprocessing", folder=folder)
    if preprocessing_kind == ImageForm.kind:
        return ImageForm.from_plain(preprocessing_values)
    if preprocessing_kind == ExtractedForm.kind:
        return ExtractedForm.from_plain(preprocessing_values, folder, remedy=REMEDY)
    kinds = (TableSchema.kind, ImageForm.kind, ExtractedForm.kind)
    raise InvalidValue("preprocessing.kind", preprocessing_kind, rule=" or ".join(kinds))
