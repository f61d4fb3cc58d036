"""A published bundle: a student with the names and the preprocessing that its use needs, written and read back."""

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.data import ImageForm, Preprocessing, TableSchema
from pate.data.pictures import require_image_levels
from pate.data.table.frames import as_table
from pate.data.table.schema import UnlikePublic
from pate.data.table.table_file import TableFile
from pate.extras import VERSION, require_extra
from pate.features.extracted_form import ExtractedForm
from pate.files import disk
from pate.files.manifest import MANIFEST, Manifest
from pate.files.strict_json import plain
from pate.models.student_model import StudentModel
from pate.report.card import PRIVACY, PrivacyStatement
from pate.validation import (
    InvalidValue,
    as_setting,
    printable,
    require,
    require_array,
    require_text,
)

SCHEMA = "schema.json"
"""Its name in the bundle."""

_VERSION = 1
_SCHEMA_RULE = "the schema of a published model"
_KINDS = ("features", "images")
_REMEDY = "copy the folder anew from where it was published; a run writes it again from its release, at no cost"
_NEEDED = (SCHEMA, "student/student.json", "student/student.safetensors")
_LEVELS = np.float32(255)
_OF_PICTURES = 4  # axes of an array of them


@dataclass(frozen=True)
class ModelForm:
    """Inputs, labels and threshold of a model. All of them are public: no private record has a part in them."""

    name: str  # of the data set
    kind: str  # "features" or "images"
    labels: tuple[str, ...]  # their names, in the order of the model's outputs
    input_shape: tuple[int, ...]  # of one input, as the model takes it
    features: tuple[str, ...]  # a name for each number of an input; none where there are none
    # how inputs are made of a table or of pictures; None where they are given
    preprocessing: Preprocessing | None
    # the probability from which a label is predicted, for all labels or for each
    threshold: float | tuple[float, ...]
    model: str  # the kind of student
    versions: Mapping[str, str] = field(
        default_factory=lambda: {"pate": VERSION, "numpy": np.__version__}
    )

    def write(self, folder: Path | str) -> None:
        """Writes `schema.json`, and the files of the preprocessing, to a bundle's folder."""
        said = {"format": _VERSION, **vars(self)}
        if self.preprocessing is not None:
            said["preprocessing"] = self.preprocessing.plain()
            self.preprocessing.save(folder)
        disk.write_text(
            Path(folder, SCHEMA),
            json.dumps(plain(said), indent=2, ensure_ascii=False, allow_nan=False) + "\n",
        )

    @classmethod
    def read(cls, folder: Path) -> Self:
        """From a bundle's folder; raises where it is not there, is damaged, or is of a later version."""
        said = disk.read_json(folder / SCHEMA, rule=_SCHEMA_RULE, remedy=_REMEDY)
        if (
            isinstance(said, dict)
            and isinstance(version := said.get("format"), int)
            and version > _VERSION
        ):
            raise InvalidValue(
                "release", folder, rule=f"a bundle of format {_VERSION}; install a later version"
            )
        try:
            return cls._read(said, folder)
        except disk.DamagedFile:
            raise
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            raise disk.damaged(
                folder / SCHEMA, _SCHEMA_RULE, f"{type(error).__name__}: {error}", _REMEDY
            ) from None

    @classmethod
    def _read(cls, said: Any, folder: Path) -> Self:
        labels = tuple(require_text("labels", name) for name in said["labels"])
        require(0 < len(labels) == len(set(labels)), "labels", len(labels), "names, each once")
        require(said["kind"] in _KINDS, "kind", said["kind"], " or ".join(_KINDS))
        threshold = said["threshold"]  # which the model beside it has, in (0, 1]
        require(
            isinstance(said["features"], list),
            "features",
            type(said["features"]).__name__,
            "a list of names",
        )
        made: Preprocessing | None = None
        if (how := said["preprocessing"]) is not None:
            known: dict[str, Any] = {
                TableSchema.kind: lambda: TableSchema.read(
                    how, name="preprocessing", folder=folder
                ),
                ImageForm.kind: lambda: ImageForm.from_plain(how),
                ExtractedForm.kind: lambda: ExtractedForm.from_plain(how, folder, remedy=_REMEDY),
            }
            require(how["kind"] in known, "preprocessing.kind", how["kind"], " or ".join(known))
            made = known[how["kind"]]()
        form = cls(
            name=require_text("name", said["name"]),
            kind=said["kind"],
            labels=labels,
            input_shape=tuple(map(int, said["input_shape"])),
            features=tuple(map(str, said["features"])),
            preprocessing=made,
            threshold=tuple(map(float, threshold))
            if isinstance(threshold, list)
            else float(threshold),
            model=str(said["model"]),
            versions={str(key): str(value) for key, value in said["versions"].items()},
        )
        if made is not None:
            rule = f"inputs of shape {form.input_shape}"
            require(made.input_shape == form.input_shape, "preprocessing", made.input_shape, rule)
        return form


