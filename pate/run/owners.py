"""The owners of private records, whom a ledger remembers to recognize the same people in another table of records.

A ledger has an account for each table of private records, and adds up prices within one account only. A person with
records in two tables loses privacy in both accounts, but no account shows the sum. Therefore each account lists its
owners. If a new table has owners that another account lists, the run is refused, unless `new_account` is set. A warning
replaces the refusal if the user has not chosen the ledger, there is no cap, and the run starts from no earlier release.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from pate.accounting.ledger import Ledger
from pate.accounting.shared_ledger import SharedLedger
from pate.progress import Monitor
from pate.run.ledger_place import OtherLedger
from pate.validation import InvalidValue

Owners = Mapping[str, Set[bytes]]
"""The names of ids and groups of private records as bytes, by kind (`id`, `group`).

One id or group may have several names, as in other spellings, and numbers of owners count each. Names of two kinds are
never compared.
"""


@dataclass(frozen=True, kw_only=True)
class OwnersOfRun:
    """The owners of a run's private records, with the choices for the case that another account lists some of them.

    An owner is an id or a group of the records: whoever the records belong to, such as a person.

    Attributes:
        owners_by_kind: the names of ids and groups of the records, by kind (`id`, `group`); empty if the records have
            neither ids nor groups.
        allow_shared: whether the user has set `new_account`, which gives the records an account of their own in any
            case.
        may_be_known: whether a warning is enough if another account lists an owner and there is no cap. True if the
            user has not chosen the ledger: all runs in a folder of outputs share the usual ledger, and two unrelated
            tables may both number their rows from 1. False for a run that starts from an earlier release, whose people
            have to be others.
    """

    owners_by_kind: Owners
    allow_shared: bool
    may_be_known: bool

    def introduce(
        self,
        *,
        shared_ledger: SharedLedger,
        account: Ledger,
        other_ledgers: list[OtherLedger],
        monitor: Monitor,
    ) -> None:
        """Writes the owners into the account of the run's records, unless they are listed there already.

        Args:
            shared_ledger: the ledger of the run.
            account: the account of the run's private records.
            other_ledgers: ledgers in the same folder, whose accounts are searched for the owners, too.
            monitor: receives the warnings.

        Raises:
            InvalidValue: another account lists an owner, `new_account` is not set, and a warning is not enough.
        """
        if not self.owners_by_kind:
            return
        own_account_name = account.data
        if not (shared_ledger.store.has_owners_of(own_account_name) or self.allow_shared):
            for other in other_ledgers:
                num_shared_owners_by_account = other.num_shared_owners(
                    self.owners_by_kind, except_account=own_account_name
                )
                self._report(
                    num_shared_owners_by_account,
                    ledger_file=other.ledger_file,
                    account=account,
                    monitor=monitor,
                )
        num_shared_owners_by_account = account.register_owners(
            self.owners_by_kind, allow_shared=self.allow_shared
        )
        if num_shared_owners_by_account:
            self._report(
                num_shared_owners_by_account,
                ledger_file=account.path,
                account=account,
                monitor=monitor,
            )
            account.register_owners(self.owners_by_kind, allow_shared=True)

    def _report(
        self,
        num_shared_owners_by_account: Mapping[str, int],
        *,
        ledger_file: Path | None,
        account: Ledger,
        monitor: Monitor,
    ) -> None:
        """Shows a warning, or raises `InvalidValue`, for each account of a ledger that lists some of the run's owners.

        It warns if `may_be_known` is true and the run's account has no cap, and raises otherwise.

        Args:
            num_shared_owners_by_account: the number of the run's owners that an account lists, by the digest that names
                the account.
            ledger_file: the file of the ledger; None for a ledger in memory.
            account: the account of the run's own records.
            monitor: receives the warnings.
        """
        num_owners = sum(map(len, self.owners_by_kind.values()))
        for data_digest, count in num_shared_owners_by_account.items():
            knows = f"which knows {count} of these {num_owners} ids and groups"
            if self.may_be_known and account.max_epsilon is None:
                monitor.say(
                    f"ledger={ledger_file}: these are not the data of account {data_digest[:12]}, {knows}: if they are "
                    "the same people, no total counts what both have cost them; ledger=PATH refuses such records"
                )
                continue
            rule = (
                f"the data of account {data_digest[:12]}, {knows}; or new_account=true, whose epsilons do not count "
                "what these people have spent there"
            )
            raise InvalidValue("ledger", ledger_file, rule=rule)
