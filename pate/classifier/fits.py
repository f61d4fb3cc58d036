"""The ledger that all fits of a classifier and of its clones are charged to."""

from __future__ import annotations

import os
import uuid

from pate.accounting import Ledger
from pate.aggregators.aggregator import Drawn
from pate.pricing import Budget, PricedRelease
from pate.run.payment import by_its_setting, require_room, seed_name
from pate.validation import require


def ledger_of_fits(
    path: str | os.PathLike[str] | None,
    max_total_epsilon: float | None,
    priced: PricedRelease,
    budget: Budget,
    *,
    seed: int | None = None,
) -> Ledger:
    """The ledger of a fit, with room for it; one that is not kept where there is no path.

    All fits count together, whichever rows they were given: the folds of a search share records, and a ledger that
    counts by digests of data would take them for other people. So a ledger that does is refused.

    Args:
        path: of the file.
        max_total_epsilon: what all fits in it may cost together.
        priced: the fit's release.
        budget: delta and accountant.
        seed: of the fit's noise, if it has one.

    Raises:
        InvalidValue: the cap has no room for the fit; a ledger of runs, or of other settings; another fit in it drew
            from this seed.
    """
    with by_its_setting():
        ledger = Ledger(
            path,
            adjacency=priced.aggregator.adjacency,
            target_delta=budget.target_delta,
            accountant=budget.accountant,
            max_epsilon=max_total_epsilon,
        )
        rule = "a ledger of fits alone; one of runs keeps the records of each run apart, and folds share records"
        require(not any(entry.data for entry in ledger.entries), "ledger", path, rule)
    rule = "None or another number: an earlier fit in this ledger drew its noise from this seed"
    require(not ledger.has_noise(seed_name(seed)), "random_state", seed, rule)
    require_room(ledger, priced)
    return ledger


def paid_by(ledger: Ledger, priced: PricedRelease, *, seed: int | None) -> Drawn:
    """What charges a fit to its ledger, before anything of it is drawn."""

    def charge() -> None:
        ledger.once(
            uuid.uuid4().hex,
            priced.event,
            bytes,
            adjacency=priced.aggregator.adjacency,
            description=f"a fit: {type(priced.aggregator).__name__}",
            noise=seed_name(seed),
        )

    return Drawn(charge)
