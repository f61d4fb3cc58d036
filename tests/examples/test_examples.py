"""Each example of the repository runs as a script and prints what it is expected to print."""

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

EXAMPLES_FOLDER = Path(__file__).parents[2] / "examples"
OWN_RUN_FOLDER = EXAMPLES_FOLDER / "own_run"
# The pattern of the text that each example prints.
OUTPUT_PATTERNS = {
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
@pytest.mark.parametrize("name", OUTPUT_PATTERNS)
def test_an_example_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An example runs as a script, and prints what its pattern in `OUTPUT_PATTERNS` describes."""
    runpy.run_path(str(EXAMPLES_FOLDER / f"{name}.py"), run_name="__main__")
    assert re.match(OUTPUT_PATTERNS[name], capsys.readouterr().out)


def test_every_example_is_run_and_listed() -> None:
    """Each example has a test here, and is listed in examples/README.md."""
    example_names = {*OUTPUT_PATTERNS, "chexpert", "yeast"}
    assert {path.stem for path in EXAMPLES_FOLDER.glob("*.py")} == example_names
    readme = (EXAMPLES_FOLDER / "README.md").read_text()
    assert all(f"`{name}.py`" in readme for name in example_names)


@pytest.mark.slow
def test_yeast_is_written_as_a_table_that_the_printed_command_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that yeast.py prints reads the tables that yeast.py made from a compressed CSV file.

    The settings of the command load 100 private, 400 public and 400 test records.
    """
    pytest.importorskip("pyarrow")
    genes = [f"{row / 4096},{-row / 4096},{row % 2},{row % 3 % 2}" for row in range(900)]
    csv_text = "\n".join(["Att1,Att2,Class1,Class2", *genes]) + "\n"
    gzipped_file = tmp_path / "yeast.csv.gz"
    gzipped_file.write_bytes(gzip.compress(csv_text.encode()))
    monkeypatch.setattr(sys, "argv", ["yeast", str(tmp_path / "data"), "--file", str(gzipped_file)])
    runpy.run_path(str(EXAMPLES_FOLDER / "yeast.py"), run_name="__main__")
    command, *settings = shlex.split(capsys.readouterr().out)
    assert command == "pate-train"
    register_configs()
    with initialize_config_dir(config_dir=str(CONFIG_FOLDER), version_base="1.3"):
        make_part = part_maker(compose(config_name="train", overrides=settings))
        dataset = make_part("data").load()
    splits = (dataset.private, dataset.public, dataset.test)
    assert [len(split) for split in splits] == [100, 400, 400]
    assert dataset.label_names == ("Class1", "Class2")
    assert sum(int(split.labels[:, 0].sum()) for split in splits) == 450


# The findings of CheXpert that are labels here.
FINDINGS = ("No Finding", "Edema", "Pleural Effusion")


def draw_chexpert(data_folder: Path, rng: np.random.Generator) -> None:
    """Draws made-up pictures in the layout of CheXpert: two views of each of 80 patients, 20 of them for validation.

    A picture is brighter if the patient has an edema, and its left half is brighter if there is an effusion. Some
    labels of the 60 other patients are uncertain (-1.0) or empty.
    """
    for split, patients in {"train": range(60), "valid": range(60, 80)}.items():
        lines = ["Path,Sex,Age,Frontal/Lateral,AP/PA," + ",".join(FINDINGS)]
        for patient in patients:
            has_edema, has_effusion = rng.random(2) < 0.5
            for view in ("view1_frontal", "view2_lateral"):
                picture_name = f"{split}/patient{patient:05}/study1/{view}.jpg"
                gray_levels = rng.integers(low=0, high=40, size=(24, 24), dtype=np.uint8)
                gray_levels += np.uint8(100 * has_edema)
                gray_levels[:, :12] += np.uint8(100 * has_effusion)
                picture_path = data_folder / picture_name
                picture_path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(gray_levels).save(picture_path)
                cells = [
                    f"{float(bit)}"
                    for bit in (not (has_edema or has_effusion), has_edema, has_effusion)
                ]
                if split == "train":
                    cells = [rng.choice([cell, cell, cell, "-1.0", ""]) for cell in cells]
                lines.append(
                    f"{data_folder.name}/{picture_name},Male,50,Frontal,AP," + ",".join(cells)
                )
        (data_folder / f"{split}.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
@pytest.mark.parametrize("blank_label", ["no", "unknown"])
def test_a_folder_as_of_chexpert_is_trained_on_by_the_printed_command(
    blank_label: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command that chexpert.py prints trains on its table, with patients as the unit, and reports an AUROC.

    Uncertain labels are unknown, and empty ones 0 or unknown. No patient is in two splits.
    """
    pytest.importorskip("pyarrow")
    data_folder = tmp_path / "CheXpert-v1.0-small"
    draw_chexpert(data_folder, rng=np.random.default_rng(0))
    arguments = [
        str(data_folder),
        str(tmp_path / "chexpert.csv"),
        "--findings",
        *FINDINGS,
        "--public-share",
        "0.25",
        "--blank",
        blank_label,
    ]
    monkeypatch.setattr(sys, "argv", ["chexpert", *arguments])
    runpy.run_path(str(EXAMPLES_FOLDER / "chexpert.py"), run_name="__main__")
    command, *settings = shlex.split(capsys.readouterr().out)
    assert command == "pate-train"
    with (tmp_path / "chexpert.csv").open() as csv_file:
        rows = list(csv.DictReader(csv_file))
    cells = {row[name] for row in rows for name in FINDINGS}
    assert cells == {"1", "0", "-1"} | ({""} if blank_label == "unknown" else set())
    splits_by_patient = defaultdict(set)
    for row in rows:
        splits_by_patient[row["patient"]].add(row["split"])
    assert sorted(Counter(min(splits) for splits in splits_by_patient.values()).items()) == [
        ("private", 45),
        ("public", 15),
        ("test", 20),
    ]
    assert all(len(splits) == 1 for splits in splits_by_patient.values())
    # The 30 small public pictures have few patches that differ.
    settings += ["data.image_size=16", "features.num_patches=10000", "target_epsilon=200"]
    settings.append(f"output_dir={tmp_path / 'run'}")
    succeeded("train", arguments=[*settings, "allow_useless=true", "seed=0"])
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["data"]["num_groups"] == 45
    assert report["data"]["known_labels"]["private"] < 1.0
    assert report["macro_auroc"]["student"] > 0.7 > 0.5 == report["macro_auroc"]["best_constant"]
    assert "patient" in report["privacy"]["unit"]


def train_own_run(
    output_folder: Path, arguments: Arguments = ()
) -> tuple[np.lib.npyio.NpzFile, str]:
    """Runs `pate-train` on the example own_run, and returns the arrays of its release and its printed output."""
    options = [
        "--config-dir",
        str(OWN_RUN_FOLDER / "conf"),
        "experiment=own_run",
        f"output_dir={output_folder}",
        "allowed_targets=[blobs.]",
        "all_records=false",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OWN_RUN_FOLDER))
        printed = succeeded("train", arguments=[*options, *arguments]).stdout
    return np.load(output_folder / "release" / "release.npz"), printed


@pytest.mark.slow
def test_own_data_and_teacher_run_by_configuration(tmp_path: Path) -> None:
    """The example own_run releases 200 queries with 4 labels, and prints the name of its data."""
    released, printed = train_own_run(output_folder=tmp_path / "run")
    assert released["labels"].shape == (200, 4)
    assert "blobs (synthetic)" in printed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.DoubtfulPlan")
def test_the_classifier_releases_what_the_command_releases(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`PATEClassifier` and `pate-train` with the same data, estimator, aggregator and seed release the same."""
    teacher_settings = [
        "teacher=sklearn",
        "teacher.num_teachers=25",
        "teacher.estimator._target_=sklearn.linear_model.RidgeClassifier",
    ]
    released, _ = train_own_run(
        output_folder=tmp_path / "run", arguments=[*teacher_settings, "seed=7"]
    )
    monkeypatch.syspath_prepend(str(OWN_RUN_FOLDER))
    dataset = importlib.import_module("blobs").Blobs().load()
    model = PATEClassifier(
        estimator=RidgeClassifier(), n_teachers=25, n_queries=200, random_state=7
    )
    with pytest.warns(SeededNoise):
        model.fit(dataset.private.inputs, dataset.private.labels, X_public=dataset.public.inputs)
    assert isinstance(model.aggregator_, GaussianVotes)
    np.testing.assert_array_equal(model.release_.labels, released["labels"])
    np.testing.assert_array_equal(model.release_.answered, released["answered"])
    # Both drew noise, the same, since the released labels are not the true ones.
    true_labels = dataset.public.labels[:200]
    assert (model.release_.labels != true_labels).any()
