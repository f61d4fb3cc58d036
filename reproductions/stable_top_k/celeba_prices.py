"""Price of the CelebA experiment of Zhu & Wang (2022), by every accounting."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pate.accounting import (
    Accountant,
    Adjacency,
    ApproximateEvent,
    ComposedEvent,
    Event,
    ExactAccountant,
    GaussianEvent,
    RdpAccountant,
    ZCdpEvent,
)
from pate.accounting.conversion import Curve, epsilon_as_in_papers
from pate.accounting.rdp import rdp_curve_of
from pate.aggregators import StableTopK

NUM_QUERIES, NUM_LABELS, NUM_TEACHERS = 600, 40, 800
FAILURE_PROB, TARGET_DELTA = 1e-9, 1e-6
SELECTION_STD, TEST_STD = 50.0, 60.0
SAME_STD = 38.985
"""The scale of a Gumbel variable whose standard deviation is 50."""

NO_BOUND_TEXT = "false, no bound"
BOUND_TEXT = "bound"


@dataclass(frozen=True)
class PricedAccounting:
    """An accounting of the experiment and its prices; None where it does not apply."""

    accounting: str  # what is charged
    holds: str  # whether the figures bound what was spent
    add_remove_classic: float | None  # epsilon by rdp + log(1/delta) / (a - 1)
    add_remove_tight: float | None  # epsilon by the tight conversion, or by another accountant
    replace_one_classic: float | None  # the same under replace-one
    replace_one_tight: float | None  # the same under replace-one


def prices() -> list[PricedAccounting]:
    """Returns the whole table, the false formulas included."""
    same_std = partial(_query, noise="gumbel", scale=SAME_STD)
    same_scale = partial(_query, noise="gumbel", scale=SELECTION_STD)
    gaussian = partial(_query, noise="gaussian", scale=SELECTION_STD)
    step_by_step = partial(ExactAccountant, in_blocks=False)
    return [
        _by_curve(accounting="Corollary 9, literally", holds=BOUND_TEXT, curve_for=_corollary_9),
        _by_curve(
            accounting="selection as a Gaussian of twice the sensitivity",
            holds=NO_BOUND_TEXT,
            curve_for=_doubled_stand_in,
        ),
        _by_curve(
            accounting="selection as a Gaussian of the sensitivity: the paper's 3.6",
            holds=NO_BOUND_TEXT,
            curve_for=_stand_in,
        ),
        _by_curve(accounting="Gumbel of the same std, zCDP", holds=BOUND_TEXT, curve_for=_zcdp),
        _by_curve(
            accounting="Gumbel of the same std, bounded range and one bit",
            holds=BOUND_TEXT,
            curve_for=lambda a: rdp_curve_of(same_std(a)),
        ),
        _by_accountant(
            accounting="the same, optimal adaptive composition",
            kind=step_by_step,
            event_for=same_std,
        ),
        _by_curve(
            accounting="Gumbel of scale 50, bounded range and one bit",
            holds=BOUND_TEXT,
            curve_for=lambda a: rdp_curve_of(same_scale(a)),
        ),
        _by_accountant(
            accounting="the paper's noise, valid bound, optimal composition",
            kind=ExactAccountant,
            event_for=gaussian,
        ),
        _by_accountant(
            accounting="the paper's noise, valid bound, Renyi",
            kind=RdpAccountant,
            event_for=_gaussian_with_gaussian_test,
        ),
        _by_accountant(
            accounting="the same, test as one bit: what accountant=rdp prints",
            kind=RdpAccountant,
            event_for=gaussian,
        ),
    ]


def celeba_aggregator(adjacency: Adjacency, *, noise: str, scale: float) -> StableTopK:
    """Returns the experiment's aggregator with the given noise in the selection."""
    return StableTopK(
        selection_noise=noise,
        selection_scale=scale,
        test_std=TEST_STD,
        failure_prob=FAILURE_PROB,
        adjacency=adjacency,
    )


def _by_curve(
    accounting: str, holds: str, curve_for: Callable[[Adjacency], Curve | None]
) -> PricedAccounting:
    """Returns the row of a Renyi curve by both conversions, under both adjacencies."""
    left = TARGET_DELTA - NUM_QUERIES * FAILURE_PROB
    curves = [curve_for(adjacency) for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)]
    cells = [
        None
        if curve is None
        else epsilon_as_in_papers(
            curve, count=NUM_QUERIES, target_delta=left, conversion=conversion
        )
        for curve in curves
        for conversion in ("classic", "tight")
    ]
    return PricedAccounting(accounting, holds, *cells)


def _by_accountant(
    accounting: str, kind: Callable[[], Accountant], event_for: Callable[[Adjacency], Event]
) -> PricedAccounting:
    """Returns the row of an accountant's epsilon, under both adjacencies."""
    add_remove, replace_one = (
        kind().compose(event_for(adjacency), count=NUM_QUERIES).get_epsilon(TARGET_DELTA)
        for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
    )
    return PricedAccounting(
        accounting,
        holds=BOUND_TEXT,
        add_remove_classic=None,
        add_remove_tight=add_remove,
        replace_one_classic=None,
        replace_one_tight=replace_one,
    )


def _query(adjacency: Adjacency, *, noise: str, scale: float) -> Event:
    """Returns the event of one query, refused or not."""
    aggregator = celeba_aggregator(adjacency, noise=noise, scale=scale)
    return aggregator.event_for(num_queries=1, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS)


def _test(adjacency: Adjacency) -> GaussianEvent:
    """Returns the stability test, priced as the Gaussian release that its bit is computed from."""
    return GaussianEvent(noise_multiplier=TEST_STD / adjacency.gap_sensitivity)


def _gaussian_with_gaussian_test(adjacency: Adjacency) -> Event:
    aggregator = celeba_aggregator(adjacency, noise="gaussian", scale=SELECTION_STD)
    selection = aggregator.gap_selection(num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS)
    return ComposedEvent((selection.event, ApproximateEvent(_test(adjacency), FAILURE_PROB)))


def _corollary_9(adjacency: Adjacency) -> Curve:
    multiplier, test = SELECTION_STD / adjacency.gap_sensitivity, rdp_curve_of(_test(adjacency))
    # Of Zhu & Wang (2022), for the Gaussian noisy maximum: 2 a / z**2 + log(m) / (a - 1).
    return lambda orders: (
        2 * orders / multiplier**2 + math.log(NUM_LABELS) / (orders - 1) + test(orders)
    )


def _stand_in(adjacency: Adjacency) -> Curve:
    """Returns selection and test as papers price them, both Gaussian, which is false for the selection."""
    return rdp_curve_of(
        ComposedEvent(
            (
                GaussianEvent(noise_multiplier=SELECTION_STD / adjacency.gap_sensitivity),
                _test(adjacency),
            )
        )
    )


def _doubled_stand_in(adjacency: Adjacency) -> Curve | None:
    if adjacency is Adjacency.REPLACE_ONE:
        return None
    return rdp_curve_of(
        ComposedEvent(
            (
                GaussianEvent(noise_multiplier=SELECTION_STD / 2),
                GaussianEvent(noise_multiplier=TEST_STD),
            )
        )
    )


def _zcdp(adjacency: Adjacency) -> Curve:
    selection = ZCdpEvent((adjacency.gap_range / SAME_STD) ** 2 / 8)
    return rdp_curve_of(ComposedEvent((selection, _test(adjacency))))
