"""Users with CSV files alone come from tables to predictions by label name with the commands that are tested here."""

import csv
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import pate
from pate.extras import DISTRIBUTION, VERSION
from tests.e2e.commands import refused_command, rows_of, succeeded

pytest.importorskip("pyarrow")

LABELS = ("hypertension", "diabetes", "old")
CANARY = "Zanzibar"  # a town in private rows only


def visits(rng: random.Random, patient_number: int, towns: list[str]) -> Iterator[dict[str, Any]]:
    """Yields rows of one to three visits of a patient."""
    age = rng.randint(18, 95)
    sex = rng.choice(["M", "F", "", "unknown"])
    num_visits = rng.randint(1, 3)
    for _ in range(num_visits):
        pressure = rng.gauss(120 + age * 0.3, 12)
        sugar = rng.gauss(5.4 + (age > 60) * 0.6, 0.7)
        yield {
            "visit": f"v{patient_number}-{rng.randint(0, 10**9)}",
            "patient": f"p{patient_number:05}",
            "date": f"2025-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
            "age": age if rng.random() > 0.03 else "",
            "sex": sex,
            "town": rng.choice(towns),
            "pressure": f"{pressure:.0f}" if rng.random() > 0.08 else "",
            "hba1c": f"{sugar:.1f}" if rng.random() > 0.15 else "NA",
            "hypertension": int(pressure > 140),
            "diabetes": int(sugar > 6.2),
            "old": int(age > 70),
        }


@pytest.fixture(scope="module")
def tables_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the private, the public and the test file, and a file of new patients without labels."""
    folder = tmp_path_factory.mktemp("tables")
    rng = random.Random(0)
    numbers = {
        "private": range(2400),
        "public": range(2400, 2700),
        "test": range(2700, 2900),
        "new": range(2900, 2920),
    }
    for name, people in numbers.items():
        towns = ["Aachen", "Bonn", "K\u00f6ln", *([CANARY] if name == "private" else [])]
        rows = [row for number in people for row in visits(rng, patient_number=number, towns=towns)]
        if name == "new":
            rows = [{key: value for key, value in row.items() if key not in LABELS} for row in rows]
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return folder


def settings(tables_folder: Path) -> list[str]:
    """Returns the settings of `pate-train` for the tables in a folder."""
    files = [f"data.{name}={tables_folder / name}.csv" for name in ("private", "public", "test")]
    roles = [
        f"data.labels=[{','.join(LABELS)}]",
        "data.group=patient",
        "data.id=visit",
        "data.name=visits",
    ]
    terms = [
        "teacher.num_teachers=80",
        "num_queries=200",
        "aggregator=gaussian_votes",
        "target_epsilon=8",
        "seed=0",
    ]
    return ["data=table", *files, *roles, *terms, "all_records=false", "accountant=rdp"]


@pytest.fixture(scope="module")
def finished_folder(tables_folder: Path) -> Path:
    """Returns the folder of a finished run on the tables."""
    succeeded("train", arguments=[*settings(tables_folder), f"output_dir={tables_folder / 'run'}"])
    return tables_folder / "run"


def test_the_bundle_predicts_for_others_by_label_name(
    finished_folder: Path, tables_folder: Path, tmp_path: Path
) -> None:
    """`pate-predict` writes probabilities and labels of new patients, with a copy of the published folder alone.

    Probabilities and labels are those of the model that `pate.load` returns, in the order of the rows.
    """
    shutil.copytree(finished_folder / "release", tmp_path / "bundle")
    succeeded(
        "predict",
        arguments=[
            f"release={tmp_path / 'bundle'}",
            f"data={tables_folder / 'new.csv'}",
            f"output={tmp_path / 'p.csv'}",
            "id=visit",
        ],
    )
    rows = rows_of(csv_path=tmp_path / "p.csv")
    new = pytest.importorskip("pandas").read_csv(tables_folder / "new.csv")
    loaded_release = pate.load(tmp_path / "bundle")
    assert [row["visit"] for row in rows] == new["visit"].tolist()
    probabilities = [[float(row[f"{label}_probability"]) for label in LABELS] for row in rows]
    assert np.allclose(probabilities, loaded_release.predict_proba(new), atol=1e-5)
    labels = [[row[label] == "1" for label in LABELS] for row in rows]
    assert labels == loaded_release.predict(new).tolist()


def test_the_student_has_learned(finished_folder: Path) -> None:
    """The student beats the baseline `prior` by over 0.02 in accuracy and by over 0.2 in mean average precision.

    This baseline predicts from the frequencies of the labels alone.
    """
    report = json.loads((finished_folder / "report.json").read_text())
    student = report["student"]
    prior = report["baselines"]["prior"]
    assert student["accuracy"] > prior["accuracy"] + 0.02
    assert student["mean_average_precision"] > prior["mean_average_precision"] + 0.2


def test_published_files_hold_nothing_private(finished_folder: Path, tables_folder: Path) -> None:
    """No published file has the town of private rows only, the path or name of the private file, or a patient's id.

    The student's accuracy and mean average precision on true labels are in no published file, either.
    """
    student = json.loads((finished_folder / "report.json").read_text())["student"]
    scores = [f"{student[name]:.4f}" for name in ("accuracy", "mean_average_precision")]
    secrets = (CANARY, "private.csv", str(tables_folder), *scores)
    for path in (finished_folder / "release").rglob("*.*"):
        text = path.read_text(encoding="latin-1")
        assert [secret for secret in secrets if secret in text] == [], path
        assert re.search(r"\bp\d{5}\b", text) is None, f"{path} names a patient"


def test_the_card_of_the_model_names_its_columns(finished_folder: Path) -> None:
    """The model card begins with YAML for Hugging Face, and then lists the columns of the table."""
    _, front_matter, body = (
        (finished_folder / "release" / "README.md").read_text().split("---\n", 2)
    )
    assert "model.predict_proba(data)   # data is a DataFrame with the columns below\n" in body
    assert "-py3-none-any.whl[predict,cli]'" in body
    assert "import pate  # of the extras above, [predict] is enough here\n" in body
    card = yaml.safe_load(front_matter)
    assert card["pipeline_tag"] == "tabular-classification"
    (result,) = card["model-index"][0]["results"]
    assert all("covered by the epsilon" in metric["name"] for metric in result["metrics"])
    assert {"task", "dataset", "metrics"} <= result.keys()
    assert "| pressure | number |" in body


def test_using_a_bundle_loads_no_training(finished_folder: Path) -> None:
    """A process that predicts with the published model imports neither torch nor scikit-learn, nor pate's training."""
    row = {
        "date": ["2025-01-01"],
        "age": [50],
        "sex": ["F"],
        "town": [""],
        "pressure": [1],
        "hba1c": [1],
    }
    release = str(finished_folder / "release")
    code = f"import sys, pate; pate.load({release!r}).predict({row}); print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ended.stdout.split())
    assert "pate.bundle" in loaded
    assert not loaded & {
        "torch",
        "sklearn",
        "hydra",
        "matplotlib",
        "pate.teachers",
        "pate.pipeline",
    }
    assert not [name for name in loaded if name.startswith("pate.run.") and "bundle" not in name]


