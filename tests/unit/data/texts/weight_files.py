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

# The version of the operators in an ONNX graph, and of the format of its file.
_ONNX_OPSET = 20
_ONNX_IR = 9
# The sizes of the vectors in files of word vectors, and in encoders.
_WORD_VECTOR_SIZE = 16
_ENCODER_SIZE = 12


def random_vectors(count: int, size: int) -> Float32Array:
    """Returns normal vectors, `[count, size]`, drawn with the count as the seed."""
    return np.random.default_rng(count).normal(size=(count, size)).astype(np.float32)


def write_glove(path: Path) -> Path:
    """Writes a vector for each word of `WORDS` and for three further words, in the format of GloVe; returns the path.

    One of the further words has a blank, and one has a capital letter. No text of `some_texts` has any of them.
    """
    words = [*WORDS, "two words", "Zug", "nichts"]
    vectors = random_vectors(count=len(words), size=_WORD_VECTOR_SIZE)
    lines = [
        f"{word} {' '.join(map(str, vector))}\n"
        for word, vector in zip(words, vectors, strict=True)
    ]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write_model2vec(folder: Path) -> Path:
    """Writes a model of vectors for pieces of words, in the format of model2vec; returns its folder.

    Pieces share rows of the array `embeddings` in pairs, by the array `mapping`. Each piece has a weight.
    """
    folder.mkdir()
    tokens = ["[UNK]", *SYLLABLES, *(f"##{syllable}" for syllable in SYLLABLES)]
    model = {"type": "WordPiece", "vocab": {token: row for row, token in enumerate(tokens)}}
    (folder / "tokenizer.json").write_text(json.dumps({"model": model}))
    embedding_row_of_token = np.arange(len(tokens)) // 2
    arrays = {
        "embeddings": random_vectors(count=len(tokens), size=_WORD_VECTOR_SIZE)[
            : embedding_row_of_token.max() + 1
        ],
        "mapping": embedding_row_of_token,
        "weights": np.linspace(1, 2, len(tokens)),
    }
    save_file(arrays, folder / "model.safetensors")
    return folder


def write_onnx_encoder(path: Path) -> Path:
    """Writes an ONNX graph that computes the sum of the random vectors of a text's words; returns its path."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper = onnx.helper
    nodes = [
        helper.make_node(op_type="StringSplit", inputs=["text"], outputs=["words", "num_words"]),
        helper.make_node(
            op_type="TfIdfVectorizer",
            inputs=["words"],
            outputs=["counts"],
            max_gram_length=1,
            min_gram_length=1,
            max_skip_count=0,
            mode="TF",
            ngram_counts=[0],
            ngram_indexes=list(range(len(WORDS))),
            pool_strings=WORDS,
        ),
        helper.make_node(op_type="MatMul", inputs=["counts", "table"], outputs=["vector"]),
    ]
    text = helper.make_tensor_value_info(
        name="text", elem_type=onnx.TensorProto.STRING, shape=[None]
    )
    vector = helper.make_tensor_value_info(
        name="vector", elem_type=onnx.TensorProto.FLOAT, shape=[None, _ENCODER_SIZE]
    )
    vector_of_word = random_vectors(count=len(WORDS), size=_ENCODER_SIZE)
    table = onnx.numpy_helper.from_array(vector_of_word, name="table")
    graph = helper.make_graph(
        nodes=nodes, name="encoder", inputs=[text], outputs=[vector], initializer=[table]
    )
    _write_graph(path=path, graph=graph)
    return path


def write_token_encoder(folder: Path) -> Float32Array:
    """Writes a tokenizer of words, and a graph that looks up a vector for each token.

    Returns the table of vectors. Row 0 is that of unknown words, and row `i + 1` that of `WORDS[i]`.
    """
    onnx = pytest.importorskip("onnx")
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("onnxruntime")
    token_numbers = {token: number for number, token in enumerate(["[UNK]", *WORDS])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab=token_numbers))
    tokenizer.model.unk_token = "[UNK]"
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=128)
    tokenizer.save(str(folder / "tokenizer.json"))
    vectors = random_vectors(count=len(token_numbers), size=_ENCODER_SIZE)
    helper = onnx.helper
    node = helper.make_node(
        op_type="Gather", inputs=["table", "input_ids"], outputs=["last_hidden_state"]
    )
    token_ids = helper.make_tensor_value_info(
        name="input_ids", elem_type=onnx.TensorProto.INT64, shape=[None, None]
    )
    token_vectors = helper.make_tensor_value_info(
        name="last_hidden_state",
        elem_type=onnx.TensorProto.FLOAT,
        shape=[None, None, _ENCODER_SIZE],
    )
    table = onnx.numpy_helper.from_array(vectors, name="table")
    graph = helper.make_graph(
        nodes=[node],
        name="encoder",
        inputs=[token_ids],
        outputs=[token_vectors],
        initializer=[table],
    )
    (folder / "onnx").mkdir()
    _write_graph(path=folder / "onnx" / "model.onnx", graph=graph)
    return vectors


def _write_graph(path: Path, graph: Any) -> None:
    """Writes an ONNX graph into a file."""
    import onnx

    opset = onnx.helper.make_opsetid(domain="", version=_ONNX_OPSET)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=_ONNX_IR)
    path.write_bytes(model.SerializeToString())
