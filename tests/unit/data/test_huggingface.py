"""Data sets that Hugging Face's library saved to disk, with columns of cells, lists of numbers or pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import PrivacyUnit
from pate.data import HuggingFace, ImageForm, TableSchema
from pate.validation import InvalidValue
from tests.refusals import Refusal, refused_parameter

datasets = pytest.importorskip("datasets")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SIZES = {"train": 12, "unlabeled": 8, "test": 4}


def saved_data_set(folder: Path, columns: dict[str, Any], features: Any = None) -> str:
    """Saves a data set whose splits `train`, `unlabeled` and `test` have 12, 8 and 4 rows; returns its folder.

    Args:
        folder: the folder.
        columns: 24 cells of each column, those of `train` first.
        features: the types of the columns, as `datasets` has them; None to infer them.
    """
    ends = np.cumsum([0, *SIZES.values()])
    parts = {
        split: datasets.Dataset.from_dict(
            {name: list(values[a:b]) for name, values in columns.items()}, features
        )
        for split, a, b in zip(SIZES, ends, ends[1:], strict=False)
    }
    datasets.DatasetDict(parts).save_to_disk(str(folder))
    return str(folder)


def reader(
    saved_folder: str, inputs: Sequence[str], labels: Sequence[str], group: str | None = None
) -> HuggingFace:
    """Returns a reader of these columns in a data set that `saved_data_set` has saved."""
    return HuggingFace(
        path=saved_folder,
        private="train",
        public="unlabeled",
        inputs=tuple(inputs),
        labels=tuple(labels),
        group=group,
    )


AGES = [float(number) for number in range(24)]


def reader_of_label_lists(folder: Path, feature: Any, tags: list[Any]) -> HuggingFace:
    """Saves ages and lists of labels, and returns their reader."""
    features = datasets.Features({"age": datasets.Value("float64"), "tags": feature})
    path = saved_data_set(
        folder=folder / "saved", columns={"age": AGES, "tags": tags}, features=features
    )
    return reader(saved_folder=path, inputs=["age"], labels=["tags"])


def cells() -> dict[str, Any]:
    """Returns 24 cells of each column: two inputs, two labels and 12 persons with two rows each."""
    rng = np.random.default_rng(0)
    return {
        "age": [float(age) for age in rng.integers(20, 60, size=24)],
        "sex": ["F", "M"] * 12,
        "flu": rng.integers(0, 2, size=24).tolist(),
        "cough": (rng.random(24) < 0.5).tolist(),
        "person": [f"p{number // 2}" for number in range(24)],
    }


@pytest.mark.slow
def test_columns_are_encoded_as_in_a_table(tmp_path: Path) -> None:
    """Columns of a saved data set become features, labels and groups by the rules of tables.

    Numbers are clipped to the public range and standardized, and words are one-hot encoded. Loading writes no file,
    neither into the folder of the data set nor beside it. Public labels may be missing.
    """
    columns = cells()
    path = saved_data_set(folder=tmp_path / "saved", columns=columns)
    before = sorted(each.relative_to(tmp_path) for each in tmp_path.rglob("*"))
    dataset = reader(
        saved_folder=path, inputs=["age", "sex"], labels=["flu", "cough"], group="person"
    ).load()
    assert dataset.label_names == ("flu", "cough")
    assert isinstance(dataset.preprocessing, TableSchema)
    assert dataset.preprocessing.feature_names == ("age", "sex=F", "sex=M", "sex=other")
    public = np.array(columns["age"][12:20])
    expected = (
        np.clip(columns["age"][:12], public.min(), public.max()) - public.mean()
    ) / public.std()
    assert np.allclose(dataset.private.inputs[:, 0], expected, atol=1e-5)
    assert dataset.private.labels[:, 0].tolist() == [bool(bit) for bit in columns["flu"][:12]]
    assert dataset.test.labels[:, 1].tolist() == columns["cough"][20:]
    assert len(np.unique(dataset.private.group_ids)) == 6
    assert dataset.private_cells is not None
    assert dataset.privacy_unit == PrivacyUnit(
        words="one value of the column person, with all its rows", columns=("person",)
    )
    assert sorted(each.relative_to(tmp_path) for each in tmp_path.rglob("*")) == before
    columns["flu"] = [None if 12 <= place < 20 else bit for place, bit in enumerate(columns["flu"])]
    unlabeled = reader(
        saved_folder=saved_data_set(folder=tmp_path / "other", columns=columns),
        inputs=["age", "sex"],
        labels=["flu"],
    ).load()
    assert (dataset.public_labeled, unlabeled.public_labeled) == (True, False)
    assert unlabeled.privacy_unit == PrivacyUnit("one row")


def test_lists_of_numbers_and_lists_of_classes_are_read(tmp_path: Path) -> None:
    """A column of vectors gives inputs, and a column of lists of classes gives one label for each class."""
    vectors = np.random.default_rng(0).standard_normal((24, 3)).astype(np.float32)
    tags = [[0, 2] if place % 2 else [] for place in range(24)]
    names = datasets.ClassLabel(names=["cat", "dog", "tree"])
    features = datasets.Features(
        {"vector": datasets.List(datasets.Value("float32")), "tags": datasets.List(names)}
    )
    path = saved_data_set(
        folder=tmp_path / "saved",
        columns={"vector": vectors.tolist(), "tags": tags},
        features=features,
    )
    dataset = reader(saved_folder=path, inputs=["vector"], labels=["tags"]).load()
    assert dataset.label_names == ("cat", "dog", "tree")
    assert np.allclose(dataset.private.inputs, vectors[:12])
    assert dataset.private.labels.tolist() == [
        [bool(place % 2), False, bool(place % 2)] for place in range(12)
    ]
    order = dataset.published_ids
    assert np.allclose(dataset.public.inputs, vectors[12:20][order])


@pytest.mark.slow
def test_picture_columns_are_read(tmp_path: Path) -> None:
    """A column of pictures gives inputs with the channels first and values between 0 and 1."""
    levels = np.random.default_rng(0).integers(0, 256, size=(24, 8, 8, 3)).astype(np.uint8)
    image = pytest.importorskip("PIL.Image")
    features = datasets.Features({"picture": datasets.Image(), "flu": datasets.Value("int8")})
    columns = {"picture": [image.fromarray(each) for each in levels], "flu": cells()["flu"]}
    path = saved_data_set(folder=tmp_path / "saved", columns=columns, features=features)
    pictures_reader = reader(saved_folder=path, inputs=["picture"], labels=["flu"])
    dataset = replace(pictures_reader, image_size=8).load()
    assert dataset.kind == "images"
    assert dataset.preprocessing == ImageForm(channels=3, height=8, width=8)
    pictures = np.asarray(dataset.private.inputs[np.arange(12)])
    assert np.allclose(pictures, levels[:12].transpose(0, 3, 1, 2) / 255, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (
            partial(replace, inputs=["agee"]),
            refused_parameter("data.inputs", value="agee", rule_words="did you mean age"),
        ),
        (partial(replace, labels=["fluu"]), refused_parameter("data.labels", value="fluu")),
        (partial(replace, inputs=[]), refused_parameter("data.inputs", value="[]")),
        (
            partial(replace, group="sex"),
            refused_parameter("data.group", value="sex"),
        ),
        (
            partial(replace, test="tset"),
            refused_parameter("data.test", value="tset", rule_words="did you mean test"),
        ),
        (partial(replace, test="train"), refused_parameter("data.public", value="unlabeled")),
        (
            partial(replace, labels=["age"]),
            refused_parameter("data.private.age", rule_words="0 or 1 in"),
        ),
        (
            partial(replace, path="nowhere"),
            refused_parameter("data.path", value="nowhere"),
        ),
    ],
)
def test_invalid_data_set_is_refused_in_one_line(
    change: Callable[[HuggingFace], HuggingFace],
    refusal: Refusal,
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    """Unknown columns, splits or folders are refused, and so are an empty list of inputs and unfit columns or splits.

    Unfit are a group with rows in two splits, the same split twice, and a label that holds ages. The refusal is one
    line.
    A missing folder would be loaded from the hub, which has no such data set here.
    """
    monkeypatch.setattr(
        datasets, "load_dataset", lambda *_: (_ for _ in ()).throw(FileNotFoundError("no"))
    )
    path = saved_data_set(folder=tmp_path / "saved", columns=cells())
    with refusal as caught:
        change(reader(saved_folder=path, inputs=["age", "sex"], labels=["flu"])).load()
    assert "\n" not in str(caught.value)


PLACES = {5: 6, 15: 4, 22: 3}  # private, public, test: the row of the split


WRONG_BITS = {
    "int64": ([0, 257, 0], [-1, 0, 0], [0, 127, 1]),
    "float32": ([0, 0.7, 1], [0, float("inf"), 1]),
    "uint8": ([0, 2, 1],),
    "string": (["0", "perhaps", "1"],),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("kind", "wrong"), [(kind, each) for kind, wrong in WRONG_BITS.items() for each in wrong]
)
def test_lists_of_bits_are_checked_like_label_columns(
    kind: str, wrong: Any, place: int, tmp_path: Path
) -> None:
    """A list of bits with a value that is no bit is refused with its row, in any split."""
    rows: list[Any] = [["0", "1", "0"] if kind == "string" else [0, 1, 0] for _ in range(24)]
    rows[place] = wrong
    line = f"tags_[01]: expected 0 or 1 in a label's column, 1 of .* row {PLACES[place]} is the"
    with pytest.raises(InvalidValue, match=line):
        reader_of_label_lists(
            folder=tmp_path, feature=datasets.List(datasets.Value(kind), length=3), tags=rows
        ).load()


@pytest.mark.parametrize(
    ("kind", "no", "yes"),
    [("bool", False, True), ("int8", 0, 1), ("float32", 0.0, 1.0), ("string", "no", "yes")],
)
def test_lists_of_bits_equal_label_columns(kind: str, no: Any, yes: Any, tmp_path: Path) -> None:
    """A column with lists of two bits is read as two labels, `tags_0` and `tags_1`, like two columns of bits.

    Bits may be truth values, whole numbers, floats, or the words "no" and "yes".
    """
    feature = datasets.List(datasets.Value(kind), length=2)
    dataset = reader_of_label_lists(
        folder=tmp_path, feature=feature, tags=[[no, yes], [yes, no]] * 12
    ).load()
    assert dataset.label_names == ("tags_0", "tags_1")
    assert dataset.private.labels.tolist() == [[False, True], [True, False]] * 6


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("wrong", [[-1], [0, -1], [0, None]])
def test_unknown_class_in_a_list_is_refused(wrong: Any, place: int, tmp_path: Path) -> None:
    """A list of classes with an unknown or missing class is refused, in any split."""
    tags: list[Any] = [[number % 3] for number in range(24)]
    tags[place] = wrong
    feature = datasets.List(datasets.ClassLabel(names=["cat", "dog", "tree"]))
    with pytest.raises(
        InvalidValue, match=r"cat: expected 0 or 1 in a label's column, 1 of .* rows hold something"
    ):
        reader_of_label_lists(folder=tmp_path, feature=feature, tags=tags).load()


def test_input_with_the_name_of_a_label_of_a_list_is_refused(tmp_path: Path) -> None:
    """The labels of lists of bits in a column `tags` are `tags_0`, …, so no other column may have such a name."""
    columns = {"tags_1": AGES, "tags": [[0, 1]] * 24}
    features = datasets.Features(
        {
            "tags_1": datasets.Value("float64"),
            "tags": datasets.List(datasets.Value("int8"), length=2),
        }
    )
    path = saved_data_set(tmp_path, columns=columns, features=features)
    with refused_parameter("data.labels", value="tags_1"):
        reader(saved_folder=path, inputs=["tags_1"], labels=["tags"]).load()


@pytest.mark.parametrize(
    ("kind", "gap"), [("int8", None), ("float32", float("nan")), ("string", None)]
)
def test_missing_bits_of_a_list_are_unknown_labels(kind: str, gap: Any, tmp_path: Path) -> None:
    """A missing bit in a list is one unknown label, and a missing list makes all labels of its record unknown."""
    no, yes = ("0", "1") if kind == "string" else (0, 1)
    tags: list[Any] = [[gap, yes], None, *[[no, yes], [yes, no]] * 11]
    feature = datasets.List(datasets.Value(kind), length=2)
    private = reader_of_label_lists(folder=tmp_path, feature=feature, tags=tags).load().private
    assert private.known is not None
    assert private.known[:3].tolist() == [[False, True], [False, False], [True, True]]
    assert private.labels[:3].tolist() == [[False, True], [False, False], [False, True]]
    assert private.known[2:].all()


def test_missing_list_of_classes_makes_all_labels_unknown(tmp_path: Path) -> None:
    """A missing list of classes makes all labels of its record unknown; an empty list means that no label holds."""
    tags: list[Any] = [None, [], *[[0], [1]] * 11]
    feature = datasets.List(datasets.ClassLabel(names=["cat", "dog"]))
    private = reader_of_label_lists(folder=tmp_path, feature=feature, tags=tags).load().private
    assert private.known is not None
    assert private.known[:2].tolist() == [[False, False], [True, True]]
    assert not private.labels[:2].any()


@pytest.mark.slow
@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize(
    ("uncertain", "first"),
    [("missing", (False, False)), ("positive", (True, True)), ("negative", (True, False))],
)
def test_uncertain_bit_follows_the_setting(
    as_list: bool, uncertain: str, first: tuple[bool, bool], tmp_path: Path
) -> None:
    """A label of -1 is refused without the setting `uncertain`; with it, the label is unknown, True or False.

    This holds for a column and for a list of bits. The private digest does not depend on the setting. `first` is
    whether the label is known, and its value.
    """
    bits = [-1, 0, 1] * 8
    columns: dict[str, Any] = {"age": AGES, "flu": [[bit] for bit in bits] if as_list else bits}
    features = None
    if as_list:
        flu = datasets.List(datasets.Value("int64"), length=1)
        features = datasets.Features({"age": datasets.Value("float64"), "flu": flu})
    path = saved_data_set(folder=tmp_path / "saved", columns=columns, features=features)
    data_set = reader(saved_folder=path, inputs=["age"], labels=["flu"])
    with refused_parameter("data.private.flu_0" if as_list else "data.private.flu"):
        data_set.load()
    dataset = replace(data_set, uncertain=uncertain).load()
    private = dataset.private
    assert private.known is not None
    assert (private.known[0, 0], private.labels[0, 0]) == first
    assert private.known[1:3].all()
    assert private.labels[1:3, 0].tolist() == [False, True]
    other = replace(data_set, uncertain="missing").load()
    assert other.private_cells == dataset.private_cells


@pytest.mark.slow
def test_ambiguous_dates_need_the_order_setting(tmp_path: Path) -> None:
    """Dates such as 05.03.2024 are refused without a setting of their order, if none of them has a day above 12.

    They are read with the setting, or as a category. The placeholder 31.12.9999 tells the order as well.
    """
    days = [f"0{1 + row % 9}.03.2024" for row in range(24)]
    days[14] = "31.12.9999"
    bits = [0, 1] * 12
    plain = saved_data_set(folder=tmp_path / "plain", columns={"seen": days, "flu": bits})
    dataset = reader(
        saved_folder=plain, inputs=["seen"], labels=["flu"]
    ).load()  # the last day of a year says the order
    assert isinstance(dataset.preprocessing, TableSchema)
    assert dataset.preprocessing.feature_names == ("seen", "seen=missing")
    remark = (
        "seen: 9999-12-31, in 1 of 8 cells, is far from all other dates and read as a missing cell"
    )
    assert remark in dataset.notes
    days[14] = days[15]
    unclear = reader(
        saved_folder=saved_data_set(
            folder=tmp_path / "unclear", columns={"seen": days, "flu": bits}
        ),
        inputs=["seen"],
        labels=["flu"],
    )
    with refused_parameter("data.public.seen", rule_words="dates whose order"):
        replace(unclear).load()
    column = replace(unclear, date_order="mdy").load().preprocessing.columns[0]  # type: ignore[union-attr]
    assert (column.kind, column.order) == ("date", "mdy")  # type: ignore[union-attr]
    words = replace(unclear, category=("seen",)).load().preprocessing.columns[0]  # type: ignore[union-attr]
    assert words.kind == "category"
