"""The number of threads that compute: one thread for each product of matrices, and several products at a time.

Threads of one small product wait for each other, and on a busy machine they wait long. Another number of threads also
adds numbers in another order, which changes the last bits of a result. A run therefore computes each product with one
thread, and distributes blocks of work over the cores (`pate.pool.in_order`). The bytes of a block do not depend on the
number of cores.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from pate.device import torch
from pate.pool import pool_of

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits torch, numpy and scipy to one thread for each product during a `with` block; imports torch first."""
    torch.get_num_threads()  # loads torch: its threads can be limited only then
    with one_blas_thread():
        yield


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limits numpy, scipy and, if it is imported, torch to one thread for each product of matrices, for a `with` block.

    Without the package threadpoolctl, which the core does not need, numpy and scipy are not limited.
    """
    import scipy.linalg  # noqa: F401 - brings a BLAS of its own, which is limited only once it is loaded

    torch_module = sys.modules.get("torch")
    threads_before = None if torch_module is None else torch_module.get_num_threads()
    if torch_module is not None:
        torch_module.set_num_threads(1)
    libraries = _thread_libraries(num_modules=len(sys.modules))
    try:
        with nullcontext() if libraries is None else libraries.limit(limits=1):
            yield
    finally:
        if torch_module is not None:
            torch_module.set_num_threads(threads_before)


@contextmanager
def all_cores() -> Iterator[None]:
    """Lets `pate.pool.in_order` compute on all cores during a `with` block; each matrix product has one thread.

    It can also decorate a function. The bytes of results do not depend on the number of cores.
    """
    # `cpu_count` of joblib knows how many cores a container may use. The import is slow.
    from joblib import cpu_count

    with one_blas_thread(), pool_of(num_threads=cpu_count(), on_thread_start=_limit_this_thread):
        yield


def on_all_cores(compute: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yields `compute(item)` for each item in order. Items are processed in parallel, each on one core.

    So the results do not depend on the number of cores, bit for bit. If torch can use a GPU, items are processed one at
    a time.
    """
    from joblib import cpu_count

    num_workers = 1 if torch.cuda.is_available() else max(1, min(cpu_count(), len(items)))
    # So many items are computed, or wait for the caller to read them.
    num_ahead = 2 * num_workers
    with (
        one_thread(),
        ThreadPoolExecutor(num_workers, initializer=torch.set_num_threads, initargs=(1,)) as pool,
    ):
        futures = [pool.submit(compute, item) for item in items[:num_ahead]]
        try:
            for index in range(len(items)):
                result = futures.pop(0).result()
                if index + num_ahead < len(items):
                    futures.append(pool.submit(compute, items[index + num_ahead]))
                yield result
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _limit_this_thread() -> None:
    """Limits products of matrices in the calling thread to one thread, for as long as the calling thread lives.

    Some libraries keep the number of threads for each calling thread separately.
    """
    libraries = _thread_libraries(num_modules=len(sys.modules))
    if libraries is not None:
        libraries.limit(limits=1)


@lru_cache(maxsize=1)
def _thread_libraries(num_modules: int) -> ThreadpoolController | None:
    """Returns a controller of the imported libraries that run threads; None if threadpoolctl is not installed.

    The search for libraries takes a millisecond, so its result is kept. It can find more libraries only after more
    modules were imported.

    Args:
        num_modules: the number of imported modules; the search is repeated if it differs from that of the last call.
    """
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
