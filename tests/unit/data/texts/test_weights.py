"""Vectors of texts from files of word vectors and from encoders of sentences."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from pate.data.texts import encoder
from pate.data.texts.encoder import EncoderVectors
from pate.data.texts.reading import LONGEST_TEXT, plain_text
from pate.data.texts.vectors import TextVectors
from pate.data.texts.weights import TextWeights
from pate.data.texts.word_vectors import StaticVectors
from pate.features import Text
from pate.validation import MissingPackage
from tests.refusals import ANY, Refusal, refused_parameter
from tests.unit.data.texts.syllables import PUBLIC_TEXTS, WORDS, some_texts
from tests.unit.data.texts.weight_files import (
    write_glove,
    write_model2vec,
    write_onnx_encoder,
    write_token_encoder,
)


@pytest.fixture(params=["glove", "model2vec", "onnx"])
def weights_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Returns the path of pretrained weights: word vectors of GloVe, a model of model2vec, or an ONNX encoder."""
    if request.param == "glove":
        return write_glove(tmp_path / "vectors.txt")
    if request.param == "model2vec":
        return write_model2vec(tmp_path / "model")
    return write_onnx_encoder(tmp_path / "encoder.onnx")


@pytest.fixture
def fitted(weights_path: Path) -> TextVectors:
    """Returns vectors that are fitted to public texts, with each kind of weights in turn."""
    kind = EncoderVectors if weights_path.suffix == ".onnx" else StaticVectors
    return kind.fit(PUBLIC_TEXTS, pretrained_files=TextWeights(weights_path), dimension=8)


def test_a_vector_does_not_depend_on_other_texts(fitted: TextVectors) -> None:
    """The vector of a text is the same, bit for bit, among other texts, for each kind of weights."""
    texts = [*some_texts(num_texts=200, seed=1), "", "!?", PUBLIC_TEXTS[0]]
    together = fitted.vectors(texts)
    for index in range(0, 203, 17):
        vector = fitted.vectors([PUBLIC_TEXTS[1], texts[index]])[1]
        np.testing.assert_array_equal(vector, together[index])


def test_vector_is_centered_and_has_length_1(fitted: TextVectors) -> None:
    """Vectors have length 1, and an empty text has the vector 0.

    The mean of the vectors of the public texts differs from 0 by less than 0.2 in each coordinate.
    """
    vectors = fitted.vectors(some_texts(num_texts=200, seed=1))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(fitted.vectors([""]), 0)
    assert np.abs(fitted.vectors(PUBLIC_TEXTS).mean(axis=0)).max() < 0.2


def test_vectors_survive_a_round_trip_with_the_digest_of_weights(
    fitted: TextVectors, weights_path: Path, tmp_path: Path
) -> None:
    """Vectors that were written are read back equal without the file of weights, whose digest they have."""
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / fitted.file
    fitted.save(path)
    moved = weights_path.rename(tmp_path / "elsewhere")
    read = TextVectors.load(path, sha256=fitted.digest, remedy="copy it again")
    np.testing.assert_array_equal(read.vectors(PUBLIC_TEXTS[:9]), fitted.vectors(PUBLIC_TEXTS[:9]))
    assert read.origin["weights_sha256"] == TextWeights(moved).sha256
    assert read.origin["num_texts"] == 300


def test_arrays_of_wrong_shapes_are_refused(fitted: TextVectors, tmp_path: Path) -> None:
    """A file of vectors is refused if an array in it is replaced by a vector of length 3, or lacks its last row."""
    for name, array in fitted.arrays.items():
        for wrong_array in (np.zeros(3, array.dtype), array[:-1]):
            changed_vectors = type(fitted)(
                arrays=fitted.arrays | {name: wrong_array},
                settings=fitted.settings,
                origin=fitted.origin,
            )
            changed_vectors.save(tmp_path / changed_vectors.file)
            with refused_parameter("file", value=ANY, rule_words="what makes numbers of texts"):
                TextVectors.load(tmp_path / changed_vectors.file, remedy="copy it again")


