"""The record of the release of a fit, which charges the ledger of the fit before noise is drawn."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pate.accounting import Ledger
from pate.accounting.ledger_entry import ChargeNote
from pate.accounting.rounding import format_delta, format_epsilon
from pate.aggregators import MemoryRecord
from pate.classifier.past_fits import RememberedFit
from pate.pricing import PricedRelease
from pate.run.random_streams import readable_seed_name


class ChargingRecord(MemoryRecord):
    """A record in memory that charges a ledger once, before the first part of the release is drawn.

    The charge also records the fit in the memory of the process (`past_fits.py`). If the ledger has a file, the charge
    is on disk before the draw.

    Attributes:
        spent_epsilon: the total of the ledger after the charge; 0 before the charge.
    """

    def __init__(
        self, ledger: Ledger, priced_release: PricedRelease, fit_to_remember: RememberedFit
    ) -> None:
        super().__init__(charge=self._charge_ledger)
        self.spent_epsilon = 0.0
        self._ledger = ledger
        self._priced_release = priced_release
        self._fit_to_remember = fit_to_remember
        self._charge_key = uuid.uuid4().hex

    @property
    def is_charged(self) -> bool:
        """Whether the ledger holds the charge, even if this process was interrupted while it wrote the charge."""
        return self._ledger.read(self._charge_key) is not None

    @contextmanager
    def note_spent_price_on_error(self, *, consequence: str) -> Iterator[None]:
        """Adds to each error of a `with` block the note that the price of the release is spent, if it is charged.

        Interrupts such as Ctrl-C get the note, too.

        Args:
            consequence: what the error means for the release, as the end of the note.
        """
        try:
            yield
        except BaseException as error:
            if self.is_charged:
                price = self._fit_to_remember.price
                epsilon = format_epsilon(price.epsilon)
                delta = format_delta(price.delta)
                error.add_note(f"epsilon {epsilon} at delta {delta} is spent: {consequence}")
            raise

    def _charge_ledger(self) -> None:
        """Charges the ledger, records the fit in the memory of the process, and computes the total of the ledger."""
        aggregator = self._priced_release.aggregator
        charge_note = ChargeNote(
            description=f"a fit: {type(aggregator).__name__}",
            seed_name=readable_seed_name(self._fit_to_remember.price.seed),
        )
        self._ledger.commit(
            key=self._charge_key,
            event=self._priced_release.event,
            content=b"",
            charge_note=charge_note,
            adjacency=aggregator.adjacency,
        )
        self._fit_to_remember.remember()
        self.spent_epsilon = self._ledger.spent_epsilon
