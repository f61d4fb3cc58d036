"""The ledger that the fits of a classifier are charged to, and the unit of privacy that its prices are for.

All fits are charged to one account, that is, added up to one total, whatever their data. Separate accounts for
different data would take the folds of a search for different people.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pate.accounting import Accountant, Adjacency, ComposedEvent, Ledger, PrivacyUnit
from pate.pricing import PricedRelease
from pate.run.ledger_record import require_room
from pate.run.random_streams import readable_seed_name
from pate.run.score_release import ScorePrice
from pate.validation import InvalidValue, printable, require, require_positive

# The units of privacy of a fit without groups, and with groups.
_ONE_ROW = PrivacyUnit(words="one row")
_ONE_GROUP = PrivacyUnit(words="one value of groups, with all its rows", columns=("groups",))


def unit_of(groups: Any) -> PrivacyUnit:
    """Returns the unit of privacy: a row or, if there are groups, all rows of a group.

    The unit includes the name of the groups' column, if `groups` has one. So a ledger distinguishes fits whose groups
    are patients from fits whose groups are visits.

    >>> unit_of([1, 1, 2]).words
    'one value of groups, with all its rows'
    """
    if groups is None:
        return _ONE_ROW
    column_name = getattr(groups, "name", None)  # of a column of pandas or polars
    if column_name is None or column_name == "":
        return _ONE_GROUP
    shown_name = printable(str(column_name))
    return PrivacyUnit(
        words=f"one value of groups, here the column {shown_name}, with all its rows",
        columns=(str(column_name),),
    )


def check_ledger_parameters(
    ledger_path: str | os.PathLike[str] | None, *, max_total_epsilon: float | None
) -> None:
    """Raises `InvalidValue` if `ledger_path` is no path, or if a cap is not positive or has no ledger file.

    Args:
        ledger_path: the parameter `ledger` of a classifier; None for no file.
        max_total_epsilon: the cap; None for no cap.
    """
    is_path = ledger_path is None or isinstance(ledger_path, (str, os.PathLike))
    require(is_path, "ledger", type(ledger_path).__name__, "the path of a ledger file")
    if max_total_epsilon is not None:
        require_positive("max_total_epsilon", max_total_epsilon)
        if ledger_path is None:
            rule = "None without ledger=, the file of all fits that the cap is for"
            raise InvalidValue("max_total_epsilon", max_total_epsilon, rule=rule)


@dataclass(frozen=True, kw_only=True)
class LedgerSettings:
    """The settings of the ledger of a fit, which is opened when the price of the fit is known.

    Attributes:
        ledger_path: the ledger file; None for a ledger in memory.
        max_epsilon: the greatest total epsilon of all fits in the file; None for no cap.
        target_delta: the delta of the total.
        make_accountant: makes the accountant of the total.
        unit: the unit of privacy of the fit.
        seed: the seed of the fit's noise; None for noise from the operating system.
    """

    ledger_path: str | os.PathLike[str] | None
    max_epsilon: float | None
    target_delta: float
    make_accountant: Callable[[], Accountant]
    unit: PrivacyUnit
    seed: int | None

    def open(self, priced_release: PricedRelease, *, score_price: ScorePrice | None) -> Ledger:
        """Opens and returns the ledger of a fit, and checks that it has room for the fit; nothing is charged.

        Args:
            priced_release: the priced release of the fit.
            score_price: the price of the scores of the fit; None for no scores.

        Raises:
            InvalidValue: the ledger has no room for the fit, or has charges of runs of `pate-train` or other settings,
                or an earlier fit in it had this seed.
        """
        adjacency = priced_release.aggregator.adjacency
        is_new_file = self.ledger_path is not None and not os.path.lexists(self.ledger_path)
        if is_new_file and self.max_epsilon is not None:
            # The cap is tried in memory first, so that a refused fit leaves no file with its cap.
            memory_ledger = self._ledger_in(ledger_path=None, adjacency=adjacency)
            _require_room(memory_ledger, priced_release, score_price=score_price)
        ledger = self._open_file(adjacency)
        require_ledger_of_fits(ledger, ledger_path=self.ledger_path, seed=self.seed)
        _require_room(ledger, priced_release, score_price=score_price)
        return ledger

    def score_account(self, release_ledger: Ledger) -> Ledger:
        """Returns the ledger that the scores of a fit are charged to.

        In a file, scores and releases have one account, as test records of a fit may be private records of another. In
        memory, scores have an account of their own.

        Args:
            release_ledger: the ledger that the release of the fit was charged to.
        """
        if self.ledger_path is not None:
            return release_ledger
        return Ledger(target_delta=self.target_delta, unit=self.unit)

    def _open_file(self, adjacency: Adjacency) -> Ledger:
        """Opens the ledger in the file `ledger_path`.

        If its cap differs and nothing was charged yet, the error says that the file may be removed.
        """
        try:
            return self._ledger_in(self.ledger_path, adjacency)
        except InvalidValue as error:
            if (
                error.name != "max_epsilon"
                or self.ledger_path is None
                or Ledger.stored(self.ledger_path).entries
            ):
                raise
            rule = (
                f"{error.rule}; the ledger has no charge: without the file, a fit sets a cap anew"
            )
            raise InvalidValue(error.name, error.value, rule=rule, owner=error.owner) from error

    def _ledger_in(
        self, ledger_path: str | os.PathLike[str] | None, adjacency: Adjacency
    ) -> Ledger:
        """Returns the ledger with these settings in the file `ledger_path`, or in memory if it is None."""
        return Ledger(
            path=ledger_path,
            adjacency=adjacency,
            target_delta=self.target_delta,
            accountant=self.make_accountant,
            max_epsilon=self.max_epsilon,
            unit=self.unit,
        )


def require_ledger_of_fits(
    ledger: Ledger, *, ledger_path: str | os.PathLike[str] | None, seed: int | None
) -> None:
    """Raises `InvalidValue` if a ledger has charges of `pate-train`, or if an earlier fit in it had the same seed.

    Args:
        ledger: the open ledger.
        ledger_path: the file of the ledger, for the error.
        seed: the seed of the noise; None for noise from the operating system.
    """
    if any(entry.data for entry in ledger.entries):
        rule = "a ledger of fits alone: one of runs keeps the records of each run apart, and folds share records"
        raise InvalidValue("ledger", ledger_path, rule=rule)
    if ledger.is_seed_used(readable_seed_name(seed)):
        rule = "None or another number: an earlier fit in this ledger drew its noise from this seed"
        raise InvalidValue("random_state", seed, rule=rule)


def _require_room(
    ledger: Ledger, priced_release: PricedRelease, *, score_price: ScorePrice | None
) -> None:
    """Raises `InvalidValue` if a ledger has no room for a release, or for the scores after that release.

    Args:
        ledger: the ledger, which is not charged.
        priced_release: the priced release.
        score_price: the price of the scores; None for no scores.
    """
    require_room(ledger, priced_release=priced_release)
    if score_price is None:
        return
    if ledger.entries or ledger.max_epsilon is None:
        ledger.require_room(ComposedEvent((priced_release.event, score_price.event)))
        return
    # The first charge of a ledger may fit by a rule that later charges do not have. So both are tried in memory.
    adjacency = priced_release.aggregator.adjacency
    make_accountant = ledger.accountant
    trial_ledger = Ledger(
        adjacency=adjacency,
        target_delta=ledger.target_delta,
        accountant=make_accountant,
        max_epsilon=ledger.max_epsilon,
    )
    trial_ledger.charge(priced_release.event, adjacency=adjacency)
    trial_ledger.require_room(score_price.event)
