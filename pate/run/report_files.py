"""The files of a finished run: the published files in `release/`, and the report for the owner."""

import time
from collections.abc import Sequence
from dataclasses import replace

from pate.bundle.model_card import write_model_card
from pate.bundle.model_form import ModelForm
from pate.files.atomic import write_text
from pate.report import Privacy, Report
from pate.report.membership import Membership
from pate.report.picture_arrays import PictureArrays
from pate.report.tensorboard import RunWriter
from pate.run.baselines import BaselineModels
from pate.run.published_price import write_price
from pate.run.results import Results
from pate.run.run_parts import PricedRun, ReleasedRun


def write_report(
    run: PricedRun,
    *,
    released: ReleasedRun,
    baseline_models: BaselineModels,
    membership: Membership | None,
    run_writer: RunWriter,
) -> Report:
    """Writes the files of a finished run, and returns its report.

    `report.json` is written last, so its presence proves that the run is complete.

    Args:
        run: the plan, the data set and the price of the run; the report has figures of the private records.
        released: the votes, the release and the student.
        baseline_models: the models that the student is compared with.
        membership: the result of the membership inference attack on the student; None if it could not be measured.
        run_writer: writes the curves of the report, and is closed at the end.
    """
    from pate.report.page import render_html

    results = _results_of(
        run, released=released, baseline_models=baseline_models, membership=membership
    )
    report = results.report(duration_s=time.monotonic() - run.start_time)
    picture_arrays = results.picture_arrays(report)
    privacy = report.privacy
    if run.charge.tuned is not None:
        # the score by which runs were compared is no fair estimate for the best of them
        privacy = replace(privacy, scores=None)
    _write_published_files(run, released=released, report=report, privacy=privacy)
    page = render_html(replace(report, privacy=privacy), picture_arrays)
    write_text(run.folder.page, text=page)
    _write_curves(run_writer, report=report, picture_arrays=picture_arrays, results=results)
    run.folder.write_manifests(report.to_json() + "\n")
    report.write(run.folder.report)
    return report


def _results_of(
    run: PricedRun,
    *,
    released: ReleasedRun,
    baseline_models: BaselineModels,
    membership: Membership | None,
) -> Results:
    """Returns the results of a run, from which its report and the arrays of its pictures are computed."""
    return Results(
        dataset=run.dataset,
        queries=released.ensemble.queries,
        charge=run.charge,
        priced_release=run.priced_release,
        votes=released.votes,
        release=released.release,
        curve=released.trained_student.curve,
        released_scores=released.released_scores,
        models={"student": released.trained_student.model, **baseline_models.models},
        membership=membership,
        teacher=run.plan.teacher,
        heading=run.plan.heading,
        epsilon_on_votes=run.plan.epsilon_on_votes,
        left_out=baseline_models.left_out,
        sampled=baseline_models.sampled,
    )


def _write_published_files(
    run: PricedRun, *, released: ReleasedRun, report: Report, privacy: Privacy
) -> None:
    """Writes the published files that state the settings and the price, and that describe the student.

    Args:
        run: the plan, the data set and the charge.
        released: the release and the student.
        report: the report, of which the release, the features and a public name are read.
        privacy: the price as it is published.
    """
    dataset = run.dataset
    charge = run.charge
    release_folder = run.folder.release
    write_text(
        release_folder / "config.yaml", text=run.plan.public_settings(run.priced_release.aggregator)
    )
    labels_have_gaps = dataset.private.known is not None
    places = run.plan.places(run.priced_release.shape.num_teachers)
    promises: Sequence[str] = ()
    if places is not None:
        promises = places.promises(
            released.release, budget=charge.budget, num_draws=charge.num_draws
        )
    write_price(
        drawn_release=released.release,
        release_charge=charge,
        privacy=privacy,
        folder=release_folder,
        places=promises,
        aggregator_name=report.heading.aggregator if report.heading.is_public else None,
        data_name=dataset.name,
        is_real=dataset.real,
        features=report.data.features,
        labels_have_gaps=labels_have_gaps,
        label_names=dataset.label_names,
    )
    form = ModelForm.from_student(
        released.trained_student.model,
        name=dataset.name,
        kind=dataset.kind,
        labels=dataset.label_names,
        preprocessing=dataset.preprocessing,
    )
    form.write(release_folder)
    write_model_card(
        release_folder,
        form,
        privacy=privacy,
        release_summary=report.release,
        labels_have_gaps=labels_have_gaps,
    )


def _write_curves(
    run_writer: RunWriter, *, report: Report, picture_arrays: PictureArrays, results: Results
) -> None:
    """Writes the curves and histograms of a run, and closes their file.

    Args:
        run_writer: the file of curves.
        report: the report of the run.
        picture_arrays: the arrays that are drawn on the page of the report.
        results: the results of the run, with the accuracy of each teacher.
    """
    if picture_arrays.gaps is not None:
        run_writer.write_histogram("gap", values=picture_arrays.gaps)
    if len(results.accuracies):
        run_writer.write_histogram("teacher_accuracy", values=results.accuracies)
    run_writer.write_queries(
        is_answered=picture_arrays.answered, epsilon_after_query=picture_arrays.epsilon_after_query
    )
    run_writer.write_guarantee_and_scores_of(report)
    run_writer.close()