def test_static_vectors_match_hand_computed_weighted_means(tmp_path: Path) -> None:
    """A vector is the mean of its words' vectors, with weights computed by hand, centered and of length 1.

    The word `a` is in every public text, `b` and `c` are in a third each. A word in a share p of the public texts
    weighs 0.3 / (0.3 + p), and 1 + log(n) times as much if it occurs n times in the text.
    The word `x`, which the file lacks, does not count as known.
    """
    path = tmp_path / "vectors.txt"
    path.write_text("3 2\na 1 0\nb 0 1\nc -1 -1\n")
    vectors = StaticVectors.fit(
        ["a b", "a c", "a"] * 10, pretrained_files=TextWeights(path), dimension=2
    )
    weight_of_a = 0.3 / 1.3
    weight_of_b_or_c = 0.3 / (0.3 + 1 / 3)
    word_vectors = np.array([[1, 0], [0, 1], [-1, -1]])  # of a, b and c
    # The first three texts are the public ones.
    weights_of_text = {
        "a b": [weight_of_a, weight_of_b_or_c, 0],
        "a c": [weight_of_a, 0, weight_of_b_or_c],
        "a": [weight_of_a, 0, 0],
        "b b a": [weight_of_a, weight_of_b_or_c * (1 + np.log(2)), 0],
    }
    mean_vectors_of_texts = np.stack(
        [np.array(weights) @ word_vectors / sum(weights) for weights in weights_of_text.values()]
    )
    centered_vectors = mean_vectors_of_texts - mean_vectors_of_texts[:3].mean(axis=0)
    expected_vectors = centered_vectors / np.linalg.norm(centered_vectors, axis=1, keepdims=True)
    fitted_vectors = vectors.vectors(list(weights_of_text)).astype(np.float64)
    # The directions may be rotated, so inner products are compared. The numbers of a vector have 16 bits.
    np.testing.assert_allclose(
        fitted_vectors @ fitted_vectors.T, expected_vectors @ expected_vectors.T, atol=2e-3
    )
    assert vectors.count_known(["a b", "c x x"]) == (3, 5)


def test_pieces_of_words_are_the_longest_from_the_left(tmp_path: Path) -> None:
    """A word without its accents is cut into the longest known pieces from the left.

    A word that cannot be cut into known pieces has no piece.
    """
    weights = TextWeights(write_model2vec(tmp_path / "model"))
    vectors = StaticVectors.fit(PUBLIC_TEXTS, pretrained_files=weights, dimension=8)
    words = vectors.settings["words"]
    assert vectors.piece_indices_of(word="baban") == []
    assert [words[piece] for piece in vectors.piece_indices_of(word="babar")] == ["ba", "##bar"]
    assert vectors.piece_indices_of(word="b\u00e1bar") == vectors.piece_indices_of(word="babar")


def test_text_that_normalization_expands_beyond_the_counts_has_a_vector() -> None:
    """A text of 100,000 letters U+FDFA, each of which is normalized to four words, has a finite vector.

    The four words have five letters lam, so lam occurs more often than the table of counts expects.
    """
    letters = sorted(set(plain_text("\ufdfa")) - {" "})
    num_letters = len(letters)
    vectors = StaticVectors(
        arrays={
            "components": np.eye(num_letters, dtype=np.float16),
            "weights": np.ones(num_letters),
            "center": np.zeros(num_letters),
        },
        settings={"words": letters, "marks": ["", ""]},
        origin={},
    )
    assert np.isfinite(vectors.vectors(["\ufdfa" * LONGEST_TEXT])).all()


def test_words_with_capital_letters_are_found(tmp_path: Path) -> None:
    """A text with the word zug gets the vector of the word Zug in a file of weights."""
    weights = TextWeights(write_glove(tmp_path / "vectors.txt"))
    vectors = StaticVectors.fit(PUBLIC_TEXTS, pretrained_files=weights)
    (index,) = vectors.piece_indices_of(word="zug")
    assert vectors.settings["words"][index] == "Zug"


def test_large_encoder_is_published_by_digest_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder above the limit of size is not part of the published file of vectors.

    Loading this file needs the same encoder beside it, and refuses another encoder.
    """
    original = write_onnx_encoder(tmp_path / "small.onnx")
    monkeypatch.setattr(encoder, "_MAX_STORED_BYTES", 10)
    vectors = EncoderVectors.fit(PUBLIC_TEXTS, pretrained_files=TextWeights(original))
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / vectors.file
    vectors.save(path)
    assert path.stat().st_size < original.stat().st_size
    with refused_parameter("file", value=ANY, rule_words="encoder of SHA-256"):
        TextVectors.load(path, remedy="copy it again")
    encoder_path = path.with_name("small.onnx")
    encoder_path.write_bytes(original.read_bytes())
    read = TextVectors.load(path, remedy="copy it again")
    np.testing.assert_array_equal(read.vectors(PUBLIC_TEXTS[:5]), vectors.vectors(PUBLIC_TEXTS[:5]))
    encoder_path.write_bytes(original.read_bytes()[:-1])
    with refused_parameter("file", value=ANY, rule_words="another"):
        TextVectors.load(path, remedy="copy it again")


def write_sentence_transformer(folder: Path) -> TextWeights:
    """Writes the list of modules of a sentence-transformers model into a folder, and returns the folder as weights."""
    modules = '[{"type": "sentence_transformers.models.Transformer"}]'
    (folder / "modules.json").write_text(modules)
    return TextWeights(folder)


def test_missing_sentence_transformers_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with a model of sentence_transformers is refused if this package is not installed."""
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with refused_parameter("features.kind", value="encoder", kind=MissingPackage):
        EncoderVectors.fit(
            PUBLIC_TEXTS, pretrained_files=write_sentence_transformer(folder=tmp_path)
        )


