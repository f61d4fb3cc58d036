"""Cartoon faces: attributes, pictures, the data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pate.data import SynthFaces
from pate.data.synth_faces import (
    BLOCK,
    CORRELATIONS,
    LOADINGS,
    NAMES,
    NUM_PHOTOGRAPHS,
    NUM_WHIMS,
    POSITIVES,
    Face,
    consistent,
    draw_attributes,
    draw_faces,
    picture,
    place_points,
    shown,
    thresholds,
)
from pate.teachers import LinearTeacher, Shard
from pate.validation import InvalidValue

COLUMN = {name: column for column, name in enumerate(NAMES)}
HAIR = ("Black_Hair", "Blond_Hair", "Brown_Hair", "Gray_Hair")


SIZE = 32
UPRIGHT = [0.0, 0.0, 1.0]
HIDES = ("Wearing_Hat", "Bald", "Blurry")
SMALL = {"num_private": 300, "num_public": 50, "num_test": 40, "image_size": 8}


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    """20,480 attribute vectors of a seed that the thresholds were not made with."""
    return np.concatenate([draw_attributes(11, block) for block in range(80)])


def test_the_names_are_celebas() -> None:
    assert len(NAMES) == 40
    assert list(NAMES) == sorted(NAMES)
    assert (NAMES[0], NAMES[-1]) == ("5_o_Clock_Shadow", "Young")
    assert {name for pair in CORRELATIONS for name in pair} | set(LOADINGS) <= set(NAMES)


def test_marginals_are_within_002_of_celebas(drawn: np.ndarray) -> None:
    wanted = np.array([POSITIVES[name] for name in NAMES]) / NUM_PHOTOGRAPHS
    assert np.abs(drawn.mean(axis=0) - wanted).max() < 0.02
    assert drawn.sum(axis=1).mean() == pytest.approx(9.03, abs=0.15)
    assert np.maximum(wanted, 1 - wanted).mean() == pytest.approx(0.805, abs=0.001)


def test_the_marginals_need_the_thresholds_moved() -> None:
    """With the thresholds that would be right without the rules, they are off by more than 0.02."""
    share = np.array([POSITIVES[name] for name in NAMES]) / NUM_PHOTOGRAPHS
    latent = np.random.default_rng(0).standard_normal((20_000, 40))
    naive = consistent(latent - np.quantile(latent, 1 - share, axis=0).diagonal())
    assert np.abs(naive.mean(axis=0) - share).max() > 0.04


@pytest.mark.parametrize("pair", CORRELATIONS)
def test_the_main_correlations_are_within_015(drawn: np.ndarray, pair: tuple[str, str]) -> None:
    first, second = (drawn[:, COLUMN[name]] for name in pair)
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(CORRELATIONS[pair], abs=0.15)


def test_the_rules_hold(drawn: np.ndarray) -> None:
    has = {name: drawn[:, COLUMN[name]] for name in NAMES}
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


def test_of_rivals_the_strongest_stays() -> None:
    excess = np.full((1, 40), -1.0)
    excess[0, [COLUMN["Black_Hair"], COLUMN["Gray_Hair"], COLUMN["Straight_Hair"], COLUMN["Wavy_Hair"]]] = [1, 2, 4, 3]
    held = {NAMES[column] for column in np.flatnonzero(consistent(excess)[0])}
    assert held == {"Gray_Hair", "Straight_Hair", "No_Beard"}


def test_blocks_depend_on_seed_and_number_alone() -> None:
    assert draw_attributes(3, 5).tolist() == draw_attributes(3, 5).tolist()
    assert draw_attributes(3, 5).shape == (BLOCK, 40)
    assert draw_attributes(3, 5).tolist() != draw_attributes(3, 6).tolist()
    assert draw_attributes(3, 5).tolist() != draw_attributes(4, 5).tolist()
    assert thresholds().tolist() == np.round(thresholds(), 3).tolist()


def changed(name: str, without: tuple[str, ...]) -> float:
    """How many pixels of 1,024 an attribute changes clearly, the median of 15 faces that are otherwise equal."""
    rng = np.random.default_rng(NAMES.index(name))
    counts = []
    for bits in draw_attributes(3, 0)[:15].tolist():
        has = dict(zip(NAMES, bits, strict=True)) | dict.fromkeys(without, False)
        whims = rng.random(NUM_WHIMS).tolist()
        faces = [picture(Face(has | {name: held}, whims), UPRIGHT, SIZE).astype(int) for held in (False, True)]
        counts.append((np.abs(faces[0] - faces[1]).max(axis=2) > 20).sum())
    return float(np.median(counts))


@pytest.mark.parametrize("name", NAMES)
def test_every_attribute_is_seen(name: str) -> None:
    colors = tuple(other for other in NAMES if other.endswith("Hair")) if name.endswith("Hair") else ()
    assert changed(name, without=tuple(other for other in (*HIDES, *colors) if other != name)) >= 4


def test_pictures_and_labels_disagree_now_and_then_and_keep_the_marginals() -> None:
    attributes = np.concatenate([draw_attributes(5, block) for block in range(40)])
    drawn = shown(attributes, np.random.default_rng(0))
    assert (attributes & ~drawn).sum() / attributes.sum() == pytest.approx(0.1, abs=0.01)
    assert np.abs(drawn.mean(axis=0) - attributes.mean(axis=0)).max() < 0.01


def test_faces_depend_on_seed_number_and_size_alone() -> None:
    first = draw_faces(2, 1, image_size=8)
    assert (first.dtype, first.shape) == (np.uint8, (256, 3, 8, 8))
    assert first.tolist() == draw_faces(2, 1, image_size=8).tolist()
    assert first.tolist() != draw_faces(2, 2, image_size=8).tolist()
    assert first.tolist() != draw_faces(3, 1, image_size=8).tolist()


def test_points_move_with_the_face() -> None:
    points = np.array([[39.5, 49.0], [60.5, 49.0]])
    placed = place_points(0, 0, points, image_size=200)
    assert placed.shape == (256, 2, 2)
    apart = placed[:, 1, 0] - placed[:, 0, 0]  # 21 hundredths times the scale
    assert (apart.min() >= 36, apart.max() <= 48) == (True, True)
    assert np.unique(placed[:, 0, 1]).size > 10


def test_three_splits_of_images_that_say_that_they_are_synthetic() -> None:
    dataset = SynthFaces(**SMALL).load()
    assert (dataset.name, dataset.real, dataset.kind, dataset.label_names) == ("synth_faces", False, "images", NAMES)
    assert [len(split) for split in (dataset.private, dataset.public, dataset.test)] == [300, 50, 40]
    assert dataset.input_shape == (3, 8, 8)
    assert dataset.public.record_ids.tolist() == list(range(301, 351))
    assert dataset.private.labels[256:].tolist() == draw_attributes(0, 1)[:44].tolist()
    images = np.asarray(dataset.private.inputs)
    assert images.dtype == np.float32
    assert (images.min(), images.max()) >= (0, 0.9)
    assert images.max() <= 1


def test_the_first_faces_stay_where_more_are_drawn() -> None:
    few, more = (SynthFaces(**SMALL | {"num_private": n}).load().private for n in (10, 300))
    assert np.asarray(few.inputs).tolist() == more.inputs[:10].tolist()
    assert few.labels.tolist() == more.labels[:10].tolist()


def test_seeds_and_sizes_differ_and_equal_ones_do_not() -> None:
    digests = [SynthFaces(**SMALL | change).load().digest() for change in ({}, {"seed": 1}, {"image_size": 9}, {})]
    assert digests[0] == digests[3]
    assert len(set(digests)) == 3


def test_cached_faces_are_those_drawn_in_memory(tmp_path: Path) -> None:
    drawn = SynthFaces(**SMALL).load()
    for _ in range(2):
        assert SynthFaces(**SMALL, cache=tmp_path).load().digest() == drawn.digest()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_linear_teacher_on_pixels_is_above_the_majority_for_several_labels() -> None:
    dataset = SynthFaces(num_private=600, num_public=1, num_test=600, image_size=16).load()
    teacher = LinearTeacher(threshold=0.5, device="cpu")
    states = teacher.fit_many([Shard(np.asarray(dataset.private.inputs), dataset.private.labels)], [0])
    votes = teacher.predict_many(states, np.asarray(dataset.test.inputs))[0] >= 0.5
    accuracy, share = (votes == dataset.test.labels).mean(axis=0), dataset.test.labels.mean(axis=0)
    assert (accuracy > np.maximum(share, 1 - share) + 0.03).sum() >= 5


def test_impossible_parameters_are_refused() -> None:
    for name in ("num_private", "num_public", "num_test", "image_size"):
        with pytest.raises(InvalidValue, match=rf"^{name}=0: expected a whole number >= 1$"):
            SynthFaces(**{name: 0})
    with pytest.raises(InvalidValue, match=r"^seed=-1: expected a whole number >= 0$"):
        SynthFaces(seed=-1)
