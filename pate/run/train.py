"""The steps of a run: the price, private training and votes, the paid release, the student, and the report.

The steps after the price keep their results in files, and read what an earlier call has kept there. So the same call
continues a run that was stopped.
"""

from pate.extras import require_extra

# before the imports that need the packages of this extra
require_extra(__name__, "train")


import os
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from os import PathLike
from pathlib import Path

from pate.aggregators import Aggregator, CenteredVotes, Release, TrainingSet
from pate.aggregators.record import ReleaseRecord
from pate.data.dataset import require_dataset
from pate.errors import shown_as
from pate.progress import Monitor
from pate.report import Report
from pate.report.released_scores import ReleasedScores
from pate.report.tensorboard import RunWriter
from pate.run.baselines import MajorityLabels, has_all_records_model, train_baselines
from pate.run.budget_classes import budget_class_remarks, record_weights, repeat_by_budget_class
from pate.run.charging import RunCharge, require_entered
from pate.run.ensemble import Ensemble, training_progress
from pate.run.folder import RunFolder
from pate.run.membership import attack_membership
from pate.run.partition_manifest import draw_partition
from pate.run.plan import Plan, price_release
from pate.run.plan_warnings import constant_student_warnings, plan_warnings
from pate.run.random_streams import RandomStreams
from pate.run.record_sample import baseline_rows, is_sampled, sample_in_words
from pate.run.reference_models import ReferenceModels
from pate.run.report_files import write_report
from pate.run.round_forecast import RoundForecast
from pate.run.round_progress import RoundProgressRecord, Rounds
from pate.run.run_parts import PricedRun, ReleasedRun
from pate.run.score_release import ScorePrice
from pate.run.session_progress import with_progress
from pate.run.sources import Sources, require_same_data
from pate.run.student_prior import StudentPrior
from pate.run.students import KeptModels, StudentTrainer, TrainedStudent
from pate.setting_names import TRAIN
from pate.threads import all_cores
from pate.votes.source import VoteSource


@all_cores()  # products of matrices have one thread each, and several blocks are computed at a time
@shown_as(TRAIN)  # an error names parameters as `pate-train` does
def train(plan: Plan, output_dir: str | PathLike[str], monitor: Monitor | None = None) -> Report:
    """Runs a plan in a folder, or continues the run in that folder, and returns the report.

    A finished run is not repeated: its report is read and returned, and nothing more is spent.

    A comment after "Private:" lists the objects of a step that hold private records, or results that no epsilon covers.
    All these objects are gone when the function returns, except the report (tests/e2e/test_private_objects.py). On disk
    remain the owner's folder, of which only `release/` may be published, the ledger, and `pate_cache`, where runs in
    the same folder share models and features of the records.

    Args:
        plan: everything that the run depends on.
        output_dir: the folder of the run; it may not exist yet.
        monitor: shows the progress; None shows nothing.

    Raises:
        InvalidValue: the plan cannot work, or the folder belongs to another run or to other data. Nothing is spent
            then.
    """
    start_time = time.monotonic()
    monitor = monitor or Monitor()
    run_folder = RunFolder(Path(output_dir))
    with run_folder.lock_for(settings=plan.settings):
        if run_folder.report.exists():
            return _finished_report(plan, run_folder=run_folder, monitor=monitor)

        # 1. The price. Nothing is trained or spent. Private: `priced_run`, for its `dataset` and `run_charge`.
        priced_run = _price_run(plan, run_folder=run_folder, monitor=monitor, start_time=start_time)

        with (
            RunWriter(
                folder=run_folder.tensorboard if plan.tensorboard else None
            ) as tensorboard_writer,
            ExitStack() as at_end,
        ):
            # 2. The teachers learn from disjoint records, and vote on public samples. Private: `ensemble`,
            #    `vote_source` and `tensorboard_writer`, which TensorBoard shows to the owner.
            ensemble = _train_teachers(priced_run, tensorboard_writer=tensorboard_writer)
            vote_source = at_end.enter_context(closing(ensemble.vote()))
            tensorboard_writer.write_teacher_curves()

            # 3. The only way out. `release` has the stated epsilon, and may be published; `release_record` holds it.
            release_record = priced_run.run_charge.record()
            release = _release_labels(
                priced_run,
                ensemble=ensemble,
                vote_source=vote_source,
                release_record=release_record,
                tensorboard_writer=tensorboard_writer,
            )

            # 4. Post-processing of the release, which costs nothing more. `trained_student` may be published, too.
            student_trainer = _student_trainer(priced_run, tensorboard_writer=tensorboard_writer)
            training_set = release.training_set(ensemble.queries.inputs)
            trained_student = _train_student(
                priced_run, student_trainer=student_trainer, training_set=training_set
            )
            # Scores are the one other way out: the people in the test records pay for them, at a price of their own.
            released_scores = _release_scores(priced_run, trained_student=trained_student)

            # 5. The report, for the owner alone. Private: `released_run`, for its `ensemble` and `vote_source`;
            #    `report`, and the baselines that `student_trainer` trains.
            released_run = ReleasedRun(
                ensemble=ensemble,
                vote_source=vote_source,
                release_record=release_record,
                release=release,
                trained_student=trained_student,
                released_scores=released_scores,
            )
            report = _measure(
                priced_run,
                released_run=released_run,
                student_trainer=student_trainer,
                tensorboard_writer=tensorboard_writer,
            )
        priced_run.kept_models.remove()
        return report


