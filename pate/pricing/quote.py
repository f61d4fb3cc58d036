"""A quote: what a release costs by one accountant or by all, what it passes, and what was solved for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pate.accounting import Accountant, Event, RdpAccountant
from pate.accounting.events import failure_probability
from pate.aggregators import Aggregator, StableTopK, TargetChargedAggregator
from pate.mechanisms import CertifiedTable, StabilityTest
from pate.pricing.hit_plan import HitPlan, plan_hits
from pate.pricing.query_count import largest_num_queries, require_achievable_delta
from pate.validation import InvalidValue, require, require_count, require_probability
from pate.votes.vote_files import ImportedVotes, read_sets

Maker = Callable[[], Accountant]


@dataclass(frozen=True)
class Price:
    """What one accountant says.

    Attributes:
        accountant: its name.
        epsilon: None where it cannot price the event.
        num_orders: of the Renyi accountant.
        best_order: of the Renyi accountant: where the epsilon is attained.
        reason: why there is no epsilon.
    """

    accountant: str
    epsilon: float | None = None
    num_orders: int | None = None
    best_order: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Quote:
    """What a release costs and how it was computed; the JSON object that `format=json` prints.

    Attributes:
        failure_prob: over all queries, a part of delta.
        aggregator: its class and public parameters.
        solved_for: the parameters that were solved for, or the number of queries.
        gap_at_50: the smallest gap that passes the stability test with probability 1/2; None where none does.
        gap_at_95: with probability 0.95.
        lone_gap_at_50: the smallest gap that is both chosen among gaps of 0 and passed with probability 1/2.
        accountants: what the others say, where they were asked.
        table: where the test's table was written, and what it costs at which order.
        plain_epsilon: what the same queries cost without a session of charged calls; None for other aggregators.
        hits: what to expect of such a session on the votes of a file.
    """

    epsilon: float
    delta: float
    adjacency: str
    accountant: str
    paper_epsilon: float | None
    failure_prob: float
    num_queries: int
    num_labels: int
    num_teachers: int
    aggregator: dict[str, Any]
    solved_for: dict[str, Any]
    num_orders: int | None = None
    best_order: float | None = None
    gap_at_50: int | None = None
    gap_at_95: int | None = None
    lone_gap_at_50: int | None = None
    accountants: tuple[Price, ...] = ()
    table: dict[str, Any] | None = None
    plain_epsilon: float | None = None
    hits: HitPlan | None = None

    def to_json(self) -> dict[str, Any]:
        """The values as JSON has them: an infinite price is a string."""
        values = _strict(asdict(self))
        return dict(values)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked.

    Attributes:
        aggregator: with noise to start from, or as it is.
        accountant: makes the accountant whose price counts.
        others: the accountants to show beside it, by name.
        target_epsilon: solve for the noise that meets it.
        max_epsilon: solve for the number of queries that it pays for.
        write_table: where to write the test's table.
        votes: a file of votes to plan a session of charged calls on.
        prior: a file of what these votes are compared with.
    """

    aggregator: Aggregator
    accountant: Maker
    others: Mapping[str, Maker]
    target_delta: float
    num_queries: int
    num_labels: int
    num_teachers: int
    target_epsilon: float | None = None
    max_epsilon: float | None = None
    write_table: str | None = None
    votes: str | None = None
    prior: str | None = None

    def __post_init__(self) -> None:
        require_probability("target_delta", self.target_delta)
        for name in ("num_queries", "num_labels", "num_teachers"):
            require_count(name, getattr(self, name))
        if self.write_table is not None:
            require(not Path(self.write_table).is_dir(), "write_table", self.write_table, "a file, not a folder")
        if self.target_epsilon is not None and self.max_epsilon is not None:
            raise InvalidValue(
                f"max_epsilon={self.max_epsilon}: expected no target_epsilon beside it; "
                "one solves for the queries, the other for the noise"
            )

    def quote(self) -> Quote:
        """Solves for what is open, prices it, and writes the table where one is asked for."""
        shape = self._shape
        aggregator, num_queries = self._solved()
        require_achievable_delta(self.target_delta, num_queries=num_queries, num_labels=self.num_labels)
        event = aggregator.event_for(num_queries=num_queries, **shape)
        price = _price(self.accountant, event, self.target_delta)
        others = [_asked(name, make, event, self.target_delta) for name, make in self.others.items()]
        parameters, before = _parameters(aggregator), _parameters(self.aggregator)
        solved = {name: value for name, value in parameters.items() if value != before.get(name)}
        solved |= {"num_queries": num_queries} if self.max_epsilon is not None else {}
        return Quote(
            epsilon=price.epsilon if price.epsilon is not None else math.inf,
            delta=self.target_delta,
            adjacency=str(aggregator.adjacency),
            accountant=price.accountant,
            paper_epsilon=aggregator.paper_epsilon(num_queries=num_queries, target_delta=self.target_delta),
            failure_prob=failure_probability(event),
            num_queries=num_queries,
            num_labels=self.num_labels,
            num_teachers=self.num_teachers,
            aggregator=parameters,
            solved_for=solved,
            num_orders=price.num_orders,
            best_order=price.best_order,
            accountants=(price, *(other for other in others if other.accountant != price.accountant)) if others else (),
            table=self._written(aggregator, event),
            **self._session(aggregator, num_queries),
            **self._gaps(aggregator),
        )

    @property
    def _shape(self) -> dict[str, int]:
        return {"num_labels": self.num_labels, "num_teachers": self.num_teachers}

    def _solved(self) -> tuple[Aggregator, int]:
        """The aggregator with its noise and the number of queries, whichever was asked for."""
        budget: dict[str, Any] = {"target_delta": self.target_delta, "accountant": self.accountant, **self._shape}
        if self.max_epsilon is not None:
            return self.aggregator, largest_num_queries(self.aggregator, max_epsilon=self.max_epsilon, **budget)
        if self.target_epsilon is None:
            return self.aggregator, self.num_queries
        budget |= {"target_epsilon": self.target_epsilon, "num_queries": self.num_queries}
        return self.aggregator.calibrated(**budget), self.num_queries

    def _written(self, aggregator: Aggregator, event: Event) -> dict[str, Any] | None:
        """The test as a certified table, at the order that it was made for or else at the release's best."""
        if self.write_table is None:
            return None
        test = _test(aggregator, self.num_teachers)
        if test is None:
            name = type(aggregator).__name__
            raise InvalidValue(
                f"write_table={self.write_table}: expected an aggregator with a stability test, not {name}"
            )
        ready = getattr(aggregator, "table", None)
        order = ready.order if ready is not None else getattr(aggregator, "table_order", None)
        best = RdpAccountant().compose(event).best_order(self.target_delta) if order is None else order
        table = CertifiedTable.of(test, order=best)
        table.save(self.write_table)
        return {"path": self.write_table, "order": table.order, "rdp": table.rdp, "sha256": table.digest}

    def _session(self, aggregator: Aggregator, num_queries: int) -> dict[str, Any]:
        """What plain composition would cost, and the plan on a file of votes, for a session of charged calls."""
        if not isinstance(aggregator, TargetChargedAggregator):
            name = type(aggregator).__name__
            require(self.votes is None, "votes", self.votes, f"none for {name}, which pays for every query")
            return {}
        plain = aggregator.plain_event(num_queries=num_queries, **self._shape)
        spendable = failure_probability(plain) < self.target_delta
        price = _price(self.accountant, plain, self.target_delta).epsilon if spendable else math.inf
        return {"plain_epsilon": price, "hits": self._hits(aggregator)}

    def _hits(self, aggregator: TargetChargedAggregator) -> HitPlan | None:
        if self.votes is None:
            return None
        votes = ImportedVotes.read(self.votes, num_teachers=self.num_teachers)
        found = votes.counts.shape[1]
        require(found == self.num_labels, "num_labels", self.num_labels, f"{found}, as in {self.votes}")
        return plan_hits(
            aggregator,
            votes.counts,
            num_teachers=self.num_teachers,
            target_delta=self.target_delta,
            prior=None if self.prior is None else read_sets(self.prior),
            accountant=self.accountant,
        )

    def _gaps(self, aggregator: Aggregator) -> dict[str, Any]:
        """The gaps at which a set passes the test, or is chosen and passes; None where T teachers cannot."""
        test = _test(aggregator, self.num_teachers)
        gaps = {} if test is None else {"gap_at_50": test.gap_to_pass(0.5), "gap_at_95": test.gap_to_pass(0.95)}
        if isinstance(aggregator, StableTopK):
            gaps["lone_gap_at_50"] = aggregator.steps(**self._shape).gap_to_release(0.5)
        return gaps


