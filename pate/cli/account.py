"""pate-account: prices and plans a release without any data, and lists the charges of a ledger."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf
from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from pate import aggregators, pricing
from pate.accounting import Accountant
from pate.cli.app import run_app
from pate.config import build, build_aggregator
from pate.config.location import CONFIG_FOLDER, file_of, members
from pate.files.disk import make_folder
from pate.files.values import plain, to_json_line
from pate.report.console import PlainConsole
from pate.report.report import PAPER_LABEL
from pate.report.tables import format_claim, format_delta, format_epsilon, round_up
from pate.validation import InvalidValue, require, require_choice

if TYPE_CHECKING:
    from pate.pricing.account_left import AccountLeft
    from pate.pricing.quote import AccountantPrice, Quote
    from pate.pricing.remedies import Suggestion

_UNITS = {
    "replace_one": "one private record changes",
    "add_remove": "one teacher is added or removed; says nothing of single records",
}
_DIGITS = 4
_LONGEST = 16
_SHOWN = 12  # digits of an account's digest

Rows = list[tuple[str, str | Text]]


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
    if config.format == "json":
        print(to_json_line(quote.to_json()))  # noqa: T201 - the command's product
    else:
        print_quote(quote)


def _quote(config: DictConfig) -> Quote:
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
    if not isinstance(asked, (str, ListConfig)):
        raise InvalidValue(f"accountants={asked}: expected all, or a list of {', '.join(known)}")
    names = [asked] if isinstance(asked, str) else asked
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
    from pate.pricing.account_left import charges_of, ledgers_in  # which a price alone does not need

    ledgers = ledgers_in(path)
    accounts = [charges_of(ledger) for ledger in ledgers]
    if form == "json":
        print(to_json_line(plain({"accounts": accounts})))  # noqa: T201 - the command's product
    elif form == "jsonl":
        for each in accounts:
            for charge in each["charges"]:
                line = to_json_line(plain({"data": each["data"], "delta": each["delta"], **charge}))
                print(line)  # noqa: T201 - the command's product
    else:
        console = PlainConsole()
        for ledger, each in zip(ledgers, accounts, strict=True):
            count, cap = len(each["charges"]), each["cap"]
            whose = f"records {each['data'][:_SHOWN]}" if each["data"] else "all records"
            spent = f"epsilon {format_epsilon(each['spent_epsilon'])} at delta {format_delta(each['delta'])}"
            limit = f"{ledger.adjacency}; {'no cap' if cap is None else f'cap {cap:g}'}"
            told = f": {count} charge{'' if count == 1 else 's'}, {spent}, {limit}"
            console.print(Text.assemble((whose, "bold"), told), soft_wrap=True)
            for charge in each["charges"]:  # two lines, the second with the command that made it
                made = f"{charge['time'][:19].replace('T', ' ')} UTC, {charge['user']}"
                draw = f", draw {charge['draw']}" if charge["draw"] > 1 else ""
                price = f"epsilon {format_epsilon(charge['epsilon'])}{draw}, {charge['mechanism']}"
                console.print(Text(f"  {made}: {price}\n      {charge['command']}"), soft_wrap=True)


def print_quote(quote: Quote, console: Console | None = None) -> None:
    """Prints the price, how it comes about, and what passes; epsilons are rounded up."""
    console = console or PlainConsole(emoji=False)

    def section(title: str, content: Rows | Table) -> None:
        if content:
            console.print(Text(f"\n{title}", style="bold"))
            console.print(_grid(content) if isinstance(content, list) else content)

    bound = "no guarantee: epsilon is infinite"
    if math.isfinite(quote.epsilon):
        least = "" if quote.at_least is None else f", at least {math.floor(1000 * quote.at_least.epsilon) / 1000:g}"
        bound = f"epsilon <= {_epsilon(quote.epsilon)}{least}"
    terms = f" at delta = {format_delta(quote.delta)}, {quote.adjacency}"
    console.print(Text.assemble((bound, "bold green"), terms), soft_wrap=True)
    section("release", _release_rows(quote))
    section("price", _price_rows(quote))
    classes = {name: f"epsilon <= {_epsilon(epsilon)}" for name, epsilon in quote.classes.items()}
    section("budget classes", [(n, f"{each}, each group counts {quote.weights[n]:.3g}") for n, each in classes.items()])
    section("mechanism", _parameter_rows(quote))
    section("what passes", _gap_rows(quote))
    section("what to expect", _expected_rows(quote))
    for line in quote.doubts:
        console.print(Text(f"\n{line}", style="yellow"), soft_wrap=True)
    section("suggested", _suggested_rows(quote.suggestion))
    section("session of charged calls", _session_rows(quote))
    if quote.accountants:
        less = f" less {_small(quote.failure_prob)} for failures" if quote.failure_prob > 0 else ""
        title = f"side by side, at delta = {format_delta(quote.delta)}{less}: each is a bound"
        section(title, _side_by_side(quote.accountants))
    if quote.accounts:
        section("ledger", _account_table(quote.accounts))
    if (table := quote.table) is not None:
        cost = f"certified to cost at most {table['rdp']} a test at order {table['order']}"
        console.print(Text.assemble("table: ", (str(table["path"]), "bold"), f", {cost}"), soft_wrap=True)


def _grid(rows: Rows) -> Table:
    grid = Table.grid(padding=(0, 0, 0, 2), pad_edge=True)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, value in rows:
        grid.add_row(name, Text(value) if isinstance(value, str) else value)
    return grid


def _release_rows(quote: Quote) -> Rows:
    queries = Text(str(quote.num_queries))
    if "num_queries" in quote.solved_for:
        queries = _solved(queries).append(", the most that max_epsilon pays for")
    return [
        ("queries", queries),
        ("labels", str(quote.num_labels)),
        ("teachers", str(quote.num_teachers)),
        ("one change", _UNITS[quote.adjacency]),
    ]


def _price_rows(quote: Quote) -> Rows:
    orders = "" if quote.num_orders is None else f", the best of {quote.num_orders} orders is {quote.best_order:.3f}"
    whose = "" if quote.won_by is None else f", here that of {quote.won_by}"
    rows: Rows = [("accountant", f"{quote.accountant}{orders}{whose}")]
    if (best := quote.cheapest) is not None and best.epsilon is not None:
        better = best.accountant != quote.accountant and best.epsilon < quote.epsilon
        take = f"accountant={best.accountant}, by which it costs {_epsilon(best.epsilon)}" if better else "this one"
        rows.append(("accountant to take", f"{take}: the cheapest of those that are quick here"))
    if quote.failure_prob > 0:
        each = quote.aggregator.get("failure_prob", 0.0)
        by_query = math.isclose(quote.num_queries * each, quote.failure_prob)
        total = f"{quote.num_queries} x {_small(each)} = " if by_query else ""
        left = f"{_small(quote.delta - quote.failure_prob)} of delta is left"
        rows.append(("failure probability", f"{total}{_small(quote.failure_prob)}; {left}"))
    if quote.data_dependent is not None:
        rows.append(("data dependent", Text(str(quote.data_dependent), style="yellow")))
    if quote.paper_epsilon is not None:
        rows.append(("the paper's epsilon", Text(f"{format_claim(quote.paper_epsilon)} {PAPER_LABEL}", style="yellow")))
    return rows


def _parameter_rows(quote: Quote) -> Rows:
    rows: Rows = []
    for name, value in quote.aggregator.items():
        longest = None if name == "name" else _LONGEST
        text = Text(f"{value:.6g}" if isinstance(value, float) else str(value)[:longest])
        rows.append((name, _solved(text) if name in quote.solved_for else text))
    return rows


def _gap_rows(quote: Quote) -> Rows:
    """What a gap must be; nothing for aggregators without a test."""
    if not {"test", "test_std", "table_order"} & quote.aggregator.keys():
        return []
    if quote.gap_at_50 is None:
        hint = f"no gap of {quote.num_teachers} votes passes with probability 1/2: nearly every query is refused"
        return [("gap that passes", Text(hint, style="yellow"))]
    often = "no gap" if quote.gap_at_95 is None else f"{quote.gap_at_95} votes"
    rows: Rows = [("gap that passes", f"{quote.gap_at_50} votes with probability 1/2, {often} with 0.95")]
    if quote.aggregator["name"] == "StableTopK":
        lone = "no gap" if quote.lone_gap_at_50 is None else f"{quote.lone_gap_at_50} votes"
        rows.append(("lone gap that is chosen and passes", f"{lone} with probability 1/2, all other gaps being 0"))
    return rows


def _expected_rows(quote: Quote) -> Rows:
    """What three kinds of queries give; nothing for an aggregator that does not say."""
    if (expected := quote.expected) is None:
        return []
    rows: Rows = []
    kinds = {"all agree": expected.unanimous, "90% agree": expected.clear, "70% agree": expected.typical}
    for name, each in kinds.items():
        bits = "none"
        if each.answered:
            bits = f"{each.present:.0%} of labels that are present, {each.absent:.0%} of absent ones"
        rows.append((f"queries on which {name}", f"{each.answered:.0%} answered; right bits {bits}"))
    return rows


def _suggested_rows(found: Suggestion | None) -> Rows:
    if found is None:
        return []
    each = "" if found.records_per_teacher is None else f", {found.records_per_teacher:.0f} private groups each"
    told = f"as much as {found.clear_queries:.0f} clear queries would, if {found.agreement:.0%} of teachers agree"
    rows: Rows = [
        ("settings", Text(f"num_teachers={found.num_teachers} num_queries={found.num_queries}", style="bold")),
        ("teachers", f"{found.num_teachers}{each}"),
        ("tells", told),
    ]
    if found.records_per_teacher is None:
        rows.append(("not known", Text("how many records a teacher has; num_private=… says it", style="yellow")))
    return rows


def _session_rows(quote: Quote) -> Rows:
    """What the same queries cost without charging by hits, and what to expect on votes that were looked at."""
    if quote.plain_epsilon is None:
        return []
    pays = quote.epsilon < quote.plain_epsilon
    verdict = "the session costs less" if pays else "plain composition costs less"
    verdict = f"epsilon <= {_epsilon(quote.plain_epsilon)} for the same queries and noise: {verdict}"
    rows: Rows = [("plain composition", Text(verdict, style="" if pays else "yellow"))]
    if quote.hits is None:
        return [*rows, ("hits", Text("votes=FILE, public or synthetic, says how many to expect", style="dim"))]
    plan, target = quote.hits, quote.aggregator["target_hits"]
    from_when = f"from {plan.break_even_queries} queries on" if plan.break_even_queries else "for no number of queries"
    return [
        *rows,
        ("hits in these votes", f"{plan.expected_hits:.1f} expected, {plan.hit_rate:.2%} of the queries"),
        ("asked", f"{plan.expected_asked} queries until {target} hits, or all"),
        ("cheaper than plain", f"{from_when} with as many hits as they have and the same noise"),
    ]


def _side_by_side(prices: tuple[AccountantPrice, ...]) -> Table:
    """One row an accountant, the smallest epsilon in bold."""
    numbers = (Column(name, justify="right", no_wrap=True) for name in ("epsilon", "orders", "best order"))
    table = Table(Column("accountant", no_wrap=True), *numbers, "", box=box.SIMPLE_HEAD, show_edge=False)
    best = min((price.epsilon for price in prices if price.epsilon is not None), default=None)
    for price in prices:
        epsilon = "-" if price.epsilon is None else _epsilon(price.epsilon)
        table.add_row(
            Text(price.accountant),
            Text(epsilon, style="bold" if price.epsilon is not None and price.epsilon == best else ""),
            "-" if price.num_orders is None else str(price.num_orders),
            "-" if price.best_order is None else f"{price.best_order:.3f}",
            Text(price.reason or ("" if price.won_by is None else f"that of {price.won_by}"), style="dim"),
        )
    return table


def _account_table(accounts: tuple[AccountLeft, ...]) -> Table:
    """One row a data set: what it has cost, and what is left."""
    headings = ("releases", "epsilon", "cap", "more of this release", "or one with target_epsilon")
    numbers = (Column(name, justify="right") for name in headings)
    table = Table("records", *numbers, box=box.SIMPLE_HEAD, show_edge=False)
    for each in accounts:
        more, target = each.more_releases, each.target_epsilon
        table.add_row(
            each.data[:_SHOWN] or "all",
            str(each.num_releases),
            _epsilon(each.epsilon),
            "none" if each.max_epsilon is None else f"{each.max_epsilon:g}",
            "-" if more is None else "any number" if math.isinf(more) else f"{more:.0f}",
            "-" if target is None else "none" if target == 0 else f"{math.floor(target * 100) / 100:.2f}",
        )
    return table


def _epsilon(epsilon: float) -> str:
    return "0" if epsilon == 0 else round_up(epsilon, _DIGITS)


def _small(probability: float) -> str:
    """Three digits, without the zero in front of the exponent."""
    return f"{probability:.3g}".replace("e-0", "e-")


def _solved(text: Text) -> Text:
    return Text.assemble(text, ("  <- solved for", "cyan"))


main = partial(run_app, account, "account")

if __name__ == "__main__":
    main()
