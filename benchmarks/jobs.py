"""Jobs that are timed, each with its floor: the least work that any implementation of the job needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pate.accounting import (
    DEFAULT_ORDERS,
    Accountant,
    AutoAccountant,
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    ExactAccountant,
    GaussianEvent,
    OneBitEvent,
    RdpAccountant,
)
from pate.accounting.conversion import rdp_to_epsilons
from pate.accounting.event_tree import leaves
from pate.accounting.exact_blocks import compose_steps
from pate.accounting.joint_law import joint_rdp
from pate.aggregators import Aggregator, GaussianVotes, GNMax, StableTopK
from pate.array_types import FloatArray, IntArray
from pate.auditing.data_dependent import gap_selection_cost, gnmax_cost, one_bit_cost
from pate.auditing.smooth_sensitivity import gnmax_smooth_sensitivity
from pate.mechanisms import CanonicalTopK, JointTopK, OneShotTopK, PermuteAndFlipTopK, StabilityTest
from pate.mechanisms.top_k.mechanism import TopKMechanism

NUM_TEACHERS = 800
NUM_LABELS = 40
BLOCK = 16384


@dataclass(frozen=True)
class Job:
    """A timed call and its floor."""

    name: str  # for the table
    run: Callable[[], object]  # the job
    floor: Callable[[], object]  # the least work, on the same arrays
    floor_name: str  # what the floor does
    left_out: str  # what any implementation needs beyond the floor: a ratio of 1 cannot be had
    rounds: int = 30  # how often both are timed


def quick_jobs() -> list[Job]:
    """Returns jobs of milliseconds, the longest of them of a second or two."""
    return [
        *(
            _aggregation(name, aggregator, num_queries=600)
            for name, aggregator in aggregators().items()
        ),
        *_compositions(),
        *_optimal_compositions(),
        *_costs(),
        *_top_k(),
    ]


def large_jobs() -> list[Job]:
    """Returns jobs of seconds: a million queries, and dp-accounting's composition of the quick jobs' events."""
    return [
        *(
            _aggregation(name, aggregator, num_queries=1_000_000, rounds=1)
            for name, aggregator in aggregators().items()
        ),
        _dp_accounting(),
    ]


def aggregators() -> dict[str, Aggregator]:
    """Returns the aggregators whose releases are timed."""
    return {
        "StableTopK gumbel": StableTopK(selection_scale=39.0, test_std=60.0),
        "StableTopK gaussian": StableTopK(
            selection_noise="gaussian", selection_scale=50.0, test_std=60.0
        ),
        "StableTopK table": StableTopK(
            selection_scale=160.0, test="table", table_order=4.0, table_budget=5e-3
        ),
        "GaussianVotes": GaussianVotes(noise_std=100.0),
    }


def _aggregation(name: str, aggregator: Aggregator, *, num_queries: int, rounds: int = 30) -> Job:
    """Returns the job of one release."""
    votes = np.random.default_rng(0).integers(
        0, NUM_TEACHERS + 1, size=(num_queries, NUM_LABELS), dtype=np.uint16
    )
    rng = np.random.default_rng(1)

    sorts = isinstance(aggregator, StableTopK)

    def noise_and_sort() -> None:
        for start in range(0, num_queries, BLOCK):
            block = votes[start : start + BLOCK].astype(np.int64)
            rng.standard_normal(block.shape)
            if sorts:
                np.sort(block, axis=1)

    return Job(
        name=f"{name}, {num_queries:,} x {NUM_LABELS}",
        run=lambda: aggregator.aggregate(votes, num_teachers=NUM_TEACHERS, rng=rng),
        floor=noise_and_sort,
        floor_name="one noise draw, one sort" if sorts else "one noise draw",
        left_out="exact draws, checks of the votes, selection and test"
        if sorts
        else "exact draws, checks of the votes",
        rounds=rounds,
    )


def _noise_multipliers() -> FloatArray:
    return np.random.default_rng(0).uniform(100, 1000, size=100_000)


def _costs() -> list[Job]:
    """Returns jobs for data-dependent costs of 6,000 queries, at all default orders; smooth sensitivity at order 8."""
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.r_[1.0, np.full(9, 0.15)], 6000)
    classes = np.array([rng.multinomial(250, row) for row in chances])
    utilities = rng.integers(0, NUM_TEACHERS, size=(6000, NUM_LABELS)) / 39.0
    gaps = rng.integers(0, NUM_TEACHERS, size=6000)
    test = StabilityTest.gaussian(test_std=60.0, failure_prob=1e-9, num_teachers=NUM_TEACHERS)
    bit = next(leaf for leaf, _ in leaves(test.event) if isinstance(leaf, OneBitEvent))
    query = BoundedRangeEvent(epsilon=4 / 39)
    gnmax = partial(gnmax_cost, noise_std=40.0, num_teachers=250)
    smooth = partial(
        gnmax_smooth_sensitivity, noise_std=40.0, num_teachers=250, order=8.0, beta=0.02
    )
    orders = DEFAULT_ORDERS
    return [
        _cost(name="GNMax, 6,000 x 10", run=lambda: gnmax(classes, orders=orders), data=classes),
        _cost(
            name="gap selection, 6,000 x 40",
            run=lambda: gap_selection_cost(utilities, event=query, orders=orders),
            data=utilities,
        ),
        _cost(
            name="6,000 bits", run=lambda: one_bit_cost(gaps, event=bit, orders=orders), data=gaps
        ),
        _cost(name="GNMax, its smooth sensitivity", run=lambda: smooth(classes), data=classes),
    ]


def _cost(name: str, run: Callable[[], object], data: NDArray[np.generic]) -> Job:
    """Returns the job of one data-dependent cost."""
    exponents = np.full((60, DEFAULT_ORDERS.size), -3.0)

    def sort_and_exponentials() -> None:
        np.sort(data)
        for _ in range(0, len(data), len(exponents)):
            np.exp(exponents)

    least = "one sort, one exponential per query and order"
    left_out = "sums and logarithms, and moments beyond one"
    return Job(
        f"cost of {name}",
        run,
        floor=sort_and_exponentials,
        floor_name=least,
        left_out=left_out,
        rounds=10,
    )


def _compositions() -> list[Job]:
    """Returns jobs that compose many Gaussians, as objects and as one array."""
    multipliers = _noise_multipliers()
    event = ComposedEvent(
        tuple(GaussianEvent(noise_multiplier=float(multiplier)) for multiplier in multipliers)
    )

    def vectorized() -> float:
        rdp = DEFAULT_ORDERS * (1 / (2 * multipliers**2)).sum()
        return float(rdp_to_epsilons(DEFAULT_ORDERS, rdp, target_delta=1e-6).min())

    return [
        Job(
            name,
            run,
            floor=vectorized,
            floor_name="the same sum in one array",
            left_out="reading the events one by one",
            rounds=5,
        )
        for name, run in (
            (
                "epsilon of 100,000 different Gaussians",
                lambda: RdpAccountant().compose(event).get_epsilon(target_delta=1e-6),
            ),
            (
                "epsilon of 100,000 different Gaussians, an array",
                lambda: _array_epsilon(multipliers),
            ),
        )
    ]


def _optimal_compositions() -> list[Job]:
    """Returns jobs for the exact epsilon and a report's default one, next to Renyi's; each round composes anew."""
    events = {
        f"{name}, 600 x {NUM_LABELS}": aggregators()[name].event_for(
            num_queries=600, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS
        )
        for name in ("StableTopK gumbel", "StableTopK table", "GaussianVotes")
    } | {
        f"GNMax, 600 x {NUM_LABELS}": GNMax(noise_std=50.0).event_for(
            num_queries=600, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS
        )
    }

    def job(name: str, event: Event, kind: type[Accountant]) -> Job:
        def run() -> float:
            compose_steps.cache_clear()
            joint_rdp.cache_clear()
            return kind().compose(event).get_epsilon(target_delta=1e-6)

        return Job(
            name=f"epsilon of {name}, by {kind.name}",
            run=run,
            floor=lambda: RdpAccountant().compose(event).get_epsilon(target_delta=1e-6),
            floor_name="Renyi's",
            left_out="the best play of an adversary",
            rounds=3,
        )

    return [
        job(name, event, kind)
        for name, event in events.items()
        for kind in (ExactAccountant, AutoAccountant)
    ]


def _array_epsilon(multipliers: FloatArray) -> float:
    return (
        RdpAccountant().compose(GaussianEvent.composed(multipliers)).get_epsilon(target_delta=1e-6)
    )


def _dp_accounting() -> Job:
    """Returns the job of the same epsilon by dp-accounting at its own, fewer orders, next to our array."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant as TheirAccountant

    multipliers = _noise_multipliers()
    event = dp_accounting.ComposedDpEvent(
        [dp_accounting.GaussianDpEvent(float(z)) for z in multipliers]
    )
    return Job(
        name="epsilon of 100,000 different Gaussians, by dp-accounting",
        run=lambda: TheirAccountant().compose(event).get_epsilon(target_delta=1e-6),
        floor=lambda: _array_epsilon(multipliers),
        floor_name="ours, an array",
        left_out="the events as objects",
        rounds=1,
    )


