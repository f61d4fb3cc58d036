"""What is measured, and the floor of each job: the least that any implementation of it has to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import DEFAULT_ORDERS, ComposedEvent, GaussianEvent, RdpAccountant
from pate.accounting.conversion import rdp_to_epsilons
from pate.aggregators import Aggregator, GaussianVotes, StableTopK

NUM_TEACHERS = 800
NUM_LABELS = 40
BLOCK = 16384


@dataclass(frozen=True)
class Job:
    """One measurement.

    Attributes:
        name: for the table.
        run: the job.
        floor: the least work, on the same arrays.
        floor_name: what the floor does.
        rounds: how often both are timed.
    """

    name: str
    run: Callable[[], object]
    floor: Callable[[], object]
    floor_name: str
    rounds: int = 30


def quick_jobs() -> list[Job]:
    """Jobs of milliseconds."""
    return [
        *(_aggregation(name, aggregator, num_queries=600) for name, aggregator in _aggregators().items()),
        *_compositions(),
    ]


def large_jobs() -> list[Job]:
    """Jobs of seconds: a million queries, and what dp-accounting needs for what the quick jobs compose."""
    return [
        *(
            _aggregation(name, aggregator, num_queries=1_000_000, rounds=1)
            for name, aggregator in _aggregators().items()
        ),
        _dp_accounting(),
    ]


def _aggregators() -> dict[str, Aggregator]:
    return {
        "StableTopK gumbel": StableTopK(selection_scale=39.0, test_std=60.0),
        "StableTopK gaussian": StableTopK(selection_noise="gaussian", selection_scale=50.0, test_std=60.0),
        "StableTopK table": StableTopK(selection_scale=160.0, test="table", table_order=4.0, table_budget=5e-3),
        "GaussianVotes": GaussianVotes(noise_std=100.0),
    }


def _aggregation(name: str, aggregator: Aggregator, *, num_queries: int, rounds: int = 30) -> Job:
    votes = np.random.default_rng(0).integers(0, NUM_TEACHERS + 1, size=(num_queries, NUM_LABELS), dtype=np.uint16)
    rng = np.random.default_rng(1)

    def noise_and_sort() -> None:
        for start in range(0, num_queries, BLOCK):
            block = votes[start : start + BLOCK].astype(np.int64)
            rng.standard_normal(block.shape)
            np.sort(block, axis=1)

    return Job(
        name=f"{name}, {num_queries:,} x {NUM_LABELS}",
        run=lambda: aggregator.aggregate(votes, num_teachers=NUM_TEACHERS, rng=rng),
        floor=noise_and_sort,
        floor_name="one noise draw, one sort",
        rounds=rounds,
    )


def _noise_multipliers() -> NDArray[np.float64]:
    return np.random.default_rng(0).uniform(100, 1000, size=100_000)


def _compositions() -> list[Job]:
    """As objects, and as one array."""
    multipliers = _noise_multipliers()
    event = ComposedEvent(tuple(GaussianEvent(float(multiplier)) for multiplier in multipliers))

    def vectorised() -> float:
        rdp = DEFAULT_ORDERS * (1 / (2 * multipliers**2)).sum()
        return float(rdp_to_epsilons(DEFAULT_ORDERS, rdp, target_delta=1e-6).min())

    return [
        Job(name=name, run=run, floor=vectorised, floor_name="the same sum in one array", rounds=5)
        for name, run in (
            ("epsilon of 100,000 different Gaussians", lambda: RdpAccountant().compose(event).get_epsilon(1e-6)),
            ("epsilon of 100,000 different Gaussians, an array", lambda: _array_epsilon(multipliers)),
        )
    ]


def _array_epsilon(multipliers: NDArray[np.float64]) -> float:
    return RdpAccountant().compose(GaussianEvent.composed(multipliers)).get_epsilon(1e-6)


def _dp_accounting() -> Job:
    """The same epsilon by dp-accounting at its own, fewer orders, beside our array in the same run."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant as TheirAccountant

    multipliers = _noise_multipliers()
    event = dp_accounting.ComposedDpEvent([dp_accounting.GaussianDpEvent(float(z)) for z in multipliers])
    return Job(
        name="epsilon of 100,000 different Gaussians, by dp-accounting",
        run=lambda: TheirAccountant().compose(event).get_epsilon(1e-6),
        floor=lambda: _array_epsilon(multipliers),
        floor_name="ours, an array",
        rounds=1,
    )
