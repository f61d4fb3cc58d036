"""Exact distributions of the largest and of the k largest of values with noise, by quadrature."""

from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from pate.accounting.special import gauss_legendre, softmax
from pate.mechanisms.noise.kinds import KINDS, NoiseKind
from pate.mechanisms.noise.lazy_uniforms import Array
from pate.validation import require

_NODES = 16
_MOST_PANELS = 10_000


def gumbel_argmax(values: Array) -> Array:
    """Returns the distribution of the largest of `values + noise` with Gumbel noise of scale 1, `[..., n]`.

    It is that of the exponential mechanism: a probability is proportional to exp(value).
    """
    return np.asarray(softmax(values, axis=-1))


def exponential_argmax(values: Array) -> Array:
    """Returns the distribution of the largest of `values + noise` with exponential noise of mean 1, `[..., n]`.

    It is that of permute-and-flip: with w = exp(value - largest), index i wins with w_i times the integral of
    prod_{j != i} (1 - w_j z) over [0, 1].
    """
    weights = np.exp(values - values.max(axis=-1, keepdims=True))
    # panels on which 16 nodes integrate a polynomial of degree n exactly
    nodes, half = panels(np.array([0.0, 1.0]), 8 / weights.shape[-1])
    return np.asarray(weights * _total(_of_others(1 - weights[..., None, None] * nodes), half))


def _argmax(noise: NoiseKind, values: Array) -> Array:
    """Returns the distribution of the largest of `values + noise`, `[..., n]`, by quadrature."""
    return np.apply_along_axis(
        lambda row: largest_distribution(row, np.ones(len(row)), noise), -1, values
    )


# standard normal noise, by quadrature over the winning value
gaussian_argmax = partial(_argmax, KINDS["gaussian"])
laplace_argmax = partial(_argmax, KINDS["laplace"])


def ordered_distribution(values: Array, k: int, noise: NoiseKind) -> dict[tuple[int, ...], float]:
    """Returns the distribution of the k largest of `values + noise`, in falling order, for values `[d]`.

    Raises `InvalidValue` for values too far apart to be integrated.
    """
    spread = float(np.ptp(values))
    widest = _MOST_PANELS * noise.panel
    require(
        spread <= widest,
        "spread",
        spread,
        f"values at most {widest:g} noise scales apart, to be integrated",
    )
    density, cdf, half = _on_grid(values, noise, values.min() + noise.low)
    # the probability that the prefix comes first, in this order, and lies above a point, for each prefix
    above: dict[tuple[int, ...], Array] = {(): np.ones_like(density[0])}
    for _ in range(k - 1):
        above = {
            (*prefix, i): _integral_above(density[i] * tail, half)
            for prefix, tail in above.items()
            for i in range(len(values))
            if i not in prefix
        }
    distribution = {}
    for prefix, tail in above.items():
        for i in set(range(len(values))) - set(prefix):
            remaining = [j for j in range(len(values)) if j not in prefix and j != i]
            distribution[*prefix, i] = float(
                _total(density[i] * tail * cdf[remaining].prod(axis=0), half)
            )
    return distribution


def largest_distribution(values: Array, sizes: Array, noise: NoiseKind) -> Array:
    """Returns the distribution of the class of the largest of all members with noise, `[n]`.

    Class c has `sizes[c]` members, each of value `values[c]`.
    """
    # far below the largest value nothing wins, not even beside values that lie there
    density, cdf, half = _on_grid(
        values, noise, max(values.min(), values.max() + noise.low) + noise.low
    )
    powers = cdf ** sizes[:, None, None]
    sizes = sizes[:, None, None]
    return _total(sizes * density * cdf ** (sizes - 1) * _of_others(powers), half)


def _of_others(factors: Array) -> Array:
    """Returns the product of all other factors beside each of factors `[..., n, P, 16]`."""
    ones = np.ones_like(factors[..., :1, :, :])
    before = np.cumprod(np.concatenate([ones, factors[..., :-1, :, :]], axis=-3), axis=-3)
    after = np.cumprod(np.concatenate([ones, factors[..., :0:-1, :, :]], axis=-3), axis=-3)
    return np.asarray(before * after[..., ::-1, :, :])


def _on_grid(values: Array, noise: NoiseKind, low: float) -> tuple[Array, Array, Array]:
    """Returns density and distribution function of each value with noise, `[n, P, 16]`, and half widths of panels.

    Panels begin at `low` and end where the noise of the largest value ends.
    """
    kinks = (values[:, None] + np.array(noise.kinks)).ravel()
    corners = np.unique([low, *kinks[kinks > low], values.max() + noise.high])
    points, half = panels(corners, noise.panel)
    shifted = points - values[:, None, None]
    return noise.density(shifted), noise.cdf(shifted), half


def panels(corners: Array, width: float) -> tuple[Array, Array]:
    """Returns points `[P, 16]` and half widths `[P, 1]` of panels of at most a width, which end at all corners."""
    counts = [max(1, int(np.ceil((b - a) / width))) for a, b in pairwise(corners)]
    edges = [np.linspace(a, b, n + 1) for (a, b), n in zip(pairwise(corners), counts, strict=True)]
    low = np.concatenate([edge[:-1] for edge in edges])[:, None]
    half = (np.concatenate([edge[1:] for edge in edges])[:, None] - low) / 2
    return low + half * (1 + gauss_legendre(_NODES)[0]), half


def _total(integrand: Array, half: Array) -> Array:
    """Returns integrals over all panels, `[...]` of `[..., P, 16]`."""
    return np.asarray(((integrand @ gauss_legendre(_NODES)[1]) * half[:, 0]).sum(axis=-1))


def _integral_above(integrand: Array, half: Array) -> Array:
    """Returns the integral from each point to the end of the grid, `[P, 16]`."""
    of_panels = np.asarray(integrand @ gauss_legendre(_NODES)[1]) * half[:, 0]
    later = np.append(np.cumsum(of_panels[::-1])[::-1][1:], 0.0)
    return np.asarray(half * (integrand @ _weights_to_the_end()) + later[:, None])


@lru_cache
def _weights_to_the_end() -> Array:
    """Returns the weights `[b, a]` of node b in the integral from node a to 1 of the interpolating polynomial."""
    from numpy.polynomial import legendre  # loads slowly

    nodes, _ = gauss_legendre(_NODES)
    primitive = legendre.legint(np.linalg.inv(legendre.legvander(nodes, _NODES - 1)))
    return np.asarray(
        np.asarray(legendre.legval([1.0], primitive))
        - np.asarray(legendre.legval(nodes, primitive))
    )