def test_mistakes_of_the_commands_are_one_line(
    finished_folder: Path, tables_folder: Path, tmp_path: Path
) -> None:
    """`pate-predict` refuses missing columns or files and forbidden outputs in one line, and writes no predictions."""
    (tmp_path / "new.csv").write_text(
        (tables_folder / "new.csv").read_text().replace("pressure", "presure")
    )
    release = f"release={finished_folder / 'release'}"
    output = f"output={tmp_path / 'p.csv'}"
    data = f"data={tmp_path / 'new.csv'}"
    published = f"output={finished_folder / 'release/p.csv'}"
    mistakes = (
        (
            [release, data, output],
            "data: expected also the column pressure (did you mean presure?)",
        ),
        (
            [release, output],
            "data=???: expected the file or files of the records, or the folder of the pictures",
        ),
        (
            ["release=nowhere", "data=x", output],
            "release=nowhere: expected the folder release/ of a finished run",
        ),
        ([release, "data=x.npy", output], "file=x.npy: expected an .npy file"),
        ([release, "datum=x", output], "datum: expected a key of the configuration"),
        (
            [release, data, f"output={tmp_path / 'new.csv'}"],
            "output={}: expected another file than data=, which",
        ),
        ([release, data, published], "output={}: expected a file outside the folder of the model"),
    )
    for words, line in mistakes:
        message = refused_command("predict", arguments=words)
        assert message.startswith(line.format(words[-1].partition("=")[2]))
        assert "\n" not in message
    assert not (tmp_path / "p.csv").exists()


