"""Program `python -m benchmarks.scores`, which counts how often intervals of released scores hold the true scores.

It trains one student by `pate-train experiment=centered_votes` on WordNet-40, or with `--table FOLDER` on a table such
as `examples/yeast.py` writes.

`release` draws its scores many times by the way that a run goes, for the same test records. `coverage` draws faster. It
also draws the test records themselves, once or anew for each release, from the test and private records together. A row
has the mean error, half of the interval, and the share of intervals that hold the score of these test records. Where
they are drawn anew it also has the share that hold the score of all records.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as TextTable
from sklearn.metrics import average_precision_score, f1_score

from pate.accounting import Budget, Ledger, ScoresEvent
from pate.accounting.calibration import calibrate
from pate.accounting.ledger_entry import ChargeNote
from pate.array_types import BoolArray, FloatArray
from pate.data import Dataset, Split, Table, WordNet40
from pate.models import StudentModel
from pate.report.released_scores import NAMES, ReleasedScore
from pate.run.score_estimates import ScoreEstimates
from pate.run.score_release import ScoreCharge, ScorePrice
from pate.run.score_sums import NUM_CALIBRATION_BINS, RecordCounts, ScoreDesign, bins_of, noisy_sums

DELTA = 1e-6
NUM_QUERIES = 600


@dataclass(frozen=True)
class Draw:
    """A release of one score: the released score, and the true ones of its test records and of all records."""

    score: ReleasedScore
    of_test: float
    of_all: float


def main() -> None:
    """Prints the table of `release` or of `coverage`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scores", description=main.__doc__)
    parser.add_argument("part", choices=["release", "coverage"])
    parser.add_argument("--table", type=Path, help="a folder of examples/yeast.py")
    parser.add_argument("--releases", type=int, default=1000)
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 500])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.25, 0.5, 1.0])
    chosen = parser.parse_args()
    dataset, settings = (
        (WordNet40().load(), ["target_epsilon=1"])
        if chosen.table is None
        else table_data(chosen.table)
    )
    student = trained_student(settings)
    table = TextTable(
        "records", "epsilon", "test", "score", "error", "half", "of these", "of all", box=None
    )
    for epsilon in chosen.epsilon:
        if chosen.part == "release":
            draws = released(student, dataset, epsilon=epsilon, num_releases=chosen.releases)
            add_rows(table, draws, [str(dataset.test.num_groups), str(epsilon), "same"])
            continue
        for num_records in chosen.records:
            for is_same in (True, False):
                draws = drawn(
                    student,
                    dataset,
                    epsilon=epsilon,
                    num_records=num_records,
                    num_releases=chosen.releases,
                    is_same=is_same,
                )
                words = "same" if is_same else "drawn"
                add_rows(table, draws, [str(num_records), str(epsilon), words])
    Console(width=120).print(table)


def add_rows(table: TextTable, draws: Iterator[dict[str, Draw]], words: list[str]) -> None:
    """Adds a row for each score to a table."""
    all_draws = list(draws)
    for name in NAMES:
        of_name = [draw[name] for draw in all_draws]
        errors = [draw.score.value - draw.of_test for draw in of_name]
        halves = [(draw.score.high - draw.score.low) / 2 for draw in of_name]
        shares = [
            np.mean([draw.score.low <= truth(draw) <= draw.score.high for draw in of_name])
            for truth in (_of_test, _of_all)
        ]
        table.add_row(
            *words,
            name,
            f"{np.mean(errors):+.4f}",
            f"{np.mean(halves):.4f}",
            f"{shares[0]:.3f}",
            "" if "same" in words else f"{shares[1]:.3f}",
        )


def _of_test(draw: Draw) -> float:
    return draw.of_test


def _of_all(draw: Draw) -> float:
    return draw.of_all


def table_data(folder: Path) -> tuple[Dataset, list[str]]:
    """Returns the data set in a folder of three CSV files, and the settings that train on it."""
    header = (folder / "public.csv").read_text().partition("\n")[0].split(",")
    labels = [name for name in header if name.startswith("Class")]
    files = {name: folder / f"{name}.csv" for name in ("private", "public", "test")}
    settings = [f"data.{name}={path}" for name, path in files.items()]
    settings += ["data=table", f"data.labels=[{','.join(labels)}]", "target_epsilon=8"]
    dataset = Table(
        private=str(files["private"]),
        public=str(files["public"]),
        test=str(files["test"]),
        labels=labels,
    )
    return dataset.load(), settings


