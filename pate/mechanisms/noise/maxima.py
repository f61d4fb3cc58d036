"""The probability that an index has the largest noisy value, computed without sampling.

`ordered_distribution` computes it for each sequence of k indices to have the k largest noisy values, in this order.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np

from pate.accounting.special import gauss_legendre, softmax
from pate.array_types import FloatArray
from pate.mechanisms.noise.kinds import KINDS, NoiseKind
from pate.validation import InvalidValue

# An integral is a sum over panels, intervals on which a Gauss-Legendre rule with so many nodes is exact to the last
# digits.
_NUM_NODES = 16
_MAX_PANELS = 10_000


def gumbel_noise_argmax(values_in_scales: FloatArray) -> FloatArray:
    """Returns the probability of each index to have the largest sum value + Gumbel noise of scale 1, `[..., n]`.

    The probability is in proportion to exp(value), as in the exponential mechanism.
    """
    return np.asarray(softmax(values_in_scales, axis=-1))


def exponential_noise_argmax(values_in_scales: FloatArray) -> FloatArray:
    """Returns the probability of each index to have the largest sum value + exponential noise of mean 1, `[..., n]`.

    The distribution is that of permute-and-flip (McKenna & Sheldon 2020; as exponential noise, Ding et al. 2021). With
    w = exp(value - largest value), index i has the probability w_i times the integral over z in [0, 1] of
    prod_{j != i} (1 - w_j z).
    """
    exp_values = np.exp(values_in_scales - values_in_scales.max(axis=-1, keepdims=True))
    # On panels of this width 16 nodes integrate a polynomial of degree n to the last digits.
    nodes, panel_half_widths = panels(
        break_points=np.array([0.0, 1.0]), largest_width=8 / exp_values.shape[-1]
    )
    factors_by_panel_and_node = 1 - exp_values[..., None, None] * nodes
    integrands = _products_over_other_indices(factors_by_panel_and_node)
    return np.asarray(exp_values * _integral(integrands, panel_half_widths=panel_half_widths))


def gaussian_argmax(values_in_scales: FloatArray) -> FloatArray:
    """Returns the probability of each index to have the largest sum value + N(0, 1), `[..., n]`, by quadrature."""
    return _argmax_by_quadrature(values_in_scales, unit_noise=KINDS["gaussian"])


def laplace_argmax(values_in_scales: FloatArray) -> FloatArray:
    """Returns the probability of each index to have the largest sum value + Laplace noise of scale 1, `[..., n]`.

    The probabilities are computed by quadrature.
    """
    return _argmax_by_quadrature(values_in_scales, unit_noise=KINDS["laplace"])


def _argmax_by_quadrature(values_in_scales: FloatArray, unit_noise: NoiseKind) -> FloatArray:
    """Returns the probability of each index to have the largest sum value + noise, `[..., n]`.

    Args:
        values_in_scales: divided by the scale of the noise, `[..., n]`.
        unit_noise: the kind of noise.
    """

    def compute_row_distribution(row_in_scales: FloatArray) -> FloatArray:
        return largest_distribution(
            row_in_scales, class_sizes=np.ones(len(row_in_scales)), unit_noise=unit_noise
        )

    return np.apply_along_axis(compute_row_distribution, -1, values_in_scales)


def ordered_distribution(
    values_in_scales: FloatArray, k: int, unit_noise: NoiseKind
) -> dict[tuple[int, ...], float]:
    """Returns the probability of each sequence of indices to be those of the k largest sums value + noise, in order.

    Args:
        values_in_scales: `[d]`, divided by the scale of the noise.
        k: the number of indices.
        unit_noise: the kind of noise.

    Raises:
        InvalidValue: the values are too far apart for quadrature.
    """
    spread = float(np.ptp(values_in_scales))
    largest_spread = _MAX_PANELS * unit_noise.panel_width
    if not spread <= largest_spread:  # also where it is NaN
        rule = f"values at most {largest_spread:g} noise scales apart, to be integrated"
        raise InvalidValue("spread", spread, rule=rule)
    # Any value may be among the k largest, so the panels begin where the noise of the smallest value begins.
    densities_at_nodes, cdfs_at_nodes, panel_half_widths = _on_grid(
        values_in_scales,
        unit_noise=unit_noise,
        start_value=values_in_scales.min() + unit_noise.negligible_below,
    )
    # For each sequence of the first indices, the probability that these come first, in this order, and all lie above
    # a node. The integral over the next value adds one index.
    probs_above_nodes: dict[tuple[int, ...], FloatArray] = {(): np.ones_like(densities_at_nodes[0])}
    for _ in range(k - 1):
        probs_above_nodes = {
            (*first_indices, index): _integral_above(
                densities_at_nodes[index] * probs_above, panel_half_widths=panel_half_widths
            )
            for first_indices, probs_above in probs_above_nodes.items()
            for index in range(len(values_in_scales))
            if index not in first_indices
        }
    distribution = {}
    for first_indices, probs_above in probs_above_nodes.items():
        for last_index in set(range(len(values_in_scales))) - set(first_indices):
            index_sequence = (*first_indices, last_index)
            other_indices = [
                index for index in range(len(values_in_scales)) if index not in index_sequence
            ]
            integrand = (
                densities_at_nodes[last_index]
                * probs_above
                * cdfs_at_nodes[other_indices].prod(axis=0)
            )
            distribution[index_sequence] = float(
                _integral(integrand, panel_half_widths=panel_half_widths)
            )
    return distribution


def largest_distribution(
    class_values_in_scales: FloatArray, class_sizes: FloatArray, unit_noise: NoiseKind
) -> FloatArray:
    """Returns for each class the probability that the largest of all members' noisy values is one of its own, `[n]`.

    A class is a number of members with one value.

    Args:
        class_values_in_scales: the value of all members of each class, `[n]`.
        class_sizes: the number of members of each class, `[n]`.
        unit_noise: the kind of noise, which each member has independently.
    """
    # The largest noisy value lies below the largest value + `negligible_below` with a negligible probability, so the
    # integral could start there. It starts lower by `negligible_below` once more, or where the noise of the smallest
    # value begins if that is higher; the integral between both starts is negligible.
    start_value = unit_noise.negligible_below + max(
        class_values_in_scales.min(), class_values_in_scales.max() + unit_noise.negligible_below
    )
    densities_at_nodes, cdfs_at_nodes, panel_half_widths = _on_grid(
        class_values_in_scales,
        unit_noise=unit_noise,
        start_value=start_value,
    )
    sizes_at_nodes = class_sizes[:, None, None]
    density_of_largest = sizes_at_nodes * densities_at_nodes * cdfs_at_nodes ** (sizes_at_nodes - 1)
    return _integral(
        density_of_largest * _products_over_other_indices(cdfs_at_nodes**sizes_at_nodes),
        panel_half_widths=panel_half_widths,
    )


def _products_over_other_indices(factors_by_panel_and_node: FloatArray) -> FloatArray:
    """Returns for each of n factors the product of the n - 1 other factors, at each node of a quadrature.

    The quadrature has P panels with 16 nodes each. The argument and the result are `[..., n, P, 16]`.
    """
    factor_of_ones = np.ones_like(factors_by_panel_and_node[..., :1, :, :])
    products_of_earlier_factors = np.cumprod(
        np.concatenate([factor_of_ones, factors_by_panel_and_node[..., :-1, :, :]], axis=-3),
        axis=-3,
    )
    # The last factor comes first, and the first is left out.
    products_of_later_factors = np.cumprod(
        np.concatenate([factor_of_ones, factors_by_panel_and_node[..., :0:-1, :, :]], axis=-3),
        axis=-3,
    )
    return np.asarray(products_of_earlier_factors * products_of_later_factors[..., ::-1, :, :])


def _on_grid(
    row_in_scales: FloatArray, unit_noise: NoiseKind, start_value: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns density and distribution function of each sum value + noise, at the nodes of a quadrature.

    Args:
        row_in_scales: `[n]`.
        unit_noise: the kind of noise.
        start_value: the start of the first of P panels. The last panel ends where the noise of the largest value ends.

    Returns:
        The density `[n, P, 16]`, the distribution function `[n, P, 16]`, and half the width of each panel `[P, 1]`.
    """
    kinks = (row_in_scales[:, None] + np.array(unit_noise.kinks)).ravel()
    break_points = np.unique(
        [
            start_value,
            *kinks[kinks > start_value],
            row_in_scales.max() + unit_noise.negligible_above,
        ]
    )
    if np.isinf(unit_noise.panel_width) and len(row_in_scales) > 2 * _NUM_NODES:
        # Between kinks the integrand is a polynomial of degree n - 1 at most. The nodes of one panel integrate it for n
        # up to 32. For more values the panels are narrower, which is as good to the last digits.
        parts_between_kinks = -(-len(row_in_scales) // _NUM_NODES)
        break_points = np.unique(
            np.linspace(break_points[:-1], break_points[1:], parts_between_kinks + 1)
        )
    nodes, panel_half_widths = panels(break_points, largest_width=unit_noise.panel_width)
    noise_at_nodes = nodes - row_in_scales[:, None, None]
    return unit_noise.density(noise_at_nodes), unit_noise.cdf(noise_at_nodes), panel_half_widths


def panels(break_points: FloatArray, largest_width: float) -> tuple[FloatArray, FloatArray]:
    """Returns the nodes of a quadrature over P panels, intervals on which the integrand is smooth.

    Args:
        break_points: rising numbers. Each is an end of a panel; the first and last are the ends of the integral.
        largest_width: the largest width of a panel.

    Returns:
        The nodes `[P, 16]`, and half the width of each panel `[P, 1]`.
    """
    edges_of_panels = []
    for low_break_point, high_break_point in pairwise(break_points):
        num_panels = max(1, int(np.ceil((high_break_point - low_break_point) / largest_width)))
        edges_of_panels.append(np.linspace(low_break_point, high_break_point, num_panels + 1))
    low_ends = np.concatenate([edge_run[:-1] for edge_run in edges_of_panels])[:, None]
    high_ends = np.concatenate([edge_run[1:] for edge_run in edges_of_panels])[:, None]
    panel_half_widths = (high_ends - low_ends) / 2
    nodes, _ = gauss_legendre(_NUM_NODES)
    return low_ends + panel_half_widths * (1 + nodes), panel_half_widths


def _integral(integrand: FloatArray, panel_half_widths: FloatArray) -> FloatArray:
    """Returns the integral over P panels, `[...]`.

    Args:
        integrand: the integrand at the 16 nodes of each panel, `[..., P, 16]`.
        panel_half_widths: half the width of each panel, `[P, 1]`.
    """
    _, node_weights = gauss_legendre(_NUM_NODES)
    return np.asarray(((integrand @ node_weights) * panel_half_widths[:, 0]).sum(axis=-1))


def _integral_above(integrand: FloatArray, panel_half_widths: FloatArray) -> FloatArray:
    """Returns the integral from each node of P panels to the end of the last panel, `[P, 16]`.

    Args:
        integrand: the integrand at the 16 nodes of each panel, `[P, 16]`.
        panel_half_widths: half the width of each panel, `[P, 1]`.
    """
    _, node_weights = gauss_legendre(_NUM_NODES)
    panel_integrals = np.asarray(integrand @ node_weights) * panel_half_widths[:, 0]
    integrals_of_later_panels = np.append(np.cumsum(panel_integrals[::-1])[::-1][1:], 0.0)
    integrals_to_the_end = panel_half_widths * (integrand @ _weights_to_the_end())
    return np.asarray(integrals_to_the_end + integrals_of_later_panels[:, None])


# The weights depend on the number of nodes alone, which is constant.
@lru_cache
def _weights_to_the_end() -> FloatArray:
    """Returns quadrature weights `[16, 16]` for integrals from one of 16 nodes to the end of the panel [-1, 1].

    Entry `[b, a]` is the factor of the integrand at node b in the integral from node a to 1. The integrand is taken as
    the polynomial through its values at all nodes.
    """
    from numpy.polynomial import legendre  # loads slowly

    nodes, _ = gauss_legendre(_NUM_NODES)
    primitive_coefficients = legendre.legint(
        np.linalg.inv(legendre.legvander(nodes, _NUM_NODES - 1))
    )
    integrals_to_one = legendre.legval([1.0], primitive_coefficients)
    return np.asarray(integrals_to_one - legendre.legval(nodes, primitive_coefficients))
