"""The steps of a run: the price, private training and votes, the paid release, the student, and the report.

Each step writes a file, and is skipped if its file exists. So the same call continues a run that was stopped.
"""

from pate.extras import require_extra

# before the imports that need the packages of this extra
require_extra(__name__, "train")


import os
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from pate.aggregators import CenteredVotes, Release, TrainingSet
from pate.aggregators.record import ReleaseRecord
from pate.data import Dataset
from pate.data.dataset import require_dataset
from pate.errors import shown_as
from pate.pricing import PricedRelease
from pate.progress import Monitor
from pate.report import Report
from pate.report.released_scores import ReleasedScores
from pate.report.tensorboard import RunWriter
from pate.run.baselines import MajorityLabels, has_all_records_model, train_baselines
from pate.run.budget_classes import budget_class_remarks, record_weights, repeat_records
from pate.run.charging import RunCharge, require_entered
from pate.run.ensemble import Ensemble, training_progress
from pate.run.folder import RunFolder
from pate.run.membership import membership
from pate.run.partition_manifest import deal
from pate.run.plan import Plan, price
from pate.run.plan_warnings import constant_student_warnings, plan_warnings
from pate.run.random_streams import RandomStreams
from pate.run.record_sample import is_sampled, sample_in_words, yardstick_rows
from pate.run.reference_models import ReferenceModels
from pate.run.report_files import write_report
from pate.run.round_forecast import RoundForecast
from pate.run.round_progress import Rounds, WatchedRounds
from pate.run.score_release import ScoreCharge, ScorePrice
from pate.run.session_progress import watched
from pate.run.sources import Sources, require_same_data
from pate.run.student_prior import StudentPrior
from pate.run.students import KeptModels, StudentTraining, TrainedStudent
from pate.setting_names import TRAIN
from pate.threads import all_cores
from pate.votes.source import VoteSource


@all_cores()
@shown_as(TRAIN)
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
    started = time.monotonic()
    monitor = monitor or Monitor()
    folder = RunFolder(Path(output_dir))
    with folder.opened(plan.settings):
        if folder.report.exists():
            return _finished_report(plan, folder, monitor)

        # 1. The price. Nothing is trained or spent. Private: `run`, for its fields `dataset` and `charge`.
        run = _price(plan, folder, monitor)

        with (
            RunWriter(folder=folder.tensorboard if plan.tensorboard else None) as events,
            ExitStack() as at_end,
        ):
            # 2. The teachers learn from disjoint records, and vote on public samples. Private: `ensemble`, `votes`, and
            #    the curves in `events`.
            ensemble = _train_teachers(run, events)
            votes = at_end.enter_context(closing(ensemble.vote()))
            events.teachers()

            # 3. The only way out. `release` has the stated epsilon, and may be published; `record` holds its content.
            record = run.charge.record()
            release = _release(run, ensemble, votes, record, events)

            # 4. Post-processing of the release, which costs nothing more. `student` may be published, too.
            students = _student_training(run, events)
            student = _train_student(run, ensemble, release, students)
            scores = _release_scores(run, student)

            # 5. The report, for the owner alone. Private: `report`, and the baselines that `students` trains.
            report = _measure(
                run,
                ensemble=ensemble,
                votes=votes,
                record=record,
                release=release,
                students=students,
                student=student,
                scores=scores,
                events=events,
                started=started,
            )
        run.models.remove()
        return report


@dataclass(frozen=True, eq=False)
class _Run:
    """The parts of a run that all steps after the price share.

    Attributes:
        plan: the plan, with what depends on the data set filled in.
        dataset: the data set. Private: everything private in a run is computed from its private records.
        priced: the aggregator with its noise, and the price.
        charge: the account of the release in the ledger. Private: it has the ids of the owners of the records.
        scores: the charge of the student's scores on the test records; None where no scores are released.
        folder: the folder of the run. Private, except for `release/`.
        streams: the random numbers of the run.
        models: the folder of trained students, which a continued run reads. Private: baselines are among them.
        monitor: shows the progress.
    """

    plan: Plan
    dataset: Dataset
    priced: PricedRelease
    charge: RunCharge
    scores: ScoreCharge | None
    folder: RunFolder
    streams: RandomStreams
    models: KeptModels
    monitor: Monitor

    @property
    def student_seed(self) -> int:
        """The seed of the training of students."""
        return self.streams.seed("student")


