"""A pool of threads that computes several blocks of numbers at a time, and returns the results in order.

Numpy releases the interpreter's lock while it computes, so threads run at the same time. Several products of blocks,
with one thread each, use all cores better than many threads for one small product, which wait for each other. The
result of a block does not depend on the other threads. Results are returned in the order of the blocks, so their sum
does not depend on the number of threads.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class _ThreadPool:
    """The threads that `in_order` uses during a `with` block of `pool_of`."""

    executor: Executor
    num_threads: int


# A context variable is not inherited by the threads of a pool. So blocks within a block are computed one by one.
_THREAD_POOL: ContextVar[_ThreadPool | None] = ContextVar("pool", default=None)


@contextmanager
def pool_of(
    num_threads: int, *, on_thread_start: Callable[[], object] | None = None
) -> Iterator[None]:
    """Lets `in_order` compute in `num_threads` threads during a `with` block, its pool.

    Inside the block of another pool, that pool stays in use.

    Args:
        num_threads: the number of threads; fewer than two make no pool.
        on_thread_start: is called by each thread when it begins; None calls nothing.
    """
    if num_threads < 2 or _THREAD_POOL.get() is not None:
        yield
        return
    with ThreadPoolExecutor(
        num_threads, thread_name_prefix="blocks", initializer=on_thread_start
    ) as executor:
        token = _THREAD_POOL.set(_ThreadPool(executor, num_threads=num_threads))
        try:
            yield
        finally:
            _THREAD_POOL.reset(token)


def in_order(compute: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yields `compute(item)` for each item, in the order of the items.

    In a block of `pool_of`, its threads compute, and at most twice as many results as threads are computed ahead.
    Otherwise, a result is computed in the caller's thread when it is requested. An exception of `compute` is raised in
    the caller.
    """
    pool = _THREAD_POOL.get()
    if pool is None:
        yield from map(compute, items)
        return
    remaining_items = iter(items)
    waiting: deque[Future[Result]] = deque()
    try:
        for item in islice(remaining_items, 2 * pool.num_threads):
            waiting.append(pool.executor.submit(compute, item))
        while waiting:
            result = waiting.popleft().result()
            for item in islice(remaining_items, 1):
                waiting.append(pool.executor.submit(compute, item))
            yield result
    finally:
        for future in waiting:
            future.cancel()
        wait(waiting)
