"""Comparison of methods by epsilons by seeds; ensembles are trained once, each result is on disk when it is done."""

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
from pate.extras import VERSION
from pate.files.digests import digest, full_text
from pate.files.disk import damaged, make_folder, read_value, write_text
from pate.files.strict_json import to_json, to_json_line
from pate.models import Engine, Student
from pate.pricing.affordable_queries import require_achievable_delta
from pate.progress import Monitor
from pate.report import metric_intervals, multilabel_metrics
from pate.report.metrics import CONSTANTS
from pate.run.folder import EnsembleFolder, RunFolder
from pate.run.owned_folder import OwnFile, OwnFiles
from pate.threads import all_cores, one_thread
from pate.validation import (
    InvalidValue,
    require,
    require_choice,
    require_count,
    require_positive,
    require_probability,
)

_RULE = "the parameters that were solved for"
_SOLVED_AGAIN = "remove it, and the same command solves for them again"
_TRAINED_AGAIN = "remove it, and the same command makes it again"
_PLAIN = (int, float, str, bool, type(None))


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """Settings and parts of a comparison: all that it depends on."""

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
        _require_distinct("aggregators", [method.key for method in self.methods])
        _require_distinct("epsilons", self.epsilons)
        _require_distinct("seeds", self.seeds)


def _require_distinct(name: str, values: Sequence[object]) -> None:
    """Raises `InvalidValue` unless there is at least one value, and each once."""
    shown = ", ".join(map(str, values))
    is_good = 0 < len(values) == len(set(values))
    require(is_good, name, f"[{shown}]", "at least one, each once")


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
        bench = Bench.for_dataset(
            dataset,
            load_dataset=plan.load_dataset,
            num_queries=plan.num_queries,
            engine=plan.engine,
            student=plan.student,
            ensemble_seed=plan.ensemble_seed,
            folder=folder.path,
        )
        _check(plan, bench, monitor)
        folder.claim(plan.settings, data=bench.digest)
        for method in plan.methods:
            method.prepare(bench, monitor)
        private_methods = [method for method in plan.methods if method.is_private]
        trials = [
            _private_trial(plan, method, epsilon, bench)
            for method in private_methods
            for epsilon in plan.epsilons
        ]
        baselines = _baseline_trials(plan, bench)
        runs = [*_constants(bench), *_run_trials(plan, [*baselines, *trials], monitor)]
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

            line = keep_earlier_pages(folder.path, runs)
            if line:
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
    # a row without a result, and so without a seed, may have some now
    selected |= {(*row[:-1], None) for row in selected}
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
    new_names = ", ".join(_numbered(Path(name), number).name for name in PAGES)
    return f"output_dir={folder}: the pages here are of another selection ({names}); they are kept as {new_names}"


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def _row_of(run: Run) -> tuple[object, ...]:
    """Returns the identity of a row of a comparison; a row that says why there is no result has no seed."""
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
    """Raises `InvalidValue` for a plan that cannot work on the data, and says the warnings of its methods."""
    rule = (
        "true: the public records have no labels, so only a model of all records can be the ceiling"
    )
    require(plan.all_records or bench.dataset.public_labeled, "all_records", plan.all_records, rule)
    for method in plan.methods:
        method.check(bench)
    num_labels = bench.dataset.num_labels
    require_achievable_delta(plan.target_delta, num_queries=plan.num_queries, num_labels=num_labels)
    # an accountant that lacks a package says so here, once for all
    plan.accountant().compose(PureDpEvent(1.0)).get_epsilon(plan.target_delta)
    warnings_of_methods = [line for method in plan.methods for line in method.warnings(bench)]
    for line in dict.fromkeys(warnings_of_methods):
        monitor.say(line)


