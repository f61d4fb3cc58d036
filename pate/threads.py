"""The number of threads that compute: one for each product of matrices, and blocks of work on all cores.

Threads of one small product wait for each other, and a busy machine lets them wait long. Another number of threads also
adds numbers up in another order, and so changes the last bits of a result. A run therefore computes each product on
one thread, and gives the cores blocks of work (`pate.pool.in_order`) whose bytes do not depend on their number.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING

from pate.device import torch
from pate.pool import pool_of

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Runs a body that uses torch with one thread for each product, as `one_blas_thread`; loads torch first."""
    torch.get_num_threads()  # loads torch: its threads can be limited only then
    with one_blas_thread():
        yield


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Runs its body with one thread for each product of matrices, of torch too if that is loaded.

    Without the package threadpoolctl, which the core does not need, numpy and scipy keep their numbers of threads.
    """
    import scipy.linalg  # noqa: F401 - brings a BLAS of its own, which is limited only once it is loaded

    torch_module = sys.modules.get("torch")
    threads_before = None if torch_module is None else torch_module.get_num_threads()
    if torch_module is not None:
        torch_module.set_num_threads(1)
    libraries = _thread_libraries(len(sys.modules))
    try:
        with nullcontext() if libraries is None else libraries.limit(limits=1):
            yield
    finally:
        if torch_module is not None:
            torch_module.set_num_threads(threads_before)


@contextmanager
def all_cores() -> Iterator[None]:
    """Runs its body with one thread for each product, and blocks of `pate.pool.in_order` on all cores at a time.

    Also decorates functions. The bytes that a body computes do not depend on the number of cores.
    """
    from joblib import cpu_count  # which knows a container's share; loads slowly

    with one_blas_thread(), pool_of(cpu_count(), start=_limit_this_thread):
        yield


def _limit_this_thread() -> None:
    """Limits the calling thread, for libraries that count threads for each caller separately."""
    libraries = _thread_libraries(len(sys.modules))
    if libraries is not None:
        libraries.limit(limits=1)


@lru_cache(maxsize=1)
def _thread_libraries(num_modules: int) -> ThreadpoolController | None:
    """Returns the loaded libraries that run threads, or None without threadpoolctl.

    A search takes a millisecond. More libraries can come only with more modules, so their number is the key of the
    cache.
    """
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
