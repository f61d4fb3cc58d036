"""What a run publishes is a model: read back, it predicts by name, and holds nothing that is not covered."""

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
from tests.refusals import ANY, refused

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.csv")
TABLE = {"age": [20.0, 40.0, None, 60.0] * 10, "sex": ["F", "M", "", "M"] * 10}
LABELS = ("old", "male")


def write_bundle(folder: Path, student: Student | None = None) -> Path:
    """Writes the published folder of a student, trained on the small table, and returns the folder.

    Args:
        folder: the folder to write.
        student: the recipe of the student; by default a linear one.
    """
    schema = TableSchema.fit(pa.table(TABLE))
    inputs = schema.inputs(TABLE)
    labels = np.stack([inputs[:, 0] > 0.1, inputs[:, 3] > 0], axis=1)
    model = (student or LinearStudent()).fit(inputs, labels, seed=0)
    model.save(folder / "student")
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
    form.write(folder)
    list_in_manifest(folder=folder)
    return folder


def list_in_manifest(folder: Path) -> None:
    """Writes a manifest of all files in a folder."""
    names = [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.*")
        if path.name != "manifest.json"
    ]
    Manifest.from_files(folder, names, remedy="none").write(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns the published folder of a linear student of the small table."""
    return write_bundle(folder=tmp_path / "release")


STUDENTS = (
    LinearStudent(),
    LogisticStudent(),
    LowRankStudent(),
    pytest.param(MLPStudent(epochs=3, threshold_each_label=True), marks=pytest.mark.slow),
)


@pytest.mark.parametrize("student", STUDENTS, ids=lambda student: type(student).__name__)
def test_every_student_predicts_the_same_after_it_is_read(tmp_path: Path, student: Student) -> None:
    """A student is published and loaded.

    Its probabilities and labels for the table are those of the trained student.
    """
    bundle = pate.load(write_bundle(folder=tmp_path / "release", student=student))
    inputs = TableSchema.fit(pa.table(TABLE)).inputs(TABLE)
    trained = student.fit(inputs, np.stack([inputs[:, 0] > 0.1, inputs[:, 3] > 0], axis=1), seed=0)
    assert np.array_equal(bundle.predict_proba(TABLE), trained.predict_proba(inputs))
    assert np.array_equal(bundle.predict(TABLE), trained.predict(inputs))
    thresholds = np.float32(bundle.form.threshold)
    assert thresholds.shape == ((2,) if getattr(student, "threshold_each_label", False) else ())
    assert np.array_equal(bundle.predict(TABLE), bundle.predict_proba(TABLE) >= thresholds)


def test_tables_arrays_and_frames_give_the_same(folder: Path) -> None:
    """A model predicts the same from a dict, a DataFrame in any order, an Arrow table, an array and a CSV file.

    A file with commas as decimals is read with its encoding.
    """
    pandas = pytest.importorskip("pandas")
    bundle = pate.load(folder)
    assert bundle.labels == LABELS
    assert bundle.feature_names == (
        "age",
        "age=missing",
        "sex=F",
        "sex=M",
        "sex=other",
        "sex=missing",
    )
    frame = pandas.DataFrame(TABLE)
    expected = bundle.predict_proba(TABLE)
    shuffled = frame[["sex", "age"]].assign(remark="x")
    category = frame.astype({"sex": "category"})
    for form in (shuffled, category, pa.table(TABLE), bundle.inputs(TABLE)):
        assert np.allclose(bundle.predict_proba(form), expected)
    assert bundle.predict_proba(frame[:0]).shape == (0, 2)
    frame.to_csv(folder.parent / "new.csv", index=False)
    assert np.allclose(bundle.predict_proba(folder.parent / "new.csv"), expected)
    (folder.parent / "comma.csv").write_bytes("m\u00fc;sex;age\n\u00fc;F;30,5\n".encode("latin-1"))
    for method in (bundle.inputs, bundle.predict_proba, bundle.predict):
        assert np.array_equal(
            method(folder.parent / "comma.csv", encoding="latin-1", decimal="comma"),
            method({"sex": ["F"], "age": [30.5]}),
        )
    with refused("data", value=ANY, rule="text in utf-8"):
        bundle.predict(folder.parent / "comma.csv", decimal="comma")


class ArrowStream:
    """A data frame of an unknown library, which has nothing but Arrow's PyCapsule interface."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


# pyarrow knows views from version 16 on
VIEWS = [pa.string_view()] if hasattr(pa, "string_view") else []


@pytest.mark.parametrize("cells", [pa.string(), pa.large_string(), *VIEWS], ids=str)
def test_frames_with_the_arrow_capsule_are_read(cells: Any, folder: Path) -> None:
    """A frame with the PyCapsule interface, for each Arrow type of text, gives the predictions of the table."""
    bundle = pate.load(folder)
    table = pa.table({"sex": pa.array(TABLE["sex"], cells), "age": TABLE["age"]})
    for frame in (ArrowStream(table), table.to_batches()[0], table.to_reader()):
        np.testing.assert_array_equal(bundle.predict(frame), bundle.predict(TABLE))


@pytest.mark.parametrize("words", [pa.string(), *VIEWS], ids=str)
def test_categories_with_the_arrow_capsule_are_words(words: Any, folder: Path) -> None:
    """A column of categories behind the PyCapsule interface is read as words.

    Categories of polars are dictionaries of string views.
    """
    bundle = pate.load(folder)
    categories = pa.array(TABLE["sex"]).dictionary_encode()
    categories = pa.DictionaryArray.from_arrays(
        categories.indices, categories.dictionary.cast(words)
    )
    table = pa.table({"sex": categories, "age": TABLE["age"]})
    np.testing.assert_array_equal(bundle.predict(ArrowStream(table)), bundle.predict(TABLE))


def test_advice_on_cells_of_a_frame_names_no_setting_for_files(folder: Path) -> None:
    bundle = pate.load(folder)
    wrong = {"sex": ["F"], "age": ["3,5"]}
    with refused("data.age", value=ANY, rule="numbers", hint="pandas.to_numeric") as caught:
        bundle.predict(wrong)
    assert "decimal" not in str(caught.value)
    (folder.parent / "new.csv").write_text('sex,age\nF,"3,5"\n')
    with refused("data.age", value=ANY, rule="numbers", hint="decimal=comma") as caught:
        bundle.predict(folder.parent / "new.csv")
    assert str(caught.value).endswith("decimal= are arguments, all are settings of pate-predict")


def test_a_single_column_with_the_arrow_capsule_is_no_frame(folder: Path) -> None:
    """A single column behind the PyCapsule interface is refused as data."""
    with refused("data", value="ArrowStream", rule="a DataFrame, or the name of a file"):
        pate.load(folder).predict(ArrowStream(pa.chunked_array([[1.0, 2.0]])))


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


def test_a_bundle_shows_its_labels_and_stated_price(folder: Path) -> None:
    """The repr of a model has its name, kind and labels, and the price with its unit, or that none is stated."""
    bundle = pate.load(folder)
    assert repr(bundle) == "<Bundle people: linear model of old, male; no price stated>"
    priced = replace(bundle, privacy=STATEMENT)
    price = "epsilon <= 0.9912 at delta = 1e-6 (replace_one, unit: one value of <mrn>, with all its rows)"
    assert repr(priced) == f"<Bundle people: linear model of old, male; {price}>"


def test_a_notebook_shows_the_same_escaped_and_without_assets(folder: Path) -> None:
    """The HTML of a model shows labels and price, with escaped text and neither scripts nor links.

    A seed and an infinite price are named.
    """
    shown = replace(pate.load(folder), privacy=STATEMENT)._repr_html_()
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
    seeded = replace(pate.load(folder), privacy=replace(STATEMENT, noise="seeded", epsilon=np.inf))
    assert "infinite: no guarantee" in seeded._repr_html_()
    assert "seed" in seeded._repr_html_()


def errors_of_predict(
    folder: Path, columns_of_table: Any, capsys: Any, id_column: str | None = None
) -> str:
    """Runs `pate-predict` on a table, and returns what it prints to standard error, without the last line.

    The predictions are in p.csv beside the folder.

    Args:
        folder: the published folder.
        columns_of_table: the columns of the table.
        capsys: the fixture that captures output.
        id_column: the column of ids, or None.
    """
    pa.csv.write_csv(pa.table(columns_of_table), folder.parent / "new.csv")
    config = {
        "release": str(folder),
        "data": str(folder.parent / "new.csv"),
        "id": id_column,
        "encoding": "utf-8",
    }
    predict(
        config=OmegaConf.create(
            config | {"output": str(folder.parent / "p.csv"), "decimal": "point"}
        )
    )
    return str(capsys.readouterr().err).rpartition("\n")[0].rpartition("\n")[0]


def test_records_unlike_the_public_file_are_reported(folder: Path, capsys: Any) -> None:
    """Unknown words and numbers far outside the public range give one warning for all batches.

    The library warns, and the command prints the same line. Usual records give no warning.
    """
    words = {"age": TABLE["age"] * 3, "sex": ["f", "m", "x", "x"] * 30}
    strange = [("data.sex: 120 cells, 120 with a word that the public file does not have", words)]
    for rows in (1, 50, 200):
        line = f"data.age: {rows} cells, {rows} outside the public range 20 to 60"
        strange.append((line, {"age": [40.0 * 365] * rows, "sex": ["F"] * rows}))
    bundle = pate.load(folder)
    for line, table in strange:
        for method in (bundle.predict, bundle.predict_proba):
            with pytest.warns(UnlikePublic, match=f"^{line}$"):
                method(table)
        assert (
            errors_of_predict(folder=folder, columns_of_table=table, capsys=capsys)
            == f"warning: {line}"
        )
    # where a warning is an error
    bundle.predict({"age": [20.0, None, 60.0], "sex": ["F", "M", ""]})


def test_mistakes_in_predictions_are_refused_in_one_line(folder: Path) -> None:
    """Missing columns, wrong types, shapes and files are refused with the name of the column."""
    bundle = pate.load(folder)
    for data, refusal in (
        ({"age": [1]}, refused("data", rule="also the column sex")),
        (
            {"agee": [1], "sex": ["F"]},
            refused("data", rule="did you mean agee"),
        ),
        (
            {"age": ["old"], "sex": ["F"]},
            refused("data.age", rule="public file"),
        ),
        (
            {"age": [1, 2], "sex": ["F"]},
            refused("data", rule="columns of"),
        ),
        (
            np.zeros((3, 5)),
            refused("data.shape", value=(3, 5)),
        ),
        (np.full((3, 6), np.nan), refused("inputs[0, 0]", rule="finite numbers")),
        (
            np.array([[1, "F"]], object),
            refused("data.dtype", value=ANY, rule="DataFrame with"),
        ),
        ("nowhere.csv", refused("data", value=ANY, rule="there and")),
        ([{"age": 1}], refused("data", value="list")),
    ):
        with refusal:
            bundle.predict(data)


def test_files_that_were_altered_are_not_used(folder: Path, tmp_path: Path) -> None:
    """A file of a published folder is changed or removed. Loading refuses it by its path."""
    for name in (SCHEMA, "student/student.json", "student/student.safetensors", "manifest.json"):
        copy = Path(shutil.copytree(folder, tmp_path / "copy"))
        content = (copy / name).read_bytes()
        (copy / name).write_bytes(content[:-3] + b"\n" + content[-3:])
        if name == "manifest.json":
            (copy / name).write_text("{}")
        with pytest.raises(
            InvalidValue, match=rf"^file=\S+{Path(name).name}: expected .*; copy the folder anew"
        ):
            Bundle.load(copy)
        (copy / name).unlink()
        with refused("file", value=ANY, rule="(it is"):
            Bundle.load(copy)
        shutil.rmtree(copy)


def test_a_schema_of_another_model_is_one_line(folder: Path) -> None:
    """A field of schema.json does not suit the model. Loading refuses the file."""
    schema = json.loads((folder / SCHEMA).read_text())
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
        (folder / SCHEMA).write_text(json.dumps(schema | {key: value}))
        list_in_manifest(folder=folder)
        with refused("file", value=ANY, rule="the schema of"):
            Bundle.load(folder)


def test_labels_and_ids_are_no_formulas_in_predictions(folder: Path, capsys: Any) -> None:
    """Labels and ids that a spreadsheet would run as formulas are quoted in p.csv. Numbers stay."""
    schema = json.loads((folder / SCHEMA).read_text())
    (folder / SCHEMA).write_text(json.dumps(schema | {"labels": ["=cmd|' /C calc'!A0", "@male"]}))
    list_in_manifest(folder=folder)
    table = {"age": [20.0, 40.0], "sex": ["F", "M"], "who": ["=1+1", "-7"]}
    errors_of_predict(folder=folder, columns_of_table=table, capsys=capsys, id_column="who")
    with (folder.parent / "p.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head[1::2] == ["'=cmd|' /C calc'!A0", "'@male"]
    assert [row[0] for row in rows] == ["'=1+1", "-7"]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """Installs a stand-in for the package huggingface_hub, with the interface that the upload uses."""
    package = MagicMock(CommitOperationAdd=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "huggingface_hub", package)
    return package.HfApi.return_value


def test_only_files_of_the_manifest_are_uploaded(folder: Path, hub: MagicMock) -> None:
    """A model is uploaded: exactly the files of its manifest are sent, without a foreign file beside.

    An altered folder, and a model without a folder, are refused.
    """
    (folder / "notes.txt").write_text("for nobody")
    model = pate.load(str(folder))
    hub.create_commit.return_value.commit_url = "https://there"
    assert model.push_to_hub("me/people", private=True) == "https://there"
    hub.create_repo.assert_called_once_with("me/people", private=True, exist_ok=True)
    (repo, operations), keywords = hub.create_commit.call_args
    assert (repo, keywords) == ("me/people", {"commit_message": "people: a model by pate"})
    sent = {operation.path_in_repo: operation.path_or_fileobj for operation in operations}
    published = ("manifest.json", SCHEMA, "student/student.json", "student/student.safetensors")
    assert sent == {name: (folder / name).read_bytes() for name in published}
    (folder / SCHEMA).write_text("{}")
    with refused("file", value=ANY, rule="was published (it"):
        model.push_to_hub("me/people")
    with refused("folder", value=None):
        Bundle(model.form, model.model).push_to_hub("me/people")


def test_no_file_outside_of_the_folder_is_uploaded(
    folder: Path, tmp_path: Path, hub: MagicMock
) -> None:
    """The manifest lists a file outside the folder, or a link to one. The upload is refused, and nothing is sent."""
    (tmp_path / "secret").write_text("secret")
    model = pate.load(folder)
    text = (folder / "manifest.json").read_text()
    for name in ("../secret", "/etc/hostname", "link"):
        if name == "link":
            (folder / "link").symlink_to(tmp_path / "secret")
        list_in_manifest = json.loads(text)
        list_in_manifest["sha256"][name] = hashlib.sha256(b"secret").hexdigest()
        (folder / "manifest.json").write_text(json.dumps(list_in_manifest))
        with pytest.raises(
            InvalidValue,
            match=r"^(manifest\.json=.*: expected files of its fold|release=.*no links)",
        ):
            model.push_to_hub("me/people")
    assert not hub.create_commit.called
