"""A data set with features is kept on disk block by block, with the same bytes wherever a run was interrupted."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pate.data import Dataset
from pate.features import Patches, featured_data
from pate.features.extracted_form import ExtractedForm
from pate.features.featured_data import FeaturedData
from pate.features.patches import PatchExtractor
from tests.refusals import ANY, refused_parameter
from tests.unit.features.pictures import SIZES, SMALL, ReaderOfDataset, dataset

BLOCK = 16


class Killed(BaseException):
    """Stands for the death of the process: a `BaseException`, which no `except Exception` catches."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes blocks of 16 pictures."""
    monkeypatch.setattr(featured_data, "_IMAGES_PER_BLOCK", BLOCK)


def load_with_features(
    cache_folder: Path,
    data: Dataset | None = None,
    *,
    num_private_pictures_before_kill: int | None = None,
) -> tuple[Dataset, list[str]]:
    """Returns the data set with features, and the names of the stages of work that it reported.

    After `num_private_pictures_before_kill` private pictures the extraction raises `Killed`; None kills none.
    """
    stages: list[str] = []

    @contextmanager
    def open_stage(name: str, total: int) -> Iterator[object]:
        stages.append(name)

        def advance(done: int) -> None:
            if (
                "private" in name
                and num_private_pictures_before_kill is not None
                and done >= num_private_pictures_before_kill
            ):
                raise Killed

        yield advance

    reader = FeaturedData(
        ReaderOfDataset(dataset=data or dataset()), features=SMALL, cache=cache_folder
    )
    return reader.load(open_stage), stages  # type: ignore[arg-type]


def bytes_of_files(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of all files below a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_features_replace_pictures_and_keep_the_private_digest(tmp_path: Path) -> None:
    """Each split of the data set has the features of its pictures and its labels.

    The digest of the private data is that of the pictures.
    """
    dataset_of_pictures = dataset()
    (data, _) = load_with_features(cache_folder=tmp_path)
    assert (data.kind, data.input_shape) == ("features", (SMALL.dimension,))
    assert isinstance(data.preprocessing, ExtractedForm)
    for split_name, count in SIZES.items():
        split = getattr(data, split_name)
        split_of_pictures = getattr(dataset_of_pictures, split_name)
        assert split.inputs.shape == (count, SMALL.dimension)
        assert np.array_equal(split.labels, split_of_pictures.labels)
        expected = data.preprocessing.extractor.extract(split_of_pictures.inputs)
        np.testing.assert_allclose(split.inputs, expected, atol=1e-5)
    public_features = np.asarray(data.public.inputs)
    assert np.mean(public_features**2) == pytest.approx(1, abs=1e-3)
    assert data.private_digest() == dataset().private_digest()
    assert data.private_digest() != dataset(private_picture_seed=9).private_digest()
    assert data.digest() != dataset().digest()


@pytest.mark.slow
def test_cached_results_are_reused_and_readable_by_owner_only(tmp_path: Path) -> None:
    """A second load computes nothing and changes no file; the files have mode 0600."""
    first, stages = load_with_features(cache_folder=tmp_path)
    before = bytes_of_files(folder=tmp_path)
    again, later = load_with_features(cache_folder=tmp_path)
    assert (len(stages), later) == (5, [])
    assert (bytes_of_files(folder=tmp_path), again.digest()) == (before, first.digest())
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()}
    assert modes == {0o600}


@pytest.mark.slow
def test_killed_extraction_continues_to_the_same_bytes(
    tmp_path: Path,
) -> None:
    """If an extraction is killed after three blocks, the next load leaves the bytes of an extraction without a kill."""
    load_with_features(cache_folder=tmp_path / "whole")
    with pytest.raises(Killed):
        load_with_features(
            cache_folder=tmp_path / "killed", num_private_pictures_before_kill=3 * BLOCK
        )
    (folder,) = (tmp_path / "killed").iterdir()
    (path,) = folder.glob("private-*.stamps")
    stamps = np.fromfile(path, np.int64)
    assert 3 <= (stamps != 0).sum() < len(stamps)
    _, stages = load_with_features(cache_folder=tmp_path / "killed")
    assert stages[0] == "features of the private pictures"
    assert bytes_of_files(folder=tmp_path / "killed") == bytes_of_files(folder=tmp_path / "whole")


