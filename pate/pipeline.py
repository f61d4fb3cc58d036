"""All stages of a run in order: data, price, partition, teachers, votes, release, students, report.

Each stage leaves a file and is skipped where that is there, so the same call continues a run that was stopped.
"""

import math
import time
from os import PathLike
from pathlib import Path

import numpy as np

from pate.aggregators import TrainingSet
from pate.data.dataset import require_dataset
from pate.report import Report
from pate.report.tensorboard import RunWriter
from pate.run.ensemble import Ensemble, deal
from pate.run.folder import RunFolder, Workplace
from pate.run.payment import Payment, require_entered
from pate.run.plan import Plan, plan_warnings, price, record_weights, said_of_weights, student_is_the_prior, taught
from pate.run.progress import Monitor, NullMonitor
from pate.run.randomness import Randomness
from pate.run.release import release_once
from pate.run.results import Results, write_report_files
from pate.run.student import Prediction, Students

_CHEAP = {"features": 2 * 10**8, "images": 2 * 10**7}  # values that all private inputs have together


def train(plan: Plan, output_dir: str | PathLike[str], monitor: Monitor | None = None) -> Report:
    """Runs a plan in a folder, or continues it there, and returns its report.

    A finished run is not repeated: its report is returned as it is, and nothing more is spent.

    Raises:
        InvalidValue: a plan that cannot work, said before anything is spent; a folder of another run.
    """
    folder, monitor = RunFolder(Path(output_dir)), monitor or NullMonitor()
    with folder.opened(plan.settings):
        if folder.report.exists():
            folder.require_manifest()
            if plan.ledger is not None:
                require_entered(plan.ledger, folder)
            monitor.say(f"output_dir={folder.path}: this run is finished; nothing was trained, drawn or spent again")
            return Report.read(folder.report)
        return _run(plan, folder, monitor)


def _run(plan: Plan, folder: RunFolder, monitor: Monitor) -> Report:
    """All stages in order. What a stage needs is an argument, what it leaves is a value."""
    started = time.monotonic()
    with monitor.stage("reading the data"):
        dataset = require_dataset(plan.load_dataset(), weighted=True)
    asked, plan = plan.num_queries, plan.fitted(dataset)
    if plan.num_queries != asked:
        monitor.say(f"num_queries={asked}: the public pool has {plan.num_queries} samples, all are asked")
    priced = price(plan, dataset)
    private = dataset.private_digest()
    payment = Payment(priced, plan, folder, data=private, owners=dataset.owners)
    folder.claim(plan.settings, data=dataset.digest(), release=priced.identity, private=private)
    parts, num_teachers = (plan.aggregator, plan.teacher, plan.student), priced.shape.num_teachers
    warnings = plan_warnings(dataset, *parts, num_teachers=num_teachers)
    for line in (*said_of_weights(dataset, priced), *priced.doubts, *warnings):
        monitor.say(line)
    draw = payment.begin(monitor, redraw=plan.redraw)
    events = RunWriter(folder.path / "tensorboard" if plan.tensorboard else None)
    place = Workplace(folder, Randomness(folder.path, plan.seed), monitor, events, draw)
    with events:
        learned = taught(dataset, priced)
        ensemble = Ensemble(
            teacher=plan.teacher,
            partition=deal(learned.private, num_teachers, place.randomness),
            dataset=learned,
            num_queries=priced.shape.num_queries,
            folder=folder.path,
            randomness=place.randomness,
            engine=plan.engine,
            monitor=monitor,
            on_loss=events.teacher,
            weights=record_weights(dataset, priced),
        )
        votes = ensemble.votes()
        votes.prepare()
        inputs, labels = ensemble.queries.inputs, ensemble.queries.labels
        release = release_once(payment, votes, place, student=plan.student, inputs=inputs, names=ensemble.public_names)
        students = Students(plan.student, dataset, ensemble.num_queries, place)
        student = students.train("student", release.training_set(inputs))
        student.save(folder.release / "student")
        for line in student_is_the_prior(student, dataset.public.inputs, helps=priced.aggregator.remedies["noise"]):
            monitor.say(line)
        majority = priced.aggregator.noiseless_from(votes, payment)
        baselines = {"majority_vote_student": students.train("majority_vote_student", majority.training_set(inputs))}
        if dataset.public_labeled:
            baselines["true_label_student"] = students.train("true_label_student", TrainingSet(inputs, labels))
        cheap = len(dataset.private) * math.prod(dataset.input_shape) <= _CHEAP[dataset.kind]
        if cheap if plan.all_records is None else plan.all_records:
            baselines["all_records_model"] = students.train_ceiling()
        payment.require_paid()
        test = dataset.test.inputs
        predictions = {
            name: Prediction(each.predict(test), each.predict_proba(test), each.threshold)
            for name, each in {"student": student, **baselines}.items()
        }
        results = Results(
            dataset=dataset,
            queries=ensemble.queries,
            release=release,
            priced=priced,
            histogram=votes.counts() if votes.gives_bits else None,
            teacher_accuracies=votes.accuracies(labels) if dataset.public_labeled else np.empty(0),
            predictions=predictions,
            budget=plan.budget,
            epsilon=payment.epsilon,
            seed=plan.seed,
            student_curve=students.curves["student"],
            heading=plan.heading,
            says_data_dependent=plan.data_dependent,
            membership=students.membership(student, release.training_set(inputs)),
        )
        with monitor.stage("writing the report"):
            report = results.report(duration_s=time.monotonic() - started)
            public = plan.public_settings(priced.aggregator)
            places = plan.places(ensemble.num_teachers)
            write_report_files(place, report, results, model=student, public_settings=public, places=places)
    return report
