"""Examples run and print the figures that they are about."""

import csv
import gzip
import importlib
import json
import re
import runpy
import shlex
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from PIL import Image
from sklearn.linear_model import RidgeClassifier

from pate import PATEClassifier
from pate.aggregators import GaussianVotes
from pate.classifier import SeededNoise
from pate.config import CONFIG_FOLDER, register_configs
from pate.config.build import part_maker
from tests.e2e.commands import Arguments, succeeded

EXAMPLES = Path(__file__).parents[2] / "examples"
OWN_RUN = EXAMPLES / "own_run"
PRINTED = {
    "aggregate_votes": r"batches: \d+ of 150 answered at epsilon 8.00\ntensor: .*\(6,\)\neach teacher: 150 of 150",
    "classifier": (
        r"epsilon 2\.00, published: \d+% .*\nepsilon [78]\.\d\d, .*replace_one.*\n"
        r"the best costs epsilon [24].00, .* [5-9]\.\d\d"
    ),
    "custom_aggregator": r"noise \d+\.\d, \d+% of the labels",
    "hand_to_dp_accounting": r"SelfComposedDpEvent\nhere 3\.1\d+, .* 3\.7\d+\nwith the histogram 3",
    "price_a_release": r"StableTopK: epsilon 2\.\d+\nGaussians by rdp: .*\nGaussians by exact: .*\nfor epsilon 2: ",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_an_example_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An example runs as a script, and prints what its pattern in `PRINTED` describes."""
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert re.match(PRINTED[name], capsys.readouterr().out)


def test_every_example_is_run_and_listed() -> None:
    """Each example has a test here, and is listed in examples/README.md."""
    names = {*PRINTED, "chexpert", "yeast"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == names
    listed = (EXAMPLES / "README.md").read_text()
    assert all(f"`{name}.py`" in listed for name in names)


@pytest.mark.slow
def test_yeast_is_written_as_a_table_that_the_printed_command_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example yeast.py turns a packed CSV file into tables, and prints a command.

    The settings of this command load 100 private, 400 public and 400 test records.
    """
    pytest.importorskip("pyarrow")
    genes = [f"{row / 4096},{-row / 4096},{row % 2},{row % 3 % 2}" for row in range(900)]
    content = "\n".join(["Att1,Att2,Class1,Class2", *genes]) + "\n"
    file = tmp_path / "yeast.csv.gz"
    file.write_bytes(gzip.compress(content.encode()))
    monkeypatch.setattr(sys, "argv", ["yeast", str(tmp_path / "data"), "--file", str(file)])
    runpy.run_path(str(EXAMPLES / "yeast.py"), run_name="__main__")
    command, *settings = shlex.split(capsys.readouterr().out)
    assert command == "pate-train"
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        data = part_maker(compose("train", settings))("data").load()
    splits = (data.private, data.public, data.test)
    assert [len(split) for split in splits] == [100, 400, 400]
    assert data.label_names == ("Class1", "Class2")
    assert sum(int(split.labels[:, 0].sum()) for split in splits) == 450


FINDINGS = ("No Finding", "Edema", "Pleural Effusion")


def draw_chexpert(folder: Path, rng: np.random.Generator) -> None:
    """Writes made-up pictures in the layout of CheXpert: two views of each of 80 patients, 20 of them to validate.

    All of a picture is brighter if the patient has an edema, and its left half if there is an effusion. Some labels of
    the 60 patients are uncertain (-1.0) or empty.
    """
    for split, patients in {"train": range(60), "valid": range(60, 80)}.items():
        lines = ["Path,Sex,Age,Frontal/Lateral,AP/PA," + ",".join(FINDINGS)]
        for patient in patients:
            edema, effusion = rng.random(2) < 0.5
            for view in ("view1_frontal", "view2_lateral"):
                name = f"{split}/patient{patient:05}/study1/{view}.jpg"
                levels = rng.integers(0, 40, (24, 24), dtype=np.uint8) + np.uint8(100 * edema)
                levels[:, :12] += np.uint8(100 * effusion)
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(levels).save(path)
                cells = [f"{float(bit)}" for bit in (not (edema or effusion), edema, effusion)]
                if split == "train":
                    cells = [rng.choice([cell, cell, cell, "-1.0", ""]) for cell in cells]
                lines.append(f"{folder.name}/{name},Male,50,Frontal,AP," + ",".join(cells))
        (folder / f"{split}.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
@pytest.mark.parametrize("blank", ["no", "unknown"])
def test_a_folder_as_of_chexpert_is_trained_on_by_the_printed_command(
    blank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that chexpert.py prints trains on its table, with patients as the unit and a macro AUROC.

    Uncertain labels are unknown, and empty ones 0 or unknown. No patient is in two splits.
    """
    pytest.importorskip("pyarrow")
    folder = tmp_path / "CheXpert-v1.0-small"
    draw_chexpert(folder, np.random.default_rng(0))
    arguments = [str(folder), str(tmp_path / "chexpert.csv"), "--findings", *FINDINGS]
    arguments += ["--public-share", "0.25", "--blank", blank]
    monkeypatch.setattr(sys, "argv", ["chexpert", *arguments])
    runpy.run_path(str(EXAMPLES / "chexpert.py"), run_name="__main__")
    command, *settings = shlex.split(capsys.readouterr().out)
    assert command == "pate-train"
    with (tmp_path / "chexpert.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    cells = {row[name] for row in rows for name in FINDINGS}
    assert cells == {"1", "0", "-1"} | ({""} if blank == "unknown" else set())
    splits_of = defaultdict(set)
    for row in rows:
        splits_of[row["patient"]].add(row["split"])
    assert sorted(Counter(min(splits) for splits in splits_of.values()).items()) == [
        ("private", 45),
        ("public", 15),
        ("test", 20),
    ]
    assert all(len(splits) == 1 for splits in splits_of.values())
    settings += ["data.image_size=16", f"output_dir={tmp_path / 'run'}", "target_epsilon=200"]
    succeeded("train", arguments=[*settings, "allow_useless=true", "seed=0"])
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["data"]["num_groups"] == 45
    assert report["data"]["known_labels"]["private"] < 1.0
    assert report["macro_auroc"]["student"] > 0.7 > 0.5 == report["macro_auroc"]["best_constant"]
    assert "patient" in report["privacy"]["unit"]


def own_run(folder: Path, arguments: Arguments = ()) -> tuple[np.lib.npyio.NpzFile, str]:
    """Runs the example into a folder; returns its release and its printed output."""
    options = ["--config-dir", str(OWN_RUN / "conf"), "experiment=own_run", f"output_dir={folder}"]
    small = ["allowed_targets=[blobs.]", "all_records=false"]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OWN_RUN))
        printed = succeeded("train", arguments=[*options, *small, *arguments]).stdout
    return np.load(folder / "release" / "release.npz"), printed


@pytest.mark.slow
def test_own_data_and_teacher_run_by_configuration(tmp_path: Path) -> None:
    """The example of an own run releases 200 queries with 4 labels, and prints the name of its data."""
    released, printed = own_run(folder=tmp_path / "run")
    assert released["labels"].shape == (200, 4)
    assert "blobs (synthetic)" in printed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.DoubtfulPlan")
def test_the_classifier_releases_what_the_command_releases(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`PATEClassifier` and `pate-train` with the same data, estimator, aggregator and seed release the same."""
    estimator = ["teacher=sklearn", "teacher.num_teachers=25"]
    estimator += ["teacher.estimator._target_=sklearn.linear_model.RidgeClassifier"]
    released, _ = own_run(folder=tmp_path / "run", arguments=[*estimator, "seed=7"])
    monkeypatch.syspath_prepend(str(OWN_RUN))
    data = importlib.import_module("blobs").Blobs().load()
    model = PATEClassifier(RidgeClassifier(), n_teachers=25, n_queries=200, random_state=7)
    with pytest.warns(SeededNoise):
        model.fit(data.private.inputs, data.private.labels, data.public.inputs)
    assert isinstance(model.aggregator_, GaussianVotes)
    np.testing.assert_array_equal(model.release_.labels, released["labels"])
    np.testing.assert_array_equal(model.release_.answered, released["answered"])
    noiseless = data.public.labels[:200]
    assert (model.release_.labels != noiseless).any()  # both drew the same noise
