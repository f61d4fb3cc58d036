"""Torch: loaded late, the device where it works, and on how many threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from pate.validation import InvalidValue, require_choice

if TYPE_CHECKING:
    import torch


class Later:
    """Stands for a module, which is imported at the first name that is read from it."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _module(self) -> ModuleType:
        return import_module(self._name)

    def __getattr__(self, name: str) -> Any:
        """What the module holds under that name."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._module, name)


torch: Any = Later("torch")
functional: Any = Later("torch.nn.functional")


_DEVICES = ("auto", "cpu", "cuda")


def require_device(name: str) -> torch.device:
    """Returns the device: "cpu", "cuda", or for "auto" the GPU where there is one.

    Raises:
        InvalidValue: another name, or "cuda" where torch finds no GPU.
    """
    require_choice("device", name, _DEVICES)
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise InvalidValue("device=cuda: expected a GPU that torch can use (or device=auto)")
    return torch.device("cuda" if name != "cpu" and available else "cpu")


class DeviceFull(MemoryError):
    """The GPU's memory does not hold what is asked of it; what was saved before is safe."""


@contextmanager
def device_memory(advice: str) -> Iterator[None]:
    """Runs its body, and says in one line what takes less where the GPU's memory is full.

    Raises:
        DeviceFull: it is.
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        said = ". ".join(str(error).split(". ")[:2])  # the sentences behind them advise on torch's allocator
        raise DeviceFull(f"{said} ({advice})") from error


@contextmanager
def one_thread() -> Iterator[None]:
    """Runs its body on one thread of torch and of the linear algebra libraries.

    The matrices here are small: more threads cost more than they bring, and change the last bits.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