def _price_run(
    plan: Plan, *, run_folder: RunFolder, monitor: Monitor, start_time: float
) -> PricedRun:
    """Reads the data, prices the release, and opens its account. Nothing is trained or spent.

    Of the private records, the price depends on the number of their groups alone, and on their public budget classes or
    weights if there are any.
    """
    # The files' sizes and times are taken before the files are read, so that a later change is noticed.
    sources = Sources.from_settings(plan.settings, output_dir=run_folder.path)
    with monitor.stage("reading the data"):
        dataset = plan.load_dataset()
        require_dataset(dataset, allow_budgets_and_weights=True)
    plan = plan.for_dataset(dataset, monitor=monitor)
    priced_release = price_release(plan, dataset=dataset, monitor=monitor)
    score_price = ScorePrice.of_plan(plan, dataset=dataset)
    run_charge = RunCharge.open(
        release_terms=plan,
        priced_release=priced_release,
        run_folder=run_folder,
        data_digest=dataset.private_digest(),
        unit=plan.unit(dataset),
        owners_by_kind=dataset.owners,
    )
    run_folder.claim(
        plan.settings,
        digests={
            "data": dataset.digest(),
            "release": priced_release.identity,
            "private": dataset.private_digest(),
        },
    )
    sources.write(run_folder)
    for line in budget_class_remarks(dataset, priced_release=priced_release):
        monitor.say(line)
    for doubt in priced_release.doubts:
        monitor.say(TRAIN.doubt_line(doubt))
    for line in plan_warnings(
        dataset,
        aggregator=plan.aggregator,
        teacher_recipe=plan.teacher,
        student_recipe=plan.student,
        num_teachers=priced_release.shape.num_teachers,
    ):
        monitor.say(line)
    # Makes the ledger, and shows what these records have cost so far. No new charge is made.
    run_charge.begin(monitor, redraw=plan.redraw, score_price=score_price)
    score_charge = None
    if score_price is not None:
        score_charge = run_charge.score_charge(score_price=score_price)
        score_charge.require_room()
    return PricedRun(
        plan=plan,
        dataset=dataset,
        priced_release=priced_release,
        run_charge=run_charge,
        score_charge=score_charge,
        run_folder=run_folder,
        streams=RandomStreams.of_run(secret_file=run_folder.training_secret, seed=plan.seed),
        kept_models=KeptModels(run_folder.models),
        monitor=monitor,
        start_time=start_time,
    )


