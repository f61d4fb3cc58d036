"""Vectors of texts by a sentence encoder: an ONNX graph, or a folder of sentence-transformers.

A small graph is stored in the published model. A large encoder, or one in another format, is published by its name and
digest, and its files must be copied next to the model.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray
from pate.data.fitted_transform import CONTENT_ERRORS
from pate.data.texts.blocks import map_blocks
from pate.data.texts.directions import fixed_point, from_product, principal_directions
from pate.data.texts.reading import evenly_spaced, without_markup
from pate.data.texts.vectors import TextVectors, origin_of_texts
from pate.data.texts.weights import TEXT_WEIGHTS_RULES, TextWeights
from pate.extras import how_to_install
from pate.files.reading import damaged, read_json
from pate.progress import StageOpener, unwatched
from pate.validation import InvalidValue, MissingPackage

# The largest number of public texts to which directions are fitted. Encoders are slow.
_MAX_FITTED_TEXTS = 2000
# The number of tokens that are read of a text, unless the encoder states another.
_MAX_TOKENS = 512
# The largest size of an encoder that is stored in a published model.
_MAX_STORED_BYTES = 100_000_000
# The number of texts that one core encodes between two reports of progress.
_BLOCK_ROWS = 32
# The level of log messages at which onnxruntime prints fatal errors alone.
_FATAL_ERRORS = 4
# The largest number of characters of an error's text in a message.
_MAX_REASON = 200
# The settings of sentence-transformers for the two ways in which vectors of tokens become one vector.
_MEAN_OF_TOKENS = "pooling_mode_mean_tokens"
_FIRST_TOKEN = "pooling_mode_cls_token"

Encode = Callable[[str], NDArray[Any]]
"""A function from one text to its vector `[d]`."""


class EncoderVectors(TextVectors):
    """Vectors of a sentence encoder, projected on the principal directions of the public texts.

    The mean vector of the public texts is subtracted first. Each text is encoded separately, because in a batch the
    other texts would influence the last bits of its vector.
    """

    kind: ClassVar[str] = "encoder"
    worker_kind = "threads"

    @classmethod
    def fit(
        cls,
        texts: Sequence[str],
        open_stage: StageOpener = unwatched,
        *,
        pretrained_files: TextWeights,
        dimension: int = 128,
    ) -> Self:
        """Returns the transform, with mean and directions computed from the encoder's vectors of public texts.

        Args:
            texts: the public texts; at most 2,000 of them, evenly spaced, are used.
            open_stage: opens the stage that reports progress.
            pretrained_files: the files of the encoder.
            dimension: the largest number of directions.

        Raises:
            InvalidValue: the files are no encoder, fewer than two of the used texts are not empty, or all of these have
                the same vector.
            MissingPackage: the package that runs the encoder is not installed.
        """
        sample = evenly_spaced(items=texts, max_items=_MAX_FITTED_TEXTS)
        try:
            arrays, settings = _read_encoder(pretrained_files)
            encoder = cls(
                arrays=arrays, settings=settings, origin={}, pretrained_files=pretrained_files
            )
            encoder.encode(["a text"])  # a mistake is found before threads start
            with open_stage("encoding public texts", len(sample)) as advance:
                blocks = list(
                    map_blocks(
                        encoder.encode,
                        texts=sample,
                        block_size=_BLOCK_ROWS,
                        report_progress=advance,
                        worker_kind=cls.worker_kind,
                    )
                )
        except InvalidValue:
            raise
        except CONTENT_ERRORS as error:
            raise InvalidValue(
                "features.weights",
                pretrained_files.path,
                rule=f"{TEXT_WEIGHTS_RULES['encoder']} ({error})",
            ) from error
        text_vectors = np.concatenate(blocks or [np.zeros((0, 1))])
        center, components = principal_directions(
            text_vectors=text_vectors, max_directions=dimension
        )
        arrays |= {"center": center, "components": components}
        return cls(
            arrays=arrays,
            settings=settings,
            origin=origin_of_texts(texts=sample, pretrained_files=pretrained_files),
            pretrained_files=pretrained_files,
        )

    def is_usable(self) -> bool:
        """Returns True if the arrays and settings that were read from a file fit together.

        Raises:
            DamagedFile: the encoder's files are missing or changed.
        """
        center = self.arrays["center"]
        components = self.arrays["components"]
        if "model" not in self.arrays:
            self._require_encoder()
        if components.ndim != 2 or center.shape != components.shape[:1]:
            return False
        # Except for rounding, directions have length 1, and the center of vectors of length 1 has at most that length.
        # With longer ones products would not be exact.
        squared_length_per_direction = np.square(components).sum(axis=0)
        have_lengths = bool(np.all(squared_length_per_direction < 1.01)) and bool(
            center @ center < 1.01
        )
        has_tokens = 0 < int(self.settings["most_tokens"]) < 2**20
        return len(squared_length_per_direction) > 0 and have_lengths and has_tokens

    def _require_encoder(self) -> None:
        """Raises `DamagedFile` if the encoder's own files are missing, or have another digest than at the fit."""
        encoder = self._pretrained_files
        if encoder.path.exists() and encoder.sha256 == self.settings["sha256"]:
            return
        rule = f"the encoder of SHA-256 {self.settings['sha256']}"
        problem = "it is another" if encoder.path.exists() else "it is gone"
        raise damaged(
            encoder.path, rule, finding=problem, remedy="it is published by name: copy it there"
        )

    @cached_property
    def _pretrained_files(self) -> TextWeights:
        """The files of the encoder; if no setting names them, they lie in the folder of the transform's file."""
        if self.pretrained_files is not None:
            return self.pretrained_files
        folder = (self.path or Path()).parent
        return TextWeights(folder / Path(str(self.settings["name"])).name)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Returns the encoder's vectors of length 1, `[num_texts, d]`; an empty text has the vector 0.

        Raises:
            ImportError: the package that runs the encoder is not installed.
            ValueError: the encoder fails, or its result is not a vector of finite numbers.
        """
        texts_without_markup = [without_markup(text).strip() for text in texts]
        try:
            # Encoders refuse an empty text. A dash replaces it, and its row becomes 0 below.
            text_vectors = np.stack([self._encode(text or "-") for text in texts_without_markup])
            text_vectors = text_vectors.astype(np.float64)
        except ImportError:
            raise
        except Exception as error:  # each runtime has errors of its own
            raise ValueError(f"{type(error).__name__}: {error}"[:_MAX_REASON]) from error
        if text_vectors.ndim != 2 or not np.isfinite(text_vectors).all():
            raise ValueError("it gives no vector of numbers for a text")
        is_empty = np.array([not text for text in texts_without_markup], np.bool_)
        text_vectors[is_empty] = 0
        lengths = np.sqrt(np.square(text_vectors).sum(axis=1, keepdims=True))
        return np.asarray(text_vectors / np.where(lengths > 0, lengths, 1))

    def _unscaled(self, texts: Sequence[str]) -> FloatArray:
        text_vectors = self.encode(texts)
        # The difference of two vectors of length 1 has at most length 2. Exact products need length at most 1.
        centered_rows = np.where(
            text_vectors.any(axis=1, keepdims=True), (text_vectors - self.arrays["center"]) / 2, 0
        )
        return from_product(
            fixed_point(centered_rows) @ fixed_point(values=self.arrays["components"])
        )

    @cached_property
    def _encode(self) -> Encode:
        """The function from one text to its vector `[d]`, which the encoder in the arrays or in its files computes."""
        if self.settings["format"] != "onnx":
            return _sentence_transformer(folder=self._pretrained_files.path)
        if "model" in self.arrays:
            tokenizer = self.arrays.get("tokenizer")
            tokenizer_bytes = None if tokenizer is None else tokenizer.tobytes()
            return _onnx_encoder(
                encoder_graph=self.arrays["model"].tobytes(),
                tokenizer_source=tokenizer_bytes,
                settings=self.settings,
            )
        onnx_path, tokenizer_path = _onnx_files(encoder_path=self._pretrained_files.path)
        return _onnx_encoder(
            encoder_graph=onnx_path, tokenizer_source=tokenizer_path, settings=self.settings
        )


def _sentence_transformer(folder: Path) -> Encode:
    """Returns the function from one text to its vector, by the encoder in a folder of sentence-transformers.

    No code of the folder is executed.
    """
    encoder = _package("sentence_transformers").SentenceTransformer(
        str(folder),
        device="cpu",
        local_files_only=True,
        model_kwargs={"use_safetensors": True},
    )
    lock = Lock()

    def encode_text(text: str) -> NDArray[Any]:
        with lock:  # the tokenizers work only in one thread at a time
            return np.asarray(encoder.encode([text], show_progress_bar=False)[0])

    return encode_text


def _read_encoder(pretrained_files: TextWeights) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Returns the files of an encoder as arrays of bytes, by name, and the settings with which the encoder is run.

    The settings are name, digest and format of the encoder, and the two settings that `_onnx_encoder` takes.
    The arrays are stored in a published model. An encoder has no arrays if it is too large, is spread over several
    files, or is not an ONNX graph that this module can run.

    Raises:
        InvalidValue: the path is neither an ONNX graph nor a folder of an encoder.
    """
    encoder_path = pretrained_files.path
    model_path, tokenizer_path = _onnx_files(encoder_path=encoder_path)
    modules = _read_settings(encoder_path / "modules.json")
    module_types = {str(module["type"]).rpartition(".")[2] for module in modules}
    if model_path is None and not module_types:
        raise InvalidValue("features.weights", encoder_path, rule=TEXT_WEIGHTS_RULES["encoder"])
    pooling = _read_settings(encoder_path / "1_Pooling" / "config.json")
    pooling_modes = {
        name
        for name, is_on in pooling.items()
        if name.startswith("pooling_mode_") and is_on is True
    }
    takes_first_token = pooling_modes == {_FIRST_TOKEN}
    takes_mean = pooling_modes <= {_MEAN_OF_TOKENS}
    has_known_modules = module_types <= {"Transformer", "Pooling", "Normalize"}
    is_onnx = model_path is not None and has_known_modules and (takes_mean or takes_first_token)
    transformer = _read_settings(encoder_path / "sentence_bert_config.json")
    settings = {
        "name": encoder_path.resolve().name,
        "sha256": pretrained_files.sha256,
        "first_token": takes_first_token,
        "most_tokens": int(transformer.get("max_seq_length") or _MAX_TOKENS),
        "format": "onnx" if is_onnx else "sentence_transformers",
    }
    if not is_onnx or model_path is None or _has_weights_beside(model_path):
        return {}, settings
    files = {"model": model_path}
    if tokenizer_path is not None:
        files["tokenizer"] = tokenizer_path
    if sum(path.stat().st_size for path in files.values()) > _MAX_STORED_BYTES:
        return {}, settings
    return {name: np.fromfile(path, np.uint8) for name, path in files.items()}, settings


