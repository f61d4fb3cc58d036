"""Program `python -m benchmarks.attacks`, which attacks aggregators in a rehearsal and fails on a refuted price.

For every aggregator but `distributed_votes`: the price, a lower bound by exact laws where there is one, the attack's,
and its seconds; on WordNet-40, and once on a table. Up to one in twenty honest attacks exceeds the price: a refuted one
is attacked again.

`--keep FILE` goes on with what a file holds. `--record` writes docs/results.json and the page's picture;
`scripts/draw_tables.py` then writes the page's table.

`--honest 200` makes that many small attacks on honest releases, and fails where more of them exceed the price than
chance allows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hydra import compose, initialize_config_dir
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table as TextTable
from scipy.stats import binom
from sklearn.datasets import load_digits

from pate.accounting import Budget, ExactAccountant
from pate.aggregators import Aggregator, BoundaryMax, CenteredVotes, GaussianVotes
from pate.auditing.attack import Attack
from pate.auditing.lower_bound import lower_bound_of
from pate.config import CONFIG_FOLDER, build_aggregator, register_configs
from pate.config.schema import names_in_config_group
from pate.data import Dataset, Split, Table, WordNet40
from pate.pricing import plan_release
from pate.validation import InvalidValue
from pate.votes import VoteShape

EPSILON = 4.0
DELTA = 1e-6
QUERIES = 200
TEACHERS = 4000
TABLE = "centered_votes, a table"
DOCS = Path(__file__).parents[1] / "docs"
_NOT_ALONE = ("distributed_votes",)  # holders add its noise
_COLUMNS = ("aggregator", "coins", "price", "by exact laws", "by attack", "seconds")
_ALLOWED = 0.99  # quantile of how many honest attacks exceed their price


def main() -> None:
    """Prints the table, or how many honest attacks exceeded their price; exit code 1 if any price is refuted.

    Honest attacks refute a price if too many of them exceed it.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attacks", description=main.__doc__)
    parser.add_argument(
        "--keep", type=Path, help="a file of attacks that were made: they are not made again"
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="write the table's figures and the picture of the page",
    )
    parser.add_argument(
        "--honest", type=int, metavar="N", help="so many small attacks on honest releases instead"
    )
    chosen = parser.parse_args()
    console = Console(width=120)
    earlier = KeptResults(chosen.keep)
    sys.exit(
        attack_honest_releases(chosen.honest, kept=earlier, console=console)
        if chosen.honest
        else table(earlier, console, record=chosen.record)
    )


class KeptResults:
    """Results of earlier attacks by name, as lines of JSON in a file where there is a path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = (
            path.read_text(encoding="utf-8").splitlines()
            if path is not None and path.exists()
            else []
        )
        self._results: dict[str, dict[str, Any]] = {
            key: value for line in lines for key, value in json.loads(line).items()
        }

    def once(self, name: str, find: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Returns the result of `find`, which is called for the first request of a name that the file lacks."""
        if name not in self._results:
            self._results[name] = find()
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({name: self._results[name]}) + "\n")
        return self._results[name]


def table(kept: KeptResults, console: Console, *, record: bool) -> int:
    """Attacks aggregators on WordNet-40, and `CenteredVotes` on a table as well; returns the exit code."""
    dataset = WordNet40().load()
    results = dict[str, dict[str, Any]]()
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        for name in [
            member for member in names_in_config_group("aggregator") if member not in _NOT_ALONE
        ]:
            node = compose("account", overrides=[f"aggregator={name}"]).aggregator
            aggregator = build_aggregator(node, adjacency="replace_one", allowed_targets=[])
            results[name] = kept.once(
                name, find=lambda attacked=aggregator: attack_release(attacked, dataset)
            )
            console.print(f"{name}: {results[name]}", style="dim")
    centered = CenteredVotes(noise_multiplier=5.0)
    results[TABLE] = kept.once(
        TABLE, find=lambda: attack_release(centered, dataset=read_digits_table(), num_canaries=500)
    )
    rows = [cells(name, result) for name, result in results.items()]
    printed = TextTable(
        title=f"{QUERIES} queries, {TEACHERS} teachers, WordNet-40: epsilon {EPSILON:g} at delta {DELTA:g}"
    )
    for heading in _COLUMNS:
        printed.add_column(
            heading, justify="left" if heading == _COLUMNS[0] else "right", no_wrap=True
        )
    for row in rows:
        printed.add_row(*row)
    console.print(printed)
    if record:
        write_results(results, rows)
    refuted = [name for name, result in results.items() if result.get("refuted")]
    if refuted:
        console.print(f"refuted: {', '.join(refuted)}", style="bold red")
    return 1 if refuted else 0


