"""Weights that somebody else has trained on public data: a file of word vectors, or a sentence encoder."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pate.files.digests import file_digest

TEXT_WEIGHTS_RULES = {  # what the setting `features.weights` has to name, by the kind of vectors
    "static": "a file of word vectors such as glove.txt, or a folder with model.safetensors and tokenizer.json",
    "encoder": "an .onnx file, or a folder with model.onnx and tokenizer.json or of sentence-transformers",
}
FILE_RULE = "what makes numbers of texts"


@dataclass(frozen=True)
class TextWeights:
    """Pretrained weights in a file or folder, which are identified by their digest."""

    path: Path

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 digest in hexadecimal: of the file, or of the names and digests of all files in the folder."""
        if self.path.is_file():
            return self._file_digest(self.path)
        files = sorted(path for path in self.path.rglob("*") if path.is_file())
        lines = (
            f"{path.relative_to(self.path).as_posix()}\0{self._file_digest(path)}\n"
            for path in files
        )
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def _file_digest(self, path: Path) -> str:
        return file_digest(path, rule=FILE_RULE, remedy="copy it again")
