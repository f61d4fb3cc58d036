"""Teachers per second, of our engines and of the loop that a user would write.

Loops run on one thread: on machines of a few cores that is faster than torch's default of several. Ours run on all
cores, as the engine does, by the clock; and on one thread, by the processor's time, which other work on the machine
disturbs less. All take turns, and medians are compared.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch
from joblib import cpu_count

from benchmarks.loops import cnn_loop, logistic_loop, mlp_loop, network_of
from pate.models import (
    CheckpointStore,
    CNNTeacher,
    Engine,
    LinearTeacher,
    MLPTeacher,
    ProcessesEngine,
    Shard,
    Teacher,
    TrainingJob,
)
from pate.threads import one_thread

NUM_LABELS = 40
_SQUARE = 1024
_ROUNDS = 5


@dataclass(frozen=True)
class Race:
    """One kind of teacher, trained by our engine and by a loop."""

    name: str  # for the table
    teacher: Teacher  # ours
    engine: ProcessesEngine  # ours
    parts: list[Shard]  # what ours train on
    # trains on the given parts, one after the other
    loop: Callable[[Sequence[Shard]], None]
    num_looped: int  # number of parts that the loop trains on
    # operations in the products that one teacher needs; 0 where they are not counted
    flops: float = 0.0


@dataclass(frozen=True)
class Result:
    """Teachers per second of a race, and the ratios between engine, loop and matrix products."""

    name: str  # of the race
    engine: float  # of our engine on all cores, checkpoints on disk included
    loop: float  # of the loop
    sgemm_share: float  # of all cores' rate of large matrix products, ours; 0 where nobody counted
    core_ratio: float  # ours over the loop, each on one thread
    core_sgemm_share: float  # of one core's rate of large matrix products, ours on one thread


def races() -> list[Race]:
    """Returns a race for each kind of teacher."""
    images = _parts(count=24, size=200, shape=(3, 32, 32))
    features = _parts(count=256, size=155, shape=(128,))
    cnns = {
        "CNN, one 5 x 5 layer": CNNTeacher(epochs=6, batch_size=50, device="cpu"),
        "CNN, two 3 x 3 layers": CNNTeacher(
            epochs=6, batch_size=50, blocks=2, kernel_size=3, grid=4, device="cpu"
        ),
    }
    mlp = MLPTeacher(device="cpu")
    return [
        *(_cnn_race(name, teacher, parts=images) for name, teacher in cnns.items()),
        Race(
            name="MLP",
            teacher=mlp,
            engine=_engine(),
            parts=features,
            loop=lambda parts: mlp_loop(mlp, parts),
            num_looped=8,
            flops=_mlp_flops(mlp, part=features[0]),
        ),
        Race(
            name="linear",
            teacher=LinearTeacher(device="cpu"),
            engine=_engine(),
            parts=features,
            loop=logistic_loop,
            num_looped=3,
        ),
    ]


def results() -> list[Result]:
    """Runs all races."""
    torch.set_num_threads(1)
    return [_result(race) for race in races()]


def product_rates() -> list[tuple[str, float]]:
    """Returns operations per second on one core, of large products and of the shapes in the CNN's layers."""
    pixels = 50 * 8 * 8
    shapes = [
        (_SQUARE, _SQUARE, _SQUARE),
        (pixels, 48, 32),
        (pixels, 288, 64),
        (pixels, 576, 64),
        (pixels, 800, 64),
    ]
    with one_thread():
        return [
            (f"{m} x {k} x {n}", _core_rate((m, k, n), clock=time.thread_time))
            for m, k, n in shapes
        ]


def _cnn_race(name: str, teacher: CNNTeacher, parts: list[Shard]) -> Race:
    """Returns the race of one kind of CNN."""
    flops = _cnn_flops(teacher, part=parts[0])
    return Race(
        name,
        teacher,
        engine=ProcessesEngine(),
        parts=parts,
        loop=lambda parts: cnn_loop(teacher, parts),
        num_looped=4,
        flops=flops,
    )


def _engine() -> ProcessesEngine:
    return ProcessesEngine(chunk_size=32)


@dataclass(frozen=True)
class Round:
    """Seconds for each teacher, and floating-point operations per second, in one round of a race."""

    engine: float  # by the engine, on all cores
    loop: float  # by the user's loop
    loop_core: float  # by the loop, of one core
    core: float  # by the teacher's own fit, of one core
    rate: float  # of large products on all cores
    core_rate: float  # of large products on one core