def test_a_schema_is_written_once_without_private_words(
    tables_folder: Path, tmp_path: Path
) -> None:
    """`pate-schema` writes the kinds of the public columns, and not the town of private rows only.

    The command refuses to overwrite the file.
    """
    output = tmp_path / "schema.yaml"
    words = [
        f"data={tables_folder / 'public.csv'}",
        f"labels=[{','.join(LABELS)}]",
        "group=patient",
        "id=visit",
    ]
    succeeded("schema", arguments=[*words, f"output={output}"])
    kinds = {
        name: column["kind"]
        for name, column in yaml.safe_load(output.read_text())["columns"].items()
    }
    numbers = dict.fromkeys(("age", "pressure", "hba1c"), "number")
    assert kinds == numbers | {"date": "date", "sex": "category", "town": "category"}
    assert CANARY not in output.read_text()
    assert refused_command("schema", arguments=[*words, f"output={output}"]).startswith(
        f"output={output}: expected the name of a new file"
    )


def test_a_schema_with_free_text_is_written_anew_before_a_run(tmp_path: Path) -> None:
    """`pate-schema` gives a column of free text no features, and prints how to write a schema in which it has some.

    After that second schema it prints the command of the run.
    """
    rows = [f"{age % 2},{age},word{age} is another note {age * 7}" for age in range(400)]
    (tmp_path / "all.csv").write_text("\n".join(["flu,age,note", *rows]) + "\n")
    words = ["data=all.csv", "output=schema.yaml", "labels=[flu]"]
    page = succeeded("schema", arguments=[*words, "split=.4,.1"], cwd=tmp_path).stdout
    assert "'text=[note]'" in page
    assert "note has no features" in page
    assert "remove schema.yaml" in page
    assert "data=public.csv in place of data= and split=" in page
    assert "pate-train" not in page
    words = ["data=public.csv", "output=NEW.yaml", "labels=[flu]", "text=[note]"]
    page = succeeded("schema", arguments=words, cwd=tmp_path).stdout
    assert "pate-train data=table data.schema=NEW.yaml" in page


