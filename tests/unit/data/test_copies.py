"""Readers remark on private records that are also in another split or group, if chance does not explain them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pate.array_types import Float32Array
from pate.data import HuggingFace, ImageFolder, Pixels, Split
from pate.data.copies import Inputs, remarks_on_copies
from tests.unit.data.split_paths import SplitPaths

RNG = np.random.default_rng(0)
PRIVATE = RNG.normal(size=(200, 3)).astype(np.float32)
PUBLIC = RNG.normal(size=(120, 3)).astype(np.float32)
TEST = RNG.normal(size=(60, 3)).astype(np.float32)


def _split(inputs: Float32Array, groups: Any = None, first: int = 0) -> Split:
    """Returns a split of these inputs, whose record ids begin at `first`; groups are the ids by default."""
    record_ids = first + np.arange(len(inputs))
    return Split(
        inputs=inputs,
        labels=np.zeros((len(inputs), 1), np.bool_),
        record_ids=record_ids,
        group_ids=record_ids if groups is None else np.asarray(groups),
    )


def _remarks(
    private_inputs: Any = PRIVATE,
    public_inputs: Any = PUBLIC,
    test_inputs: Any = TEST,
    groups: Any = None,
) -> list[str]:
    """Returns the remarks on copies among three splits; `groups` are those of private records, by default their ids."""
    return list(
        remarks_on_copies(
            private_split=_split(inputs=private_inputs, groups=groups),
            public_split=_split(inputs=public_inputs, first=1000),
            test_split=_split(inputs=test_inputs, first=2000),
        )
    )


def test_distinct_records_yield_no_remark() -> None:
    """Random records in three splits, or with a single public copy of a private one, yield no remark."""
    assert _remarks() == []
    # Of a single record it cannot be known.
    assert _remarks(public_inputs=np.concatenate([PUBLIC, PRIVATE[:1]])) == []


@pytest.mark.parametrize("count", [10, 60, 120])
def test_public_records_that_are_private_ones_are_counted(count: int) -> None:
    """One remark counts the public records that are copies of private ones, in a shuffled public split."""
    public = np.concatenate([PRIVATE[:count], PUBLIC[count:]])[RNG.permutation(120)]
    (line,) = _remarks(public_inputs=public)
    assert line.startswith(
        f"data.public: {count} of 120 records have the inputs of private ones: what is public is not"
    )


def test_test_records_that_are_private_ones_are_counted() -> None:
    """If all 60 test records are copies of private ones, one remark counts them."""
    (line,) = _remarks(test_inputs=PRIVATE[50:110])
    assert line.startswith(
        "data.test: 60 of 60 records have the inputs of private ones: teachers learn from them"
    )


def test_equal_private_records_in_two_groups_are_counted() -> None:
    """If 30 private records occur twice, in two groups, a remark counts 60.

    There is no remark if each copy is in the group of its original.
    """
    (line,) = _remarks(private_inputs=np.concatenate([PRIVATE, PRIVATE[:30]]))
    assert line.startswith(
        "data.private: 60 of 230 records have the inputs of another one, which is protected apart"
    )
    groups = [*range(200), *range(30)]
    assert _remarks(private_inputs=np.concatenate([PRIVATE, PRIVATE[:30]]), groups=groups) == []


def test_repeated_and_public_private_records_yield_two_remarks() -> None:
    """If all private records occur twice and 120 of them are also public, there are two remarks."""
    lines = _remarks(private_inputs=np.concatenate([PRIVATE, PRIVATE]), public_inputs=PRIVATE[:120])
    assert [line[:12] for line in lines] == ["data.public:", "data.private"]


def test_agreement_by_chance_yields_no_remark() -> None:
    """Records that agree with others by chance yield no remark, but the same records in two splits yield one.

    The inputs have two columns with five values each, so almost all records agree with others in every split.
    """
    rng = np.random.default_rng(1)
    private = rng.integers(5, size=(2000, 2)).astype(np.float32)
    public = rng.integers(5, size=(300, 2)).astype(np.float32)
    test = rng.integers(5, size=(100, 2)).astype(np.float32)
    private_inputs = Inputs.from_split(_split(inputs=private))
    public_inputs = Inputs.from_split(_split(inputs=public))
    num_public_in_private = public_inputs.count_in(other_inputs=private_inputs)
    assert num_public_in_private == len(public)
    assert _remarks(private_inputs=private, public_inputs=public, test_inputs=test) == []
    # Private and public records are the same as a whole.
    assert len(_remarks(private_inputs=public, public_inputs=public, test_inputs=test)) == 1


@pytest.mark.parametrize("count", [20, 1])
def test_public_copies_of_private_pictures_are_counted(count: int) -> None:
    """One remark counts the public pictures that are copies of private ones, even a single one of 30."""
    levels = RNG.integers(255, size=(60, 3, 4, 4), dtype=np.uint8)
    private = Pixels(levels=levels, rows=np.arange(30))
    public = Pixels(levels=levels, rows=np.arange(30 - count, 60 - count))
    (line,) = remarks_on_copies(
        private_split=_split(inputs=private),  # type: ignore[arg-type]
        public_split=_split(inputs=public, first=1000),  # type: ignore[arg-type]
    )
    assert line.startswith(f"data.public: {count} of 30 records")


def _tables(folder: Path, inputs: dict[str, Float32Array]) -> Any:
    """Writes the inputs of each split as a CSV table and loads the data set."""
    for split, rows in inputs.items():
        lines = [",".join(map(str, [*row, number % 2])) for number, row in enumerate(rows.tolist())]
        (folder / f"{split}.csv").write_text("\n".join(["a,b,c,flu", *lines]) + "\n")
    return SplitPaths.in_folder(folder, ending=".csv").table_with_labels("flu").load()


def _arrays(folder: Path, inputs: dict[str, Float32Array]) -> Any:
    """Writes the inputs of each split as an .npz file and loads the data set."""
    for split, rows in inputs.items():
        np.savez(folder / f"{split}.npz", inputs=rows, labels=np.arange(len(rows))[:, None] % 2)
    return SplitPaths.in_folder(folder, ending=".npz").arrays().load()


def _hugging_face(folder: Path, inputs: dict[str, Float32Array]) -> Any:
    """Saves the inputs as a data set of Hugging Face's library and loads the data set."""
    datasets = pytest.importorskip("datasets")
    parts = {
        split: datasets.Dataset.from_dict(
            {"x": rows.tolist(), "flu": [place % 2 for place in range(len(rows))]}
        )
        for split, rows in inputs.items()
    }
    datasets.DatasetDict(parts).save_to_disk(str(folder / "saved"))
    return HuggingFace(path=str(folder / "saved"), inputs=("x",), labels=("flu",)).load()