def _price(plan: Plan, folder: RunFolder, monitor: Monitor) -> _Run:
    """Reads the data, prices the release, and opens its account. Nothing is trained or spent.

    The only property of the private records that the price depends on is the number of their groups.
    """
    # The files' sizes and times are taken before the files are read, so that a later change is noticed.
    sources = Sources.from_settings(plan.settings, output_dir=folder.path)
    with monitor.stage("reading the data"):
        dataset = plan.load_dataset()
        require_dataset(dataset, allow_weights=True)
    plan = plan.for_dataset(dataset, monitor)
    priced = price(plan, dataset, monitor)
    score_price = ScorePrice.of_plan(plan, dataset)
    charge = RunCharge.open(
        plan,
        priced,
        folder,
        data=dataset.private_digest(),
        unit=plan.unit(dataset),
        owners=dataset.owners,
    )
    folder.claim(
        plan.settings,
        data=dataset.digest(),
        release=priced.identity,
        private=dataset.private_digest(),
    )
    sources.write(folder)
    warnings = plan_warnings(
        dataset,
        plan.aggregator,
        plan.teacher,
        plan.student,
        num_teachers=priced.shape.num_teachers,
    )
    doubts = map(TRAIN.doubt_line, priced.doubts)
    for line in (*budget_class_remarks(dataset, priced), *doubts, *warnings):
        monitor.say(line)
    charge.begin(monitor, redraw=plan.redraw, scores=score_price)
    scores = None if score_price is None else charge.of_scores(score_price)
    if scores is not None:
        scores.require_room()
    return _Run(
        plan=plan,
        dataset=dataset,
        priced=priced,
        charge=charge,
        scores=scores,
        folder=folder,
        streams=RandomStreams.of_run(folder.training_secret, plan.seed),
        models=KeptModels(folder.models),
        monitor=monitor,
    )


def _train_teachers(run: _Run, events: RunWriter) -> Ensemble:
    """Deals the private records to the teachers, and trains the teachers that have no checkpoint yet.

    Private: all objects of this function.
    """
    training_data = repeat_records(run.dataset, run.priced)
    num_teachers = run.priced.shape.num_teachers
    partition = deal(
        training_data.private,
        num_teachers,
        manifest=run.folder.partition,
        rng=run.streams.generator("partition"),
    )
    progress = training_progress(run.plan.teacher, partition, run.folder)
    _say_what_is_there(run.folder, training=progress, models=run.models, monitor=run.monitor)
    return Ensemble.train(
        run.plan.teacher,
        training_data,
        partition,
        num_queries=run.priced.shape.num_queries,
        seeds=run.streams.seeds("teachers", num_seeds=num_teachers),
        engine=run.plan.engine,
        folder=run.folder,
        monitor=run.monitor,
        on_losses=events.teacher,
        weights=record_weights(run.dataset, run.priced),
        scratch=run.plan.scratch,
    )


def _release(
    run: _Run, ensemble: Ensemble, votes: VoteSource, record: ReleaseRecord, events: RunWriter
) -> Release:
    """Draws noise around the votes, and returns the labels that may leave.

    `record` commits what is drawn in one step with its charge. If the process is killed before that step, nothing was
    shown or charged. If it is killed after that step, the same call reads back what was drawn.
    """
    num_queries = run.priced.shape.num_queries
    prior = StudentPrior(
        student=run.plan.student,
        inputs=ensemble.queries.inputs,
        seed=run.student_seed,
        never_empty=run.priced.aggregator.never_empty,
    )
    aggregator = run.priced.aggregator.with_prior(prior)
    rng = run.streams.generator("noise")
    rounds = Rounds.of_release(aggregator, votes)
    if rounds is not None:
        forecast = RoundForecast.of_rounds(rounds)
        if forecast is not None:
            run.monitor.say(forecast.line)
        with run.monitor.stage("releasing labels in rounds", rounds.num_rounds) as advance:
            # `record`; each round is reported to `advance`, too
            watched_rounds = WatchedRounds(record, len(ensemble.dataset.private), advance)
            with rounds.watched_rows(watched_rounds.rows_read):
                release = aggregator.release(votes, rng, watched_rounds)
    else:
        with run.monitor.stage("releasing labels", num_queries) as advance:
            # `record`; for a session, each round is reported to `advance` and `events`, too
            watched_record = watched(record, run.priced, advance, events)
            release = aggregator.release(votes, rng, watched_record)
    run.charge.publish(release, ensemble.public_names, run.monitor)
    return release


def _student_training(run: _Run, events: RunWriter) -> StudentTraining:
    """Returns the training of students on labels of the queries, and on the public samples that are no queries."""
    return StudentTraining(
        student=run.plan.student,
        pool=run.dataset.public.inputs[run.priced.shape.num_queries :],
        seed=run.student_seed,
        models=run.models,
        events=events,
        monitor=run.monitor,
    )


def _train_student(
    run: _Run, ensemble: Ensemble, release: Release, students: StudentTraining
) -> TrainedStudent:
    """Trains the student on the release and public samples, and saves its model in `release/`."""
    student = students.train("student", release.training_set(ensemble.queries.inputs))
    student.model.save(run.folder.release / "student")
    for line in constant_student_warnings(
        student.model,
        public_inputs=run.dataset.public.inputs,
        remedy=run.priced.aggregator.remedies["noise"],
    ):
        run.monitor.say(line)
    return student


