"""Renyi divergences in closed form: the curves behind the events, each `[len(orders)]` at orders > 1."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import log_expit, log_ndtr

Array = NDArray[np.float64]

_GRID_SIZE = 4001
_MAX_SHIFT = 60.0
_ROUNDING = 2.0**-50
"""Of the terms that logarithms of moments are made of and that cancel: added, it covers their rounding errors."""
_LONGEST = 1e3
_BLOCK = 256  # pairs


def bernoulli_rdp(log_p: Array, log_not_p: Array, log_q: Array, log_not_q: Array, orders: Array) -> Array:
    """D_a(Bern(p) || Bern(q)) from logarithms, broadcast over all arguments, rounded up; sharp for tiny p."""
    ones = orders * log_p - (orders - 1) * log_q
    zeros = orders * log_not_p - (orders - 1) * log_not_q
    log_moment = np.maximum(np.logaddexp(ones, zeros), 0.0)
    lead = ones - zeros  # the smaller of both brings as little of its error as of itself
    terms = (
        1
        + np.exp(np.minimum(lead, 0)) * _size(log_p, log_q)
        + np.exp(np.minimum(-lead, 0)) * _size(log_not_p, log_not_q)
    )
    return np.asarray((log_moment + _ROUNDING / 4 * orders * terms) / (orders - 1))


def _size(one: Array, other: Array) -> Array:
    """The sum of the sizes of two logarithms <= 0, at most 2,000."""
    return np.asarray(np.minimum(-one, _LONGEST) + np.minimum(-other, _LONGEST))


def one_bit_rdp(logits: Array, reach: int, orders: Array) -> Array:
    """The largest D_a between one bit's distributions at two statistics that differ by at most `reach`.

    The logits never decrease, so the pairs exactly `reach` apart (or at the end) are the worst, either way round.
    """
    pairs, largest = pairs_apart(logits, reach), np.zeros_like(orders)
    for start in range(0, pairs.shape[1], _BLOCK):  # memory does not grow with the teachers
        block = pairs[:, start : start + _BLOCK]
        log_p, log_q = log_expit(block)[:, :, None]
        log_not_p, log_not_q = log_expit(-block)[:, :, None]
        for one in (
            bernoulli_rdp(log_p, log_not_p, log_q, log_not_q, orders),
            bernoulli_rdp(log_q, log_not_q, log_p, log_not_p, orders),
        ):
            np.maximum(largest, one.max(axis=0), out=largest)
    return largest


def pairs_apart(logits: Array, reach: int) -> Array:
    """The different logits exactly `reach` apart, or less at the end: `[2, P]`, each pair once, the larger second."""
    farther = logits[np.minimum(np.arange(len(logits)) + reach, len(logits) - 1)]
    pairs = {(low, high) for low, high in zip(logits.tolist(), farther.tolist(), strict=True) if low < high}
    return np.array(sorted(pairs)).reshape(-1, 2).T


def pure_dp_rdp(epsilon: float, orders: Array) -> Array:
    """The largest D_a of any epsilon-DP pair: that of randomized response (Kairouz, Oh & Viswanath 2015)."""
    if math.isinf(epsilon):
        return np.full_like(orders, np.inf)
    if epsilon == 0:
        return np.zeros_like(orders)
    yes, no = np.array(log_expit(epsilon)), np.array(log_expit(-epsilon))
    return np.minimum(bernoulli_rdp(yes, no, no, yes, orders), orders * (epsilon * epsilon / 2))


def bounded_range_rdp(epsilon: float, orders: Array) -> Array:
    """The largest D_a of any pair whose log-ratio spans at most `epsilon` (Dong, Durfee & Rogers 2020).

    The supremum over where the span lies is attained at
    exp(t) = (a-1)(1 - exp(-a e)) / (a (exp(-e) - exp(-a e))). Where a * e is so small that the closed form would
    cancel, the bound a e**2 / 8 is returned, which is above it by O(e**4).
    """
    if math.isinf(epsilon):
        return np.full_like(orders, np.inf)
    if epsilon == 0:
        return np.zeros_like(orders)
    bound = orders * (epsilon * epsilon / 8)
    more, less = -np.expm1(-orders * epsilon), -np.expm1(-(orders - 1) * epsilon)
    with np.errstate(divide="ignore"):  # of a product that vanishes
        log_more, log_less, log_least = np.log(more), np.log(less), math.log(-math.expm1(-epsilon))
    shift = np.log1p(-1 / orders) + log_more + epsilon - log_less
    log_moment = (orders - 1) * shift + log_more - np.log(orders) - log_least
    terms = orders * (1 + epsilon - np.minimum(log_more, 0) - np.minimum(log_less, 0)) - log_least
    exact = (log_moment + _ROUNDING * terms) / (orders - 1)
    cancels = orders - 1 < 1e-7 / orders / epsilon / epsilon
    return np.where(cancels, bound, np.minimum(exact, np.minimum(bound, epsilon)))


def noisy_max_gaussian_rdp(noise_multiplier: float, num_candidates: int, orders: Array) -> Array:
    """An upper bound for the argmax of values with Gaussian noise, each moved by at most one sensitivity.

    With M the maximum of `num_candidates - 1` standard normals and D = 2 / noise_multiplier, the release is dominated
    by the pair (M + D, M) and, the other way, by (M, M + D); either divergence bounds both directions, so the
    smaller one does (docs/proofs/gap_selection.md). Never above a D**2 / 2 + log(num_candidates) / (a - 1), the
    bound of Corollary 9 of Zhu & Wang (2022), which serves alone where a * D is too large to integrate.
    """
    return _maximum_rdp(noise_multiplier, num_candidates, orders, opposed=False)


def opposed_maxima_rdp(noise_multiplier: float, num_candidates: int, orders: Array) -> Array:
    """The same or less: the release is also dominated by two maxima that move by D / 2 in opposite ways."""
    return _maximum_rdp(noise_multiplier, num_candidates, orders, opposed=True)


def _maximum_rdp(noise_multiplier: float, num_candidates: int, orders: Array, *, opposed: bool) -> Array:
    if num_candidates == 1:
        return np.zeros_like(orders)
    if noise_multiplier == 0:
        return np.full_like(orders, np.inf)
    shift = 2 / noise_multiplier
    bound = orders * (shift * shift / 2) + math.log(num_candidates) / (orders - 1)
    near = orders * shift <= _MAX_SHIFT
    if near.any():
        smallest = np.minimum(*_both_ways(num_candidates - 1, shift, orders[near]))
        if opposed:
            smallest = np.minimum(smallest, sum(_both_ways(num_candidates - 1, shift / 2, orders[near])))
        bound[near] = np.minimum(bound[near], np.maximum(smallest / (orders[near] - 1), 0.0))
    return bound


def _both_ways(count: int, shift: float, orders: Array) -> tuple[Array, Array]:
    """(a - 1) D_a(M + shift || M) and (a - 1) D_a(M || M + shift)."""
    low, high = -12 - orders * shift, 12 + orders * shift  # [A]
    points = low + np.linspace(0, 1, _GRID_SIZE)[:, None] * (high - low)  # [G, A]
    steps = (high - low) / (_GRID_SIZE - 1)
    moved, still = _log_density_of_maximum(points - shift, count), _log_density_of_maximum(points, count)
    forward = _log_integral(orders * moved - (orders - 1) * still, steps)
    backward = _log_integral(orders * still - (orders - 1) * moved, steps)
    return forward, backward


def _log_density_of_maximum(x: Array, count: int) -> Array:
    """Log of count * phi(x) * Phi(x)**(count - 1)."""
    log_phi = -0.5 * x * x - 0.5 * math.log(2 * math.pi)
    return np.asarray(math.log(count) + log_phi + (count - 1) * log_ndtr(x))


def _log_integral(log_values: Array, steps: Array) -> Array:
    """Log of the trapezoid sum down axis 0 (the integrand vanishes at both ends)."""
    peak = log_values.max(axis=0)
    return np.asarray(peak + np.log(np.exp(log_values - peak).sum(axis=0) * steps))


def smooth_sensitivity_rdp(noise_multiplier: float, beta: float, orders: Array) -> Array:
    """The largest D_a between N(v, s**2) and N(v', s'**2) over what a smooth sensitivity allows.

    s / s' is within exp(-beta)..exp(beta), and v - v' within s / noise_multiplier and s' / noise_multiplier.
    """
    price = np.full_like(orders, np.inf)
    lost = -orders * math.expm1(-2 * beta)
    left = 1 - lost - _ROUNDING * (1 + lost)
    finite = left > 0
    if noise_multiplier == 0 or not finite.any():
        return price
    a, left = orders[finite], left[finite]
    with np.errstate(over="ignore", divide="ignore"):
        shift = a * math.exp(-2 * beta) / (2 * noise_multiplier * noise_multiplier * left)
    narrower = -a * beta - np.log(left) / 2
    wider = a * beta - np.log1p(a * math.expm1(2 * beta)) / 2
    terms = 1 + a * beta - np.log(left)
    price[finite] = shift * (1 + _ROUNDING) + (np.maximum(narrower, wider) + _ROUNDING * terms) / (a - 1)
    return price