def attack_release(
    aggregator: Aggregator, dataset: Dataset, *, num_canaries: int | None = None
) -> dict[str, Any]:
    """Returns the result of an attack; if it refutes the price, that of a second attack with twice as many runs."""
    budget = Budget(delta=DELTA, epsilon=EPSILON)
    attack = Attack(
        aggregator=aggregator,
        budget=budget,
        num_queries=QUERIES,
        num_teachers=TEACHERS,
        num_canaries=num_canaries,
    )
    try:
        result = attack.run(dataset)
        if result.refuted:
            result = replace(attack, num_runs=2 * attack.num_runs).run(dataset)
    except InvalidValue as error:
        return {"error": str(error)}
    shape = VoteShape(num_queries=QUERIES, num_labels=dataset.num_labels, num_teachers=TEACHERS)
    exact = lower_bound_of(
        plan_release(aggregator, shape, budget).aggregator, shape, target_delta=DELTA
    )
    return result.to_json() | {"exact": None if exact is None else exact.epsilon}


def cells(name: str, result: dict[str, Any]) -> list[str]:
    """Returns the table's row of an aggregator."""
    if "error" in result:
        return [name, "", "", "", result["error"][:40], ""]
    label = f"`{name}`" if name != TABLE else "`centered_votes`, a table"
    bounds = result["exact"], result["lower_bound"]
    shown_bounds = ["-" if bound is None else f"{max(bound - 0.005, 0):.2f}" for bound in bounds]
    price = f"{result['epsilon'] + 0.004:.2f}"
    coins = f"{result['num_canaries']:,} {result['unit']}s"
    return [label, coins, price, *shown_bounds, f"{result['seconds']:.0f}"]


def write_results(results: dict[str, dict[str, Any]], rows: list[list[str]]) -> None:
    """Writes the figures from which the page's table is made, and draws the page's picture."""
    path = DOCS / "results.json"
    sets = json.loads(path.read_text(encoding="utf-8"))
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True
    )
    conditions = (
        f"WordNet-40, {QUERIES} queries, {TEACHERS:,} teachers, "
        f"epsilon {EPSILON:g}, delta {DELTA:g}, replace-one"
    )
    sets["attack"] = {
        "about": conditions,
        "command": "make attack",
        "commit": commit.stdout.strip(),
        "columns": list(_COLUMNS),
        "rows": rows,
    }
    path.write_text(in_lines(sets), encoding="utf-8")
    draw(DOCS / "images" / "attack.svg", results)


def in_lines(figure_sets: dict[str, dict[str, Any]]) -> str:
    """Returns JSON with a line for each row."""
    texts = []
    for name, figures in figure_sets.items():
        values = {key: json.dumps(value, ensure_ascii=False) for key, value in figures.items()}
        rows = (json.dumps(row, ensure_ascii=False) for row in figures["rows"])
        values["rows"] = "[\n      " + ",\n      ".join(rows) + "\n    ]"
        inner = ",\n".join(f'    "{key}": {value}' for key, value in values.items())
        texts.append(f'  "{name}": {{\n{inner}\n  }}')
    return "{\n" + ",\n".join(texts) + "\n}\n"


