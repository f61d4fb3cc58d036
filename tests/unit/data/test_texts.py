"""Vectors of texts: functions of a text and the public pool alone, bit for bit, whatever the text is."""

from __future__ import annotations

import csv
import json
import re
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from pate.data import HuggingFace, Table, TableSchema
from pate.data.texts import encoder
from pate.data.texts import vectors as vectors_module
from pate.data.texts.encoder import EncoderVectors
from pate.data.texts.reading import plain_text, word_pattern
from pate.data.texts.tfidf import TfidfVectors
from pate.data.texts.vectors import TextVectors
from pate.data.texts.weights import Weights
from pate.data.texts.word_vectors import StaticVectors
from pate.features import Text
from pate.validation import MissingPackage
from tests.refusals import ANY, Refusal, refused

pytest.importorskip("pyarrow")

SYLLABLES = [
    first + second for first in "bdfgklmnprst" for second in ("a", "e", "i", "o", "un", "ar")
]
SECRET = "zyxwordsecret"


def some_texts(count: int, seed: int) -> list[str]:
    """Words of two syllables, the first ones more often."""
    rng = np.random.default_rng(seed)
    words = [a + b for a in SYLLABLES for b in SYLLABLES[:20]]
    return [
        " ".join(words[int(w)] for w in rng.geometric(0.01, 12) % len(words)) for _ in range(count)
    ]


@pytest.fixture(scope="module")
def fitted() -> TfidfVectors:
    return TfidfVectors.fit(some_texts(400, 0), dimension=24)


def test_a_vector_is_a_function_of_its_text_alone_bit_for_bit_of_length_1_or_0(
    fitted: TfidfVectors,
) -> None:
    texts = [*some_texts(1500, 1), "ba " * 40_000, "", SECRET]
    together = fitted.vectors(texts)
    rng = np.random.default_rng(2)
    order = rng.permutation(len(texts))
    np.testing.assert_array_equal(
        fitted.vectors([texts[place] for place in order]), together[order]
    )
    for place in (*rng.integers(len(texts), size=40).tolist(), len(texts) - 1):
        other = some_texts(int(rng.integers(3)), place)
        np.testing.assert_array_equal(fitted.vectors([*other, texts[place]])[-1], together[place])
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
        (
            "a<STYLE type='x'>p {b: c}</style> d<script>if (x < 2) e()</script>f <style>g",
            ["a", "d", "f", "g"],
        ),
        (
            "\u4f60\u597d\u4e16\u754c, \u4e2d\u6587 ok",
            ["\u4f60\u597d", "\u597d\u4e16", "\u4e16\u754c", "\u4e2d\u6587", "ok"],
        ),
    ],
)
def test_words_are_those_of_a_reader(text: str, words: list[str]) -> None:
    assert re.findall(word_pattern(), plain_text(text)) == words


@pytest.mark.parametrize(
    "text",
    [
        "word " * 2_000_000,
        "x" * 10**7,
        "<" * 10**7,
        "<script>" * 10**6,
        "&" * 10**7,
        "e" + "\u0301\u0323" * 10**6,
    ],
)
def test_huge_texts_take_a_moment(fitted: TfidfVectors, text: str) -> None:
    started = time.process_time()
    assert np.isfinite(fitted.vectors([text])).all()
    assert time.process_time() - started < 5


@pytest.mark.parametrize("texts", [["one"], ["one", "two", "three"], ["", "", ""], []])
def test_a_pool_that_says_nothing_is_refused(texts: list[str]) -> None:
    with refused("data.text", rule="public texts"):
        TfidfVectors.fit(texts)


def write(path: Path, texts: list[str], **columns: list[object]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["note", "size", "ill", *columns])
        for place, text in enumerate(texts):
            writer.writerow(
                [text, place % 7, place % 2, *(column[place] for column in columns.values())]
            )


