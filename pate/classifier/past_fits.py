"""A memory of the fits of this process, by which a fit warns if some of its records were fitted before.

The memory ends with the process, and no fit is refused because of it. A ledger file adds up the prices of the fits of
all processes.
"""

import hashlib
import heapq
import math
import secrets
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from pate.accounting import Adjacency, Event, PrivacyUnit
from pate.accounting.rounding import format_delta, format_epsilon
from pate.accounting.total import total_price
from pate.classifier.fit_warnings import RepeatedRelease
from pate.classifier.inputs import rows_as_bytes
from pate.errors import users_stack_level

# The most records of a fit that are remembered, those with the smallest digests. So two fits that have most records in
# common remember many of the same records.
_MAX_REMEMBERED = 1000


@dataclass(frozen=True, kw_only=True)
class RememberedPrice:
    """The price of one fit, with the seed of its noise, and with the unit and adjacency that the price holds for.

    Attributes:
        epsilon: the epsilon of the fit.
        delta: the delta at which `epsilon` holds.
        event: the price as an event, from which accountants compute an epsilon.
        seed: the seed of the noise; None for noise from the operating system.
        unit: the unit of privacy.
        adjacency: the neighboring relation of data sets.
    """

    epsilon: float
    delta: float
    event: Event
    seed: int | None
    unit: PrivacyUnit
    adjacency: Adjacency


@dataclass(frozen=True)
class PastFits:
    """The fits of this process that used one private record.

    Attributes:
        count: the number of fits.
        epsilon: the sum of their epsilons; infinity if no sum covers them (`with_fit` states when).
        delta: the sum of their deltas, at which `epsilon` holds, at most 1.
        events: the event of each fit.
        deltas: the delta of each fit.
        seeds: the seeds of their noise, without fits that took it from the operating system.
        units_and_adjacencies: the different pairs of a unit of privacy and an adjacency among the fits.
    """

    count: int = 0
    epsilon: float = 0.0
    delta: float = 0.0
    events: tuple[Event, ...] = ()
    deltas: tuple[float, ...] = ()
    seeds: frozenset[int] = frozenset()
    units_and_adjacencies: frozenset[tuple[PrivacyUnit, Adjacency]] = frozenset()

    def with_fit(self, price: RememberedPrice) -> Self:
        """Returns these fits together with one more fit.

        The total epsilon is infinity if two fits have the same seed, and so the same noise; if their units or
        adjacencies differ; or if their deltas add up to 1 or more.

        Args:
            price: the price of the new fit.
        """
        units_and_adjacencies = self.units_and_adjacencies | {(price.unit, price.adjacency)}
        total_epsilon = self.epsilon + price.epsilon
        total_delta = min(self.delta + price.delta, 1.0)
        if price.seed in self.seeds or len(units_and_adjacencies) > 1 or total_delta == 1:
            total_epsilon = math.inf
        return replace(
            self,
            count=self.count + 1,
            epsilon=total_epsilon,
            delta=total_delta,
            events=(*self.events, price.event),
            deltas=(*self.deltas, price.delta),
            seeds=self.seeds if price.seed is None else self.seeds | {price.seed},
            units_and_adjacencies=units_and_adjacencies,
        )


# The key of all digests of records, which ends with the process.
_KEY = secrets.token_bytes(16)
# The fits of each private record that is remembered, by the digest of the record.
_fits_by_record_digest: dict[bytes, PastFits] = {}


@dataclass(frozen=True, kw_only=True)
class RememberedFit:
    """A fit in the form in which the memory of this process holds it; `remember` adds it once it is charged.

    Attributes:
        record_digests: the digests of the private records that are remembered.
        price: the price of the fit.
    """

    record_digests: tuple[bytes, ...]
    price: RememberedPrice

    @classmethod
    def from_inputs(cls, inputs: Any, *, price: RememberedPrice) -> Self:
        """Returns a fit that may not be charged yet, with keyed digests of its private records.

        At most 1,000 records, those with the smallest digests, are remembered.

        Args:
            inputs: the private records, `[num_private, num_features]`, or a sparse matrix, or a DataFrame.
            price: the price of the fit.
        """
        record_digests = {
            hashlib.blake2b(row.data, digest_size=8, key=_KEY).digest()
            for row in rows_as_bytes(inputs)
        }
        return cls(
            record_digests=tuple(heapq.nsmallest(_MAX_REMEMBERED, record_digests)),
            price=price,
        )

    def costliest_fits(self) -> PastFits:
        """Returns the fits of the remembered private record that has paid most, this fit included.

        That is the record whose fits have the greatest sum of epsilons and, of equal sums, the most fits.
        """
        costliest = PastFits()
        for digest in self.record_digests:
            fits = self._fits_of_record(digest)
            if (fits.epsilon, fits.count) > (costliest.epsilon, costliest.count):
                costliest = fits
        return costliest

    def remember(self) -> None:
        """Records this fit in the memory of the process; called when the fit has been charged."""
        for digest in self.record_digests:
            _fits_by_record_digest[digest] = self._fits_of_record(digest)

    def _fits_of_record(self, digest: bytes) -> PastFits:
        """Returns the earlier fits of a private record in this process, together with this fit."""
        return _fits_by_record_digest.get(digest, PastFits()).with_fit(self.price)


@contextmanager
def memory_unchanged() -> Iterator[None]:
    """Forgets the fits of a `with` block at its end. So a search, whose number of fits is secret, counts as one fit."""
    earlier_fits = dict(_fits_by_record_digest)
    try:
        yield
    finally:
        _fits_by_record_digest.clear()
        _fits_by_record_digest.update(earlier_fits)


def warn_of_past_fits(past_fits: PastFits) -> None:
    """Warns if a record was fitted before in this process.

    Args:
        past_fits: the fits of the record, the present fit included.
    """
    if past_fits.count < 2:
        return
    sum_words = _sum_in_words(past_fits)
    line = (
        f"fit {past_fits.count} of this process on the same records: "
        f"each fit is a release of its own, and {sum_words}"
    )
    advice = "A search or a cross-validation makes many; ledger= keeps count"
    warnings.warn(f"{line}. {advice}", RepeatedRelease, stacklevel=users_stack_level())


def _sum_in_words(past_fits: PastFits) -> str:
    """Returns the total price of fits in words, or the reason why they have no total price."""
    if len(past_fits.units_and_adjacencies) > 1:
        units = sorted(
            {unit.protected_under(adjacency) for unit, adjacency in past_fits.units_and_adjacencies}
        )
        return f"no sum of epsilons covers fits whose epsilons are for {' and for '.join(units)}"
    if past_fits.delta == 1:
        return "no sum of epsilons covers fits whose deltas add up to 1"
    if math.isinf(past_fits.epsilon):
        return "no sum of epsilons covers fits that share their noise, as those with one random_state do"
    # The sum is a lower bound: of large data only some records are remembered, and a record that was scaled in another
    # way looks like a new record.
    price_of_all_fits = total_price(past_fits.events, past_fits.deltas)
    figures = f"epsilon {format_epsilon(price_of_all_fits.epsilon)} at delta {format_delta(price_of_all_fits.delta)}"
    return f"their prices add up, here to at least {figures}"