def draw(output: Path, results: dict[str, dict[str, Any]]) -> None:
    """Draws a row per aggregator with its bounds by exact laws and by the attack, and one line for the price of all."""
    priced_release = {name: result for name, result in results.items() if "error" not in result}
    order = sorted(priced_release, key=lambda name: priced_release[name]["lower_bound"])
    figure = Figure(figsize=(4.8, 0.26 * len(order) + 0.9), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    places = range(len(order))
    axes.hlines(
        places,
        0,
        [priced_release[name]["lower_bound"] for name in order],
        color="#b8c4c9",
        linewidth=1,
    )
    axes.plot(
        [priced_release[name]["lower_bound"] for name in order],
        places,
        "o",
        color="#0072B2",
        label="by attack",
    )
    exact = [
        (priced_release[name]["exact"], place)
        for place, name in enumerate(order)
        if priced_release[name]["exact"] is not None
    ]
    axes.plot(*zip(*exact, strict=True), "|", color="#b84a00", markersize=9, label="by exact laws")
    axes.axvline(EPSILON, color="#4d5a61", linewidth=1, label="the price")
    axes.set(xlim=(0, 1.08 * EPSILON), yticks=places, yticklabels=order, xlabel="epsilon, at least")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", bbox_to_anchor=(0.91, 0), frameon=False, fontsize=9)
    axes.tick_params(axis="y", labelsize=9)
    FigureCanvasSVG(figure).print_svg(output, metadata={"Date": None})


def read_digits_table() -> Dataset:
    """Returns scikit-learn's digits, read as a table of CSV files with a column for each pixel and each digit."""
    digits = load_digits()
    names = [
        *(f"pixel{number}" for number in range(64)),
        *(f"digit{number}" for number in range(10)),
    ]
    rows = np.column_stack([digits.data, digits.target[:, None] == np.arange(10)]).astype(int)
    ends = {"private": (0, 1300), "public": (1300, 1600), "test": (1600, None)}
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        for split, (first, last) in ends.items():
            files[split] = Path(folder) / f"{split}.csv"
            np.savetxt(
                files[split],
                rows[first:last],
                fmt="%d",
                delimiter=",",
                header=",".join(names),
                comments="",
            )
        return Table(**{name: str(path) for name, path in files.items()}, labels=names[64:]).load()


def attack_honest_releases(count: int, kept: KeptResults, console: Console) -> int:
    """Attacks releases whose noise and price are right; fails where too many attacks exceed the price."""
    dataset = draw_dataset()
    beyond = {"lower_bound": 0, "lower_bound_any": 0}
    kinds = {
        "centered": CenteredVotes(noise_multiplier=1.0),
        "gaussian": GaussianVotes(noise_std=50.0),
        "session": BoundaryMax(selection_scale=20.0),
    }
    started = time.process_time()
    for number in track(range(count), "attacking honest releases", console=console):
        name = [*kinds][number % len(kinds)]
        result = kept.once(
            f"honest {number}",
            find=lambda name=name, number=number: run_small_attack(
                kinds[name], dataset, seed=number
            ),
        )
        for bound in beyond:
            beyond[bound] += result[bound] > result["epsilon"]
    allowed = int(binom.ppf(_ALLOWED, count, 0.05))
    console.print(
        f"{count} attacks at 95%: {beyond['lower_bound']} exceed the price, {beyond['lower_bound_any']} by any"
    )
    console.print(
        f"mechanism; chance allows {allowed}; {time.process_time() - started:.0f} s of a processor"
    )
    return 1 if max(beyond.values()) > allowed else 0


def run_small_attack(aggregator: Aggregator, dataset: Dataset, seed: int) -> dict[str, Any]:
    """Runs one whole attack with few queries, canaries and runs."""
    budget = Budget(delta=DELTA, epsilon=EPSILON, accountant=ExactAccountant)
    return (
        Attack(
            aggregator=aggregator,
            budget=budget,
            seed=seed,
            num_queries=100,
            num_teachers=1000,
            num_canaries=125,
            num_runs=2,
        )
        .run(dataset)
        .to_json()
    )


def draw_dataset() -> Dataset:
    """Returns a thousand private records of normal features, with labels that say which of ten features exceed 1.5."""
    rng = np.random.default_rng(0)
    start = 0
    splits = []
    for count in (1000, 300, 50):
        inputs = rng.normal(size=(count, 20)).astype(np.float32)
        ids = np.arange(start, start + count)
        splits.append(Split(inputs, inputs[:, :10] > 1.5, ids, ids))
        start += count
    return Dataset(
        "drawn", False, "features", tuple(f"label{number}" for number in range(10)), *splits
    )


if __name__ == "__main__":
    main()
