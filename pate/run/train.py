"""The steps of a run: the price, private training and votes, the paid release, the student, and the report.

Each step after the price writes a file, and is skipped if its file exists. So the same call continues a run that was
stopped.
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
from pate.run.budget_classes import budget_class_remarks, record_weights, repeat_records
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
from pate.run.students import KeptModels, StudentTraining, TrainedStudent
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

        # 1. The price. Nothing is trained or spent. Private: `run`, for its fields `dataset` and `charge`.
        run = _price_run(plan, run_folder=run_folder, monitor=monitor, start_time=start_time)

        with (
            RunWriter(folder=run_folder.tensorboard if plan.tensorboard else None) as run_writer,
            ExitStack() as at_end,
        ):
            # 2. The teachers learn from disjoint records, and vote on public samples. Private: `ensemble`, `votes`, and
            #    `run_writer`, which TensorBoard shows to the owner.
            ensemble = _train_teachers(run, run_writer=run_writer)
            votes = at_end.enter_context(closing(ensemble.vote()))
            run_writer.write_teacher_curves()

            # 3. The only way out. `release` has the stated epsilon, and may be published; `record` holds its content.
            record = run.charge.record()
            release = _release_labels(
                run, ensemble=ensemble, votes=votes, record=record, run_writer=run_writer
            )

            # 4. Post-processing of the release, which costs nothing more. `student` may be published, too.
            students = _student_training(run, run_writer=run_writer)
            training_set = release.training_set(ensemble.queries.inputs)
            student = _train_student(run, students=students, training_set=training_set)
            scores = _release_scores(run, trained_student=student)

            # 5. The report, for the owner alone. Private: `released`, for its fields `ensemble` and `votes`; `report`,
            #    and the baselines that `students` trains.
            released = ReleasedRun(
                ensemble=ensemble,
                votes=votes,
                record=record,
                release=release,
                trained_student=student,
                released_scores=scores,
            )
            report = _measure(run, released=released, students=students, run_writer=run_writer)
        run.kept_models.remove()
        return report


def _price_run(
    plan: Plan, *, run_folder: RunFolder, monitor: Monitor, start_time: float
) -> PricedRun:
    """Reads the data, prices the release, and opens its account. Nothing is trained or spent.

    Of the private records, the price depends on the number of their groups alone, and on their public budget classes if
    there are any.
    """
    # The files' sizes and times are taken before the files are read, so that a later change is noticed.
    sources = Sources.from_settings(plan.settings, output_dir=run_folder.path)
    with monitor.stage("reading the data"):
        dataset = plan.load_dataset()
        require_dataset(dataset, allow_weights=True)
    plan = plan.for_dataset(dataset, monitor=monitor)
    priced_release = price_release(plan, dataset=dataset, monitor=monitor)
    score_price = ScorePrice.of_plan(plan, dataset=dataset)
    charge = RunCharge.open(
        terms=plan,
        priced_release=priced_release,
        run_folder=run_folder,
        data_digest=dataset.private_digest(),
        unit=plan.unit(dataset),
        owners=dataset.owners,
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
        teacher=plan.teacher,
        student=plan.student,
        num_teachers=priced_release.shape.num_teachers,
    ):
        monitor.say(line)
    charge.begin(monitor, redraw=plan.redraw, score_price=score_price)
    score_charge = None
    if score_price is not None:
        score_charge = charge.score_charge(score_price=score_price)
        score_charge.require_room()
    return PricedRun(
        plan=plan,
        dataset=dataset,
        priced_release=priced_release,
        charge=charge,
        score_charge=score_charge,
        folder=run_folder,
        streams=RandomStreams.of_run(run_folder.training_secret, seed=plan.seed),
        kept_models=KeptModels(run_folder.models),
        monitor=monitor,
        start_time=start_time,
    )


def _train_teachers(run: PricedRun, *, run_writer: RunWriter) -> Ensemble:
    """Assigns the private records to teachers, and trains the teachers that have no checkpoint yet.

    Private: all objects of this function.
    """
    training_data = repeat_records(run.dataset, priced_release=run.priced_release)
    num_teachers = run.priced_release.shape.num_teachers
    partition = draw_partition(
        training_data.private,
        num_teachers=num_teachers,
        manifest=run.folder.partition,
        rng=run.streams.generator("partition"),
    )
    progress = training_progress(run.plan.teacher, partition=partition, folder=run.folder)
    _say_what_is_there(run, training_words=progress)
    return Ensemble.train(
        teacher=run.plan.teacher,
        dataset=training_data,
        partition=partition,
        num_queries=run.priced_release.shape.num_queries,
        seeds=run.streams.seeds("teachers", num_seeds=num_teachers),
        engine=run.plan.engine,
        folder=run.folder,
        monitor=run.monitor,
        on_losses=run_writer.add_teacher_losses,
        weights=record_weights(run.dataset, priced_release=run.priced_release),
        scratch=run.plan.scratch,
    )


def _say_what_is_there(run: PricedRun, *, training_words: str) -> None:
    """Shows which steps of a run that was stopped earlier are done and will not be repeated.

    Nothing is shown if no step is done.

    Args:
        run: the run, which is continued.
        training_words: a phrase on the teachers that are trained, or "" if none is.
    """
    finished_parts = [training_words] if training_words else []
    if os.path.lexists(run.folder.release_file):
        finished_parts.append("the release is drawn and paid for")
    names = run.kept_models.names
    if has_all_records_model(run.folder.all_records_model):
        names.append("all_records_model")
    if names:
        finished_parts.append(f"trained: {', '.join(name.replace('_', ' ') for name in names)}")
    if finished_parts:
        run.monitor.say(
            f"output_dir={run.folder.path}: continues a run that was stopped; {'; '.join(finished_parts)}"
        )


def _release_labels(
    run: PricedRun,
    *,
    ensemble: Ensemble,
    votes: VoteSource,
    record: ReleaseRecord,
    run_writer: RunWriter,
) -> Release:
    """Releases labels from the votes with noise, writes them into `release/`, and returns the release.

    `record` commits what is drawn in one step with its charge. If the process is killed before that step, nothing was
    shown or charged. If it is killed after that step, the same call reads back what was drawn.
    """
    prior = StudentPrior(
        student_recipe=run.plan.student,
        inputs=ensemble.queries.inputs,
        seed=run.student_seed,
        never_empty=run.priced_release.aggregator.never_empty,
    )
    aggregator = run.priced_release.aggregator.with_prior(prior)
    rounds = Rounds.of_release(aggregator, votes=votes)
    if rounds is None:
        release = _release_at_once(
            run, aggregator=aggregator, votes=votes, record=record, run_writer=run_writer
        )
    else:
        release = _release_in_rounds(
            run,
            aggregator=aggregator,
            votes=votes,
            rounds=rounds,
            record=record,
            num_records=len(ensemble.dataset.private),
        )
    run.charge.publish(release, public_names=ensemble.public_names, monitor=run.monitor)
    return release


def _release_at_once(
    run: PricedRun,
    *,
    aggregator: Aggregator,
    votes: VoteSource,
    record: ReleaseRecord,
    run_writer: RunWriter,
) -> Release:
    """Releases labels from votes in one call, without rounds in which teachers vote anew.

    If the aggregator releases in a session, each round of the session is reported to the screen and to `run_writer`.

    Args:
        run: the run.
        aggregator: the aggregator with its noise.
        votes: the votes of all teachers.
        record: commits what is drawn.
        run_writer: writes the curve of the number of hits, the queries that are paid for.
    """
    with run.monitor.stage("releasing labels", run.priced_release.shape.num_queries) as advance:
        progress_record = with_progress(
            record, priced_release=run.priced_release, advance=advance, run_writer=run_writer
        )
        return aggregator.release(votes, rng=run.streams.generator("noise"), record=progress_record)


def _release_in_rounds(
    run: PricedRun,
    *,
    aggregator: Aggregator,
    votes: VoteSource,
    rounds: Rounds,
    record: ReleaseRecord,
    num_records: int,
) -> Release:
    """Releases labels in rounds, and reports each round and its speed to the screen.

    Args:
        run: the run.
        aggregator: the aggregator with its noise.
        votes: the votes, which each round sums anew.
        rounds: the rounds of these votes.
        record: commits each round.
        num_records: the number of private records that a round reads.
    """
    forecast = RoundForecast.of_rounds(rounds)
    if forecast is not None:
        run.monitor.say(forecast.line)
    with run.monitor.stage("releasing labels in rounds", rounds.num_rounds) as advance:
        progress_record = RoundProgressRecord(record, num_rows=num_records, advance=advance)
        with rounds.reporting_rows(progress_record.report_rows):
            return aggregator.release(
                votes, rng=run.streams.generator("noise"), record=progress_record
            )


def _student_training(run: PricedRun, *, run_writer: RunWriter) -> StudentTraining:
    """Returns the object that trains the run's students, with their recipe, seed and unlabeled public samples.

    Unlabeled are the public samples that are no queries.
    """
    return StudentTraining(
        student=run.plan.student,
        pool=run.dataset.public.inputs[run.priced_release.shape.num_queries :],
        seed=run.student_seed,
        models=run.kept_models,
        run_writer=run_writer,
        monitor=run.monitor,
    )


def _train_student(
    run: PricedRun, *, students: StudentTraining, training_set: TrainingSet
) -> TrainedStudent:
    """Trains the student on the released labels and the public samples, and saves its model in `release/student`.

    Args:
        run: the run.
        students: trains the student, or reads it if it was trained before.
        training_set: the queries with the released labels.
    """
    student = students.train("student", training_set=training_set)
    student.model.save(run.folder.release / "student")
    for line in constant_student_warnings(
        student.model,
        public_inputs=run.dataset.public.inputs,
        remedy=run.priced_release.aggregator.remedies["noise"],
    ):
        run.monitor.say(line)
    return student


def _release_scores(run: PricedRun, *, trained_student: TrainedStudent) -> ReleasedScores | None:
    """Releases the student's scores on the test records at their own price; None where the plan has no such price.

    The people in the test records pay this price; none of them is in the private records. The noisy sums from which the
    scores come are committed with their charge.
    """
    if run.score_charge is None:
        return None
    with run.monitor.stage("releasing scores"):
        scores = run.score_charge.release(
            trained_student.model,
            dataset=run.dataset,
            num_queries=run.priced_release.shape.num_queries,
            rng=run.streams.generator("scores"),
        )
    run.monitor.say(f"scores of the student on the test records: {scores.guarantee}")
    return scores


def _measure(
    run: PricedRun, *, released: ReleasedRun, students: StudentTraining, run_writer: RunWriter
) -> Report:
    """Compares the student with baselines, attacks it by membership inference, and writes and returns the report.

    Private: `majority_labels`, `baselines`, `membership` and the report; no epsilon covers them.
    """
    queries = released.ensemble.queries
    majority_labels = _majority_labels(run, released=released)
    baselines = train_baselines(
        students,
        dataset=run.dataset,
        queries=queries,
        majority_labels=majority_labels,
        start_training_set=_public_start(run, released=released),
        all_records=run.plan.all_records,
        all_records_folder=run.folder.all_records_model,
        reference_models=ReferenceModels(run.folder.real_parent, monitor=run.monitor),
        seed=run.plan.seed,
    )
    # Training of the baselines may take hours, in which another process may have changed the ledger.
    run.charge.require_paid()
    with run.monitor.stage("measuring what the student tells of its members"):
        membership = attack_membership(
            released.trained_student.model,
            training_set=released.release.training_set(queries.inputs),
            dataset=run.dataset,
            seed=run.student_seed,
        )
    with run.monitor.stage("writing the report"):
        return write_report(
            run,
            released=released,
            baseline_models=baselines,
            membership=membership,
            run_writer=run_writer,
        )


def _majority_labels(run: PricedRun, *, released: ReleasedRun) -> MajorityLabels:
    """Returns the queries with the labels that the aggregator would release without noise; no epsilon covers them.

    Teachers that need no training compute their votes from the private records once more, which takes as long as the
    release did. So, if the private records are many, such teachers have only a sample of them. With the setting
    `all_records=false` they do not vote then, and there are no labels.
    """
    ensemble = released.ensemble
    private = ensemble.dataset.private
    all_records = run.plan.all_records
    votes = released.votes
    sample = ""
    if ensemble.reads_records_to_vote and is_sampled(private, all_records=all_records):
        if all_records is False:
            reason = f"all_records=false, and a release without noise of {len(private):,} private records takes long"
            return MajorityLabels(training_set=None, reason=reason)
        row_indices = baseline_rows(private)
        sample = sample_in_words(num_taken=len(row_indices), num_records=len(private))
        votes = ensemble.of_rows(row_indices).vote()
    # A closed source computes its votes anew, so `_public_start` can read `released.votes` later.
    with closing(votes), run.monitor.stage("releasing without noise, to compare with"):
        majority = run.priced_release.aggregator.noiseless_from(votes, record=released.record)
    training_set = majority.training_set(ensemble.queries.inputs)
    return MajorityLabels(training_set, sample=sample)


def _public_start(run: PricedRun, *, released: ReleasedRun) -> TrainingSet | None:
    """Returns a training set of the queries that has the weights of the public start in place of the released ones.

    The student of a release in rounds may start from a model that public data or an earlier release gave; its weights
    are public. The result is None if the student had no such start. A baseline learns from this training set alone. It
    shows what the start tells without any vote.
    """
    aggregator = run.priced_release.aggregator
    if not isinstance(aggregator, CenteredVotes):
        return None
    weights = aggregator.start_weights(released.votes, record=released.record)
    if weights is None:
        return None
    training_set = released.release.training_set(released.ensemble.queries.inputs)
    return replace(training_set, weights=weights)


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
