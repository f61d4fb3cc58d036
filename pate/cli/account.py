"""pate-account: prices and plans a release without any records, and lists the charges of a ledger."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

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
from pate.config.schema import names_in_config_group
from pate.files.paths import make_folder
from pate.pricing.remedies import remedy_search_with_progress
from pate.pricing.suggestion import Suggestion
from pate.progress import Monitor
from pate.report.console import print_json, print_page, print_result
from pate.setting_names import COMMAND
from pate.validation import InvalidValue, require_choice
from pate.votes.shape import VoteShape

# Stages that take fewer seconds leave no line on the screen.
_MIN_SHOWN_SECONDS = 2.0


def price_or_list_charges(config: DictConfig) -> None:
    """Prints the price of the configured release, or the plan that meets a budget.

    With `ledger=` and no other setting but `format=`, it prints the charges in the ledger instead.
    """
    require_choice("format", config.format, ("text", "json", "jsonl"))
    if config.ledger is not None and _names_ledger_alone():
        _print_ledger(ledger_path=config.ledger, output_format=config.format)
        return
    if config.format == "jsonl":
        rule = "text or json; jsonl is for ledger= and nothing else"
        raise InvalidValue("format", config.format, rule=rule)
    if config.write_table is not None and Path(config.write_table).is_dir():
        raise InvalidValue("write_table", config.write_table, rule="a file, not a folder")
    if config.data_dependent and config.votes is None:
        raise InvalidValue("data_dependent", "true", rule="votes=FILE beside it")
    quote = _quote(config, monitor=ConsoleMonitor(shown_after=_MIN_SHOWN_SECONDS))
    print_result(config.format, quote.to_json(), "cli/account.txt", quote=quote)


def _names_ledger_alone() -> bool:
    """Returns True if the command line has no settings but `ledger` and `format`; False if called from Python."""
    if not HydraConfig.initialized():
        return False
    overrides = HydraConfig.get().overrides.task
    names = {override.lstrip("+~").partition("=")[0] for override in overrides}
    return names <= {"ledger", "format"}


def _quote(config: DictConfig, *, monitor: Monitor) -> pricing.Quote:
    """Returns the quote of the configured release: its price, and the parts that the settings ask for.

    Raises `InvalidValue` if the release would be useless, unless `allow_useless` is set.
    """
    build_part = part_maker(config)
    aggregator = build_part("aggregator")
    budget = pricing.budget_from_settings(
        target_delta=config.target_delta,
        target_epsilon=config.target_epsilon,
        target_mu=config.target_mu,
        max_epsilon=config.max_epsilon,
        budgets=None if config.budgets is None else OmegaConf.to_object(config.budgets),
        accountant=partial(build_part, "accountant"),
    )
    vote_shape = VoteShape(
        num_queries=config.num_queries,
        num_labels=config.num_labels,
        num_teachers=config.num_teachers,
    )
    if config.votes is not None and not config.data_dependent:
        _require_session(aggregator, votes_file=config.votes)
    num_private_groups = config.num_private
    suggested_sizes = None
    if config.suggest:
        with monitor.stage("searching teachers and queries"):
            suggested_sizes = pricing.suggest(
                aggregator, shape=vote_shape, budget=budget, num_private=num_private_groups
            )
        vote_shape = replace(
            vote_shape,
            num_teachers=suggested_sizes.num_teachers,
            num_queries=suggested_sizes.num_queries,
        )
    with monitor.stage("pricing the release"):
        priced_release = pricing.plan_release(
            aggregator, shape=vote_shape, budget=budget, may_add_queries=True
        )
    doubts = pricing.require_useful(
        aggregator,
        priced_release=priced_release,
        budget=budget,
        num_groups=num_private_groups,
        allow_useless=config.allow_useless,
        search=remedy_search_with_progress(monitor, spelling=COMMAND),
    )
    accountant_makers = {
        accountant_name: partial(
            _accountant, accountant_name, allowed_targets=list(config.allowed_targets)
        )
        for accountant_name in names_in_config_group("accountant")
    }
    shown_accountant_names = _accountant_names(
        config.accountants, all_names=tuple(accountant_makers)
    )
    quote_extras = _extras(
        config,
        priced_release=priced_release,
        budget=budget,
        suggested_sizes=suggested_sizes,
        accountant_makers=accountant_makers,
    )
    quote = pricing.quote_release(
        release=priced_release,
        budget=budget,
        others={
            accountant_name: accountant_makers[accountant_name]
            for accountant_name in shown_accountant_names
        },
    )
    doubt_lines = tuple(COMMAND.doubt_line(doubt) for doubt in doubts)
    return replace(quote, doubts=doubt_lines, extras=quote_extras)


def _require_session(aggregator: aggregators.Aggregator, *, votes_file: str) -> None:
    """Raises `InvalidValue` unless an aggregator releases in a session, which is charged for hits alone.

    A session halts after a fixed number of hits, that is, of queries whose outcome is in the aggregator's target.

    Args:
        aggregator: the aggregator.
        votes_file: the file of votes whose hits would be counted.
    """
    if not isinstance(aggregator, aggregators.TargetChargedAggregator):
        rule = f"none for {type(aggregator).__name__}, which pays for every query"
        raise InvalidValue("votes", votes_file, rule=rule)


def _extras(
    config: DictConfig,
    *,
    priced_release: pricing.PricedRelease,
    budget: Budget,
    suggested_sizes: Suggestion | None,
    accountant_makers: Mapping[str, Callable[[], Accountant]],
) -> pricing.QuoteExtras:
    """Returns the parts of a quote that settings ask for, such as a lower bound on epsilon and the cost on votes.

    If `write_table` is set, the table of the stability test is written to that file, and the quote tells its digest.

    Args:
        config: the composed configuration.
        priced_release: the priced release.
        budget: the budget of the release; with an epsilon, noise is solved for it.
        suggested_sizes: the suggested numbers of teachers and queries; None where none were asked for.
        accountant_makers: makes each accountant, by its name.
    """
    epsilon_lower_bound = None
    if config.lower_bound and priced_release.shape.num_queries > 0:
        from pate.auditing.lower_bound import lower_bound_of  # which a price alone does not need

        epsilon_lower_bound = lower_bound_of(
            priced_release.aggregator, shape=priced_release.shape, target_delta=budget.delta
        )
    epsilon_of_best_run = None
    if config.tune_runs is not None:
        run_count_distribution = TruncatedNegativeBinomial.of_mean(mean=config.tune_runs)
        epsilon_of_best_run = budget.epsilon_of(
            tuning_event(
                base=priced_release.event, score=NoOpEvent(), distribution=run_count_distribution
            )
        )
    certified_table_summary = None
    if config.write_table is not None:
        certified_table_summary = _write_table(
            Path(config.write_table), priced_release=priced_release, budget=budget
        )
    quote_extras = pricing.QuoteExtras(
        table=certified_table_summary,
        cheapest=pricing.cheapest_accountant(
            release=priced_release, budget=budget, accountants=accountant_makers
        ),
        suggestion=suggested_sizes,
        at_least=epsilon_lower_bound,
        best_of_runs=epsilon_of_best_run,
    )
    if config.votes is not None:
        quote_extras = _with_votes(
            quote_extras, config=config, priced_release=priced_release, budget=budget
        )
    if config.ledger is not None:
        ledger_accounts = pricing.accounts_left(
            path=config.ledger, release=priced_release, budget=budget
        )
        quote_extras = replace(quote_extras, accounts=ledger_accounts)
    return quote_extras


def _accountant_names(accountants_setting: Any, *, all_names: tuple[str, ...]) -> list[str]:
    """Returns the names of the accountants whose prices are shown side by side.

    Args:
        accountants_setting: the value of `accountants=`: null for none, `all`, a name or a list of names.
        all_names: the names of all accountants; another name is refused.
    """
    if accountants_setting is None:
        return []
    if accountants_setting == "all":
        return list(all_names)
    chosen_names = (
        [accountants_setting] if isinstance(accountants_setting, str) else accountants_setting
    )
    if not isinstance(chosen_names, (list, tuple, ListConfig)):
        rule = f"all, or a list of {', '.join(all_names)}"
        raise InvalidValue("accountants", accountants_setting, rule=rule)
    return [require_choice("accountants", str(name), choices=all_names) for name in chosen_names]


def _accountant(accountant_name: str, *, allowed_targets: list[str]) -> Accountant:
    """Builds the accountant with the given name, as `accountant=NAME` would.

    Args:
        accountant_name: the name of the accountant.
        allowed_targets: the user's own modules whose classes may be loaded.
    """
    shipped_file = CONFIG_FOLDER / "accountant" / f"{accountant_name}.yaml"
    if shipped_file.is_file():
        accountant_config = _read_mapping(shipped_file)
    else:
        # A file of the user may have a defaults list, which Hydra composes.
        accountant_config = compose("account", [f"accountant={accountant_name}"]).accountant
    accountant: Accountant = build(
        accountant_config, slot="accountant", allowed_targets=allowed_targets
    )
    return accountant


def _read_mapping(config_file: Path) -> DictConfig:
    """Reads a YAML file whose content is a mapping of settings; raises `InvalidValue` for other content."""
    file_config = OmegaConf.load(config_file)
    if not isinstance(file_config, DictConfig):
        raise InvalidValue("accountant", config_file, rule="a mapping of settings")
    return file_config


def _write_table(
    table_file: Path, *, priced_release: pricing.PricedRelease, budget: Budget
) -> dict[str, Any]:
    """Writes the table of a release's stability test, its probability of passing at each gap, to a file.

    Returns the file's path and SHA-256, the table's Renyi order, and its cost at this order, by name. Raises
    `InvalidValue` for an aggregator without a stability test.

    Args:
        table_file: the file.
        priced_release: the priced release.
        budget: the budget of the release; with an epsilon, noise is solved for it.
    """
    aggregator = priced_release.aggregator
    if aggregator.stability_test(num_teachers=priced_release.shape.num_teachers) is None:
        rule = f"an aggregator with a stability test, not {type(aggregator).__name__}"
        raise InvalidValue("write_table", str(table_file), rule=rule)
    table = pricing.certify_stability_test(release=priced_release, budget=budget)
    make_folder(table_file.absolute().parent)
    table.save(table_file)
    return {"path": str(table_file), "order": table.order, "rdp": table.rdp, "sha256": table.digest}


def _with_votes(
    quote_extras: pricing.QuoteExtras,
    *,
    config: DictConfig,
    priced_release: pricing.PricedRelease,
    budget: Budget,
) -> pricing.QuoteExtras:
    """Returns the extras of a quote with the parts that depend on the file `votes` of the configuration.

    With `data_dependent` this is the cost of the release on these votes. For a `TargetChargedAggregator` it is also the
    plan of a session, which halts after a fixed number of hits and is charged for them alone.

    Args:
        quote_extras: the parts that do not depend on votes.
        config: the composed configuration.
        priced_release: the priced release.
        budget: the budget of the release; with an epsilon, noise is solved for it.
    """
    from pate.votes.imported import ImportedVotes, read_sets

    aggregator = priced_release.aggregator
    vote_shape = priced_release.shape
    vote_counts = ImportedVotes.read(
        config.votes, num_teachers=vote_shape.num_teachers
    ).counts  # [Q, L]
    num_queries, num_labels = vote_counts.shape
    if vote_shape.num_labels != num_labels:
        rule = f"{num_labels}, as in {config.votes}"
        raise InvalidValue("num_labels", vote_shape.num_labels, rule=rule)
    if config.data_dependent:
        from pate.auditing.aggregator_cost import epsilon_on  # which a price alone does not need

        if vote_shape.num_queries != num_queries:
            rule = f"{num_queries}, as in {config.votes}"
            raise InvalidValue("num_queries", vote_shape.num_queries, rule=rule)
        cost_on_votes = epsilon_on(
            aggregator,
            vote_counts=vote_counts,
            vote_shape=vote_shape,
            target_delta=config.target_delta,
        )
        quote_extras = replace(quote_extras, data_dependent=cost_on_votes)
    if isinstance(aggregator, aggregators.TargetChargedAggregator):
        hit_plan = pricing.plan_hits(
            aggregator,
            votes=vote_counts,
            num_teachers=vote_shape.num_teachers,
            target_delta=budget.delta,
            prior=None if config.prior is None else read_sets(path=config.prior),
            accountant=budget.accountant,
        )
        quote_extras = replace(quote_extras, hits=hit_plan)
    return quote_extras


def _print_ledger(ledger_path: str, *, output_format: str) -> None:
    """Prints the charges in a ledger.

    Args:
        ledger_path: the path of the ledger.
        output_format: text prints tables, json one object, jsonl one object for each charge.
    """
    from pate.pricing.ledger_accounts import account_values, ledgers_in

    ledgers_of_accounts = ledgers_in(ledger_path)
    values_of_accounts = [account_values(ledger) for ledger in ledgers_of_accounts]
    if output_format == "text":
        print_page(
            "cli/ledger.txt",
            accounts=list(zip(ledgers_of_accounts, values_of_accounts, strict=True)),
        )
        return
    if output_format == "json":
        print_json({"accounts": values_of_accounts})
        return
    for account_values_as_json in values_of_accounts:
        for charge in account_values_as_json["charges"]:
            print_json(
                {
                    "data": account_values_as_json["data"],
                    "delta": account_values_as_json["delta"],
                    **charge,
                }
            )


main = command_of(price_or_list_charges, command="account")


if __name__ == "__main__":
    main()
