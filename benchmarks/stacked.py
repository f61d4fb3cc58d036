"""Program `python -m benchmarks.stacked`, which times stacked CNN teachers next to a sequential loop on one device.

Made for a GPU; `--device cpu --num-teachers 4 --num-looped 1` runs the same code without one. The loop trains a few of
the teachers, since its time is proportional to their number; records are on the device before either begins a step.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import numpy as np
import torch
from rich.console import Console

from benchmarks.loops import cnn_loop
from pate.models import CNNTeacher, Shard

_ROUNDS = 3


def main() -> None:
    """Prints a line for each precision."""
    settings = _settings()
    console = Console(width=140)
    teacher = CNNTeacher(
        epochs=settings.epochs, batch_size=50, stacked=True, device=settings.device
    )
    parts = _parts(settings.num_teachers)
    for precision in ("float32", "auto"):
        stacked_rate, loop = _rates(replace(teacher, precision=precision), parts, settings)
        console.print(
            f"{len(parts)} CNN teachers, {precision}, {_device(settings.device)}: stacked {stacked_rate:,.1f} / s, "
            f"loop in float32 {loop:,.1f} / s, ratio {stacked_rate / loop:.1f}"
        )


def _rates(
    teacher: CNNTeacher, parts: list[Shard], settings: argparse.Namespace
) -> tuple[float, float]:
    """Returns teachers per second, stacked and in the loop, which take turns."""
    looped = parts[: settings.num_looped]
    chunk_size = settings.chunk_size
    device = settings.device
    _stacked(teacher, parts[:chunk_size], chunk_size)
    cnn_loop(teacher, parts=looped[:1], device=device)
    pairs = []
    for _ in range(_ROUNDS):
        stacked = _seconds(lambda: _stacked(teacher, parts, chunk_size), device)
        pairs.append(
            (stacked, _seconds(lambda: cnn_loop(teacher, parts=looped, device=device), device))
        )
    stacked_rate, loop = (median(column) for column in zip(*pairs, strict=True))
    return len(parts) / stacked_rate, len(looped) / loop


def _settings() -> argparse.Namespace:
    """Returns the settings of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--num-teachers", type=int, default=800)
    parser.add_argument("--num-looped", type=int, default=8)
    parser.add_argument("--chunk-size", type=int, default=200, help="teachers in one stack")
    parser.add_argument("--epochs", type=int, default=6)
    return parser.parse_args()


def _stacked(teacher: CNNTeacher, parts: list[Shard], chunk_size: int) -> None:
    """Trains all teachers, a stack of `chunk_size` at a time."""
    for first in range(0, len(parts), chunk_size):
        chunk = parts[first : first + chunk_size]
        teacher.fit_many(chunk, seeds=range(first, first + len(chunk)))


def _seconds(call: Callable[[], object], device: str) -> float:
    start = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _parts(count: int) -> list[Shard]:
    rng = np.random.default_rng(0)
    return [
        Shard(rng.random((200, 3, 32, 32), np.float32), rng.random((200, 40)) < 0.2)
        for _ in range(count)
    ]


def _device(device: str) -> str:
    return (
        torch.cuda.get_device_name()
        if device == "cuda"
        else f"{torch.get_num_threads()} thread(s) of the processor"
    )


if __name__ == "__main__":
    main()
