"""Exact distributions of the index of the largest noisy value, and of the indices of the k largest noisy values."""

from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from pate.accounting.special import gauss_legendre, softmax
from pate.array_types import FloatArray
from pate.mechanisms.noise.kinds import KINDS, NoiseKind
from pate.validation import require

_NODES = 16
_MOST_PANELS = 10_000


def gumbel_argmax(values: FloatArray) -> FloatArray:
    """Returns the probability of each index to have the largest sum value + Gumbel noise of scale 1, `[..., n]`.

    The probability is in proportion to exp(value), as in the exponential mechanism.
    """
    return np.asarray(softmax(values, axis=-1))


def exponential_argmax(values: FloatArray) -> FloatArray:
    """Returns the probability of each index to have the largest sum value + exponential noise of mean 1, `[..., n]`.

    The distribution is that of permute-and-flip. With w = exp(value - largest value), index i has the probability
    w_i times the integral over z in [0, 1] of prod_{j != i} (1 - w_j z).
    """
    weights = np.exp(values - values.max(axis=-1, keepdims=True))
    # panels on which 16 nodes integrate a polynomial of degree n exactly
    nodes, half_widths = panels(corners=np.array([0.0, 1.0]), largest_width=8 / weights.shape[-1])
    return np.asarray(
        weights
        * _integral(
            _products_of_others(1 - weights[..., None, None] * nodes), half_widths=half_widths
        )
    )


def _argmax(noise_kind: NoiseKind, values: FloatArray) -> FloatArray:
    """Returns the probability of each index to have the largest sum value + noise, `[..., n]`, by quadrature."""
    return np.apply_along_axis(
        lambda row: largest_distribution(row, class_sizes=np.ones(len(row)), noise_kind=noise_kind),
        -1,
        values,
    )


# standard normal noise, by quadrature over the winning value
gaussian_argmax = partial(_argmax, KINDS["gaussian"])
laplace_argmax = partial(_argmax, KINDS["laplace"])


def ordered_distribution(
    values: FloatArray, k: int, noise_kind: NoiseKind
) -> dict[tuple[int, ...], float]:
    """Returns the probability of each sequence of indices to be those of the k largest sums value + noise, in order.

    Args:
        values: `[d]`, divided by the scale of the noise.
        k: the number of indices.
        noise_kind: the kind of noise.

    Raises:
        InvalidValue: the values are too far apart for quadrature.
    """
    spread = float(np.ptp(values))
    widest = _MOST_PANELS * noise_kind.panel
    require(
        spread <= widest,
        "spread",
        spread,
        f"values at most {widest:g} noise scales apart, to be integrated",
    )
    density, cdf, half_widths = _on_grid(
        values, noise_kind=noise_kind, start_value=values.min() + noise_kind.low
    )
    # the probability that the prefix comes first, in this order, and lies above a point, for each prefix
    above: dict[tuple[int, ...], FloatArray] = {(): np.ones_like(density[0])}
    for _ in range(k - 1):
        above = {
            (*prefix, i): _integral_above(density[i] * tail, half_widths=half_widths)
            for prefix, tail in above.items()
            for i in range(len(values))
            if i not in prefix
        }
    distribution = {}
    for prefix, tail in above.items():
        for i in set(range(len(values))) - set(prefix):
            remaining = [j for j in range(len(values)) if j not in prefix and j != i]
            distribution[*prefix, i] = float(
                _integral(density[i] * tail * cdf[remaining].prod(axis=0), half_widths=half_widths)
            )
    return distribution


def largest_distribution(
    values: FloatArray, class_sizes: FloatArray, noise_kind: NoiseKind
) -> FloatArray:
    """Returns for each class the probability that the largest of all members' noisy values is one of its own, `[n]`.

    Args:
        values: the value of all members of each class, `[n]`.
        class_sizes: the number of members of each class, `[n]`.
        noise_kind: the kind of noise, which each member has independently.
    """
    # far below the largest value nothing wins, not even beside values that lie there
    density, cdf, half_widths = _on_grid(
        values,
        noise_kind=noise_kind,
        start_value=max(values.min(), values.max() + noise_kind.low) + noise_kind.low,
    )
    powers = cdf ** class_sizes[:, None, None]
    class_sizes = class_sizes[:, None, None]
    return _integral(
        class_sizes * density * cdf ** (class_sizes - 1) * _products_of_others(powers),
        half_widths=half_widths,
    )


