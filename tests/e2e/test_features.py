"""Whole runs whose teachers and students learn from features of pictures in place of pixels."""

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import pate
from pate.aggregators import CenteredVotes
from pate.features.featured_data import FeaturedData
from pate.files.manifest import Manifest
from pate.models import KernelTeacher, LowRankStudent
from pate.report import Report
from pate.run.plan import Plan
from pate.run.train import train
from pate.validation import InvalidValue
from tests.e2e.commands import refused_command, rows_of, succeeded
from tests.e2e.small_run import SilentMonitor, small_plan
from tests.unit.features.pictures import SMALL, ReaderOfDataset, dataset, drawn_pictures

pytestmark = pytest.mark.slow
Ended = tuple[Path, Report]
TERMS = ["num_queries=40", "all_records=false", "allow_useless=true", "accountant=rdp"]
PATCHES = [
    "features=patches",
    "features.num_filters=16",
    "features.patch_size=4",
    "features.num_patches=500",
]


@pytest.fixture
def faces(drawn_faces: Path) -> list[str]:
    """Returns settings to read drawn faces: 120 private, 50 public and 50 test ones."""
    return ["data=celeba", f"data.root={drawn_faces}", "data.limit=120", "data.image_size=12"]


def plan(cache: Path) -> Plan:
    """Returns the plan of a small run on features of pictures, with kernel teachers and a low-rank student.

    Args:
        cache: the folder where the features are cached.
    """
    return replace(
        small_plan(),
        load_dataset=FeaturedData(ReaderOfDataset(dataset()), features=SMALL, cache=cache).load,
        teacher=KernelTeacher(),
        num_teachers=None,
        aggregator=CenteredVotes(noise_multiplier=0.1),
        student=LowRankStudent(num_directions=16),
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Returns the folder and report of a finished run on features."""
    folder = tmp_path_factory.mktemp("features")
    return folder / "run", train(plan(cache=folder / "cache"), output_dir=folder / "run")


def test_report_card_and_schema_say_what_features_were_fitted_on(finished: Ended) -> None:
    """The report says that features were fitted on the public pool of 60 pictures.

    Cards and schema have the digests of these pictures and of the extractor, which computes the features. The privacy
    card says that no private record was used.
    """
    folder, report = finished
    description = report.data.features
    assert description == json.loads((folder / "report.json").read_text())["data"]["features"]
    assert description == Report.read(folder / "report.json").data.features
    assert (description["features"], description["fitted_on"], description["num_pictures"]) == (
        "patches",
        "the public pool",
        60,
    )
    for name in ("privacy_card.md", "README.md", "schema.json"):
        text = (folder / "release" / name).read_text()
        assert description["pictures_sha256"] in text and description["extractor_sha256"] in text
    assert "no private record" in (folder / "release" / "privacy_card.md").read_text()
    assert "extractor.safetensors" in Manifest.read(folder / "release", rule="", remedy="").sha256


def test_the_published_model_predicts_from_pixels_what_the_run_predicted(finished: Ended) -> None:
    """The published model predicts the same from pixels 0 to 255, from floats in [0, 1] and from images.

    The accuracy of the model is that of the report within 0.02.
    """
    folder, report = finished
    model = pate.load(folder / "release")
    data = dataset()
    levels = data.test.inputs.levels  # type: ignore[attr-defined]
    probabilities = model.predict_proba(levels)
    np.testing.assert_allclose(
        model.predict_proba(levels.astype(np.float32) / 255), probabilities, atol=1e-6
    )
    assert pate.load(folder / "release").predict_proba(levels).tobytes() == probabilities.tobytes()
    assert (model.predict(levels) == data.test.labels).mean() == pytest.approx(
        report.student.accuracy, abs=0.02
    )
    pil_images = [Image.fromarray(picture.transpose(1, 2, 0)) for picture in levels]
    assert model.predict_proba(pil_images).tobytes() == probabilities.tobytes()


def test_pate_predict_reads_pictures(finished: Ended, tmp_path: Path) -> None:
    """`pate-predict` writes the same predictions for twelve pictures in a folder as for an array of them."""
    folder, _ = finished
    levels, _ = drawn_pictures(count=12, seed=4)
    (tmp_path / "pictures").mkdir()
    for number, picture in enumerate(levels):
        Image.fromarray(picture.transpose(1, 2, 0)).save(
            tmp_path / "pictures" / f"{number:02d}.png"
        )
    np.save(tmp_path / "pictures.npy", levels)
    read = []
    for source in ("pictures", "pictures.npy"):
        settings = [
            f"data={tmp_path / source}",
            f"output={tmp_path / 'p.csv'}",
            f"release={folder / 'release'}",
        ]
        succeeded("predict", arguments=settings)
        read.append([list(row.values())[1:] for row in rows_of(csv_path=tmp_path / "p.csv")])
    assert read[0] == read[1] and len(read[0]) == 12


def test_an_extractor_that_was_altered_is_refused(finished: Ended, tmp_path: Path) -> None:
    """`pate.load` refuses a release if one bit of `extractor.safetensors` is inverted, even with a new manifest."""
    folder, _ = finished
    release_copy = shutil.copytree(folder / "release", tmp_path / "release")
    content = bytearray((release_copy / "extractor.safetensors").read_bytes())
    content[-3] ^= 1
    (release_copy / "extractor.safetensors").write_bytes(content)
    listed = Manifest.read(release_copy, rule="", remedy="").sha256
    for _ in range(2):
        with pytest.raises(InvalidValue, match=r"extractor\.safetensors"):
            pate.load(release_copy)
        # a new manifest does not help, as the schema names the extractor
        Manifest.from_files(release_copy, file_names=listed, missing_file_remedy="").write(
            release_copy
        )


def test_a_run_that_was_killed_ends_with_the_same_release(finished: Ended, tmp_path: Path) -> None:
    """A run on features that is killed at three stages and continued ends with the bytes of an uninterrupted run."""
    folder, _ = finished
    for stop_at in ("learning", "features of", "releasing"):
        monitor = SilentMonitor(stop_at=stop_at)
        reader = FeaturedData(ReaderOfDataset(dataset()), features=SMALL, cache=tmp_path / "cache")
        watched = replace(
            plan(cache=tmp_path / "cache"), load_dataset=partial(reader.load, monitor.stage)
        )
        with pytest.raises(KeyboardInterrupt):
            train(watched, output_dir=tmp_path / "run", monitor=monitor)
    train(plan(cache=tmp_path / "cache"), output_dir=tmp_path / "run")
    for name in (
        "release/release.npz",
        "release/extractor.safetensors",
        "release/student/student.safetensors",
    ):
        assert (tmp_path / "run" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("teacher", ["mlp", "sklearn"])
def test_the_command_gives_features_to_any_teacher(
    teacher: str, faces: list[str], tmp_path: Path
) -> None:
    """`pate-train features=patches` trains MLP and scikit-learn teachers on 49 features.

    The cache of the features lies beside the folder of the run.
    """
    price_settings = [
        "teacher.num_teachers=6",
        "target_epsilon=500",
        "seed=0",
        f"teacher={teacher}",
        "student=linear",
        "aggregator=gaussian_votes",
        *(["teacher.epochs=3"] if teacher == "mlp" else []),
    ]
    succeeded(
        "train",
        arguments=[*faces, *PATCHES, *TERMS, *price_settings, f"output_dir={tmp_path / 'run'}"],
    )
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["data"]["features"]["dimension"] == 49
    assert report["student"]["mean_average_precision"] > 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["features"]["num_filters"] == 16
    assert (tmp_path / "pate_cache").is_dir()


def test_a_comparison_gives_features_to_methods(faces: list[str], tmp_path: Path) -> None:
    """`pate-compare` with features of patches has rows of `centered_votes` and of `dp_gd`.

    More queries than public pictures are refused if `fewer_queries=false`.
    """
    settings = [
        "aggregators=[centered_votes]",
        "methods=[dp_gd]",
        "epsilons=[50]",
        "seeds=1",
        "num_workers=1",
    ]
    succeeded(
        "compare",
        arguments=[*faces, *PATCHES, *TERMS, *settings, f"output_dir={tmp_path / 'comparison'}"],
    )
    rows = rows_of(csv_path=tmp_path / "comparison" / "comparison.csv")
    assert {row["aggregator"] for row in rows if row["epsilon"]} == {"centered_votes", "dp_gd"}
    settings = [
        "aggregators=[centered_votes]",
        "num_queries=51",
        "fewer_queries=false",
        f"output_dir={tmp_path / 'none' / 'comparison'}",
    ]
    line = refused_command("compare", arguments=[*faces, "features=patches", *settings])
    assert "num_queries=51: expected at most 50, the public pool" in line
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        (
            ["num_queries=51", "fewer_queries=false", "teacher.num_teachers=6"],
            "num_queries=51: expected at most 50, the public pool",
        ),
        (["teacher=linear", "teacher.num_teachers=121"], "num_teachers=121: expected at most 120"),
        (
            ["teacher=cnn", "teacher.num_teachers=6"],
            "looks at: data of pictures with features=none, or a teacher of",
        ),
        (["teacher=linear", "teacher.num_teachers=6", "student=cnn"], "expected images"),
        (["features.patch_size=13"], "features.patch_size=13: expected at most 12"),
        (
            ["features=backbone", "features.weights=none.pth"],
            "features.weights=none.pth: expected a file of weights",
        ),
        (["features=backbone", "features.model=resnet19"], "features.model=resnet19: expected"),
        (["features=patch"], "features=patch: expected one of backbone, kernel, none, patches"),
        (["data=wordnet"], "features=patches: expected none: wordnet has no pictures"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_fitted(
    settings: list[str], refusal: str, faces: list[str], tmp_path: Path
) -> None:
    """A run on pictures refuses impossible settings in one line, before it writes a file."""
    price_settings = [
        "num_queries=40",
        "target_epsilon=500",
        "allow_useless=true",
        "aggregator=gaussian_votes",
    ]
    keys = {word.partition("=")[0] for word in settings}
    usual = [
        word
        for word in (*faces, "features=patches", *price_settings)
        if word.partition("=")[0] not in keys
    ]
    if "data=wordnet" in settings:
        usual = [word for word in usual if not word.startswith("data.")]
    stderr = refused_command(
        "train", arguments=[*usual, *settings, f"output_dir={tmp_path / 'run'}"]
    )
    (line,) = [line for line in stderr.splitlines() if "expected" in line]
    assert refusal in line
    assert not list(tmp_path.iterdir())