@dataclass(frozen=True)
class Calibration:
    """Parameters that were solved for, for a method at a budget; or why there are none."""

    parameters: Mapping[str, int | float | str | bool | list[Any] | None]
    epsilon: float | None  # the price, at most the budget's; None where nothing reaches the budget
    reason: str = ""  # why nothing does
    refusal: str | None = None  # see `Contender.refusal`; None where nobody asked

    @classmethod
    def read(cls, path: Path | None) -> Self | None:
        """Reads a file, or returns None where there is none. Nothing is priced again: it is for show."""
        if path is None or not os.path.lexists(path):
            return None
        return read_value(cls, path, name="calibration", rule=_RULE, remedy=_SOLVED_AGAIN)

    def write(self, path: Path) -> None:
        """Writes a file where all parameters are plain values, or lists of them."""
        if _is_plain(tuple(self.parameters.values())):
            make_folder(path.parent, within=path.parent.parent)
            write_text(path, to_json(self) + "\n")

    def note(self, allow_useless: bool) -> str:
        """Returns why the method is not trained; empty where it is."""
        if self.reason or allow_useless:
            return self.reason
        return self.refusal or ""


class NotTrained(ValueError):
    """A method that is not trained at a budget; the text is the note that stands in place of its results."""


def calibrated(
    method: Method, budget: Budget, bench: Bench, path: Path, *, allow_useless: bool = True
) -> Contender:
    """Returns the method at a budget, with the parameters of a file, or else solved for and written to the file.

    Parameters of a file are priced again: neither a file nor a calibrator can make a release cheaper than it is.
    Raises `InvalidValue` where nothing reaches the budget. Raises `NotTrained` where that was found before or, unless
    it is allowed, the method tells nothing at the budget.
    """
    on_file = Calibration.read(path)
    parameters = None
    if on_file is not None:
        _require_trained(on_file, allow_useless)
        parameters = {name: _tuple(value) for name, value in on_file.parameters.items()}
    try:
        contender = method.at(budget, bench, parameters)
        most = budget.required_epsilon()
        if not contender.epsilon <= most * (1 + 1e-9):
            raise InvalidValue(
                "epsilon", f"{contender.epsilon:.6g}", rule=f"at most {most:g} once calibrated"
            )
    except TypeError:
        if on_file is None:
            raise
        raise damaged(path, _RULE, "other parameters", _SOLVED_AGAIN) from None
    except InvalidValue as error:
        if on_file is None:
            Calibration(parameters={}, epsilon=None, reason=str(error)).write(path)
        raise
    calibration = on_file or Calibration(contender.parameters, contender.epsilon)
    if not allow_useless and calibration.refusal is None:
        calibration = replace(calibration, refusal=contender.refusal())
    if calibration is not on_file:
        calibration.write(path)
    _require_trained(calibration, allow_useless)
    return contender


