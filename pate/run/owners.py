"""The owners of private records, as a ledger knows them, so that the same people are noticed in a second table.

A ledger has an account for each table of private records, and adds up prices within an account alone. A person whose
records are in two tables pays in both accounts, and no total shows the sum. So each account lists its owners, and a new
account whose owners another account knows is refused, or remarked on where the ledger was not chosen by the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pate.accounting.ledger import Ledger
from pate.accounting.shared_ledger import SharedLedger
from pate.progress import Monitor
from pate.run.ledger_place import OtherLedger
from pate.validation import InvalidValue

Owners = Mapping[str, frozenset[bytes]]
"""Ids and groups of private records as bytes, by kind (`id`, `group`). Names of two kinds are never compared."""


@dataclass(frozen=True, kw_only=True)
class OwnersOfRun:
    """The owners of a run's records, and what happens where another account knows some of them.

    Attributes:
        owners: their names; empty where the records have neither ids nor groups.
        is_allowed: whether the user has said that the records get an account of their own all the same.
        is_usual_ledger: whether nobody has named the ledger. All runs of a folder of outputs share the usual one, and
            two unrelated tables may both number their rows from 1: a line is said then, unless there is a cap.
    """

    owners: Owners
    is_allowed: bool
    is_usual_ledger: bool

    def introduce(
        self, ledger: SharedLedger, account: Ledger, others: list[OtherLedger], monitor: Monitor
    ) -> None:
        """Enters the owners in an account, once; `others` are ledgers beside, which are asked for them too.

        Raises `InvalidValue` where another account knows an owner, and neither is that allowed nor a line enough.
        """
        if not self.owners:
            return
        if not (ledger.store.is_introduced(account.data) or self.is_allowed):
            for other in others:
                num_known = other.accounts_that_know(self.owners, but=account.data)
                self._report(num_known, other.path, account, monitor)
        num_known = account.introduce(self.owners, anyway=self.is_allowed)
        if num_known:
            self._report(num_known, account.path, account, monitor)
            account.introduce(self.owners, anyway=True)

    def _report(
        self, num_known: Mapping[str, int], path: Path | None, account: Ledger, monitor: Monitor
    ) -> None:
        """Says or raises how many owners each account of the ledger at `path` knows, by the account's digest."""
        total = sum(map(len, self.owners.values()))
        for digest, count in num_known.items():
            knows = f"which knows {count} of these {total} ids and groups"
            if self.is_usual_ledger and account.max_epsilon is None:
                monitor.say(
                    f"ledger={path}: these are not the data of account {digest[:12]}, {knows}: if they are the same "
                    "people, no total counts what both have cost them; ledger=PATH refuses such records"
                )
                continue
            rule = (
                f"the data of account {digest[:12]}, {knows}; or new_account=true, whose epsilons do not count "
                "what these people have spent there"
            )
            raise InvalidValue("ledger", path, rule=rule)