def _train_teachers(priced_run: PricedRun, *, tensorboard_writer: RunWriter) -> Ensemble:
    """Assigns the private records to teachers, and trains the teachers that have no checkpoint yet.

    Private: all objects of this function.
    """
    training_data = repeat_by_budget_class(
        priced_run.dataset, priced_release=priced_run.priced_release
    )
    num_teachers = priced_run.priced_release.shape.num_teachers
    partition = draw_partition(
        training_data.private,
        num_teachers=num_teachers,
        partition_file=priced_run.run_folder.partition,
        rng=priced_run.streams.generator("partition"),
    )
    training_status = training_progress(
        teacher_recipe=priced_run.plan.teacher,
        partition=partition,
        ensemble_folder=priced_run.run_folder,
    )
    _say_finished_steps(priced_run, training_status=training_status)
    return Ensemble.train(
        teacher_recipe=priced_run.plan.teacher,
        dataset=training_data,
        partition=partition,
        num_queries=priced_run.priced_release.shape.num_queries,
        seeds=priced_run.streams.seeds("teachers", num_seeds=num_teachers),
        engine=priced_run.plan.engine,
        ensemble_folder=priced_run.run_folder,
        monitor=priced_run.monitor,
        on_losses_of_teacher=tensorboard_writer.add_teacher_losses,
        weight_of_record=record_weights(
            priced_run.dataset, priced_release=priced_run.priced_release
        ),
        keeps_features=priced_run.plan.scratch,
    )


def _say_finished_steps(priced_run: PricedRun, *, training_status: str) -> None:
    """Shows which steps of a run that was stopped earlier are done and will not be repeated.

    Nothing is shown if no step is done.

    Args:
        priced_run: the run, which is continued.
        training_status: a phrase on the teachers that are trained, or "" if none is.
    """
    finished_parts = [training_status] if training_status else []
    if os.path.lexists(priced_run.run_folder.release_file):
        finished_parts.append("the release is drawn and paid for")
    model_names = priced_run.kept_models.names
    if has_all_records_model(priced_run.run_folder.all_records_model):
        model_names.append("all_records_model")
    if model_names:
        finished_parts.append(
            f"trained: {', '.join(name.replace('_', ' ') for name in model_names)}"
        )
    if finished_parts:
        priced_run.monitor.say(
            f"output_dir={priced_run.run_folder.path}: continues a run that was stopped; {'; '.join(finished_parts)}"
        )


def _release_labels(
    priced_run: PricedRun,
    *,
    ensemble: Ensemble,
    vote_source: VoteSource,
    release_record: ReleaseRecord,
    tensorboard_writer: RunWriter,
) -> Release:
    """Releases labels from the votes with noise, writes them into `release/`, and returns the release.

    `release_record` commits what is drawn in one step with its charge. If the process is killed before that step,
    nothing was shown or charged. If it is killed after that step, the same call reads back what was drawn.
    """
    student_prior = StudentPrior(
        student_recipe=priced_run.plan.student,
        inputs=ensemble.queries.inputs,
        seed=priced_run.student_seed,
        never_empty=priced_run.priced_release.aggregator.never_empty,
    )
    aggregator = priced_run.priced_release.aggregator.with_prior(student_prior)
    vote_rounds = Rounds.of_release(aggregator, vote_source=vote_source)
    if vote_rounds is None:
        release = _release_at_once(
            priced_run,
            aggregator=aggregator,
            vote_source=vote_source,
            release_record=release_record,
            tensorboard_writer=tensorboard_writer,
        )
    else:
        release = _release_in_rounds(
            priced_run,
            aggregator=aggregator,
            vote_source=vote_source,
            vote_rounds=vote_rounds,
            release_record=release_record,
            num_private_records=len(ensemble.dataset.private),
        )
    priced_run.run_charge.publish(
        release, public_names=ensemble.public_names, monitor=priced_run.monitor
    )
    return release


def _release_at_once(
    priced_run: PricedRun,
    *,
    aggregator: Aggregator,
    vote_source: VoteSource,
    release_record: ReleaseRecord,
    tensorboard_writer: RunWriter,
) -> Release:
    """Releases labels from votes in one call, without rounds in which teachers vote anew.

    If the aggregator releases in a session, it answers the queries in rounds, some queries in each. Each such round is
    reported to the screen and to `tensorboard_writer`.

    Args:
        priced_run: the run.
        aggregator: the aggregator with its noise.
        vote_source: the votes of all teachers.
        release_record: commits what is drawn.
        tensorboard_writer: writes the curve of the number of hits, the queries that are paid for.
    """
    with priced_run.monitor.stage(
        "releasing labels", priced_run.priced_release.shape.num_queries
    ) as advance:
        progress_record = with_progress(
            release_record,
            priced_release=priced_run.priced_release,
            advance=advance,
            tensorboard_writer=tensorboard_writer,
        )
        return aggregator.release(
            vote_source, rng=priced_run.streams.generator("noise"), record=progress_record
        )


