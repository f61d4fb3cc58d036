"""Selects the states with most new cases on each of ten days, and up to 1,500 of 15,000 items of which 700 have counts.

The ten days share epsilon; the 15,000 items are synthetic, and so are the days unless --path names a file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace

from rich.console import Console

from pate.validation import require
from reproductions.command import WARNING, describe, folder, followed, parser_of, plan_of, run
from reproductions.contender import Task
from reproductions.counts import CountData, StateCases, sparse_histogram, state_cases_look_alike
from reproductions.picture import recall_picture
from reproductions.price import Target, price_row
from reproductions.recall import Outcome, Plan, outcomes
from reproductions.table import price_table, recall_table, write_csv

SPARSE_KS = (10, 30, 100, 300, 700, 1500)
LEAST_COUNT = 500
COMPARED = ["stable", "stable_loose", "top_stable", "limited_domain", "peeling", "canonical"]


def main(arguments: list[str] | None = None) -> None:
    """Prints the tables and saves exp2_days, exp2_prices and exp2_sparse as CSV, the first and last also drawn."""
    parser = parser_of(str(__doc__), output_dir="outputs/exp2", ks=(15,), epsilons=(0.5, 1.0, 2.0, 4.0))
    parser.set_defaults(mechanisms=COMPARED, repeats=50)
    parser.add_argument("--path", help="us-states.csv in the New York Times' format, plain or .gz; none: a look-alike")
    parser.add_argument("--num-days", type=int, default=10, help="how many days share epsilon")
    parser.add_argument("--first-day", help="the first of them, such as 2020-11-01; none: the last days of the file")
    parser.add_argument("--sparse-k", type=int, nargs="*", default=list(SPARSE_KS), help="for the 15,000 items")
    parser.add_argument("--sparse-epsilon", type=float, default=1.0, help="for the 15,000 items, one release")
    run(lambda: _experiment(parser.parse_args(arguments)))


def _experiment(chosen: argparse.Namespace) -> None:
    plan, days = plan_of(chosen), _days(chosen)
    shapes = (sparse_histogram(), sparse_histogram(least=LEAST_COUNT))
    for k in chosen.sparse_k:
        require(k < len(shapes[0].items), "sparse_k", k, f"below the number of items, {len(shapes[0].items)}")
    sparse_plan = replace(plan, ks=chosen.sparse_k or SPARSE_KS, epsilons=[chosen.sparse_epsilon])
    output, console = folder(chosen.output_dir), Console(width=160)
    describe(console, days)
    rows = list(followed(outcomes(days, plan), total=plan.size))
    title = f"EXP2 on {days.name} ({days.kind}): {len(days.counts)} days share epsilon, delta {plan.delta:g}"
    console.print(recall_table(rows, title))
    write_csv(output / "exp2_days.csv", rows)
    recall_picture(rows, output / "exp2_days.svg", over="epsilon", panels="k")
    prices = [price_row(name, *_priced(days, plan, epsilon)) for epsilon in plan.epsilons for name in plan.names]
    console.print(price_table(prices, f"What one noise costs on {len(days.counts)} days, k {plan.ks[0]}"))
    write_csv(output / "exp2_prices.csv", prices)
    if chosen.sparse_k:
        sparse = _sparse(shapes, sparse_plan, console)
        write_csv(output / "exp2_sparse.csv", sparse)
        recall_picture(sparse, output / "exp2_sparse.svg", over="k", panels="data")
    console.print(WARNING)
    console.print(f"saved in {output}", soft_wrap=True)


def _sparse(shapes: Iterable[CountData], plan: Plan, console: Console) -> list[Outcome]:
    """The second half: one release of many items, most of them without counts, for two shapes of the counts."""
    found = []
    for data in shapes:
        describe(console, data)
        rows = list(followed(outcomes(data, plan), total=plan.size))
        console.print(recall_table(rows, f"EXP2 on the {data.name} ({data.kind}), 700 counts, delta {plan.delta:g}"))
        found += rows
    return found


def _days(chosen: argparse.Namespace) -> CountData:
    """The user's file, or a look-alike."""
    if chosen.path is not None:
        return StateCases(chosen.path, num_days=chosen.num_days, first_day=chosen.first_day).load()
    require(chosen.first_day is None, "first_day", chosen.first_day, "a file, --path, whose days it chooses from")
    return state_cases_look_alike(chosen.num_days)


def _priced(days: CountData, plan: Plan, epsilon: float) -> tuple[Task, Target]:
    """One price for all days."""
    target = Target(epsilon=epsilon, delta=plan.delta, releases=len(days.counts))
    task = Task(k=plan.ks[0], num_items=len(days.items), most=days.most, failure_prob=target.failure_prob)
    return task, target


if __name__ == "__main__":
    main()