def table(folder: Path, **settings: object) -> Table:
    files = {split: str(folder / f"{split}.csv") for split in ("private", "public", "test")}
    return Table(**files, labels=("ill",), text=("note",), **settings)  # type: ignore[arg-type]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for seed, (split, count) in enumerate({"private": 90, "public": 120, "test": 30}.items()):
        texts = some_texts(count, seed)
        write(
            tmp_path / f"{split}.csv",
            [f"{text} {SECRET}" if split == "private" else text for text in texts],
        )
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
    assert "of their words are in no public text" in told
    spread = data.public.inputs.var(axis=0)  # of texts together as of all other columns
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
    with refused("file", ANY, "what makes numbers of texts"):
        Table(**settings).load()  # type: ignore[arg-type]
    with refused("data.public.note", rule="'data.text=[note]' makes features of its words"):
        Table(**paths, labels=("ill",)).load()  # type: ignore[arg-type]


def test_what_was_made_is_kept_and_what_was_damaged_is_made_again(files: Path) -> None:
    fit = partial(Text().fit_texts, files / "cache")
    wanted = table(files).load().private.inputs
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
def test_a_file_of_somebody_else_is_refused(
    fitted: TfidfVectors, tmp_path: Path, change: dict[str, object]
) -> None:
    fitted.save(tmp_path / fitted.file)
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
    with refused("file", ANY, "what makes numbers of texts"):
        TextVectors.load(path, remedy="copy it again")
    with refused("file", ANY, "another"):
        TextVectors.load(path, sha256=fitted.digest, remedy="copy it again")


def test_a_cell_larger_than_a_block_is_read_and_no_row_twice(files: Path) -> None:
    texts = [*some_texts(4000, 5), "ba " * 2_000_000, *some_texts(60, 6)]
    write(files / "private.csv", texts, who=list(range(len(texts))))
    for split in ("public", "test"):
        write(
            files / f"{split}.csv",
            some_texts(40, 7),
            who=[f"{split}{place}" for place in range(40)],
        )
    assert len(table(files, id="who").load().private) == len(texts)


