"""Columns of texts: their features are fitted to public texts alone, and no private word is published."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pate.data import HuggingFace, Table, TableSchema
from pate.data.texts.tfidf import TfidfVectors
from pate.data.texts.vectors import TextVectors
from pate.features import Text
from tests.refusals import ANY, refused_parameter
from tests.unit.data.texts.syllables import SECRET, some_texts

pytest.importorskip("pyarrow")


def write_notes(
    path: Path, texts: list[str], *, persons: list[str] | None = None, ids: list[str] | None = None
) -> None:
    """Writes a CSV file with a row for each text, to which the function adds a made-up size and a made-up label.

    The columns are `note`, `size` and the label `ill`. If persons or ids are given, one for each text, the columns
    `who` and `name` have them.
    """
    columns = {
        "note": texts,
        "size": [place % 7 for place in range(len(texts))],
        "ill": [place % 2 for place in range(len(texts))],
    }
    if persons is not None:
        columns["who"] = persons
    if ids is not None:
        columns["name"] = ids
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Returns the reader of three files in which each private text has a word that no public text has."""
    private = [f"{text} {SECRET}" for text in some_texts(num_texts=90, seed=0)]
    write_notes(path=tmp_path / "private.csv", texts=private)
    write_notes(path=tmp_path / "public.csv", texts=some_texts(num_texts=120, seed=1))
    write_notes(path=tmp_path / "test.csv", texts=some_texts(num_texts=30, seed=2))
    return Table(
        private=str(tmp_path / "private.csv"),
        public=str(tmp_path / "public.csv"),
        test=str(tmp_path / "test.csv"),
        labels=("ill",),
        text=("note",),
    )


def test_published_files_of_texts_hold_no_private_word(table: Table, tmp_path: Path) -> None:
    """Neither the schema nor the file of vectors has the secret word of the private texts."""
    schema = table.load().preprocessing
    assert isinstance(schema, TableSchema)
    folder = tmp_path / "out"
    folder.mkdir()
    schema.write(folder / "schema.yaml")
    contents = [path.read_bytes() for path in folder.iterdir()]
    assert len(contents) == 2
    assert not any(SECRET.encode() in content for content in contents)


@pytest.mark.slow
def test_vectors_do_not_depend_on_private_texts(table: Table, tmp_path: Path) -> None:
    """Schema and public inputs stay the same if the private texts are replaced."""
    dataset = table.load()
    write_notes(path=tmp_path / "private.csv", texts=some_texts(num_texts=90, seed=9))
    other = table.load()
    assert dataset.preprocessing is not None and other.preprocessing is not None
    assert other.preprocessing.plain() == dataset.preprocessing.plain()
    np.testing.assert_array_equal(other.public.inputs, dataset.public.inputs)


def test_texts_have_the_variance_of_all_other_columns(table: Table) -> None:
    """Over the public rows, the variances of a text column's features sum to the variance of the only other column."""
    *variances_of_text, variance_of_other_column = table.load().public.inputs.var(axis=0)
    np.testing.assert_allclose(sum(variances_of_text), variance_of_other_column, rtol=1e-4)


def test_unknown_words_of_private_texts_are_counted(table: Table) -> None:
    """A remark states which share of the words in the 90 private texts is unknown: too few public texts have them."""
    notes = table.load().notes
    (line,) = (note for note in notes if note.startswith("data.private.note"))
    assert "of the first 90 texts" in line
    assert "of their words are unknown, as too few public texts have them" in line


@pytest.mark.slow
def test_schema_with_text_vectors_survives_a_round_trip(table: Table, tmp_path: Path) -> None:
    """A schema is written together with its vectors, and a reader with this schema alone gives the same inputs."""
    inputs = table.load().private.inputs
    table.public_schema().write(tmp_path / "schema.yaml")
    with_schema = replace(table, text=(), schema=str(tmp_path / "schema.yaml"))
    np.testing.assert_array_equal(with_schema.load().private.inputs, inputs)
    np.testing.assert_array_equal(with_schema.private_records().records.inputs, inputs)


