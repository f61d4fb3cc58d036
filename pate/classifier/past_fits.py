"""The memory of this process of earlier fits, with which a fit warns that the same records were fitted before.

Only a ledger adds up their prices.
"""

import hashlib
import heapq
import math
import secrets
import warnings
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, PrivacyUnit
from pate.accounting.rounding import format_delta, format_epsilon
from pate.accounting.total import total_price
from pate.classifier.fit_warnings import RepeatedRelease
from pate.classifier.inputs import rows_as_bytes

# Of each fit so many records are remembered, those with the smallest digests: fits that have records in common then
# remember some of them in common.
_MOST_REMEMBERED = 1000


@dataclass(frozen=True)
class PastFits:
    """The fits of this process that used one private record: their number, total price, seeds and units of privacy."""

    count: int = 0
    epsilon: float = 0.0  # the sum of their prices; infinity if no sum covers them
    delta: float = 0.0  # the sum of their deltas, at which `epsilon` holds
    events: tuple[Event, ...] = ()  # their prices
    deltas: tuple[float, ...] = ()  # at which each price is stated
    seeds: frozenset[int] = frozenset()  # of their noise
    changes: frozenset[tuple[PrivacyUnit, Adjacency]] = frozenset()  # what their prices are for

    def with_fit(
        self,
        epsilon: float,
        delta: float,
        *,
        event: Event,
        seed: int | None,
        unit: PrivacyUnit,
        adjacency: Adjacency,
    ) -> Self:
        """Returns these fits together with one more fit.

        The total epsilon is infinity if two fits have the same seed, and so the same noise; if their units or
        adjacencies differ; or if their deltas add up to 1 or more.

        Args:
            epsilon: the epsilon of the new fit.
            delta: the delta of the new fit.
            event: the price of the new fit.
            seed: the seed of the new fit; None for noise from the operating system.
            unit: the unit of privacy of the new fit.
            adjacency: the adjacency of the new fit.
        """
        changes = self.changes | {(unit, adjacency)}
        total_epsilon = self.epsilon + epsilon
        total_delta = min(self.delta + delta, 1.0)
        if seed in self.seeds or len(changes) > 1 or total_delta == 1:
            total_epsilon = math.inf
        return replace(
            self,
            count=self.count + 1,
            epsilon=total_epsilon,
            delta=total_delta,
            events=(*self.events, event),
            deltas=(*self.deltas, delta),
            seeds=self.seeds if seed is None else self.seeds | {seed},
            changes=changes,
        )


# By digests of records, under a key that ends with the process.
_KEY = secrets.token_bytes(16)
_FITS = dict[bytes, PastFits]()


def remember_fit(
    inputs: NDArray[np.float32],
    epsilon: float,
    delta: float,
    *,
    event: Event,
    seed: int | None,
    unit: PrivacyUnit,
    adjacency: Adjacency,
) -> PastFits:
    """Records a fit, and returns the fits of that private record whose prices have the greatest sum.

    The new fit is included. Arguments are those of `PastFits.with_fit`, and the private inputs `[num_private,
    num_features]`.
    """
    record_digests = {
        hashlib.blake2b(row.data, digest_size=8, key=_KEY).digest() for row in rows_as_bytes(inputs)
    }
    dearest = PastFits()
    for digest in heapq.nsmallest(_MOST_REMEMBERED, record_digests):
        past = _FITS.get(digest, PastFits()).with_fit(
            epsilon, delta, event=event, seed=seed, unit=unit, adjacency=adjacency
        )
        _FITS[digest] = past
        if (past.epsilon, past.count) > (dearest.epsilon, dearest.count):
            dearest = past
    return dearest


def warn_of_past_fits(past: PastFits, *, stacklevel: int) -> None:
    """Warns if a record was fitted before in this process.

    Args:
        past: the fits of the record, the present fit included.
        stacklevel: the stack level of the warning, counted from the caller.
    """
    if past.count < 2:
        return
    price = ""
    if len(past.changes) > 1:
        units = sorted({unit.protected_under(adjacency) for unit, adjacency in past.changes})
        price = (
            f"and no sum of epsilons covers fits whose epsilons are for {' and for '.join(units)}"
        )
    elif past.delta == 1:
        price = "and no sum of epsilons covers fits whose deltas add up to 1"
    elif math.isinf(past.epsilon):
        price = "and no sum of epsilons covers fits that share their noise, as those with one random_state do"
    else:
        # At least: of large data only some records are remembered, and records that were scaled otherwise look new.
        total = total_price(past.events, past.deltas)
        figures = f"epsilon {format_epsilon(total.epsilon)} at delta {format_delta(total.delta)}"
        price = f"and their prices add up, here to at least {figures}"
    line = f"fit {past.count} of this process on the same records: each fit is a release of its own, {price}"
    ending = "A search or a cross-validation makes many; ledger= keeps count"
    warnings.warn(f"{line}. {ending}", RepeatedRelease, stacklevel=stacklevel + 1)
