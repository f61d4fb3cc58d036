"""Cartoon faces have attributes as frequent as CelebA's, and are written in CelebA's layout."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pate.data import CelebA
from scripts.synth_faces import face_copy
from scripts.synth_faces.attributes import (
    CORRELATIONS,
    NAMES,
    NUM_PHOTOGRAPHS,
    POSITIVES,
    draw_attributes,
)
from scripts.synth_faces.drawing import NUM_WHIMS, Face, draw_faces, picture, shown
from scripts.synth_faces.face_copy import FaceCopy, split_sizes
from tests.refusals import ANY, refused_parameter

COLUMN = {name: column for column, name in enumerate(NAMES)}
HAIR = ("Black_Hair", "Blond_Hair", "Brown_Hair", "Gray_Hair")


SIZE = 32
UPRIGHT = [0.0, 0.0, 1.0]
HIDES = ("Wearing_Hat", "Bald", "Blurry")


@pytest.fixture(scope="module")
def drawn_attributes() -> np.ndarray:
    """Returns 20,480 vectors of attributes, drawn with another seed than that to which their thresholds were fitted."""
    return np.concatenate([draw_attributes(seed=11, block=block) for block in range(80)])


def test_marginals_are_within_002_of_celebas(drawn_attributes: np.ndarray) -> None:
    """The frequency of each drawn attribute differs from CelebA's by less than 0.02. A face has about 9 attributes."""
    expected = np.array([POSITIVES[name] for name in NAMES]) / NUM_PHOTOGRAPHS
    assert np.abs(drawn_attributes.mean(axis=0) - expected).max() < 0.02
    assert drawn_attributes.sum(axis=1).mean() == pytest.approx(9.03, abs=0.15)
    assert np.maximum(expected, 1 - expected).mean() == pytest.approx(0.805, abs=0.001)


@pytest.mark.parametrize("pair", CORRELATIONS)
def test_the_main_correlations_are_within_015(
    drawn_attributes: np.ndarray, pair: tuple[str, str]
) -> None:
    """The correlation of two drawn attributes differs from CelebA's by at most 0.15."""
    first_attribute, second_attribute = (drawn_attributes[:, COLUMN[name]] for name in pair)
    assert np.corrcoef(first_attribute, second_attribute)[0, 1] == pytest.approx(
        CORRELATIONS[pair], abs=0.15
    )


def test_the_rules_hold(drawn_attributes: np.ndarray) -> None:
    """Drawn attributes do not contradict each other: bald faces have no hair, and only men have beards."""
    has = {name: drawn_attributes[:, COLUMN[name]] for name in NAMES}
    assert sum(has[name].astype(int) for name in HAIR).max() == 1
    for name in (*HAIR, "Straight_Hair", "Wavy_Hair", "Bangs", "Receding_Hairline"):
        assert not (has["Bald"] & has[name]).any()
    for name in ("Goatee", "Mustache", "Sideburns"):
        assert has[name].any()
        assert not (has[name] & has["No_Beard"]).any()
        assert not (has[name] & ~has["Male"]).any()
    for first, second in (("Straight_Hair", "Wavy_Hair"), ("Bangs", "Receding_Hairline")):
        assert not (has[first] & has[second]).any()
    assert has["No_Beard"][~has["Male"]].all()


@pytest.mark.slow
def test_a_face_depends_on_its_seed_number_and_size_alone() -> None:
    """Equal seed, block and size draw the same face, and another seed or block draws another one.

    A block is 256 faces that share a random generator.
    """
    face = draw_faces(seed=0, block=0, image_size=8)[3]
    assert np.array_equal(face, draw_faces(seed=0, block=0, image_size=8)[3])
    assert not np.array_equal(face, draw_faces(seed=1, block=0, image_size=8)[3])
    assert not np.array_equal(face, draw_faces(seed=0, block=1, image_size=8)[3])


@pytest.mark.parametrize(
    ("make_copy", "name"),
    [
        (partial(FaceCopy, count=-1), "count"),
        (partial(FaceCopy, image_size=-1), "size"),
        (partial(FaceCopy, seed=-1), "seed"),
    ],
)
def test_impossible_parameters_are_refused(make_copy: Callable[[], FaceCopy], name: str) -> None:
    """A copy with an impossible count, size or seed is refused with the name of that parameter."""
    with refused_parameter(name, value=-1, rule_words="a whole number >="):
        make_copy()


