"""A run on one page: the price, private training and votes, the paid release, the student, and the report.

Each step writes a file, and is skipped if its file exists. So the same call continues a run that was stopped.
"""

from pate.extras import require_extra
from pate.progress import Monitor

require_extra(__name__, "train")


import os
import time
from os import PathLike
from pathlib import Path

from pate.data.dataset import require_dataset
from pate.errors import shown_as
from pate.report import Report
from pate.report.tensorboard import RunWriter
from pate.run.baselines import has_all_records_model, train_baselines
from pate.run.budget_classes import budget_class_remarks, record_weights, repeat_records
from pate.run.charging import RunCharge, require_entered
from pate.run.ensemble import Ensemble, training_progress
from pate.run.folder import RunFolder
from pate.run.membership import membership
from pate.run.partition_manifest import deal
from pate.run.plan import Plan, price
from pate.run.plan_warnings import constant_student_warnings, plan_warnings
from pate.run.random_streams import RandomStreams
from pate.run.reference_models import ReferenceModels
from pate.run.report_files import write_report
from pate.run.session_progress import watched
from pate.run.sources import Sources, require_same_data
from pate.run.student_prior import StudentPrior
from pate.run.students import KeptModels, StudentTraining
from pate.setting_names import TRAIN
from pate.threads import all_cores


@all_cores()
@shown_as(TRAIN)
def train(plan: Plan, output_dir: str | PathLike[str], monitor: Monitor | None = None) -> Report:
    """Runs a plan in a folder, or continues the run in that folder, and returns the report.

    A finished run is not repeated: its report is read and returned, and nothing more is spent.

    The comments in the body list, after "Private:", each object that holds private records or results that no epsilon
    covers. `students` holds `models` and `events`; `record` holds only the content of `release`. All these objects are
    gone when the function returns, except the report (tests/e2e/test_private_objects.py).

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

        # 1. The price. It depends on the number of private groups alone. Nothing is trained or spent.
        #    Private: `dataset`, whose `private` are the records that everything private below is computed from, and
        #    `charge`, which has the ids of their owners for the ledger. `plan` has a function that reads the records,
        #    and keeps none of them.
        #    Sizes and times of the files are taken before the files are read, so that a later change is noticed.
        sources = Sources.from_settings(plan.settings, output_dir=folder.path)
        with monitor.stage("reading the data"):
            dataset = plan.load_dataset()
            require_dataset(dataset, allow_weights=True)
        plan = plan.for_dataset(dataset, monitor)
        priced = price(plan, dataset, monitor)
        num_teachers = priced.shape.num_teachers
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
            dataset, plan.aggregator, plan.teacher, plan.student, num_teachers=num_teachers
        )
        doubts = map(TRAIN.doubt_line, priced.doubts)
        for line in (*budget_class_remarks(dataset, priced), *doubts, *warnings):
            monitor.say(line)
        charge.begin(monitor, redraw=plan.redraw)
        streams = RandomStreams.of_run(folder.training_secret, plan.seed)
        models = KeptModels(
            folder.models
        )  # for a run that is continued; they are removed at the end

        with RunWriter(folder=folder.tensorboard if plan.tensorboard else None) as events:
            # 2. The teachers learn from disjoint records, and vote on public samples.
            #    Private: `training_data`, `partition`, `ensemble` and `votes`, with their files in `folder`, and the
            #    curves in `events`; later `models`, in which baselines are kept. No epsilon covers them.
            training_data = repeat_records(dataset, priced)
            partition = deal(
                training_data.private,
                num_teachers,
                manifest=folder.partition,
                rng=streams.generator("partition"),
            )
            progress = training_progress(plan.teacher, partition, folder)
            _say_what_is_there(folder, training=progress, models=models, monitor=monitor)
            ensemble = Ensemble.train(
                plan.teacher,
                training_data,
                partition,
                num_queries=priced.shape.num_queries,
                seeds=streams.seeds("teachers", num_teachers),
                engine=plan.engine,
                folder=folder,
                monitor=monitor,
                on_losses=events.teacher,
                weights=record_weights(dataset, priced),
            )
            votes = ensemble.vote()
            events.teachers()

            # 3. The only way out: `aggregator.release` draws noise around the votes, and `record` commits what is drawn
            #    in one step with its charge. A kill before that step has shown and charged nothing. After a kill
            #    behind that step, the same call reads back what was drawn.
            #    Not private: `release`, which has the stated epsilon and may be published.
            queries = ensemble.queries
            seed = streams.seed("student")
            prior = StudentPrior(
                student=plan.student,
                inputs=queries.inputs,
                seed=seed,
                never_empty=priced.aggregator.never_empty,
            )
            aggregator = priced.aggregator.with_prior(prior)
            record = charge.record()
            with monitor.stage("releasing labels", priced.shape.num_queries) as advance:
                # This is `record`; for a session, each round is reported to `advance` and `events`, too.
                watched_record = watched(record, priced, advance, events)
                release = aggregator.release(votes, streams.generator("noise"), watched_record)
            charge.publish(release, ensemble.public_names, monitor)

            # 4. The student learns from the release and public samples. Post-processing costs nothing more.
            #    Not private: `student`, which may be published under the same epsilon.
            pool = dataset.public.inputs[priced.shape.num_queries :]
            students = StudentTraining(
                student=plan.student,
                pool=pool,
                seed=seed,
                models=models,
                events=events,
                monitor=monitor,
            )
            training_set = release.training_set(queries.inputs)
            student = students.train("student", training_set)
            student.model.save(folder.release / "student")
            remedy = priced.aggregator.remedies["noise"]
            for line in constant_student_warnings(
                student.model, public_inputs=dataset.public.inputs, remedy=remedy
            ):
                monitor.say(line)

            # 5. The report is for the owner alone: it compares the student with models of the private records.
            #    Private: `majority`, `baselines`, `attack` and the report; no epsilon covers them.
            #    `write_report` is the last call that reads `dataset` and `votes`. When this function ends, no object
            #    holds private records any more, and `report` is the last result that no epsilon covers.
            #    `cli/train.py:train_from_config` prints its scores and, with logger=mlflow, logs them; a sweep keeps
            #    them in its `jobs/` and `sweep.csv`, for the owner.
            #    On disk remain the owner's `folder`, of which only `release/` may be published, the ledger, and the
            #    models and features of the records in `pate_cache`, which runs in the same folder share.
            majority = priced.aggregator.noiseless_from(votes, record)
            baselines = train_baselines(
                students,
                dataset,
                queries,
                majority=majority.training_set(queries.inputs),
                all_records=plan.all_records,
                all_records_folder=folder.all_records_model,
                references=ReferenceModels(Path(os.path.realpath(folder.path)).parent, monitor),
                seed=plan.seed,
            )
            charge.require_paid()
            with monitor.stage("measuring what the student tells of its members"):
                attack = membership(
                    student.model, training=training_set, dataset=dataset, seed=seed
                )
            with monitor.stage("writing the report"):
                report = write_report(
                    folder,
                    dataset=dataset,
                    queries=queries,
                    priced=priced,
                    charge=charge,
                    votes=votes,
                    release=release,
                    student=student,
                    baselines=baselines,
                    membership=attack,
                    teacher=plan.teacher,
                    heading=plan.heading,
                    public_settings=plan.public_settings(priced.aggregator),
                    places=plan.places(num_teachers),
                    epsilon_on_votes=plan.epsilon_on_votes,
                    events=events,
                    started=started,
                )
        models.remove()
        return report


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
