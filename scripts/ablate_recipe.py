"""Scores of centered votes for several values of their tuned constants, at one epsilon.

    python scripts/ablate_recipe.py trust=0,0.25,0.75 longer=1,4 --epsilon 1 --seeds 3

prints a table. Its first row is the default `Recipe`; every other row changes one constant. All rows have the same
epsilon, records, queries and seeds. So a row's difference to the default is taken seed by seed. The number after ± is
the standard error of its mean. `--set` changes constants in all rows: with `--set num_rounds=5` the ablation is one of
five rounds. docs/how-centered-votes-work.md lists the constants.

By default the scores are on a validation part of the private groups, which then have no vote. A constant that was
chosen on test labels makes a comparison on these labels worthless: `--split test` is for the last look. Nothing here is
private: the scores are read from labels without noise.

`--groups` takes that many private groups at random. Seeds draw the groups, the validation part and the noise. A row of
WordNet-40 takes some seconds per seed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import yaml

from pate.accounting import Budget
from pate.aggregators import CenteredVotes, MemoryRecord
from pate.array_types import BoolArray, FloatArray
from pate.data import Dataset, DigitsGrid, Partition, Split, WordNet40
from pate.models import ConvexTeacher, KernelTeacher
from pate.models.low_rank import LowRankStudent
from pate.report.metrics import multilabel_metrics
from pate.validation import InvalidValue
from pate.votes import DEFAULT_RECIPE, Recipe

DATA = {"wordnet": WordNet40, "digits_grid": DigitsGrid}
VALIDATION_SHARE = 0.15


@dataclass(frozen=True)
class Row:
    """One row of the table: a recipe, and its name."""

    name: str
    recipe: Recipe


@dataclass(frozen=True)
class Score:
    """The scores of one release."""

    mean_average_precision: float
    micro_f1: float


@dataclass(frozen=True)
class Ablation:
    """The settings that all rows share.

    Attributes:
        dataset: records, public pool, and the split whose labels give the scores, as its test set.
        epsilon: of each release.
        delta: of each release.
        num_queries: the first public rows, which are asked.
        num_convex_teachers: None for one kernel teacher per group.
    """

    dataset: Dataset
    epsilon: float
    delta: float
    num_queries: int
    num_convex_teachers: int | None = None

    def score(self, recipe: Recipe, seed: int) -> Score:
        """Releases votes by a recipe, trains the student on the release, and scores the student."""
        rng = np.random.default_rng(seed)
        dataset = self.dataset
        num_queries = min(self.num_queries, len(dataset.public))
        num_teachers = self.num_convex_teachers or dataset.private.num_groups
        teacher = ConvexTeacher() if self.num_convex_teachers else KernelTeacher()
        partition = Partition.draw(dataset.private.group_ids, num_teachers, rng)
        votes = teacher.votes_of(dataset, partition, num_queries)
        aggregator = CenteredVotes(noise_multiplier=1.0, recipe=recipe).fitted(
            Budget(epsilon=self.epsilon, delta=self.delta), votes.shape
        )
        release = aggregator.release(votes, rng, MemoryRecord())
        inputs = np.asarray(dataset.public.inputs, dtype=np.float32)
        student = LowRankStudent().learn(
            release.training_set(inputs[:num_queries]), pool=inputs[num_queries:], seed=seed
        )
        test_inputs = np.asarray(dataset.test.inputs, dtype=np.float32)
        scores = multilabel_metrics(
            student.predict(test_inputs),
            scores=student.predict_proba(test_inputs),
            true_labels=dataset.test.labels,
        )
        return Score(scores.mean_average_precision or 0.0, micro_f1=float(scores.micro_f1))


def with_validation(dataset: Dataset, seed: int) -> Dataset:
    """Returns the data with a part of the private groups as its test set; these groups have no vote."""
    groups = np.unique(dataset.private.group_ids)
    count = max(1, round(VALIDATION_SHARE * len(groups)))
    held_out = np.random.default_rng(seed).choice(groups, count, replace=False)
    is_held_out = np.isin(dataset.private.group_ids, held_out)
    return replace(
        dataset,
        private=part_of(dataset.private, is_chosen=~is_held_out),
        test=part_of(dataset.private, is_chosen=is_held_out),
        budgets=None,
        shared=None,
    )


def with_fewer_groups(dataset: Dataset, num_groups: int, seed: int) -> Dataset:
    """Returns the data with `num_groups` of the private groups, drawn at random."""
    groups = np.unique(dataset.private.group_ids)
    chosen = np.random.default_rng(seed).choice(groups, num_groups, replace=False)
    private = part_of(dataset.private, is_chosen=np.isin(dataset.private.group_ids, chosen))
    return replace(dataset, private=private, budgets=None, shared=None)


def part_of(split: Split, is_chosen: BoolArray) -> Split:
    """Returns the chosen rows of a split."""
    return split.take(np.flatnonzero(is_chosen))


def rows_of(words: Sequence[str], base: Recipe) -> list[Row]:
    """Returns the rows of a table: the base, and each value of each word `FIELD=VALUE,VALUE`.

    A value is YAML; `prevalence_split=[0.2,0.3,0.5]` has one. A value that the base has gets no row of its own. Raises
    `InvalidValue` for a field or value that a recipe does not take.
    """
    rows = [Row("default" if base == DEFAULT_RECIPE else "as set", recipe=base)]
    for word in words:
        name, _, text = word.partition("=")
        values = yaml.safe_load(f"[{text}]")
        for value in values:
            recipe = Recipe.from_values({**base.changes(), name: value})
            if recipe != base:
                rows.append(Row(f"{name}={value}", recipe))
    return rows


def settings_in(words: Sequence[str]) -> Recipe:
    """Returns the recipe that words `FIELD=VALUE` set."""
    pairs = (word.partition("=") for word in words)
    return Recipe.from_values({name: yaml.safe_load(text) for name, _, text in pairs})


def table(rows: Sequence[Row], scores: Sequence[Sequence[Score]]) -> str:
    """Returns the table in Markdown: mean scores of each row, and their mean difference to the first row.

    Args:
        rows: the recipes.
        scores: of each row, one for each seed.
    """
    average_precisions = np.array([[s.mean_average_precision for s in row] for row in scores])
    micro_f1 = np.array([[s.micro_f1 for s in row] for row in scores])
    table_rows = [["recipe", "mean AP", "difference", "micro-F1", "difference"]]
    for index, row in enumerate(rows):
        cells = [row.name]
        for values in (average_precisions, micro_f1):
            cells += [f"{values[index].mean():.4f}", difference(values[index] - values[0])]
        table_rows.append(cells)
    widths = [max(map(len, column)) for column in zip(*table_rows, strict=True)]
    lines = []
    for cells in table_rows:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        lines.append(f"| {' | '.join(padded)} |")
    lines.insert(1, f"|{'|'.join('-' * (width + 2) for width in widths)}|")
    return "\n".join(lines)


def difference(values: FloatArray) -> str:
    """Returns the mean of differences seed by seed, and its standard error where there are several."""
    mean = f"{values.mean():+.4f}"
    if not values.any():
        return "0"
    if len(values) == 1:
        return mean
    return f"{mean} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def load(name: str, split: str, num_groups: int | None, seed: int) -> Dataset:
    """Returns the data of one seed: some groups of it, scored on its validation part or its test set."""
    dataset = DATA[name]().load()
    if num_groups is not None:
        dataset = with_fewer_groups(dataset, num_groups, seed)
    return dataset if split == "test" else with_validation(dataset, seed)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Returns the options and words of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("values", nargs="*", metavar="FIELD=VALUE,VALUE", help="what to ablate")
    parser.add_argument("--set", nargs="*", default=(), metavar="FIELD=VALUE", help="in all rows")
    parser.add_argument("--data", choices=sorted(DATA), default="wordnet")
    parser.add_argument("--split", choices=("validation", "test"), default="validation")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seeds", type=int, default=3, help="how many, 0, 1, …")
    parser.add_argument("--groups", type=int, help="private groups; all by default")
    parser.add_argument("--queries", type=int, default=600)
    parser.add_argument("--convex", type=int, metavar="TEACHERS", help="so many convex teachers")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Prints the table of the words and options of a command line; ends with 2 and a line for a wrong value."""
    options = parsed(arguments)
    try:
        rows = rows_of(options.values, base=settings_in(options.set))
    except InvalidValue as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None
    scores: list[list[Score]] = [[] for _ in rows]
    for seed in range(options.seeds):
        ablation = Ablation(
            dataset=load(options.data, options.split, num_groups=options.groups, seed=seed),
            epsilon=options.epsilon,
            delta=options.delta,
            num_queries=options.queries,
            num_convex_teachers=options.convex,
        )
        for row, scores_of_row in zip(rows, scores, strict=True):
            score = ablation.score(row.recipe, seed)
            scores_of_row.append(score)
            sys.stderr.write(
                f"seed {seed}, {row.name}: mean AP {score.mean_average_precision:.4f}\n"
            )
    title = f"{options.data}, {options.split}, epsilon {options.epsilon:g}, {options.seeds} seeds"
    sys.stdout.write(f"{title}\n\n{table(rows, scores)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
