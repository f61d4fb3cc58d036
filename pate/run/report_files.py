"""The files of a finished run: the published files in `release/`, and the report for the owner."""

import time
from collections.abc import Sequence
from dataclasses import replace

from pate.aggregators import Release
from pate.bundle.model_card import publish
from pate.data import Dataset, Split
from pate.files.atomic import write_text
from pate.pricing import PricedRelease
from pate.report import Report
from pate.report.membership import Membership
from pate.report.released_scores import ReleasedScores
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
    scores: ReleasedScores | None,
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

    `report.json` is written last, so its presence proves that the run is complete.

    Args:
        folder: the folder of the run.
        dataset: the data set; the report has figures of its private records.
        queries: the public samples that teachers voted on.
        priced: the release with its price and its aggregator, whose noise was solved for.
        charge: the charge of the release in its ledger.
        votes: the votes of the teachers.
        release: the labels that were released from the votes.
        student: the student that learned from the release.
        scores: the student's scores on the test records that were released; None where none were.
        baselines: the models that the student is compared with.
        membership: the result of the membership inference attack on the student; None if it could not be measured.
        teacher: the recipe of the teachers.
        heading: the name of the run, and the names of its parts.
        public_settings: the text of `release/config.yaml`.
        places: the distribution of teachers over holders; None for a run without holders.
        epsilon_on_votes: computes the cost of the release on its own votes; None leaves it out of the report.
        events: writes the curves of the report, and is closed at the end.
        started: the time when the run began, by `time.monotonic`, in seconds.
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
        released_scores=scores,
        models={"student": student.model, **baselines.models},
        membership=membership,
        teacher=teacher,
        heading=heading,
        epsilon_on_votes=epsilon_on_votes,
        left_out=baselines.left_out,
        sampled=baselines.sampled,
    )
    report = results.report(duration_s=time.monotonic() - started)
    figures = results.figures(report)
    privacy = report.privacy
    if charge.tuned is not None:
        # the score by which runs were compared is no fair estimate for the best of them
        privacy = replace(privacy, scores=None)
    write_text(folder.release / "config.yaml", text=public_settings)
    labels_have_gaps = dataset.private.known is not None
    promises: Sequence[str] = ()
    if places is not None:
        promises = places.promises(release, charge.budget, num_draws=charge.num_draws)
    write_price(
        drawn_release=release,
        release_charge=charge,
        privacy=privacy,
        folder=folder.release,
        places=promises,
        name=report.heading.aggregator if report.heading.is_public else None,
        data=dataset.name,
        real=dataset.real,
        features=report.data.features,
        labels_have_gaps=labels_have_gaps,
        label_names=dataset.label_names,
    )
    publish(
        student.model,
        folder=folder.release,
        privacy=privacy,
        release=report.release,
        preprocessing=dataset.preprocessing,
        name=dataset.name,
        input_kind=dataset.kind,
        label_names=dataset.label_names,
        labels_have_gaps=labels_have_gaps,
    )
    shown = replace(report, privacy=privacy)
    write_text(folder.page, text=render_html(shown, figures))
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
