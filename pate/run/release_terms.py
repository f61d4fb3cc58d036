"""The terms of a release: how votes become labels, what that may cost, and which ledger it is charged to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pate.accounting import Accountant, AutoAccountant, Budget
from pate.aggregators import Aggregator


@dataclass(frozen=True, kw_only=True)
class ReleaseTerms:
    """The terms of a release, wherever its votes come from."""

    aggregator: Aggregator  # how votes become labels
    target_delta: float  # in (0, 1)
    target_epsilon: float | None = None  # that noise is solved for; None takes the noise as it is
    accountant: Callable[[], Accountant] = AutoAccountant  # makes an empty accountant
    # whether what tells nothing, or a delta that allows all, is said and not refused
    allow_useless: bool = False
    # whether a release whose file is gone is drawn again, with fresh noise and at its price
    redraw: bool = False
    # the file that all releases of the same private records are charged to; None for the one that
    # the run began with, or of a new run `ledger.db` in the folder that the run's folder lies in
    ledger: Path | str | None = None
    # what all of them may cost together; None for what the ledger has stored
    max_total_epsilon: float | None = None
    # whether records get an account there although another account knows some of them
    new_account: bool = False
    seed: int | None = None  # None draws secrets from the operating system
    # plain values; a folder of others is refused
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def budget(self) -> Budget:
        """Returns what the release may cost, and by which accountant."""
        return Budget(
            delta=self.target_delta,
            epsilon=self.target_epsilon,
            accountant=self.accountant,
        )
