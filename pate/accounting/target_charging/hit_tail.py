"""How often the data is looked at before a number of hits is reached: the exact binomial tail."""

from __future__ import annotations

from pate.accounting.special import betaincc
from pate.validation import require, require_count, require_probability

_MOST_ACCESSES = 2**53


def overrun_probability(num_accesses: int, *, target_hits: int, hit_prob: float) -> float:
    """The largest probability that a session of `target_hits` hits accesses the data more than `num_accesses` times.

    P[Bin(num_accesses, hit_prob) < target_hits], exact, in place of a Chernoff bound.

    Args:
        num_accesses: n, >= 0.
        target_hits: tau, >= 1.
        hit_prob: q, in (0, 1).

    Source:
        Cohen & Lyu (2023), Theorem B.4.
    """
    n = require_count("num_accesses", num_accesses, minimum=0)
    hits = require_count("target_hits", target_hits)
    require_probability("hit_prob", hit_prob)
    # As an incomplete beta function: scipy's bdtr is wrong beyond 2**31 accesses.
    return 1.0 if n < hits else float(betaincc(hits, n - hits + 1, hit_prob))


def min_accesses(*, target_hits: int, hit_prob: float, overrun_prob: float) -> int:
    """The smallest number of accesses that is exceeded with probability at most `overrun_prob`.

    Args:
        target_hits: hits after which the session halts, >= 1.
        hit_prob: q of the target.
        overrun_prob: the delta that this takes, in (0, 1).

    Raises:
        InvalidValue: a `hit_prob` so small that more than 2**53 accesses would have to be paid.
    """
    require_probability("overrun_prob", overrun_prob)

    def suffices(num_accesses: int) -> bool:
        return overrun_probability(num_accesses, target_hits=target_hits, hit_prob=hit_prob) <= overrun_prob

    low, high = require_count("target_hits", target_hits) - 1, 2 * target_hits
    while not suffices(high):
        low, high = high, 2 * high
        require(high <= _MOST_ACCESSES, "hit_prob", hit_prob, f"one that needs at most {_MOST_ACCESSES} accesses")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