def _read_settings(path: Path) -> Any:
    """Returns the value in a JSON file of sentence-transformers; an empty dictionary if there is no such file."""
    return read_json(path, remedy="copy it again") if path.is_file() else {}


def _has_weights_beside(model_file: Path) -> bool:
    """Returns True if an ONNX graph stores its weights in further files, whose names begin with the graph's name."""
    return any(file != model_file for file in model_file.parent.glob(f"{model_file.name}*"))


def _onnx_files(encoder_path: Path) -> tuple[Path | None, Path | None]:
    """Returns the paths of an encoder's ONNX graph and of its tokenizer.json; a path is None if there is no such file.

    `encoder_path` is the graph itself, or a folder with `model.onnx` or `onnx/model.onnx`.
    """
    folder = encoder_path if encoder_path.is_dir() else encoder_path.parent
    graphs = (
        (folder / "onnx" / "model.onnx", folder / "model.onnx")
        if encoder_path.is_dir()
        else (encoder_path,)
    )
    tokenizers = (folder / "tokenizer.json", folder.parent / "tokenizer.json")
    graph = next((path for path in graphs if path.is_file()), None)
    tokenizer = next((path for path in tokenizers if path.is_file()), None)
    return graph, tokenizer


def _onnx_encoder(
    encoder_graph: bytes | Path | None,
    tokenizer_source: bytes | Path | None,
    settings: Mapping[str, Any],
) -> Encode:
    """Returns the function from one text to its vector, by an ONNX graph.

    Args:
        encoder_graph: the graph, as bytes or as a file. None, for a missing file, raises an error of onnxruntime.
        tokenizer_source: the content of tokenizer.json, or its path; None for a graph that takes text.
        settings: the settings `most_tokens`, the largest number of tokens of a text, and `first_token`, whether the
            vector of the first token is that of the text.

    Raises:
        ValueError: the graph takes tokens, and there is no tokenizer.
    """
    session = _onnx_session(encoder_graph)
    inputs = session.get_inputs()
    output_names = [output.name for output in session.get_outputs()]
    has_sentences = "sentence_embedding" in output_names
    output_name = "sentence_embedding" if has_sentences else output_names[0]
    if inputs[0].type == "tensor(string)":
        return _encoder_of_text(session, input_name=inputs[0].name, output_name=output_name)
    if tokenizer_source is None:
        raise ValueError("no tokenizer.json beside it")
    return _encoder_of_tokens(
        session,
        input_names=[node.name for node in inputs],
        output_name=output_name,
        tokenizer=_tokenizer(tokenizer_source, max_tokens=settings["most_tokens"]),
        takes_first_token=settings["first_token"],
    )


