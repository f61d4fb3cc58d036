"""pate-account: prices and plans a release without any data, and lists the charges of a ledger."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf

from pate import aggregators, pricing
from pate.accounting import Accountant, Budget
from pate.cli.app import command_of
from pate.cli.monitor import ConsoleMonitor
from pate.config import CONFIG_FOLDER, build
from pate.config.build import part_maker
from pate.config.schema import members
from pate.files.disk import make_folder
from pate.pricing.remedies import watched_search
from pate.progress import Monitor
from pate.report.console import print_found, print_json, print_page
from pate.setting_names import COMMAND
from pate.validation import require, require_choice
from pate.votes.shape import VoteShape

_SHORT = 2.0  # seconds: stages that end sooner leave no line


def account(config: DictConfig) -> None:
    """Prints the price of the configured release, or the plan that meets a budget."""
    require_choice("format", config.format, ("text", "json", "jsonl"))
    # from Python, with settings
    words = HydraConfig.get().overrides.task if HydraConfig.initialized() else ["called"]
    if config.ledger is not None and {word.lstrip("+~").partition("=")[0] for word in words} <= {
        "ledger",
        "format",
    }:
        _print_ledger(config.ledger, config.format)  # nothing else was named, so nothing is priced
        return
    require(
        config.format != "jsonl",
        "format",
        config.format,
        "text or json; jsonl is for ledger= and nothing else",
    )
    if config.write_table is not None:
        require(
            not Path(config.write_table).is_dir(),
            "write_table",
            config.write_table,
            "a file, not a folder",
        )
    require(
        not config.data_dependent or config.votes is not None,
        "data_dependent",
        "true",
        "votes=FILE beside it",
    )
    quote = _quote(config, ConsoleMonitor(shown_after=_SHORT))
    print_found(config.format, quote.to_json(), "cli/account.txt", quote=quote)


def _quote(config: DictConfig, monitor: Monitor) -> pricing.Quote:
    make = part_maker(config)
    aggregator = make("aggregator")
    budget = pricing.budget_from_settings(
        target_delta=config.target_delta,
        target_epsilon=config.target_epsilon,
        max_epsilon=config.max_epsilon,
        budgets=None if config.budgets is None else OmegaConf.to_object(config.budgets),
        accountant=partial(make, "accountant"),
    )
    shape = VoteShape(config.num_queries, config.num_labels, config.num_teachers)
    if config.votes is not None and not config.data_dependent:
        rule = f"none for {type(aggregator).__name__}, which pays for every query"
        require(
            isinstance(aggregator, aggregators.TargetChargedAggregator), "votes", config.votes, rule
        )
    suggestion = None
    if config.suggest:
        with monitor.stage("searching teachers and queries"):
            suggestion = pricing.suggest(aggregator, shape, budget, num_private=config.num_private)
        shape = replace(
            shape, num_teachers=suggestion.num_teachers, num_queries=suggestion.num_queries
        )
    with monitor.stage("pricing the release"):
        release = pricing.plan_release(aggregator, shape, budget, more_queries=True)
    doubts = pricing.require_useful(
        aggregator,
        release,
        budget,
        num_groups=config.num_private,
        allow_useless=config.allow_useless,
        search=watched_search(monitor, COMMAND),
    )
    known = {
        name: partial(_accountant, name, list(config.allowed_targets))
        for name in members("accountant")
    }
    others = {name: known[name] for name in _others(config.accountants, tuple(known))}
    at_least = None  # what neighbors show that epsilon is at least
    if config.lower_bound and release.shape.num_queries > 0:
        from pate.auditing.lower_bound import lower_bound_of  # which a price alone does not need

        at_least = lower_bound_of(release.aggregator, release.shape, budget.delta)
    return replace(
        pricing.quote_release(release, budget, others=others),
        doubts=tuple(map(COMMAND.doubt_line, doubts)),
        table=_written_table(config.write_table, release, budget),
        **_on_votes(config, release, budget),
        accounts=()
        if config.ledger is None
        else pricing.accounts_left(config.ledger, release, budget),
        cheapest=pricing.cheapest_accountant(release, budget, known),
        suggestion=suggestion,
        at_least=at_least,
    )


def _others(asked: Any, known: tuple[str, ...]) -> list[str]:
    """The accountants to show side by side: all that there are, or those named."""
    names = (
        {None: [], "all": known}.get(asked, [asked])
        if asked is None or isinstance(asked, str)
        else asked
    )
    require(
        isinstance(names, (list, tuple, ListConfig)),
        "accountants",
        asked,
        f"all, or a list of {', '.join(known)}",
    )
    return [require_choice("accountants", str(name), known) for name in names]


def _accountant(name: str, allowed: list[str]) -> Accountant:
    """One of the group, as `accountant=NAME` would make it."""
    ours = CONFIG_FOLDER / "accountant" / f"{name}.yaml"  # a file of one's own may need composing
    node = (
        OmegaConf.load(ours)
        if ours.is_file()
        else compose("account", [f"accountant={name}"]).accountant
    )
    made: Accountant = build(node, "accountant", allowed_targets=allowed)  # type: ignore[arg-type]  # a file of ours is a mapping
    return made


def _written_table(
    path: str | None, release: pricing.PricedRelease, budget: Budget
) -> dict[str, Any] | None:
    """Writes the stability test where that is asked for, and says what it costs."""
    if path is None:
        return None
    rule = f"an aggregator with a stability test, not {type(release.aggregator).__name__}"
    has_test = (
        release.aggregator.stability_test(num_teachers=release.shape.num_teachers) is not None
    )
    require(has_test, "write_table", path, rule)
    table = pricing.certify_stability_test(release, budget)
    make_folder(Path(path).absolute().parent)
    table.save(path)
    return {"path": path, "order": table.order, "rdp": table.rdp, "sha256": table.digest}


def _on_votes(config: DictConfig, release: pricing.PricedRelease, budget: Budget) -> dict[str, Any]:
    """What the release would cost on the votes of a file, and what to expect there of a session of charged calls."""
    if config.votes is None:
        return {}
    from pate.votes.imported import ImportedVotes, read_sets

    aggregator = release.aggregator
    shape = release.shape
    found = dict[str, Any]()
    counts = ImportedVotes.read(config.votes, num_teachers=shape.num_teachers).counts  # [Q, L]
    sizes = {
        "num_labels": (shape.num_labels, counts.shape[1]),
        "num_queries": (shape.num_queries, len(counts)),
    }
    for name, (said, there) in sizes.items():
        alike = said == there or (name == "num_queries" and not config.data_dependent)
        require(alike, name, said, f"{there}, as in {config.votes}")
    if config.data_dependent:
        from pate.auditing.aggregator_cost import epsilon_on  # which a price alone does not need

        found["data_dependent"] = epsilon_on(aggregator, counts, shape, config.target_delta)
    if isinstance(aggregator, aggregators.TargetChargedAggregator):
        found["hits"] = pricing.plan_hits(
            aggregator,
            counts,
            num_teachers=shape.num_teachers,
            target_delta=budget.delta,
            prior=None if config.prior is None else read_sets(config.prior),
            accountant=budget.accountant,
        )
    return found


def _print_ledger(path: str, form: str) -> None:
    """Who was charged for what and when, and the price: tables, an object on a line, or a line for each charge."""
    from pate.pricing.ledger_accounts import charges_of, ledgers_in

    ledgers = ledgers_in(path)
    accounts = [charges_of(ledger) for ledger in ledgers]
    if form == "text":
        print_page("cli/ledger.txt", accounts=list(zip(ledgers, accounts, strict=True)))
        return
    charges = [
        {"data": each["data"], "delta": each["delta"], **one}
        for each in accounts
        for one in each["charges"]
    ]
    for line in charges if form == "jsonl" else [{"accounts": accounts}]:
        print_json(line)


main = command_of(account, "account", __name__)
