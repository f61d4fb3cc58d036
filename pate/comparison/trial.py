"""Trials of a comparison: a method at a budget, or a reference model, is trained with all seeds; files keep results."""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pate.accounting import Budget
from pate.array_types import BoolArray, FloatArray
from pate.comparison.bench import Bench
from pate.comparison.calibration import Calibration, NotTrained, calibrate_method
from pate.comparison.method import Contender, Method
from pate.comparison.plan import ComparisonPlan
from pate.comparison.runs import Run
from pate.comparison.trained import Reference, recipe_kind
from pate.data import Split
from pate.extras import VERSION
from pate.files.atomic import write_text
from pate.files.digests import digest, full_text
from pate.files.paths import make_folder
from pate.files.reading import read_value
from pate.files.strict_json import to_json_line
from pate.progress import Monitor
from pate.report import metric_intervals, multilabel_metrics
from pate.report.constants import CONSTANTS
from pate.threads import one_thread
from pate.validation import InvalidValue

# What the error of a damaged result advises.
_REMEDY = "remove it, and the same command makes it again"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A method at a budget, or a model without privacy, that is trained once for each seed; files keep the results.

    Attributes:
        bench: the data, queries and student that all methods share.
        unscored_run: a run with all that is known before the training.
        paths: the file of each result, by the seed of noise and training. Its name contains a digest of all that the
            result depends on.
        make_contender: returns the method, ready to be trained; raises `InvalidValue` or `NotTrained` if it is not
            trained at the budget.
        calibration_file: the file of the method's parameters; None for a model without a budget.
        allow_useless: whether the method is trained although `Contender.refusal` has a reason not to.
    """

    bench: Bench
    unscored_run: Run
    paths: Mapping[int, Path]
    make_contender: Callable[[], Contender]
    calibration_file: Path | None = None
    allow_useless: bool = True

    def read(self, seed: int) -> Run | None:
        """Returns the result of a seed from its file, or None if there is no file.

        Raises `DamagedFile` if the file holds no result.
        """
        path = self.paths[seed]
        if not os.path.lexists(path):
            return None
        run = read_value(Run, path, name="run", rule="a result of this comparison", remedy=_REMEDY)
        return replace(run, aggregator=self.unscored_run.aggregator)

    def write(self, seed: int, comparison_run: Run) -> Run:
        """Writes the result of a seed to its file, and returns the result."""
        path = self.paths[seed]
        make_folder(path.parent, existing_parent=path.parent.parent)
        write_text(path, text=to_json_line(comparison_run) + "\n")
        return comparison_run

    def stored_runs(self) -> list[Run] | None:
        """Returns the results of all seeds from their files; None if something has to be trained or computed.

        If the file of the parameters says that the method is not trained, the result is one run whose note says why.
        That is so if no parameters meet the budget; or if it would learn next to nothing, unless `allow_useless`.
        """
        calibration = Calibration.read(self.calibration_file)
        if calibration is not None:
            reason = calibration.skip_reason(allow_useless=self.allow_useless)
            if reason:
                return [replace(self.unscored_run, note=reason)]
        is_refusal_known = calibration is not None and calibration.refusal is not None
        if not (self.allow_useless or is_refusal_known):
            return None
        runs = [run for run in map(self.read, self.paths) if run is not None]
        return runs if len(runs) == len(self.paths) else None

    def run_all(self) -> list[Run]:
        """Returns the results of all seeds, and trains where a result is missing.

        If `make_contender` raises, the method is not trained, and the result is one run whose note says why.
        """
        try:
            contender = self.make_contender()
        except (InvalidValue, NotTrained) as error:
            return [replace(self.unscored_run, note=str(error))]
        return [
            self.read(seed)
            or self.write(seed, comparison_run=self._train_and_score(contender, seed=seed))
            for seed in self.paths
        ]

    def _train_and_score(self, contender: Contender, seed: int) -> Run:
        """Trains a contender with a seed, and returns the run with its five scores on the test split.

        If a private method cannot handle the data, the run has a note in place of scores. A baseline raises the error.
        """
        unscored_run = self.unscored_run
        if not unscored_run.is_baseline:
            unscored_run = replace(unscored_run, priced_epsilon=contender.epsilon, seed=seed)
        try:
            trained = contender.train(seed)
            unscored_run = replace(
                unscored_run,
                num_answered=trained.num_answered,
                label_accuracy=trained.label_accuracy,
            )
            test_split = self.bench.dataset.test
            return _with_scores(
                unscored_run,
                predicted=trained.model.predict(test_split.inputs),
                probabilities=trained.model.predict_proba(test_split.inputs).astype(np.float64),
                test_split=test_split,
            )
        except InvalidValue as error:  # the method cannot handle the data
            if unscored_run.is_baseline:
                raise
            return replace(unscored_run, note=str(error))


def _with_scores(
    comparison_run: Run, *, predicted: BoolArray, probabilities: FloatArray, test_split: Split
) -> Run:
    """Returns a run with the five scores of a model on the test split, and their intervals.

    Args:
        comparison_run: the run without scores.
        predicted: the predicted labels of the test samples, `[num_test, num_labels]`.
        probabilities: their predicted probabilities, `[num_test, num_labels]`.
        test_split: the test split.
    """
    scores = multilabel_metrics(
        predicted, scores=probabilities, true_labels=test_split.labels, known=test_split.known
    )
    return replace(
        comparison_run,
        intervals=metric_intervals(
            predicted, scores=probabilities, true_labels=test_split.labels, known=test_split.known
        ),
        accuracy=scores.accuracy,
        balanced_accuracy=scores.balanced_accuracy,
        micro_f1=scores.micro_f1,
        macro_f1=scores.macro_f1,
        mean_average_precision=scores.mean_average_precision,
    )


def result_paths(
    name_start: str, bench: Bench, seeds: Sequence[int], identity: list[Any]
) -> dict[int, Path]:
    """Returns the file of the result of each seed, by the seed.

    Args:
        name_start: the start of the files' names.
        bench: what all methods share.
        seeds: the seeds.
        identity: all values on which a result depends, apart from the seed; the files' names contain their digest.
    """
    folder = bench.folder / "runs"
    return {seed: folder / f"{name_start}-{digest([identity, seed])}.json" for seed in seeds}


def private_trial(
    comparison_plan: ComparisonPlan, method: Method, epsilon: float, bench: Bench
) -> Trial:
    """Returns the trial of a method with privacy at an epsilon, with the seeds and the delta of the plan."""
    accountant = comparison_plan.accountant().name
    identity = [VERSION, method.identity(bench), accountant, epsilon, comparison_plan.target_delta]
    name = f"{method.key}-{epsilon:g}"
    columns = method.columns(bench)
    # Tables show the first method of a name by its name, and later ones with @ and their number of teachers.
    namesakes = [other for other in comparison_plan.methods if other.name == method.name]
    is_first = method is namesakes[0]
    title = method.name if is_first else f"{method.name}@{columns['num_teachers']}"
    budget = Budget(
        epsilon=epsilon, delta=comparison_plan.target_delta, accountant=comparison_plan.accountant
    )
    path = bench.folder / "calibrations" / f"{name}-{digest(identity)}.json"
    return Trial(
        bench=bench,
        unscored_run=Run(
            aggregator=title,
            num_queries=comparison_plan.num_queries,
            epsilon=epsilon,
            delta=comparison_plan.target_delta,
            accountant=accountant,
            **columns,
        ),
        paths=result_paths(
            name, bench=bench, seeds=comparison_plan.seeds, identity=[identity, bench.digest]
        ),
        make_contender=partial(
            calibrate_method,
            method=method,
            budget=budget,
            bench=bench,
            file_path=path,
            allow_useless=comparison_plan.allow_useless,
        ),
        calibration_file=path,
        allow_useless=comparison_plan.allow_useless,
    )


def baseline_trials(comparison_plan: ComparisonPlan, bench: Bench) -> list[Trial]:
    """Returns the trials of all models without privacy, without repetition.

    These are the student of the true labels, if the public records have labels; the model of all private records, if
    the plan asks for it; and the references of the methods.
    """
    references = []
    if bench.dataset.public_labeled:
        true_label_student = Reference(
            name="true_label_student",
            train=bench.true_label_student,
            identity=[bench.num_queries, full_text(bench.student_recipe)],
            columns={"student": recipe_kind(bench.student_recipe)},
        )
        references.append(true_label_student)
    if comparison_plan.all_records:
        references.append(bench.ceiling("all_records_model"))
    for method in comparison_plan.methods:
        references += method.references(bench)
    seed = bench.ensemble_seed
    trials: dict[Path, Trial] = {}
    for reference in references:
        identity = [VERSION, bench.digest, reference.identity]
        paths = result_paths(reference.name, bench=bench, seeds=[seed], identity=identity)
        trials[paths[seed]] = Trial(
            bench=bench,
            unscored_run=Run(
                aggregator=reference.name, num_queries=bench.num_queries, **reference.columns
            ),
            paths=paths,
            make_contender=partial(
                Contender, epsilon=math.inf, parameters={}, train=reference.train
            ),
        )
    return list(trials.values())


def constant_runs(bench: Bench) -> Iterator[Run]:
    """Yields a run for each of `CONSTANTS`, the models that predict the same labels for every sample.

    The labels follow from the frequencies of labels among private records.
    """
    test = bench.dataset.test
    frequencies = bench.dataset.private.label_shares
    for name, constant in CONSTANTS.items():
        predicted, probabilities = constant(frequencies).for_samples(len(test))
        yield _with_scores(
            Run(aggregator=name, num_queries=bench.num_queries),
            predicted=predicted,
            probabilities=probabilities,
            test_split=test,
        )


def run_trials(comparison_plan: ComparisonPlan, trials: list[Trial], monitor: Monitor) -> list[Run]:
    """Returns the results of all trials, in the order of the trials; worker processes train what is missing."""
    from joblib import Parallel, cpu_count, delayed, parallel_config  # loads slowly

    results: dict[int, list[Run]] = {}  # by the index of the trial
    tasks = []
    for trial_index, trial in enumerate(trials):
        runs_on_disk = trial.stored_runs()
        if runs_on_disk is None:
            tasks.append(delayed(_run_trial)(trial_index, trial))
        else:
            results[trial_index] = runs_on_disk
    num_steps = sum(len(trial.paths) for trial in trials)
    num_done = sum(len(trials[trial_index].paths) for trial_index in results)
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
        # joblib warns when it replaces a worker whose memory has grown.
        warnings.filterwarnings("ignore", "A worker stopped while")
        advance(num_done)
        parallel = Parallel(
            n_jobs=min(comparison_plan.num_workers or cpu_count(), max(len(tasks), 1)),
            max_nbytes=None,
            batch_size=1,
            return_as="generator_unordered",
        )
        for trial_index, runs in parallel(tasks):
            results[trial_index] = runs
            num_done += len(trials[trial_index].paths)
            name_of_last = runs[0].aggregator
            advance(num_done, name_of_last)
    return [run for trial_index in range(len(trials)) for run in results[trial_index]]


def _run_trial(trial_index: int, trial: Trial) -> tuple[int, list[Run]]:
    """Runs a trial in a worker process, and returns its index and its results.

    An `InvalidValue` names the method of the trial.
    """
    try:
        with one_thread():  # the same last bits in a worker and in this process
            return trial_index, trial.run_all()
    except InvalidValue as error:
        name = f"{trial.unscored_run.aggregator}, {error.name}"
        raise InvalidValue(name, error.value, rule=error.rule) from error


def solved_parameters(
    comparison_plan: ComparisonPlan, trials: list[Trial]
) -> dict[str, list[tuple[float, str]]]:
    """Returns, by the key of each private method, pairs of an epsilon and the parameters that meet it, in words.

    If no parameters meet the epsilon, the words are the reason.

    Args:
        comparison_plan: the plan of the comparison.
        trials: one for each private method and epsilon, method by method in the order of the plan.
    """
    parameters: dict[str, list[tuple[float, str]]] = {}
    keys = [
        method.key
        for method in comparison_plan.methods
        if method.is_private
        for _ in comparison_plan.epsilons
    ]
    for key, trial in zip(keys, trials, strict=True):
        calibration = Calibration.read(trial.calibration_file)
        solved_for = {} if calibration is None else calibration.parameters
        values = [
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in solved_for.items()
        ]
        reason = "" if calibration is None else calibration.reason
        words = reason or ", ".join(values)
        parameters.setdefault(key, []).append((trial.unscored_run.epsilon or 0.0, words))
    return parameters
