"""Distributions of privacy losses on a grid: from counted events to delta, rounded upwards at every step."""

from __future__ import annotations

import math
from collections import Counter
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from pate.accounting.events import GaussianEvent, LeafEvent, NoOpEvent, ZCdpEvent
from pate.accounting.pld.profile import both_ways, lower_hull
from pate.accounting.rdp import DEFAULT_ORDERS, RdpAccountant, rdp_curve
from pate.validation import InvalidValue

LARGEST_EPSILON = 300.0
SMALLEST_EPSILON = 1e-9
"""No grid is made for epsilons outside this range."""

_NEGLIGIBLE = 1e-13  # of delta: where the grid of all releases ends
_NEGLIGIBLE_LEAF = 1e-15  # where the grid of one release ends
_ROUNDING = 1e-13  # added to every profile: above what double precision computes too small
_FEWEST_POINTS, _MOST_POINTS = 2.0**10, 2.0**17  # on either side of 0, of the grid of all releases
_POINTS_PER_RELEASE = 2**10


class LossDistribution:
    """The distribution of the summed losses of counted events on one grid; knows nothing where no grid fits.

    Attributes:
        allowance: added to every delta for the rounding of Fourier transforms.
    """

    def __init__(self, parts: list[tuple[LeafEvent, int]]) -> None:
        alone = [_reach([(part, 1)], _NEGLIGIBLE_LEAF) for part, _ in parts]
        reach = _reach(parts, _NEGLIGIBLE)
        self._losses: Any = None
        self.allowance = 0.0
        if not parts or not SMALLEST_EPSILON < reach < LARGEST_EPSILON:
            return
        finest, coarsest = reach / _MOST_POINTS, reach / _FEWEST_POINTS
        spacing = float(np.clip(4 * min(alone) / _POINTS_PER_RELEASE, finest, coarsest))
        for (part, count), largest in zip(parts, alone, strict=True):
            losses = _discretized(part, spacing, min(largest, reach)).self_compose(count)
            self._losses = losses if self._losses is None else self._losses.compose(losses)
        size = 4 * reach / spacing
        releases = len(parts) + sum(count for _, count in parts)
        self.allowance = releases * math.sqrt(size) * math.log2(size) * float(np.finfo(float).eps)

    def epsilon(self, target_delta: float) -> float:
        """The smallest epsilon; infinity where the allowance uses up delta."""
        if self._losses is None or target_delta <= self.allowance:
            return math.inf
        return float(self._losses.get_epsilon_for_delta(target_delta - self.allowance))

    def delta(self, target_epsilon: float) -> float:
        """The delta, at most 1."""
        if self._losses is None:
            return 1.0
        return min(1.0, float(self._losses.get_delta_for_epsilon(target_epsilon)) + self.allowance)


def merged(spent: Counter[LeafEvent]) -> list[tuple[LeafEvent, int]]:
    """Counted events, all Gaussians as one and all zCDP releases as one of the summed rho; without free ones."""
    gaussians = [(event, count) for event, count in spent.items() if isinstance(event, GaussianEvent)]
    rho = math.fsum(count * event.rho for event, count in spent.items() if isinstance(event, ZCdpEvent))
    parts: list[tuple[LeafEvent, int]] = [
        (leaf, count)
        for leaf, count in spent.items()
        if not isinstance(leaf, NoOpEvent | GaussianEvent | ZCdpEvent) and not _is_free(leaf)
    ]
    if gaussians:
        multipliers = [event.noise_multiplier / math.sqrt(count) for event, count in gaussians]
        parts.append((GaussianEvent.composed(multipliers), 1))
    if rho > 0:
        parts.append((ZCdpEvent(rho), 1))
    return parts


def _is_free(leaf: LeafEvent) -> bool:
    """Whether the two distributions are equal, whoever the neighbors are."""
    return not rdp_curve({type(leaf): ([leaf], [1])}, DEFAULT_ORDERS).any()


def _reach(parts: list[tuple[LeafEvent, int]], delta: float) -> float:
    """An epsilon that these releases exceed with probability `delta` at most."""
    spent = RdpAccountant()
    for part, count in parts:
        spent.compose(part, count)
    return spent.get_epsilon(delta)


def _discretized(event: LeafEvent, spacing: float, reach: float) -> Any:
    """The distribution of one release, in dp-accounting's class, its losses multiples of `spacing`."""
    ends = math.ceil(reach / spacing)
    stride = math.ceil(ends / _POINTS_PER_RELEASE)  # chords over several cells are chords, too
    points = np.arange(-math.ceil(ends / stride), math.ceil(ends / stride) + 1) * stride
    epsilons = np.asarray(points * spacing, dtype=np.float64)
    made = []
    for exact in both_ways(event, epsilons):
        profile = np.minimum(exact + _ROUNDING, 1.0)
        kept = lower_hull(np.exp(epsilons), profile)
        masses = _load("pld_pmf").create_pmf_pessimistic_connect_dots(spacing, points[kept], profile[kept])
        made.append(masses.to_dense_pmf())
    return _load("privacy_loss_distribution").PrivacyLossDistribution(*made)


def _load(module: str) -> ModuleType:
    """A module of `dp_accounting.pld`, which takes seconds to load and is an optional dependency."""
    try:
        return import_module(f"dp_accounting.pld.{module}")
    except ModuleNotFoundError as error:
        rule = "dp-accounting to be installed (pip install 'pate-multilabel[pld]')"
        raise InvalidValue(f"accountant=pld: expected {rule}") from error


def require_dp_accounting() -> None:
    """Raises unless dp-accounting is installed."""
    _load("privacy_loss_distribution")
