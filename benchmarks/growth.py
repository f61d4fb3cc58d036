"""Growth of time and memory with records, teachers, queries and labels, next to floors of the same sizes."""

from __future__ import annotations

import math
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from typing import Any

import numpy as np

from pate.accounting import AutoAccountant
from pate.aggregators import CenteredVotes, GaussianVotes, StableTopK, UselessReleaseWarning
from pate.aggregators.record import MemoryRecord
from pate.data import Split
from pate.models.kernel_votes import KernelVotes
from pate.votes.counts import histogram

_MEBIBYTE = 2**20
_INPUTS = 32
_LABELS = 10
_QUERIES = 200
_calls = count()
_MIN_SECONDS = 1e-4  # seconds below which a clock measures nothing reliably


@dataclass(frozen=True)
class Growth:
    """The work at each size, its floor, and the sizes."""

    name: str
    sizes: tuple[int, ...]
    prepare: Callable[[int], Any]
    run: Callable[[Any], object]
    floor: Callable[[Any], object]
    floor_name: str


@dataclass(frozen=True)
class Grown:
    """Processor seconds and MiB at each size, and the floor's seconds at the largest size."""

    growth: Growth
    seconds: tuple[float, ...]
    mebibytes: tuple[float, ...]
    floor: float

    @property
    def exponent(self) -> float:
        """Returns the exponent of time in size, from the middle size to the largest."""
        first, last = self.growth.sizes[-2:]
        seconds_at_first = max(self.seconds[-2], _MIN_SECONDS)
        seconds_at_last = max(self.seconds[-1], _MIN_SECONDS)
        return math.log(seconds_at_last / seconds_at_first) / math.log(last / first)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _records(size: int) -> KernelVotes:
    """Returns kernel votes of `size` private records, each its own teacher."""

    def split(rows: int) -> Split:
        inputs = _rng().normal(size=(rows, _INPUTS)).astype(np.float32)
        return Split(inputs, inputs[:, :_LABELS] > 1, np.arange(rows), np.arange(rows))

    private = split(size)
    return KernelVotes(
        private_split=private,
        teacher_of=np.arange(size),
        num_teachers=size,
        public_split=split(2000),
        num_queries=_QUERIES,
    )


def _rounds(votes: KernelVotes) -> object:
    """Releases centered votes in rounds."""
    return CenteredVotes(noise_multiplier=2.0).release(votes, _rng(), MemoryRecord())


def _products(votes: KernelVotes) -> object:
    """Multiplies inputs and labels once for each of 20 rounds."""
    return [
        votes.private_split.inputs.T @ votes.private_split.labels.astype(np.float32)
        for _ in range(20)
    ]


def _price(num_teachers: int) -> object:
    """Returns the price of Gaussian votes of `num_teachers` teachers."""
    # prices are cached, so each call needs another noise
    aggregator = GaussianVotes(noise_std=100.0 + next(_calls) / 1000)
    event = aggregator.event_for(num_queries=600, num_labels=40, num_teachers=num_teachers)
    return AutoAccountant().compose(event).get_epsilon(target_delta=1e-6)


def _bits(num_teachers: int) -> Any:
    """Returns random votes `[num_teachers, 50, labels]`."""
    return _rng().random((num_teachers, 50, _LABELS), dtype=np.float32) < 0.3


def _counts(num_queries: int) -> Any:
    """Returns random vote counts `[num_queries, labels]`."""
    return _rng().integers(0, 1000, (num_queries, _LABELS))


def _wide(num_labels: int) -> Any:
    """Returns random vote counts `[1000, num_labels]`."""
    return _rng().integers(0, 1000, (1000, num_labels))


def _gaussian(counts: Any) -> object:
    """Releases Gaussian votes."""
    return GaussianVotes(noise_std=100.0).aggregate(counts, num_teachers=1000, rng=_rng())


def _stable(counts: Any) -> object:
    """Releases stable top-k labels."""
    return StableTopK(
        selection_noise="gumbel",
        selection_scale=39.0,
        test="gaussian",
        test_std=60.0,
        failure_prob=1e-12,
    ).aggregate(counts, num_teachers=1000, rng=_rng())


def _normal(counts: Any) -> object:
    return _rng().normal(size=counts.shape)


def _sorted(counts: Any) -> object:
    return np.sort(counts + _rng().normal(size=counts.shape), axis=1)


def _nothing(size: int) -> int:
    return size


def _one_price(_size: int) -> object:
    return _price(num_teachers=1000)


def _sum(bits: Any) -> object:
    return bits.sum(axis=0, dtype=np.int64)


GROWTHS = (
    Growth(
        name="records: a release in 20 rounds",
        sizes=(10**4, 10**5, 10**6),
        prepare=_records,
        run=_rounds,
        floor=_products,
        floor_name="20 products",
    ),
    Growth(
        name="teachers: a price",
        sizes=(10**3, 10**4, 10**5),
        prepare=_nothing,
        run=_price,
        floor=_one_price,
        floor_name="that of 1,000",
    ),
    Growth(
        name="teachers: counting votes",
        sizes=(10**3, 10**4, 10**5),
        prepare=_bits,
        run=histogram,
        floor=_sum,
        floor_name="a sum of bits",
    ),
    Growth(
        name="queries: Gaussian votes",
        sizes=(10**4, 10**5, 10**6),
        prepare=_counts,
        run=_gaussian,
        floor=_normal,
        floor_name="a noise draw",
    ),
    Growth(
        name="labels: stable top-k",
        sizes=(10, 100, 1000),
        prepare=_wide,
        run=_stable,
        floor=_sorted,
        floor_name="a noise draw and a sort",
    ),
)


def _measured(growth: Growth, size: int) -> tuple[float, float, float]:
    """Returns seconds, MiB beyond the inputs, and the floor's seconds; runs in a process of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UselessReleaseWarning)
        tracemalloc.start()
        prepared = growth.prepare(size)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        growth.run(prepared)
        more = (tracemalloc.get_traced_memory()[1] - before) / _MEBIBYTE
        tracemalloc.stop()
        prepared = growth.prepare(size)  # new votes, since votes cache their counts
        started = time.process_time()
        growth.run(prepared)
    took = time.process_time() - started
    started = time.process_time()
    growth.floor(prepared)
    return took, more, time.process_time() - started


def measure_growth() -> list[Grown]:
    """Measures all growths, in some minutes."""
    measured = []
    for growth in GROWTHS:
        rows = []
        for size in growth.sizes:
            with get_context("spawn").Pool(1) as pool:
                rows.append(pool.apply(_measured, (growth, size)))
        measured.append(
            Grown(
                growth,
                seconds=tuple(row[0] for row in rows),
                mebibytes=tuple(row[1] for row in rows),
                floor=rows[-1][2],
            )
        )
    return measured