def _result(race: Race) -> Result:
    """Runs a race in rounds and takes medians."""
    looped = race.parts[: race.num_looped]
    chunk = race.parts[: 1 if race.teacher.is_isolated else race.engine.chunk_size]
    _train(race.engine, race, race.parts)  # all workers start, and libraries load
    race.loop(race.parts[:1])
    rounds = []
    for _ in range(_ROUNDS):
        engine, _ = _seconds(lambda: _train(race.engine, race, race.parts))
        loop, loop_core = _seconds(lambda: race.loop(looped))
        _, core = _seconds(lambda: race.teacher.fit_many(chunk, seeds=range(len(chunk))))
        rounds.append(
            Round(
                engine=engine / len(race.parts),
                loop=loop / len(looped),
                loop_core=loop_core / len(looped),
                core=core / len(chunk),
                rate=_all_cores_rate(),
                core_rate=_core_rate((_SQUARE,) * 3, clock=time.thread_time),
            )
        )
    engine = median(timing.engine for timing in rounds)
    loop = median(timing.loop for timing in rounds)
    loop_core = median(timing.loop_core for timing in rounds)
    core = median(timing.core for timing in rounds)
    rate = median(timing.rate for timing in rounds)
    core_rate = median(timing.core_rate for timing in rounds)
    sgemm_share = race.flops / engine / rate
    core_sgemm_share = race.flops / core / core_rate
    return Result(
        race.name,
        engine=1 / engine,
        loop=1 / loop,
        sgemm_share=sgemm_share,
        core_ratio=loop_core / core,
        core_sgemm_share=core_sgemm_share,
    )


def _all_cores_rate() -> float:
    """Returns floating-point operations per second in large products, with one thread on each core at once."""
    cores = cpu_count()
    # products do not hold the interpreter's lock
    with one_thread(), ThreadPoolExecutor(cores) as pool:
        return sum(
            pool.map(lambda _: _core_rate((_SQUARE,) * 3, clock=time.perf_counter), range(cores))
        )


def _core_rate(shape: tuple[int, int, int], clock: Callable[[], float]) -> float:
    """Returns operations per second of a matrix product of shape `(rows, inner, columns)` on one core."""
    rows, inner, columns = shape
    left = torch.rand(rows, inner)
    right = torch.rand(inner, columns)
    seconds = []
    for _ in range(12):
        start = clock()
        left @ right
        seconds.append(clock() - start)
    return 2 * rows * inner * columns / median(seconds[2:])


def _train(engine: Engine, race: Race, parts: Sequence[Shard]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = CheckpointStore(Path(folder))
        engine.train(TrainingJob(race.teacher, parts, range(len(parts)), store))


def _parts(count: int, size: int, shape: tuple[int, ...]) -> list[Shard]:
    rng = np.random.default_rng(0)
    return [
        Shard(rng.random((size, *shape), np.float32), rng.random((size, NUM_LABELS)) < 0.2)
        for _ in range(count)
    ]


def _cnn_flops(teacher: CNNTeacher, part: Shard) -> float:
    """Returns the operations of training one teacher: forward and (twice that) backward for each image of each epoch.

    A gradient of the images is not among them.
    Products with zeros at the edges are left out, although a library may do them: a share of the rate is a lower bound.
    """
    network = network_of(teacher, part)
    side = part.inputs.shape[2] // teacher.patch
    weight_shapes = network.weight_shapes
    inside = _inside(side, teacher.kernel_size)
    layers = [
        # the first layer sees patches, without edges
        2.0 * side**2 * channels * inputs * (inside if layer else 1.0)
        for layer, (channels, inputs) in enumerate(weight_shapes)
    ]
    head = 2.0 * NUM_LABELS * network.cells**2 * weight_shapes[-1][0]
    return teacher.epochs * len(part) * (2 * layers[0] + 3 * sum(layers[1:]) + 3 * head)


def _inside(side: int, kernel_size: int) -> float:
    """Returns the share of a kernel's products, over all places of a square, whose input is in the square."""
    offsets = np.arange(kernel_size) - kernel_size // 2
    return float((np.maximum(side - np.abs(offsets), 0).sum() / (side * kernel_size)) ** 2)


def _mlp_flops(teacher: MLPTeacher, part: Shard) -> float:
    hidden = part.inputs.shape[1] * teacher.hidden
    head = teacher.hidden * NUM_LABELS
    return teacher.epochs * len(part) * 2.0 * (2 * hidden + 3 * head)


def _seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Returns seconds by the clock, and those of this process on the processor."""
    start = time.perf_counter()
    start_core = time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - start_core