def num_changed_pixels(attribute: str, without: tuple[str, ...]) -> float:
    """Returns how many pixels an attribute changes clearly, as the median over 15 faces.

    Args:
        attribute: the name of the attribute.
        without: the attributes that none of the faces has.
    """
    rng = np.random.default_rng(NAMES.index(attribute))
    nums_of_changed_pixels = []
    for bits in draw_attributes(seed=3, block=0)[:15].tolist():
        is_held_by_name = dict(zip(NAMES, bits, strict=True)) | dict.fromkeys(without, False)
        whims = rng.random(NUM_WHIMS).tolist()
        picture_without, picture_with = (
            picture(
                Face(is_held_by_name | {attribute: is_held}, whims=whims),
                pose=UPRIGHT,
                image_size=SIZE,
            ).astype(int)
            for is_held in (False, True)
        )
        nums_of_changed_pixels.append(
            (np.abs(picture_with - picture_without).max(axis=2) > 20).sum()
        )
    return float(np.median(nums_of_changed_pixels))


@pytest.mark.parametrize("attribute", NAMES)
def test_every_attribute_is_seen(attribute: str) -> None:
    """Each attribute clearly changes at least 4 pixels, in the median of 15 faces on which nothing hides it."""
    hair_colors = (
        tuple(other for other in NAMES if other.endswith("Hair"))
        if attribute.endswith("Hair")
        else ()
    )
    assert (
        num_changed_pixels(
            attribute,
            without=tuple(other for other in (*HIDES, *hair_colors) if other != attribute),
        )
        >= 4
    )


def test_a_tenth_of_the_attributes_is_not_drawn() -> None:
    """A tenth of the attributes that faces have is not drawn, and about as many that they lack are drawn."""
    attributes = np.concatenate([draw_attributes(seed=5, block=block) for block in range(40)])
    shown_attributes = shown(attributes, np.random.default_rng(0))
    assert (attributes & ~shown_attributes).sum() / attributes.sum() == pytest.approx(0.1, abs=0.01)
    assert np.abs(shown_attributes.mean(axis=0) - attributes.mean(axis=0)).max() < 0.01


SCRIPT = Path(__file__).parents[2] / "scripts" / "make_synth_faces.py"
COUNT = 600


