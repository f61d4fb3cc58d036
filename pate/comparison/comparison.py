"""The comparison: ensembles trained once, methods by epsilons by seeds, each result on disk as soon as it is done."""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from pate.accounting import Accountant, Adjacency, AutoAccountant, Budget, PureDpEvent
from pate.comparison.frontier import METRICS, Frontier, Run, read_runs, write_runs
from pate.comparison.method import Bench, Contender, Method, Reference, kind
from pate.data import Dataset
from pate.data.dataset import require_dataset
from pate.files.disk import damaged, make_folder, read_value, write_text
from pate.files.values import digest, full_text, to_json, to_json_line
from pate.networks.device import all_cores, one_thread
from pate.pricing.priced_release import require_achievable_delta
from pate.report import metric_intervals, multilabel_metrics
from pate.report.metrics import CONSTANTS
from pate.run.folder import EnsembleFolder, OwnFile, OwnFiles, RunFolder
from pate.run.progress import Monitor
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

_RULE = "the parameters that were solved for"
_SOLVED_AGAIN = "remove it, and the same command solves for them again"
_RESULT = {
    "rule": "a result of this comparison",
    "remedy": "remove it, and the same command makes it again",
}
_PLAIN = (int, float, str, bool, type(None))


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
    # of the noise and of the students, the same for all methods and epsilons
    seeds: tuple[int, ...]
    ensemble_seed: int = 0  # of partitions and teachers
    # makes an empty one; it travels to other processes
    accountant: Callable[[], Accountant] = AutoAccountant
    # which of the student's scores the frontier shows and the goals are stated in
    metric: str = METRICS[0]
    # of the way from a constant to the ceiling, each in (0, 1]: the goals
    shares: tuple[float, ...] = (0.5, 0.8)
    num_workers: int | None = None  # processes; None for as many as there are cores to this process
    allow_useless: bool = False  # whether methods are trained at budgets at which they tell nothing
    # whether a smaller public pool is asked whole: nobody named the number of queries
    fewer_queries: bool = False
    settings: dict[str, Any] = field(
        default_factory=dict
    )  # of the folder, plain; aggregators or seeds may change in it

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
        for name, values in {
            "aggregators": names,
            "epsilons": self.epsilons,
            "seeds": self.seeds,
        }.items():
            shown = ", ".join(map(str, values))
            require(
                len(set(values)) == len(values) > 0, name, f"[{shown}]", "at least one, each once"
            )


class ComparisonFolder(RunFolder):
    """The folder of a comparison, whose ensembles have folders of their own in `ensembles/`."""

    table = OwnFile("comparison.csv")
    page = OwnFile("frontier.html")
    picture = OwnFile("frontier.png")
    trials = OwnFiles("runs", "*.json")
    calibrations = OwnFiles("calibrations", "*.json")
    ensembles = OwnFiles("ensembles")

    def remove_partials(self) -> None:
        """Removes what a killed process half-wrote of the declared files, and in the ensembles' folders."""
        super().remove_partials()
        for path in self.ensembles.glob("*"):
            EnsembleFolder(path).remove_partials()


@all_cores()
def compare(
    plan: ComparisonPlan, output_dir: str | PathLike[str], monitor: Monitor | None = None
) -> Frontier:
    """Runs a comparison in a folder, or continues it there.

    Ensembles and finished runs are not repeated, whatever else was asked for in between; comparison.csv, frontier.html
    and frontier.png show what this call asked for. Raises `InvalidValue` for a plan that cannot work, before anything
    is trained, and for a folder of something else.
    """
    folder = ComparisonFolder(Path(output_dir))
    monitor = monitor or Monitor()
    with folder.opened(plan.settings):
        with monitor.stage("reading the data"):
            dataset = require_dataset(plan.load_dataset())
        if plan.fewer_queries:
            plan = replace(plan, num_queries=min(plan.num_queries, len(dataset.public)))
        shared = {
            name: getattr(plan, name)
            for name in ("num_queries", "engine", "student", "ensemble_seed")
        }
        bench = Bench.of(plan.load_dataset, dataset, folder=folder.path, **shared)
        _check(plan, bench, monitor)
        folder.claim(plan.settings, data=bench.digest)
        for method in plan.methods:
            method.prepare(bench, monitor)
        private = [method for method in plan.methods if method.is_private]
        trials = [
            _trial(plan, method, epsilon, bench) for method in private for epsilon in plan.epsilons
        ]
        runs = [
            *_constants(bench),
            *_shared_out(plan, [*_baselines(plan, bench), *trials], monitor),
        ]
        frontier = Frontier(
            runs=tuple(runs),
            metric=plan.metric,
            shares=plan.shares,
            dataset=dataset.name,
            real=dataset.real,
            num_test=len(dataset.test),
            unit=_unit_of(runs, dataset),
        )
        with monitor.stage("writing the frontier"):
            from pate.comparison.page import frontier_picture, render_page  # loads matplotlib
            from pate.report.page import on_paper

            if line := keep_earlier_pages(folder.path, runs):
                monitor.say(line)
            write_runs(folder.table, runs)
            picture = frontier_picture(frontier, [line.title for line in frontier.ranked], on_paper)
            picture.write_png(folder.picture)
            write_text(folder.page, render_page(frontier, _parameters(plan, trials)))
    return frontier


