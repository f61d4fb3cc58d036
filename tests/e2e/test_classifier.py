"""With equal seeds, `PATEClassifier` publishes the release and student of `pate-train experiment=centered_votes`."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import pate
from pate import PATEClassifier
from pate.report import PrivacyStatement
from tests.e2e.commands import succeeded
from tests.e2e.golden_runs import write_data

SEED = 7
SPLITS = ("private", "public", "test")
pytestmark = pytest.mark.filterwarnings(
    "ignore::pate.classifier.SeededNoise", "ignore::pate.classifier.RepeatedRelease"
)


def run_of(data: Path, output: Path, settings: Sequence[str] = ()) -> Path:
    """Runs `pate-train` with a seed on arrays, and returns the folder `release/` of the run.

    Args:
        data: the folder of the arrays.
        output: the folder of the run.
        settings: further settings.
    """
    all_settings = [
        "data=arrays",
        *(f"data.{split}={data / split}.npz" for split in SPLITS),
        "experiment=centered_votes",
        "target_epsilon=4.0",
        "target_delta=1e-5",
        f"seed={SEED}",
        "logger=none",
        "all_records=false",
        f"output_dir={output}",
        *settings,
    ]
    succeeded("train", arguments=all_settings)
    return output / "release"


def fitted_to(arrays_folder: Path) -> PATEClassifier:
    """Returns a classifier that is fitted to the arrays in a folder, with the seed of `run_of`."""
    private = np.load(arrays_folder / "private.npz")
    public = np.load(arrays_folder / "public.npz")
    model = PATEClassifier(epsilon=4.0, target_delta=1e-5, random_state=SEED)
    return model.fit(
        private["inputs"],
        private["labels"],
        X_public=public["inputs"],
        groups=private.get("groups"),
        groups_public=public.get("groups"),
    )


def bytes_in(folder: Path) -> dict[str, bytes]:
    """Returns the content of each file in a folder, by its path within the folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_published_fit_is_the_release_of_a_run(tmp_path: Path) -> None:
    """A classifier's published folder has the same files, byte for byte, as the release of a run with the same seed."""
    write_data(tmp_path)
    release_folder = run_of(data=tmp_path, output=tmp_path / "run")
    fitted_to(arrays_folder=tmp_path).publish(tmp_path / "release")
    assert bytes_in(folder=tmp_path / "release") == bytes_in(release_folder)


def test_groups_give_the_release_and_student_of_a_run(tmp_path: Path) -> None:
    """With groups of two records, a fit publishes the same release and student as a run, to the last byte.

    Only cards, `privacy.json` and the manifest may differ. The first two name the unit of privacy in other words, and
    the manifest has their digests.
    """
    write_data(tmp_path)
    first_group = 0
    for split in SPLITS:
        arrays = dict(np.load(tmp_path / f"{split}.npz"))
        arrays["groups"] = first_group + np.arange(len(arrays["inputs"])) // 2
        first_group += len(arrays["inputs"])
        np.savez(tmp_path / f"{split}.npz", **arrays)
    released = bytes_in(run_of(data=tmp_path, output=tmp_path / "run"))
    fitted_to(arrays_folder=tmp_path).publish(tmp_path / "release")
    published = bytes_in(folder=tmp_path / "release")
    assert published.keys() == released.keys()
    cards = {"README.md", "privacy_card.md", "privacy.json", "manifest.json"}
    for name in published.keys() - cards:
        assert published[name] == released[name], name


def test_scores_of_a_fit_are_those_of_a_run(tmp_path: Path) -> None:
    """With equal seeds and `score_epsilon`, a fit publishes the same scores and files as a run, to the last byte."""
    write_data(tmp_path)
    release_folder = run_of(data=tmp_path, output=tmp_path / "run", settings=["score_epsilon=2.0"])
    private, public, test = (np.load(tmp_path / f"{split}.npz") for split in SPLITS)
    model = PATEClassifier(epsilon=4.0, target_delta=1e-5, random_state=SEED, score_epsilon=2.0)
    model.fit(
        private["inputs"],
        private["labels"],
        X_public=public["inputs"],
        X_test=test["inputs"],
        y_test=test["labels"],
    )
    model.publish(tmp_path / "release")
    statement = PrivacyStatement.read(release_folder, remedy="")
    assert statement.scores is not None and statement.scores == model.scores_
    assert bytes_in(folder=tmp_path / "release") == bytes_in(release_folder)


@pytest.mark.process
def test_a_published_fit_is_read_without_packages_of_training(tmp_path: Path) -> None:
    """`pate.load` reads a published fit in a process where torch, hydra and other packages of training are missing.

    The probabilities agree within 1e-6, and the stated epsilon is 4.
    """
    write_data(tmp_path)
    model = fitted_to(arrays_folder=tmp_path)
    model.publish(tmp_path / "release")
    inputs = np.load(tmp_path / "test.npz")["inputs"]
    np.savez(tmp_path / "expected.npz", inputs=inputs, probabilities=model.predict_proba(inputs))
    program = """
import sys

class Missing:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {"torch", "hydra", "omegaconf", "matplotlib", "tensorboard", "jinja2"}:
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
import numpy as np
import pate

expected = np.load("expected.npz")
bundle = pate.load("release")
assert np.abs(bundle.predict_proba(expected["inputs"]) - expected["probabilities"]).max() < 1e-6
print(bundle.privacy.epsilon)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("4.0\n", "")
    assert pate.load(tmp_path / "release").privacy == model.report()
