"""The record of one release in a ledger, and the error for a release that exceeds the ledger's cap.

`LedgerRecord.commit` passes the drawn content and its price to the ledger, which writes both in one SQLite transaction.
The `COMMIT` of that transaction, in `pate/accounting/store.py`, is the charge. If the process is killed before the
`COMMIT`, nothing has been shown and nothing charged. If it is killed after the `COMMIT`, the same call reads the drawn
content back (docs/proofs/store.md).
"""

from __future__ import annotations

from collections.abc import Callable

from pate.accounting.cap import BudgetExceeded
from pate.accounting.event_tree import failure_probability
from pate.accounting.ledger import Ledger
from pate.accounting.ledger_entry import ChargeNote
from pate.accounting.rounding import floor_to_digits
from pate.aggregators.record import Arrays
from pate.errors import Remedy
from pate.files.arrays import arrays_of_npz, npz_bytes
from pate.pricing import PricedRelease
from pate.report import format_epsilon
from pate.validation import InvalidValue

# A remedy suggests this share of the failure probability that remains in a ledger, so that some remains for later
# releases.
_SHARE_OF_FAILURES = 0.5


class LedgerRecord:
    """A record of one release in a ledger: its first part and its charge are written in one transaction.

    A committed part is read back if the same run, or a copy of its folder, continues after a kill. A part that was
    drawn but not committed was shown to nobody, so it is drawn again.

    Attributes:
        account: the account of the private records, which is charged.
        priced_release: the release with its price.
        release_key: the key of the draw; the keys of its parts in the ledger begin with it.
        charge_note: the note that the ledger stores with the charge.
    """

    def __init__(
        self,
        account: Ledger,
        priced_release: PricedRelease,
        *,
        release_key: str,
        charge_note: ChargeNote | None = None,
    ) -> None:
        self.account = account
        self.priced_release = priced_release
        self.release_key = release_key
        self.charge_note = charge_note or ChargeNote(run_key=release_key)
        self._arrays_of_part: dict[str, Arrays] = {}

    def part(self, name: str, draw: Callable[[], Arrays]) -> Arrays:
        """Returns the arrays of a part of the release; the part and the charge are on disk when the method returns.

        Args:
            name: the name of the part.
            draw: draws the arrays. It is called only if the part was not committed before.

        Raises:
            InvalidValue: the release exceeds the ledger's cap. Nothing is charged then.
        """
        part_arrays = self.committed(name)
        if part_arrays is None:
            # `draw` may commit parts of its own, of which the first carries the charge.
            part_content = npz_bytes(draw())
            part_arrays = arrays_of_npz(self.commit(name, part_content=part_content))
            self._arrays_of_part[name] = part_arrays
        return part_arrays

    def committed(self, name: str) -> Arrays | None:
        """Returns the arrays of a part of the release, such as a round, that was committed before; None if none was."""
        if name not in self._arrays_of_part:
            part_content = self.account.read(f"{self.release_key}:{name}")
            if part_content is None:
                return None
            self._arrays_of_part[name] = arrays_of_npz(part_content)
        return self._arrays_of_part[name]

    def commit(self, part_name: str, part_content: bytes) -> bytes:
        """Commits the bytes of a part, and returns the bytes that the ledger holds for it.

        An earlier call may have committed other bytes for the part; these are returned then.

        Args:
            part_name: the name of the part.
            part_content: the bytes to commit.

        Raises:
            InvalidValue: the release exceeds the ledger's cap. Nothing is charged then.
        """
        try:
            return self.account.commit(
                f"{self.release_key}:{part_name}",
                event=self.priced_release.event,
                content=part_content,
                charge_note=self.charge_note,
                adjacency=self.priced_release.aggregator.adjacency,
                release_key=self.release_key,
            )
        except BudgetExceeded as error:
            raise refusal(self.account, priced_release=self.priced_release) from error


def require_room(account: Ledger, *, priced_release: PricedRelease) -> None:
    """Raises the error of `refusal`, an `InvalidValue`, if an account cannot pay for a release; nothing is charged."""
    if not account.has_room(priced_release.event):
        raise refusal(account, priced_release=priced_release)


def refusal(account: Ledger, *, priced_release: PricedRelease) -> InvalidValue:
    """Returns the error for a release that an account cannot pay for.

    The reason is one of three: failure probabilities that exceed delta, noise shared with another release, or the cap.
    """
    if failure_probability(priced_release.event) > account.failures_left:
        return _refusal_of_failures(account, priced_release=priced_release)
    if account.noise_is_shared:
        rule = (
            f"no cap, as releases in ledger={account.path} share their noise and no epsilon covers them; "
            "nothing is spent"
        )
        return BudgetExceeded("max_epsilon", account.max_epsilon, rule=rule, owner="ledger")
    price = format_epsilon(priced_release.epsilon)
    spent = format_epsilon(account.spent_epsilon)
    place = "" if account.path is None else f" by ledger={account.path}"
    rule = (
        f"room for this release of epsilon {price} beside epsilon {spent}, which these records "
        f"have cost{place}; nothing is spent"
    )
    return BudgetExceeded("max_epsilon", account.max_epsilon, rule=rule, owner="ledger")


def _refusal_of_failures(account: Ledger, *, priced_release: PricedRelease) -> InvalidValue:
    """Returns the error for a release whose stability tests may fail with too great a probability.

    The ledger's delta has to cover the failure probabilities of all releases of the records.
    """
    failure_prob_left = account.failures_left
    failure_room = floor_to_digits(failure_prob_left, num_digits=3)
    rule = (
        f"failures of at most {failure_room} of delta in all, which ledger={account.path} has left "
        "for these records; nothing is spent"
    )
    aggregator = priced_release.aggregator
    failure_prob = vars(aggregator).get("failure_prob")
    if failure_prob is None:
        return InvalidValue("failure_prob", rule=rule)
    num_tests = aggregator.num_tests(priced_release.shape.num_queries)
    largest_fitting_prob = float(
        floor_to_digits(failure_prob_left * _SHARE_OF_FAILURES / max(num_tests, 1), num_digits=2)
    )
    remedies: tuple[Remedy, ...] = ()
    if largest_fitting_prob > 0:
        remedies = (Remedy(name="failure_prob", value=largest_fitting_prob, owner="aggregator"),)
    return InvalidValue(
        "failure_prob", failure_prob, rule=rule, remedies=remedies, owner="aggregator"
    )