def _price(make: Maker, event: Event, delta: float) -> Price:
    spent = make().compose(event)
    epsilon = spent.get_epsilon(delta)
    if isinstance(spent, RdpAccountant):
        return Price(spent.name, epsilon, len(spent.orders), spent.best_order(delta))
    return Price(spent.name, epsilon)


def _asked(name: str, make: Maker, event: Event, delta: float) -> Price:
    """The price by another accountant, or why it has none."""
    try:
        return _price(make, event, delta)
    except InvalidValue as error:
        return Price(name, reason=str(error))
    except ImportError as error:
        return Price(name, reason=f"needs the package {error.name}, which is not installed")


def _parameters(aggregator: Aggregator) -> dict[str, Any]:
    """The aggregator's class and public parameters; with a target, the noise that was solved for is among them."""
    plain = (str, int, float, bool)
    fields = {name: value for name, value in vars(aggregator).items() if isinstance(value, plain)}
    if isinstance(ready := getattr(aggregator, "table", None), CertifiedTable):
        fields |= {"table_order": ready.order, "table_rdp": ready.rdp, "table_sha256": ready.digest}
    return {"name": type(aggregator).__name__} | {name: value for name, value in fields.items() if name != "adjacency"}


def _test(aggregator: Aggregator, num_teachers: int) -> StabilityTest | None:
    make = getattr(aggregator, "stability_test", None)
    return None if make is None else make(num_teachers=num_teachers)


def _strict(value: Any) -> Any:
    """JSON has no infinity and no tuples."""
    if isinstance(value, dict):
        return {name: _strict(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value
