"""What a ledger is opened with, and what of it stands in the file's first line."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pate.accounting.accountant import Accountant, require_maker
from pate.accounting.auto import AutoAccountant
from pate.accounting.events import Adjacency
from pate.accounting.exact import ExactAccountant
from pate.accounting.filters import FilterMaker, FilterRule, default_filter, filter_from_json
from pate.accounting.joint_law import JointLawAccountant
from pate.accounting.ledger.file import first_line
from pate.accounting.ledger.header import CHAINED, Header, described
from pate.accounting.pld import PldAccountant
from pate.accounting.pure_dp import PureDpAccountant
from pate.accounting.rdp import RdpAccountant
from pate.accounting.zcdp import ZCdpAccountant
from pate.validation import require, require_choice, require_positive, require_probability

_ACCOUNTANTS: dict[str, type[Accountant]] = {
    kind.name: kind
    for kind in (
        RdpAccountant,
        ExactAccountant,
        PldAccountant,
        PureDpAccountant,
        ZCdpAccountant,
        JointLawAccountant,
        AutoAccountant,
    )
}


@dataclass(frozen=True)
class LedgerSettings:
    """Settings of a ledger, checked; see `Ledger` for what they mean."""

    adjacency: Adjacency
    target_delta: float
    accountant: Callable[[], Accountant]
    max_epsilon: float | None
    filter: FilterMaker | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        object.__setattr__(self, "target_delta", require_probability("target_delta", self.target_delta))
        require_maker(self.accountant)
        if self.max_epsilon is not None:
            object.__setattr__(self, "max_epsilon", require_positive("max_epsilon", self.max_epsilon))
        require(self.filter is None or self.max_epsilon is not None, "filter", self.filter, "a max_epsilon beside it")
        require(
            self.filter is None or callable(self.filter), "filter", self.filter, "a class such as RenyiFilter, uncalled"
        )

    @classmethod
    def stored(cls, path: str | os.PathLike[str]) -> LedgerSettings:
        """Those of a file, with its accountant; Renyi's where an earlier version stored none.

        Raises:
            InvalidValue: no ledger, or one that counts by an accountant of somebody's own.
        """
        header = first_line(Path(path).resolve())
        values = dict(header.accountant or {"name": RdpAccountant.name})
        kind = _ACCOUNTANTS[require_choice("accountant", str(values.pop("name")), tuple(_ACCOUNTANTS))]
        made = partial(kind, **values) if values else kind
        return cls(Adjacency(header.adjacency), header.target_delta, made, header.max_epsilon, None)

    def header(self) -> Header:
        """The first line of a new file."""
        empty, rule = self.accountant(), self._rule()
        kind = None if rule is None else rule.to_json()
        return Header(CHAINED, str(self.adjacency), self.target_delta, described(empty), self.max_epsilon, kind)

    def rules(self, header: Header, *, place: str) -> list[FilterRule]:
        """What decides in a file with that header: for its cap, and for a tighter one that is asked for.

        Raises:
            InvalidValue: another filter than the stored one for the stored cap.
        """
        rule = self._rule()
        if header.max_epsilon is None or header.filter is None:
            return [] if rule is None else [rule]
        stored = filter_from_json(header.filter, max_epsilon=header.max_epsilon, target_delta=self.target_delta)
        if rule is None or rule.max_epsilon == header.max_epsilon:
            if rule is not None and self.filter is not None:
                header.require_filter(rule.to_json(), place=place)
            return [stored]
        return [rule, stored]

    def _rule(self) -> FilterRule | None:
        if self.max_epsilon is None:
            return None
        return (self.filter or default_filter(self.accountant()))(self.max_epsilon, self.target_delta)
