"""Counts that a formula makes, in the shape of data that cannot be had from a package; each says that it is synthetic.

Nothing here is evidence about the data it resembles: the shapes are ours, chosen once and not fitted.
"""

from __future__ import annotations

import numpy as np

from pate.validation import require, require_count
from reproductions.counts.count_data import CountData

_NOT_THE_PAPERS = "made by a formula of ours; the paper's own histogram is not published with it"


def sparse_histogram(
    num_items: int = 15_000, num_counts: int = 700, *, most: int = 50_000, least: int = 0
) -> CountData:
    """Many items of which few have counts: the i-th largest of `num_counts` is most / i, or `least` if that is more.

    With a `least` there is a gap of that size after `num_counts`; without, the counts fade out. The others are 0.

    >>> sparse_histogram(6, 3, most=12, least=5).counts
    array([12,  6,  5,  0,  0,  0])
    """
    require_count("num_items", num_items)
    require_count("num_counts", num_counts)
    require_count("most", most)
    require(num_counts <= num_items, "num_counts", num_counts, f"at most num_items={num_items}")
    require(0 <= least <= most, "least", least, f"a number in 0..most={most}")
    counts = np.zeros(num_items, dtype=np.int64)
    counts[:num_counts] = np.maximum(most // np.arange(1, num_counts + 1), least)
    items = tuple(f"item {place}" for place in range(num_items))
    name = f"histogram with a gap of {least}" if least else "histogram that fades out"
    return CountData(name, False, items, counts, most=most, notes=(_NOT_THE_PAPERS,))


def check_ins_look_alike(num_places: int = 20_000, *, num_users: int = 50_000) -> CountData:
    """A heavy tail of places: the i-th has num_users / 20 / i**0.8 users, at least 1."""
    require_count("num_places", num_places)
    require_count("num_users", num_users)
    ranks = np.arange(1, num_places + 1, dtype=np.float64)
    counts = np.maximum(np.floor(num_users / 20 * ranks**-0.8), 1).astype(np.int64)
    items = tuple(f"place {place}" for place in range(num_places))
    return CountData("check-ins look-alike", False, items, counts, most=num_users, notes=(_NOT_THE_PAPERS,))


def state_cases_look_alike(num_days: int = 10, *, num_states: int = 55) -> CountData:
    """New cases a day of states of very different sizes.

    The i-th state has about 6,000 / i**0.7 new cases a day, more in the middle of the week, moving by a few per cent a
    day; the same numbers each time.
    """
    require_count("num_days", num_days)
    require_count("num_states", num_states, minimum=2)
    rng = np.random.default_rng(20_201_101)
    days = np.arange(num_days)[:, None]
    level = 6000 * np.arange(1, num_states + 1) ** -0.7 * np.exp(0.02 * days * rng.uniform(-1, 1, num_states))
    week = 1 + 0.15 * np.sin(2 * np.pi * days / 7)
    new = np.floor(level * week * rng.uniform(0.95, 1.05, level.shape)).astype(np.int64)
    items = tuple(f"State {place:02}" for place in range(num_states))
    notes = (f"{num_days} days", "made by a formula of ours")
    return CountData("state cases look-alike", False, items, np.minimum(new, 20_000), most=20_000, notes=notes)
