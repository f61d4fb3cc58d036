"""Features that are fitted to patches of public pictures: what they depend on, and their benefit for a student."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pate.features import Extractor, Patches
from pate.features.patches import (
    CONTRAST,
    PatchExtractor,
    learn_filters,
    region_weights,
    spherical_k_means,
)
from pate.features.public_pictures import PublicPictures
from pate.models import LinearStudent
from pate.progress import unwatched
from tests.refusals import ANY, Refusal, refused_parameter
from tests.unit.features.pictures import (
    NAMES,
    SIDE,
    SMALL,
    dataset,
    drawn_pictures,
    with_unreadable_private_pictures,
)


def fitted_extractor(private_picture_seed: int = 0, public_picture_seed: int = 1) -> PatchExtractor:
    """Returns the extractor of the small recipe, fitted to the public pictures of a data set with these two seeds."""
    pictures = dataset(
        private_picture_seed=private_picture_seed, public_picture_seed=public_picture_seed
    )
    return SMALL.fit(PublicPictures(pictures), stage=unwatched)


@pytest.mark.slow
def test_fit_is_deterministic_and_depends_on_settings() -> None:
    """One recipe gives the same bytes twice, and each of six changed settings gives another extractor.

    Each changed setting also changes the recipe's identity, a digest of its settings and the public pictures.
    """
    first = fitted_extractor()
    assert first.content == fitted_extractor().content
    assert first.num_features == SMALL.dimension
    other_recipes = [
        replace(SMALL, seed=1),
        replace(SMALL, num_filters=15),
        replace(SMALL, threshold=0.4),
        replace(SMALL, overlap=False),
        replace(SMALL, compression=0.0),
        replace(SMALL, grid=2),
    ]
    public_pictures = PublicPictures(dataset())
    assert first.digest not in {
        other.fit(public_pictures, stage=unwatched).digest for other in other_recipes
    }
    assert len({recipe.identity(public_pictures) for recipe in (SMALL, *other_recipes)}) == 7


@pytest.mark.slow
def test_extractor_does_not_depend_on_private_pictures() -> None:
    """The extractor is the same for other or unreadable private pictures, and another one for other public pictures."""
    usual = fitted_extractor().content
    assert fitted_extractor(private_picture_seed=9).content == usual
    assert (
        SMALL.fit(
            PublicPictures(with_unreadable_private_pictures(data=dataset())), stage=unwatched
        ).content
        == usual
    )
    assert fitted_extractor(public_picture_seed=9).content != usual


def test_fit_accepts_only_public_pictures() -> None:
    """A fit accepts only `PublicPictures`, which keeps the public pictures of a data set alone."""
    data = dataset()
    for not_a_dataset in (data.private, data.private.inputs, data.public):
        with refused_parameter("dataset", value=ANY, rule_words="a pate.data.Dataset"):
            PublicPictures(not_a_dataset)  # type: ignore[arg-type]
    assert not hasattr(PublicPictures(data), "private")
    assert vars(PublicPictures(data)).keys() == {"inputs"}
    for not_public_pictures in (data, data.private, data.private.inputs):
        with refused_parameter("pictures", value=ANY):
            SMALL.fit(not_public_pictures, stage=unwatched)  # type: ignore[arg-type]


@pytest.mark.parametrize("stride", [1, 3])
def test_features_match_a_direct_computation(stride: int) -> None:
    """The features of one picture equal those that are computed here patch by patch.

    Filters are multiplied with standardized patches. The positive and the negative responses beyond the threshold are
    averaged over regions, compressed by a logarithm, and projected.
    """
    extractor = replace(SMALL, stride=stride).fit(PublicPictures(dataset()), stage=unwatched)
    levels, _ = drawn_pictures(count=1, seed=5)
    image = levels[0].astype(np.float32) / np.float32(255)
    filters = extractor.arrays["filters"]
    offsets = extractor.arrays["offsets"]
    size = SMALL.patch_size
    count = (SIDE - size) // stride + 1
    filter_responses = np.empty((len(filters), count, count))
    for row in range(count):
        for column in range(count):
            top = stride * row
            left = stride * column
            patch = image[:, top : top + size, left : left + size]
            standard = (patch - patch.mean()) / np.sqrt(patch.var() + CONTRAST)
            filter_responses[:, row, column] = (filters * standard).sum(axis=(1, 2, 3)) - offsets
    weights_of_thirds = []
    for middle in (count / 6 - 0.5, count / 2 - 0.5, 5 * count / 6 - 0.5):
        position_weights = np.maximum(1 - np.abs(np.arange(count) - middle) / (count / 3), 0)
        weights_of_thirds.append(position_weights / position_weights.sum())
    rectified = [np.maximum(sign * filter_responses - SMALL.threshold, 0) for sign in (1, -1)]
    means = [
        np.stack(
            [
                rows @ responses @ columns
                for rows in weights_of_thirds
                for columns in weights_of_thirds
            ],
            axis=1,
        ).ravel()
        for responses in rectified
    ]
    flat = np.log1p(SMALL.compression * np.concatenate(means))
    expected = (flat - extractor.arrays["center"]) @ extractor.arrays["projection"]
    np.testing.assert_allclose(extractor.extract(image[None])[0], expected, atol=2e-4)


@pytest.mark.parametrize(("num_positions", "num_regions"), [(9, 2), (27, 3), (10, 1), (7, 4)])
def test_weights_of_a_region_sum_to_1_and_cover_all_positions(
    num_positions: int, num_regions: int
) -> None:
    """In each region the weights of all positions add up to 1, with overlap and without, if positions are enough.

    Each position has a positive weight in some region, and without overlap in only one. With overlap, positions and
    regions that are counted from the other end have the same weights. If two positions are too few for five regions
    without overlap, three regions have no position.
    """
    for regions_overlap in (False, True):
        weights_of_regions = region_weights(
            num_positions=num_positions, num_regions=num_regions, regions_overlap=regions_overlap
        )
        np.testing.assert_allclose(weights_of_regions.sum(axis=0), 1)
        assert (weights_of_regions >= 0).all()
        assert (weights_of_regions.sum(axis=1) > 0).all()
        assert ((weights_of_regions > 0).sum(axis=1) == 1).all() == (
            num_regions == 1 or not regions_overlap
        )
    np.testing.assert_allclose(weights_of_regions, weights_of_regions[::-1, ::-1])
    weights_of_five_regions = region_weights(num_positions=2, num_regions=5, regions_overlap=False)
    assert sorted(weights_of_five_regions.sum(axis=0)) == [0, 0, 0, 1, 1]


def test_linear_model_is_better_on_features_than_on_pixels() -> None:
    """A linear student has an accuracy above 0.8 on features, and below 0.7 on pixels."""
    data = dataset()
    extractor = fitted_extractor()
    pixels = [np.asarray(split.inputs) for split in (data.private, data.test)]
    scores = []
    for train_inputs, test_inputs in (
        pixels,
        [extractor.extract(split_pixels) for split_pixels in pixels],
    ):
        model = LinearStudent().fit(train_inputs, labels=data.private.labels, seed=0)
        scores.append((model.predict(test_inputs) == data.test.labels).mean())
    assert scores[1] > 0.8 > 0.7 > scores[0]
    assert len(NAMES) == data.num_labels


def test_k_means_finds_axes_and_filters_have_mean_zero() -> None:
    """For points near three axes, each axis has a cluster whose direction is nearly parallel to it.

    The cosine of direction and axis exceeds 0.99 in absolute value. Filters have mean 0. Blank pictures are refused.
    """
    rng = np.random.default_rng(0)
    axes = np.eye(6, dtype=np.float32)[:3]
    points = (axes[rng.integers(0, 3, size=600)] * rng.choice([-1, 1], (600, 1))).astype(np.float32)
    points += 0.05 * rng.standard_normal(points.shape).astype(np.float32)
    directions = spherical_k_means(points, num_clusters=6, rng=np.random.default_rng(1))
    assert np.abs(directions @ axes.T).max(axis=0).min() > 0.99
    filters, _ = learn_filters(
        PublicPictures(dataset()), patch_size=4, num_filters=8, num_patches=500, seed=0
    )
    assert np.abs(filters.mean(axis=(1, 2, 3))).max() < 1e-6
    blank = dataset()
    blank.public.inputs.levels[:] = 7  # type: ignore[attr-defined]
    with refused_parameter("data", rule_words="public pictures"):
        SMALL.fit(PublicPictures(blank), stage=unwatched)


def test_extractor_survives_a_round_trip_and_damage_is_refused(tmp_path: Path) -> None:
    """An extractor that was written and read gives the same bytes of features.

    Damaged files and pictures with another number of channels are refused.
    """
    extractor = fitted_extractor()
    path = tmp_path / "extractor.safetensors"
    (levels, _) = drawn_pictures(count=5, seed=3)
    extractor.save(path)
    loaded_extractor = Extractor.load(path, remedy="none")
    images = levels.astype(np.float32) / 255
    assert loaded_extractor.extract(images).tobytes() == extractor.extract(images).tobytes()
    assert (loaded_extractor.digest, dict(loaded_extractor.origin)) == (
        extractor.digest,
        dict(extractor.origin),
    )
    for damage in (
        lambda data: data[:-8],
        lambda data: b"\0" * len(data),
        lambda data: data.replace(b"F32", b"F16"),
    ):
        path.write_bytes(damage(extractor.content))
        with refused_parameter("file", value=ANY, rule_words="extractor of features"):
            Extractor.load(path, remedy="none")
    with refused_parameter("pictures.shape[1:]", value=(1, 12, 12)):
        loaded_extractor.extract(images[:, :1])


@pytest.mark.parametrize(
    ("change_recipe", "refusal"),
    [
        (partial(replace, dimension=0), refused_parameter("features.dimension", value=0)),
        (partial(replace, patch_size=-1), refused_parameter("features.patch_size", value=-1)),
        (partial(replace, stride=0), refused_parameter("features.stride", value=0)),
        (partial(replace, threshold=-0.5), refused_parameter("features.threshold", value=-0.5)),
        (partial(replace, overlap=2), refused_parameter("features.overlap", value="int")),
        (partial(replace, compression=-1.0), refused_parameter("features.compression", value=-1.0)),
        (partial(replace, seed=-1), refused_parameter("features.seed", value=-1)),
    ],
)
def test_settings_out_of_range_are_refused_in_one_line(
    change_recipe: Callable[[Patches], Patches], refusal: Refusal
) -> None:
    """A setting of the recipe that is out of range, or of a wrong type, is refused in one line under its name."""
    with refusal as caught:
        change_recipe(SMALL)
    assert "\n" not in str(caught.value)
