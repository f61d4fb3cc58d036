"""pate-account: prices and plans a release without any data."""

from __future__ import annotations

import json
from typing import Any

from hydra import compose
from omegaconf import DictConfig, ListConfig
from rich.console import Console

from pate.accounting import Accountant
from pate.cli.app import run_app
from pate.cli.quote_page import print_quote
from pate.config import build, build_aggregator
from pate.config.location import members
from pate.pricing.quote import Maker, Request
from pate.validation import InvalidValue, require_choice


def main() -> None:
    """The entry point."""
    run_app(account, "account")


def account(config: DictConfig) -> None:
    """Prints the price of the configured release, or the plan that meets a budget."""
    require_choice("format", config.format, ("text", "json"))
    request = _request(config)
    with Console(stderr=True).status("pricing"):  # shown on a terminal only
        quote = request.quote()
    if config.format == "json":
        print(json.dumps(quote.to_json(), allow_nan=False))  # noqa: T201 - the command's product
    else:
        print_quote(quote)


def _request(config: DictConfig) -> Request:
    allowed = list(config.allowed_targets)
    return Request(
        aggregator=build_aggregator(config.aggregator, adjacency=config.adjacency, allowed_targets=allowed),
        accountant=_maker(config.accountant, allowed),
        others={
            name: _maker(compose("account", [f"accountant={name}"]).accountant, allowed) for name in _others(config)
        },
        target_delta=config.target_delta,
        num_queries=config.num_queries,
        num_labels=config.num_labels,
        num_teachers=config.num_teachers,
        target_epsilon=config.target_epsilon,
        max_epsilon=config.max_epsilon,
        write_table=config.write_table,
        votes=config.votes,
        prior=config.prior,
    )


def _maker(node: DictConfig, allowed: list[str]) -> Maker:
    def make() -> Accountant:
        made: Accountant = build(node, allowed_targets=allowed)
        return made

    return make


def _others(config: DictConfig) -> tuple[str, ...]:
    """The accountants to show side by side: all that there are, or those named."""
    asked: Any = config.accountants
    known = members("accountant")
    if asked is None:
        return ()
    if asked == "all":
        return known
    if not isinstance(asked, (str, ListConfig)):
        raise InvalidValue(f"accountants={asked}: expected all, or a list of {', '.join(known)}")
    names = [asked] if isinstance(asked, str) else list(asked)
    return tuple(require_choice("accountants", str(name), known) for name in names)


if __name__ == "__main__":
    main()