PAGES = ("comparison.csv", "frontier.html", "frontier.png")  # what a comparison is read from


def keep_earlier_pages(folder: Path, runs: Sequence[Run]) -> str:
    """Renames the pages of an earlier selection that these runs do not contain, and says so; empty where they do.

    The results themselves stay in `runs/` whatever is selected.
    """
    if not os.path.lexists(folder / "comparison.csv"):
        return ""
    selected = {_row_of(run) for run in runs}
    selected |= {(*row[:-1], None) for row in selected}  # what had no result then may have some now
    try:
        missing = {_row_of(run) for run in read_runs(folder / "comparison.csv")} - selected
    except InvalidValue:  # written by another version, or by hand
        missing = {("an earlier comparison",)}
    if not missing:
        return ""
    number = 1
    while any(os.path.lexists(_numbered(folder / name, number)) for name in PAGES):
        number += 1
    for name in PAGES:
        if os.path.lexists(folder / name):
            os.replace(folder / name, _numbered(folder / name, number))
    names = ", ".join(sorted({str(row[0]) for row in missing}))
    kept = ", ".join(_numbered(Path(name), number).name for name in PAGES)
    return f"output_dir={folder}: the pages here are of another selection ({names}); they are kept as {kept}"


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def _row_of(run: Run) -> tuple[object, ...]:
    """What a row of a comparison is about, beside its results; a row that says why there is no result has no seed."""
    name = run.aggregator.partition("@")[0]
    return (
        name,
        run.teacher,
        run.num_teachers,
        run.student,
        run.epsilon,
        None if run.note else run.seed,
    )


def _unit_of(runs: Sequence[Run], dataset: Dataset) -> str:
    """Returns what the epsilons of all runs are for, in words; nothing where their adjacencies differ."""
    adjacencies = {run.adjacency for run in runs if run.adjacency is not None}
    if len(adjacencies) != 1:
        return ""
    return dataset.privacy_unit.protected_under(Adjacency.parse(adjacencies.pop()))


def _check(plan: ComparisonPlan, bench: Bench, monitor: Monitor) -> None:
    rule = (
        "true: the public records have no labels, so only a model of all records can be the ceiling"
    )
    require(plan.all_records or bench.dataset.public_labeled, "all_records", plan.all_records, rule)
    for method in plan.methods:
        method.check(bench)
    num_labels = bench.dataset.num_labels
    require_achievable_delta(plan.target_delta, num_queries=plan.num_queries, num_labels=num_labels)
    # says what it lacks, once for all
    plan.accountant().compose(PureDpEvent(1.0)).get_epsilon(plan.target_delta)
    for line in dict.fromkeys(line for method in plan.methods for line in method.warnings(bench)):
        monitor.say(line)


@dataclass(frozen=True)
class Calibration:
    """What was found for a method at a budget."""

    parameters: Mapping[str, int | float | str | bool | list | None]  # type: ignore[type-arg]  # that were solved for
    epsilon: float | None  # the price, at most the budget's; None where nothing reaches the budget
    reason: str = ""  # why nothing does
    refusal: str | None = None  # see `Contender.refusal`; None where nobody asked

    @classmethod
    def read(cls, path: Path | None) -> Self | None:
        """What was kept, for show: it is not priced again. None where nothing was."""
        if path is None or not os.path.lexists(path):
            return None
        return read_value(cls, path, name="calibration", rule=_RULE, remedy=_SOLVED_AGAIN)

    def write(self, path: Path) -> None:
        """Keeps it where all parameters are plain values, or lists of them."""
        if _is_plain(tuple(self.parameters.values())):
            make_folder(path.parent, within=path.parent.parent)
            write_text(path, to_json(self) + "\n")

    def note(self, allow_useless: bool) -> str:
        """Why the method is not trained; empty where it is."""
        return self.reason or ("" if allow_useless else self.refusal or "")


