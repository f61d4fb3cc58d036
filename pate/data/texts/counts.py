"""Counts of words in texts, as sparse matrices."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pate.array_types import FloatArray
from pate.data.texts.blocks import map_blocks
from pate.data.texts.reading import LONGEST_TEXT, plain_text, word_pattern

# 1 + log(count) for counts from 1: a table, so that equal counts have equal bits wherever they stand in an array.
# Normalization may expand a text beyond `LONGEST_TEXT`, so larger counts are possible.
_DAMPED_COUNTS: FloatArray = 1 + np.log(np.arange(1, LONGEST_TEXT + 2))


def count_words(texts: Sequence[str]) -> tuple[list[str], Any]:
    """Returns the distinct words of all texts, sorted, and the number of occurrences of each word in each text.

    Texts are read by `plain_text`: in lower case, without HTML. The counts are a sparse float64 matrix
    `[num_texts, num_words]`.
    """
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(
        preprocessor=plain_text, token_pattern=word_pattern(), dtype=np.float64
    )
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError:  # scikit-learn's word for texts without any word
        return [], csr_matrix((len(texts), 0), dtype=np.float64)
    return vectorizer.get_feature_names_out().tolist(), counts


def damped(counts: FloatArray) -> FloatArray:
    """Returns 1 + log(count) for each count >= 1, so that a word's tenth occurrence adds less than its first.

    It is `sublinear_tf` of scikit-learn.

    Counts beyond 100,001 are taken for 100,001.
    """
    entries = np.minimum(counts.astype(np.int64), len(_DAMPED_COUNTS)) - 1
    return np.asarray(_DAMPED_COUNTS[entries])


def stack_blocks(
    transform_block: Callable[[Sequence[str]], Any],
    texts: Sequence[str],
    *,
    report_progress: Callable[[int], object],
) -> Any:
    """Applies a function to each block of texts, and returns the results as one sparse matrix `[num_texts, d]`.

    Without texts nothing tells d, and the matrix is `[0, 1]`.

    Args:
        transform_block: returns a sparse matrix with d columns and one row for each text of a block.
        texts: all texts.
        report_progress: is called after each block with the number of texts that are done so far.
    """
    from scipy.sparse import csr_matrix, vstack

    blocks = list(map_blocks(transform_block, texts, report_progress=report_progress))
    return vstack(blocks or [csr_matrix((0, 1))], format="csr")
