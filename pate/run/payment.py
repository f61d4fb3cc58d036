"""What a run pays for its release: exactly the charges that its plan knows of, on disk before anything leaves."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pate.accounting import Event, Ledger
from pate.accounting.charged_draw import noise_name
from pate.aggregators import Release
from pate.aggregators.release import PublicNames
from pate.files.atomic import make_folder, write_text
from pate.files.reading import damaged, read_text
from pate.files.strict_json import from_json, to_json
from pate.pricing import Budget, PricedRelease
from pate.report import format_epsilon
from pate.run.earlier import Siblings
from pate.run.folder import RunFolder
from pate.run.manifest import file_digest
from pate.run.randomness import Randomness
from pate.run.total import Total, run_id
from pate.validation import InvalidValue, require, require_count

if TYPE_CHECKING:  # which needs torch
    from pate.run.plan import Plan

_RESTORE = "restore it from a backup, or begin anew in another output_dir"


@dataclass(frozen=True)
class Draws:
    """What `paid.json` holds.

    Attributes:
        earlier: of each draw before the one that is going on, by its number, how many charges were made for it; fewer
            than all where its noise was lost on the way.
        ledger: SHA-256 of the run's ledger when the draw was done; None before.
        release: SHA-256 of `release.npz`; None before it is written.
    """

    earlier: Mapping[str, int] = field(default_factory=dict)
    ledger: str | None = None
    release: str | None = None

    def __post_init__(self) -> None:
        for place, (number, charges) in enumerate(self.earlier.items(), start=1):
            require(number == str(place), "paid.earlier", number, f"{place}, the next draw")
            require_count("paid.earlier", charges)

    @property
    def number(self) -> int:
        """Of the draw that is going on, >= 1."""
        return len(self.earlier) + 1


@dataclass(frozen=True, eq=False)
class Payment:
    """The charges of one run, in its own ledger.

    The price is the plan's. A ledger that holds more, less or something else than the plan's charges is refused, so no
    file can make the printed epsilon smaller.

    Attributes:
        priced: the release.
        budget: delta and accountant.
        folder: the run's.
        randomness: says whether a draw that was begun can be drawn again.
        data: `Dataset.private_digest`, which names the records on each line of the ledger.
        total: the ledger of all runs on these records, where there is one.
    """

    priced: PricedRelease
    budget: Budget
    folder: RunFolder
    randomness: Randomness
    data: str
    total: Total | None = None

    @classmethod
    def of(cls, plan: Plan, priced: PricedRelease, folder: RunFolder, *, data: str) -> Self:
        """That of a run in a folder that is its own, or will be.

        Raises:
            InvalidValue: the ledger of all runs has no room for the run, or is none.
        """
        total = None
        if plan.ledger is not None:
            total = Total(
                path=plan.ledger,
                max_epsilon=plan.max_total_epsilon,
                priced=priced,
                budget=plan.budget,
                folder=folder,
                data=data,
            )
            total.require_room(1)
        return cls(priced, plan.budget, folder, Randomness(folder.path, plan.seed), data, total)

    @cached_property
    def ledger(self) -> Ledger:
        """The run's own; the file is made when it is first asked for."""
        return Ledger(
            self.folder.ledger,
            adjacency=self.priced.aggregator.adjacency,
            target_delta=self.budget.target_delta,
            accountant=self.budget.accountant,
            data=self.data,
        )

    @property
    def release(self) -> Path:
        """The file that the release is written to."""
        return self.folder.release / "release.npz"

    @property
    def num_draws(self) -> int:
        """How often the release was drawn with fresh noise, the draw that is going on included."""
        return self._paid.number

    @property
    def epsilon(self) -> float:
        """What all draws cost: the plan's price, or the ledger's total where that is larger."""
        return max(self._price_of(self._charges()), self.ledger.epsilon)

    @property
    def shown_price(self) -> str:
        """The plan's price of all draws, for people."""
        return format_epsilon(self._price_of(self._charges()))

    def next_draw(self, *, redraw: bool) -> int:
        """The number of the draw that the run is at, >= 1; told before teachers are trained.

        Args:
            redraw: whether a release that was charged and is gone is drawn again, with fresh noise and at its price.

        Raises:
            InvalidValue: the ledger does not hold what was charged so far, the release is gone and no redraw was asked
                for, or the cap on the total has no room for it.
        """
        draw = self._next_draw(redraw=redraw)
        if self.total is not None:
            self.total.require_room(draw)
        if draw > self.num_draws:
            earlier = self._paid.earlier
            charges = len(self.ledger.entries) - sum(earlier.values())
            make_folder(self.folder.path / "draws" / str(draw), within=self.folder.path)
            self._write(Draws({**earlier, str(len(earlier) + 1): charges}))
        return draw

    def _next_draw(self, *, redraw: bool) -> int:
        paid = self._paid
        if self.release.exists() or paid.ledger is not None:
            self.require_paid()
        if self.release.exists() or not (self.folder.ledger.exists() or self._file.exists()):
            return paid.number
        charged = self._require_planned()
        if self.randomness.has_noise or charged == sum(paid.earlier.values()):
            return paid.number
        both = self._price_of((*self._charges()[:charged], *self.priced.charges))
        rule = f"draws another with fresh noise, and together they cost epsilon {format_epsilon(both)}"
        if not redraw:
            wanted = "the release that the ledger was charged for; its noise is gone"
            raise InvalidValue(
                f"release={self.release}: expected {wanted}: restore it from a backup, or redraw=true {rule}"
            )
        require(math.isfinite(both), "redraw", "true", f"a price that stays finite; this one {rule}")
        return paid.number + 1

    def lines(self) -> Iterator[str]:
        """What is known of earlier releases of the same records."""
        run_id(self.folder)  # by which other runs know this one
        known: set[str] = set()
        if self.total is not None:
            yield from self.total.lines()
            known = self.total.runs()
        siblings = Siblings.of(self.folder, self.priced, self.budget, data=self.data, known=known)
        yield from siblings.lines(self.priced, self.budget, seeded=self.randomness.seed is not None)

    def charge_total(self) -> list[str]:
        """Charges the ledger of all runs, before the run's own and before anything is drawn; nothing a second time.

        Returns:
            What all of them cost now, a line where there is such a ledger.
        """
        if self.total is None:
            return []
        noise = "" if self.release.exists() else noise_name(self.randomness.generator("noise"))
        self.total.charge(self.num_draws, noise=noise)
        return [self.total.line()]

    def require_paid(self) -> None:
        """Raises unless the ledger holds exactly the charges of all draws, and is what it was when they were done."""
        self._require_complete()
        paid = self._paid
        rule = f"the file as it was when the release was drawn; {_RESTORE}"
        require(paid.ledger in (None, file_digest(self.folder.ledger)), "ledger", self.folder.ledger, rule)
        if self.release.exists():
            require(paid.release in (None, file_digest(self.release)), "release", self.release, rule)

    def seal(self, release: Release, names: PublicNames) -> None:
        """Enters that the draw is done and paid for, then writes the release with its names, then enters it."""
        self._require_complete()
        self._write(Draws(self._paid.earlier, file_digest(self.folder.ledger)))
        release.save(self.release, names=names)
        self.enter_release()

    def enter_release(self) -> None:
        """Enters the release that is there: what is read back later is that file."""
        self._write(replace(self._paid, ledger=file_digest(self.folder.ledger), release=file_digest(self.release)))

    def _require_complete(self) -> None:
        """Raises unless all draws are charged in full."""
        found, wanted = self._require_planned(), len(self._charges())
        rule = f"exactly the charges of this release, {wanted} in all, not {found}; {_RESTORE}"
        require(found == wanted, "ledger", self.folder.ledger, rule)

    def _require_planned(self) -> int:
        """How many charges the ledger holds; raises unless all are the plan's, in order, with all of earlier draws."""
        found, wanted = [entry.event for entry in self.ledger.entries], self._charges()
        rule = f"exactly the charges of this release, {len(wanted)} in all"
        for place, (event, planned) in enumerate(zip(found, wanted, strict=False), start=1):
            require(event == planned, "ledger", self.folder.ledger, f"{rule}; charge {place} is another; {_RESTORE}")
        inside = sum(self._paid.earlier.values()) <= len(found) <= len(wanted)
        require(inside, "ledger", self.folder.ledger, f"{rule}, not {len(found)}; {_RESTORE}")
        return len(found)

    def _charges(self) -> tuple[Event, ...]:
        """What all draws are charged, in order: some or all charges of each earlier one, all of the last."""
        one = self.priced.charges
        return (*(event for number in self._paid.earlier.values() for event in one[:number]), *one)

    def _price_of(self, charges: tuple[Event, ...]) -> float:
        """The plan's price of some of its charges; infinity where their failure probabilities use up delta."""
        if charges == self.priced.charges:
            return self.priced.epsilon
        spent = self.budget.accountant()
        try:
            for event in charges:
                spent.compose(event)
            return spent.get_epsilon(self.budget.target_delta)
        except InvalidValue:
            return math.inf

    @property
    def _file(self) -> Path:
        return self.folder.path / "paid.json"

    @property
    def _paid(self) -> Draws:
        if not os.path.lexists(self._file):
            return Draws()
        rule = "how often the release was drawn"
        text = read_text(self._file, rule=rule, remedy=_RESTORE)
        try:
            return from_json(Draws, text, name="paid")
        except ValueError:
            raise damaged(self._file, rule, "other JSON", _RESTORE) from None

    def _write(self, paid: Draws) -> None:
        write_text(self._file, to_json(paid) + "\n")
