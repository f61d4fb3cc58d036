"""The priced fit: the objects that step 1 of `PATEClassifier.fit` hands on to its other steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pate.accounting import Ledger
from pate.classifier.charging_record import ChargingRecord
from pate.classifier.fit_inputs import FitInputs
from pate.classifier.fit_ledger import LedgerSettings
from pate.classifier.fit_plan import FitPlan
from pate.classifier.held_out import FitScores
from pate.classifier.past_fits import RememberedFit, RememberedPrice
from pate.classifier.publication import FitPrice
from pate.pricing import PricedRelease
from pate.run.random_streams import RandomStreams


@dataclass(frozen=True, eq=False, kw_only=True)  # compared by identity, as its parts are
class PricedFit:
    """A fit whose release has a price and an open ledger. All later steps share these objects.

    Attributes:
        inputs: the data of the fit. Private: it has the private records and the test records.
        plan: the plan of the fit. Private, for the same records.
        price: the price of the release.
        scores: the priced scores on test records; None for no scores. Private: it has the test records.
        streams: the random numbers of the fit.
        ledger_settings: the settings of the ledger.
        ledger: the ledger, which has room for the fit. Step 1 charges nothing.
    """

    inputs: FitInputs
    plan: FitPlan
    price: FitPrice
    scores: FitScores | None
    streams: RandomStreams
    ledger_settings: LedgerSettings
    ledger: Ledger

    @property
    def priced_release(self) -> PricedRelease:
        """The aggregator with its noise, and the price."""
        return self.price.priced_release

    @property
    def student_seed(self) -> int:
        """The seed of the training of the student."""
        return self.streams.seed("student")

    @cached_property
    def fit_to_remember(self) -> RememberedFit:
        """The fit in the form that `RememberedFit.remember` keeps for this process once the fit is charged.

        A later fit without a ledger then warns that its records were fitted before, and adds the prices up. What is
        kept is the price, of a fit in a search that of the search, and digests of private records.
        """
        remembered_price = RememberedPrice(
            epsilon=self.price.epsilon,
            delta=self.price.budget.delta,
            event=self.price.published_event,
            seed=self.price.seed,
            unit=self.price.unit,
            adjacency=self.priced_release.aggregator.adjacency,
        )
        return RememberedFit.from_inputs(
            self.plan.data_pools.private_inputs, price=remembered_price
        )

    def record(self) -> ChargingRecord:
        """Returns a record of the release, which charges the ledger before the first part is drawn."""
        return ChargingRecord(self.ledger, self.priced_release, self.fit_to_remember)
