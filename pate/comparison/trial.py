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
from pate.files.digests import digest, unabridged_repr
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
        result_file_by_seed: the file of each result, by the seed of noise and training. Its name contains a digest of
            all that the result depends on.
        make_contender: returns the method, ready to be trained; raises `InvalidValue` or `NotTrained` if it is not
            trained at the budget.
        calibration_file: the file of the method's parameters; None for a model without a budget.
        allow_useless: whether the method is trained although `Contender.refusal` has a reason not to.
    """

    bench: Bench
    unscored_run: Run
    result_file_by_seed: Mapping[int, Path]
    make_contender: Callable[[], Contender]
    calibration_file: Path | None = None
    allow_useless: bool = True

    def read(self, seed: int) -> Run | None:
        """Returns the result of a seed from its file, or None if there is no file.

        Raises `DamagedFile` if the file holds no result.
        """
        result_file = self.result_file_by_seed[seed]
        if not os.path.lexists(result_file):
            return None
        stored_run = read_value(
            Run, result_file, name="run", rule="a result of this comparison", remedy=_REMEDY
        )
        method_title = self.unscored_run.aggregator
        return replace(stored_run, aggregator=method_title)

    def write(self, seed: int, comparison_run: Run) -> Run:
        """Writes the result of a seed to its file, and returns the result."""
        result_file = self.result_file_by_seed[seed]
        make_folder(result_file.parent, existing_parent=result_file.parent.parent)
        write_text(result_file, text=to_json_line(comparison_run) + "\n")
        return comparison_run

    def stored_runs(self) -> list[Run] | None:
        """Returns the results of all seeds from their files; None if something has to be trained or computed.

        If the file of the parameters says that the method is not trained, the result is one run whose note says why.
        That is so if no parameters meet the budget; or if it would learn next to nothing, unless `allow_useless`.
        """
        calibration = Calibration.read(self.calibration_file)
        if calibration is not None:
            skip_reason = calibration.skip_reason(allow_useless=self.allow_useless)
            if skip_reason:
                return [replace(self.unscored_run, note=skip_reason)]
        is_refusal_known = calibration is not None and calibration.refusal is not None
        if not (self.allow_useless or is_refusal_known):
            return None
        stored_runs = [
            stored_run
            for stored_run in map(self.read, self.result_file_by_seed)
            if stored_run is not None
        ]
        return stored_runs if len(stored_runs) == len(self.result_file_by_seed) else None

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
            for seed in self.result_file_by_seed
        ]

    def _train_and_score(self, contender: Contender, seed: int) -> Run:
        """Trains a contender with a seed, and returns the run with its five scores on the test split.

        If a private method cannot handle the data, the run has a note in place of scores. A baseline raises the error.
        """
        unscored_run = self.unscored_run
        if not unscored_run.is_baseline:
            unscored_run = replace(unscored_run, priced_epsilon=contender.epsilon, seed=seed)
        try:
            trained_model = contender.train(seed)
            unscored_run = replace(
                unscored_run,
                num_answered=trained_model.num_answered,
                label_accuracy=trained_model.label_accuracy,
            )
            test_split = self.bench.dataset.test
            return _with_scores(
                unscored_run,
                predicted_labels=trained_model.model.predict(test_split.inputs),
                predicted_probabilities=trained_model.model.predict_proba(test_split.inputs).astype(
                    np.float64
                ),
                test_split=test_split,
            )
        except InvalidValue as error:  # the method cannot handle the data
            if unscored_run.is_baseline:
                raise
            return replace(unscored_run, note=str(error))


def _with_scores(
    comparison_run: Run,
    *,
    predicted_labels: BoolArray,
    predicted_probabilities: FloatArray,
    test_split: Split,
) -> Run:
    """Returns a run with the five scores of a model on the test split, and their intervals.

    Args:
        comparison_run: the run without scores.
        predicted_labels: the predicted labels of the test samples, `[num_test, num_labels]`.
        predicted_probabilities: their predicted probabilities, `[num_test, num_labels]`.
        test_split: the test split.
    """
    scores = multilabel_metrics(
        predicted_labels,
        scores=predicted_probabilities,
        true_labels=test_split.labels,
        known=test_split.known,
    )
    return replace(
        comparison_run,
        intervals=metric_intervals(
            predicted_labels,
            scores=predicted_probabilities,
            true_labels=test_split.labels,
            known=test_split.known,
        ),
        accuracy=scores.accuracy,
        balanced_accuracy=scores.balanced_accuracy,
        micro_f1=scores.micro_f1,
        macro_f1=scores.macro_f1,
        mean_average_precision=scores.mean_average_precision,
    )


def result_paths(
    name_start: str, bench: Bench, seeds: Sequence[int], result_settings: list[Any]
) -> dict[int, Path]:
    """Returns the file of the result of each seed, by the seed.

    Args:
        name_start: the start of the files' names.
        bench: what all methods share.
        seeds: the seeds.
        result_settings: all values on which a result depends, apart from the seed. The name of a file contains a digest
            of these values and the seed.
    """
    runs_folder = bench.folder / "runs"
    return {
        seed: runs_folder / f"{name_start}-{digest([result_settings, seed])}.json" for seed in seeds
    }


def private_trial(
    comparison_plan: ComparisonPlan, method: Method, epsilon: float, bench: Bench
) -> Trial:
    """Returns the trial of a method with privacy at an epsilon, with the seeds and the delta of the plan."""
    make_accountant = comparison_plan.accountant
    accountant_name = make_accountant().name
    calibration_settings = [
        VERSION,
        method.identity(bench),
        accountant_name,
        epsilon,
        comparison_plan.target_delta,
    ]
    trial_name = f"{method.key}-{epsilon:g}"
    cell_by_column = method.columns(bench)
    # Tables show the first method of a name by its name, and later ones with @ and their number of teachers.
    namesakes = [
        other_method for other_method in comparison_plan.methods if other_method.name == method.name
    ]
    is_first = method is namesakes[0]
    method_title = method.name if is_first else f"{method.name}@{cell_by_column['num_teachers']}"
    budget = Budget(epsilon=epsilon, delta=comparison_plan.target_delta, accountant=make_accountant)
    calibration_file = (
        bench.folder / "calibrations" / f"{trial_name}-{digest(calibration_settings)}.json"
    )
    return Trial(
        bench=bench,
        unscored_run=Run(
            aggregator=method_title,
            num_queries=comparison_plan.num_queries,
            epsilon=budget.epsilon,
            delta=budget.delta,
            accountant=accountant_name,
            **cell_by_column,
        ),
        result_file_by_seed=result_paths(
            name_start=trial_name,
            bench=bench,
            seeds=comparison_plan.seeds,
            result_settings=[calibration_settings, bench.digest],
        ),
        make_contender=partial(
            calibrate_method,
            method=method,
            budget=budget,
            bench=bench,
            calibration_file=calibration_file,
            allow_useless=comparison_plan.allow_useless,
        ),
        calibration_file=calibration_file,
        allow_useless=comparison_plan.allow_useless,
    )


def baseline_trials(comparison_plan: ComparisonPlan, bench: Bench) -> list[Trial]:
    """Returns the trials of all models without privacy, without repetition.

    These are the student of the true labels, if the public records have labels; the model of all private records, if
    the plan asks for it; and the references of the methods.
    """
    references = []
    if bench.dataset.public_labeled:
        cell_by_column = {"student": recipe_kind(bench.student_recipe)}
        true_label_student = Reference(
            name="true_label_student",
            train=bench.true_label_student,
            identity=[bench.num_queries, unabridged_repr(bench.student_recipe)],
            columns=cell_by_column,
        )
        references.append(true_label_student)
    if comparison_plan.all_records:
        references.append(bench.ceiling(reference_name="all_records_model"))
    for method in comparison_plan.methods:
        references += method.references(bench)
    seed = bench.ensemble_seed
    trial_by_file: dict[Path, Trial] = {}
    for reference in references:
        result_settings = [VERSION, bench.digest, reference.identity]
        result_file_by_seed = result_paths(
            name_start=reference.name, bench=bench, seeds=[seed], result_settings=result_settings
        )
        trial_by_file[result_file_by_seed[seed]] = Trial(
            bench=bench,
            unscored_run=Run(
                aggregator=reference.name, num_queries=bench.num_queries, **reference.columns
            ),
            result_file_by_seed=result_file_by_seed,
            make_contender=partial(
                Contender, epsilon=math.inf, parameters={}, train=reference.train
            ),
        )
    return list(trial_by_file.values())


def constant_runs(bench: Bench) -> Iterator[Run]:
    """Yields a run for each of `CONSTANTS`, the models that predict the same labels for every sample.

    The labels follow from the frequencies of labels among private records.
    """
    test_split = bench.dataset.test
    frequency_of_labels = bench.dataset.private.label_shares
    for constant_name, make_constant in CONSTANTS.items():
        predicted_labels, label_scores = make_constant(frequency_of_labels).for_samples(
            len(test_split)
        )
        yield _with_scores(
            Run(aggregator=constant_name, num_queries=bench.num_queries),
            predicted_labels=predicted_labels,
            predicted_probabilities=label_scores,
            test_split=test_split,
        )


def run_trials(comparison_plan: ComparisonPlan, trials: list[Trial], monitor: Monitor) -> list[Run]:
    """Returns the results of all trials, in the order of the trials; worker processes train what is missing."""
    from joblib import Parallel, cpu_count, delayed, parallel_config  # loads slowly

    runs_by_trial_index: dict[int, list[Run]] = {}  # by the index of the trial
    delayed_missing_trials = []
    for trial_index, trial in enumerate(trials):
        runs_on_disk = trial.stored_runs()
        if runs_on_disk is None:
            delayed_missing_trials.append(delayed(_run_trial)(trial_index, trial))
        else:
            runs_by_trial_index[trial_index] = runs_on_disk
    num_results = sum(len(trial.result_file_by_seed) for trial in trials)
    num_done_results = sum(
        len(trials[trial_index].result_file_by_seed) for trial_index in runs_by_trial_index
    )
    if runs_by_trial_index:
        comparison_folder = trials[0].bench.folder
        monitor.say(
            f"output_dir={comparison_folder}: {num_done_results} of {num_results} releases and students are there"
        )
    with (
        monitor.stage("releases and students", num_results) as advance,
        parallel_config("loky", inner_max_num_threads=1),
        warnings.catch_warnings(),
    ):
        # joblib warns when it replaces a worker whose memory has grown.
        warnings.filterwarnings("ignore", "A worker stopped while")
        advance(num_done_results)
        parallel = Parallel(
            n_jobs=min(
                comparison_plan.num_workers or cpu_count(), max(len(delayed_missing_trials), 1)
            ),
            max_nbytes=None,
            batch_size=1,
            return_as="generator_unordered",
        )
        for trial_index, runs_of_trial in parallel(delayed_missing_trials):
            runs_by_trial_index[trial_index] = runs_of_trial
            num_done_results += len(trials[trial_index].result_file_by_seed)
            last_method_title = runs_of_trial[0].aggregator
            advance(num_done_results, last_method_title)
    return [run for trial_index in range(len(trials)) for run in runs_by_trial_index[trial_index]]


def _run_trial(trial_index: int, trial: Trial) -> tuple[int, list[Run]]:
    """Runs a trial in a worker process, and returns its index and its results.

    An `InvalidValue` names the method of the trial.
    """
    try:
        with one_thread():  # the same last bits in a worker and in this process
            return trial_index, trial.run_all()
    except InvalidValue as error:
        setting_name = f"{trial.unscored_run.aggregator}, {error.name}"
        raise InvalidValue(setting_name, error.value, rule=error.rule) from error


def solved_parameters(
    comparison_plan: ComparisonPlan, trials: list[Trial]
) -> dict[str, list[tuple[float, str]]]:
    """Returns, by the key of each private method, pairs of an epsilon and the parameters that meet it, in words.

    If no parameters meet the epsilon, the words are the reason.

    Args:
        comparison_plan: the plan of the comparison.
        trials: one for each private method and epsilon, method by method in the order of the plan.
    """
    parameter_texts_by_method: dict[str, list[tuple[float, str]]] = {}
    method_keys = [
        method.key
        for method in comparison_plan.methods
        if method.is_private
        for _ in comparison_plan.epsilons
    ]
    for method_key, trial in zip(method_keys, trials, strict=True):
        calibration = Calibration.read(trial.calibration_file)
        solved_for = {} if calibration is None else calibration.parameters
        parameter_texts = [
            f"{parameter_name} {parameter:.3g}"
            if isinstance(parameter, float)
            else f"{parameter_name} {parameter}"
            for parameter_name, parameter in solved_for.items()
        ]
        failure_reason = "" if calibration is None else calibration.reason
        parameters_text = failure_reason or ", ".join(parameter_texts)
        parameter_texts_by_method.setdefault(method_key, []).append(
            (trial.unscored_run.epsilon or 0.0, parameters_text)
        )
    return parameter_texts_by_method
