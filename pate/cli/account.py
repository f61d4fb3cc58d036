"""pate-account: prices and plans a release without any data."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf

from pate import aggregators, pricing
from pate.accounting import Accountant
from pate.cli.app import run_app
from pate.cli.quote_page import print_quote
from pate.config import build, build_aggregator
from pate.config.location import CONFIG_FOLDER, file_of, members
from pate.files.disk import make_folder
from pate.files.values import to_json_line
from pate.report.console import PlainConsole
from pate.validation import InvalidValue, require, require_choice

if TYPE_CHECKING:
    from pate.pricing.hit_plan import HitPlan
    from pate.verification.tightness import LowerBound


def main() -> None:
    """The entry point."""
    run_app(account, "account")


def account(config: DictConfig) -> None:
    """Prints the price of the configured release, or the plan that meets a budget."""
    require_choice("format", config.format, ("text", "json", "jsonl"))
    if config.ledger is not None and _asks_for_charges_alone():
        from pate.cli.ledger_page import print_ledger

        print_ledger(config.ledger, config.format)
        return
    require(config.format != "jsonl", "format", config.format, "text or json; jsonl is for ledger= and nothing else")
    console = PlainConsole(stderr=True)
    with console.status("pricing") if console.is_terminal else nullcontext():
        quote = _quote(config)
    if config.format == "json":
        print(to_json_line(quote.to_json()))  # noqa: T201 - the command's product
    else:
        print_quote(quote)


def _asks_for_charges_alone() -> bool:
    """Whether nothing but a ledger was named: then nothing is priced."""
    if not HydraConfig.initialized():  # called from Python, with a configuration
        return False
    named = [word.lstrip("+~").partition("=")[0] for word in HydraConfig.get().overrides.task]
    return set(named) <= {"ledger", "format"}


def _quote(config: DictConfig) -> pricing.Quote:
    allowed = list(config.allowed_targets)
    aggregator = build_aggregator(config.aggregator, adjacency=config.adjacency, allowed_targets=allowed)
    budget = pricing.Budget(
        target_delta=config.target_delta,
        target_epsilon=config.target_epsilon,
        max_epsilon=config.max_epsilon,
        accountant=partial(build, config.accountant, "accountant", allowed_targets=allowed),
    )
    shape = pricing.ReleaseShape(
        num_queries=config.num_queries, num_labels=config.num_labels, num_teachers=config.num_teachers
    )
    _require_sensible_files(config, aggregator)
    suggestion = pricing.suggest(aggregator, shape, budget, num_private=config.num_private) if config.suggest else None
    if suggestion is not None:
        shape = replace(shape, num_teachers=suggestion.num_teachers, num_queries=suggestion.num_queries)
    release = pricing.plan_release(aggregator, shape, budget, more_queries=True)
    doubts = pricing.require_useful(
        aggregator,
        release,
        budget,
        names=pricing.SettingNames(),
        num_groups=config.num_private,
        allow_useless=config.allow_useless,
    )
    known = _accountants(members("accountant"), allowed)
    others = {name: known[name] for name in _others(config)}
    return replace(
        pricing.quote_release(replace(release, doubts=doubts), budget, others=others),
        table=_written_table(config, release, budget),
        hits=_hits(config, release, budget),
        accounts=() if config.ledger is None else pricing.accounts_left(config.ledger, release, budget),
        cheapest=pricing.cheapest_accountant(release, budget, known),
        suggestion=suggestion,
        at_least=_at_least(config, release, budget),
    )


def _at_least(config: DictConfig, release: pricing.PricedRelease, budget: pricing.Budget) -> LowerBound | None:
    """What neighbors show that epsilon is at least, where that is asked for."""
    if not config.lower_bound or release.shape.num_queries == 0:
        return None
    return pricing.lower_bound_of(release.aggregator, release.shape, budget.target_delta)


def _accountants(names: tuple[str, ...], allowed: list[str]) -> dict[str, Callable[[], Accountant]]:
    """Those of the group, by name."""
    return {name: partial(_accountant, name, allowed) for name in names}


def _accountant(name: str, allowed: list[str]) -> Accountant:
    """One of them, as `accountant=NAME` would make it."""
    ours = file_of("accountant", name, (CONFIG_FOLDER,))  # a file of one's own may need composing
    node = OmegaConf.load(ours) if ours is not None else compose("account", [f"accountant={name}"]).accountant
    made: Accountant = build(node, "accountant", allowed_targets=allowed)  # type: ignore[arg-type]  # a file of ours is a mapping
    return made


def _require_sensible_files(config: DictConfig, aggregator: aggregators.Aggregator) -> None:
    """Refuses what no file can be for, before anything is priced."""
    name = type(aggregator).__name__
    if config.write_table is not None:
        require(not Path(config.write_table).is_dir(), "write_table", config.write_table, "a file, not a folder")
    if config.votes is not None:
        charged = isinstance(aggregator, aggregators.TargetChargedAggregator)
        require(charged, "votes", config.votes, f"none for {name}, which pays for every query")


def _written_table(config: DictConfig, release: pricing.PricedRelease, budget: pricing.Budget) -> dict[str, Any] | None:
    """Writes the stability test where that is asked for, and says what it costs."""
    if config.write_table is None:
        return None
    test = release.aggregator.stability_test(num_teachers=release.shape.num_teachers)
    rule = f"an aggregator with a stability test, not {type(release.aggregator).__name__}"
    require(test is not None, "write_table", config.write_table, rule)
    table = pricing.certify_stability_test(release, budget)
    make_folder(Path(config.write_table).absolute().parent)
    table.save(config.write_table)
    return {"path": config.write_table, "order": table.order, "rdp": table.rdp, "sha256": table.digest}


def _hits(config: DictConfig, release: pricing.PricedRelease, budget: pricing.Budget) -> HitPlan | None:
    """What to expect of a session of charged calls on the votes of a file."""
    if config.votes is None or not isinstance(release.aggregator, aggregators.TargetChargedAggregator):
        return None
    from pate.votes.foreign import ImportedVotes, read_sets

    votes = ImportedVotes.read(config.votes, num_teachers=release.shape.num_teachers)
    found = votes.counts.shape[1]
    require(found == release.shape.num_labels, "num_labels", release.shape.num_labels, f"{found}, as in {config.votes}")
    return pricing.plan_hits(
        release.aggregator,
        votes.counts,
        num_teachers=release.shape.num_teachers,
        target_delta=budget.target_delta,
        prior=None if config.prior is None else read_sets(config.prior),
        accountant=budget.accountant,
    )


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
