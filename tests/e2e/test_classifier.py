"""`PATEClassifier` as it comes takes the route of `pate-train experiment=centered_votes`: equal seeds, equal bytes."""

from pathlib import Path

import numpy as np
import pytest

from pate import PATEClassifier
from tests.e2e.commands import succeeded
from tests.e2e.golden_runs import write_data

SEED = 7


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with private.npz, public.npz and test.npz; two records of each person follow each other."""
    folder = tmp_path_factory.mktemp("arrays")
    write_data(folder)
    first_group = 0
    for split in ("private", "public", "test"):
        arrays = dict(np.load(folder / f"{split}.npz"))
        arrays["groups"] = first_group + np.arange(len(arrays["inputs"])) // 2
        first_group += len(arrays["inputs"])
        np.savez(folder / f"{split}.npz", **arrays)
    return folder


@pytest.fixture(scope="module")
def released(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder `release/` of a run of `pate-train` on the arrays."""
    output = tmp_path_factory.mktemp("run") / "outputs"
    succeeded(
        "train",
        "data=arrays",
        *(f"data.{split}={data / split}.npz" for split in ("private", "public", "test")),
        "experiment=centered_votes",
        "target_epsilon=4.0",
        "target_delta=1e-5",
        f"seed={SEED}",
        "logger=none",
        "all_records=false",
        f"output_dir={output}",
    )
    return output / "release"


@pytest.mark.filterwarnings("ignore::pate.classifier.SeededNoise")
def test_the_default_fit_is_the_run_of_centered_votes(
    data: Path, released: Path, tmp_path: Path
) -> None:
    private = np.load(data / "private.npz")
    public = np.load(data / "public.npz")
    model = PATEClassifier(epsilon=4.0, target_delta=1e-5, random_state=SEED)
    model.fit(
        private["inputs"],
        private["labels"],
        X_public=public["inputs"],
        groups=private["groups"],
        groups_public=public["groups"],
    )
    model.student_.save(tmp_path / "release" / "student")
    for name in ("student.json", "student.safetensors"):
        file = Path("student", name)
        assert (tmp_path / "release" / file).read_bytes() == (released / file).read_bytes()
    run = np.load(released / "release.npz")
    for name, array in model.release_.arrays().items():
        np.testing.assert_array_equal(array, run[name])
