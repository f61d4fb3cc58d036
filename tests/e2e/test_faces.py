"""Whole runs on images: cartoon faces, and a copy of CelebA as it is found in the wild."""

import json
from pathlib import Path

from pate.data import FaceCopy, SynthFaces
from pate.data.dataset import unwatched
from pate.data.synth_faces import split_sizes
from pate.pipeline import train
from tests.e2e.commands import succeeded
from tests.e2e.small_run import SilentMonitor, small_plan

COUNT = 160
NUM_QUERIES = 15


def test_cartoons_run_and_the_report_says_that_they_are_synthetic(tmp_path: Path) -> None:
    data = SynthFaces(num_private=120, num_public=NUM_QUERIES, num_test=40, image_size=12)
    report = train(small_plan(load_dataset=data.load, num_queries=NUM_QUERIES), tmp_path / "run", SilentMonitor())
    assert (report.data.name, report.data.real, report.data.num_labels) == ("synth_faces", False, 40)
    assert "Synthetic data" in (tmp_path / "run" / "report.html").read_text()


def test_the_command_on_a_copy_as_it_is_found_in_the_wild(tmp_path: Path) -> None:
    """The CSV form, a photograph missing, no identities, and a cache elsewhere."""
    root, cache, folder = tmp_path / "private-place", tmp_path / "private-cache", tmp_path / "run"
    FaceCopy(count=COUNT, image_size=12, form="csv").write(root, unwatched)
    (root / "synth_faces.json").unlink()  # as a genuine copy
    (root / "img_align_celeba" / "img_align_celeba" / "000007.jpg").unlink()
    arguments = ["data=celeba", f"data.root={root}", f"data.cache={cache}", "data.image_size=12", "seed=1"]
    arguments += ["teacher.num_teachers=8", f"num_queries={NUM_QUERIES}", "target_epsilon=200"]
    arguments += ["all_records=false", "accountant=rdp", "allow_useless=true"]
    arguments += ["features.num_filters=16", "features.patch_size=4", "features.num_patches=500"]
    done = succeeded("train", *arguments, f"output_dir={folder}")
    (warning,) = [line for line in done.stderr.splitlines() if "missing" in line]
    assert "are missing; going on with what is there (data.missing=error refuses)" in warning
    assert "decoding photographs" in done.stderr
    data = json.loads((folder / "report.json").read_text())["data"]
    assert (data["name"], data["real"], data["num_private"]) == ("celeba", True, split_sizes(COUNT)[0] - 1)
    published = (folder / "release" / "config.yaml").read_text()
    assert "private-" not in published
    assert not list(root.glob("pate_cache"))
