"""The files that a finished run leaves: what is published in `release/`, and the report for the owner."""

import time

from pate.aggregators import Release
from pate.bundle.model_card import publish
from pate.data import Dataset, Split
from pate.files.disk import write_text
from pate.pricing import PricedRelease
from pate.report import Report
from pate.report.membership import Membership
from pate.report.report import Heading
from pate.report.tensorboard import RunWriter
from pate.run.baselines import BaselineModels
from pate.run.charging import RunCharge
from pate.run.folder import RunFolder
from pate.run.places import Places
from pate.run.plan import EpsilonOnVotes
from pate.run.published_price import write_price
from pate.run.results import Results
from pate.run.students import TrainedStudent
from pate.teachers import Voter
from pate.votes.source import VoteSource


def write_report(
    folder: RunFolder,
    *,
    dataset: Dataset,
    queries: Split,
    priced: PricedRelease,
    charge: RunCharge,
    votes: VoteSource,
    release: Release,
    student: TrainedStudent,
    baselines: BaselineModels,
    membership: Membership | None,
    teacher: Voter,
    heading: Heading,
    public_settings: str,
    places: Places | None,
    epsilon_on_votes: EpsilonOnVotes | None,
    events: RunWriter,
    started: float,
) -> Report:
    """Writes the files of a finished run, and returns its report.

    `report.json` is written last: its presence means that the run is complete.

    Args:
        folder: the run's.
        dataset: the data; the report has figures of its private records.
        queries: the public samples that teachers voted on.
        priced: the release with the aggregator as it was used.
        charge: the charge of the release in its ledger.
        votes: the votes of the teachers.
        release: the labels that were released from the votes.
        student: the student that learned from the release.
        baselines: the models that the student is compared with.
        membership: the outcome of the membership attack on the student.
        teacher: the recipe of the teachers.
        heading: the name of the run, and the names of its parts.
        public_settings: the text of `release/config.yaml`.
        places: how teachers are spread over holders; None where there is one.
        epsilon_on_votes: computes the cost of the release on the votes at hand; None leaves it out of the report.
        events: gets the curves of the report, and is closed.
        started: the time when the run began, by `time.monotonic`.
    """
    from pate.report.page import render_html

    results = Results(
        dataset=dataset,
        queries=queries,
        charge=charge,
        priced=priced,
        votes=votes,
        release=release,
        curve=student.curve,
        models={"student": student.model, **baselines.models},
        membership=membership,
        teacher=teacher,
        heading=heading,
        epsilon_on_votes=epsilon_on_votes,
        left_out=baselines.left_out,
    )
    report = results.report(duration_s=time.monotonic() - started)
    figures = results.figures(report)
    write_text(folder.release / "config.yaml", public_settings)
    write_price(
        release,
        charge,
        report.privacy,
        places,
        name=report.heading.aggregator if report.heading.is_public else None,
        data=dataset.name,
        real=dataset.real,
        features=report.data.features,
    )
    publish(
        student.model,
        folder.release,
        report.privacy,
        report.release,
        dataset.preprocessing,
        name=dataset.name,
        kind=dataset.kind,
        labels=dataset.label_names,
    )
    write_text(folder.page, render_html(report, figures))
    if figures.gaps is not None:
        events.histogram("gap", figures.gaps)
    if len(results.accuracies):
        events.histogram("teacher_accuracy", results.accuracies)
    events.queries(figures.answered, figures.epsilon_after_query)
    events.report(report)
    events.close()
    folder.write_manifests(report.to_json() + "\n")
    report.write(folder.report)
    return report
