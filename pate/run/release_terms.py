"""The terms of a release: its aggregator, its budget, and the ledger that it is charged to."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pate.accounting import Accountant, AutoAccountant, Budget
from pate.aggregators import Aggregator
from pate.settings import ReleaseSettings


@dataclass(frozen=True, kw_only=True)
class ReleaseTerms(ReleaseSettings):
    """The terms of a release, wherever its votes come from.

    The fields are the settings of `ReleaseSettings`, under their names in `pate/settings.py`, and the objects below.

    Attributes:
        aggregator: turns votes into labels.
        target_epsilon: the epsilon that noise is solved for; None takes the noise as it is.
        accountant: makes an empty accountant.
        new_account: whether records get an account of their own although another account knows some of their owners.
        settings: plain values; a folder of a run with other values is refused.
    """

    aggregator: Aggregator
    target_epsilon: float | None = None
    accountant: Callable[[], Accountant] = AutoAccountant
    new_account: bool = False
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def budget(self) -> Budget:
        """Returns the budget of the release: its epsilon and delta, as the accountant bounds them."""
        return Budget(
            delta=self.target_delta,
            epsilon=self.target_epsilon,
            accountant=self.accountant,
        )