def test_schema_without_its_vector_file_is_refused(table: Table, tmp_path: Path) -> None:
    """A schema is refused if the file of vectors beside it is missing."""
    table.public_schema().write(tmp_path / "schema.yaml")
    (path,) = tmp_path.glob("text-*.safetensors")
    path.unlink()
    with refused_parameter("file", value=ANY, rule_words="what makes numbers of texts"):
        replace(table, text=(), schema=str(tmp_path / "schema.yaml")).load()


def test_column_of_texts_needs_the_text_setting(table: Table) -> None:
    """A column of texts is refused without `data.text`, and the error names this setting."""
    with refused_parameter(
        "data.public.note", rule_words="'data.text=[note]' makes features of its words"
    ):
        replace(table, text=()).load()


@pytest.mark.parametrize(
    ("text", "name"), [((), "data.public.note"), (("note",), "data.text")], ids=["none", "named"]
)
def test_texts_beside_a_schema_need_a_schema_written_anew(
    table: Table, tmp_path: Path, text: tuple[str, ...], name: str
) -> None:
    """A schema whose text column has no vectors is refused, with the setting `data.text` beside it and without.

    The error is about the parameter `name`, and has the command that writes a schema with vectors.
    """
    schema_file = tmp_path / "schema.yaml"
    replace(table, text=()).public_schema().write(schema_file)
    with refused_parameter(name, value=ANY, rule_words="output=NEW.yaml 'text=[note]'"):
        replace(table, text=text, schema=str(schema_file)).load()


