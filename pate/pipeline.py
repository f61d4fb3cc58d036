"""All stages of a run in order: data, price, partition, teachers, votes, release, students, report.

Each stage leaves a file and is skipped where that is there, so the same call continues a run that was stopped.
"""

from pate.validation import require_extra

require_extra(__name__, "train")


import math
import os
import time
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path

from pate.aggregators import TrainingSet
from pate.data import Dataset
from pate.data.dataset import require_dataset
from pate.networks.device import all_cores
from pate.report import Report
from pate.report.tensorboard import RunWriter
from pate.run.budget_classes import budget_class_remarks, record_weights, repeat_records
from pate.run.ensemble import Ensemble, deal, training_progress
from pate.run.folder import RunFolder
from pate.run.kept_models import Curve, KeptModels
from pate.run.payment import Payment, require_entered
from pate.run.plan import Plan, price
from pate.run.plan_warnings import constant_student_warnings, plan_warnings
from pate.run.progress import Monitor
from pate.run.random_streams import RandomStreams
from pate.run.release import release_once
from pate.run.results import Results, write_report
from pate.run.sources import Sources, require_same_data
from pate.run.student import membership, train_on_all_records
from pate.student import StudentModel

# values that all private inputs have together
_CHEAP = {"features": 2 * 10**8, "images": 2 * 10**7}


@all_cores()
def train(plan: Plan, output_dir: str | PathLike[str], monitor: Monitor | None = None) -> Report:
    """Runs a plan in a folder, or continues it there, and returns its report.

    A finished run is not repeated: its report is returned as it is, and nothing more is spent. Raises `InvalidValue`
    for a plan that cannot work, before anything is spent, and for a folder of another run or of other data.
    """
    folder = RunFolder(Path(output_dir))
    monitor = monitor or Monitor()
    with folder.opened(plan.settings):
        if folder.report.exists():
            folder.require_manifest()
            if plan.ledger is not None:
                require_entered(plan.ledger, folder)
            require_same_data(folder, plan.settings, plan.load_dataset, monitor)
            monitor.say(
                f"output_dir={folder.path}: this run is finished; nothing was trained, drawn or spent again"
            )
            return Report.read(folder.report)
        return _run(plan, folder, monitor)


