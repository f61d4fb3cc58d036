"""Sessions of target charging: ten thousand charges, the price of a session with ten thousand hits, and its noise."""

from __future__ import annotations

import numpy as np

from benchmarks.jobs import Job
from pate.accounting.pure_dp import pure_dp_composition_epsilon
from pate.accounting.target_charging import TargetCharging, best_session_price, boundary
from pate.mechanisms import DiscreteLaplace

NUM_CALLS = 10_000


def session_jobs() -> list[Job]:
    """Returns jobs of milliseconds."""
    return [_charges(), _batch(), _price(), _noise()]


def _session() -> TargetCharging:
    """Returns a session with one boundary target and 100 hits."""
    return TargetCharging.of_targets(
        [boundary(call_epsilon=0.05)], target_hits=100, target_delta=1e-6
    )


def _charges() -> Job:
    """Returns the job of many single charges."""
    hits = [call % 1000 == 0 for call in range(NUM_CALLS)]
    state = _session().state

    def count() -> int:
        total = 0
        for hit in hits:
            total += hit
        return total

    opened = _session()

    def charge() -> None:
        opened.hits = list(state["hits"])
        opened.num_calls = 0
        for hit in hits:
            opened.charge(hit)

    return Job(
        f"{NUM_CALLS:,} charges of a session",
        run=charge,
        floor=count,
        floor_name="adding up the hits",
        left_out="the lock and the checks",
    )


def _batch() -> Job:
    """Returns the job of many charges in one batch."""
    hits = np.arange(NUM_CALLS) % 1000 == 0
    opened = _session()

    def charge() -> None:
        opened.hits = [0]
        opened.num_calls = 0
        opened.charge_batch(hits)

    name = f"{NUM_CALLS:,} charges at once"
    least = "one cumulated sum"
    return Job(
        name,
        run=charge,
        floor=lambda: np.cumsum(hits),
        floor_name=least,
        left_out="the lock and the checks",
    )


def _price() -> Job:
    """Returns the job of a session's price."""
    target = boundary(call_epsilon=0.05)
    price = best_session_price(target, target_hits=NUM_CALLS, target_delta=1e-6)
    return Job(
        name=f"price of a session of {NUM_CALLS:,} hits",
        run=lambda: best_session_price(target, target_hits=NUM_CALLS, target_delta=1e-6),
        floor=lambda: pure_dp_composition_epsilon(
            target.epsilon, count=price.num_accesses, target_delta=5e-7
        ),
        floor_name="one optimal composition",
        left_out="the search for the split of delta",
        rounds=5,
    )


def _noise() -> Job:
    """Returns the job of exact discrete Laplace noise."""
    noise = DiscreteLaplace.at_most(rate=0.05)
    rng = np.random.default_rng(0)
    return Job(
        name="24,000 draws of exact discrete Laplace noise",
        run=lambda: noise.sample((600, 40), rng),
        floor=lambda: rng.laplace(scale=20.0, size=(600, 40)),
        floor_name="as many of floating point",
        left_out="exactness",
    )
