"""`python -m benchmarks.attacks`: every aggregator attacked in a rehearsal; fails where a price is refuted.

For each: the price, a lower bound by exact laws where there is one, the attack's, and its seconds. A refuted price is
attacked again with fresh coins, as one in twenty honest attacks exceeds the price.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from hydra import compose, initialize_config_dir
from rich.console import Console
from rich.table import Table

from pate.aggregators import Aggregator
from pate.attack import Attack
from pate.config import CONFIG_FOLDER, build_aggregator, register_configs
from pate.config.location import members
from pate.data import WordNet40
from pate.pricing import Budget, ReleaseShape, plan_release
from pate.pricing.lower_bound import lower_bound_of
from pate.validation import InvalidValue

EPSILON, DELTA = 4.0, 1e-6
QUERIES, TEACHERS = 200, 4000
_NOT_ALONE = ("distributed_votes",)  # holders add its noise


def main() -> None:
    """Prints the table; exit code 1 where a price is refuted twice."""
    table = Table(title=f"{QUERIES} queries, {TEACHERS} teachers, WordNet-40: epsilon {EPSILON:g} at delta {DELTA:g}")
    for heading in ("aggregator", "canaries", "price", "by exact laws", "by attack", "seconds"):
        table.add_column(heading, justify="left" if heading == "aggregator" else "right", no_wrap=True)
    console, dataset, refuted = Console(width=120), WordNet40().load(), []
    budget = Budget(target_delta=DELTA, target_epsilon=EPSILON)
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        for name in [each for each in members("aggregator") if each not in _NOT_ALONE]:
            node = compose("account", overrides=[f"aggregator={name}"]).aggregator
            aggregator = build_aggregator(node, adjacency="replace_one", allowed_targets=[])
            attack = Attack(aggregator=aggregator, budget=budget, num_queries=QUERIES, num_teachers=TEACHERS)
            try:
                found = attack.run(dataset)
                if found.refuted:
                    found = replace(attack, num_runs=2 * attack.num_runs).run(dataset)
            except InvalidValue as error:
                table.add_row(name, "-", "-", "-", str(error)[:40], "-")
                continue
            refuted += [name] if found.refuted else []
            table.add_row(
                name,
                f"{found.num_canaries} {found.unit}s",
                f"{found.epsilon:.2f}",
                _exact(aggregator, budget, dataset.num_labels),
                f"{found.lower_bound:.2f}",
                f"{found.seconds:.0f}",
            )
            console.print(f"{name}: {found.lower_bound:.2f} of {found.epsilon:.2f}", style="dim")
    console.print(table)
    if refuted:
        console.print(f"refuted: {', '.join(refuted)}", style="bold red")
    sys.exit(1 if refuted else 0)


def _exact(aggregator: Aggregator, budget: Budget, num_labels: int) -> str:
    shape = ReleaseShape(num_queries=QUERIES, num_labels=num_labels, num_teachers=TEACHERS)
    planned = plan_release(aggregator, shape, budget)
    found = lower_bound_of(planned.aggregator, shape, DELTA)
    return "-" if found is None else f"{found.epsilon:.2f}"


if __name__ == "__main__":
    main()
