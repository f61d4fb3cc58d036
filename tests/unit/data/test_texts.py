"""Vectors of texts: functions of a text and the public pool alone, bit for bit, whatever the text is."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from pate.data import HuggingFace, Table, TableSchema
from pate.data.texts import TextVectors, TfidfVectors, plain_text
from pate.features.text import KeptFit, Text
from pate.validation import InvalidValue

pytest.importorskip("pyarrow")

SYLLABLES = [first + second for first in "bdfgklmnprst" for second in ("a", "e", "i", "o", "un", "ar")]
SECRET = "zyxwordsecret"


def some_texts(count: int, seed: int) -> list[str]:
    """Words of two syllables, the first ones more often."""
    rng = np.random.default_rng(seed)
    words = [a + b for a in SYLLABLES for b in SYLLABLES[:20]]
    return [" ".join(words[int(w)] for w in rng.geometric(0.01, 12) % len(words)) for _ in range(count)]


@pytest.fixture(scope="module")
def fitted() -> TfidfVectors:
    return TfidfVectors.fit(some_texts(400, 0), dimension=24)


def test_a_vector_is_a_function_of_its_text_alone_bit_for_bit(fitted: TfidfVectors) -> None:
    texts = [*some_texts(1500, 1), "ba " * 40_000, "", SECRET]
    together, rng = fitted.vectors(texts), np.random.default_rng(2)
    order = rng.permutation(len(texts))
    np.testing.assert_array_equal(fitted.vectors([texts[place] for place in order]), together[order])
    for place in (*rng.integers(len(texts), size=40).tolist(), len(texts) - 1):
        other = some_texts(int(rng.integers(3)), place)
        np.testing.assert_array_equal(fitted.vectors([*other, texts[place]])[-1], together[place])


def test_vectors_have_length_1_or_nothing_is_known(fitted: TfidfVectors) -> None:
    lengths = np.linalg.norm(fitted.vectors([*some_texts(50, 3), "", "!?", "\u4e2d\u6587"]), axis=1)
    np.testing.assert_allclose(lengths[:50], 1, atol=1e-6)
    np.testing.assert_array_equal(lengths[50:], 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<p class='x'>Caf\u00c9</p>", ["caf\u00e9"]),
        ("cafe\u0301 &amp; &lt;b&gt;", ["caf\u00e9", "b"]),
        ("\uff21\uff22", ["ab"]),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 x", ["\u0939\u093f\u0928\u094d\u0926\u0940", "x"]),
        ("a < b", ["a", "b"]),
    ],
)
def test_words_are_those_of_a_reader(text: str, words: list[str]) -> None:
    import re

    from pate.data.texts import word_pattern

    assert re.findall(word_pattern(), plain_text(text)) == words


@pytest.mark.parametrize(
    "text", ["word " * 2_000_000, "x" * 10**7, "<" * 10**7, "&" * 10**7, "e" + "\u0301\u0323" * 10**6]
)
def test_huge_texts_take_a_moment(fitted: TfidfVectors, text: str) -> None:
    started = time.process_time()
    assert np.isfinite(fitted.vectors([text])).all()
    assert time.process_time() - started < 5


@pytest.mark.parametrize("texts", [["one"], ["one", "two", "three"], ["", "", ""], []])
def test_a_pool_that_says_nothing_is_refused(texts: list[str]) -> None:
    with pytest.raises(
        InvalidValue, match=r"^data\.text: expected (public texts that share words|several public texts)"
    ):
        TfidfVectors.fit(texts)


def write(path: Path, texts: list[str], **columns: list[object]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["note", "size", "ill", *columns])
        for place, text in enumerate(texts):
            writer.writerow([text, place % 7, place % 2, *(column[place] for column in columns.values())])


def table(folder: Path, **settings: object) -> Table:
    files = {split: str(folder / f"{split}.csv") for split in ("private", "public", "test")}
    return Table(**files, labels=("ill",), text=("note",), **settings)  # type: ignore[arg-type]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for seed, (split, count) in enumerate({"private": 90, "public": 120, "test": 30}.items()):
        texts = some_texts(count, seed)
        write(tmp_path / f"{split}.csv", [f"{text} {SECRET}" if split == "private" else text for text in texts])
    return tmp_path


def test_what_is_published_of_texts_holds_no_private_word(files: Path) -> None:
    data = table(files).load()
    out = files / "out"
    out.mkdir()
    assert isinstance(data.preprocessing, TableSchema)
    data.preprocessing.write(out / "schema.yaml")
    assert all(SECRET.encode() not in path.read_bytes() for path in out.iterdir())
    write(files / "private.csv", some_texts(90, 9))
    other = table(files).load()
    assert other.preprocessing is not None
    assert other.preprocessing.plain() == data.preprocessing.plain()
    np.testing.assert_array_equal(other.public.inputs, data.public.inputs)
    told = next(line for line in data.notes if line.startswith("data.private.note"))
    assert "of the first 90 texts" in told
    assert "of their words are none of the public texts" in told


def test_texts_vary_as_much_as_all_other_columns(files: Path) -> None:
    inputs = table(files).load().public.inputs
    spread = inputs.var(axis=0)
    np.testing.assert_allclose(spread[:-1].sum(), spread[-1], rtol=1e-4)


def test_a_schema_of_texts_is_read_back_with_its_file(files: Path) -> None:
    data = table(files).load()
    assert isinstance(data.preprocessing, TableSchema)
    data.preprocessing.write(files / "schema.yaml")
    paths = {split: str(files / f"{split}.csv") for split in ("private", "public", "test")}
    settings = {**paths, "labels": ("ill",), "schema": str(files / "schema.yaml")}
    np.testing.assert_array_equal(Table(**settings).load().private.inputs, data.private.inputs)  # type: ignore[arg-type]
    holder = Table(**settings).private_records()  # type: ignore[arg-type]
    np.testing.assert_array_equal(holder.records.inputs, data.private.inputs)
    (path,) = files.glob("text-*.safetensors")
    path.unlink()
    with pytest.raises(InvalidValue, match=r"text-.*\.safetensors: expected what makes numbers of texts"):
        Table(**settings).load()  # type: ignore[arg-type]


def test_what_was_made_is_kept_and_what_was_damaged_is_made_again(files: Path) -> None:
    fit, wanted = KeptFit(Text(), files / "cache"), table(files).load().private.inputs
    reader = table(files).with_text(fit)
    np.testing.assert_array_equal(reader.load().private.inputs, wanted)
    made = sorted((files / "cache").rglob("*.f32"))
    assert len(made) >= 3
    for path in made:
        path.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\0")
    np.testing.assert_array_equal(table(files).with_text(fit).load().private.inputs, wanted)


@pytest.mark.parametrize(
    "change",
    [
        {"components": np.zeros((3, 2), np.float32)},
        {"components": np.full((0, 24), np.nan, np.float32)},
        {"buckets": np.full(5, 2**30, np.int32)},
        {"idf": np.zeros(0)},
        {"words": ["a", "a"]},
        {"words": None},
        {"kind": "pickle"},
    ],
)
def test_a_file_of_somebody_else_is_refused(fitted: TfidfVectors, tmp_path: Path, change: dict[str, object]) -> None:
    fitted.save(tmp_path)
    path = tmp_path / fitted.file
    with safe_open(path, framework="numpy") as file:
        said = json.loads(file.metadata()["texts"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    for key, value in change.items():
        if isinstance(value, np.ndarray):
            arrays[key] = value
        elif key == "words":
            said["settings"]["words"] = value
        else:
            said[key] = value
    save_file(arrays, path, metadata={"texts": json.dumps(said)})
    with pytest.raises(InvalidValue, match="expected what makes numbers of texts"):
        TextVectors.load(path, remedy="copy it again")
    with pytest.raises(InvalidValue, match="it is another"):
        TextVectors.load(path, sha256=fitted.digest, remedy="copy it again")


def test_a_text_that_nobody_names_says_what_makes_features_of_it(files: Path) -> None:
    plain = Table(**{split: str(files / f"{split}.csv") for split in ("private", "public", "test")}, labels=("ill",))
    with pytest.raises(InvalidValue, match=r"'data\.text=\[note\]' makes features of its words"):
        plain.load()
    with pytest.raises(InvalidValue, match=r"data\.text=ill: expected another column than data\.labels"):
        Table(labels=("ill",), text=("ill",))


def test_a_cell_larger_than_a_block_is_read_and_no_row_twice(files: Path) -> None:
    texts = [*some_texts(4000, 5), "ba " * 2_000_000, *some_texts(60, 6)]
    write(files / "private.csv", texts, who=list(range(len(texts))))
    for split in ("public", "test"):
        write(files / f"{split}.csv", some_texts(40, 7), who=[f"{split}{place}" for place in range(40)])
    assert len(table(files, id="who").load().private) == len(texts)


def test_lines_of_json_are_a_table_with_lists_of_labels(files: Path) -> None:
    for seed, split in enumerate(("private", "public", "test")):
        rows = [
            {"note": text, "labels": ["flu", "cough"][: place % 3], "sick": place % 2 == 0}
            for place, text in enumerate(some_texts(40, seed))
        ]
        (files / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    paths = {split: str(files / f"{split}.jsonl") for split in ("private", "public", "test")}
    data = Table(**paths, labels=("labels",), label_separator=";", text=("note",)).load()  # type: ignore[arg-type]
    assert data.label_names == ("cough", "flu")
    np.testing.assert_array_equal(data.private.labels[:4], [[0, 0], [0, 1], [1, 1], [0, 0]])
    (files / "test.jsonl").write_text("[1]\n", encoding="utf-8")
    with pytest.raises(InvalidValue, match=r"data\.test=.*: expected an object of JSON in each line"):
        Table(**paths, labels=("labels",), label_separator=";", text=("note",)).load()  # type: ignore[arg-type]


def test_a_data_set_of_hugging_face_has_texts(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"note": datasets.Value("string"), "labels": datasets.List(datasets.ClassLabel(names=["flu", "cough"]))}
    )
    parts = {
        split: datasets.Dataset.from_dict(
            {"note": some_texts(40, seed), "labels": [[0, 1][: place % 3] for place in range(40)]}, features=features
        )
        for seed, split in enumerate(("private", "public", "test"))
    }
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "saved"))
    data = HuggingFace(path=str(tmp_path / "saved"), text=("note",), labels=("labels",)).load()
    assert data.label_names == ("flu", "cough")
    wanted = TfidfVectors.fit(some_texts(40, 1)).vectors(some_texts(40, 0))
    np.testing.assert_array_equal(data.private.inputs, wanted)


def test_rows_of_one_id_may_be_of_one_group_alone(files: Path) -> None:
    for split in ("private", "public", "test"):
        count = 40
        names = [f"{split}{place}" for place in range(count)]
        ids = [*names[:-1], names[0]] if split == "private" else names
        groups = [*names[:-1], names[0] if split == "private" else names[-1]]
        write(files / f"{split}.csv", some_texts(count, 8), who=groups, name=ids)
    assert len(set(table(files, id="name", group="who").load().private.record_ids)) == 40
    with pytest.raises(InvalidValue, match=r"data\.id=name: expected another id in each row, 1 of 40 rows of private"):
        table(files, id="name", drop=("who",)).load()