def _top_k() -> list[Job]:
    """Returns jobs of top-k selection from many heavy-tailed counts, and from 600 small histograms."""
    large, wide = (_falling_counts(size) for size in (166_000, 100_000))
    small = np.random.default_rng(0).integers(0, NUM_TEACHERS + 1, size=(600, NUM_LABELS))
    sorting = "one sort of the counts"
    noise = "one noise draw, one partition"
    return [
        *(
            _selection(
                f"Joint, 166,000 counts, k={k}",
                mechanism=JointTopK(k=k, epsilon=1.0),
                counts=large,
                floor=_sort,
                floor_name=sorting,
            )
            for k in (100, 200)
        ),
        _selection(
            name="Joint, 600 x 40, k=9",
            mechanism=JointTopK(k=9, epsilon=1.0),
            counts=small,
            floor=partial(_partition, 9),
            floor_name=noise,
        ),
        *(
            _selection(
                f"Canonical, gamma={gamma}, 100,000 counts, k=100",
                mechanism=CanonicalTopK(k=100, epsilon=1.0, gamma=gamma),
                counts=wide,
                floor=_sort,
                floor_name=sorting,
            )
            for gamma in (0.5, 1.0)
        ),
        _selection(
            name="One-shot, 166,000 counts, k=100",
            mechanism=OneShotTopK(k=100, epsilon=1.0),
            counts=large,
            floor=partial(_partition, 100),
            floor_name=noise,
        ),
        _selection(
            name="Permute-and-flip, 166,000 counts, k=100",
            mechanism=PermuteAndFlipTopK(k=100, epsilon=1.0),
            counts=large,
            floor=_sort,
            floor_name=sorting,
        ),
    ]


def _selection(
    name: str,
    mechanism: TopKMechanism,
    counts: IntArray,
    floor: Callable[[IntArray], object],
    floor_name: str,
) -> Job:
    """Returns the job of one selection mechanism."""
    rng = np.random.default_rng(1)
    return Job(
        name=name,
        run=lambda: mechanism(counts, rng=rng),
        floor=lambda: floor(counts),
        floor_name=floor_name,
        left_out="the draw from all sequences or sets, exactly",
        rounds=15,
    )


def _falling_counts(size: int) -> IntArray:
    """Returns counts with a heavy tail, in random order."""
    counts = (1e6 / np.arange(1, size + 1) ** 0.9).astype(np.int64)
    return np.random.default_rng(0).permutation(counts)


def _sort(counts: IntArray) -> object:
    return np.sort(counts)


def _partition(k: int, counts: IntArray) -> object:
    """Adds noise to counts and finds the top k, unsorted."""
    noise = np.random.default_rng(1).standard_exponential(counts.shape)
    noisy = counts - np.log(noise)
    return np.argpartition(noisy, counts.shape[-1] - k, axis=-1)[..., -k:]
