"""Kinds of text vectors by the names that settings and files use."""

from collections.abc import Mapping
from typing import Any

from pate.data.texts.encoder import EncoderVectors
from pate.data.texts.tfidf import TfidfVectors
from pate.data.texts.word_vectors import StaticVectors

# classes of `TextVectors`, whose methods `fit` take different arguments
TEXT_KINDS: Mapping[str, Any] = {
    vectors.kind: vectors for vectors in (TfidfVectors, StaticVectors, EncoderVectors)
}
