"""The bundle that a run publishes: it predicts as the trained model, refuses altered files, and can be uploaded."""

import csv
import hashlib
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from omegaconf import OmegaConf

import pate
from pate.bundle import Bundle, ModelForm
from pate.bundle.model_form import SCHEMA
from pate.cli.predict import predict
from pate.data import TableSchema
from pate.data.table.schema import UnlikePublic
from pate.files.manifest import Manifest
from pate.models import LinearStudent, LogisticStudent, LowRankStudent, MLPStudent, Student
from pate.report.card import PrivacyStatement
from pate.validation import InvalidValue
from tests.refusals import ANY, refused_parameter

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.csv")
CELLS_OF_COLUMNS = {"age": [20.0, 40.0, None, 60.0] * 10, "sex": ["F", "M", "", "M"] * 10}
LABELS = ("old", "male")


def write_bundle(release_folder: Path, student: Student | None = None) -> Path:
    """Trains a student on `CELLS_OF_COLUMNS`, writes the folder that a run would publish of it, and returns the folder.

    Args:
        release_folder: the folder to write.
        student: the recipe of the student; None for a linear one.
    """
    schema = TableSchema.fit(pa.table(CELLS_OF_COLUMNS))
    inputs = schema.inputs(CELLS_OF_COLUMNS)
    labels = np.stack([inputs[:, 0] > 0.1, inputs[:, 3] > 0], axis=1)
    model = (student or LinearStudent()).fit(inputs, labels, seed=0)
    model.save(release_folder / "student")
    form = ModelForm(
        name="people",
        kind="features",
        labels=LABELS,
        input_shape=model.input_shape,
        features=schema.feature_names,
        preprocessing=schema,
        threshold=model.threshold,
        model=model.kind,
    )
    form.write(release_folder)
    write_manifest(release_folder)
    return release_folder


def write_manifest(release_folder: Path) -> None:
    """Writes a manifest that lists all files in the folder of a release."""
    file_names = [
        path.relative_to(release_folder).as_posix()
        for path in release_folder.rglob("*.*")
        if path.name != "manifest.json"
    ]
    Manifest.from_files(release_folder, file_names, missing_file_remedy="none").write(
        release_folder
    )


@pytest.fixture
def release_folder(tmp_path: Path) -> Path:
    """Returns the published folder of a linear student of the small table."""
    return write_bundle(release_folder=tmp_path / "release")


STUDENTS = (
    LinearStudent(),
    LogisticStudent(),
    LowRankStudent(),
    pytest.param(MLPStudent(epochs=3, threshold_each_label=True), marks=pytest.mark.slow),
)


@pytest.mark.parametrize("student", STUDENTS, ids=lambda student: type(student).__name__)
def test_every_student_predicts_the_same_after_it_is_read(tmp_path: Path, student: Student) -> None:
    """A bundle that is written and loaded predicts the same probabilities and labels as the trained student."""
    bundle = pate.load(write_bundle(release_folder=tmp_path / "release", student=student))
    inputs = TableSchema.fit(pa.table(CELLS_OF_COLUMNS)).inputs(CELLS_OF_COLUMNS)
    trained = student.fit(inputs, np.stack([inputs[:, 0] > 0.1, inputs[:, 3] > 0], axis=1), seed=0)
    assert np.array_equal(bundle.predict_proba(CELLS_OF_COLUMNS), trained.predict_proba(inputs))
    assert np.array_equal(bundle.predict(CELLS_OF_COLUMNS), trained.predict(inputs))
    thresholds = np.float32(bundle.form.threshold)
    assert thresholds.shape == ((2,) if getattr(student, "threshold_each_label", False) else ())
    assert np.array_equal(
        bundle.predict(CELLS_OF_COLUMNS), bundle.predict_proba(CELLS_OF_COLUMNS) >= thresholds
    )


