"""Parallel processing of blocks of texts: in this process, in threads or in other processes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

T = TypeVar("T")

Workers = Literal["threads", "processes"]
"""The kinds of workers among which blocks are divided."""

BLOCK_ROWS = 1024
"""The number of texts in a block. The counts of their words fit into memory, whatever the length of the texts."""


def map_blocks(
    function: Callable[[Any], T],
    texts: Sequence[str],
    *,
    block_size: int = BLOCK_ROWS,
    report_progress: Callable[[int], object],
    worker_kind: Workers | None = None,
) -> Iterator[T]:
    """Applies a function to each block of consecutive texts, and yields the results in order.

    Args:
        function: the function of a list of texts. With `worker_kind="processes"` it must be picklable.
        texts: all texts.
        block_size: the number of texts in a block.
        report_progress: is called after each block with the number of texts that are done so far.
        worker_kind: `threads` or `processes`, at most as many as there are cores; None computes in the caller's thread.
    """
    from joblib import Parallel, cpu_count, delayed

    blocks = [texts[first : first + block_size] for first in range(0, len(texts), block_size)]
    num_workers = 1 if worker_kind is None else min(cpu_count(), max(len(blocks), 1))
    pool = Parallel(num_workers, prefer=worker_kind, return_as="generator")
    num_texts_done = 0
    results = pool(delayed(function)(block) for block in blocks)
    for block, result in zip(blocks, results, strict=True):
        num_texts_done += len(block)
        report_progress(num_texts_done)
        yield result