def calibrated(
    method: Method, budget: Budget, bench: Bench, path: Path, *, allow_useless: bool = True
) -> Contender:
    """The method at a budget, from the file where it is there, solved for and kept where it is not.

    What is read back is priced again: neither a file nor a calibrator can make a release cheaper than it is. Raises
    `InvalidValue` where nothing reaches the budget or, unless that is allowed, the method tells nothing at it.
    """
    kept = Calibration.read(path)
    if kept is not None and (note := kept.note(allow_useless)):
        raise InvalidValue(note)
    known = (
        None if kept is None else {name: _tuple(value) for name, value in kept.parameters.items()}
    )
    try:
        contender = method.at(budget, bench, known)
        most = budget.required_epsilon()
        if not contender.epsilon <= most * (1 + 1e-9):
            raise InvalidValue(
                f"epsilon={contender.epsilon:.6g}: expected at most {most:g} once calibrated"
            )
    except TypeError:
        if kept is None:
            raise
        raise damaged(path, _RULE, "other parameters", _SOLVED_AGAIN) from None
    except InvalidValue as error:
        if kept is None:
            Calibration({}, None, str(error)).write(path)
        raise
    found = kept or Calibration(contender.parameters, contender.epsilon)
    if not allow_useless and found.refusal is None:
        found = replace(found, refusal=contender.refusal())
    if found is not kept:
        found.write(path)
    if note := found.note(allow_useless):
        raise InvalidValue(note)
    return contender


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def _tuple(value: Any) -> Any:
    """JSON knows lists only."""
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A method at a budget, or a model that no epsilon covers, trained with several seeds; every result is a file."""

    bench: Bench  # what all methods share
    blank: Run  # a run with what is known before
    # of the results, named after all that they depend on, by the seed of noise and training
    paths: Mapping[int, Path]
    # makes it ready to be trained; raises `InvalidValue` where nothing reaches the budget, or tells nothing there
    contender: Callable[[], Contender]
    calibration: Path | None = None  # where its parameters are kept; None without a budget
    # whether it is trained although `Contender.refusal` speaks against it
    allow_useless: bool = True

    @classmethod
    def of(
        cls, name: str, bench: Bench, seeds: tuple[int, ...], seen: list[Any], **others: Any
    ) -> Self:
        paths = {
            seed: bench.folder / "runs" / f"{name}-{digest([seen, seed])}.json" for seed in seeds
        }
        return cls(bench=bench, paths=paths, **others)

    def read(self, seed: int) -> Run | None:
        """The result, or None; raises `DamagedFile` where it is not what was written."""
        if not os.path.lexists(path := self.paths[seed]):
            return None
        return replace(
            read_value(Run, path, name="run", **_RESULT), aggregator=self.blank.aggregator
        )

    def write(self, seed: int, run: Run) -> Run:
        path = self.paths[seed]
        make_folder(path.parent, within=path.parent.parent)
        write_text(path, to_json_line(run) + "\n")
        return run

    def done(self) -> list[Run] | None:
        """The results, or why there are none, where nothing of it has to be made."""
        found = Calibration.read(self.calibration)
        if found is not None and (note := found.note(self.allow_useless)):
            return [replace(self.blank, note=note)]
        if not self.allow_useless and (found is None or found.refusal is None):
            return None
        runs = [run for run in map(self.read, self.paths) if run is not None]
        return runs if len(runs) == len(self.paths) else None

    def runs(self) -> list[Run]:
        """The results; where nothing reaches the budget, or tells nothing there, one that says so."""
        try:
            contender = self.contender()
        except InvalidValue as error:
            return [replace(self.blank, note=str(error))]
        return [
            self.read(seed) or self.write(seed, self._scored(contender, seed))
            for seed in self.paths
        ]

    def _scored(self, contender: Contender, seed: int) -> Run:
        """With the five metrics on the test split."""
        blank = self.blank
        if not blank.is_baseline:
            blank = replace(blank, priced_epsilon=contender.epsilon, seed=seed)
        try:
            trained = contender.train(seed)
            test = self.bench.dataset.test
            model = trained.model
            found = (
                model.predict(test.inputs),
                model.predict_proba(test.inputs).astype(np.float64),
                test.labels,
            )
            scores = vars(multilabel_metrics(*found))
            intervals = metric_intervals(*found)
        except InvalidValue as error:  # data that the method is not made for
            if blank.is_baseline:
                raise
            return replace(blank, note=str(error))
        return replace(
            blank,
            intervals=intervals,
            num_answered=trained.num_answered,
            label_accuracy=trained.label_accuracy,
            **scores,
        )


def _trial(plan: ComparisonPlan, method: Method, epsilon: float, bench: Bench) -> Trial:
    accountant = plan.accountant().name
    priced = [VERSION, method.identity(bench), accountant, epsilon, plan.target_delta]
    name = f"{method.key}-{epsilon:g}"
    columns = method.columns(bench)
    # of a name; later ones add @T
    first = next(other for other in plan.methods if other.name == method.name)
    shown = method.name if method is first else f"{method.name}@{columns['num_teachers']}"
    budget = Budget(epsilon=epsilon, delta=plan.target_delta, accountant=plan.accountant)
    path = bench.folder / "calibrations" / f"{name}-{digest(priced)}.json"
    return Trial.of(
        name,
        bench,
        plan.seeds,
        [priced, bench.digest],
        blank=Run(
            aggregator=shown,
            num_queries=plan.num_queries,
            epsilon=epsilon,
            delta=plan.target_delta,
            accountant=accountant,
            **columns,
        ),
        contender=partial(
            calibrated, method, budget, bench, path, allow_useless=plan.allow_useless
        ),
        calibration=path,
        allow_useless=plan.allow_useless,
    )


def _baselines(plan: ComparisonPlan, bench: Bench) -> list[Trial]:
    """The student of the true labels, the ceiling, and what the methods show beside themselves, each once."""
    references = []
    if bench.dataset.public_labeled:
        seen = [bench.num_queries, full_text(bench.student)]
        student = {"student": kind(bench.student)}
        references.append(Reference("true_label_student", bench.true_label_student, seen, student))
    if plan.all_records:
        references.append(bench.ceiling("all_records_model"))
    references += [found for method in plan.methods for found in method.references(bench)]
    made = {}
    for each in references:
        identity = [VERSION, bench.digest, each.identity]
        blank = Run(aggregator=each.name, num_queries=bench.num_queries, **each.columns)
        ready = partial(Contender, math.inf, {}, each.train)
        trial = Trial.of(
            each.name, bench, (bench.ensemble_seed,), identity, blank=blank, contender=ready
        )
        made[trial.paths[bench.ensemble_seed]] = trial
    return list(made.values())


def _constants(bench: Bench) -> Iterator[Run]:
    """What predicts the same for every sample, by the frequencies among the private records."""
    true = bench.dataset.test.labels
    for name, made in CONSTANTS.items():
        constant = made(bench.dataset.private.labels.mean(axis=0)).for_samples(len(true))
        scores = vars(multilabel_metrics(*constant, true))
        intervals = metric_intervals(*constant, true)
        yield Run(aggregator=name, num_queries=bench.num_queries, intervals=intervals, **scores)


def _shared_out(plan: ComparisonPlan, work: list[Trial], monitor: Monitor) -> list[Run]:
    """The results of all work, in its order, from processes that read the data for themselves."""
    from joblib import Parallel, cpu_count, delayed, parallel_config  # loads slowly

    done = {index: runs for index, item in enumerate(work) if (runs := item.done()) is not None}
    tasks = [delayed(_results)(index, item) for index, item in enumerate(work) if index not in done]
    steps = sum(len(work[index].paths) for index in done)
    if done:
        total = sum(len(item.paths) for item in work)
        monitor.say(
            f"output_dir={work[0].bench.folder}: {steps} of {total} releases and students are there"
        )
    how: dict[str, Any] = {"max_nbytes": None, "batch_size": 1, "return_as": "generator_unordered"}
    how["n_jobs"] = min(plan.num_workers or cpu_count(), max(len(tasks), 1))
    with (
        monitor.stage("releases and students", sum(len(item.paths) for item in work)) as advance,
        parallel_config("loky", inner_max_num_threads=1),
        warnings.catch_warnings(),
    ):
        # one that grew large was replaced
        warnings.filterwarnings("ignore", "A worker stopped while")
        advance(steps)
        for index, runs in Parallel(**how)(tasks):
            done[index] = runs
            steps += len(work[index].paths)
            advance(steps, runs[0].aggregator)
    return [run for index in range(len(work)) for run in done[index]]


def _results(index: int, item: Trial) -> tuple[int, list[Run]]:
    """One piece of work, in a worker; a refusal names what it was about."""
    try:
        with one_thread():  # the same last bits in a worker and in this process
            return index, item.runs()
    except InvalidValue as error:
        raise InvalidValue(f"{item.blank.aggregator}, {error}") from error


def _parameters(plan: ComparisonPlan, trials: list[Trial]) -> dict[str, list[tuple[float, str]]]:
    """What was solved for, in words, by method and epsilon."""
    found: dict[str, list[tuple[float, str]]] = {}
    keys = [method.key for method in plan.methods if method.is_private for _ in plan.epsilons]
    for key, trial in zip(keys, trials, strict=True):
        kept = Calibration.read(trial.calibration) or Calibration({}, None)
        given = kept.parameters.items()
        values = [
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in given
        ]
        found.setdefault(key, []).append(
            (trial.blank.epsilon or 0.0, kept.reason or ", ".join(values))
        )
    return found
