"""The record of one release in a ledger, and the refusal of a release that the ledger's cap has no room for."""

from __future__ import annotations

from collections.abc import Callable

from pate.accounting.cap import BudgetExceeded
from pate.accounting.event_tree import failure_probability
from pate.accounting.ledger import Ledger
from pate.accounting.ledger_entry import ChargeNote
from pate.aggregators.record import Arrays
from pate.errors import Remedy
from pate.files.arrays import arrays_of_npz, npz_bytes
from pate.pricing import PricedRelease
from pate.report import format_epsilon
from pate.validation import InvalidValue, rounded_down

_LATER_FAILURES = 0.5  # of the failures that a ledger has left, so that later releases have some


class LedgerRecord:
    """The record of one release in a ledger: its first part is committed in one transaction with the charge.

    A part that was committed is read back, whoever asks: the same run after a kill, or a copy of its folder. What was
    drawn and not committed was shown to nobody, and is drawn afresh.

    `key` names the draw: keys of its parts begin with it.
    """

    def __init__(
        self, account: Ledger, priced: PricedRelease, *, key: str, note: ChargeNote | None = None
    ) -> None:
        self.account = account
        self.priced = priced
        self.key = key
        self.note = note or ChargeNote(run=key)
        self._parts: dict[str, Arrays] = {}

    def part(self, name: str, draw: Callable[[], Arrays]) -> Arrays:
        """Returns the arrays of a part once they, and the charge, are on disk; drawn unless they were there before.

        Raises where the ledger's cap has no room for the release; nothing is charged then.
        """
        arrays = self.committed(name)
        if arrays is None:
            # what is drawn may have parts of its own; the first of them carries the charge
            content = npz_bytes(**draw())
            arrays = self._parts[name] = arrays_of_npz(self.commit(name, content))
        return arrays

    def committed(self, name: str) -> Arrays | None:
        """Returns the arrays of a part that was committed before, or None."""
        if name not in self._parts:
            content = self.account.read(f"{self.key}:{name}")
            if content is None:
                return None
            self._parts[name] = arrays_of_npz(content)
        return self._parts[name]

    def commit(self, name: str, content: bytes) -> bytes:
        """Commits the bytes of a part; returns what the ledger has of it. Errors are those of `part`."""
        try:
            return self.account.commit(
                f"{self.key}:{name}",
                self.priced.event,
                content,
                self.note,
                adjacency=self.priced.aggregator.adjacency,
                release=self.key,
            )
        except BudgetExceeded as error:
            raise refusal(self.account, self.priced) from error


def require_room(account: Ledger, priced: PricedRelease) -> None:
    """Raises where the cap of a ledger has no room for a release; nothing is charged."""
    if account.affords(priced.event) < 1:
        raise refusal(account, priced)


def refusal(account: Ledger, priced: PricedRelease) -> InvalidValue:
    """What is said of a release that the cap of a ledger does not allow: what is spent, the price, and the cap."""
    failures = failure_probability(priced.event)
    if failures > account.failures_left:
        left = account.failures_left
        rule = f"failures of at most {rounded_down(left, 3)} of delta in all, which ledger={account.path} has left for"
        aggregator = priced.aggregator
        tests = aggregator.num_tests(priced.shape.num_queries)
        fitting = float(rounded_down(left * _LATER_FAILURES / max(tests, 1), 2))
        setting = vars(aggregator).get("failure_prob")
        rule = f"{rule} these records; nothing is spent"
        if setting is None:
            return InvalidValue("failure_prob", rule=rule)
        remedies = (Remedy("failure_prob", fitting, owner="aggregator"),) if fitting > 0 else ()
        return InvalidValue(
            "failure_prob", setting, rule=rule, remedies=remedies, owner="aggregator"
        )
    if account.noise_is_shared:
        rule = f"no cap, as releases in ledger={account.path} share their noise and no epsilon covers them"
        return BudgetExceeded(
            "max_epsilon", account.max_epsilon, rule=f"{rule}; nothing is spent", owner="ledger"
        )
    price = format_epsilon(priced.epsilon)
    spent = format_epsilon(account.spent_epsilon)
    rule = (
        f"room for this release of epsilon {price} beside epsilon {spent}, which these records "
        f"have cost by ledger={account.path}; nothing is spent"
    )
    return BudgetExceeded("max_epsilon", account.max_epsilon, rule=rule, owner="ledger")
