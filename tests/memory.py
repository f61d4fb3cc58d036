"""The memory that a computation allocates."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MeasuredResult:
    """The result of a computation, and the peak of the memory that it allocated, in bytes."""

    result: Any
    peak_memory: int


def measure_memory(compute: Callable[[], Any]) -> MeasuredResult:
    """Returns what `compute` returns, and the peak of the memory that was allocated during the call."""
    tracemalloc.start()
    try:
        result = compute()
        _, peak_memory = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return MeasuredResult(result=result, peak_memory=peak_memory)
