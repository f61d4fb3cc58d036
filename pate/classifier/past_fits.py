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

from pate.accounting import Adjacency, Event, PrivacyUnit
from pate.accounting.rounding import format_delta, format_epsilon
from pate.accounting.total import total_price
from pate.array_types import Float32Array
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


@dataclass(frozen=True, kw_only=True)
class PlannedFit:
    """A fit that is priced and not charged yet; only charged fits are remembered.

    Attributes:
        record_digests: the digests of the private records that are remembered.
        epsilon: the epsilon of the fit.
        delta: the delta of the fit.
        event: the price of the fit.
        seed: the seed of the fit; None for noise from the operating system.
        unit: the unit of privacy of the fit.
        adjacency: the adjacency of the fit.
    """

    record_digests: tuple[bytes, ...]
    epsilon: float
    delta: float
    event: Event
    seed: int | None
    unit: PrivacyUnit
    adjacency: Adjacency

    @classmethod
    def from_inputs(
        cls,
        inputs: Float32Array,
        *,
        epsilon: float,
        delta: float,
        event: Event,
        seed: int | None,
        unit: PrivacyUnit,
        adjacency: Adjacency,
    ) -> Self:
        """Returns a fit that is priced and not charged yet, with keyed digests of its private records.

        At most 1,000 records, those with the smallest digests, are remembered.

        Args:
            inputs: the private records that are digested, `[num_private, num_features]`.
            epsilon: see the class, as for the arguments below.
            delta: see the class.
            event: see the class.
            seed: see the class.
            unit: see the class.
            adjacency: see the class.
        """
        record_digests = {
            hashlib.blake2b(row.data, digest_size=8, key=_KEY).digest()
            for row in rows_as_bytes(inputs)
        }
        return cls(
            record_digests=tuple(heapq.nsmallest(_MOST_REMEMBERED, record_digests)),
            epsilon=epsilon,
            delta=delta,
            event=event,
            seed=seed,
            unit=unit,
            adjacency=adjacency,
        )

    def dearest_fits(self) -> PastFits:
        """Returns the fits of that private record whose prices have the greatest sum, this fit included."""
        dearest = PastFits()
        for digest in self.record_digests:
            fits = self._added_to(_FITS.get(digest, PastFits()))
            if (fits.epsilon, fits.count) > (dearest.epsilon, dearest.count):
                dearest = fits
        return dearest

    def remember(self) -> None:
        """Records this fit in the memory of the process; called when the fit has been charged."""
        for digest in self.record_digests:
            _FITS[digest] = self._added_to(_FITS.get(digest, PastFits()))

    def _added_to(self, past: PastFits) -> PastFits:
        """Returns the earlier fits of a private record together with this fit."""
        return past.with_fit(
            self.epsilon,
            self.delta,
            event=self.event,
            seed=self.seed,
            unit=self.unit,
            adjacency=self.adjacency,
        )


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
