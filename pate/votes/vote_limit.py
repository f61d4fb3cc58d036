"""Limiting what one teacher says of one query: to a few votes, whatever the other teachers say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.bool_]

Block = NDArray[np.bool_] | NDArray[np.floating]


def bits_of(block: Block) -> Bits:
    """Votes of a block: bits as they are, confidences of at least a half."""
    return np.asarray(block if block.dtype == np.bool_ else block >= 0.5, dtype=np.bool_)


def limited(block: Block, most: int) -> Bits:
    """Votes `[c, Q, L]` of which each teacher keeps at most `most` a query: its most confident ones.

    Among equals, which all bits are, those that come first in the order of labels that begins with label q mod L in
    query q and goes round. So what a teacher keeps is a function of its own votes alone.
    """
    bits = bits_of(block)
    teacher, query = np.nonzero(np.count_nonzero(bits, axis=-1) > most)
    if len(teacher) == 0:
        return bits
    num_labels = bits.shape[2]
    turned = (query[:, None] + np.arange(num_labels)) % num_labels  # [R, L] labels in the order of the query
    ranked = np.take_along_axis(np.where(bits, block, -1.0)[teacher, query], turned, axis=1)
    chosen = np.argsort(-ranked, axis=1, kind="stable")[:, :most]
    kept = np.zeros((len(teacher), num_labels), dtype=np.bool_)
    np.put_along_axis(kept, np.take_along_axis(turned, chosen, axis=1), True, axis=1)
    fewer = bits.copy()
    fewer[teacher, query] = kept
    return fewer
