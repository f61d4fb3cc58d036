"""Runs on pictures, such as copies of CelebA, and on arrays publish models that predict labels by name."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import pate
from pate.data import CelebA
from pate.run.train import train
from scripts.synth_faces.face_copy import FaceCopy, split_sizes
from tests.e2e.commands import refused_command, rows_of, succeeded
from tests.e2e.small_run import small_plan

pytest.importorskip("pyarrow")
COLORS = {"red": 0, "green": 1}
SMALL = [
    "num_queries=60",
    "target_epsilon=100",
    "seed=0",
    "aggregator=gaussian_votes",
    "allow_useless=true",
    "all_records=false",
    "accountant=rdp",
]


def write_labeled_pictures(
    folder: Path, num_pictures: int, rng: np.random.Generator
) -> list[tuple[str, np.ndarray]]:
    """Writes random pictures to a folder, and returns the file name and the labels of each.

    The red channel is bright if the first label is true, the green one if the second is.
    """
    folder.mkdir(parents=True)
    pictures = []
    for number in range(num_pictures):
        labels = rng.random(2) < 0.5
        levels = rng.integers(low=0, high=60, size=(20, 24, 3), dtype=np.uint8)
        levels[..., :2] += (labels * 180).astype(np.uint8)
        Image.fromarray(levels).save(folder / f"{number}.png")
        pictures.append((f"{number}.png", labels))
    return pictures


def test_pictures_in_a_folder(tmp_path: Path) -> None:
    """A run on a folder of pictures, with labels in a CSV file, publishes a model of pictures.

    `pate-predict` finds over 90% of the labels of new pictures, agrees with the model that `pate.load` returns, and
    refuses a table in place of pictures.
    """
    rng = np.random.default_rng(0)
    pictures = write_labeled_pictures(folder=tmp_path / "pictures", num_pictures=500, rng=rng)
    splits = ["private"] * 360 + ["public"] * 90 + ["test"] * 50
    with (tmp_path / "labels.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "split", "red", "green"])
        rows.writerows(
            [name, split, *labels.astype(int)]
            for (name, labels), split in zip(pictures, splits, strict=True)
        )
    settings = [
        f"data.root={tmp_path / 'pictures'}",
        f"data.table={tmp_path}/labels.csv",
        "data.labels=[red,green]",
    ]
    student = [
        "student=cnn",
        "student.width=8",
        "student.epochs=4",
        "student.max_unlabeled=0",
        "student.device=cpu",
    ]
    teacher = [
        "teacher=linear",
        "teacher.num_teachers=12",
        "data.image_size=16",
        f"output_dir={tmp_path / 'run'}",
    ]
    succeeded("train", arguments=["data=image_folder", *settings, *student, *teacher, *SMALL])
    expected = dict(write_labeled_pictures(folder=tmp_path / "new", num_pictures=40, rng=rng))
    words = [
        f"data={tmp_path / 'new'}",
        f"output={tmp_path / 'p.csv'}",
        f"release={tmp_path / 'run/release'}",
    ]
    succeeded("predict", arguments=words)
    rows = rows_of(csv_path=tmp_path / "p.csv")
    right = [
        row[color] == str(int(expected[row["file"]][place]))
        for row in rows
        for color, place in COLORS.items()
    ]
    assert len(rows) == 40
    assert np.mean(right) > 0.9
    bundle = pate.load(tmp_path / "run/release")
    assert bundle.predict([tmp_path / "new" / row["file"] for row in rows]).astype(
        int
    ).tolist() == [[int(row[color]) for color in COLORS] for row in rows]
    line = refused_command("predict", arguments=[f"data={tmp_path / 'labels.csv'}", *words[1:]])
    assert line.endswith("or one picture: this model knows pictures, no table")
    with np.load(tmp_path / "run/release/release.npz") as release:
        assert all(name.endswith(".png") for name in release["record_ids"].tolist())


def test_arrays_in_files(tmp_path: Path) -> None:
    """A run on `.npz` files publishes a model with which `pate-predict` finds over 80% of the labels of a new array."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((6, 2))
    for split, count in (("private", 900), ("public", 90), ("test", 60), ("new", 30)):
        inputs = rng.standard_normal((count, 6)).astype(np.float32)
        np.savez(
            tmp_path / f"{split}.npz", inputs=inputs, labels=(inputs @ weights > 0).astype(int)
        )
    files = [f"data.{split}={tmp_path / split}.npz" for split in ("private", "public", "test")]
    words = ["teacher.num_teachers=15", f"output_dir={tmp_path / 'run'}", "data.labels=[up,down]"]
    succeeded("train", arguments=["data=arrays", *files, *words, *SMALL])
    with np.load(tmp_path / "new.npz") as new:
        np.save(tmp_path / "new.npy", new["inputs"])
        expected = new["labels"]
    words = [
        f"data={tmp_path / 'new.npy'}",
        f"output={tmp_path / 'p.csv'}",
        f"release={tmp_path / 'run/release'}",
    ]
    succeeded("predict", arguments=words)
    predicted = np.array(
        [[int(row["up"]), int(row["down"])] for row in rows_of(csv_path=tmp_path / "p.csv")]
    )
    assert (predicted == expected).mean() > 0.8


