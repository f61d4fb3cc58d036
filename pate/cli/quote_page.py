"""A quote on the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pate.report.console import PlainConsole
from pate.report.report import PAPER_LABEL
from pate.report.tables import format_claim, format_delta, round_up

if TYPE_CHECKING:
    from pate.aggregators import ExpectedRelease
    from pate.pricing.account_left import AccountLeft
    from pate.pricing.quote import AccountantPrice, Quote
    from pate.pricing.remedies import Suggestion

_UNITS = {
    "replace_one": "one private record changes",
    "add_remove": "one teacher is added or removed; says nothing of single records",
}
_DIGITS = 4
_LONGEST = 16


def print_quote(quote: Quote, console: Console | None = None) -> None:
    """Prints the price, how it comes about, and what passes; epsilons are rounded up."""
    console = console or PlainConsole(emoji=False)
    console.print(_headline(quote), soft_wrap=True)
    sections = {"release": _release_rows(quote), "price": _price_rows(quote), "mechanism": _parameter_rows(quote)}
    sections |= {"what passes": _gap_rows(quote), "what to expect": _expected_rows(quote)}
    for title, rows in sections.items():
        if rows:
            console.print(Text(f"\n{title}", style="bold"))
            console.print(_grid(rows))
    for line in quote.doubts:
        console.print(Text(f"\n{line}", style="yellow"), soft_wrap=True)
    if quote.suggestion is not None:
        console.print(Text("\nsuggested", style="bold"))
        console.print(_grid(_suggested_rows(quote.suggestion)))
    if quote.plain_epsilon is not None:
        console.print(Text("\nsession of charged calls", style="bold"))
        console.print(_grid(_session_rows(quote, quote.plain_epsilon)))
    if quote.accountants:
        less = f" less {_small(quote.failure_prob)} for failures" if quote.failure_prob > 0 else ""
        title = f"\nside by side, at delta = {format_delta(quote.delta)}{less}: each is a bound"
        console.print(Text(title, style="bold"))
        console.print(_side_by_side(quote.accountants))
    if quote.accounts:
        console.print(Text("\nledger", style="bold"))
        console.print(_account_table(quote.accounts))
    if quote.table is not None:
        console.print(_table_line(quote.table), soft_wrap=True)


def _headline(quote: Quote) -> Text:
    bound = "no guarantee: epsilon is infinite"
    if math.isfinite(quote.epsilon):
        bound = f"epsilon <= {_epsilon(quote.epsilon)}"
        if quote.at_least is not None:
            bound += f", at least {math.floor(1000 * quote.at_least.epsilon) / 1000:g}"
    return Text.assemble((bound, "bold green"), f" at delta = {format_delta(quote.delta)}, {quote.adjacency}")


def _release_rows(quote: Quote) -> list[tuple[str, Text]]:
    solved = "num_queries" in quote.solved_for
    queries = _solved(Text(str(quote.num_queries)), solved).append(
        ", the most that max_epsilon pays for" if solved else ""
    )
    return [
        ("queries", queries),
        ("labels", Text(str(quote.num_labels))),
        ("teachers", Text(str(quote.num_teachers))),
        ("one change", Text(_UNITS[quote.adjacency])),
    ]


def _price_rows(quote: Quote) -> list[tuple[str, Text]]:
    orders = "" if quote.num_orders is None else f", the best of {quote.num_orders} orders is {quote.best_order:.3f}"
    whose = "" if quote.won_by is None else f", here that of {quote.won_by}"
    rows = [("accountant", Text(f"{quote.accountant}{orders}{whose}"))]
    if (best := quote.cheapest) is not None and best.epsilon is not None:
        better = best.accountant != quote.accountant and best.epsilon < quote.epsilon
        take = f"accountant={best.accountant}, by which it costs {_epsilon(best.epsilon)}" if better else "this one"
        rows.append(("accountant to take", Text(f"{take}: the cheapest of those that are quick here")))
    if quote.failure_prob > 0:
        each = quote.aggregator.get("failure_prob", 0.0)
        by_query = math.isclose(quote.num_queries * each, quote.failure_prob)
        total = f"{quote.num_queries} x {_small(each)} = " if by_query else ""
        left = f"{_small(quote.delta - quote.failure_prob)} of delta is left"
        rows.append(("failure probability", Text(f"{total}{_small(quote.failure_prob)}; {left}")))
    if quote.paper_epsilon is not None:
        rows.append(("the paper's epsilon", Text(f"{format_claim(quote.paper_epsilon)} {PAPER_LABEL}", style="yellow")))
    return rows


def _parameter_rows(quote: Quote) -> list[tuple[str, Text]]:
    parameters = dict(quote.aggregator)
    rows = [("name", Text(parameters.pop("name")))]
    for name, value in parameters.items():
        text = Text(f"{value:.6g}" if isinstance(value, float) else str(value)[:_LONGEST])
        rows.append((name, _solved(text, name in quote.solved_for)))
    return rows


def _gap_rows(quote: Quote) -> list[tuple[str, Text]]:
    """What a gap must be; nothing for aggregators without a test."""
    if not {"test", "test_std", "table_order"} & quote.aggregator.keys():
        return []
    if quote.gap_at_50 is None:
        hint = f"no gap of {quote.num_teachers} votes passes with probability 1/2: nearly every query is refused"
        return [("gap that passes", Text(hint, style="yellow"))]
    often = "no gap" if quote.gap_at_95 is None else f"{quote.gap_at_95} votes"
    rows = [("gap that passes", Text(f"{quote.gap_at_50} votes with probability 1/2, {often} with 0.95"))]
    if quote.aggregator["name"] == "StableTopK":
        lone = "no gap" if quote.lone_gap_at_50 is None else f"{quote.lone_gap_at_50} votes"
        rows.append(
            ("lone gap that is chosen and passes", Text(f"{lone} with probability 1/2, all other gaps being 0"))
        )
    return rows


def _expected_rows(quote: Quote) -> list[tuple[str, Text]]:
    """What three kinds of queries give; nothing for an aggregator that does not say."""
    if (expected := quote.expected) is None:
        return []
    kinds = {"all agree": expected.unanimous, "90% agree": expected.clear, "70% agree": expected.typical}
    return [
        (f"queries on which {name}", Text(f"{_share(each.answered)} answered; right bits {_bits(each)}"))
        for name, each in kinds.items()
    ]


def _bits(expected: ExpectedRelease) -> str:
    if not expected.answered:
        return "none"
    return f"{_share(expected.present)} of labels that are present, {_share(expected.absent)} of absent ones"


def _suggested_rows(found: Suggestion) -> list[tuple[str, Text]]:
    each = "" if found.records_per_teacher is None else f", {found.records_per_teacher:.0f} private groups each"
    told = f"as much as {found.clear_queries:.0f} clear queries would, if {found.agreement:.0%} of teachers agree"
    rows = [
        ("settings", Text(f"num_teachers={found.num_teachers} num_queries={found.num_queries}", style="bold")),
        ("teachers", Text(f"{found.num_teachers}{each}")),
        ("tells", Text(told)),
    ]
    if found.records_per_teacher is None:
        rows.append(("not known", Text("how many records a teacher has; num_private=… says it", style="yellow")))
    return rows


def _share(share: float) -> str:
    return f"{share:.0%}"


def _session_rows(quote: Quote, plain_epsilon: float) -> list[tuple[str, Text]]:
    """What the same queries cost without charging by hits, and what to expect on votes that were looked at."""
    pays = "the session costs less" if quote.epsilon < plain_epsilon else "plain composition costs less"
    verdict = f"epsilon <= {_epsilon(plain_epsilon)} for the same queries and noise: {pays}"
    rows = [("plain composition", Text(verdict, style="" if quote.epsilon < plain_epsilon else "yellow"))]
    if quote.hits is None:
        return [*rows, ("hits", Text("votes=FILE, public or synthetic, says how many to expect", style="dim"))]
    plan, target = quote.hits, quote.aggregator["target_hits"]
    from_when = f"from {plan.break_even_queries} queries on" if plan.break_even_queries else "for no number of queries"
    return [
        *rows,
        ("hits in these votes", Text(f"{plan.expected_hits:.1f} expected, {plan.hit_rate:.2%} of the queries")),
        ("asked", Text(f"{plan.expected_asked} queries until {target} hits, or all")),
        ("cheaper than plain", Text(f"{from_when} with as many hits as they have and the same noise")),
    ]


def _grid(rows: list[tuple[str, Text]]) -> Table:
    grid = Table.grid(padding=(0, 0, 0, 2), pad_edge=True)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, value in rows:
        grid.add_row(name, value)
    return grid


def _side_by_side(prices: tuple[AccountantPrice, ...]) -> Table:
    """One row an accountant, the smallest epsilon in bold."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("accountant", no_wrap=True)
    for name in ("epsilon", "orders", "best order"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    best = min((price.epsilon for price in prices if price.epsilon is not None), default=None)
    for price in prices:
        table.add_row(*_cells(price, best))
    return table


def _cells(price: AccountantPrice, best: float | None) -> list[Text]:
    epsilon = "-" if price.epsilon is None else _epsilon(price.epsilon)
    orders = "-" if price.num_orders is None else str(price.num_orders)
    order = "-" if price.best_order is None else f"{price.best_order:.3f}"
    note = Text(price.reason or ("" if price.won_by is None else f"that of {price.won_by}"), style="dim")
    style = "bold" if price.epsilon is not None and price.epsilon == best else ""
    return [Text(price.accountant), Text(epsilon, style=style), Text(orders), Text(order), note]


def _account_table(accounts: tuple[AccountLeft, ...]) -> Table:
    """One row a data set: what it has cost, and what is left."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for name in ("records", "releases", "epsilon", "cap", "more of this release", "or one with target_epsilon"):
        table.add_column(name, justify="left" if name == "records" else "right")
    for account in accounts:
        table.add_row(*_account_cells(account))
    return table


def _account_cells(account: AccountLeft) -> list[str]:
    more, target = account.more_releases, account.target_epsilon
    return [
        account.data[:12] or "all",
        str(account.num_releases),
        _epsilon(account.epsilon),
        "none" if account.max_epsilon is None else f"{account.max_epsilon:g}",
        "-" if more is None else "any number" if math.isinf(more) else f"{more:.0f}",
        "-" if target is None else "none" if target == 0 else f"{math.floor(target * 100) / 100:.2f}",
    ]


def _table_line(table: dict[str, Any]) -> Text:
    cost = f"certified to cost at most {table['rdp']} a test at order {table['order']}"
    return Text.assemble("table: ", (str(table["path"]), "bold"), f", {cost}")


def _epsilon(epsilon: float) -> str:
    return "0" if epsilon == 0 else round_up(epsilon, _DIGITS)


def _small(probability: float) -> str:
    """Three digits, without the zero in front of the exponent."""
    return f"{probability:.3g}".replace("e-0", "e-")


def _solved(text: Text, solved: bool) -> Text:
    return Text.assemble(text, ("  <- solved for", "cyan")) if solved else text
