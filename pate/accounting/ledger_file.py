"""The file of a ledger: its settings, its accountant, and the privacy filters that enforce its caps."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from pate.accounting.accountant import Accountant, require_maker
from pate.accounting.adjacency import Adjacency
from pate.accounting.auto import AutoAccountant
from pate.accounting.exact import ExactAccountant
from pate.accounting.filters import (
    FilterMaker,
    PrivacyFilter,
    RenyiFilter,
    default_filter,
    filter_from_json,
)
from pate.accounting.joint_law import JointLawAccountant
from pate.accounting.pld import PldAccountant
from pate.accounting.pure_dp import PureDpAccountant
from pate.accounting.rdp import RdpAccountant
from pate.accounting.store import Store
from pate.files.strict_json import plain
from pate.validation import (
    InvalidValue,
    require,
    require_choice,
    require_positive,
    require_probability,
)

# The version of the file, which the setting `ledger` in the file states.
_VERSION = 3
# The accountants that the file of a ledger may name, by name.
_ACCOUNTANTS: dict[str, type[Accountant]] = {
    kind.name: kind
    for kind in (
        RdpAccountant,
        ExactAccountant,
        PldAccountant,
        PureDpAccountant,
        JointLawAccountant,
        AutoAccountant,
    )
}
# Ledgers of version 0.1 may name the zCDP accountant, which no longer exists. The Renyi bound holds for each event that
# it priced. Because Renyi orders lie on a grid, that bound may exceed the former total by a millionth.
_FORMER_ACCOUNTANTS: dict[str, type[Accountant]] = {"zcdp": RdpAccountant}


class LedgerFile:
    """The storage of a ledger, in a file or in memory, with the settings that were fixed when the file was made.

    The settings are adjacency, delta, accountant, cap and filter. `Ledger` explains the arguments, which have the same
    names there. Here `path` may also be a `Store` that is already open.

    Attributes:
        store: the lines of the file.
        path: the path of the file; None for a ledger in memory.
        adjacency: the adjacency of all prices.
        target_delta: the delta of every total.
        accountant: makes the empty accountant that computes all totals.
        stored_cap: the cap that is stored in the file and was fixed before the first release; None where the file has
            no cap.
        initial_filters: the filters that must all admit a charge, the smallest cap first. The list is empty without a
            cap, and has two filters where `max_epsilon` is smaller than the cap of the file.

    Raises:
        InvalidValue: an existing file has another adjacency, delta or accountant than the arguments, a smaller cap, or
            the same cap with another filter. Or a new file would name a filter that is none of `FILTERS`; nothing is
            written then.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Store | None,
        *,
        target_delta: float,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        accountant: Callable[[], Accountant] | None = None,
        max_epsilon: float | None = None,
        filter: FilterMaker | None = None,
    ) -> None:
        self.adjacency = Adjacency.parse(adjacency)
        self.target_delta = require_probability("target_delta", target_delta)
        takes_stored_accountant = accountant is None
        make_accountant = require_maker(AutoAccountant if accountant is None else accountant)
        empty_accountant = make_accountant()
        make_default_filter: FilterMaker = RenyiFilter
        if not takes_stored_accountant:
            make_default_filter = default_filter(empty_accountant)
        requested_filter = _requested_filter(
            make_filter=filter,
            make_default_filter=make_default_filter,
            max_epsilon=max_epsilon,
            target_delta=self.target_delta,
        )
        requested_settings = {
            "ledger": _VERSION,
            "adjacency": str(self.adjacency),
            "target_delta": self.target_delta,
            "accountant": plain({"name": empty_accountant.name} | empty_accountant.parameters),
            "max_epsilon": None if requested_filter is None else requested_filter.max_epsilon,
            "filter": None if requested_filter is None else plain(requested_filter.to_json()),
        }
        if requested_filter is not None and _is_new(path):
            _require_readable(requested_filter)
        self.store = (
            path if isinstance(path, Store) else Store(path, settings_if_new=requested_settings)
        )
        self.path = self.store.path
        self._require_stored_settings(
            requested_settings, takes_stored_accountant=takes_stored_accountant
        )
        self.accountant = _stored_accountant(self.store) if accountant is None else accountant
        self.stored_cap: float | None = self.store.settings.get("max_epsilon")
        self.initial_filters: list[PrivacyFilter] = self._deciding_filters(
            requested_filter, filter_is_default=filter is None
        )

    def _require_stored_settings(
        self, requested_settings: dict[str, Any], *, takes_stored_accountant: bool
    ) -> None:
        """Raises `InvalidValue` unless the file has this version, and the requested adjacency, delta and accountant.

        Args:
            requested_settings: the settings, by their names in the file.
            takes_stored_accountant: whether the caller named no accountant, so any accountant of the file is fine.
        """
        _require_version(self.store)
        settings = self.store.settings
        for setting_name in ("adjacency", "target_delta", "accountant"):
            if setting_name == "accountant" and takes_stored_accountant:
                continue  # the caller named none, so that of the file is taken
            if settings.get(setting_name) != requested_settings[setting_name]:
                requested_words = _setting_in_words(requested_settings[setting_name])
                rule = (
                    f"{_setting_in_words(settings.get(setting_name))}, as ledger={self.path} counts"
                )
                raise InvalidValue(setting_name, requested_words, rule=rule)

    def _deciding_filters(
        self, requested_filter: PrivacyFilter | None, *, filter_is_default: bool
    ) -> list[PrivacyFilter]:
        """Returns the filters that must all admit a charge, the smallest cap first.

        Args:
            requested_filter: the filter for the caller's cap; None where the caller named no cap.
            filter_is_default: whether the caller named no filter.

        Raises:
            InvalidValue: the caller's cap is above the cap of the file, or the caller's filter differs from the filter
                of the file at the same cap.
        """
        stored_cap = self.stored_cap
        filter_settings = self.store.settings.get("filter")
        if stored_cap is None or filter_settings is None:
            return [] if requested_filter is None else [requested_filter]
        stored_filter = filter_from_json(
            filter_settings, max_epsilon=stored_cap, target_delta=self.target_delta
        )
        if requested_filter is None:
            return [stored_filter]
        requested_cap = requested_filter.max_epsilon
        if requested_cap > stored_cap:
            rule = f"at most {stored_cap}, the cap of ledger={self.path}"
            raise InvalidValue("max_epsilon", requested_cap, rule=rule, owner="ledger")
        if requested_cap < stored_cap:
            smaller_cap_filter = requested_filter
            if filter_is_default:
                smaller_cap_filter = stored_filter.for_cap(max_epsilon=requested_cap)
            return [smaller_cap_filter, stored_filter]
        # An earlier version may have stored another value of `plans_failures`, which the caller cannot choose.
        comparable_filter = replace(requested_filter, plans_failures=stored_filter.plans_failures)
        if not filter_is_default and comparable_filter != stored_filter:
            requested_words = _setting_in_words(plain(requested_filter.to_json()))
            rule = f"{_setting_in_words(filter_settings)}, which decides in ledger={self.path}"
            raise InvalidValue("filter", requested_words, rule=rule)
        return [stored_filter]

    @classmethod
    def stored(cls, path: str | os.PathLike[str]) -> Self:
        """Opens an existing file with the settings that are stored in the file.

        Raises `InvalidValue` where the file is no ledger of this version, or names an accountant that this version of
        `pate` does not have.
        """
        store = Store(path, settings_if_new=None)
        _require_version(store)
        settings = store.settings
        # The accountant, the cap and the filter are left out, so those of the file are taken.
        return cls(store, target_delta=settings["target_delta"], adjacency=settings["adjacency"])

    @property
    def identity(self) -> str:
        """The identifier of this ledger; a moved or copied file keeps its identifier."""
        return self.store.identity


