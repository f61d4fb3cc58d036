"""Blocks of texts that are worked on at once, in this process, in threads or in other processes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

T = TypeVar("T")

Workers = Literal["threads", "processes"]
BLOCK_ROWS = (
    1024  # texts that are worked on at once: their counts fit into memory whatever their length
)


def map_blocks(
    function: Callable[[Any], T],
    texts: Sequence[str],
    *,
    size: int = BLOCK_ROWS,
    advance: Callable[[int], object],
    workers: Workers | None = None,
) -> Iterator[T]:
    """Yields what a function makes of each block of texts, in the order of the texts.

    Args:
        function: takes a sequence of texts; with `workers="processes"` it has to pickle.
        texts: any number of them.
        size: texts of a block.
        advance: is called after each block with the number of texts that are done.
        workers: `threads` or `processes`, one for each core; None works in the caller's thread.
    """
    from joblib import Parallel, cpu_count, delayed

    blocks = [texts[first : first + size] for first in range(0, len(texts), size)]
    num_workers = 1 if workers is None else min(cpu_count(), max(len(blocks), 1))
    pool = Parallel(num_workers, prefer=workers, return_as="generator")
    num_done = 0
    results = pool(delayed(function)(block) for block in blocks)
    for block, result in zip(blocks, results, strict=True):
        num_done += len(block)
        advance(num_done)
        yield result
