"""The distribution of the privacy loss of several releases, on a grid of losses, by Google's dp-accounting.

Each release is replaced by a pair of distributions, or by one pair for each order of the neighbors. The profile of the
pair is a bound on that of the release at points of the grid, and linear in e^epsilon between these points (Doroshenko
et al. 2022, connect the dots). The distributions of the losses of all pairs are convolved (docs/proofs/pld.md).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pate.accounting.convex import lower_hull
from pate.accounting.events import LeafEvent
from pate.accounting.privacy_profile import profiles_both_ways
from pate.accounting.rdp import RdpAccountant

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

SMALLEST_EPSILON = 1e-9
LARGEST_EPSILON = 300.0
"""A grid is made if the largest loss of all releases together lies between both."""
# The largest loss of all releases together is their epsilon at the first delta. The grid of one release ends at its
# epsilon at the second delta, or at the largest loss of all releases if that is smaller.
_NEGLIGIBLE = 1e-13
_NEGLIGIBLE_LEAF = 1e-15
# This is added to every profile: more than rounding takes away.
_ROUNDING = 1e-13
# The smallest and the largest number of points on either side of 0 of the grid of all releases.
_SMALLEST_NUM_POINTS = 2.0**10
_LARGEST_NUM_POINTS = 2.0**17
# The number of points on either side of 0 of the grid of one release: the number that is aimed at for the release with
# the smallest losses, and the largest number for any release.
_FEWEST_POINTS_OF_RELEASE = 2**8
_MOST_POINTS_OF_RELEASE = 2**10


class LossDistribution:
    """The distribution of the summed privacy loss of several releases, on a grid of losses.

    Where no grid can hold the losses, or there is no release, every epsilon is infinite and every delta is 1.

    Args:
        counted_events: pairs of the price of a release and the number of such releases.

    Attributes:
        fourier_rounding_delta: the number that is added to every delta, for the rounding of Fourier transforms.
    """

    def __init__(self, counted_events: list[tuple[LeafEvent, int]]) -> None:
        # the loss that each release, and that all of them together, exceed with a negligible probability
        largest_losses = [
            RdpAccountant().compose(event).get_epsilon(_NEGLIGIBLE_LEAF)
            for event, _ in counted_events
        ]
        largest_total_loss = RdpAccountant().compose_all(counted_events).get_epsilon(_NEGLIGIBLE)
        self._composed_pld: PrivacyLossDistribution | None = None
        self.fourier_rounding_delta = 0.0
        if not counted_events or not SMALLEST_EPSILON < largest_total_loss < LARGEST_EPSILON:
            return
        finest_spacing = largest_total_loss / _LARGEST_NUM_POINTS
        coarsest_spacing = largest_total_loss / _SMALLEST_NUM_POINTS
        spacing = float(
            np.clip(
                min(largest_losses) / _FEWEST_POINTS_OF_RELEASE, finest_spacing, coarsest_spacing
            )
        )
        distributions_of_events = []
        for (event, count), largest_loss in zip(counted_events, largest_losses, strict=True):
            distribution_of_event = _discretized(
                event, spacing=spacing, largest_loss=min(largest_loss, largest_total_loss)
            )
            distributions_of_events.append(distribution_of_event.self_compose(count))
        self._composed_pld = distributions_of_events[0]
        for distribution_of_event in distributions_of_events[1:]:
            self._composed_pld = self._composed_pld.compose(distribution_of_event)
        # A convolution of two grids has this length if each goes from -largest_total_loss to largest_total_loss.
        num_transform_points = 4 * largest_total_loss / spacing
        # The error of the count-th power of a transform is `count` times that of the transform. The product with the
        # transform of the next kind of release adds one.
        num_transforms = len(counted_events) + sum(count for _, count in counted_events)
        rounding_of_transform = (
            math.sqrt(num_transform_points)
            * math.log2(num_transform_points)
            * float(np.finfo(float).eps)
        )
        self.fourier_rounding_delta = num_transforms * rounding_of_transform

    def epsilon(self, target_delta: float) -> float:
        """Returns an upper bound on the epsilon of all releases at `target_delta`; infinity where none is known.

        The bound covers losses beyond the grid and rounding errors. It is unknown where no grid can hold the losses,
        where there is no release, or where `target_delta` is not above the rounding errors.
        """
        if self._composed_pld is None or target_delta <= self.fourier_rounding_delta:
            return math.inf
        return float(
            self._composed_pld.get_epsilon_for_delta(target_delta - self.fourier_rounding_delta)
        )

    def delta(self, target_epsilon: float) -> float:
        """Returns an upper bound on the delta of all releases at `target_epsilon`.

        The bound covers losses beyond the grid and rounding errors. It is 1 where no grid can hold the losses, or
        where there is no release.
        """
        if self._composed_pld is None:
            return 1.0
        return min(
            1.0,
            float(self._composed_pld.get_delta_for_epsilon(target_epsilon))
            + self.fourier_rounding_delta,
        )


@lru_cache(maxsize=16)  # each total composes equal releases anew
def _discretized(event: LeafEvent, spacing: float, largest_loss: float) -> PrivacyLossDistribution:
    """Returns the privacy loss distribution of one release, on a grid, as an object of dp-accounting.

    Args:
        event: the price of the release.
        spacing: the distance between two losses of the grid.
        largest_loss: the loss that the grid reaches, or exceeds by a few points.
    """
    # dp-accounting is optional, and takes seconds to load.
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots as connect_dots
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    num_cells = math.ceil(largest_loss / spacing)
    # The profile may be computed at every stride-th point, because chords over several cells are above it, too.
    stride = math.ceil(num_cells / _MOST_POINTS_OF_RELEASE)
    num_strides = math.ceil(num_cells / stride)
    spacing_multiples = np.arange(-num_strides, num_strides + 1) * stride
    epsilons = np.asarray(spacing_multiples * spacing, dtype=np.float64)
    dense_pmfs = []
    for exact_profile in profiles_both_ways(event, epsilons):
        profile = np.minimum(exact_profile + _ROUNDING, 1.0)
        hull_indices = lower_hull(x=np.exp(epsilons), y=profile)
        pmf = connect_dots(
            discretization=spacing,
            rounded_epsilons=spacing_multiples[hull_indices],
            deltas=profile[hull_indices],
        )
        dense_pmfs.append(pmf.to_dense_pmf())
    # The second distribution, of the other direction, is None where both directions have the same.
    pmf_remove, pmf_add = dense_pmfs if len(dense_pmfs) == 2 else (dense_pmfs[0], None)
    return PrivacyLossDistribution(pmf_remove=pmf_remove, pmf_add=pmf_add)
