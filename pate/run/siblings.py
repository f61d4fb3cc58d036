"""Earlier releases of the same private records, as far as the folders beside a run tell of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from pate.accounting import AutoAccountant, Event, GaussianEvent, Ledger, LedgerEntry, RdpAccountant
from pate.accounting.events import leaves
from pate.files.reading import read_text
from pate.pricing import Budget, PricedRelease
from pate.report import format_delta, format_epsilon
from pate.run.folder import RunFolder
from pate.validation import InvalidValue

_MOST = 1000  # folders that are looked at


def sibling_lines(
    folder: RunFolder, priced: PricedRelease, budget: Budget, *, data: str, known: Collection[str], seeded: bool
) -> Iterator[str]:
    """What the owner of the data should know of runs on the same records in the folders beside a run's own.

    Args:
        folder: the run's.
        priced: its release.
        budget: delta and accountant.
        data: `Dataset.private_digest`.
        known: names of runs that are not counted, as a ledger of several runs has them.
        seeded: whether the noise comes from a seed.
    """
    charged: list[LedgerEntry] = []
    num_runs = num_others = 0
    own = folder.path.resolve()
    for path in sorted(own.parent.iterdir())[:_MOST]:
        if path == own or not _is_of(path, data):
            continue
        try:
            found = _charged(RunFolder(path), priced, budget, data)
        except (InvalidValue, OSError):
            num_others += 1
            continue
        found = [entry for entry in found if entry.key[:32] not in known]
        charged += found
        num_runs += bool(found)
    if num_runs:
        total = epsilon_of_all([*(entry.event for entry in charged), priced.event], budget.target_delta)
        bound = (
            f"epsilon {format_epsilon(total)}" if math.isfinite(total) else "no epsilon, as they may fail too often,"
        )
        price = f"together with this one {bound} at delta {format_delta(budget.target_delta)}"
        alone = ", if no two share a seed" if seeded else ""
        yield f"output_dir: {_runs(num_runs)} released something of these records, {price}{alone}"
    if num_others:
        rule = "cannot be added up with this one: their adjacency or delta differs, or their ledger is unreadable"
        yield f"output_dir: {_runs(num_others)} on these records {rule}"


def _is_of(path: Path, data: str) -> bool:
    """Whether it is the folder of a run on these records."""
    try:
        known = read_text(path / "private.sha256", rule="a digest", remedy="none").strip()
    except (OSError, InvalidValue):
        return False
    return known == data


def _charged(folder: RunFolder, priced: PricedRelease, budget: Budget, data: str) -> list[LedgerEntry]:
    if not folder.ledger.is_file():
        return []
    ledger = Ledger.stored(folder.ledger, data=data)
    same = (ledger.adjacency, ledger.target_delta) == (priced.aggregator.adjacency, budget.target_delta)
    if not same:
        raise InvalidValue(f"ledger={folder.ledger}: expected the adjacency and delta of this run")
    return ledger.entries


def epsilon_of_all(events: Iterable[Event], target_delta: float) -> float:
    """A bound on all of them, in whatever order they were released: folders do not tell, nor do clocks and charges.

    Optimal composition holds for the order of its steps alone. Gaussians count as its first steps wherever they were,
    and events that are all equal have one order; beside these, Renyi divergences add up in any order.
    """
    events = list(events)
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
