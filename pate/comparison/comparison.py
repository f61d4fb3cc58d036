"""The comparison: ensembles trained once, methods by epsilons by seeds, each result on disk as it comes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from pate.accounting import Accountant, AutoAccountant, PureDpEvent
from pate.comparison.frontier import METRICS, Frontier, Run, write_runs
from pate.comparison.method import Bench, Method, Reference, kind
from pate.comparison.trial import Baseline, CachedRun, Calibration, Trial
from pate.data import Dataset
from pate.data.dataset import require_dataset
from pate.files.disk import write_text
from pate.files.values import digest, full_text
from pate.networks.device import one_thread
from pate.pricing import Budget
from pate.pricing.priced_release import require_achievable_delta
from pate.report import metric_intervals
from pate.report.metrics import CONSTANTS
from pate.run.folder import RunFolder
from pate.run.progress import Monitor, NullMonitor
from pate.student import Student
from pate.teachers import Engine
from pate.validation import (
    VERSION,
    InvalidValue,
    require,
    require_choice,
    require_count,
    require_positive,
    require_probability,
)


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """Everything that a comparison depends on."""

    load_dataset: Callable[[], Dataset]  # reads the data set
    methods: tuple[Method, ...]  # who competes, each under another key
    engine: Engine  # how teachers are trained
    student: Student  # the recipe of the baselines
    all_records: bool = True  # whether the model of all private records is trained: the ceiling
    num_queries: int  # how many public samples are asked, the first ones of the public pool
    target_delta: float  # in (0, 1)
    epsilons: tuple[float, ...]  # the budgets, each > 0, ascending
    seeds: tuple[int, ...]  # of the noise and of the students, the same for all methods and epsilons
    ensemble_seed: int = 0  # of partitions and teachers
    # makes an empty accountant; it must survive being sent to another process
    accountant: Callable[[], Accountant] = AutoAccountant
    metric: str = METRICS[0]  # which of the student's scores the frontier shows and the goals are stated in
    shares: tuple[float, ...] = (0.5, 0.8)  # of the way from a constant to the ceiling, each in (0, 1]: the goals
    num_workers: int | None = None  # processes; None for as many as there are cores to this process
    # whether methods are trained at budgets at which they tell nothing; else a line says why not
    allow_useless: bool = False
    fewer_queries: bool = False  # whether a smaller public pool is asked whole: nobody named the number of queries
    # plain values that the folder belongs to; aggregators, epsilons and seeds may change in it
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_count("num_queries", self.num_queries)
        require_probability("target_delta", self.target_delta)
        require_choice("metric", self.metric, METRICS)
        for epsilon in self.epsilons:
            require_positive("epsilons", epsilon)
        for seed in self.seeds:
            require_count("seeds", seed, minimum=0)
        for share in self.shares:
            require(require_positive("shares", share) <= 1, "shares", share, "numbers in (0, 1]")
        if self.num_workers is not None:
            require_count("num_workers", self.num_workers)
        names = tuple(method.key for method in self.methods)
        for name, values in {"aggregators": names, "epsilons": self.epsilons, "seeds": self.seeds}.items():
            shown = ", ".join(map(str, values))
            require(len(set(values)) == len(values) > 0, name, f"[{shown}]", "at least one, each once")


def compare(plan: ComparisonPlan, output_dir: str | PathLike[str], monitor: Monitor | None = None) -> Frontier:
    """Runs a comparison in a folder, or continues it there.

    Ensembles and finished runs are not repeated, whatever else was asked for in between; comparison.csv, frontier.html
    and frontier.png show what this call asked for.

    Raises:
        InvalidValue: a plan that cannot work, said before anything is trained; a folder of something else.
    """
    folder = RunFolder(Path(output_dir))
    with folder.opened(plan.settings):
        return _Comparison(plan, folder, monitor or NullMonitor()).frontier()


class _Comparison:
    def __init__(self, plan: ComparisonPlan, folder: RunFolder, monitor: Monitor) -> None:
        self.plan, self.folder, self.monitor = plan, folder, monitor

    def frontier(self) -> Frontier:
        plan, folder = self.plan, self.folder
        with self.monitor.stage("reading the data"):
            dataset = require_dataset(plan.load_dataset())
        if plan.fewer_queries:
            self.plan = plan = replace(plan, num_queries=min(plan.num_queries, len(dataset.public)))
        bench = Bench.of(
            plan.load_dataset,
            dataset,
            num_queries=plan.num_queries,
            engine=plan.engine,
            student=plan.student,
            ensemble_seed=plan.ensemble_seed,
            folder=folder.path,
        )
        self._check(bench)
        folder.claim(plan.settings, data=bench.digest)
        for method in plan.methods:
            method.prepare(bench, self.monitor)
        private = [method for method in plan.methods if method.is_private]
        trials = [self._trial(method, epsilon, bench) for method in private for epsilon in plan.epsilons]
        runs = [*_constants(dataset, plan.num_queries), *self._runs([*self._baselines(bench), *trials])]
        frontier = Frontier(
            runs=tuple(runs),
            metric=plan.metric,
            shares=plan.shares,
            dataset=dataset.name,
            real=dataset.real,
            num_test=len(dataset.test),
        )
        with self.monitor.stage("writing the frontier"):
            from pate.comparison.page import frontier_picture, render_page  # loads matplotlib
            from pate.report.pictures import on_paper

            write_runs(folder.path / "comparison.csv", runs)
            picture = frontier_picture(frontier, [line.title for line in frontier.ranked], on_paper)
            picture.write_png(folder.path / "frontier.png")
            write_text(folder.path / "frontier.html", render_page(frontier, _parameters(trials)))
        return frontier

    def _check(self, bench: Bench) -> None:
        plan, num_labels = self.plan, bench.dataset.num_labels
        rule = "true: the public records have no labels, so only a model of all records can be the ceiling"
        require(plan.all_records or bench.dataset.public_labeled, "all_records", plan.all_records, rule)
        for method in plan.methods:
            method.check(bench)
        require_achievable_delta(plan.target_delta, num_queries=plan.num_queries, num_labels=num_labels)
        plan.accountant().compose(PureDpEvent(1.0)).get_epsilon(plan.target_delta)  # says what it lacks, once for all
        for line in dict.fromkeys(line for method in plan.methods for line in method.warnings(bench)):
            self.monitor.say(line)

    def _runs(self, work: list[Baseline | Trial]) -> list[Run]:
        done = {index: runs for index, item in enumerate(work) if (runs := item.done()) is not None}
        left = [index for index in range(len(work)) if index not in done]
        total, steps = sum(item.num_steps for item in work), sum(work[index].num_steps for index in done)
        with self.monitor.stage("releases and students", total) as advance:
            advance(steps)
            for index, runs in self._shared_out(work, left):
                done[index] = runs
                steps += work[index].num_steps
                advance(steps, runs[0].aggregator)
        return [run for index in range(len(work)) for run in done[index]]

    def _shared_out(self, work: list[Baseline | Trial], left: list[int]) -> Iterator[tuple[int, list[Run]]]:
        """Results as they come, from processes that read the data for themselves."""
        from joblib import Parallel, cpu_count, delayed, parallel_config  # loads slowly

        num_workers = min(self.plan.num_workers or cpu_count(), max(len(left), 1))
        tasks = [delayed(_results)(index, work[index]) for index in left]
        how: dict[str, Any] = {"max_nbytes": None, "batch_size": 1, "return_as": "generator_unordered"}
        with parallel_config("loky", inner_max_num_threads=1), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A worker stopped while")  # one that grew large was replaced
            yield from Parallel(num_workers, **how)(tasks)

    def _trial(self, method: Method, epsilon: float, bench: Bench) -> Trial:
        plan = self.plan
        priced = [VERSION, method.identity(bench), plan.accountant().name, epsilon, plan.target_delta]
        name = f"{method.key}-{epsilon:g}"
        first = next(other for other in plan.methods if other.name == method.name)  # of a name; later ones add @T
        shown = method.name if method is first else f"{method.name}@{method.columns(bench)['num_teachers']}"
        return Trial(
            method,
            Budget(target_epsilon=epsilon, target_delta=plan.target_delta, accountant=plan.accountant),
            bench,
            self.folder.path / "calibrations" / f"{name}-{digest(priced)}.json",
            self._cached(name, plan.seeds, [priced, bench.digest]),
            Run(
                aggregator=shown,
                epsilon=epsilon,
                delta=plan.target_delta,
                accountant=plan.accountant().name,
                num_queries=plan.num_queries,
                **method.columns(bench),
            ),
            plan.allow_useless,
        )

    def _cached(self, name: str, seeds: tuple[int, ...], seen: Any) -> tuple[CachedRun, ...]:
        """A file for each seed, named after all that its result depends on."""
        runs = self.folder.path / "runs"
        return tuple(CachedRun(seed, runs / f"{name}-{digest([seen, seed])}.json") for seed in seeds)

    def _baselines(self, bench: Bench) -> list[Baseline]:
        """The student of the true labels, the ceiling, and what the methods show beside themselves, each once."""
        student = {"student": kind(bench.student)}
        seen = [bench.num_queries, full_text(bench.student)]
        references = []
        if bench.dataset.public_labeled:
            references.append(Reference("true_label_student", bench.true_label_student, seen, student))
        if self.plan.all_records:
            references.append(bench.ceiling("all_records_model"))
        references += [found for method in self.plan.methods for found in method.references(bench)]
        made = {}
        for reference in references:
            identity = [VERSION, bench.digest, reference.identity]
            (cached,) = self._cached(reference.name, (bench.ensemble_seed,), identity)
            blank = Run(aggregator=reference.name, num_queries=bench.num_queries, **reference.columns)
            made[cached.path] = Baseline(reference, bench, cached, blank)
        return list(made.values())


def _constants(dataset: Dataset, num_queries: int) -> Iterator[Run]:
    """What predicts the same for every sample, by the frequencies among the private records."""
    frequencies, true = dataset.private.labels.mean(axis=0), dataset.test.labels
    for name, made in CONSTANTS.items():
        constant = made(frequencies)
        intervals = metric_intervals(*constant.for_samples(len(true)), true)
        yield Run(aggregator=name, num_queries=num_queries, intervals=intervals, **vars(constant.metrics(true)))


def _parameters(trials: list[Trial]) -> dict[str, list[tuple[float, str]]]:
    """What was solved for, in words, by method and epsilon."""
    found: dict[str, list[tuple[float, str]]] = {}
    for trial in trials:
        kept = Calibration.read(trial.calibration_path)
        given = kept.parameters.items() if kept else ()
        values = [f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in given]
        text = kept.reason if kept and kept.reason else ", ".join(values)
        found.setdefault(trial.method.key, []).append((trial.budget.target_epsilon or 0.0, text))
    return found


def _results(index: int, item: Baseline | Trial) -> tuple[int, list[Run]]:
    """One piece of work, in a worker; a refusal names what it was about."""
    try:
        with one_thread():  # the same last bits in a worker and in this process
            return index, item.runs()
    except InvalidValue as error:
        raise InvalidValue(f"{item.blank.aggregator}, {error}") from error