def read_files(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of all files below a folder, by their relative paths."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module", params=["text", "csv"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a copy with 600 faces, whose lists are text or CSV."""
    folder = tmp_path_factory.mktemp("copies") / request.param
    FaceCopy(count=COUNT, image_size=16, form=request.param).write(folder)
    return folder


@pytest.mark.slow
def test_read_as_celeba_they_are_the_faces_that_were_drawn(written: Path) -> None:
    """`CelebA` reads a copy as three splits with the drawn attributes as 40 labels.

    The pixels differ from the drawn ones by less than 2% on average.
    """
    dataset = CelebA(root=written, image_size=16, missing="error").load()
    assert (dataset.real, dataset.kind, dataset.label_names) == (False, "images", NAMES)
    splits = (dataset.private, dataset.public, dataset.test)
    assert tuple(len(split) for split in splits) == split_sizes(COUNT)
    blocks = range(3)  # of 256 faces each
    labels = np.concatenate([draw_attributes(seed=0, block=block) for block in blocks])[:COUNT]
    faces = np.concatenate([draw_faces(seed=0, block=block, image_size=16) for block in blocks])[
        :COUNT
    ]
    for split in splits:
        rows = split.record_ids - 1
        assert np.array_equal(split.labels, labels[rows])
        error = np.abs(np.asarray(split.inputs) - faces[rows] / 255)
        assert error.mean() < 0.02  # JPEG


def test_the_files_are_laid_out_as_the_genuine_ones(tmp_path: Path) -> None:
    """A copy has the five lists of CelebA in their format, and JPEG pictures of the given size."""
    folder = tmp_path / "celeba"
    FaceCopy(count=50, image_size=20).write(folder)
    lines = {path.stem: path.read_text().split("\n") for path in folder.glob("*.txt")}
    lists = "identity_CelebA list_attr_celeba list_bbox_celeba list_eval_partition list_landmarks_align_celeba"
    assert sorted(lines) == lists.split()
    attributes = lines["list_attr_celeba"]
    assert attributes[0] == "50"
    assert (attributes[1][:34], attributes[1][-6:]) == (
        "5_o_Clock_Shadow Arched_Eyebrows A",
        "Young ",
    )
    assert attributes[2].startswith("000001.jpg -1 ")
    assert len(attributes[2]) == len("000001.jpg") + 40 * 3
    assert lines["list_eval_partition"][0] == "000001.jpg 0"
    assert lines["list_landmarks_align_celeba"][1].startswith("lefteye_x lefteye_y righteye_x")
    with Image.open(folder / "img_align_celeba" / "000050.jpg") as image:
        assert (image.format, image.size) == ("JPEG", (20, 20))


@pytest.mark.slow
def test_people_have_up_to_20_faces_in_one_split(
    tmp_path: Path,
) -> None:
    """Each person in the private split of a copy with 300 faces has up to 20 faces, and is in no other split.

    For CelebA's own number of faces, the splits have CelebA's sizes. Fewer than 3 faces are refused.
    """
    FaceCopy(count=300, image_size=8).write(tmp_path / "copy")
    dataset = CelebA(root=tmp_path / "copy", image_size=8, partition_by_identity=True).load()
    people, sizes = np.unique(dataset.private.group_ids, return_counts=True)
    assert (len(people), sizes.max()) == (-(-len(dataset.private) // 20), 20)
    assert split_sizes(count=202_599) == (162_770, 19_867, 19_962)
    assert split_sizes(count=3) == (1, 1, 1)
    with refused_parameter("count", value=2, rule_words="at least 3"):
        FaceCopy(count=2)


@pytest.mark.slow
def test_a_copy_continues_after_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that met a full disk at the second of three blocks draws that block and the third when called again.

    The files are then those of an uninterrupted copy.
    """
    copy = FaceCopy(count=COUNT, image_size=8)
    copy.write(tmp_path / "whole")
    blocks: list[int] = []

    def record_and_draw(seed: int, block: int, *, image_size: int) -> np.ndarray:
        blocks.append(block)
        if blocks == [0, 1]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return draw_faces(seed, block, image_size=image_size)

    monkeypatch.setattr(face_copy, "draw_faces", record_and_draw)
    with pytest.raises(OSError, match="No space left on device"):
        copy.write(tmp_path / "half")
    (tmp_path / "half" / ".list_attr_celeba.txt.7.partial").write_text("of a killed call")
    copy.write(tmp_path / "half")
    assert blocks == [0, 1, 1, 2]
    assert read_files(folder=tmp_path / "half") == read_files(folder=tmp_path / "whole")


def test_another_folder_or_another_copy_is_refused(tmp_path: Path) -> None:
    """A copy is refused in a folder with other pictures, or with a copy of another number of faces."""
    (tmp_path / "photographs").mkdir()
    (tmp_path / "photographs" / "a.jpg").write_text("")
    with refused_parameter("output", value=ANY, rule_words="a new folder"):
        FaceCopy(count=10, image_size=8).write(tmp_path / "photographs")
    FaceCopy(count=10, image_size=8).write(tmp_path / "copy")
    with refused_parameter("output", value=ANY, rule_words="a new folder"):
        FaceCopy(count=11, image_size=8).write(tmp_path / "copy")


@pytest.mark.process
def test_the_script_writes_a_copy_and_says_a_mistake_in_one_line(tmp_path: Path) -> None:
    """The script writes nine faces in CSV format, which `CelebA` reads.

    An unknown format is refused in one line with exit code 2.
    """
    command = [
        sys.executable,
        str(SCRIPT),
        str(tmp_path / "copy"),
        "--count",
        "9",
        "--size",
        "8",
        "--format",
    ]
    wrong = subprocess.run(
        [*command, "xml"], capture_output=True, text=True, check=False, timeout=120
    )
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.strip() == "format=xml: expected one of text, csv"
    assert not (tmp_path / "copy").exists()
    done = subprocess.run(
        [*command, "csv"], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, "9 synthetic faces" in done.stdout) == (0, True)
    assert len(CelebA(root=tmp_path / "copy", image_size=8).load().private) == 7
