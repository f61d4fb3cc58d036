import numpy as np
import pytest

from pate.data.cartoon import NUM_WHIMS, Face
from pate.data.synth_faces import NAMES, draw_attributes, draw_faces, picture, place_points, shown

SIZE = 32
UPRIGHT = [0.0, 0.0, 1.0]
HIDES = ("Wearing_Hat", "Bald", "Blurry")


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
