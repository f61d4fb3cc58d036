"""The terms of a release: how votes become labels, what that may cost, and which ledger it is charged to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pate.accounting import Accountant, AutoAccountant, Budget
from pate.aggregators import Aggregator
from pate.settings import ReleaseSettings


@dataclass(frozen=True, kw_only=True)
class ReleaseTerms(ReleaseSettings):
    """The terms of a release, wherever its votes come from: the settings of `ReleaseSettings`, and objects beside them.

    Attributes:
        aggregator: how votes become labels.
        target_epsilon: that noise is solved for; None takes the noise as it is.
        accountant: makes an empty accountant.
        new_account: whether records get an account of their own although another one knows some of them.
        settings: plain values; a folder of others is refused.
    """

    aggregator: Aggregator
    target_epsilon: float | None = None
    accountant: Callable[[], Accountant] = AutoAccountant
    new_account: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def budget(self) -> Budget:
        """Returns what the release may cost, and by which accountant."""
        return Budget(
            delta=self.target_delta,
            epsilon=self.target_epsilon,
            accountant=self.accountant,
        )
