"""Vectors by tf-idf depend on a text and the public texts alone, bit for bit, whatever the text is."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from pate.data.texts import vectors as vectors_module
from pate.data.texts.tfidf import TfidfVectors
from pate.data.texts.vectors import TextVectors
from tests.refusals import ANY, refused_parameter
from tests.unit.data.texts.syllables import SECRET, some_texts


@pytest.fixture(scope="module")
def fitted() -> TfidfVectors:
    """Returns vectors of 24 features, fitted to 400 texts."""
    return TfidfVectors.fit(some_texts(num_texts=400, seed=0), dimension=24)


@pytest.mark.slow
def test_a_vector_does_not_depend_on_other_texts(fitted: TfidfVectors) -> None:
    """The vector of a text is the same, bit for bit, in another order and among other texts."""
    texts = [*some_texts(num_texts=1500, seed=1), "ba " * 40_000, "", SECRET]
    vectors_of_texts = fitted.vectors(texts)
    rng = np.random.default_rng(2)
    order = rng.permutation(len(texts))
    vectors_of_shuffled_texts = fitted.vectors([texts[index] for index in order])
    np.testing.assert_array_equal(vectors_of_shuffled_texts, vectors_of_texts[order])
    for index in (*rng.integers(len(texts), size=40).tolist(), len(texts) - 1):
        other_texts = some_texts(num_texts=int(rng.integers(3)), seed=index)
        vector = fitted.vectors([*other_texts, texts[index]])[-1]
        np.testing.assert_array_equal(vector, vectors_of_texts[index])


def test_a_vector_has_length_1(fitted: TfidfVectors) -> None:
    """The vectors of 50 texts have length 1."""
    lengths = np.linalg.norm(fitted.vectors(some_texts(num_texts=50, seed=3)), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)


@pytest.mark.parametrize("text", ["", "!?", "\u4e2d\u6587"])
def test_text_of_unknown_words_has_vector_0(fitted: TfidfVectors, text: str) -> None:
    """A text without known words has the vector 0."""
    np.testing.assert_array_equal(fitted.vectors([text]), 0)


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
    ids=["words", "letters", "brackets", "scripts", "entities", "marks"],
)
def test_huge_text_takes_less_than_a_bounded_time(fitted: TfidfVectors, text: str) -> None:
    """A text of two to ten million characters, in an adverse form, takes under five seconds."""
    started = time.process_time()
    assert np.isfinite(fitted.vectors([text])).all()
    assert time.process_time() - started < 5


@pytest.mark.parametrize("texts", [["one"], ["one", "two", "three"], ["", "", ""], []])
def test_public_texts_without_a_common_word_are_refused(texts: list[str]) -> None:
    """Public texts of which no two share a word are refused."""
    with refused_parameter("data.text", rule_words="public texts"):
        TfidfVectors.fit(texts)


def write_changed(vectors: TfidfVectors, path: Path, key: str, value: Any) -> None:
    """Writes the file of vectors with an array, the words or the kind replaced."""
    vectors.save(path)
    with safe_open(path, framework="numpy") as file:
        head = json.loads(file.metadata()["texts"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    if isinstance(value, np.ndarray):
        arrays[key] = value
    elif key == "words":
        head["settings"]["words"] = value
    else:
        head[key] = value
    save_file(arrays, path, metadata={"texts": json.dumps(head)})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("components", np.zeros((3, 2), np.float32)),
        ("components", np.full((0, 24), np.nan, np.float32)),
        ("buckets", np.full(5, 2**30, np.int32)),
        ("idf", np.zeros(0)),
        ("words", ["a", "a"]),
        ("words", None),
        ("kind", "pickle"),
    ],
)
def test_altered_file_is_refused(
    fitted: TfidfVectors, tmp_path: Path, key: str, value: Any
) -> None:
    """A file of vectors with other words, another array or another kind is refused.

    If the digest of the original file is given, the file is refused as another one.
    """
    path = tmp_path / fitted.file
    write_changed(vectors=fitted, path=path, key=key, value=value)
    with refused_parameter("file", value=ANY, rule_words="what makes numbers of texts"):
        TextVectors.load(path, remedy="copy it again")
    with refused_parameter("file", value=ANY, rule_words="another"):
        TextVectors.load(path, sha256=fitted.digest, remedy="copy it again")


@pytest.mark.process
@pytest.mark.slow
def test_many_texts_are_processed_in_other_processes(
    fitted: TfidfVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other processes compute the vectors of 9,000 texts in blocks as this process does, and progress is reported."""
    texts = some_texts(num_texts=9000, seed=4)
    expected = fitted.vectors(texts)
    monkeypatch.setattr(vectors_module, "_MANY_CHARACTERS", 1)
    counts_done: list[int] = []
    np.testing.assert_array_equal(fitted.vectors(texts, counts_done.append), expected)
    assert counts_done == [4096, 8192, 9000]
