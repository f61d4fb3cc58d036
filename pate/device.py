"""The device of torch: torch is loaded when it is first used, and a GPU without memory gives advice.

Loading torch takes seconds. A module that works with torch imports the stand-in `torch` from here, so that a page of
help, a price or a mistyped setting answers at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pate.extras import require_extra
from pate.validation import InvalidValue, require_choice

if TYPE_CHECKING:
    import torch as torch  # which other modules import from here
else:

    class _LazyTorch:
        """A stand-in for torch, which loads the package when its first name is read."""

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            require_extra("torch", "train")
            return getattr(import_module("torch"), name)

    torch = _LazyTorch()

_DEVICES = ("auto", "cpu", "cuda")


def require_device(name: str) -> torch.device:
    """Returns the device "cpu" or "cuda"; "auto" takes the GPU if torch finds one.

    Raises:
        InvalidValue: another name, or "cuda" without a GPU that torch can use.
    """
    require_choice("device", name, _DEVICES)
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise InvalidValue("device", "cuda", rule="a GPU that torch can use (or device=auto)")
    return torch.device("cuda" if name != "cpu" and available else "cpu")


class DeviceFull(MemoryError):
    """An error: the memory of the GPU is too small for a computation. What was saved earlier is safe."""


@contextmanager
def device_memory(advice: str) -> Iterator[None]:
    """Runs its body; raises `DeviceFull` if the memory of the GPU is full, with advice on what takes less."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        reason = ". ".join(
            str(error).split(". ")[:2]
        )  # later sentences advise on torch's allocator
        raise DeviceFull(f"{reason} ({advice})") from error