def _release_in_rounds(
    priced_run: PricedRun,
    *,
    aggregator: Aggregator,
    vote_source: VoteSource,
    vote_rounds: Rounds,
    release_record: ReleaseRecord,
    num_private_records: int,
) -> Release:
    """Releases labels after several rounds of votes, and reports each round and its speed to the screen.

    In each round all teachers vote anew, and the noisy sum of their votes improves a student. The labels of all queries
    are computed from the student after the last round.

    Args:
        priced_run: the run.
        aggregator: the aggregator with its noise.
        vote_source: the votes, which each round sums anew.
        vote_rounds: the rounds of these votes.
        release_record: commits each round.
        num_private_records: the number of all private records, which each round reads; for the speed.
    """
    forecast = RoundForecast.of_rounds(vote_rounds)
    if forecast is not None:
        priced_run.monitor.say(forecast.line)
    with priced_run.monitor.stage("releasing labels in rounds", vote_rounds.num_rounds) as advance:
        progress_record = RoundProgressRecord(
            release_record, num_private_records=num_private_records, advance=advance
        )
        with vote_rounds.reporting_rows(progress_record.report_rows):
            return aggregator.release(
                vote_source, rng=priced_run.streams.generator("noise"), record=progress_record
            )


def _student_trainer(priced_run: PricedRun, *, tensorboard_writer: RunWriter) -> StudentTrainer:
    """Returns the object that trains the run's students, with their recipe, seed and unlabeled public samples.

    Unlabeled are the public samples that are no queries.
    """
    return StudentTrainer(
        student_recipe=priced_run.plan.student,
        pool=priced_run.dataset.public.inputs[priced_run.priced_release.shape.num_queries :],
        seed=priced_run.student_seed,
        kept_models=priced_run.kept_models,
        tensorboard_writer=tensorboard_writer,
        monitor=priced_run.monitor,
    )


def _train_student(
    priced_run: PricedRun, *, student_trainer: StudentTrainer, training_set: TrainingSet
) -> TrainedStudent:
    """Trains the student on the released labels and the public samples, and saves its model in `release/student`.

    Args:
        priced_run: the run.
        student_trainer: trains the student, or reads it if it was trained before.
        training_set: the queries with the released labels.
    """
    trained_student = student_trainer.train("student", training_set=training_set)
    trained_student.model.save(priced_run.run_folder.release / "student")
    for warning_line in constant_student_warnings(
        trained_student.model,
        public_inputs=priced_run.dataset.public.inputs,
        remedy=priced_run.priced_release.aggregator.remedies["noise"],
    ):
        priced_run.monitor.say(warning_line)
    return trained_student


def _release_scores(
    priced_run: PricedRun, *, trained_student: TrainedStudent
) -> ReleasedScores | None:
    """Releases the student's scores on the test records at their own price; None where the plan has no such price.

    The people in the test records pay this price; none of them is in the private records. The noisy sums from which the
    scores come are committed with their charge.
    """
    if priced_run.score_charge is None:
        return None
    with priced_run.monitor.stage("releasing scores"):
        released_scores = priced_run.score_charge.release(
            trained_student.model,
            dataset=priced_run.dataset,
            num_queries=priced_run.priced_release.shape.num_queries,
            rng=priced_run.streams.generator("scores"),
        )
    priced_run.monitor.say(
        f"scores of the student on the test records: {released_scores.guarantee}"
    )
    return released_scores