def _require_trained(calibration: Calibration, allow_useless: bool) -> None:
    """Raises `NotTrained`, with the reason, for a method that is not trained."""
    note = calibration.note(allow_useless)
    if note:
        raise NotTrained(note)


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def _tuple(value: Any) -> Any:
    """Returns tuples for the lists that JSON has in their place."""
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Training of a method at a budget, or of a model that no epsilon covers, by seeds; each result is a file."""

    bench: Bench  # what all methods share
    blank: Run  # a run with what is known before
    # files of the results by the seed of noise and training, named after all that a result depends on
    paths: Mapping[int, Path]
    # makes it ready to be trained; raises `InvalidValue` where nothing reaches the budget, or tells nothing there
    contender: Callable[[], Contender]
    calibration: Path | None = None  # where its parameters are kept; None without a budget
    # whether it is trained although `Contender.refusal` speaks against it
    allow_useless: bool = True

    def read(self, seed: int) -> Run | None:
        """Returns the result of a seed, or None; raises `DamagedFile` where the file is not as it was written."""
        path = self.paths[seed]
        if not os.path.lexists(path):
            return None
        run = read_value(
            Run, path, name="run", rule="a result of this comparison", remedy=_TRAINED_AGAIN
        )
        return replace(run, aggregator=self.blank.aggregator)

    def write(self, seed: int, run: Run) -> Run:
        """Writes the result of a seed, and returns it."""
        path = self.paths[seed]
        make_folder(path.parent, within=path.parent.parent)
        write_text(path, to_json_line(run) + "\n")
        return run

    def done(self) -> list[Run] | None:
        """Returns the results, or a run that says why there are none; None where something is still to be trained."""
        calibration = Calibration.read(self.calibration)
        note = "" if calibration is None else calibration.note(self.allow_useless)
        if note:
            return [replace(self.blank, note=note)]
        is_judged = calibration is not None and calibration.refusal is not None
        if not (self.allow_useless or is_judged):
            return None
        runs = [run for run in map(self.read, self.paths) if run is not None]
        return runs if len(runs) == len(self.paths) else None

    def runs(self) -> list[Run]:
        """Returns the results; where nothing reaches the budget, or tells nothing there, a run that says so."""
        try:
            contender = self.contender()
        except (InvalidValue, NotTrained) as error:
            return [replace(self.blank, note=str(error))]
        return [
            self.read(seed) or self.write(seed, self._scored(contender, seed))
            for seed in self.paths
        ]

    def _scored(self, contender: Contender, seed: int) -> Run:
        """Trains with a seed, and returns the run with the five metrics on the test split."""
        blank = self.blank
        if not blank.is_baseline:
            blank = replace(blank, priced_epsilon=contender.epsilon, seed=seed)
        try:
            trained = contender.train(seed)
            test = self.bench.dataset.test
            predicted = trained.model.predict(test.inputs)
            probabilities = trained.model.predict_proba(test.inputs).astype(np.float64)
            scores = multilabel_metrics(predicted, probabilities, test.labels)
            intervals = metric_intervals(predicted, probabilities, test.labels)
        except InvalidValue as error:  # data that the method is not made for
            if blank.is_baseline:
                raise
            return replace(blank, note=str(error))
        return replace(
            blank,
            intervals=intervals,
            num_answered=trained.num_answered,
            label_accuracy=trained.label_accuracy,
            **vars(scores),
        )


def _result_paths(
    name: str, bench: Bench, seeds: Sequence[int], identity: list[Any]
) -> dict[int, Path]:
    """Returns the file of each seed's result, named after all that the result depends on."""
    folder = bench.folder / "runs"
    return {seed: folder / f"{name}-{digest([identity, seed])}.json" for seed in seeds}


def _private_trial(plan: ComparisonPlan, method: Method, epsilon: float, bench: Bench) -> Trial:
    """Returns the trial of a method at an epsilon."""
    accountant = plan.accountant().name
    identity = [VERSION, method.identity(bench), accountant, epsilon, plan.target_delta]
    name = f"{method.key}-{epsilon:g}"
    columns = method.columns(bench)
    # the first method of a name is shown by it, later ones add @T
    namesakes = [other for other in plan.methods if other.name == method.name]
    is_first = method is namesakes[0]
    shown = method.name if is_first else f"{method.name}@{columns['num_teachers']}"
    budget = Budget(epsilon=epsilon, delta=plan.target_delta, accountant=plan.accountant)
    path = bench.folder / "calibrations" / f"{name}-{digest(identity)}.json"
    return Trial(
        bench=bench,
        blank=Run(
            aggregator=shown,
            num_queries=plan.num_queries,
            epsilon=epsilon,
            delta=plan.target_delta,
            accountant=accountant,
            **columns,
        ),
        paths=_result_paths(name, bench, plan.seeds, [identity, bench.digest]),
        contender=partial(
            calibrated, method, budget, bench, path, allow_useless=plan.allow_useless
        ),
        calibration=path,
        allow_useless=plan.allow_useless,
    )