def trained_student(settings: list[str]) -> StudentModel:
    """Returns the student of `pate-train experiment=centered_votes` with some settings and seed 1."""
    command = [sys.executable, "-c", "from pate.cli.train import main; main()"]
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["experiment=centered_votes", "all_records=false", "seed=1"]
        subprocess.run(
            [*command, *arguments, *settings, f"output_dir={folder}/run"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return StudentModel.load(Path(folder) / "run" / "release" / "student")


def event_of(epsilon: float) -> ScoresEvent:
    """Returns the price of scores at an epsilon."""
    return ScoresEvent(
        noise_multiplier=calibrate(ScoresEvent, target_epsilon=epsilon, target_delta=DELTA)
    )


def released(
    student: StudentModel, dataset: Dataset, *, epsilon: float, num_releases: int
) -> Iterator[dict[str, Draw]]:
    """Yields releases as a run makes them, each with a charge in a ledger in memory, for the same test records."""
    event = event_of(epsilon)
    price = ScorePrice(
        event=event,
        epsilon=Budget(delta=DELTA).epsilon_of(event),
        delta=DELTA,
        unit=dataset.group_unit,
        account_name="test records",
        subgroup_divisions=(),
    )
    probabilities = np.asarray(student.predict_proba(dataset.test.inputs), np.float64)
    predicted = np.asarray(student.predict(dataset.test.inputs))
    truth = true_scores(
        probabilities, predicted, dataset.test.labels, weights=np.ones(len(predicted))
    )
    for seed in range(num_releases):
        charge = ScoreCharge(
            score_price=price,
            account=Ledger(target_delta=DELTA),
            release_key=str(seed),
            charge_note=ChargeNote(),
        )
        scores = charge.release(
            student, dataset=dataset, num_queries=NUM_QUERIES, rng=np.random.default_rng(seed)
        )
        yield {
            name: Draw(score=getattr(scores, name), of_test=truth[name], of_all=truth[name])
            for name in NAMES
        }


def drawn(
    student: StudentModel,
    dataset: Dataset,
    *,
    epsilon: float,
    num_records: int,
    num_releases: int,
    is_same: bool,
) -> Iterator[dict[str, Draw]]:
    """Yields releases for test sets of some records, which are the same or drawn anew with replacement.

    All test and private records are the people; the student does not know the latter beyond its budget.
    """
    parts = (dataset.test, dataset.private)
    probabilities = np.concatenate(
        [np.asarray(student.predict_proba(part.inputs), np.float64) for part in parts]
    )
    predicted = np.concatenate([np.asarray(student.predict(part.inputs)) for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    multiplier = event_of(epsilon).noise_multiplier
    score_design = ScoreDesign.from_public(
        student,
        _ungrouped(dataset.public),
        noise_multiplier=multiplier,
        num_test_groups=num_records,
        has_gaps=False,
        num_queries=NUM_QUERIES,
    )
    counts = RecordCounts.of_records(
        probabilities,
        predicted,
        labels,
        known=None,
        influences_of_labels=score_design.influences_of_labels,
    )
    steps = score_design.clipped_steps(score_design.group_counts(counts, np.arange(len(labels))))
    of_all = true_scores(probabilities, predicted, labels, weights=np.ones(len(labels)))
    rng = np.random.default_rng(0)
    for number in range(num_releases):
        if number == 0 or not is_same:
            rows = rng.integers(len(labels), size=num_records)
            members, multiplicities = np.unique(rows, return_counts=True)
            weights = multiplicities.astype(np.float64)
            of_test = true_scores(
                probabilities[members], predicted[members], labels[members], weights=weights
            )
        sums = {
            name: (block[members] * multiplicities[:, None]).sum(axis=0)
            for name, block in steps.items()
        }
        estimates = ScoreEstimates(
            score_design=score_design,
            sums_by_block=noisy_sums(score_design, sums, noise_multiplier=multiplier, rng=rng),
            noise_multiplier=multiplier,
            num_groups=num_records,
        )
        yield {
            name: Draw(score=score, of_test=of_test[name], of_all=of_all[name])
            for name, score in estimates.scores().items()
        }


def _ungrouped(split: Split) -> Split:
    """Returns the same records, each a group of its own."""
    return Split(
        inputs=split.inputs,
        labels=split.labels,
        record_ids=split.record_ids,
        group_ids=split.record_ids,
    )


def true_scores(
    probabilities: FloatArray,
    predicted: BoolArray,
    labels: BoolArray,
    *,
    weights: FloatArray,
) -> dict[str, float]:
    """Returns the scores of weighted records; F1 and average precision are those of scikit-learn."""
    present = labels.any(axis=0)
    precisions = average_precision_score(
        labels[:, present], probabilities[:, present], average=None, sample_weight=weights
    )
    bins = bins_of(probabilities)
    residuals = (labels - probabilities) * weights[:, None]
    by_bin = np.bincount(bins.ravel(), weights=residuals.ravel(), minlength=NUM_CALIBRATION_BINS)
    cells = weights.sum() * labels.shape[1]
    f1 = {
        average: f1_score(
            labels, predicted, average=average, sample_weight=weights, zero_division=0.0
        )
        for average in ("micro", "macro")
    }
    return {
        "micro_f1": float(f1["micro"]),
        "accuracy": float(1 - (weights @ (labels ^ predicted)).sum() / cells),
        "macro_f1": float(f1["macro"]),
        "mean_average_precision": float(np.mean(precisions)),
        "calibration_error": float(np.abs(by_bin).sum() / cells),
    }


if __name__ == "__main__":
    main()