@pytest.mark.slow
def test_cached_vectors_are_reused_and_damaged_ones_recomputed(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs are the same without a cache of vectors, with one, and with damaged blocks in it.

    A second load computes no vector. A load with damaged blocks computes them again.
    """
    fit_texts = partial(Text().fit_texts, tmp_path / "cache")
    inputs = table.load().private.inputs
    np.testing.assert_array_equal(table.with_text(fit_texts).load().private.inputs, inputs)
    blocks = sorted((tmp_path / "cache").rglob("*.f32"))
    assert len(blocks) >= 3  # one for each split at least
    computed_texts: list[str] = []
    compute_vectors = TextVectors._scaled

    def record_and_compute(self: TextVectors, texts: list[str]) -> np.ndarray:
        computed_texts.extend(texts)
        return compute_vectors(self, texts)

    monkeypatch.setattr(TextVectors, "_scaled", record_and_compute)
    np.testing.assert_array_equal(table.with_text(fit_texts).load().private.inputs, inputs)
    assert set(computed_texts) <= {"a text"}  # which checks a file of vectors
    whole_contents = [path.read_bytes() for path in blocks]
    float32_zero = b"\0\0\0\0"
    for path in blocks:
        path.write_bytes(path.read_bytes()[: -len(float32_zero)] + float32_zero)
    np.testing.assert_array_equal(table.with_text(fit_texts).load().private.inputs, inputs)
    assert [path.read_bytes() for path in blocks] == whole_contents


@pytest.mark.slow
def test_any_public_text_that_changes_makes_vectors_anew(tmp_path: Path) -> None:
    """Vectors are fitted anew if the second of 20,010 public texts changes.

    That text is not among the 10,000 texts to which the vectors are fitted.
    """
    public_texts = some_texts(num_texts=30, seed=0) * 667
    fit_public_texts = partial(Text(dimension=4).fit_texts, tmp_path / "cache")
    fit_public_texts(public_texts)
    fit_public_texts(public_texts)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    fit_public_texts([public_texts[0], "ba", *public_texts[2:]])
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.slow
def test_text_of_six_megabytes_is_read(table: Table, tmp_path: Path) -> None:
    """All 4,061 rows are read although one text has six megabytes, more than a block of pyarrow has by default."""
    texts = [
        *some_texts(num_texts=4000, seed=5),
        "ba " * 2_000_000,
        *some_texts(num_texts=60, seed=6),
    ]
    persons = [str(place) for place in range(len(texts))]
    write_notes(path=tmp_path / "private.csv", texts=texts, persons=persons)
    for split in ("public", "test"):
        persons = [f"{split}{place}" for place in range(40)]
        write_notes(
            path=tmp_path / f"{split}.csv", texts=some_texts(num_texts=40, seed=7), persons=persons
        )
    assert len(replace(table, id="who").load().private) == len(texts)


def test_json_lines_may_have_texts_and_lists_of_labels(tmp_path: Path) -> None:
    """JSON lines with texts and lists of labels give the listed labels; a line that is no object is refused."""
    for seed, split in enumerate(("private", "public", "test")):
        rows = [
            {"note": text, "labels": ["flu", "cough"][: place % 3], "sick": place % 2 == 0}
            for place, text in enumerate(some_texts(num_texts=40, seed=seed))
        ]
        lines = [json.dumps(row) + "\n" for row in rows]
        (tmp_path / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    table = Table(
        private=str(tmp_path / "private.jsonl"),
        public=str(tmp_path / "public.jsonl"),
        test=str(tmp_path / "test.jsonl"),
        labels=("labels",),
        label_separator=";",
        text=("note",),
    )
    dataset = table.load()
    assert dataset.label_names == ("cough", "flu")
    np.testing.assert_array_equal(dataset.private.labels[:4], [[0, 0], [0, 1], [1, 1], [0, 0]])
    (tmp_path / "test.jsonl").write_text("[1]\n", encoding="utf-8")
    with refused_parameter("data.test", value=ANY, rule_words="an object of"):
        replace(table).load()  # a reader remembers names of columns


@pytest.mark.slow
def test_hugging_face_data_may_have_texts(tmp_path: Path) -> None:
    """The private inputs of a saved data set with texts are those of tf-idf that is fitted to its public texts."""
    datasets = pytest.importorskip("datasets")
    label = datasets.ClassLabel(names=["flu", "cough"])
    features = datasets.Features({"note": datasets.Value("string"), "labels": datasets.List(label)})
    parts = {}
    for seed, split in enumerate(("private", "public", "test")):
        columns = {
            "note": some_texts(num_texts=40, seed=seed),
            "labels": [[0, 1][: place % 3] for place in range(40)],
        }
        parts[split] = datasets.Dataset.from_dict(columns, features=features)
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "saved"))
    data = HuggingFace(path=str(tmp_path / "saved"), text=("note",), labels=("labels",)).load()
    assert data.label_names == ("flu", "cough")
    expected = TfidfVectors.fit(some_texts(num_texts=40, seed=1)).vectors(
        some_texts(num_texts=40, seed=0)
    )
    np.testing.assert_array_equal(data.private.inputs, expected)


@pytest.mark.slow
def test_rows_with_one_id_must_share_a_group(table: Table, tmp_path: Path) -> None:
    """Two private rows with one id are read if they have one group, and refused without a group."""
    texts = some_texts(num_texts=40, seed=8)
    names = [f"a{place}" for place in range(39)]
    repeated = [*names, names[0]]
    write_notes(path=tmp_path / "private.csv", texts=texts, persons=repeated, ids=repeated)
    for split in ("public", "test"):
        names = [f"{split}{place}" for place in range(40)]
        write_notes(path=tmp_path / f"{split}.csv", texts=texts, persons=names, ids=names)
    dataset = replace(table, id="name", group="who").load()
    assert len(set(dataset.private.record_ids)) == 40
    with refused_parameter("data.id", value="name", rule_words="another id in each row, 1"):
        replace(table, id="name", drop=("who",)).load()


def test_few_public_texts_yield_a_remark(table: Table, tmp_path: Path) -> None:
    """A public file of 50 texts gives a remark that at least 1,000 texts are expected."""
    write_notes(path=tmp_path / "public.csv", texts=some_texts(num_texts=50, seed=1))
    remark = "data.public.note: expected 1,000 texts or more, 50 say little of words"
    assert any(remark in note for note in table.load().notes)


def test_private_texts_in_another_language_yield_a_remark(table: Table, tmp_path: Path) -> None:
    """If private texts are in another language than public ones, a remark states that 100% of their words are unknown.

    The remark also counts the texts that have no word outside of HTML's tags, known or unknown.
    """
    texts = ["le chat est parti", " ", "", "<br>", *(["rien du tout"] * 40)]
    write_notes(path=tmp_path / "private.csv", texts=texts)
    (line,) = (note for note in table.load().notes if note.startswith("data.private.note"))
    assert "100% of their words are unknown" in line
    assert "3 have no word" in line
