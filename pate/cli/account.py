"""pate-account: prices and plans a release without any data, and lists the charges of a ledger."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf

from pate import aggregators, pricing
from pate.accounting import (
    Accountant,
    Budget,
    NoOpEvent,
    TruncatedNegativeBinomial,
    tuning_event,
)
from pate.cli.app import command_of
from pate.cli.monitor import ConsoleMonitor
from pate.config import CONFIG_FOLDER, build
from pate.config.build import part_maker
from pate.config.schema import members
from pate.files.paths import make_folder
from pate.pricing.remedies import search_with_progress
from pate.progress import Monitor
from pate.report.console import print_json, print_page, print_result
from pate.setting_names import COMMAND
from pate.validation import require, require_choice
from pate.votes.shape import VoteShape

_SHORT = 2.0  # seconds: stages that end sooner leave no line


def account(config: DictConfig) -> None:
    """Prints the price of the configured release, or the plan that meets a budget."""
    require_choice("format", config.format, ("text", "json", "jsonl"))
    if config.ledger is not None and _names_ledger_alone():
        # no release is named, so none is priced
        _print_ledger(config.ledger, output_format=config.format)
        return
    rule = "text or json; jsonl is for ledger= and nothing else"
    require(config.format != "jsonl", "format", config.format, rule)
    if config.write_table is not None:
        is_folder = Path(config.write_table).is_dir()
        require(not is_folder, "write_table", config.write_table, "a file, not a folder")
    has_votes = config.votes is not None
    rule = "votes=FILE beside it"
    require(has_votes or not config.data_dependent, "data_dependent", "true", rule)
    quote = _quote(config, monitor=ConsoleMonitor(shown_after=_SHORT))
    print_result(config.format, quote.to_json(), "cli/account.txt", quote=quote)


def _names_ledger_alone() -> bool:
    """Returns True if the command line names a ledger and no setting of a release; False if called from Python."""
    if not HydraConfig.initialized():
        return False
    words = HydraConfig.get().overrides.task
    return {word.lstrip("+~").partition("=")[0] for word in words} <= {"ledger", "format"}


def _quote(config: DictConfig, monitor: Monitor) -> pricing.Quote:
    make = part_maker(config)
    aggregator = make("aggregator")
    budget = pricing.budget_from_settings(
        target_delta=config.target_delta,
        target_epsilon=config.target_epsilon,
        target_mu=config.target_mu,
        max_epsilon=config.max_epsilon,
        budgets=None if config.budgets is None else OmegaConf.to_object(config.budgets),
        accountant=partial(make, "accountant"),
    )
    shape = VoteShape(config.num_queries, config.num_labels, config.num_teachers)
    if config.votes is not None and not config.data_dependent:
        rule = f"none for {type(aggregator).__name__}, which pays for every query"
        is_charged_by_hits = isinstance(aggregator, aggregators.TargetChargedAggregator)
        require(is_charged_by_hits, "votes", config.votes, rule)
    suggestion = None
    if config.suggest:
        with monitor.stage("searching teachers and queries"):
            suggestion = pricing.suggest(aggregator, shape, budget, num_private=config.num_private)
        shape = replace(
            shape, num_teachers=suggestion.num_teachers, num_queries=suggestion.num_queries
        )
    with monitor.stage("pricing the release"):
        release = pricing.plan_release(aggregator, shape, budget, may_add_queries=True)
    doubts = pricing.require_useful(
        aggregator,
        release,
        budget,
        num_groups=config.num_private,
        allow_useless=config.allow_useless,
        search=search_with_progress(monitor, spelling=COMMAND),
    )
    accountants = {
        name: partial(_accountant, name, list(config.allowed_targets))
        for name in members("accountant")
    }
    names = _accountant_names(config.accountants, names=tuple(accountants))
    at_least = None  # a lower bound on epsilon, by two neighbors
    if config.lower_bound and release.shape.num_queries > 0:
        from pate.auditing.lower_bound import lower_bound_of  # which a price alone does not need

        at_least = lower_bound_of(release.aggregator, release.shape, budget.delta)
    best_of_runs = None
    if config.tune_runs is not None:
        distribution = TruncatedNegativeBinomial.of_mean(config.tune_runs)
        best_of_runs = budget.epsilon_of(
            tuning_event(release.event, NoOpEvent(), distribution=distribution)
        )
    extras = pricing.QuoteExtras(
        table=_written_table(config.write_table, release, budget),
        cheapest=pricing.cheapest_accountant(release, budget, accountants),
        suggestion=suggestion,
        at_least=at_least,
        best_of_runs=best_of_runs,
    )
    if config.votes is not None:
        extras = _with_votes(extras, config, release, budget)
    if config.ledger is not None:
        accounts = pricing.accounts_left(config.ledger, release, budget)
        extras = replace(extras, accounts=accounts)
    quote = pricing.quote_release(
        release, budget, others={name: accountants[name] for name in names}
    )
    return replace(quote, doubts=tuple(map(COMMAND.doubt_line, doubts)), extras=extras)


def _accountant_names(setting: Any, names: tuple[str, ...]) -> list[str]:
    """Returns the names of the accountants whose prices are shown side by side.

    Args:
        setting: the value of `accountants=`: null, `all`, a name or a list of names.
        names: the names of all accountants.
    """
    if setting is None:
        return []
    if setting == "all":
        return list(names)
    chosen = [setting] if isinstance(setting, str) else setting
    rule = f"all, or a list of {', '.join(names)}"
    require(isinstance(chosen, (list, tuple, ListConfig)), "accountants", setting, rule)
    return [require_choice("accountants", str(name), names) for name in chosen]


def _accountant(name: str, allowed_targets: list[str]) -> Accountant:
    """Builds the accountant with the given name, as `accountant=NAME` would.

    Args:
        name: the name of the accountant.
        allowed_targets: the user's own modules whose classes may be loaded.
    """
    shipped = CONFIG_FOLDER / "accountant" / f"{name}.yaml"
    # the user's own file may need composing
    node = _loaded(shipped) if shipped.is_file() else _composed_accountant(name)
    accountant: Accountant = build(node, slot="accountant", allowed_targets=allowed_targets)
    return accountant


def _loaded(path: Path) -> DictConfig:
    node = OmegaConf.load(path)
    require(isinstance(node, DictConfig), "accountant", path, "a mapping of settings")
    return cast("DictConfig", node)


def _composed_accountant(name: str) -> DictConfig:
    node: DictConfig = compose("account", [f"accountant={name}"]).accountant
    return node


def _written_table(
    path: str | None, release: pricing.PricedRelease, budget: Budget
) -> dict[str, Any] | None:
    """Writes the table of the stability test to a file, and returns its description and cost; None without a file.

    Args:
        path: the file; None writes nothing.
        release: the priced release.
        budget: the budget that the noise is solved for.
    """
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


def _with_votes(
    extras: pricing.QuoteExtras,
    config: DictConfig,
    release: pricing.PricedRelease,
    budget: Budget,
) -> pricing.QuoteExtras:
    """Returns the extras with the parts that depend on a file of votes.

    These are the cost of the release on these votes, and the plan of a session that is charged only for queries that
    are hit.
    """
    from pate.votes.imported import ImportedVotes, read_sets

    aggregator = release.aggregator
    shape = release.shape
    counts = ImportedVotes.read(config.votes, num_teachers=shape.num_teachers).counts  # [Q, L]
    num_queries, num_labels = counts.shape
    rule = f"{num_labels}, as in {config.votes}"
    require(shape.num_labels == num_labels, "num_labels", shape.num_labels, rule)
    if config.data_dependent:
        from pate.auditing.aggregator_cost import epsilon_on  # which a price alone does not need

        rule = f"{num_queries}, as in {config.votes}"
        require(shape.num_queries == num_queries, "num_queries", shape.num_queries, rule)
        cost = epsilon_on(aggregator, counts, shape, config.target_delta)
        extras = replace(extras, data_dependent=cost)
    if isinstance(aggregator, aggregators.TargetChargedAggregator):
        hits = pricing.plan_hits(
            aggregator,
            counts,
            num_teachers=shape.num_teachers,
            target_delta=budget.delta,
            prior=None if config.prior is None else read_sets(config.prior),
            accountant=budget.accountant,
        )
        extras = replace(extras, hits=hits)
    return extras


def _print_ledger(path: str, output_format: str) -> None:
    """Prints the charges in a ledger.

    Args:
        path: the path of the ledger.
        output_format: text prints tables, json one object, jsonl one object for each charge.
    """
    from pate.pricing.ledger_accounts import charges_of, ledgers_in

    ledgers = ledgers_in(path)
    accounts = [charges_of(ledger) for ledger in ledgers]
    if output_format == "text":
        print_page("cli/ledger.txt", accounts=list(zip(ledgers, accounts, strict=True)))
        return
    charges = [
        {"data": account["data"], "delta": account["delta"], **charge}
        for account in accounts
        for charge in account["charges"]
    ]
    for line in charges if output_format == "jsonl" else [{"accounts": accounts}]:
        print_json(line)


main = command_of(account, command="account", module=__name__)