def _run(plan: Plan, folder: RunFolder, monitor: Monitor) -> Report:
    """All stages in order. What a stage needs is an argument, what it leaves is a value."""
    started = time.monotonic()
    # before they are read: what changes meanwhile is seen later
    sources = Sources.of(plan.settings, folder.path)
    with monitor.stage("reading the data"):
        dataset = require_dataset(plan.load_dataset(), weighted=True)
    asked = plan.num_queries
    plan = plan.for_dataset(dataset)
    if plan.num_queries != asked:
        monitor.say(
            f"num_queries={asked}: the public pool has {plan.num_queries} samples, all are asked"
        )
    priced = price(plan, dataset, monitor)
    private = dataset.private_digest()
    payment = Payment(
        priced, plan, folder, data=private, unit=plan.unit(dataset), owners=dataset.owners
    )
    folder.claim(plan.settings, data=dataset.digest(), release=priced.identity, private=private)
    sources.write(folder)
    num_teachers = priced.shape.num_teachers
    warnings = plan_warnings(
        dataset, plan.aggregator, plan.teacher, plan.student, num_teachers=num_teachers
    )
    for line in (*budget_class_remarks(dataset, priced), *priced.doubts, *warnings):
        monitor.say(line)
    payment.begin(monitor, redraw=plan.redraw)
    streams = RandomStreams.of_run(folder.training_secret, plan.seed)
    learned = repeat_records(dataset, priced)
    with RunWriter(folder.path / "tensorboard" if plan.tensorboard else None) as events:
        partition = deal(
            learned.private, num_teachers, folder.partition, streams.generator("partition")
        )
        kept = KeptModels(folder.models)
        _say_what_is_there(
            folder, training_progress(plan.teacher, partition, folder), kept, monitor
        )
        ensemble = Ensemble.train(
            plan.teacher,
            learned,
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
        queries = ensemble.queries
        events.teachers()
        release = release_once(
            payment,
            votes,
            names=ensemble.public_names,
            monitor=monitor,
            events=events,
            streams=streams,
            student=plan.student,
            inputs=queries.inputs,
        )
        training = release.training_set(queries.inputs)
        curves: dict[str, Curve] = {}
        seed = streams.seed("student")

        def trained(name: str, training: TrainingSet) -> StudentModel:
            """A student under a name of report.json: all are trained alike, and watched while they learn."""

            def train(on_epoch: Callable[[int, dict[str, float]], None]) -> StudentModel:
                # behind those that were asked
                pool = dataset.public.take(slice(ensemble.num_queries, None)).inputs
                with monitor.stage(f"training the {name.replace('_', ' ')}") as advance:

                    def told(epoch: int, values: dict[str, float]) -> None:
                        advance(epoch)
                        on_epoch(epoch, values)

                    return plan.student.learn(training, pool=pool, seed=seed, on_epoch=told)

            on_epoch = partial(events.epoch, model=name)
            model, curves[name] = kept.train(
                name, training, seed=seed, train=train, on_epoch=on_epoch
            )
            return model

        models = {"student": trained("student", training)}
        models["student"].save(folder.release / "student")
        remedy = priced.aggregator.remedies["noise"]
        for line in constant_student_warnings(
            models["student"], dataset.public.inputs, remedy=remedy
        ):
            monitor.say(line)
        majority = priced.aggregator.noiseless_from(votes, payment).training_set(queries.inputs)
        models["majority_vote_student"] = trained("majority_vote_student", majority)
        left_out: dict[str, str] = {}
        if dataset.public_labeled:
            models["true_label_student"] = trained(
                "true_label_student", TrainingSet(queries.inputs, queries.labels)
            )
        else:
            left_out["true_label_student"] = "the public samples have no labels"
        reason = reason_without_ceiling(plan.all_records, dataset)
        if reason is None:
            models["all_records_model"] = _ceiling(plan, dataset, folder, monitor, seed)
        else:
            left_out["all_records_model"] = reason
        payment.require_paid()
        with monitor.stage("measuring what the student tells of its members"):
            told_of_members = membership(models["student"], training, dataset, seed=seed)
        results = Results(
            plan=plan,
            dataset=dataset,
            queries=queries,
            payment=payment,
            priced=priced,
            votes=votes,
            release=release,
            curve=curves["student"],
            models=models,
            membership=told_of_members,
            left_out=left_out,
        )
        with monitor.stage("writing the report"):
            report = write_report(results, events, started=started)
        kept.remove()
        return report


def _say_what_is_there(
    folder: RunFolder, progress: str, kept: KeptModels, monitor: Monitor
) -> None:
    """Says what a run that was stopped has done, none of which is done again."""
    done = [progress]
    if os.path.lexists(folder.release / "release.npz"):
        done.append("the release is drawn and paid for")
    names = [*kept.names, *(["all_records_model"] if _has_ceiling(folder) else [])]
    if names:
        done.append(f"trained: {', '.join(name.replace('_', ' ') for name in names)}")
    if any(done):
        monitor.say(
            f"output_dir={folder.path}: continues a run that was stopped; {'; '.join(filter(None, done))}"
        )


def reason_without_ceiling(asked: bool | None, dataset: Dataset) -> str | None:
    """Says why the model of all private records is left out, by the setting `all_records`; None where it is trained.

    Unless the setting decides, it is trained where the private inputs are so few numbers that it takes minutes.
    """
    if asked is not None:
        return None if asked else "all_records=false"
    numbers = len(dataset.private) * math.prod(dataset.input_shape)
    if numbers <= _CHEAP[dataset.kind]:
        return None
    return f"it takes long on {numbers:,} numbers of private inputs; all_records=true trains it"


def _has_ceiling(folder: RunFolder) -> bool:
    return (folder.path / "all_records_model" / "student.json").exists()


def _ceiling(
    plan: Plan, dataset: Dataset, folder: RunFolder, monitor: Monitor, seed: int
) -> StudentModel:
    """The model of all private records, trained or read back."""
    path = folder.path / "all_records_model"
    if _has_ceiling(folder):
        return StudentModel.load(path)
    with monitor.stage("training the all-records model"):
        model = train_on_all_records(plan.student, dataset, seed=seed)
    model.save(path)
    return model