@pytest.mark.slow
def test_changed_private_pictures_keep_the_extractor(tmp_path: Path) -> None:
    """If one private picture changes, only the private features are computed anew, into a new file.

    A process that reads the earlier file sees no change.
    """
    first, _ = load_with_features(cache_folder=tmp_path / "kept")
    before = first.digest()
    changed = dataset()
    changed.private.inputs.levels[40] //= 2  # type: ignore[attr-defined]
    second, stages = load_with_features(cache_folder=tmp_path / "kept", data=changed)
    load_with_features(cache_folder=tmp_path / "fresh", data=changed)
    assert stages == ["features of the private pictures"]
    assert (
        bytes_of_files(folder=tmp_path / "fresh").items()
        <= bytes_of_files(folder=tmp_path / "kept").items()
    )
    assert first.digest() == before != second.digest()


FITTED = ["learning filters from public pictures", "projecting public pictures"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "repeated_stages", "is_cut"),
    [
        ("private-*.f32", ["features of the private pictures"], False),
        ("private-*.f32", ["features of the private pictures"], True),
        ("private-*.stamps", ["features of the private pictures"], False),
        ("extractor.safetensors", FITTED, False),
        ("extractor.sha256", FITTED, False),
    ],
)
def test_altered_or_truncated_cache_is_recomputed(
    name: str, repeated_stages: list[str], is_cut: bool, tmp_path: Path
) -> None:
    """If a file of the cache was altered or cut, the stages that made it run again and leave the same bytes."""
    load_with_features(cache_folder=tmp_path)
    before = bytes_of_files(folder=tmp_path)
    (path,) = tmp_path.rglob(name)
    bytes_of_cached_file = bytearray(path.read_bytes())
    bytes_of_cached_file[len(bytes_of_cached_file) // 2] ^= 1
    path.write_bytes(bytes_of_cached_file[:100] if is_cut else bytes_of_cached_file)
    _, stages = load_with_features(cache_folder=tmp_path)
    assert stages == repeated_stages
    assert bytes_of_files(folder=tmp_path) == before


@pytest.mark.slow
def test_features_do_not_depend_on_the_number_of_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes of all files are the same for another number of cores."""
    import joblib

    load_with_features(cache_folder=tmp_path / "some")
    monkeypatch.setattr(joblib, "cpu_count", lambda: 5)
    load_with_features(cache_folder=tmp_path / "more")
    assert bytes_of_files(folder=tmp_path / "some") == bytes_of_files(folder=tmp_path / "more")


@pytest.mark.slow
def test_measurements_of_the_fit_are_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public pictures that fill whole batches are measured once, for both the fit and the features.

    To measure a picture is to compute its features before they are projected. The last 12 of 60 public pictures fill no
    batch of 16, and are measured twice. If the public features are lost, the next load makes the same ones.
    """
    original_measure = PatchExtractor.measure
    picture_batch_sizes = list[int]()

    def counted(self: PatchExtractor, images: np.ndarray) -> np.ndarray:
        picture_batch_sizes.append(len(images))
        return original_measure(self, images)

    monkeypatch.setattr(PatchExtractor, "measure", counted)
    monkeypatch.setattr(PatchExtractor, "batch_size", BLOCK)
    load_with_features(cache_folder=tmp_path)
    files = bytes_of_files(folder=tmp_path)
    num_measured_twice = 60 % BLOCK and BLOCK  # public pictures that fill no batch
    assert (
        sum(count for count in picture_batch_sizes if count > 1)
        == 60 + num_measured_twice + 160 + 48
    )
    for path in tmp_path.rglob("public-*"):
        path.unlink()
    load_with_features(cache_folder=tmp_path)
    assert bytes_of_files(folder=tmp_path) == files


@pytest.mark.slow
def test_data_without_suitable_pictures_are_refused(tmp_path: Path) -> None:
    """Data without pictures, patches larger than pictures, and a cache path below a file are refused."""
    data, _ = load_with_features(cache_folder=tmp_path)
    with refused_parameter("features", value="patches"):
        FeaturedData(
            ReaderOfDataset(dataset=replace(data, preprocessing=None)),
            features=SMALL,
            cache=tmp_path,
        ).load()
    reader = FeaturedData(
        ReaderOfDataset(dataset=dataset()),
        features=replace(SMALL, patch_size=13),
        cache=tmp_path / "new",
    )
    with refused_parameter("features.patch_size", value=13, rule_words="at most 12"):
        reader.load()
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("")
    with refused_parameter("features.cache", value=ANY, rule_words="a folder that"):
        FeaturedData(
            ReaderOfDataset(dataset=dataset()), features=Patches(), cache=tmp_path / "file"
        ).load()
