"""A pool of threads for blocks of numbers: several blocks at a time where a caller brings one, else one after another.

numpy lets other threads run while it computes. Products of blocks on one thread each, several at a time, use all cores,
and none of them waits for another, as the threads of one small product do. What is made of a block does not depend on
who else computes, and blocks come back in order, so neither does a sum of them.
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
Made = TypeVar("Made")


@dataclass(frozen=True)
class _Pool:
    executor: Executor
    num_threads: int


# Threads of a pool do not see it: a block whose making has blocks of its own makes them one after another.
_POOL: ContextVar[_Pool | None] = ContextVar("pool", default=None)


@contextmanager
def pool_of(num_threads: int, *, start: Callable[[], object] | None = None) -> Iterator[None]:
    """Lets `in_order` in the body make so many items at a time; within another pool that one stays.

    Each of the threads begins by calling `start`.
    """
    if num_threads < 2 or _POOL.get() is not None:
        yield
        return
    with ThreadPoolExecutor(
        num_threads, thread_name_prefix="blocks", initializer=start
    ) as executor:
        token = _POOL.set(_Pool(executor, num_threads))
        try:
            yield
        finally:
            _POOL.reset(token)


def in_order(make: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """Yields what is made of each item, in the order of the items; a few more than there are threads are in memory.

    Without a pool each is made when it is asked for, in the caller's thread. Raises what `make` raises.
    """
    pool = _POOL.get()
    if pool is None:
        yield from map(make, items)
        return
    remaining = iter(items)
    waiting: deque[Future[Made]] = deque()
    try:
        for item in islice(remaining, 2 * pool.num_threads):
            waiting.append(pool.executor.submit(make, item))
        while waiting:
            made = waiting.popleft().result()
            for item in islice(remaining, 1):
                waiting.append(pool.executor.submit(make, item))
            yield made
    finally:
        for future in waiting:
            future.cancel()
        wait(waiting)