def test_tables_arrays_and_frames_give_the_same(release_folder: Path) -> None:
    """A model predicts the same from a dict, a DataFrame in any order, an Arrow table, an array and a CSV file.

    A CSV file in another encoding, with decimal commas, is read if its encoding and decimal sign are passed.
    """
    pandas = pytest.importorskip("pandas")
    bundle = pate.load(release_folder)
    assert bundle.labels == LABELS
    assert bundle.feature_names == (
        "age",
        "age=missing",
        "sex=F",
        "sex=M",
        "sex=other",
        "sex=missing",
    )
    frame = pandas.DataFrame(CELLS_OF_COLUMNS)
    expected = bundle.predict_proba(CELLS_OF_COLUMNS)
    shuffled = frame[["sex", "age"]].assign(remark="x")
    categorical = frame.astype({"sex": "category"})
    for table_or_inputs in (
        shuffled,
        categorical,
        pa.table(CELLS_OF_COLUMNS),
        bundle.inputs(CELLS_OF_COLUMNS),
    ):
        assert np.allclose(bundle.predict_proba(table_or_inputs), expected)
    assert bundle.predict_proba(frame[:0]).shape == (0, 2)
    frame.to_csv(release_folder.parent / "new.csv", index=False)
    assert np.allclose(bundle.predict_proba(release_folder.parent / "new.csv"), expected)
    (release_folder.parent / "comma.csv").write_bytes(
        "m\u00fc;sex;age\n\u00fc;F;30,5\n".encode("latin-1")
    )
    for read_or_predict in (bundle.inputs, bundle.predict_proba, bundle.predict):
        assert np.array_equal(
            read_or_predict(
                release_folder.parent / "comma.csv", encoding="latin-1", decimal="comma"
            ),
            read_or_predict({"sex": ["F"], "age": [30.5]}),
        )
    with refused_parameter("data", value=ANY, rule_words="text in utf-8"):
        bundle.predict(release_folder.parent / "comma.csv", decimal="comma")