def test_lines_of_json_are_a_table_with_lists_of_labels(files: Path) -> None:
    for seed, split in enumerate(("private", "public", "test")):
        rows = [
            {"note": text, "labels": ["flu", "cough"][: place % 3], "sick": place % 2 == 0}
            for place, text in enumerate(some_texts(40, seed))
        ]
        (files / f"{split}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
    paths = {split: str(files / f"{split}.jsonl") for split in ("private", "public", "test")}
    data = Table(**paths, labels=("labels",), label_separator=";", text=("note",)).load()  # type: ignore[arg-type]
    assert data.label_names == ("cough", "flu")
    np.testing.assert_array_equal(data.private.labels[:4], [[0, 0], [0, 1], [1, 1], [0, 0]])
    (files / "test.jsonl").write_text("[1]\n", encoding="utf-8")
    with refused("data.test", ANY, "an object of"):
        Table(**paths, labels=("labels",), label_separator=";", text=("note",)).load()  # type: ignore[arg-type]


def test_a_data_set_of_hugging_face_has_texts(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "note": datasets.Value("string"),
            "labels": datasets.List(datasets.ClassLabel(names=["flu", "cough"])),
        }
    )
    parts = {
        split: datasets.Dataset.from_dict(
            {"note": some_texts(40, seed), "labels": [[0, 1][: place % 3] for place in range(40)]},
            features=features,
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
    with refused("data.id", "name", "another id in each row, 1"):
        table(files, id="name", drop=("who",)).load()


WORDS = [a + b for a in SYLLABLES for b in SYLLABLES[:20]]
PUBLIC = some_texts(300, 0)


def drawn(count: int, size: int) -> np.ndarray:
    return np.random.default_rng(count).normal(size=(count, size)).astype(np.float32)


def glove(path: Path) -> Path:
    """A file as GloVe's: one word has a space, others are capital or accented; the last one no text has."""
    words = [*WORDS, "two words", "Zug", "nichts"]
    lines = [
        f"{word} {' '.join(map(str, row))}\n"
        for word, row in zip(words, drawn(len(words), 16), strict=True)
    ]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def model2vec(folder: Path) -> Path:
    """A folder as model2vec's: pieces of words, rows shared by `mapping`, each with a weight."""
    folder.mkdir()
    tokens = ["[UNK]", *SYLLABLES, *(f"##{syllable}" for syllable in SYLLABLES)]
    model = {"type": "WordPiece", "vocab": {token: row for row, token in enumerate(tokens)}}
    (folder / "tokenizer.json").write_text(json.dumps({"model": model}))
    mapping = np.arange(len(tokens)) // 2
    arrays = {"embeddings": drawn(len(tokens), 16)[: mapping.max() + 1], "mapping": mapping}
    save_file({**arrays, "weights": np.linspace(1, 2, len(tokens))}, folder / "model.safetensors")
    return folder


def onnx_encoder(path: Path) -> Path:
    """A graph from a text to a vector: sums of drawn vectors of its words."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper = onnx.helper
    numpy_helper = onnx.numpy_helper
    kinds = onnx.TensorProto
    places = list(range(len(WORDS)))
    nodes = [
        helper.make_node("StringSplit", ["text"], ["words", "number"]),
        helper.make_node(
            "TfIdfVectorizer",
            ["words"],
            ["c"],
            max_gram_length=1,
            min_gram_length=1,
            max_skip_count=0,
            mode="TF",
            ngram_counts=[0],
            ngram_indexes=places,
            pool_strings=WORDS,
        ),
        helper.make_node("MatMul", ["c", "table"], ["vector"]),
    ]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("text", kinds.STRING, [None])],
        [helper.make_tensor_value_info("vector", kinds.FLOAT, [None, 12])],
        [numpy_helper.from_array(drawn(len(WORDS), 12), "table")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    path.write_bytes(made.SerializeToString())
    return path


MAKERS = {"glove": glove, "model2vec": model2vec, "onnx": onnx_encoder}


@pytest.fixture(params=MAKERS)
def of_weights(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[TextVectors, Path]:
    place = MAKERS[request.param](tmp_path / f"weights{'.onnx' if request.param == 'onnx' else ''}")
    fit = EncoderVectors.fit if request.param == "onnx" else StaticVectors.fit
    return fit(PUBLIC, weights=Weights(place), dimension=8), place


def test_of_a_file_a_vector_is_a_function_of_its_text_alone(
    of_weights: tuple[TextVectors, Path],
) -> None:
    vectors, _ = of_weights
    texts = [*some_texts(200, 1), "", "!?", PUBLIC[0]]
    together = vectors.vectors(texts)
    for place in range(0, 203, 17):
        np.testing.assert_array_equal(
            vectors.vectors([PUBLIC[1], texts[place]])[1], together[place]
        )
    np.testing.assert_allclose(np.linalg.norm(together[:200], axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(together[200], 0)
    assert np.abs(vectors.vectors(PUBLIC).mean(axis=0)).max() < 0.2  # less the public mean


def test_of_a_file_is_read_back_and_names_its_digest(
    of_weights: tuple[TextVectors, Path], tmp_path: Path
) -> None:
    vectors, place = of_weights
    (tmp_path / "out").mkdir()
    vectors.save(tmp_path / "out" / vectors.file)
    moved = place.rename(tmp_path / "elsewhere")
    path = tmp_path / "out" / vectors.file
    read = TextVectors.load(path, sha256=vectors.digest, remedy="copy it again")
    np.testing.assert_array_equal(read.vectors(PUBLIC[:9]), vectors.vectors(PUBLIC[:9]))
    assert read.origin["weights_sha256"] == Weights(moved).sha256
    assert read.origin["num_texts"] == 300
    for name, array in vectors.arrays.items():
        for wrong in (np.zeros(3, array.dtype), array[:-1]):
            made = type(vectors)({**vectors.arrays, name: wrong}, vectors.settings, vectors.origin)
            made.save(tmp_path / made.file)
            with refused("file", ANY, "what makes numbers of texts"):
                TextVectors.load(tmp_path / made.file, remedy="copy it again")


def test_static_vectors_are_means_by_public_frequency(tmp_path: Path) -> None:
    """Worked out by hand: two words, of which every public text has one and a third of them have the other."""
    path = tmp_path / "v.txt"
    path.write_text("3 2\na 1 0\nb 0 1\nc -1 -1\n")
    vectors = StaticVectors.fit(["a b", "a c", "a"] * 10, weights=Weights(path), dimension=2)
    often = 0.3 / 1.3
    rare = 0.3 / (0.3 + 1 / 3)
    raw = np.array([[1, 0], [0, 1], [-1, -1]])
    weights = {
        "a b": [often, rare, 0],
        "a c": [often, 0, rare],
        "a": [often, 0, 0],
        "b b a": [often, rare * (1 + np.log(2)), 0],
    }
    rows = np.stack([np.array(each) @ raw / sum(each) for each in weights.values()])
    rows -= rows[:3].mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = vectors.vectors(list(weights)).astype(np.float64)
    # numbers of 16 bits, directions of their own
    np.testing.assert_allclose(found @ found.T, rows @ rows.T, atol=2e-3)
    assert vectors.count_known(["a b", "c x x"]) == (3, 5)


def test_pieces_of_words_are_the_longest_from_the_left(tmp_path: Path) -> None:
    vectors = StaticVectors.fit(PUBLIC, weights=Weights(model2vec(tmp_path / "m")), dimension=8)
    words = vectors.settings["words"]
    assert [words[place] for place in vectors.pieces_of("baban")] == []
    assert [words[place] for place in vectors.pieces_of("babar")] == ["ba", "##bar"]
    assert vectors.pieces_of("b\u00e1bar") == vectors.pieces_of("babar")
    assert (
        StaticVectors.fit(PUBLIC, weights=Weights(glove(tmp_path / "g.txt"))).pieces_of("zug") != []
    )


def test_a_large_encoder_is_named_and_not_carried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = onnx_encoder(tmp_path / "small.onnx")
    monkeypatch.setattr(encoder, "_SMALL_BYTES", 10)
    vectors = EncoderVectors.fit(PUBLIC, weights=Weights(place))
    (tmp_path / "out").mkdir()
    vectors.save(tmp_path / "out" / vectors.file)
    path = tmp_path / "out" / vectors.file
    assert path.stat().st_size < place.stat().st_size
    with refused("file", ANY, "encoder of SHA-256"):
        TextVectors.load(path, remedy="copy it again")
    content = place.read_bytes()
    (tmp_path / "out" / "small.onnx").write_bytes(content)
    found = TextVectors.load(path, remedy="copy it again").vectors(PUBLIC[:5])
    np.testing.assert_array_equal(found, vectors.vectors(PUBLIC[:5]))
    (tmp_path / "out" / "small.onnx").write_bytes(content[:-1])
    with refused("file", ANY, "another"):
        TextVectors.load(path, remedy="copy it again")


def test_a_folder_of_sentence_transformers_is_asked_a_text_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "modules.json").write_text('[{"type": "sentence_transformers.models.Transformer"}]')
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with refused("features.kind", "encoder", kind=MissingPackage):
        EncoderVectors.fit(PUBLIC, weights=Weights(tmp_path))
    asked: list[int] = []

    class Model:
        def __init__(self, path: str, **settings: object) -> None:
            assert settings["local_files_only"]
            assert settings["model_kwargs"] == {"use_safetensors": True}

        def encode(self, texts: list[str], show_progress_bar: bool) -> np.ndarray:
            asked.append(len(texts))
            return np.array([[text.count("a"), text.count("e"), 3.0] for text in texts])

    monkeypatch.setitem(
        sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Model)
    )
    vectors = EncoderVectors.fit(PUBLIC, weights=Weights(tmp_path))
    assert vectors.dimension == 3
    assert set(asked) == {1}
    assert "model" not in vectors.arrays


def test_an_encoder_of_tokens_means_what_its_graph_says_of_them(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("onnxruntime")
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"[UNK]": 0, **{w: i + 1 for i, w in enumerate(WORDS)}})
    )
    made.model.unk_token = "[UNK]"
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.enable_padding(length=128)
    made.save(str(tmp_path / "tokenizer.json"))
    table = drawn(len(WORDS) + 1, 12)
    helper = onnx.helper
    kinds = onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "encoder",
        [helper.make_tensor_value_info("input_ids", kinds.INT64, [None, None])],
        [helper.make_tensor_value_info("last_hidden_state", kinds.FLOAT, [None, None, 12])],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    (tmp_path / "onnx").mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    (tmp_path / "onnx" / "model.onnx").write_bytes(model.SerializeToString())
    vectors = EncoderVectors.fit(PUBLIC, weights=Weights(tmp_path))
    mean = (
        table[[1 + WORDS.index(word) for word in PUBLIC[0].split()]].astype(np.float64).mean(axis=0)
    )
    np.testing.assert_allclose(
        vectors.encode([PUBLIC[0]])[0], mean / np.linalg.norm(mean), atol=1e-6
    )


@pytest.mark.parametrize(
    ("kind", "name", "content", "refusal"),
    [
        ("static", "v.txt", "", refused("features.weights", ANY, "word vectors")),
        ("static", "v.txt", "a 1 2\nb x y\n", refused("features.weights", ANY, "word vectors")),
        ("static", "v.txt", "a nan 2\nb 1 2\n", refused("features.weights", ANY, "word vectors")),
        (
            "static",
            "model.safetensors",
            "x",
            refused("file", ANY, "tokenizer of"),
        ),
        ("encoder", "e.onnx", "x", refused("features.weights", ANY, ".onnx file, or a folder")),
        (
            "encoder",
            "folder/x",
            "x",
            refused(
                "features.weights",
                ANY,
                ".onnx file, or a folder with model.onnx and tokenizer.json or of sente",
            ),
        ),
        ("encoder", None, "", refused("features.weights", None)),
        ("tfidf", "x", "", refused("features.weights", ANY, "beside features.kind=tfidf")),
    ],
)
def test_weights_that_are_none_are_a_line(
    tmp_path: Path, kind: str, name: str | None, content: str, refusal: Refusal
) -> None:
    pytest.importorskip("onnxruntime")
    path = None
    if name is not None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        path = path.parent if path.parent.name == "folder" else path
    with refusal as caught:
        Text(kind=kind, weights=None if path is None else str(path)).fit_texts(
            tmp_path / "cache", PUBLIC
        )
    assert "\n" not in str(caught.value)


def test_the_owner_is_told_of_few_public_texts_and_of_another_language(files: Path) -> None:
    write(files / "private.csv", ["le chat est parti", " ", "", *(["rien du tout"] * 40)])
    write(files / "public.csv", [*some_texts(50, 1)])
    notes = table(files).load().notes
    assert any(
        "data.public.note: expected 1,000 texts or more, 50 say little of words" in line
        for line in notes
    )
    assert any(
        "100% of their words are in no public text" in line and "2 have no word" in line
        for line in notes
    )


@pytest.mark.process
@pytest.mark.slow
def test_many_texts_are_worked_on_in_other_processes(
    fitted: TfidfVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = some_texts(9000, 4)
    told = list[int]()
    wanted = fitted.vectors(texts)
    monkeypatch.setattr(vectors_module, "_MANY_CHARACTERS", 1)
    np.testing.assert_array_equal(fitted.vectors(texts, told.append), wanted)
    assert told == [4096, 8192, 9000]