@dataclass(frozen=True, eq=False)
class Bundle:
    """A student, with the preprocessing and names that its use needs.

    Attributes:
        form: inputs, labels and threshold, by name.
        model: the student.
        privacy: what its publisher states of the price; None of an older bundle. Loading checks no price.
        folder: where it was loaded from, or None.
    """

    form: ModelForm
    model: StudentModel
    privacy: PrivacyStatement | None = None
    folder: Path | str | None = None

    def __repr__(self) -> str:
        return f"<Bundle {self.form.name}: {self.form.model} model of {', '.join(self.labels)}>"

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Reads a `release/` folder: numbers, JSON and nothing that is run. No file of it that was altered is used.

        Raises `InvalidValue` for no such folder; a file that is gone, altered or damaged, or of a later version.
        """
        path = Path(folder).expanduser()
        require(
            path.is_dir(), "release", path, "the folder release/ of a finished run, or a copy of it"
        )
        if not (path / SCHEMA).exists() and (path / "release" / SCHEMA).exists():
            raise InvalidValue("release", path, rule=f"the folder {path / 'release'} within it")
        # as pate-release leaves it
        if not (path / MANIFEST).exists() and (path / "terms.json").exists():
            command = f"pate-student {as_setting('release', path)} queries=FILE"
            rule = f"a student in it: {command} trains one"
            raise InvalidValue("release", path, rule=rule)
        rule = "the digests of a published model"
        listed = Manifest.read(path, rule=rule, remedy=_REMEDY).sha256
        stated = PRIVACY in listed
        for name in (*_NEEDED, *[PRIVACY] * stated):  # the files that are used
            if name not in listed:
                raise disk.damaged(
                    path / MANIFEST, f"{rule}, {name} among them", "it is not", _REMEDY
                )
            if (
                disk.file_digest(path / name, rule="a file of a published model", remedy=_REMEDY)
                != listed[name]
            ):
                raise disk.damaged(
                    path / name, "the file as it was published", "it is another", _REMEDY
                )
        form = ModelForm.read(path)
        model = StudentModel.load(path / "student")
        same = (form.input_shape, form.model, form.threshold) == (
            tuple(model.input_shape),
            model.kind,
            model.threshold,
        )
        if not same or len(
            model.predict_proba(np.zeros((1, *model.input_shape), np.float32))[0]
        ) != len(form.labels):
            raise disk.damaged(
                path / SCHEMA, "the schema of the model beside it", "that of another", _REMEDY
            )
        return cls(
            form, model, PrivacyStatement.read(path, remedy=_REMEDY) if stated else None, path
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, in the order of the columns of what is predicted."""
        return self.form.labels

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each number of an input, or none."""
        return self.form.features

    def predict_proba(
        self, data: Any, *, encoding: str = "utf-8", decimal: str | None = None
    ) -> NDArray[np.float32]:
        """Probabilities `[n, L]`.

        Args:
            data: for a model of tables a DataFrame, a pyarrow table, a mapping of columns or the name of a file, with
                the columns that the public file had, in any order; others are not read. For a model of pictures a list
                of their files or of PIL images, or an array of bytes `[n, channels, height, width]`; for a model of
                features of pictures the same, it brings what makes them. For any an array of inputs as the model takes
                them, `[n, …]`: `form.input_shape` and `feature_names` say which.
            encoding: of a CSV file that `data` names and that is not UTF-8, such as latin-1.
            decimal: `comma` if numbers of that file read 3,5, `point` if 3.5; None for as in the public file.

        Raises `InvalidValue` for a column that is missing or holds something else, another shape, numbers that are not
        finite, a file whose text is not in the encoding.
        """
        return self.model.predict_proba(self.inputs(data, encoding=encoding, decimal=decimal))

    def predict(
        self, data: Any, *, encoding: str = "utf-8", decimal: str | None = None
    ) -> NDArray[np.bool_]:
        """Labels, bool `[n, L]`: those whose probability reaches the threshold. For arguments see `predict_proba`."""
        return self.decide(
            self.model.predict_proba(self.inputs(data, encoding=encoding, decimal=decimal))
        )

    def decide(self, probabilities: NDArray[np.float32]) -> NDArray[np.bool_]:
        """The labels of probabilities `[n, L]`."""
        return np.asarray(probabilities >= np.asarray(self.model.threshold, np.float32))

    def to_onnx(self, path: str | PathLike[str]) -> None:
        """Writes the model as an ONNX graph, from `inputs` (as `Bundle.inputs` gives them) to `probabilities`.

        Raises `InvalidValue` where onnx is not installed, or for a kind of student that has no graph.
        """
        require_extra("to_onnx", "onnx")
        from pate.bundle.onnx_export import write_onnx  # loads torch and onnx

        write_onnx(self.model, Path(path), labels=self.form.labels, features=self.form.features)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None) -> str:
        """Uploads the folder that it was loaded from to the Hugging Face Hub, in one commit; needs the extra `hub`.

        That is the files of its manifest, each as it was published, and the manifest; nothing else that lies there.
        `README.md` is the model card. Log in first, by `hf auth login` or HF_TOKEN. `repo_id`, `user/name`, is made
        where it is missing, `private` or by the user's default. Returns the address of the commit. Raises where the
        bundle was not loaded from a folder, for a file that is gone or altered, for a link, for no such package.
        """
        require_extra("push_to_hub", "hub")
        from huggingface_hub import CommitOperationAdd, HfApi

        if self.folder is None:
            raise InvalidValue("folder", None, rule="a bundle that pate.load read from a folder")
        disk.require_no_links(folder := Path(self.folder), "release")
        content = {MANIFEST: disk.read_bytes(folder / MANIFEST, rule="a manifest", remedy=_REMEDY)}
        api = HfApi()
        listed = Manifest.read(
            folder, rule="the digests of a published model", remedy=_REMEDY
        ).sha256
        for name, digest in listed.items():
            path = folder / name
            inside = path.resolve().is_relative_to(folder.resolve())
            require(inside, "manifest.json", name, "files of its folder")
            content[name] = disk.read_bytes(
                path, rule="a file of a published model", remedy=_REMEDY
            )
            if hashlib.sha256(content[name]).hexdigest() != digest:
                raise disk.damaged(path, "the file as it was published", "it is another", _REMEDY)
        api.create_repo(repo_id, private=private, exist_ok=True)
        added = [
            CommitOperationAdd(path_in_repo=name, path_or_fileobj=data)
            for name, data in content.items()
        ]
        return str(
            api.create_commit(
                repo_id, added, commit_message=f"{self.form.name}: a model by pate"
            ).commit_url
        )

    def inputs(
        self, data: Any, *, encoding: str = "utf-8", decimal: str | None = None
    ) -> NDArray[np.float32]:
        """The model's inputs, float32 `[n, …]`; for arguments see `predict_proba`."""
        form = self.form.preprocessing
        if isinstance(form, ExtractedForm) and getattr(data, "ndim", 0) == _OF_PICTURES:
            return form.inputs(np.asarray(data))
        if isinstance(form, TableSchema) and isinstance(data, (str, PathLike)):
            file = TableFile(Path(data).expanduser(), "data", encoding, decimal)
            form = replace(form, spelling=file.spelling(form.spelling))
            data = file.read()
        shape = "".join(f", {size}" for size in self.form.input_shape)
        if not isinstance(data, np.ndarray):
            if isinstance(form, TableSchema):
                encoded = form.read_table(as_table(data))
                for line in form.unknown_cell_remarks(
                    "data", encoded.unknown_and_missing, len(encoded.features)
                ):
                    warnings.warn(printable(line), UnlikePublic, stacklevel=3)
                return encoded.features
            if form is not None:
                return form.inputs(data)
            rule = f"an array of shape [n{shape}]; this model knows no columns"
            require(not hasattr(data, "columns"), "data", type(data).__name__, rule)
        if (
            isinstance(form, TableSchema)
            and getattr(getattr(data, "dtype", None), "kind", "") == "O"
        ):
            raise InvalidValue(
                "data.dtype", "object", rule="a DataFrame with the columns of the public file"
            )
        array = require_array("data", data)
        framed = self.form.kind == "features" and form is not None
        columns = ", or a DataFrame with the columns of the public file" if framed else ""
        require(
            array.shape[1:] == self.form.input_shape,
            "data.shape",
            array.shape,
            f"[n{shape}]{columns}",
        )
        if self.form.kind == "images":
            require_image_levels("data", array)
        levels = self.form.kind == "images" and array.dtype == np.uint8
        return array.astype(np.float32) / _LEVELS if levels else array.astype(np.float32)


def load(folder: str | PathLike[str]) -> Bundle:
    """Reads the model that a run published: see `Bundle.load`.

    >>> load("nowhere")
    Traceback (most recent call last):
        ...
    pate.errors.InvalidValue: release=nowhere: expected the folder release/ of a finished run, or a copy of it
    """
    return Bundle.load(folder)
