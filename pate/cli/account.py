"""pate-account: prices a release without any data."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from pate.accounting import Accountant, RdpAccountant
from pate.accounting.events import failure_probability
from pate.aggregators import Aggregator, StableFixedTopK, StableTopK
from pate.cli.app import run_app
from pate.config import build, build_aggregator
from pate.report.rounding import round_up
from pate.validation import require_choice, require_count, require_probability


@dataclass(frozen=True)
class Quote:
    """What a release costs and how it was computed; the JSON object that `format=json` prints."""

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
    num_orders: int | None = None
    best_order: float | None = None
    gap_at_50: int | None = None
    gap_at_95: int | None = None


def main() -> None:
    """The entry point."""
    run_app(account, "account")


def account(config: DictConfig) -> None:
    """Prints the price of the configured release."""
    require_choice("format", config.format, ("text", "json"))
    quote = _quote(config)
    if config.format == "json":
        values = {name: _strict(value) for name, value in asdict(quote).items()}
        print(json.dumps(values, allow_nan=False))  # noqa: T201 - the command's product
    else:
        Console(soft_wrap=True).print(_table(quote))


def _quote(config: DictConfig) -> Quote:
    delta = require_probability("target_delta", config.target_delta)
    shape = {name: require_count(name, config[name]) for name in ("num_queries", "num_labels", "num_teachers")}
    allowed = list(config.allowed_targets)
    aggregator = build_aggregator(config.aggregator, adjacency=config.adjacency, allowed_targets=allowed)

    def accountant() -> Accountant:
        made: Accountant = build(config.accountant, allowed_targets=allowed)
        return made

    if config.target_epsilon is not None:
        aggregator = aggregator.calibrated(
            target_epsilon=config.target_epsilon, target_delta=delta, accountant=accountant, **shape
        )
    event = aggregator.event_for(**shape)
    spent = accountant().compose(event)
    return Quote(
        epsilon=spent.get_epsilon(delta),
        delta=delta,
        adjacency=str(aggregator.adjacency),
        accountant=spent.name,
        paper_epsilon=aggregator.paper_epsilon(num_queries=shape["num_queries"], target_delta=delta),
        failure_prob=failure_probability(event),
        **shape,
        aggregator=_parameters(aggregator),
        **(_orders(spent, delta) | _gaps(aggregator, shape["num_teachers"])),
    )


def _parameters(aggregator: Aggregator) -> dict[str, Any]:
    """The aggregator's class and public parameters; with a target, the noise that was solved for is among them."""
    plain = (str, int, float, bool)
    fields = {name: value for name, value in vars(aggregator).items() if isinstance(value, plain)}
    return {"name": type(aggregator).__name__} | {name: value for name, value in fields.items() if name != "adjacency"}


def _orders(spent: Accountant, delta: float) -> dict[str, Any]:
    if not isinstance(spent, RdpAccountant):
        return {}
    return {"num_orders": len(spent.orders), "best_order": spent.best_order(delta)}


def _gaps(aggregator: Aggregator, num_teachers: int) -> dict[str, Any]:
    """The gaps at which a stable set is released with probability 1/2 and 0.95; None where T teachers cannot."""
    if not isinstance(aggregator, (StableTopK, StableFixedTopK)):
        return {}
    test = aggregator.stability_test(num_teachers=num_teachers)
    return {"gap_at_50": test.gap_to_pass(0.5), "gap_at_95": test.gap_to_pass(0.95)}


def _table(quote: Quote) -> Table:
    parameters = dict(quote.aggregator)
    table = Table("", "", title=f"{parameters.pop('name')}: what it costs", show_header=False)
    table.add_row("epsilon", f"[bold]{round_up(quote.epsilon, 4)}[/bold] at delta {quote.delta:g}, {quote.adjacency}")
    if quote.paper_epsilon is not None:
        table.add_row("as the paper accounts", f"{quote.paper_epsilon:.2f} (not a bound, for any adjacency)")
    table.add_row("accountant", quote.accountant)
    if quote.num_orders is not None:
        table.add_row("orders", f"{quote.num_orders}, the best is {quote.best_order:.3f}")
    table.add_row("failure probability", f"{quote.failure_prob:.3g} of delta")
    table.add_row("release", f"{quote.num_queries} queries x {quote.num_labels} labels, {quote.num_teachers} teachers")
    for name, value in parameters.items():
        table.add_row(name, f"{value:.6g}" if isinstance(value, float) else str(value))
    if quote.gap_at_50 is not None or quote.gap_at_95 is not None:
        table.add_row("gap that passes", f"{_or_none(quote.gap_at_50)} with 1/2, {_or_none(quote.gap_at_95)} with 0.95")
    return table


def _or_none(gap: int | None) -> str:
    return "no gap" if gap is None else f"{gap} votes"


def _strict(value: Any) -> Any:
    """An infinite price as a string: JSON has no infinity."""
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    main()
