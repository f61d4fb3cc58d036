"""The terms of a release: its aggregator, its budget, and the ledger that it is charged to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pate.accounting import Accountant, AutoAccountant, Budget
from pate.aggregators import Aggregator
from pate.run.tuned_runs import TunedRuns
from pate.settings import ReleaseSettings


@dataclass(frozen=True, kw_only=True)
class ReleaseTerms(ReleaseSettings):
    """The terms of a release: its aggregator, its budget and its ledger. They do not depend on the source of the votes.

    The fields are the settings of `ReleaseSettings`, under their names in `pate/settings.py`, and the following
    objects.

    Attributes:
        aggregator: turns votes into labels.
        target_epsilon: the epsilon that noise is solved for; None leaves the noise of the aggregator as it is, unless
            a subclass has another budget, such as `target_mu`.
        accountant: makes a new accountant, which computes prices.
        start: the folder of the earlier release that the student starts from; None for no start.
        new_account: true gives the records an account of their own, even if another account lists some of their owners.
        tuned: the public facts on the runs of a tuning, of which the best is published; None for a release outside of a
            tuning.
        settings: the settings as plain values; a folder of a run with other values is refused.
    """

    aggregator: Aggregator
    target_epsilon: float | None = None
    accountant: Callable[[], Accountant] = AutoAccountant
    start: Path | str | None = None
    new_account: bool = False
    tuned: TunedRuns | None = None
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def budget(self) -> Budget:
        """Returns the budget of the release: its epsilon, its delta and the accountant that computes the price."""
        make_accountant = self.accountant
        return Budget(
            delta=self.target_delta,
            epsilon=self.target_epsilon,
            accountant=make_accountant,
        )