def _products_of_others(factors: FloatArray) -> FloatArray:
    """Returns for each of n factors the product of the n - 1 other factors; shapes are `[..., n, P, 16]`."""
    ones = np.ones_like(factors[..., :1, :, :])
    before = np.cumprod(np.concatenate([ones, factors[..., :-1, :, :]], axis=-3), axis=-3)
    after = np.cumprod(np.concatenate([ones, factors[..., :0:-1, :, :]], axis=-3), axis=-3)
    return np.asarray(before * after[..., ::-1, :, :])


def _on_grid(
    values: FloatArray, noise_kind: NoiseKind, start_value: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns density and distribution function of each sum value + noise, at the nodes of a quadrature.

    Args:
        values: `[n]`.
        noise_kind: the kind of noise.
        start_value: the start of the first of P panels. The last panel ends where the noise of the largest value ends.

    Returns:
        The density `[n, P, 16]`, the distribution function `[n, P, 16]`, and half the width of each panel `[P, 1]`.
    """
    kinks = (values[:, None] + np.array(noise_kind.kinks)).ravel()
    corners = np.unique([start_value, *kinks[kinks > start_value], values.max() + noise_kind.high])
    points, half_widths = panels(corners, largest_width=noise_kind.panel)
    shifted = points - values[:, None, None]
    return noise_kind.density(shifted), noise_kind.cdf(shifted), half_widths


def panels(corners: FloatArray, largest_width: float) -> tuple[FloatArray, FloatArray]:
    """Returns the nodes of a quadrature over P panels, intervals on which the integrand is smooth.

    Args:
        corners: rising numbers. Each is an end of a panel; the first and last are the ends of the integral.
        largest_width: the largest width of a panel.

    Returns:
        The nodes `[P, 16]`, and half the width of each panel `[P, 1]`.
    """
    counts = [max(1, int(np.ceil((b - a) / largest_width))) for a, b in pairwise(corners)]
    edges = [np.linspace(a, b, n + 1) for (a, b), n in zip(pairwise(corners), counts, strict=True)]
    low = np.concatenate([edge[:-1] for edge in edges])[:, None]
    half_widths = (np.concatenate([edge[1:] for edge in edges])[:, None] - low) / 2
    return low + half_widths * (1 + gauss_legendre(_NODES)[0]), half_widths


def _integral(integrand: FloatArray, half_widths: FloatArray) -> FloatArray:
    """Returns the integral over all panels, `[...]`, from the integrand at all nodes, `[..., P, 16]`."""
    return np.asarray(((integrand @ gauss_legendre(_NODES)[1]) * half_widths[:, 0]).sum(axis=-1))


def _integral_above(integrand: FloatArray, half_widths: FloatArray) -> FloatArray:
    """Returns the integral from each node to the end of the last panel, `[P, 16]`, from the integrand `[P, 16]`."""
    of_panels = np.asarray(integrand @ gauss_legendre(_NODES)[1]) * half_widths[:, 0]
    later = np.append(np.cumsum(of_panels[::-1])[::-1][1:], 0.0)
    return np.asarray(half_widths * (integrand @ _weights_to_the_end()) + later[:, None])


@lru_cache
def _weights_to_the_end() -> FloatArray:
    """Returns quadrature weights for integrals from a node to the end of a panel.

    Entry `[b, a]` is the weight of node b in the integral from node a to 1 of the polynomial through all nodes.
    """
    from numpy.polynomial import legendre  # loads slowly

    nodes, _ = gauss_legendre(_NODES)
    primitive = legendre.legint(np.linalg.inv(legendre.legvander(nodes, _NODES - 1)))
    return np.asarray(
        np.asarray(legendre.legval([1.0], primitive))
        - np.asarray(legendre.legval(nodes, primitive))
    )
