"""The device on which torch computes, and a stand-in for torch that imports it when it is first used.

Importing torch takes seconds. Modules that may be imported without a computation in torch take the stand-in `torch`
from here. So commands that do not compute with torch, such as `--help`, are fast.
"""

from __future__ import annotations

import sys
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
        """A stand-in for the module torch, which imports torch when an attribute of the stand-in is first read.

        Names that begin with two underscores, such as `__version__`, are no attributes of the stand-in.
        """

        def __getattr__(self, attribute_name: str) -> Any:
            if attribute_name.startswith("__"):
                raise AttributeError(attribute_name)
            # The check of a whole extra is slow, and loops read many names. So it is made before the first import only.
            if sys.modules.get("torch") is None:
                require_extra("torch", extra="train")
            return getattr(import_module("torch"), attribute_name)

    torch = _LazyTorch()

# The names that a setting `device` accepts.
_DEVICES = ("auto", "cpu", "cuda")


def require_device(name: str) -> torch.device:
    """Returns the device "cpu" or "cuda"; "auto" chooses the GPU if torch can use one.

    Raises:
        InvalidValue: the name is unknown, or is "cuda" and torch can use no GPU.
    """
    require_choice("device", name, choices=_DEVICES)
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise InvalidValue("device", "cuda", rule="a GPU that torch can use (or device=auto)")
    return torch.device("cuda" if has_gpu and name != "cpu" else "cpu")


class DeviceFull(MemoryError):
    """An error: the memory of the GPU is too small for a computation. Results that were saved before are not lost."""


@contextmanager
def device_memory(advice: str) -> Iterator[None]:
    """Raises `DeviceFull` if the memory of the GPU becomes full in a `with` block.

    `advice` is the end of the error's message, which says what needs less memory.
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        # Later sentences of torch's message are about other processes and torch's own allocator.
        reason = ". ".join(str(error).split(". ")[:2])
        raise DeviceFull(f"{reason} ({advice})") from error
