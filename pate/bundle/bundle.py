"""A published student with its names and its preprocessing, as it is read from its folder."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from pate.array_types import BoolArray, Float32Array
from pate.bundle.hub import download_repository, is_hub_name
from pate.bundle.model_form import REMEDY, SCHEMA, ModelForm
from pate.data import TableSchema
from pate.data.pictures import require_image_levels
from pate.data.table.frames import hints_for_frames
from pate.data.table.table_file import TableFile
from pate.extras import require_extra
from pate.features.extracted_form import ExtractedForm
from pate.files.digests import file_digest
from pate.files.manifest import MANIFEST, Manifest
from pate.files.paths import require_no_links
from pate.files.reading import DamagedFile, damaged, read_bytes
from pate.html_table import html_table
from pate.models.student_model import StudentModel, class_probabilities, most_probable
from pate.report.card import PRIVACY_FILE, PrivacyStatement
from pate.validation import (
    InvalidValue,
    as_setting,
    require,
    require_array,
)

# The files of a bundle and its manifest, as errors describe them.
_FILE_RULE = "a file of a published model"
_DIGESTS_RULE = "the digests of a published model"
# The files, besides the manifest, without which a bundle cannot be read.
_NEEDED_FILES = (SCHEMA, "student/student.json", "student/student.safetensors")
# The largest level of a pixel in bytes.
_MAX_LEVEL = np.float32(255)
# The number of axes of an array of pictures.
_PICTURE_AXES = 4


@dataclass(frozen=True, eq=False)
class Bundle:
    """A published student with its preprocessing and the names of its inputs and labels.

    Attributes:
        form: the form of the model: its inputs, labels and threshold.
        model: the student.
        privacy: the price as the publisher states it; None for a bundle of an earlier version. The price is not
            checked.
        folder: the folder that the bundle was read from; None if it was made in memory.
    """

    form: ModelForm
    model: StudentModel
    privacy: PrivacyStatement | None = None
    folder: Path | str | None = None

    def __repr__(self) -> str:
        """Returns the kind of the model and its labels, and the price that the publisher states."""
        model_text = f"{self.form.name}: {self.form.model} model of {', '.join(self.labels)}"
        price = "no price stated" if self.privacy is None else self.privacy.guarantee
        return f"<Bundle {model_text}; {price}>"

    def _repr_html_(self) -> str:
        """Returns a table in HTML for notebooks: the kind of the model, its labels, and the price that is stated."""
        name_and_value_rows = [("model", self.form.model), ("labels", ", ".join(self.labels))]
        if self.privacy is not None:
            name_and_value_rows += self.privacy.terms
        return html_table(title=f"Bundle {self.form.name}", rows=name_and_value_rows)

    @classmethod
    def load(cls, folder: str | PathLike[str], *, revision: str | None = None) -> Self:
        """Reads a bundle from a folder `release/`, or from the Hugging Face Hub.

        The files are numbers and JSON; no code in them is run. A text `user/name` is a repository of the hub if neither
        it nor `user` is a path on this machine.

        Args:
            folder: the folder, or the repository as `user/name`, which needs the extra `hub`.
            revision: a commit, branch or tag of the repository; None for its latest commit.

        Raises:
            InvalidValue: the folder or repository does not exist; or a file is missing, altered, damaged or of a later
                version.
            MissingPackage: huggingface_hub is not installed.
        """
        release_folder = Path(folder).expanduser()
        if is_hub_name(folder_or_repository=folder):
            release_folder = download_repository(repository_name=str(folder), revision=revision)
        _require_release_folder(release_folder)
        digest_by_file = Manifest.read(release_folder, rule=_DIGESTS_RULE, remedy=REMEDY).sha256
        has_privacy = PRIVACY_FILE in digest_by_file
        used_files = (*_NEEDED_FILES, PRIVACY_FILE) if has_privacy else _NEEDED_FILES
        for file_name in used_files:
            _require_unaltered(release_folder, file_name=file_name, digest_by_file=digest_by_file)
        model_form = ModelForm.read(release_folder)
        student_model = StudentModel.load(release_folder / "student")
        if not _belong_together(model_form, student_model):
            rule = "the schema of the model beside it"
            raise damaged(
                release_folder / SCHEMA, rule=rule, finding="that of another", remedy=REMEDY
            )
        privacy = PrivacyStatement.read(release_folder, remedy=REMEDY) if has_privacy else None
        return cls(form=model_form, model=student_model, privacy=privacy, folder=release_folder)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, in the order of the columns of predictions."""
        return self.form.labels

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each number of an input; may be empty."""
        return self.form.features

    def predict_proba(
        self, data: Any, *, encoding: str = "utf-8", decimal: str | None = None
    ) -> Float32Array:
        """Returns the predicted probability of each label, float32 `[num_samples, num_labels]`.

        If each sample has exactly one of the labels (`form.one_class`), the probabilities of a sample have the sum 1.

        For a model of tables, `data` may be a DataFrame of pandas, polars or another library with Arrow's PyCapsule
        interface, a pyarrow table, a mapping of columns, or the name of a file. It must have the columns of the public
        file, in any order; other columns are ignored. For a model of pictures, or of features of pictures, `data` may
        be an array of bytes `[num_samples, channels, height, width]`, and, if `form.takes_pictures`, a list of files or
        of PIL images. For every model, `data` may be an array of the model's own inputs: one entry of shape
        `form.input_shape` for each sample, with numbers in the order of `feature_names`.

        Args:
            data: the samples.
            encoding: the encoding of a CSV file that `data` names, such as latin-1, if it is not UTF-8.
            decimal: "comma" if numbers in that file are written as 3,5, and "point" if they are written as 3.5. None
                for the sign of the public file.

        Raises:
            InvalidValue: a column is missing or holds other values; or the shape is wrong; or a number is not finite;
                or the file is not in this encoding.
        """
        return self.probabilities(self.inputs(data, encoding=encoding, decimal=decimal))

    def probabilities(self, inputs: Float32Array) -> Float32Array:
        """Returns the probability of each label for the model's own inputs, float32 `[num_samples, num_labels]`.

        Args:
            inputs: the inputs as `Bundle.inputs` returns them, one entry for each sample.
        """
        probabilities = self.model.predict_proba(inputs)
        if self.form.one_class:
            return class_probabilities(probabilities).astype(np.float32)
        return probabilities

    def predict(
        self, data: Any, *, encoding: str = "utf-8", decimal: str | None = None
    ) -> BoolArray:
        """Returns the labels whose probability reaches the threshold, bool `[num_samples, num_labels]`.

        If each sample has exactly one of the labels, the result has the most probable label alone.

        Arguments and errors are those of `predict_proba`.
        """
        return self.decide(
            self.probabilities(self.inputs(data, encoding=encoding, decimal=decimal))
        )

    def decide(self, probabilities: Float32Array) -> BoolArray:
        """Returns the predicted labels, bool `[num_samples, num_labels]`; see `predict`.

        Args:
            probabilities: the probability of each label, as `predict_proba` returns it.
        """
        if self.form.one_class:
            return most_probable(probabilities=probabilities)
        return np.asarray(probabilities >= np.asarray(self.model.threshold, np.float32))

    def to_onnx(self, path: str | PathLike[str]) -> None:
        """Writes the model as an ONNX graph, from `inputs`, as `Bundle.inputs` returns them, to `probabilities`.

        Raises:
            MissingPackage: onnx is not installed.
            InvalidValue: students of this kind cannot be written as a graph; or each sample has exactly one class; or
                the folder of the file does not exist.
        """
        require_extra("to_onnx", extra="onnx")
        from pate.bundle.onnx_export import write_onnx  # loads torch and onnx

        form = self.form
        if form.one_class:
            rule = "a model of labels; a graph has no rule for classes that exclude each other"
            raise InvalidValue("to_onnx", "classes", rule=rule)
        write_onnx(
            self.model, onnx_file=Path(path), label_names=form.labels, feature_names=form.features
        )

    def push_to_hub(self, repo_id: str, *, private: bool | None = None) -> str:
        """Uploads the bundle to the Hugging Face Hub in one commit; needs the extra `hub`.

        The manifest and the files that it lists are uploaded as they were published, and no other file of the folder.
        `README.md` is the model card. Log in before, by `hf auth login` or HF_TOKEN.

        Args:
            repo_id: the repository, as `user/name`; it is made if it does not exist.
            private: true makes the repository private; None uses the user's default.

        Returns:
            The address of the commit.

        Raises:
            MissingPackage: huggingface_hub is not installed.
            InvalidValue: the bundle was not read from a folder; or a file is missing, altered, or a link.
        """
        require_extra("push_to_hub", extra="hub")
        from huggingface_hub import CommitOperationAdd, HfApi

        if self.folder is None:
            rule = "a bundle that pate.load read from a folder"
            raise InvalidValue("folder", None, rule=rule)
        release_folder = Path(self.folder)
        require_no_links(release_folder, name="release")
        api = HfApi()
        commit_operations = [
            CommitOperationAdd(path_in_repo=file_name, path_or_fileobj=file_bytes)
            for file_name, file_bytes in _published_files(release_folder).items()
        ]
        api.create_repo(repo_id, private=private, exist_ok=True)
        message = f"{self.form.name}: a model by pate"
        return str(api.create_commit(repo_id, commit_operations, commit_message=message).commit_url)

    def inputs(
        self, data: Any, *, encoding: str = "utf-8", decimal: str | None = None
    ) -> Float32Array:
        """Returns the inputs that the model computes with, float32, one entry for each sample.

        Arguments and errors are those of `predict_proba`.
        """
        preprocessing = self.form.preprocessing
        is_array = isinstance(data, np.ndarray)
        if isinstance(preprocessing, ExtractedForm) and getattr(data, "ndim", 0) == _PICTURE_AXES:
            pictures = np.asarray(data)
            return preprocessing.inputs(pictures)
        if isinstance(preprocessing, TableSchema) and isinstance(data, (str, PathLike)):
            table_file = TableFile(
                Path(data).expanduser(), setting="data", encoding=encoding, decimal=decimal
            )
            table_schema = replace(
                preprocessing, spelling=table_file.spelling(preprocessing.spelling)
            )
            with _hints_for_files():
                return table_schema.inputs_with_warnings(table_file.read())
        if isinstance(preprocessing, TableSchema) and not is_array:
            with hints_for_frames():
                return preprocessing.inputs_with_warnings(data)
        if isinstance(preprocessing, TableSchema) and data.dtype.kind == "O":
            rule = "a DataFrame with the columns of the public file"
            raise InvalidValue("data.dtype", "object", rule=rule)
        if preprocessing is not None and not is_array:
            return preprocessing.inputs(data)
        return self._inputs_from_array(data)

    def _inputs_from_array(self, samples: Any) -> Float32Array:
        """Returns the model's own inputs from an array of them, float32; pixels in bytes are divided by 255.

        Raises `InvalidValue` for anything but an array of numbers of the model's input shape.
        """
        sizes = "".join(f", {size}" for size in self.form.input_shape)
        shape_rule = f"[n{sizes}]"
        if hasattr(samples, "columns"):
            rule = f"an array of shape {shape_rule}; this model knows no columns"
            raise InvalidValue("data", type(samples).__name__, rule=rule)
        input_array = require_array("data", samples)
        if input_array.shape[1:] != self.form.input_shape:
            if self.form.kind == "features" and self.form.preprocessing is not None:
                shape_rule += ", or a DataFrame with the columns of the public file"
            raise InvalidValue("data.shape", input_array.shape, rule=shape_rule)
        numbers = input_array.astype(np.float32)
        if self.form.kind != "images":
            return numbers
        require_image_levels("data", images=input_array)
        return numbers / _MAX_LEVEL if input_array.dtype == np.uint8 else numbers


@contextmanager
def _hints_for_files() -> Iterator[None]:
    """Adds to an error of the `with` block which of the settings in its hint are arguments of `predict`.

    They are `encoding` and `decimal`. An error without a hint is unchanged.
    """
    try:
        yield
    except InvalidValue as error:
        if error.hint:
            error.hint += "; encoding= and decimal= are arguments, all are settings of pate-predict"
        raise


def _require_release_folder(release_folder: Path) -> None:
    """Raises `InvalidValue` if a folder does not exist, is the one around `release/`, or has no student yet.

    Whether the files of a bundle are there is not checked.
    """
    rule = "the folder release/ of a finished run, or a copy of it"
    require(release_folder.is_dir(), "release", release_folder, rule)
    if not (release_folder / SCHEMA).exists() and (release_folder / "release" / SCHEMA).exists():
        raise InvalidValue(
            "release", release_folder, rule=f"the folder {release_folder / 'release'} within it"
        )
    # `pate-release` writes a folder without a student.
    if not (release_folder / MANIFEST).exists() and (release_folder / "terms.json").exists():
        command = f"pate-student {as_setting(name='release', value=release_folder)} queries=FILE"
        rule = f"a student in it: {command} trains one"
        raise InvalidValue("release", release_folder, rule=rule)


def _require_unaltered(
    release_folder: Path, *, file_name: str, digest_by_file: Mapping[str, str]
) -> None:
    """Raises `DamagedFile` unless the manifest of a bundle has a digest for a file, and the file has this digest.

    Args:
        release_folder: the folder of the bundle.
        file_name: the name of the file.
        digest_by_file: the digests in the manifest, by the names of files.
    """
    if file_name not in digest_by_file:
        rule = f"{_DIGESTS_RULE}, {file_name} among them"
        raise damaged(release_folder / MANIFEST, rule=rule, finding="it is not", remedy=REMEDY)
    if (
        file_digest(release_folder / file_name, rule=_FILE_RULE, remedy=REMEDY)
        != digest_by_file[file_name]
    ):
        raise _altered_file(release_folder / file_name)


def _altered_file(altered_path: Path) -> DamagedFile:
    """Returns the error for a file that differs from the published one."""
    rule = "the file as it was published"
    return damaged(altered_path, rule=rule, finding="it is another", remedy=REMEDY)


def _belong_together(model_form: ModelForm, student_model: StudentModel) -> bool:
    """Returns True if a form and a student have the same input shape, kind, threshold and number of labels."""
    if model_form.input_shape != tuple(student_model.input_shape):
        return False
    if model_form.model != student_model.kind or model_form.threshold != student_model.threshold:
        return False
    zero_input = np.zeros((1, *student_model.input_shape), np.float32)
    return len(student_model.predict_proba(zero_input)[0]) == len(model_form.labels)


def _published_files(release_folder: Path) -> dict[str, bytes]:
    """Returns the content of the manifest and of each file that it lists, by name, after comparing the digests.

    Raises:
        InvalidValue: a file is missing or altered, or is outside the folder.
    """
    bytes_by_file = {
        MANIFEST: read_bytes(release_folder / MANIFEST, rule="a manifest", remedy=REMEDY)
    }
    digest_by_file = Manifest.read(release_folder, rule=_DIGESTS_RULE, remedy=REMEDY).sha256
    for file_name, digest in digest_by_file.items():
        published_path = release_folder / file_name
        is_inside = published_path.resolve().is_relative_to(release_folder.resolve())
        require(is_inside, "manifest.json", file_name, "files of its folder")
        bytes_by_file[file_name] = read_bytes(published_path, rule=_FILE_RULE, remedy=REMEDY)
        if hashlib.sha256(bytes_by_file[file_name]).hexdigest() != digest:
            raise _altered_file(published_path)
    return bytes_by_file


def load(folder: str | PathLike[str], *, revision: str | None = None) -> Bundle:
    """Reads a published model from its folder, or from the Hugging Face Hub; does the same as `Bundle.load`.

    Args:
        folder: the folder, or a repository of the hub as `user/name`, which needs the extra `hub`.
        revision: a commit, branch or tag of the repository; None for its latest commit.

    >>> load("nowhere")
    Traceback (most recent call last):
        ...
    pate.errors.InvalidValue: release=nowhere: expected the folder release/ of a finished run, or a copy of it
    """
    return Bundle.load(folder, revision=revision)