COUNT = 160
NUM_QUERIES = 15


def test_cartoons_run_and_the_report_says_that_they_are_synthetic(
    drawn_faces: Path, tmp_path: Path
) -> None:
    """The report of a run on drawn faces, in the format of CelebA, states 40 labels and that the data are synthetic."""
    data = CelebA(drawn_faces, image_size=12, limit=120)
    report = train(
        replace(small_plan(), load_dataset=data.load, num_queries=NUM_QUERIES),
        output_dir=tmp_path / "run",
    )
    assert (report.data.name, report.data.real, report.data.num_labels) == (
        "celeba",
        False,
        40,
    )
    assert "Synthetic data" in (tmp_path / "run" / "report.html").read_text()


def test_the_command_on_a_copy_as_it_is_found_in_the_wild(tmp_path: Path) -> None:
    """`pate-train` reads a copy of CelebA with CSV files, even if a photograph is missing, and prints one warning.

    The cache lies where `data.cache=` says, and no local path is published.
    """
    root = tmp_path / "private-place"
    cache = tmp_path / "private-cache"
    folder = tmp_path / "run"
    FaceCopy(count=COUNT, image_size=12, form="csv").write(root)
    (root / "synth_faces.json").unlink()  # as a genuine copy
    (root / "img_align_celeba" / "img_align_celeba" / "000007.jpg").unlink()
    arguments = [
        "data=celeba",
        f"data.root={root}",
        f"data.cache={cache}",
        "data.image_size=12",
        "seed=1",
        "teacher.num_teachers=8",
        f"num_queries={NUM_QUERIES}",
        "target_epsilon=200",
        "all_records=false",
        "accountant=rdp",
        "allow_useless=true",
        "features.num_filters=16",
        "features.patch_size=4",
        "features.num_patches=500",
    ]
    done = succeeded("train", arguments=[*arguments, f"output_dir={folder}"])
    (warning,) = [line for line in done.stderr.splitlines() if "missing" in line]
    assert "are missing; going on with what is there (data.missing=error refuses)" in warning
    assert "decoding photographs" in done.stderr
    data = json.loads((folder / "report.json").read_text())["data"]
    assert (data["name"], data["real"], data["num_private"]) == (
        "celeba",
        True,
        split_sizes(COUNT)[0] - 1,
    )
    published = b"".join(
        path.read_bytes() for path in (folder / "release").rglob("*") if path.is_file()
    )
    assert b"private-" not in published and str(tmp_path).encode() not in published
    assert not list(root.glob("pate_cache"))
