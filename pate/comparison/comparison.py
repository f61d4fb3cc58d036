"""The comparison of methods: each method is trained at each epsilon with each seed, and scored on the test split."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from pate.accounting import Adjacency
from pate.comparison.bench import Bench
from pate.comparison.earlier_pages import keep_earlier_pages
from pate.comparison.frontier import Frontier
from pate.comparison.plan import ComparisonPlan, check_plan
from pate.comparison.runs import Run, write_runs
from pate.comparison.trial import (
    baseline_trials,
    constant_runs,
    private_trial,
    run_trials,
    solved_parameters,
)
from pate.data import Dataset
from pate.data.dataset import require_dataset
from pate.files.atomic import write_text
from pate.progress import Monitor
from pate.run.folder import EnsembleFolder, RunFolder
from pate.run.owned_folder import OwnFile, OwnSubfolder
from pate.threads import all_cores


class ComparisonFolder(RunFolder):
    """The folder of a comparison, whose ensembles have folders of their own in `ensembles/`."""

    table = OwnFile("comparison.csv")
    page = OwnFile("frontier.html")
    picture = OwnFile("frontier.png")
    trials = OwnSubfolder("runs", patterns=("*.json",))
    calibrations = OwnSubfolder("calibrations", patterns=("*.json",))
    ensembles = OwnSubfolder("ensembles")

    def remove_partials(self) -> None:
        """Removes partial files that a killed process left in this folder and in the folders of its ensembles."""
        super().remove_partials()
        for ensemble_folder in self.ensembles.glob("*"):
            EnsembleFolder(ensemble_folder).remove_partials()


@all_cores()
def compare(
    plan: ComparisonPlan, output_dir: str | PathLike[str], monitor: Monitor | None = None
) -> Frontier:
    """Runs a comparison in a folder, or continues a comparison of that folder, and returns its results.

    Ensembles and runs whose results are in the folder are not repeated. The files comparison.csv, frontier.html and
    frontier.png show the runs of this plan. Earlier files that show other runs are renamed.

    Args:
        plan: the methods, epsilons, seeds and data.
        output_dir: the folder.
        monitor: receives the progress; None for no reports.

    Raises:
        InvalidValue: the plan does not fit the data, or the folder has other contents; nothing is trained then. The
            error is also raised if a model without privacy cannot handle the data.
    """
    comparison_folder = ComparisonFolder(Path(output_dir))
    monitor = monitor or Monitor()
    with comparison_folder.lock_for(settings=plan.settings):
        with monitor.stage("reading the data"):
            dataset = require_dataset(plan.load_dataset())
        if plan.fewer_queries:
            plan = replace(plan, num_queries=min(plan.num_queries, len(dataset.public)))
        bench = Bench.for_dataset(
            dataset,
            load_dataset=plan.load_dataset,
            num_queries=plan.num_queries,
            engine=plan.engine,
            student_recipe=plan.student,
            ensemble_seed=plan.ensemble_seed,
            folder=comparison_folder.path,
        )
        check_plan(plan, bench=bench, monitor=monitor)
        comparison_folder.claim(plan.settings, digests={"data": bench.digest})
        for method in plan.methods:
            method.prepare(bench, monitor)
        private_trials = [
            private_trial(plan, method=method, epsilon=epsilon, bench=bench)
            for method in plan.methods
            if method.is_private
            for epsilon in plan.epsilons
        ]
        trials = [*baseline_trials(plan, bench=bench), *private_trials]
        runs = [*constant_runs(bench), *run_trials(plan, trials=trials, monitor=monitor)]
        frontier = Frontier(
            runs=tuple(runs),
            metric=plan.metric,
            shares=plan.shares,
            dataset=dataset.name,
            real=dataset.real,
            num_test=len(dataset.test),
            unit=_unit_of(runs, dataset=dataset),
        )
        with monitor.stage("writing the frontier"):
            from pate.comparison.page import frontier_picture, render_page  # loads matplotlib
            from pate.report.picture import on_paper

            renaming_line = keep_earlier_pages(comparison_folder.path, comparison_runs=runs)
            if renaming_line:
                monitor.say(renaming_line)
            write_runs(comparison_folder.table, runs)
            titles = [method_line.title for method_line in frontier.ranked]
            picture = frontier_picture(frontier, titles, color_for=on_paper)
            picture.write_png(comparison_folder.picture)
            page = render_page(frontier, solved_parameters(plan, trials=private_trials))
            write_text(comparison_folder.page, text=page)
    return frontier


def _unit_of(runs: Sequence[Run], dataset: Dataset) -> str:
    """Returns the unit of privacy of all runs in words; an empty string if their adjacencies differ or none has one."""
    adjacencies = {run.adjacency for run in runs if run.adjacency is not None}
    if len(adjacencies) != 1:
        return ""
    return dataset.privacy_unit.protected_under(Adjacency.parse(adjacencies.pop()))
