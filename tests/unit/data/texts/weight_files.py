"""Small files of word vectors and encoders, as other programs write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from pate.array_types import Float32Array
from tests.unit.data.texts.syllables import SYLLABLES, WORDS

_ONNX_OPSET = 20
_ONNX_IR = 9


def random_vectors(count: int, size: int) -> Float32Array:
    """Returns random vectors, `[count, size]`, whose seed is the count."""
    return np.random.default_rng(count).normal(size=(count, size)).astype(np.float32)


def write_glove(path: Path) -> Path:
    """Writes word vectors as GloVe does: one word has a blank, one a capital letter; no text has the last word."""
    words = [*WORDS, "two words", "Zug", "nichts"]
    lines = [
        f"{word} {' '.join(map(str, row))}\n"
        for word, row in zip(words, random_vectors(count=len(words), size=16), strict=True)
    ]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write_model2vec(folder: Path) -> Path:
    """Writes a model as model2vec does: pieces of words, rows shared by `mapping`, and a weight for each row."""
    folder.mkdir()
    tokens = ["[UNK]", *SYLLABLES, *(f"##{syllable}" for syllable in SYLLABLES)]
    model = {"type": "WordPiece", "vocab": {token: row for row, token in enumerate(tokens)}}
    (folder / "tokenizer.json").write_text(json.dumps({"model": model}))
    mapping = np.arange(len(tokens)) // 2
    arrays = {
        "embeddings": random_vectors(count=len(tokens), size=16)[: mapping.max() + 1],
        "mapping": mapping,
        "weights": np.linspace(1, 2, len(tokens)),
    }
    save_file(arrays, folder / "model.safetensors")
    return folder


def write_onnx_encoder(path: Path) -> Path:
    """Writes an ONNX graph from a text to the sum of random vectors of its words."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper = onnx.helper
    nodes = [
        helper.make_node("StringSplit", ["text"], ["words", "number"]),
        helper.make_node(
            "TfIdfVectorizer",
            ["words"],
            ["counts"],
            max_gram_length=1,
            min_gram_length=1,
            max_skip_count=0,
            mode="TF",
            ngram_counts=[0],
            ngram_indexes=list(range(len(WORDS))),
            pool_strings=WORDS,
        ),
        helper.make_node("MatMul", ["counts", "table"], ["vector"]),
    ]
    text = helper.make_tensor_value_info("text", onnx.TensorProto.STRING, [None])
    vector = helper.make_tensor_value_info("vector", onnx.TensorProto.FLOAT, [None, 12])
    table = onnx.numpy_helper.from_array(random_vectors(count=len(WORDS), size=12), "table")
    _write_graph(path, helper.make_graph(nodes, "encoder", [text], [vector], [table]))
    return path


def write_token_encoder(folder: Path) -> Float32Array:
    """Writes a tokenizer of words, and a graph that looks up a vector for each token.

    Returns the table of vectors; row 0 is for unknown words, row n + 1 for the n-th of `WORDS`.
    """
    onnx = pytest.importorskip("onnx")
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("onnxruntime")
    places = {"[UNK]": 0, **{word: place + 1 for place, word in enumerate(WORDS)}}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(places))
    tokenizer.model.unk_token = "[UNK]"
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=128)
    tokenizer.save(str(folder / "tokenizer.json"))
    vectors = random_vectors(count=len(WORDS) + 1, size=12)
    helper = onnx.helper
    node = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    ids = helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, [None, None])
    states = helper.make_tensor_value_info(
        "last_hidden_state", onnx.TensorProto.FLOAT, [None, None, 12]
    )
    table = onnx.numpy_helper.from_array(vectors, "table")
    (folder / "onnx").mkdir()
    graph = helper.make_graph([node], "encoder", [ids], [states], [table])
    _write_graph(folder / "onnx" / "model.onnx", graph)
    return vectors


def _write_graph(path: Path, graph: Any) -> None:
    """Writes an ONNX graph into a file."""
    import onnx

    opset = onnx.helper.make_opsetid("", _ONNX_OPSET)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=_ONNX_IR)
    path.write_bytes(model.SerializeToString())
