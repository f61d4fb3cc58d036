"""Torch: loaded when it is first used, the device where it works, and on how many threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

from pate.validation import InvalidValue, require_choice

if TYPE_CHECKING:
    import torch as torch  # which others import from here
else:

    class _Torch:
        """Stands for torch, which takes seconds to load: a page of help, a price or a typo starts without it."""

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(import_module("torch"), name)

    torch = _Torch()

_DEVICES = ("auto", "cpu", "cuda")


def require_device(name: str) -> torch.device:
    """The device: "cpu", "cuda", or for "auto" the GPU where there is one; raises `InvalidValue` where it is not."""
    require_choice("device", name, _DEVICES)
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise InvalidValue("device=cuda: expected a GPU that torch can use (or device=auto)")
    return torch.device("cuda" if name != "cpu" and available else "cpu")


class DeviceFull(MemoryError):
    """The GPU's memory does not hold what is asked of it; what was saved before is safe."""


@contextmanager
def device_memory(advice: str) -> Iterator[None]:
    """Runs its body; where the GPU's memory is full, raises `DeviceFull` with advice on what takes less."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        said = ". ".join(str(error).split(". ")[:2])  # the sentences behind them advise on torch's allocator
        raise DeviceFull(f"{said} ({advice})") from error


@contextmanager
def one_thread() -> Iterator[None]:
    """Runs its body on one thread: the matrices are small, and more threads change the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _libraries(len(sys.modules)).limit(limits=1):
            yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _libraries(num_modules: int) -> ThreadpoolController:
    """Those that run threads: the search takes a millisecond, and others come with other modules alone."""
    return ThreadpoolController()