def _measure(
    priced_run: PricedRun,
    *,
    released_run: ReleasedRun,
    student_trainer: StudentTrainer,
    tensorboard_writer: RunWriter,
) -> Report:
    """Compares the student with baselines, attacks it by membership inference, and writes and returns the report.

    Private: `majority_labels`, `baseline_models`, `membership` and the report; no epsilon covers them.
    """
    queries = released_run.ensemble.queries
    majority_labels = _majority_labels(priced_run, released_run=released_run)
    baseline_models = train_baselines(
        student_trainer,
        dataset=priced_run.dataset,
        queries=queries,
        majority_labels=majority_labels,
        queries_with_start_weights=_queries_with_start_weights(
            priced_run, released_run=released_run
        ),
        wants_all_records_model=priced_run.plan.all_records,
        all_records_folder=priced_run.run_folder.all_records_model,
        shared_model_store=ReferenceModels(
            priced_run.run_folder.real_parent, monitor=priced_run.monitor
        ),
        seed=priced_run.plan.seed,
    )
    # Training of the baselines may take hours, in which another process may have changed the ledger.
    priced_run.run_charge.require_paid()
    with priced_run.monitor.stage("measuring what the student tells of its members"):
        membership = attack_membership(
            released_run.trained_student.model,
            training_set=released_run.release.training_set(queries.inputs),
            dataset=priced_run.dataset,
            seed=priced_run.student_seed,
        )
    with priced_run.monitor.stage("writing the report"):
        return write_report(
            priced_run,
            released_run=released_run,
            baseline_models=baseline_models,
            membership=membership,
            tensorboard_writer=tensorboard_writer,
        )


def _majority_labels(priced_run: PricedRun, *, released_run: ReleasedRun) -> MajorityLabels:
    """Returns the queries with the labels that the aggregator would release without noise; no epsilon covers them.

    Teachers that need no training compute their votes from the private records once more, which takes as long as the
    release did. So, if the private records are many, such teachers have only a sample of them, unless the setting
    `all_records` is true. With `all_records=false` they do not vote then, and there are no labels.
    """
    ensemble = released_run.ensemble
    private_records = ensemble.dataset.private
    all_records = priced_run.plan.all_records
    vote_source = released_run.vote_source
    sample_description = ""
    if ensemble.reads_records_to_vote and is_sampled(
        private_records, wants_all_records_model=all_records
    ):
        if all_records is False:
            num_records = len(private_records)
            reason = f"all_records=false, and a release without noise of {num_records:,} private records takes long"
            return MajorityLabels(training_set=None, reason_without=reason)
        private_rows = baseline_rows(private_records)
        sample_description = sample_in_words(
            num_taken=len(private_rows), num_records=len(private_records)
        )
        vote_source = ensemble.of_private_rows(private_rows).vote()
    # A closed source computes its votes anew, so `released_run.vote_source` can be read again later.
    with closing(vote_source), priced_run.monitor.stage("releasing without noise, to compare with"):
        majority_release = priced_run.priced_release.aggregator.noiseless_from(
            vote_source, record=released_run.release_record
        )
    training_set = majority_release.training_set(ensemble.queries.inputs)
    return MajorityLabels(training_set, record_sample_in_words=sample_description)


def _queries_with_start_weights(
    priced_run: PricedRun, *, released_run: ReleasedRun
) -> TrainingSet | None:
    """Returns a training set of the queries with the coefficients of the public start in place of the released ones.

    The student of a release in rounds may start from a model that public data or an earlier release gave, and whose
    coefficients (`TrainingSet.weights`) are public. The result is None if the student had no such start. A baseline
    learns from this training set alone. It shows what the start tells without any vote.
    """
    aggregator = priced_run.priced_release.aggregator
    if not isinstance(aggregator, CenteredVotes):
        return None
    start_weights = aggregator.start_weights(
        released_run.vote_source, record=released_run.release_record
    )
    if start_weights is None:
        return None
    training_set = released_run.release.training_set(released_run.ensemble.queries.inputs)
    return replace(training_set, weights=start_weights)


def _finished_report(plan: Plan, *, run_folder: RunFolder, monitor: Monitor) -> Report:
    """Returns the report of a finished run, as it is in the run's folder.

    Raises:
        InvalidValue: files, data or the charge have changed since the run was finished.
    """
    run_folder.require_manifest()
    require_entered(plan.ledger, run_folder=run_folder)
    require_same_data(
        run_folder, settings=plan.settings, load_dataset=plan.load_dataset, monitor=monitor
    )
    monitor.say(
        f"output_dir={run_folder.path}: this run is finished; nothing was trained, drawn or spent again"
    )
    return Report.read(run_folder.report)