def _image_folder(folder: Path, inputs: dict[str, Float32Array]) -> Any:
    """Writes one picture for each row of inputs and loads the folder of pictures."""
    lines = ["file,split,flu"]
    for split, rows in inputs.items():
        for place, row in enumerate(rows):
            levels = np.resize(row.view(np.uint8), (4, 4, 3))
            Image.fromarray(levels).save(folder / f"{split}{place}.png")
            lines.append(f"{split}{place}.png,{split},{place % 2}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return ImageFolder(
        root=str(folder), table=str(folder / "labels.csv"), labels=("flu",), image_size=4
    ).load()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("load", [_tables, _arrays, _hugging_face, _image_folder])
def test_four_readers_report_copies(tmp_path: Path, load: Any) -> None:
    """Readers of tables, arrays, saved data sets and folders of pictures count 40 public copies of private records."""
    pytest.importorskip("pyarrow")
    inputs_by_split = {"private": PRIVATE[:60], "public": PRIVATE[10:50], "test": TEST}
    lines = [line for line in load(tmp_path, inputs_by_split).notes if "have the inputs" in line]
    assert [line.partition(" have")[0] for line in lines] == ["data.public: 40 of 40 records"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("load", [_tables, _arrays, _hugging_face])
def test_copies_with_other_last_digits_are_found(tmp_path: Path, load: Any) -> None:
    """Readers count at least 39 of 40 public copies of private records whose last digits are different.

    Another program, or float32 instead of float64, changes the last digits.
    """
    pytest.importorskip("pyarrow")
    nearly_private_inputs = (PRIVATE[10:50].astype(np.float64) * (1 + 1e-7)).astype(np.float32)
    assert not np.isin(nearly_private_inputs, PRIVATE).all()
    lines = load(
        tmp_path, {"private": PRIVATE[:60], "public": nearly_private_inputs, "test": TEST}
    ).notes
    assert any(
        line.startswith(("data.public: 39 of 40", "data.public: 40 of 40")) for line in lines
    ), lines


def test_neighboring_whole_numbers_are_not_copies(tmp_path: Path) -> None:
    """Whole numbers near 100,000 and -100,000 that differ by 1 between two splits yield no remark on copies.

    Inputs alone would yield a remark, as they are compared by 16 bits. Whole numbers in cells are compared exactly:
    100,001 differs from 100,002 although both are 100,002 when rounded to 16 bits.
    """
    pytest.importorskip("pyarrow")
    signs = np.resize([1, -1], 250)
    inputs_by_split = {
        split: np.column_stack(
            [signs * np.arange(first_number, first_number + 1000, 4), np.zeros((250, 2))]
        ).astype(np.float32)
        for first_number, split in ((100_001, "private"), (100_002, "public"), (100_003, "test"))
    }
    dataset = _tables(folder=tmp_path, inputs=inputs_by_split)
    (line, *_) = remarks_on_copies(private_split=dataset.private, public_split=dataset.public)
    assert "have the inputs" in line
    assert not any("have the inputs" in line for line in dataset.notes)
