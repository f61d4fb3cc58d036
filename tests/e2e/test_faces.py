"""Whole runs on images: a copy of CelebA as it is found in the wild, and cartoon faces on disk and in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pate.data import CelebA, Dataset, FaceCopy, SynthFaces
from pate.data.stages import unwatched
from pate.data.synth_faces.face_copy import split_sizes
from pate.pipeline import train
from tests.e2e.small_run import SilentMonitor, small_plan
from tests.e2e.test_commands import run

COUNT = 420
NUM_QUERIES = 30


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "celeba"
    FaceCopy(count=COUNT, image_size=12).write(folder, unwatched)
    return folder


def in_memory() -> Dataset:
    sizes = dict(zip(("num_private", "num_public", "num_test"), split_sizes(COUNT), strict=True))
    return SynthFaces(**sizes, image_size=12).load()


@pytest.mark.parametrize("name", ["synth_faces", "celeba"])
def test_cartoons_run_from_memory_and_from_disk_and_say_that_they_are_synthetic(
    name: str, copy: Path, tmp_path: Path
) -> None:
    """From disk with people as groups: each is in one teacher only."""
    on_disk = CelebA(root=copy, image_size=12, partition_by_identity=True).load
    loads = {"synth_faces": in_memory, "celeba": on_disk}
    plan = small_plan(load_dataset=loads[name], num_queries=NUM_QUERIES, num_teachers=12)
    report = train(plan, tmp_path / "run", SilentMonitor())
    assert (report.data.name, report.data.real, report.data.num_labels) == (name, False, 40)
    assert "Synthetic data" in (tmp_path / "run" / "report.html").read_text()
    manifest = json.loads((tmp_path / "run" / "partition.json").read_text())
    teachers_of: dict[int, set[int]] = {}
    for group, teacher in zip(manifest["group_ids"], manifest["teachers"], strict=True):
        teachers_of.setdefault(group, set()).add(teacher)
    assert max(map(len, teachers_of.values())) == 1
    assert max(map(manifest["group_ids"].count, teachers_of)) == (20 if name == "celeba" else 1)


def test_the_command_on_a_copy_as_it_is_found_in_the_wild(tmp_path: Path) -> None:
    """The CSV form, a photograph missing, no identities, and a cache elsewhere."""
    root, cache, folder = tmp_path / "private-place", tmp_path / "private-cache", tmp_path / "run"
    FaceCopy(count=COUNT, image_size=12, form="csv").write(root, unwatched)
    (root / "synth_faces.json").unlink()  # as a genuine copy
    (root / "img_align_celeba" / "img_align_celeba" / "000007.jpg").unlink()
    arguments = ["data=celeba", f"data.root={root}", f"data.cache={cache}", "data.image_size=12", "seed=1"]
    arguments += ["teacher.num_teachers=30", f"num_queries={NUM_QUERIES}", "target_epsilon=200"]
    done = run("train", *arguments, f"output_dir={folder}")
    assert done.returncode == 0, done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if "missing" in line]
    assert "are missing; going on with what is there (data.missing=error refuses)" in warning
    assert "decoding photographs" in done.stderr
    data = json.loads((folder / "report.json").read_text())["data"]
    assert (data["name"], data["real"], data["num_private"]) == ("celeba", True, split_sizes(COUNT)[0] - 1)
    published = (folder / "release" / "config.yaml").read_text()
    assert "private-" not in published
    assert not list(root.glob("pate_cache"))