def _release_scores(run: _Run, student: TrainedStudent) -> ReleasedScores | None:
    """Releases the student's scores on the test records at their own price; None where the plan has no such price.

    The people in the test records pay this price; none of them is in a private record. The noisy counts are committed
    with their charge.
    """
    if run.scores is None:
        return None
    with run.monitor.stage("releasing scores"):
        scores = run.scores.release(
            student.model,
            run.dataset,
            num_queries=run.priced.shape.num_queries,
            rng=run.streams.generator("scores"),
        )
    run.monitor.say(f"scores of the student on the test records: {scores.guarantee}")
    return scores


def _measure(
    run: _Run,
    *,
    ensemble: Ensemble,
    votes: VoteSource,
    record: ReleaseRecord,
    release: Release,
    students: StudentTraining,
    student: TrainedStudent,
    scores: ReleasedScores | None,
    events: RunWriter,
    started: float,
) -> Report:
    """Compares the student with models of the private records, attacks it, and writes and returns the report.

    Private: `majority` with its labels, `baselines`, `attack` and the report; no epsilon covers them.
    """
    plan = run.plan
    queries = ensemble.queries
    majority = _majority_labels(run, ensemble, votes, record)
    baselines = train_baselines(
        students,
        run.dataset,
        queries,
        majority=majority,
        start=_start_alone(run, ensemble, votes, record, release),
        all_records=plan.all_records,
        all_records_folder=run.folder.all_records_model,
        references=ReferenceModels(Path(os.path.realpath(run.folder.path)).parent, run.monitor),
        seed=plan.seed,
    )
    run.charge.require_paid()
    with run.monitor.stage("measuring what the student tells of its members"):
        attack = membership(
            student.model,
            training=release.training_set(queries.inputs),
            dataset=run.dataset,
            seed=run.student_seed,
        )
    with run.monitor.stage("writing the report"):
        return write_report(
            run.folder,
            dataset=run.dataset,
            queries=queries,
            priced=run.priced,
            charge=run.charge,
            votes=votes,
            release=release,
            student=student,
            scores=scores,
            baselines=baselines,
            membership=attack,
            teacher=plan.teacher,
            heading=plan.heading,
            public_settings=plan.public_settings(run.priced.aggregator),
            places=plan.places(run.priced.shape.num_teachers),
            epsilon_on_votes=plan.epsilon_on_votes,
            events=events,
            started=started,
        )


def _start_alone(
    run: _Run, ensemble: Ensemble, votes: VoteSource, record: ReleaseRecord, release: Release
) -> TrainingSet | None:
    """Returns the queries with the weights at which the student of rounds began; None if it began at no public data."""
    aggregator = run.priced.aggregator
    if not isinstance(aggregator, CenteredVotes):
        return None
    weights = aggregator.start_weights(votes, record)
    if weights is None:
        return None
    return replace(release.training_set(ensemble.queries.inputs), weights=weights)


def _majority_labels(
    run: _Run, ensemble: Ensemble, votes: VoteSource, record: ReleaseRecord
) -> MajorityLabels:
    """Returns the labels of the queries by the votes without noise; no epsilon covers them.

    Votes that are computed from the private records whenever they are read would take a release's time once more. Of
    many records a sample votes then, or none where the setting `all_records` is false.
    """
    private = ensemble.dataset.private
    all_records = run.plan.all_records
    sample = ""
    if ensemble.reads_records_to_vote and is_sampled(private, all_records):
        if all_records is False:
            reason = f"all_records=false, and a release without noise of {len(private):,} private records takes long"
            return MajorityLabels(None, reason=reason)
        rows = yardstick_rows(private)
        sample = sample_in_words(len(rows), len(private))
        votes = ensemble.of_rows(rows).vote()
    with closing(votes), run.monitor.stage("releasing without noise, to compare with"):
        majority = run.priced.aggregator.noiseless_from(votes, record)
    return MajorityLabels(majority.training_set(ensemble.queries.inputs), sample=sample)


def _finished_report(plan: Plan, folder: RunFolder, monitor: Monitor) -> Report:
    """Returns the report of a finished run, as it is in the run's folder.

    Raises:
        InvalidValue: files, data or the charge have changed since the run was finished.
    """
    folder.require_manifest()
    require_entered(plan.ledger, folder)
    require_same_data(folder, plan.settings, plan.load_dataset, monitor)
    monitor.say(
        f"output_dir={folder.path}: this run is finished; nothing was trained, drawn or spent again"
    )
    return Report.read(folder.report)


def _say_what_is_there(
    folder: RunFolder, training: str, models: KeptModels, monitor: Monitor
) -> None:
    """Shows which steps of a stopped run are done and will not be repeated.

    Args:
        folder: the folder of the run.
        training: a phrase on the teachers that are trained, or "".
        models: the trained students of the run.
        monitor: receives the line.
    """
    done = [training] if training else []
    if os.path.lexists(folder.release / "release.npz"):
        done.append("the release is drawn and paid for")
    names = models.names
    if has_all_records_model(folder.all_records_model):
        names.append("all_records_model")
    if names:
        done.append(f"trained: {', '.join(name.replace('_', ' ') for name in names)}")
    if done:
        monitor.say(
            f"output_dir={folder.path}: continues a run that was stopped; {'; '.join(done)}"
        )
