"""pate-account: prices and plans a release without any data, and lists the charges of a ledger."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf

from pate import aggregators, pricing
from pate.accounting import Accountant
from pate.cli.app import run_app
from pate.config import build, build_aggregator
from pate.config.location import CONFIG_FOLDER, file_of, members
from pate.files.disk import make_folder
from pate.report.console import PlainConsole, print_found, print_json, print_page
from pate.validation import require, require_choice


def account(config: DictConfig) -> None:
    """Prints the price of the configured release, or the plan that meets a budget."""
    require_choice("format", config.format, ("text", "json", "jsonl"))
    words = HydraConfig.get().overrides.task if HydraConfig.initialized() else ["called"]  # from Python, with settings
    if config.ledger is not None and {word.lstrip("+~").partition("=")[0] for word in words} <= {"ledger", "format"}:
        _print_ledger(config.ledger, config.format)  # nothing else was named, so nothing is priced
        return
    require(config.format != "jsonl", "format", config.format, "text or json; jsonl is for ledger= and nothing else")
    console = PlainConsole(stderr=True)
    with console.status("pricing") if console.is_terminal else nullcontext():
        quote = _quote(config)
    print_found(config.format, quote.to_json(), "cli/account.txt", quote=quote)


def _quote(config: DictConfig) -> pricing.Quote:
    allowed = list(config.allowed_targets)
    aggregator = build_aggregator(config.aggregator, adjacency=config.adjacency, allowed_targets=allowed)
    budget = pricing.Budget(
        target_delta=config.target_delta,
        target_epsilon=config.target_epsilon,
        max_epsilon=config.max_epsilon,
        accountant=partial(build, config.accountant, "accountant", allowed_targets=allowed),
        classes=None if config.budgets is None else pricing.named_budgets(OmegaConf.to_object(config.budgets)),
    )
    shape = pricing.ReleaseShape(
        num_queries=config.num_queries, num_labels=config.num_labels, num_teachers=config.num_teachers
    )
    _require_sensible_files(config, aggregator)
    suggestion = pricing.suggest(aggregator, shape, budget, num_private=config.num_private) if config.suggest else None
    if suggestion is not None:
        shape = replace(shape, num_teachers=suggestion.num_teachers, num_queries=suggestion.num_queries)
    names = pricing.SettingNames()
    release = pricing.plan_release(aggregator, shape, budget, more_queries=True, names=names)
    useless = config.allow_useless
    doubts = pricing.require_useful(
        aggregator, release, budget, names=names, num_groups=config.num_private, allow_useless=useless
    )
    known: dict[str, Callable[[], Accountant]] = {
        name: partial(_accountant, name, allowed) for name in members("accountant")
    }
    others = {name: known[name] for name in _others(config.accountants, tuple(known))}
    at_least = None  # what neighbors show that epsilon is at least
    if config.lower_bound and release.shape.num_queries > 0:
        at_least = pricing.lower_bound_of(release.aggregator, release.shape, budget.target_delta)
    return replace(
        pricing.quote_release(replace(release, doubts=doubts), budget, others=others),
        table=_written_table(config.write_table, release, budget),
        **_on_votes(config, release, budget),
        accounts=() if config.ledger is None else pricing.accounts_left(config.ledger, release, budget),
        cheapest=pricing.cheapest_accountant(release, budget, known),
        suggestion=suggestion,
        at_least=at_least,
    )


def _accountant(name: str, allowed: list[str]) -> Accountant:
    """One of the group, as `accountant=NAME` would make it."""
    ours = file_of("accountant", name, (CONFIG_FOLDER,))  # a file of one's own may need composing
    node = OmegaConf.load(ours) if ours is not None else compose("account", [f"accountant={name}"]).accountant
    made: Accountant = build(node, "accountant", allowed_targets=allowed)  # type: ignore[arg-type]  # a file of ours is a mapping
    return made


def _others(asked: Any, known: tuple[str, ...]) -> Iterable[str]:
    """The accountants to show side by side: all that there are, or those named."""
    if asked is None or asked == "all":
        return () if asked is None else known
    names = [asked] if isinstance(asked, str) else asked
    require(isinstance(names, (list, ListConfig)), "accountants", asked, f"all, or a list of {', '.join(known)}")
    return [require_choice("accountants", str(name), known) for name in names]


def _require_sensible_files(config: DictConfig, aggregator: aggregators.Aggregator) -> None:
    """Refuses what no file can be for, before anything is priced."""
    if config.write_table is not None:
        require(not Path(config.write_table).is_dir(), "write_table", config.write_table, "a file, not a folder")
    require(not config.data_dependent or config.votes is not None, "data_dependent", "true", "votes=FILE beside it")
    if config.votes is not None and not config.data_dependent:
        charged = isinstance(aggregator, aggregators.TargetChargedAggregator)
        rule = f"none for {type(aggregator).__name__}, which pays for every query"
        require(charged, "votes", config.votes, rule)


def _written_table(path: str | None, release: pricing.PricedRelease, budget: pricing.Budget) -> dict[str, Any] | None:
    """Writes the stability test where that is asked for, and says what it costs."""
    if path is None:
        return None
    test = release.aggregator.stability_test(num_teachers=release.shape.num_teachers)
    rule = f"an aggregator with a stability test, not {type(release.aggregator).__name__}"
    require(test is not None, "write_table", path, rule)
    table = pricing.certify_stability_test(release, budget)
    make_folder(Path(path).absolute().parent)
    table.save(path)
    return {"path": path, "order": table.order, "rdp": table.rdp, "sha256": table.digest}


def _on_votes(config: DictConfig, release: pricing.PricedRelease, budget: pricing.Budget) -> dict[str, Any]:
    """What the release would cost on the votes of a file, and what to expect there of a session of charged calls."""
    if config.votes is None:
        return {}
    from pate.pricing.priced_release import epsilon_on  # which a price alone does not need
    from pate.votes.foreign import ImportedVotes, read_sets

    aggregator, shape, found = release.aggregator, release.shape, dict[str, Any]()
    counts = ImportedVotes.read(config.votes, num_teachers=shape.num_teachers).counts  # [Q, L]
    wanted = {"num_labels": (shape.num_labels, counts.shape[1])}
    if config.data_dependent:
        wanted["num_queries"] = shape.num_queries, len(counts)
    for name, (said, there) in wanted.items():
        require(said == there, name, said, f"{there}, as in {config.votes}")
    if config.data_dependent:
        found["data_dependent"] = epsilon_on(aggregator, counts, shape, config.target_delta)
        rule = "gaussian_votes, confident_votes, or gnmax and confident_gnmax with replace_one and one vote of each"
        require(found["data_dependent"] is not None, "data_dependent", "true", f"{rule} teacher")
    if isinstance(aggregator, aggregators.TargetChargedAggregator):
        found["hits"] = pricing.plan_hits(
            aggregator,
            counts,
            num_teachers=shape.num_teachers,
            target_delta=budget.target_delta,
            prior=None if config.prior is None else read_sets(config.prior),
            accountant=budget.accountant,
        )
    return found


def _print_ledger(path: str, form: str) -> None:
    """Who was charged for what and when, and the price: tables, an object on a line, or a line for each charge."""
    from pate.pricing.quote import charges_of, ledgers_in  # which a price alone does not need

    ledgers = ledgers_in(path)
    accounts = [charges_of(ledger) for ledger in ledgers]
    if form == "text":
        print_page("cli/ledger.txt", accounts=list(zip(ledgers, accounts, strict=True)))
        return
    lines = [{"accounts": accounts}]
    if form == "jsonl":
        lines = [{"data": each["data"], "delta": each["delta"], **one} for each in accounts for one in each["charges"]]
    for line in lines:
        print_json(line)


main = partial(run_app, account, "account")

if __name__ == "__main__":
    main()
