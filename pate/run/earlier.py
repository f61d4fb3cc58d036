"""Earlier releases of the same private records, as far as the folders beside a run tell of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pate.accounting import AutoAccountant, Event, GaussianEvent, Ledger, RdpAccountant
from pate.accounting.events import leaves
from pate.files.reading import read_text
from pate.pricing import Budget, PricedRelease
from pate.report import format_delta, format_epsilon
from pate.run.folder import RunFolder
from pate.run.total import id_path, run_id
from pate.validation import InvalidValue

_MOST = 1000  # folders that are looked at


@dataclass(frozen=True)
class Siblings:
    """Runs on the same records in the folders beside a run's own.

    Attributes:
        events: what they were charged for, those that count for this run's adjacency and delta.
        num_runs: how many those are.
        num_others: runs that count otherwise, or whose ledger cannot be read.
    """

    events: tuple[Event, ...]
    num_runs: int
    num_others: int

    @classmethod
    def of(
        cls, folder: RunFolder, priced: PricedRelease, budget: Budget, *, data: str, known: Collection[str] = ()
    ) -> Siblings:
        """Those of a run.

        Args:
            folder: the run's.
            priced: its release.
            budget: delta and accountant.
            data: `Dataset.private_digest`.
            known: ids of runs that are not counted, as a ledger of several runs has them.
        """
        events: list[Event] = []
        num_runs = num_others = 0
        own = folder.path.resolve()
        for path in sorted(own.parent.iterdir())[:_MOST]:
            if path == own or not _is_of(path, data):
                continue
            try:
                if run_id(RunFolder(path)) in known:
                    continue
                found = _charged(RunFolder(path), priced, budget, data)
            except (InvalidValue, OSError):
                num_others += 1
                continue
            events += found
            num_runs += bool(found)
        return cls(tuple(events), num_runs, num_others)

    def lines(self, priced: PricedRelease, budget: Budget, *, seeded: bool) -> Iterator[str]:
        """What the owner of the data should know of them."""
        if self.num_runs:
            total = _epsilon_of((*self.events, priced.event), budget.target_delta)
            known = math.isfinite(total)
            bound = f"epsilon {format_epsilon(total)}" if known else "no epsilon, as they may fail too often,"
            price = f"together with this one {bound} at delta {format_delta(budget.target_delta)}"
            alone = ", if no two share a seed" if seeded else ""
            yield f"output_dir: {_runs(self.num_runs)} released something of these records, {price}{alone}"
        if self.num_others:
            rule = "cannot be added up with this one: their adjacency or delta differs, or their ledger is unreadable"
            yield f"output_dir: {_runs(self.num_others)} on these records {rule}"


def _is_of(path: Path, data: str) -> bool:
    """Whether it is the folder of a run on these records that has a name."""
    try:
        known = read_text(path / "private.sha256", rule="a digest", remedy="none").strip()
    except (OSError, InvalidValue):
        return False
    return known == data and id_path(RunFolder(path)).is_file()


def _charged(folder: RunFolder, priced: PricedRelease, budget: Budget, data: str) -> list[Event]:
    if not folder.ledger.is_file():
        return []
    ledger = Ledger.stored(folder.ledger, data=data)
    same = (ledger.adjacency, ledger.target_delta) == (priced.aggregator.adjacency, budget.target_delta)
    if not same:
        raise InvalidValue(f"ledger={folder.ledger}: expected the adjacency and delta of this run")
    return [entry.event for entry in ledger.entries]


def _epsilon_of(events: tuple[Event, ...], target_delta: float) -> float:
    """A bound on all of them, in whatever order they were released: folders do not tell, nor do clocks and charges.

    Optimal composition holds for the order of its steps alone. Gaussians count as its first steps wherever they were,
    and events that are all equal have one order; beside these, Renyi divergences add up in any order.
    """
    others = {event for event in events if not all(isinstance(leaf, GaussianEvent) for leaf, _ in leaves(event))}
    spent = AutoAccountant() if len(others) <= 1 else RdpAccountant()
    try:
        for event, count in Counter(events).items():
            spent.compose(event, count)
        return spent.get_epsilon(target_delta)
    except InvalidValue:  # failures use up delta
        return math.inf


def _runs(count: int) -> str:
    return f"{count} other run{'s' if count > 1 else ''} beside this one"