def _onnx_session(encoder_graph: bytes | Path | None) -> Any:
    """Returns a session of onnxruntime that computes an ONNX graph on one core.

    Args:
        encoder_graph: the graph, as bytes or as a file. None, for a missing file, raises an error of onnxruntime.
    """
    runtime = _package("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = _FATAL_ERRORS
    source = encoder_graph if isinstance(encoder_graph, bytes) else str(encoder_graph)
    return runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _tokenizer(tokenizer_source: bytes | Path, max_tokens: int) -> Any:
    """Returns a tokenizer of the package tokenizers that cuts a text after a number of tokens and does not pad it.

    Args:
        tokenizer_source: the content of tokenizer.json, or the path of this file.
        max_tokens: the largest number of tokens of a text.
    """
    content = (
        tokenizer_source if isinstance(tokenizer_source, bytes) else tokenizer_source.read_bytes()
    )
    loaded = _package("tokenizers").Tokenizer.from_buffer(content)
    loaded.no_padding()
    loaded.enable_truncation(max_length=max_tokens)
    return loaded


def _encoder_of_text(onnx_session: Any, *, input_name: str, output_name: str) -> Encode:
    """Returns the function from one text to its vector, by an ONNX graph that takes the text itself.

    Args:
        onnx_session: the session that computes the graph.
        input_name: the name of the graph's input, which takes an array of texts.
        output_name: the name of the output with a vector for each text.
    """

    def encode(text: str) -> NDArray[Any]:
        (vectors,) = onnx_session.run([output_name], {input_name: np.array([text], object)})
        return np.asarray(vectors[0])

    return encode


def _encoder_of_tokens(
    onnx_session: Any,
    *,
    input_names: Sequence[str],
    output_name: str,
    tokenizer: Any,
    takes_first_token: bool,
) -> Encode:
    """Returns the function from one text to its vector, by an ONNX graph that takes the numbers of tokens.

    Args:
        onnx_session: the session that computes the graph.
        input_names: the names of the graph's inputs: `input_ids`, `attention_mask` or `token_type_ids`.
        output_name: the name of the output, a vector for each text or for each token.
        tokenizer: the tokenizer of the package tokenizers.
        takes_first_token: whether the vector of the first token is that of the text, rather than the mean over tokens.
    """

    def encode(text: str) -> NDArray[Any]:
        encoding = tokenizer.encode(text)
        numbers_of_input = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        input_arrays = {name: np.array([numbers_of_input[name]], np.int64) for name in input_names}
        (output_of_texts,) = onnx_session.run([output_name], input_arrays)
        text_output = output_of_texts[0]
        if text_output.ndim == 1:
            text_vector = text_output
        else:
            token_vectors = text_output
            text_vector = token_vectors[0] if takes_first_token else token_vectors.mean(axis=0)
        return np.asarray(text_vector)

    return encode


def _package(name: str) -> Any:
    """Returns a module that runs encoders; raises `MissingPackage` if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackage(
            "features.kind", "encoder", rule=f"the package {name}: {how_to_install('text')}"
        ) from error