class LetterCounter:
    """A stand-in for a model of sentence-transformers.

    The vector of a text is its number of letters a, its number of letters e, and the constant 3. The stand-in fails
    unless it is loaded on the CPU, from local safetensors. `batch_sizes` gets the number of texts of each call.
    """

    batch_sizes: ClassVar[list[int]] = []

    def __init__(
        self, path: str, *, device: str, local_files_only: bool, model_kwargs: dict[str, bool]
    ) -> None:
        assert device == "cpu"
        assert local_files_only
        assert model_kwargs == {"use_safetensors": True}

    def encode(self, texts: list[str], show_progress_bar: bool) -> np.ndarray:
        """Returns the vector of each text, `[num_texts, 3]`."""
        self.batch_sizes.append(len(texts))
        return np.array([[text.count("a"), text.count("e"), 3.0] for text in texts])


def test_sentence_transformer_encodes_each_text_separately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of sentence-transformers gets each text alone, on the CPU and from local safetensors.

    The arrays of the fitted vectors do not contain the model.
    """
    batch_sizes: list[int] = []
    monkeypatch.setattr(LetterCounter, "batch_sizes", batch_sizes)
    module = SimpleNamespace(SentenceTransformer=LetterCounter)
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    vectors = EncoderVectors.fit(
        PUBLIC_TEXTS, pretrained_files=write_sentence_transformer(folder=tmp_path)
    )
    assert vectors.dimension == 3
    assert set(batch_sizes) == {1}
    assert "model" not in vectors.arrays


def test_token_encoder_averages_token_vectors(tmp_path: Path) -> None:
    """If an encoder gives a vector for each token, the vector of a text is their mean, scaled to length 1."""
    vector_of_token = write_token_encoder(folder=tmp_path)
    vectors = EncoderVectors.fit(PUBLIC_TEXTS, pretrained_files=TextWeights(tmp_path))
    tokens = [1 + WORDS.index(word) for word in PUBLIC_TEXTS[0].split()]
    mean = vector_of_token[tokens].astype(np.float64).mean(axis=0)
    expected = mean / np.linalg.norm(mean)
    np.testing.assert_allclose(vectors.encode([PUBLIC_TEXTS[0]])[0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "file_name", "content", "refusal"),
    [
        pytest.param(
            "static",
            "vectors.txt",
            "",
            refused_parameter("features.weights", value=ANY, rule_words="word vectors"),
            id="no word vectors",
        ),
        pytest.param(
            "static",
            "vectors.txt",
            "a 1 2\nb x y\n",
            refused_parameter("features.weights", value=ANY, rule_words="word vectors"),
            id="a word vector of letters",
        ),
        pytest.param(
            "static",
            "vectors.txt",
            "a nan 2\nb 1 2\n",
            refused_parameter("features.weights", value=ANY, rule_words="word vectors"),
            id="a word vector with NaN",
        ),
        pytest.param(
            "static",
            "model.safetensors",
            "x",
            refused_parameter("file", value=ANY, rule_words="tokenizer of word vectors"),
            id="a model without a tokenizer",
        ),
        pytest.param(
            "encoder",
            "encoder.onnx",
            "x",
            refused_parameter("features.weights", value=ANY, rule_words=".onnx file, or a folder"),
            id="a file that is no ONNX graph",
            marks=pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs onnxruntime"),
        ),
        pytest.param(
            "tfidf",
            "weights",
            "",
            refused_parameter(
                "features.weights", value=ANY, rule_words="beside features.kind=tfidf"
            ),
            id="weights beside tf-idf",
        ),
    ],
)
def test_a_file_without_weights_is_refused_in_one_line(
    tmp_path: Path, kind: str, file_name: str, content: str, refusal: Refusal
) -> None:
    """A file is refused as weights in one line if it is empty, of another form, or for tf-idf, which needs none."""
    path = tmp_path / file_name
    path.write_text(content)
    with refusal as caught:
        Text(kind=kind, weights=str(path)).fit_texts(tmp_path / "cache", texts=PUBLIC_TEXTS)
    assert "\n" not in str(caught.value)


def test_a_folder_without_an_encoder_is_refused(tmp_path: Path) -> None:
    """A folder without a model is refused as an encoder."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "x").write_text("x")
    rule = ".onnx file, or a folder with model.onnx and tokenizer.json or of sente"
    with refused_parameter("features.weights", value=ANY, rule_words=rule):
        Text(kind="encoder", weights=str(folder)).fit_texts(tmp_path / "cache", texts=PUBLIC_TEXTS)


def test_features_of_an_encoder_need_a_path() -> None:
    """`kind=encoder` without weights is refused."""
    with refused_parameter("features.weights", value=None):
        Text(kind="encoder")