def _baseline_trials(plan: ComparisonPlan, bench: Bench) -> list[Trial]:
    """Returns trials of the student of the true labels, of the ceiling, and of the methods' references, each once."""
    references = []
    if bench.dataset.public_labeled:
        true_label_student = Reference(
            name="true_label_student",
            train=bench.true_label_student,
            identity=[bench.num_queries, full_text(bench.student)],
            columns={"student": kind(bench.student)},
        )
        references.append(true_label_student)
    if plan.all_records:
        references.append(bench.ceiling("all_records_model"))
    for method in plan.methods:
        references += method.references(bench)
    seed = bench.ensemble_seed
    trials: dict[Path, Trial] = {}
    for reference in references:
        identity = [VERSION, bench.digest, reference.identity]
        paths = _result_paths(reference.name, bench, [seed], identity)
        trials[paths[seed]] = Trial(
            bench=bench,
            blank=Run(
                aggregator=reference.name, num_queries=bench.num_queries, **reference.columns
            ),
            paths=paths,
            contender=partial(Contender, epsilon=math.inf, parameters={}, train=reference.train),
        )
    return list(trials.values())


def _constants(bench: Bench) -> Iterator[Run]:
    """Scores the models that predict the same for every sample, by the frequencies among the private records."""
    true = bench.dataset.test.labels
    frequencies = bench.dataset.private.labels.mean(axis=0)
    for name, constant in CONSTANTS.items():
        predicted, probabilities = constant(frequencies).for_samples(len(true))
        scores = multilabel_metrics(predicted, probabilities, true)
        yield Run(
            aggregator=name,
            num_queries=bench.num_queries,
            intervals=metric_intervals(predicted, probabilities, true),
            **vars(scores),
        )


def _run_trials(plan: ComparisonPlan, trials: list[Trial], monitor: Monitor) -> list[Run]:
    """Returns the results of all trials, in their order; worker processes read the data for themselves."""
    from joblib import Parallel, cpu_count, delayed, parallel_config  # loads slowly

    results: dict[int, list[Run]] = {}  # by the place of the trial
    tasks = []
    for index, trial in enumerate(trials):
        runs_on_disk = trial.done()
        if runs_on_disk is None:
            tasks.append(delayed(_results)(index, trial))
        else:
            results[index] = runs_on_disk
    num_steps = sum(len(trial.paths) for trial in trials)
    num_done = sum(len(trials[index].paths) for index in results)
    if results:
        folder = trials[0].bench.folder
        monitor.say(
            f"output_dir={folder}: {num_done} of {num_steps} releases and students are there"
        )
    with (
        monitor.stage("releases and students", num_steps) as advance,
        parallel_config("loky", inner_max_num_threads=1),
        warnings.catch_warnings(),
    ):
        # joblib replaces a worker that grew large
        warnings.filterwarnings("ignore", "A worker stopped while")
        advance(num_done)
        parallel = Parallel(
            n_jobs=min(plan.num_workers or cpu_count(), max(len(tasks), 1)),
            max_nbytes=None,
            batch_size=1,
            return_as="generator_unordered",
        )
        for index, runs in parallel(tasks):
            results[index] = runs
            num_done += len(trials[index].paths)
            advance(num_done, runs[0].aggregator)
    return [run for index in range(len(trials)) for run in results[index]]


def _results(index: int, trial: Trial) -> tuple[int, list[Run]]:
    """Returns the place of a trial and its results, in a worker; a refusal names the method."""
    try:
        with one_thread():  # the same last bits in a worker and in this process
            return index, trial.runs()
    except InvalidValue as error:
        name = f"{trial.blank.aggregator}, {error.name}"
        raise InvalidValue(name, error.value, rule=error.rule) from error


def _parameters(plan: ComparisonPlan, trials: list[Trial]) -> dict[str, list[tuple[float, str]]]:
    """Returns pairs of epsilon and the parameters that were solved for, in words, by method."""
    parameters: dict[str, list[tuple[float, str]]] = {}
    keys = [method.key for method in plan.methods if method.is_private for _ in plan.epsilons]
    for key, trial in zip(keys, trials, strict=True):
        calibration = Calibration.read(trial.calibration)
        solved_for = {} if calibration is None else calibration.parameters
        values = [
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in solved_for.items()
        ]
        reason = "" if calibration is None else calibration.reason
        words = reason or ", ".join(values)
        parameters.setdefault(key, []).append((trial.blank.epsilon or 0.0, words))
    return parameters
