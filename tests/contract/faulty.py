"""Faults of public code for multi-label PATE, written down on purpose, so that the checks can be seen to catch them."""

import math
from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pate.accounting import Event, GaussianEvent
from pate.accounting.data_dependent import gnmax_log_q, theorem_6_rdp

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


def adaptive_threshold_bits(counts: Counts, noise_std: float) -> Array:
    """Fault 1: label probabilities against a threshold in the middle of the largest gap of the raw counts."""
    rising = np.sort(counts)
    at = int(np.argmax(np.diff(rising)))
    return np.asarray(ndtr((counts - (rising[at] + rising[at + 1]) / 2) / noise_std))


def same_noise_for_every_query(counts: Counts, seed: int) -> NDArray[np.bool_]:
    """Fault 2: a seed where a generator belongs."""
    return np.stack([row + np.random.default_rng(seed).normal(0, 3.0, row.shape) > 20 for row in counts])


def capped_at_tau(noise_std: float, tau: int) -> Event:
    """Fault 3: the sensitivity of tau votes that come or go, where tau can be traded for tau others."""
    return GaussianEvent(noise_std / tau**0.5)


def conjunction(count: int, *, num_counts: int, noise_std: float) -> float:
    """Fault 4: the probability that all of so many equal counts pass 0, each with noise of its own, …"""
    return float(ndtr(count / noise_std) ** num_counts)


def conjunction_price(noise_std: float) -> Event:
    """… charged as one noisy count."""
    return GaussianEvent(noise_std)


def single_label_price(noise_std: float, num_labels: int) -> Event:
    """Fault 5: L thresholds for the price of one plurality."""
    return GaussianEvent(noise_std / 2**0.5)


def epsilon_of_rdp(orders: Array, rdp: Array, delta: float) -> float:
    """Fault 6: "if noise scale = 0.0": no noise is written as no cost, and converted to nothing."""
    if np.sum(rdp) == 0:
        return 0.0
    return float((rdp - math.log(delta) / (orders - 1)).min())


def votes_with_a_variance(counts: Counts, noise_std: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Fault 7: the square root of what is called a standard deviation."""
    return np.asarray(counts + rng.normal(0, math.sqrt(noise_std), counts.shape) > 20)


def expected_price(counts: Counts) -> float:
    """Fault 8: the cost of an answer times the probability of answering."""
    return float((ndtr((counts.max(axis=1) - 34) / 2.0) * (8 / 36)).sum())


def answers_without_screening(noise_std: float, num_labels: int) -> Event:
    """Fault 9: the price of the answer alone."""
    return GaussianEvent(noise_std / num_labels**0.5)


def data_dependent_epsilon(counts: Counts) -> float:
    """Fault 10: an epsilon computed from the votes, printed as the guarantee."""
    orders = np.arange(2.0, 60.0)
    rdp = theorem_6_rdp(gnmax_log_q(counts, noise_std=8.0), noise_std=8.0, orders=orders).sum(axis=0)
    return epsilon_of_rdp(orders, rdp, 1e-5)


def smooth_sensitivity_of_class_0(counts: Counts, fair: Callable[[Counts], float]) -> float:
    """Fault 11: sorted values looked up by unsorted indices: right if class 0 wins, and 0 otherwise."""
    return fair(counts) if (counts.argmax(axis=1) == 0).all() else 0.0


def overlapping_teachers(group_ids: NDArray[np.int64], num_teachers: int) -> NDArray[np.int64]:
    """Fault 12: records dealt without looking at whose they are: `[num_private]` teachers."""
    return np.arange(len(group_ids), dtype=np.int64) % num_teachers


def queries_until_spent(epsilon: Callable[[int], float], budget: float, most: int) -> int:
    """Fault 13: stops where a comparison is False, which it is for NaN, and calls what was asked affordable."""
    asked = 0
    while asked < most and not epsilon(asked + 1) > budget:
        asked += 1
    return asked


def mended_curve(rdp: Array) -> Array:
    """Fault 13: what came out negative or NaN is silently replaced."""
    return np.asarray(np.where(np.nan_to_num(rdp) < 0, 0.0, np.nan_to_num(rdp)))


def one_price_for_all(noise_std: float, adjacency: str) -> Event:
    """Fault 14: the price of add/remove, whatever the adjacency."""
    return GaussianEvent(noise_std)


def flipped_as_exponential(epsilon: float) -> float:
    """Fault 15: rho of a bounded range, for a mechanism that has none."""
    return epsilon**2 / 8


def permute_and_flip(utilities: Array, epsilon: float, *, reach: float) -> Array:
    """Permute-and-flip by its definition: candidates are tried in a random order, each by its coin. `[n]`."""
    coins = np.exp(epsilon * (utilities - utilities.max()) / (2 * reach))
    n, distribution = len(coins), np.zeros(len(coins))
    for order in product(range(n), repeat=n):
        if len(set(order)) == n:
            left = 1.0
            for candidate in order:
                distribution[candidate] += left * coins[candidate] / math.factorial(n)
                left *= 1 - coins[candidate]
    return distribution
