"""The ledger that all runs on the same private records are charged to, and the cap on what they cost together."""

from __future__ import annotations

import math
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pate.accounting import BudgetExceeded, Ledger, SharedLedger
from pate.files.atomic import make_folder, write_text
from pate.files.reading import FROM_BACKUP, damaged, read_text
from pate.pricing import Budget, PricedRelease
from pate.report import format_delta, format_epsilon
from pate.run.folder import RunFolder
from pate.validation import InvalidValue, require

_ID = re.compile(r"[0-9a-f]{32}\n")


@dataclass(frozen=True, eq=False, kw_only=True)
class Total:
    """What one run is to the ledger of all runs.

    The total is charged before the run's own ledger and before anything is drawn, under a key that the run's folder
    keeps: the same run continues for free, whatever ended it.

    Attributes:
        path: the file, made if missing.
        max_epsilon: the cap for these records, by a filter that allows the next price to be chosen by looking at the
            last release; None for the one that the file has, if it has one.
        priced: the release.
        budget: delta and accountant.
        folder: the run's.
        data: `Dataset.private_digest`.
    """

    path: Path
    max_epsilon: float | None
    priced: PricedRelease
    budget: Budget
    folder: RunFolder
    data: str

    def __post_init__(self) -> None:
        own = os.path.realpath(self.path) == os.path.realpath(self.folder.ledger)
        require(not own, "ledger", self.path, "another file than the run's own ledger, for all runs on these records")

    @cached_property
    def account(self) -> Ledger:
        """The charges on these records."""
        make_folder(self.path.parent)
        with by_its_setting():
            shared = SharedLedger(
                self.path,
                adjacency=self.priced.aggregator.adjacency,
                target_delta=self.budget.target_delta,
                accountant=self.budget.accountant,
                max_epsilon=self.max_epsilon,
            )
            return shared.account(self.data)

    def require_room(self, draws: int) -> None:
        """Raises where the cap will not allow what this run has yet to charge; nothing is charged."""
        if not self.holds(draws):
            require_room(self.account, self.priced)

    def charge(self, draws: int, *, noise: str) -> None:
        """Charges what is not yet charged of this run's draws.

        Args:
            draws: how many there are, the one that is going on included.
            noise: names the last one's noise; empty where it was drawn before.

        Raises:
            InvalidValue: the cap does not allow it; another release of these records has this noise.
        """
        event, adjacency = self.priced.event, self.priced.aggregator.adjacency
        text = f"{self.folder.path}: {type(self.priced.aggregator).__name__}"
        for draw in range(1, draws + 1):
            named = {"key": self._key(draw), "description": text, "noise": noise if draw == draws else ""}
            try:
                self.account.charge(event, adjacency=adjacency, **named)
            except BudgetExceeded as error:
                raise refusal(self.account, self.priced) from error
            except InvalidValue as error:
                if not str(error).startswith("noise="):
                    raise
                rule = "another seed, as an earlier release drew its noise from this one; or the output_dir of that run"
                raise InvalidValue(f"ledger={self.path}: expected {rule}") from error

    def holds(self, draws: int) -> bool:
        """Whether all draws of this run are charged; a run without a name has charged nothing."""
        if not id_path(self.folder).exists():
            return False
        return {self._key(draw) for draw in range(1, draws + 1)} <= {entry.key for entry in self.account.entries}

    def runs(self) -> set[str]:
        """The ids of all runs that are charged."""
        return {entry.key.partition("-")[0] for entry in self.account.entries}

    def lines(self) -> Iterator[str]:
        """What is known of earlier releases of these records, before this run is charged."""
        own = run_id(self.folder)
        earlier = [entry for entry in self.account.entries if not entry.key.startswith(own)]
        cap = self.account.max_epsilon
        if earlier:
            count = f"{len(earlier)} earlier release{'s' if len(earlier) > 1 else ''}"
            yield f"ledger={self.path}: {count} of these records, together epsilon {self._spent()}"
        if cap is not None:
            more = self.account.affords(self.priced.event)
            fits = "any number" if math.isinf(more) else f"{more:.0f}"
            yield f"max_total_epsilon={cap:g}: {fits} of this release fit into what is left for these records"

    def line(self) -> str:
        """What all releases of these records cost together, once this run is charged."""
        count = len(self.account.entries)
        releases = (
            f"all {count} releases of these records cost" if count > 1 else "this first release of its records costs"
        )
        return f"ledger={self.path}: {releases} epsilon {self._spent()}"

    def _spent(self) -> str:
        delta = format_delta(self.budget.target_delta)
        return f"{format_epsilon(self.account.spent_epsilon)} at delta {delta}, {self.account.adjacency}"

    def _key(self, draw: int) -> str:
        return f"{run_id(self.folder)}-{draw}"


def run_id(folder: RunFolder) -> str:
    """What a run's charges are called in a ledger of several runs: drawn once, kept in the folder.

    Raises:
        InvalidValue: the file was changed.
    """
    path = id_path(folder)
    if not os.path.lexists(path):
        write_text(path, secrets.token_hex(16) + "\n")
    rule = "the name of a run, 32 hexadecimal digits"
    text = read_text(path, rule=rule, remedy=FROM_BACKUP)
    if _ID.fullmatch(text) is None:
        raise damaged(path, rule, "it is none", FROM_BACKUP)
    return text.strip()


def id_path(folder: RunFolder) -> Path:
    """Where a run keeps its name."""
    return folder.path / "run.id"


def require_entered(path: Path, folder: RunFolder) -> None:
    """Raises unless a finished run is charged to a ledger of several runs.

    Args:
        path: of the ledger.
        folder: the run's.
    """
    digest = folder.path / "private.sha256"
    data = read_text(digest, rule="the digest of the private records", remedy=FROM_BACKUP).strip()
    keys = {entry.key for entry in Ledger.stored(path, data=data).entries} if path.exists() else set()
    rule = (
        "the ledger that this finished run is charged to; or remove report.json and run again, to charge it there too"
    )
    require(f"{run_id(folder)}-1" in keys, "ledger", path, rule)


def require_room(account: Ledger, priced: PricedRelease) -> None:
    """Raises where the cap of a ledger has no room for a release; nothing is charged."""
    if account.affords(priced.event) < 1:
        raise refusal(account, priced)


def refusal(account: Ledger, priced: PricedRelease) -> InvalidValue:
    """What is said of a release that the cap of a ledger does not allow: what is spent, the price, and the cap."""
    price, spent = format_epsilon(priced.epsilon), format_epsilon(account.spent_epsilon)
    rule = f"room for this release of epsilon {price} beside epsilon {spent}, which these records have cost"
    return InvalidValue(
        f"max_total_epsilon={account.max_epsilon:g}: expected {rule} by ledger={account.path}; nothing is spent"
    )


@contextmanager
def by_its_setting() -> Iterator[None]:
    """A ledger speaks of max_epsilon, which is another setting of a run."""
    try:
        yield
    except InvalidValue as error:
        if not str(error).startswith("max_epsilon="):
            raise
        raise type(error)(f"max_total_{str(error).removeprefix('max_')}") from error
