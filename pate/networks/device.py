"""Torch: loaded when it is first used, the device where it works; on how many threads numbers are computed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pate.pool import pool_of
from pate.validation import InvalidValue, require_choice, require_extra

if TYPE_CHECKING:
    import torch as torch  # which others import from here
    from threadpoolctl import ThreadpoolController
else:

    class _Torch:
        """Stands for torch, which takes seconds to load: a page of help, a price or a typo starts without it."""

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            require_extra("torch", "train")
            return getattr(import_module("torch"), name)

    torch = _Torch()

_DEVICES = ("auto", "cpu", "cuda")


def require_device(name: str) -> torch.device:
    """The device: "cpu", "cuda", or for "auto" the GPU where there is one; raises `InvalidValue` where it is not."""
    require_choice("device", name, _DEVICES)
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise InvalidValue("device", "cuda", rule="a GPU that torch can use (or device=auto)")
    return torch.device("cuda" if name != "cpu" and available else "cpu")


class DeviceFull(MemoryError):
    """The GPU's memory does not hold what is asked of it; what was saved before is safe."""


@contextmanager
def device_memory(advice: str) -> Iterator[None]:
    """Runs its body; where the GPU's memory is full, raises `DeviceFull` with advice on what takes less."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        # the sentences behind them advise on torch's allocator
        reason = ". ".join(str(error).split(". ")[:2])
        raise DeviceFull(f"{reason} ({advice})") from error


@contextmanager
def one_thread() -> Iterator[None]:
    """Runs a body that uses torch on one thread: matrices are small, and more threads change the last bits."""
    torch.get_num_threads()  # loads it, or its threads would be counted once it is too late
    with one_blas_thread():
        yield


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Runs its body with one thread for each product, of torch too where that is loaded.

    Threads of one small product wait for each other, and a busy machine lets them wait long; other numbers of threads
    round in another order. Where threadpoolctl is not installed, as with the core alone, numpy decides.
    """
    import scipy.linalg  # noqa: F401 - whose BLAS is another one, and is limited only once it is loaded

    loaded = sys.modules.get("torch")
    before = None if loaded is None else loaded.get_num_threads()
    if loaded is not None:
        loaded.set_num_threads(1)
    libraries = _libraries(len(sys.modules))
    try:
        with nullcontext() if libraries is None else libraries.limit(limits=1):
            yield
    finally:
        if loaded is not None:
            loaded.set_num_threads(before)


@contextmanager
def all_cores() -> Iterator[None]:
    """Runs its body with one thread for each product, and blocks of `pate.pool.in_order` on all cores at a time.

    Also decorates functions. The bytes of what they return do not depend on how many cores there are.
    """
    from joblib import cpu_count  # which knows a container's share; loads slowly

    with one_blas_thread(), pool_of(cpu_count(), start=_on_one_thread):
        yield


def _on_one_thread() -> None:
    """Limits the calling thread, for libraries that count for each thread on its own."""
    if (libraries := _libraries(len(sys.modules))) is not None:
        libraries.limit(limits=1)


@lru_cache(maxsize=1)
def _libraries(num_modules: int) -> ThreadpoolController | None:
    """Those that run threads: the search takes a millisecond, and others come with other modules alone."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
