"""Where torch works, and on how many threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits

from pate.validation import InvalidValue, require_choice

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