def _requested_filter(
    make_filter: FilterMaker | None,
    *,
    make_default_filter: FilterMaker,
    max_epsilon: float | None,
    target_delta: float,
) -> PrivacyFilter | None:
    """Returns the filter that enforces the caller's cap; None where the caller named no cap.

    Args:
        make_filter: makes the filter that the caller named; None where the caller named no filter.
        make_default_filter: makes the filter where the caller named none.
        max_epsilon: the caller's cap.
        target_delta: the delta of every total.

    Raises:
        InvalidValue: the caller named a filter and no cap, or a cap or filter that cannot be used.
    """
    if max_epsilon is None:
        if make_filter is not None:
            raise InvalidValue("filter", make_filter, rule="a max_epsilon beside it")
        return None
    checked_max_epsilon = require_positive("max_epsilon", max_epsilon, owner="ledger")
    if make_filter is None:
        return make_default_filter(checked_max_epsilon, target_delta)
    if not callable(make_filter):
        raise InvalidValue("filter", make_filter, rule="a class such as RenyiFilter, uncalled")
    return make_filter(checked_max_epsilon, target_delta)


def _is_new(path: str | os.PathLike[str] | Store | None) -> bool:
    """Returns True if the settings of a ledger are not stored yet: in memory, and in a file that does not exist."""
    if path is None:
        return True
    return not isinstance(path, Store) and not os.path.lexists(Path(path).expanduser().resolve())


def _require_readable(requested_filter: PrivacyFilter) -> None:
    """Raises `InvalidValue` unless `filter_from_json` makes the same filter from the name and the parameters of one."""
    read_filter = filter_from_json(
        plain(requested_filter.to_json()),
        max_epsilon=requested_filter.max_epsilon,
        target_delta=requested_filter.target_delta,
    )
    if read_filter != requested_filter:
        rule = (
            f"{type(read_filter).__name__}, which {read_filter.name} names in the file of a ledger"
        )
        raise InvalidValue("filter", type(requested_filter).__name__, rule=rule)


def _require_version(store: Store) -> None:
    """Raises `InvalidValue` unless a file is a ledger of this version."""
    is_this_version = store.settings.get("ledger") == _VERSION
    require(is_this_version, "ledger", store.path, "a ledger of this version")


def _stored_accountant(store: Store) -> Callable[[], Accountant]:
    """Returns a function that makes the empty accountant that is named in the file of a ledger of this version."""
    accountant_parameters = dict(store.settings["accountant"])
    accountant_name = str(accountant_parameters.pop("name"))
    if accountant_name in _FORMER_ACCOUNTANTS:
        return _FORMER_ACCOUNTANTS[accountant_name]
    accountant_class = _ACCOUNTANTS[
        require_choice("accountant", accountant_name, choices=tuple(_ACCOUNTANTS))
    ]
    return (
        partial(accountant_class, **accountant_parameters)
        if accountant_parameters
        else accountant_class
    )


def _setting_in_words(setting: Any) -> str:
    """Returns a setting as text for an error, such as `renyi(order=8.0)` for a dictionary of name and parameters."""
    if not isinstance(setting, dict):
        return str(setting)
    parameters_in_words = ", ".join(
        f"{parameter_name}={str(parameter_value)[:40]}"
        for parameter_name, parameter_value in setting.items()
        if parameter_name != "name"
    )
    class_name = str(setting.get("name", "none"))
    return f"{class_name}({parameters_in_words})" if parameters_in_words else class_name
