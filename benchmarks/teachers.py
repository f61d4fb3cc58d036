"""Teachers a second, ours and those of the loop that a user would write, all on the cores of this machine in turn.

The loops train one teacher after the other on one thread with torch's or scikit-learn's own parts: on machines of a few
cores that is faster than their default of several threads.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from joblib import cpu_count
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.nn import functional

from pate.networks import ConvNet, one_thread
from pate.teachers import CheckpointStore, CNNTeacher, Engine, LinearTeacher, MLPTeacher, Part, ProcessesEngine, Teacher

NUM_LABELS = 40
_SGEMM = 1024


@dataclass(frozen=True)
class Race:
    """One kind of teacher.

    Attributes:
        name: for the table.
        teacher: ours.
        engine: ours.
        parts: what ours train on.
        loop: trains on the parts that it is given, one after the other.
        num_looped: how many parts it is given.
        flops: of one teacher's products; 0 where nobody counts them.
    """

    name: str
    teacher: Teacher
    engine: Engine
    parts: list[Part]
    loop: Callable[[Sequence[Part]], None]
    num_looped: int
    flops: float = 0.0


@dataclass(frozen=True)
class Result:
    """Teachers a second.

    Attributes:
        name: of the race.
        ours: of our engine, checkpoints on disk included.
        loop: of the loop.
        sgemm_share: of the machine's rate of matrix products, ours; 0 where nobody counted.
    """

    name: str
    ours: float
    loop: float
    sgemm_share: float


def races() -> list[Race]:
    """The kinds of teachers."""
    cnn = CNNTeacher(epochs=6, batch_size=50, device="cpu")
    mlp = MLPTeacher(device="cpu")
    images, features = _parts(24, 200, (3, 32, 32)), _parts(256, 155, (128,))
    return [
        Race("CNN", cnn, ProcessesEngine(), images, lambda parts: _cnn_loop(cnn, parts), 6, _cnn_flops(cnn, 200)),
        Race("MLP", mlp, ProcessesEngine(chunk_size=32), features, lambda parts: _mlp_loop(mlp, parts), 8),
        Race("linear", LinearTeacher(device="cpu"), ProcessesEngine(chunk_size=32), features, _logistic_loop, 3),
    ]


def results() -> list[Result]:
    """Runs all races."""
    torch.set_num_threads(1)
    return [_result(race) for race in races()]


def _result(race: Race) -> Result:
    ours, loop, gemm = [], [], []
    _train(race, race.parts[: 2 * cpu_count()])  # workers start, and libraries load
    race.loop(race.parts[:1])
    for _ in range(3):
        ours.append(_seconds(lambda: _train(race, race.parts)) / len(race.parts))
        loop.append(_seconds(lambda: race.loop(race.parts[: race.num_looped])) / race.num_looped)
        gemm.append(sgemm_rate())
    best = float(np.median(ours))
    return Result(race.name, 1 / best, 1 / float(np.median(loop)), race.flops / best / float(np.median(gemm)))


def sgemm_rate() -> float:
    """Floating-point operations a second in large products, one thread on each core at once."""
    cores = cpu_count()
    with one_thread(), ThreadPoolExecutor(cores) as pool:  # products do not hold the interpreter's lock
        return sum(pool.map(lambda _: _core_rate(), range(cores)))


def _core_rate() -> float:
    left, right = torch.rand(_SGEMM, _SGEMM), torch.rand(_SGEMM, _SGEMM)
    seconds = [_seconds(lambda: left @ right) for _ in range(12)][2:]
    return 2 * _SGEMM**3 / float(np.median(seconds))


def _train(race: Race, parts: Sequence[Part]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = CheckpointStore(Path(folder))
        race.engine.train(race.teacher, parts.__getitem__, len(parts), range(len(parts)), store)


def _parts(count: int, size: int, shape: tuple[int, ...]) -> list[Part]:
    rng = np.random.default_rng(0)
    return [Part(rng.random((size, *shape), np.float32), rng.random((size, NUM_LABELS)) < 0.2) for _ in range(count)]


def _cnn_flops(teacher: CNNTeacher, records: int) -> float:
    """Forward, and backward twice that, but no gradient of the images."""
    network = ConvNet((3, 32, 32), NUM_LABELS, teacher.width, teacher.blocks, teacher.patch, teacher.grid)
    pixels = (32 // teacher.patch) ** 2
    layers = [2.0 * pixels * channels * inputs for channels, inputs in network.kernels]
    head = 2.0 * NUM_LABELS * teacher.grid**2 * network.kernels[-1][0]
    return teacher.epochs * records * (2 * layers[0] + 3 * sum(layers[1:]) + 3 * head)


def _cnn_loop(teacher: CNNTeacher, parts: Sequence[Part]) -> None:
    for part in parts:
        width = teacher.width
        layers: list[nn.Module] = [nn.Conv2d(3, width, teacher.patch, stride=teacher.patch, bias=False)]
        layers += [nn.GroupNorm(width // 8, width), nn.ReLU()]
        for block in range(teacher.blocks):
            channels = width if block == 0 else 2 * width
            layers += [nn.Conv2d(channels, 2 * width, 3, padding=1, bias=False)]
            layers += [nn.GroupNorm(2 * width // 8, 2 * width), nn.ReLU()]
        head = nn.Linear(2 * width * teacher.grid**2, NUM_LABELS)
        _fit(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(teacher.grid), nn.Flatten(), head), part, teacher)


def _mlp_loop(teacher: MLPTeacher, parts: Sequence[Part]) -> None:
    for part in parts:
        hidden = nn.Linear(part.inputs.shape[1], teacher.hidden)
        _fit(nn.Sequential(hidden, nn.ReLU(), nn.Linear(teacher.hidden, NUM_LABELS)), part, teacher)


def _fit(model: nn.Module, part: Part, teacher: CNNTeacher | MLPTeacher) -> None:
    inputs, labels = torch.from_numpy(part.inputs), torch.from_numpy(part.labels.astype(np.float32))
    optimiser = torch.optim.AdamW(model.parameters(), lr=teacher.learning_rate, weight_decay=teacher.weight_decay)
    for _ in range(teacher.epochs):
        for rows in torch.randperm(len(inputs)).split(teacher.batch_size):
            loss = functional.binary_cross_entropy_with_logits(model(inputs[rows]), labels[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def _logistic_loop(parts: Sequence[Part]) -> None:
    for part in parts:
        for column in part.labels.T:
            LogisticRegression().fit(part.inputs, column)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