class ArrowStream:
    """A data frame of an unknown library, which has nothing but Arrow's PyCapsule interface."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


# The Arrow type of text views, which pyarrow has from version 16 on.
TEXT_VIEWS = [pa.string_view()] if hasattr(pa, "string_view") else []


@pytest.mark.parametrize("text_type", [pa.string(), pa.large_string(), *TEXT_VIEWS], ids=str)
def test_frames_with_the_arrow_capsule_are_read(text_type: Any, release_folder: Path) -> None:
    """A frame with the PyCapsule interface, for each Arrow type of text, gives the predictions of the table."""
    bundle = pate.load(release_folder)
    arrow_table = pa.table(
        {"sex": pa.array(CELLS_OF_COLUMNS["sex"], type=text_type), "age": CELLS_OF_COLUMNS["age"]}
    )
    for arrow_data in (
        ArrowStream(arrow_table),
        arrow_table.to_batches()[0],
        arrow_table.to_reader(),
    ):
        np.testing.assert_array_equal(bundle.predict(arrow_data), bundle.predict(CELLS_OF_COLUMNS))


@pytest.mark.parametrize("text_type", [pa.string(), *TEXT_VIEWS], ids=str)
def test_categories_with_the_arrow_capsule_are_words(text_type: Any, release_folder: Path) -> None:
    """A column of categories behind the PyCapsule interface is read as words, for each Arrow type of text.

    Polars exports categories as dictionaries of text views.
    """
    bundle = pate.load(release_folder)
    categories = pa.array(CELLS_OF_COLUMNS["sex"]).dictionary_encode()
    categories = pa.DictionaryArray.from_arrays(
        categories.indices, categories.dictionary.cast(text_type)
    )
    table = pa.table({"sex": categories, "age": CELLS_OF_COLUMNS["age"]})
    np.testing.assert_array_equal(
        bundle.predict(ArrowStream(table)), bundle.predict(CELLS_OF_COLUMNS)
    )


def test_advice_on_cells_of_a_frame_names_no_setting_for_files(release_folder: Path) -> None:
    """A number with a comma in memory is refused with advice on pandas, and in a file with advice on `decimal=`."""
    bundle = pate.load(release_folder)
    table_with_comma = {"sex": ["F"], "age": ["3,5"]}
    with refused_parameter(
        "data.age", value=ANY, rule_words="numbers", hint_words="pandas.to_numeric"
    ) as caught:
        bundle.predict(table_with_comma)
    assert "decimal" not in str(caught.value)
    (release_folder.parent / "new.csv").write_text('sex,age\nF,"3,5"\n')
    with refused_parameter(
        "data.age", value=ANY, rule_words="numbers", hint_words="decimal=comma"
    ) as caught:
        bundle.predict(release_folder.parent / "new.csv")
    assert str(caught.value).endswith("decimal= are arguments, all are settings of pate-predict")


def test_a_single_column_with_the_arrow_capsule_is_no_frame(release_folder: Path) -> None:
    """A single column behind the PyCapsule interface is refused as data."""
    with refused_parameter(
        "data", value="ArrowStream", rule_words="a DataFrame, or the name of a file"
    ):
        single_column = ArrowStream(pa.chunked_array([[1.0, 2.0]]))
        pate.load(release_folder).predict(single_column)


STATEMENT = PrivacyStatement(
    epsilon=0.9912,
    delta=1e-6,
    adjacency="replace_one",
    unit="one value of <mrn>, with all its rows",
    accountant="exact",
    mechanism="GaussianVotes",
    noise="system",
    data="people",
    num_queries=40,
    num_answered=39,
    num_labels=2,
    num_teachers=800,
)


def test_a_bundle_shows_its_labels_and_stated_price(release_folder: Path) -> None:
    """The repr of a model has its name, kind and labels, and the price with its unit, or that none is stated."""
    bundle = pate.load(release_folder)
    assert repr(bundle) == "<Bundle people: linear model of old, male; no price stated>"
    priced_bundle = replace(bundle, privacy=STATEMENT)
    price = "epsilon <= 0.9912 at delta = 1e-6 (replace_one, unit: one value of <mrn>, with all its rows)"
    assert repr(priced_bundle) == f"<Bundle people: linear model of old, male; {price}>"


def test_a_notebook_shows_the_same_escaped_and_without_assets(release_folder: Path) -> None:
    """The HTML of a bundle shows labels and price as escaped text, as its repr does, and has no scripts and links.

    For a bundle with seeded noise and an infinite epsilon, the HTML states both.
    """
    shown = replace(pate.load(release_folder), privacy=STATEMENT)._repr_html_()
    for text in (
        "Bundle people",
        "old, male",
        "0.9912",
        "1e-6",
        "replace_one",
        "39 of 40 answered",
    ):
        assert text in shown
    assert "one value of &lt;mrn&gt;, with all its rows" in shown
    assert not any(word in shown for word in ("<mrn>", "<script", "<style", "<img", "http"))
    seeded_bundle = replace(
        pate.load(release_folder), privacy=replace(STATEMENT, noise="seeded", epsilon=np.inf)
    )
    assert "infinite: no guarantee" in seeded_bundle._repr_html_()
    assert "seed" in seeded_bundle._repr_html_()


def errors_of_predict(
    release_folder: Path, table: Any, capsys: Any, id_column: str | None = None
) -> str:
    """Runs `pate-predict` on a table, and returns what it prints to standard error, without the last line.

    The predictions are in p.csv beside the folder.

    Args:
        release_folder: the folder of the bundle.
        table: the columns of the table, by their names.
        capsys: the fixture that captures output.
        id_column: the column of ids, or None.
    """
    pa.csv.write_csv(pa.table(table), release_folder.parent / "new.csv")
    settings = {
        "release": str(release_folder),
        "data": str(release_folder.parent / "new.csv"),
        "id": id_column,
        "encoding": "utf-8",
    }
    predict(
        config=OmegaConf.create(
            settings | {"output": str(release_folder.parent / "p.csv"), "decimal": "point"}
        )
    )
    return str(capsys.readouterr().err).rpartition("\n")[0].rpartition("\n")[0]


def test_records_unlike_the_public_file_are_reported(release_folder: Path, capsys: Any) -> None:
    """Unknown words and numbers far outside the public range give one warning for all batches of records.

    The command prints the line with which the library warns. Usual records give no warning.
    """
    words = {"age": CELLS_OF_COLUMNS["age"] * 3, "sex": ["f", "m", "x", "x"] * 30}
    strange = [
        ("data.sex: 120 cells, 120 with a word that is no category of the public file", words)
    ]
    for rows in (1, 50, 200):
        line = f"data.age: {rows} cells, {rows} outside the public range 20 to 60"
        strange.append((line, {"age": [40.0 * 365] * rows, "sex": ["F"] * rows}))
    bundle = pate.load(release_folder)
    for line, table in strange:
        for predict_of_bundle in (bundle.predict, bundle.predict_proba):
            with pytest.warns(UnlikePublic, match=f"^{line}$"):
                predict_of_bundle(table)
        assert (
            errors_of_predict(release_folder=release_folder, table=table, capsys=capsys)
            == f"warning: {line}"
        )
    # Warnings are errors in tests, so these usual records give none.
    bundle.predict({"age": [20.0, None, 60.0], "sex": ["F", "M", ""]})


def test_mistakes_in_predictions_are_refused_in_one_line(release_folder: Path) -> None:
    """Missing columns, wrong types, wrong shapes and missing files are refused by the column, shape or path."""
    bundle = pate.load(release_folder)
    for records, refusal in (
        ({"age": [1]}, refused_parameter("data", rule_words="also the column sex")),
        (
            {"agee": [1], "sex": ["F"]},
            refused_parameter("data", rule_words="did you mean agee"),
        ),
        (
            {"age": ["old"], "sex": ["F"]},
            refused_parameter("data.age", rule_words="public file"),
        ),
        (
            {"age": [1, 2], "sex": ["F"]},
            refused_parameter("data", rule_words="columns of"),
        ),
        (
            np.zeros((3, 5)),
            refused_parameter("data.shape", value=(3, 5)),
        ),
        (np.full((3, 6), np.nan), refused_parameter("inputs[0, 0]", rule_words="finite numbers")),
        (
            np.array([[1, "F"]], object),
            refused_parameter("data.dtype", value=ANY, rule_words="DataFrame with"),
        ),
        ("nowhere.csv", refused_parameter("data", value=ANY, rule_words="there and")),
        ([{"age": 1}], refused_parameter("data", value="list")),
    ):
        with refusal:
            bundle.predict(records)


def test_files_that_were_altered_are_not_used(release_folder: Path, tmp_path: Path) -> None:
    """Loading a bundle refuses a file that was changed or removed, and names its path."""
    for file_name in (
        SCHEMA,
        "student/student.json",
        "student/student.safetensors",
        "manifest.json",
    ):
        copied_folder = Path(shutil.copytree(release_folder, tmp_path / "copy"))
        content = (copied_folder / file_name).read_bytes()
        (copied_folder / file_name).write_bytes(content[:-3] + b"\n" + content[-3:])
        if file_name == "manifest.json":
            (copied_folder / file_name).write_text("{}")
        with pytest.raises(
            InvalidValue,
            match=rf"^file=\S+{Path(file_name).name}: expected .*; copy the folder anew",
        ):
            Bundle.load(copied_folder)
        (copied_folder / file_name).unlink()
        with refused_parameter("file", value=ANY, rule_words="(it is"):
            Bundle.load(copied_folder)
        shutil.rmtree(copied_folder)


def test_a_schema_of_another_model_is_one_line(release_folder: Path) -> None:
    """Loading a bundle refuses a schema.json if one field does not suit the model."""
    schema = json.loads((release_folder / SCHEMA).read_text())
    column = {"kind": "category", "categories": [], "missing": True}
    for key, value in (
        ("labels", ["one"]),
        ("labels", ["one", "one"]),
        ("labels", 3),
        ("input_shape", [4]),
        ("model", "mlp"),
        ("preprocessing", {"kind": "other"}),
        ("preprocessing", {"kind": "table", "columns": {"age": column}}),
        ("threshold", "half"),
        ("versions", []),
    ):
        (release_folder / SCHEMA).write_text(json.dumps(schema | {key: value}))
        write_manifest(release_folder)
        with refused_parameter("file", value=ANY, rule_words="the schema of"):
            Bundle.load(release_folder)


def test_labels_and_ids_are_no_formulas_in_predictions(release_folder: Path, capsys: Any) -> None:
    """Labels and ids that a spreadsheet would run as formulas are quoted in p.csv, and numbers stay as they are."""
    schema = json.loads((release_folder / SCHEMA).read_text())
    (release_folder / SCHEMA).write_text(
        json.dumps(schema | {"labels": ["=cmd|' /C calc'!A0", "@male"]})
    )
    write_manifest(release_folder)
    table = {"age": [20.0, 40.0], "sex": ["F", "M"], "who": ["=1+1", "-7"]}
    errors_of_predict(release_folder=release_folder, table=table, capsys=capsys, id_column="who")
    with (release_folder.parent / "p.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head[1::2] == ["'=cmd|' /C calc'!A0", "'@male"]
    assert [row[0] for row in rows] == ["'=1+1", "-7"]


def test_a_column_of_ids_is_refused_beside_an_array(release_folder: Path) -> None:
    """For an array, whose rows are numbered, a column of ids is refused, and no predictions are written."""
    np.save(release_folder.parent / "new.npy", np.zeros((2, 4), np.float32))
    settings = {
        "release": str(release_folder),
        "data": str(release_folder.parent / "new.npy"),
        "output": str(release_folder.parent / "p.csv"),
        "id": "who",
        "encoding": "utf-8",
        "decimal": "point",
    }
    with refused_parameter("id", value="who"):
        predict(config=OmegaConf.create(settings))
    assert not (release_folder.parent / "p.csv").exists()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """Installs a stand-in for the package huggingface_hub, with the interface that the upload uses."""
    package = MagicMock(CommitOperationAdd=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "huggingface_hub", package)
    return package.HfApi.return_value


def test_only_files_of_the_manifest_are_uploaded(release_folder: Path, hub: MagicMock) -> None:
    """An upload sends exactly the manifest and its files, and not another file in the folder.

    A bundle whose folder was altered, and one without a folder, are refused.
    """
    (release_folder / "notes.txt").write_text("for nobody")
    bundle = pate.load(str(release_folder))
    hub.create_commit.return_value.commit_url = "https://there"
    assert bundle.push_to_hub("me/people", private=True) == "https://there"
    hub.create_repo.assert_called_once_with("me/people", private=True, exist_ok=True)
    (repository_name, operations), keywords = hub.create_commit.call_args
    assert (repository_name, keywords) == (
        "me/people",
        {"commit_message": "people: a model by pate"},
    )
    sent = {operation.path_in_repo: operation.path_or_fileobj for operation in operations}
    published = ("manifest.json", SCHEMA, "student/student.json", "student/student.safetensors")
    assert sent == {name: (release_folder / name).read_bytes() for name in published}
    (release_folder / SCHEMA).write_text("{}")
    with refused_parameter("file", value=ANY, rule_words="was published (it"):
        bundle.push_to_hub("me/people")
    with refused_parameter("folder", value=None):
        Bundle(bundle.form, bundle.model).push_to_hub("me/people")


def test_no_file_outside_of_the_folder_is_uploaded(
    release_folder: Path, tmp_path: Path, hub: MagicMock
) -> None:
    """An upload whose manifest lists a file outside the folder, or a link to one, is refused and sends nothing."""
    (tmp_path / "secret").write_text("secret")
    bundle = pate.load(release_folder)
    manifest_text = (release_folder / "manifest.json").read_text()
    for name in ("../secret", "/etc/hostname", "link"):
        if name == "link":
            (release_folder / "link").symlink_to(tmp_path / "secret")
        manifest = json.loads(manifest_text)
        manifest["sha256"][name] = hashlib.sha256(b"secret").hexdigest()
        (release_folder / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(
            InvalidValue,
            match=r"^(manifest\.json=.*: expected files of its fold|release=.*no links)",
        ):
            bundle.push_to_hub("me/people")
    assert not hub.create_commit.called
