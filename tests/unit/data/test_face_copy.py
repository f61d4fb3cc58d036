"""Cartoon faces in CelebA's files."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pate.data import CelebA, FaceCopy, SynthFaces, synth_faces
from pate.data.dataset import unwatched
from pate.data.synth_faces import split_sizes
from pate.validation import InvalidValue

SCRIPT = Path(__file__).parents[3] / "scripts" / "make_synth_faces.py"
COUNT = 600


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module", params=["text", "csv"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copies") / request.param
    FaceCopy(count=COUNT, image_size=16, form=request.param).write(folder, unwatched)
    return folder


@pytest.mark.slow
def test_read_as_celeba_they_are_the_faces_drawn_in_memory(written: Path) -> None:
    read = CelebA(root=written, image_size=16, missing="error").load()
    sizes = dict(zip(("num_private", "num_public", "num_test"), split_sizes(COUNT), strict=True))
    drawn = SynthFaces(**sizes, image_size=16).load()
    assert (read.real, read.label_names, read.input_shape) == (False, drawn.label_names, drawn.input_shape)
    for role in ("private", "public", "test"):
        found, wanted = getattr(read, role), getattr(drawn, role)
        assert found.labels.tolist() == wanted.labels.tolist()
        assert found.record_ids.tolist() == wanted.record_ids.tolist()
        error = np.abs(np.asarray(found.inputs) - np.asarray(wanted.inputs))
        assert error.mean() < 0.02  # JPEG


def test_the_files_are_laid_out_as_the_genuine_ones(tmp_path: Path) -> None:
    folder = tmp_path / "celeba"
    FaceCopy(count=50, image_size=20).write(folder, unwatched)
    lines = {path.stem: path.read_text().split("\n") for path in folder.glob("*.txt")}
    assert sorted(lines) == [
        "identity_CelebA",
        "list_attr_celeba",
        "list_bbox_celeba",
        "list_eval_partition",
        "list_landmarks_align_celeba",
    ]
    attributes = lines["list_attr_celeba"]
    assert attributes[0] == "50"
    assert attributes[1].startswith("5_o_Clock_Shadow Arched_Eyebrows")
    assert attributes[1].endswith("Young ")
    assert attributes[2].startswith("000001.jpg -1 ")
    assert len(attributes[2]) == len("000001.jpg") + 40 * 3
    assert lines["list_eval_partition"][0] == "000001.jpg 0"
    assert lines["list_landmarks_align_celeba"][1].startswith("lefteye_x lefteye_y righteye_x")
    with Image.open(folder / "img_align_celeba" / "000050.jpg") as image:
        assert (image.format, image.size) == ("JPEG", (20, 20))


def test_people_are_in_one_split_and_have_up_to_20_faces(tmp_path: Path) -> None:
    FaceCopy(count=300, image_size=8).write(tmp_path / "copy", unwatched)
    dataset = CelebA(root=tmp_path / "copy", image_size=8, partition_by_identity=True).load()
    people, sizes = np.unique(dataset.private.group_ids, return_counts=True)
    assert (len(people), sizes.max()) == (-(-len(dataset.private) // 20), 20)


def test_as_many_faces_as_celeba_are_in_its_splits() -> None:
    assert split_sizes(202_599) == (162_770, 19_867, 19_962)
    assert split_sizes(3) == (1, 1, 1)
    with pytest.raises(InvalidValue, match=r"^count=2: expected at least 3, one for each split$"):
        FaceCopy(count=2)


@pytest.mark.slow
def test_stopped_by_a_full_disk_and_continued_it_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, draw = FaceCopy(count=COUNT, image_size=8), synth_faces.draw_faces
    copy.write(tmp_path / "whole", unwatched)
    blocks: list[int] = []

    def watched(seed: int, block: int, *, image_size: int) -> np.ndarray:
        blocks.append(block)
        if blocks == [0, 1]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return draw(seed, block, image_size=image_size)

    monkeypatch.setattr(synth_faces, "draw_faces", watched)
    with pytest.raises(OSError, match="No space left on device"):
        copy.write(tmp_path / "half", unwatched)
    (tmp_path / "half" / ".list_attr_celeba.txt.7.partial").write_text("of a killed call")
    copy.write(tmp_path / "half", unwatched)
    assert blocks == [0, 1, 1, 2]
    assert files(tmp_path / "half") == files(tmp_path / "whole")


def test_progress_is_told_by_the_block(tmp_path: Path) -> None:
    told: list[object] = []

    @contextmanager
    def stage(name: str, total: int) -> Iterator[Callable[[int], None]]:
        told.append((name, total))
        yield told.append

    FaceCopy(count=300, image_size=8).write(tmp_path / "copy", stage)
    assert told == [("drawing faces", 300), 256, 300]


def test_another_folder_or_another_copy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photographs").mkdir()
    (tmp_path / "photographs" / "a.jpg").write_text("")
    with pytest.raises(InvalidValue, match=r"^output=\S+: expected a new folder or a part of this copy, found a\.jpg$"):
        FaceCopy(count=10, image_size=8).write(tmp_path / "photographs", unwatched)
    FaceCopy(count=10, image_size=8).write(tmp_path / "copy", unwatched)
    with pytest.raises(
        InvalidValue, match=r"^output=\S+: expected a new folder or a part of this copy, found count=10"
    ):
        FaceCopy(count=11, image_size=8).write(tmp_path / "copy", unwatched)


def test_impossible_parameters_are_refused() -> None:
    for change, message in (
        ({"count": 0}, "count=0: expected a whole number >= 1"),
        ({"image_size": 0}, "size=0: expected a whole number >= 1"),
        ({"seed": -1}, "seed=-1: expected a whole number >= 0"),
    ):
        with pytest.raises(InvalidValue, match=f"^{message}$"):
            FaceCopy(**change)


@pytest.mark.process
def test_the_script_writes_a_copy_and_says_a_mistake_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path / "copy"), "--count", "9", "--size", "8", "--format"]
    wrong = subprocess.run([*command, "xml"], capture_output=True, text=True, check=False, timeout=120)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.strip() == "format=xml: expected one of text, csv"
    assert not (tmp_path / "copy").exists()
    done = subprocess.run([*command, "csv"], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, "9 synthetic faces" in done.stdout) == (0, True)
    assert len(CelebA(root=tmp_path / "copy", image_size=8).load().private) == 7
