"""The comparison: ensembles trained once, aggregators by epsilons by seeds, each result on disk as it comes."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed, parallel_config

from pate.accounting import Accountant, PureDpEvent, RdpAccountant
from pate.comparison.ensemble import Ensemble, num_groups
from pate.comparison.entrant import Entrant, digest
from pate.comparison.frontier import Frontier
from pate.comparison.page import write_page
from pate.comparison.picture import write_png
from pate.comparison.run import METRICS, Run, write_runs
from pate.comparison.source import Source
from pate.comparison.trial import SCRATCH, Baseline, Cell, Trial
from pate.comparison.tuning import Target, read_tuning
from pate.data import Dataset
from pate.data.dataset import require_dataset
from pate.files.fingerprint import full_text
from pate.networks.device import one_thread
from pate.pricing.query_count import require_achievable_delta
from pate.report import multilabel_metrics
from pate.run.folder import RunFolder
from pate.run.progress import Monitor, NullMonitor
from pate.run.warnings import plan_warnings
from pate.student import Student
from pate.teachers import Engine
from pate.validation import InvalidValue, require, require_choice, require_count, require_positive, require_probability


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """Everything that a comparison depends on.

    Attributes:
        load_dataset: reads the data set.
        entrants: who competes, each under another key.
        engine: how teachers are trained.
        student: the recipe of the non-private baseline.
        num_queries: how many public samples are asked, the first ones of the public pool.
        target_delta: in (0, 1).
        epsilons: the budgets, each > 0, ascending.
        seeds: of the noise and of the students, the same for all entrants and epsilons.
        ensemble_seed: of partitions and teachers.
        accountant: makes an empty accountant; it must survive being sent to another process.
        metric: which of the student's scores the frontier shows and the goals are stated in.
        shares: of the non-private student's gain over the prior, each in (0, 1]: the goals.
        num_workers: processes; None for as many as there are cores to this process.
        settings: plain values that the folder belongs to; aggregators, epsilons and seeds may change in it.
    """

    load_dataset: Callable[[], Dataset]
    entrants: tuple[Entrant, ...]
    engine: Engine
    student: Student
    num_queries: int
    target_delta: float
    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]
    ensemble_seed: int = 0
    accountant: Callable[[], Accountant] = RdpAccountant
    metric: str = "micro_f1"
    shares: tuple[float, ...] = (0.5, 0.8)
    num_workers: int | None = None
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
        names = tuple(entrant.key for entrant in self.entrants)
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
    """One comparison: its stages as properties, each computed or read back once."""

    def __init__(self, plan: ComparisonPlan, folder: RunFolder, monitor: Monitor) -> None:
        self.plan, self.folder, self.monitor = plan, folder, monitor

    def frontier(self) -> Frontier:
        """All stages in order, then the files."""
        self._check()
        self.folder.claim(self.plan.settings)
        self.folder.check_data(self.source.digest)
        for ensemble in self._distinct:
            self._prepare(ensemble)
        runs = self._runs()
        shutil.rmtree(self.folder.path / SCRATCH, ignore_errors=True)
        frontier = Frontier(
            runs=tuple(runs),
            metric=self.plan.metric,
            shares=self.plan.shares,
            dataset=self.dataset.name,
            real=self.dataset.real,
            num_test=len(self.dataset.test),
        )
        with self.monitor.stage("writing the frontier"):
            path = self.folder.path
            write_runs(path / "comparison.csv", runs)
            write_png(path / "frontier.png", frontier)
            write_page(path / "frontier.html", frontier, self._parameters())
        return frontier

    @cached_property
    def dataset(self) -> Dataset:
        with self.monitor.stage("reading the data"):
            return require_dataset(self.plan.load_dataset())

    @cached_property
    def source(self) -> Source:
        return Source.of(self.plan.load_dataset, self.dataset, self.plan.num_queries)

    @cached_property
    def ensembles(self) -> dict[str, Ensemble]:
        """By entrant; entrants with equal teachers share one."""
        made = {}
        for entrant in self.plan.entrants:
            num_teachers = entrant.num_teachers or num_groups(self.dataset)
            settings = [full_text(entrant.teacher), num_teachers, self.plan.ensemble_seed, self.plan.num_queries]
            path = self.folder.path / "ensembles" / f"{kind(entrant.teacher)}-{num_teachers}-{digest(settings)}"
            made[entrant.key] = Ensemble(path, entrant.teacher, num_teachers, self.plan.ensemble_seed)
        return made

    @property
    def _distinct(self) -> list[Ensemble]:
        return list({ensemble.folder: ensemble for ensemble in self.ensembles.values()}.values())

    @cached_property
    def trials(self) -> list[Trial]:
        return [self._trial(entrant, epsilon) for entrant in self.plan.entrants for epsilon in self.plan.epsilons]

    def _check(self) -> None:
        plan, data = self.plan, self.dataset
        rule = f"at most {len(data.public)}, the public pool"
        require(plan.num_queries <= len(data.public), "num_queries", plan.num_queries, rule)
        require_achievable_delta(plan.target_delta, num_queries=plan.num_queries, num_labels=data.num_labels)
        plan.accountant().compose(PureDpEvent(1.0)).get_epsilon(plan.target_delta)  # says what it lacks, once for all
        for ensemble in self._distinct:
            ensemble.check(data)
        found = [
            doubt
            for each in plan.entrants
            for doubt in plan_warnings(
                data, each.aggregator, each.teacher, num_teachers=self.ensembles[each.key].num_teachers
            )
        ]
        for doubt in dict.fromkeys(found):
            self.monitor.say(doubt)

    def _prepare(self, ensemble: Ensemble) -> None:
        name = f"{ensemble.num_teachers} {kind(ensemble.teacher)} teachers"
        with self.monitor.stage(name, ensemble.num_teachers) as advance:
            ensemble.prepare(self.dataset, self.plan.num_queries, self.plan.engine, advance)

    def _runs(self) -> list[Run]:
        """Baselines, then all entrants; what is not on disk is shared out among processes."""
        work: list[Baseline | Trial] = [*self._baselines(), *self.trials]
        done = {index: runs for index, item in enumerate(work) if (runs := item.done()) is not None}
        left = [index for index in range(len(work)) if index not in done]
        total, steps = sum(item.num_steps for item in work), sum(work[index].num_steps for index in done)
        with self.monitor.stage("releases and students", total) as advance:
            advance(steps)
            for index, runs in self._shared_out(work, left):
                done[index] = runs
                steps += work[index].num_steps
                advance(steps, runs[0].aggregator)
        return [self._prior(), *(run for index in range(len(work)) for run in done[index])]

    def _shared_out(self, work: list[Baseline | Trial], left: list[int]) -> Iterator[tuple[int, list[Run]]]:
        """Results as they come, from processes that read the data for themselves."""
        num_workers = min(self.plan.num_workers or cpu_count(), max(len(left), 1))
        tasks = [delayed(_results)(index, work[index], self.source) for index in left]
        how: dict[str, Any] = {"max_nbytes": None, "batch_size": 1, "return_as": "generator_unordered"}
        with parallel_config("loky", inner_max_num_threads=1), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A worker stopped while")  # one that grew large was replaced
            yield from Parallel(num_workers, **how)(tasks)

    def _trial(self, entrant: Entrant, epsilon: float) -> Trial:
        plan, ensemble = self.plan, self.ensembles[entrant.key]
        target = Target(
            epsilon=epsilon,
            delta=plan.target_delta,
            accountant=plan.accountant,
            num_queries=plan.num_queries,
            num_labels=self.dataset.num_labels,
            num_teachers=ensemble.num_teachers,
        )
        adjacency, accountant = str(entrant.aggregator.adjacency), plan.accountant().name
        asked = entrant.aggregator.identity(num_labels=target.num_labels, num_teachers=target.num_teachers)
        priced = [version("pate"), asked, accountant, epsilon, plan.target_delta, *target.shape.values()]
        seen = [priced, self.source.digest, ensemble.folder.name, full_text(entrant.student)]
        name = f"{entrant.key}-{epsilon:g}"
        return Trial(
            entrant,
            target,
            ensemble,
            self.folder.path / "calibrations" / f"{name}-{digest(priced)}.json",
            self._cells(name, plan.seeds, seen),
            Run(
                aggregator=self._column(entrant, ensemble.num_teachers),
                adjacency=adjacency,
                epsilon=epsilon,
                delta=plan.target_delta,
                accountant=accountant,
                num_queries=plan.num_queries,
                teacher=kind(entrant.teacher),
                num_teachers=ensemble.num_teachers,
                student=kind(entrant.student),
            ),
        )

    def _column(self, entrant: Entrant, num_teachers: int) -> str:
        """The name in the CSV, which no two entrants share: the first of a name has it, later ones add @T."""
        first = next(other for other in self.plan.entrants if other.name == entrant.name)
        return entrant.name if entrant is first else f"{entrant.name}@{num_teachers}"

    def _parameters(self) -> dict[str, list[tuple[float, str]]]:
        """What was solved for, in words, by entrant and epsilon."""
        found: dict[str, list[tuple[float, str]]] = {}
        for trial in self.trials:
            kept = read_tuning(trial.tuning_path)
            values = [f"{name} {_text(value)}" for name, value in kept.parameters.items()] if kept else []
            text = kept.reason if kept and kept.reason else ", ".join(values)
            found.setdefault(trial.entrant.key, []).append((trial.target.epsilon, text))
        return found

    def _cells(self, name: str, seeds: tuple[int, ...], seen: Any) -> tuple[Cell, ...]:
        """A file for each seed, named after all that its result depends on."""
        runs = self.folder.path / "runs"
        return tuple(Cell(seed, runs / f"{name}-{digest([seen, seed])}.json") for seed in seeds)

    def _baselines(self) -> list[Baseline]:
        """The student of the true labels, and that of each ensemble's majority."""
        plan = self.plan
        seen = [version("pate"), self.source.digest, plan.num_queries, full_text(plan.student)]
        blank = Run(aggregator="non_private_student", num_queries=plan.num_queries, student=kind(plan.student))
        (cell,) = self._cells("non_private_student", (plan.ensemble_seed,), seen)
        made = [Baseline(plan.student, None, cell, blank)]
        for ensemble in filter(lambda ensemble: ensemble.is_trained, self._distinct):
            (cell,) = self._cells("majority_vote_student", (plan.ensemble_seed,), [*seen, ensemble.folder.name])
            about: dict[str, Any] = {"teacher": kind(ensemble.teacher), "num_teachers": ensemble.num_teachers}
            blank = Run(
                aggregator="majority_vote_student", num_queries=plan.num_queries, student=kind(plan.student), **about
            )
            made.append(Baseline(plan.student, ensemble, cell, blank))
        return made

    def _prior(self) -> Run:
        """Each label's majority among the private records, whatever the sample."""
        prevalence, true = self.dataset.private.labels.mean(axis=0), self.dataset.test.labels
        guess = np.tile(prevalence, (len(true), 1))
        return Run(
            aggregator="prior", num_queries=self.plan.num_queries, **multilabel_metrics(guess > 0.5, guess, true)
        )


def kind(recipe: Any) -> str:
    """A teacher or student as tables name it: `low_rank` for `LowRankStudent`."""
    name = type(recipe).__name__.removesuffix("Teacher").removesuffix("Student")
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _results(index: int, item: Baseline | Trial, source: Source) -> tuple[int, list[Run]]:
    """One piece of work, in a worker; a refusal names what it was about."""
    try:
        with one_thread():  # the same last bits in a worker and in this process
            return index, item.runs(source)
    except InvalidValue as error:
        raise InvalidValue(f"{item.blank.aggregator}, {error}") from error