def test_the_page_is_followed_literally(
    tables_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of from-a-table-to-a-model.md succeed in their order, and so does its Python.

    Command and Python predict the same, and the ONNX file is written.
    """
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("onnx")
    for name in ("private", "public", "test", "new"):
        pandas.read_csv(tables_folder / f"{name}.csv").drop(columns="visit").to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    page = (Path(__file__).parents[2] / "docs/how-to/from-a-table-to-a-model.md").read_text(
        encoding="utf-8"
    )
    block = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[0].replace("\\\n", " ")
    commands = [shlex.split(line) for line in block.splitlines()]
    assert len(commands) == 5
    for program, *words in commands:
        if program == "pip":
            assert words == [
                "install",
                f"dist/{DISTRIBUTION.replace('-', '_')}-{VERSION}-py3-none-any.whl[table]",
            ]
        elif program == "cp":
            subprocess.run([program, *words], cwd=tmp_path, check=True)
        else:
            succeeded(program.removeprefix("pate-"), arguments=words, cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}  # that the page's Python binds
    exec(re.findall(r"```py\n(.*?)```", page, re.DOTALL)[0], names)
    predictions = pandas.read_csv("predictions.csv")
    assert (
        predictions[list(names["model"].labels)].to_numpy().tolist()
        == names["labels"].astype(int).tolist()
    )
    assert (tmp_path / "model.onnx").exists()


MIXED_TEACHER_YAML = """
_target_: pate.teachers.SklearnTeacher
frames: true
estimator:
  _target_: sklearn.pipeline.Pipeline
  steps: [[columns, {_target_: sklearn.compose.ColumnTransformer, transformers: [
    [numbers, {_target_: sklearn.pipeline.Pipeline, steps: [
      [fill, {_target_: sklearn.impute.SimpleImputer, strategy: median}],
      [scale, {_target_: sklearn.preprocessing.StandardScaler}]]}, [age, pressure, hba1c]],
    [words, {_target_: sklearn.preprocessing.OneHotEncoder, handle_unknown: ignore}, [sex, town]]]}],
    [model, {_target_: sklearn.linear_model.LogisticRegression}]]
"""


@pytest.mark.slow
def test_a_teacher_of_scikit_learn_is_given_the_columns(
    tables_folder: Path, tmp_path: Path
) -> None:
    """With `frames=true`, a scikit-learn pipeline as teacher gets the columns of the table by name.

    The student has a higher accuracy than the baseline `prior`, which predicts from the frequencies of labels.
    """
    (tmp_path / "conf" / "teacher").mkdir(parents=True)
    (tmp_path / "conf" / "teacher" / "mixed.yaml").write_text(MIXED_TEACHER_YAML)
    chosen = [
        f"--config-dir={tmp_path / 'conf'}",
        "teacher=mixed",
        "teacher.num_teachers=30",
        "target_epsilon=20",
    ]
    succeeded(
        "train", arguments=[*settings(tables_folder), *chosen, f"output_dir={tmp_path / 'run'}"]
    )
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["student"]["accuracy"] > report["baselines"]["prior"]["accuracy"] + 0.02


def test_an_estimator_that_takes_no_words_is_refused_before_training(
    tables_folder: Path, tmp_path: Path
) -> None:
    """With `frames=true`, an estimator that cannot read words is refused before training.

    So are data that are not a table.
    """
    words = [
        *settings(tables_folder),
        "teacher=sklearn",
        "teacher.frames=true",
        f"output_dir={tmp_path / 'run'}",
    ]
    line = "teacher.estimator=LogisticRegression: expected one that takes the columns of the table, such as a pipeline"
    assert refused_command("train", arguments=words).splitlines()[-1].startswith(line)
    assert not (tmp_path / "run" / "teachers").exists()
    other = refused_command(
        "train",
        arguments=["teacher=sklearn", "teacher.frames=true", f"output_dir={tmp_path / 'other'}"],
    )
    assert other.endswith(
        "teacher.frames=true: expected data=table, whose columns have names and kinds"
    )


@pytest.mark.slow
def test_public_records_without_labels_measure_nothing(
    finished_folder: Path, tables_folder: Path, tmp_path: Path
) -> None:
    """Without labels of public records, a run releases the same labels of its queries as with them.

    Scores that need public labels are null in the report, and a printed line says so. A comparison is refused.
    """
    frame = pytest.importorskip("pandas").read_csv(tables_folder / "public.csv")
    frame.drop(columns=list(LABELS)).to_csv(tmp_path / "public.csv", index=False)
    words = [
        *settings(tables_folder),
        f"data.public={tmp_path / 'public.csv'}",
        f"output_dir={tmp_path / 'run'}",
    ]
    line = "data: the public records have no labels, so how right teachers and release are is not measured"
    assert line in succeeded("train", arguments=words).stderr
    name = "release/release.npz"
    with np.load(tmp_path / "run" / name) as release, np.load(finished_folder / name) as usual:
        assert np.array_equal(release["labels"], usual["labels"])
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["release"]["label_accuracy"] is None
    assert report["teachers"]["mean_accuracy"] is None
    assert report["baselines"]["true_label_student"] is None
    assert report["student"]["accuracy"] > report["baselines"]["prior"]["accuracy"] + 0.02
    data_settings = [word for word in words if word.startswith("data")]
    line = refused_command(
        "compare",
        arguments=[*data_settings, "aggregators=[gaussian_votes]", "all_records=false"],
    )
    assert line.splitlines()[-1].startswith("all_records=False: expected true: the public records")


def published_bytes_of_run(folder: Path) -> dict[str, bytes]:
    """Returns the content of each published file of a run, by relative path."""
    release_folder = folder / "release"
    files = [path for path in release_folder.rglob("*") if path.is_file()]
    return {path.relative_to(release_folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.slow
def test_a_folder_of_files_leaves_the_release_of_one_file(
    finished_folder: Path, tables_folder: Path, tmp_path: Path
) -> None:
    """Private rows in three files give the same published bytes and the same account as in one file.

    If a file is added, the finished run is refused.
    """
    lines = (tables_folder / "private.csv").read_text().splitlines(keepends=True)
    (tmp_path / "many").mkdir()
    for part, (first, last) in enumerate(((1, 1000), (1000, 2500), (2500, None))):
        content = "".join([lines[0], *lines[first:last]])
        (tmp_path / "many" / f"part-{part}.csv").write_text(content)
    arguments = [
        *settings(tables_folder),
        f"data.private={tmp_path}/many/part-*.csv",
        f"output_dir={tmp_path / 'run'}",
    ]
    succeeded("train", arguments=arguments)
    assert published_bytes_of_run(tmp_path / "run") == published_bytes_of_run(finished_folder)
    private_digest = (tmp_path / "run" / "private.sha256").read_text()
    assert private_digest == (finished_folder / "private.sha256").read_text()
    assert "this run is finished" in succeeded("train", arguments=arguments).stderr
    extra = "".join([lines[0], lines[-1].replace("p02399", "p99999").replace("v2399", "v99999")])
    (tmp_path / "many" / "part-3.csv").write_text(extra)
    line = refused_command("train", arguments=arguments).splitlines()[-1]
    assert line.startswith(f"data.private={tmp_path}/many/part-*.csv: expected the data that this")
