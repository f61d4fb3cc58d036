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
    priced_run: PricedRun,
    *,
    released_run: ReleasedRun,
    baseline_models: BaselineModels,
    membership: Membership | None,
    tensorboard_writer: RunWriter,
) -> Report:
    """Writes the files of a finished run, and returns its report.

    `report.json` is written last, so its presence proves that the run is complete.

    Args:
        priced_run: the plan, the data set and the price of the run; the report has figures of the private records.
        released_run: the votes, the release and the student.
        baseline_models: the models that the student is compared with.
        membership: the result of the membership inference attack on the student; None if it could not be measured.
        tensorboard_writer: writes the curves of the report, and is closed at the end.
    """
    from pate.report.page import render_html

    results = _results_of(
        priced_run,
        released_run=released_run,
        baseline_models=baseline_models,
        membership=membership,
    )
    report = results.report(duration_s=time.monotonic() - priced_run.start_time)
    picture_arrays = results.picture_arrays(report)
    published_privacy = report.privacy
    if priced_run.run_charge.tuned is not None:
        # the score by which runs were compared is no fair estimate for the best of them
        published_privacy = replace(published_privacy, scores=None)
    _write_published_files(
        priced_run, released_run=released_run, report=report, published_privacy=published_privacy
    )
    page_html = render_html(replace(report, privacy=published_privacy), picture_arrays)
    write_text(priced_run.run_folder.page, text=page_html)
    _write_curves(tensorboard_writer, report=report, picture_arrays=picture_arrays, results=results)
    priced_run.run_folder.write_manifests(report.to_json() + "\n")
    report.write(priced_run.run_folder.report)
    return report


def _results_of(
    priced_run: PricedRun,
    *,
    released_run: ReleasedRun,
    baseline_models: BaselineModels,
    membership: Membership | None,
) -> Results:
    """Returns the results of a run, from which its report and the arrays of its pictures are computed."""
    return Results(
        dataset=priced_run.dataset,
        queries=released_run.ensemble.queries,
        run_charge=priced_run.run_charge,
        priced_release=priced_run.priced_release,
        vote_source=released_run.vote_source,
        release=released_run.release,
        named_losses_of_epochs=released_run.trained_student.named_losses_of_epochs,
        released_scores=released_run.released_scores,
        model_by_name={
            "student": released_run.trained_student.model,
            **baseline_models.model_by_name,
        },
        membership=membership,
        teacher_recipe=priced_run.plan.teacher,
        heading=priced_run.plan.heading,
        epsilon_on_votes_function=priced_run.plan.epsilon_on_votes_function,
        reasons_left_out=baseline_models.reasons_left_out,
        private_samples_in_words=baseline_models.private_samples_in_words,
    )


def _write_published_files(
    priced_run: PricedRun, *, released_run: ReleasedRun, report: Report, published_privacy: Privacy
) -> None:
    """Writes the published files that state the settings and the price, and that describe the student.

    Args:
        priced_run: the plan, the data set and the charge.
        released_run: the release and the student.
        report: the report, of which the release, the features and the aggregator's name, if it is public, are read.
        published_privacy: the price as it is published.
    """
    dataset = priced_run.dataset
    run_charge = priced_run.run_charge
    release_folder = priced_run.run_folder.release
    write_text(
        release_folder / "config.yaml",
        text=priced_run.plan.make_release_config_text(priced_run.priced_release.aggregator),
    )
    labels_have_gaps = dataset.private.known is not None
    holder_places = priced_run.plan.places(priced_run.priced_release.shape.num_teachers)
    sentences_on_people: Sequence[str] = ()
    if holder_places is not None:
        sentences_on_people = holder_places.promises(
            released_run.release,
            budget=run_charge.budget,
            num_draws=run_charge.num_draws,  # of this release, each with fresh noise
            tuned_event=None if run_charge.tuned is None else run_charge.tuned.event,
        )
    write_price(
        drawn_release=released_run.release,
        release_charge=run_charge,
        privacy=published_privacy,
        release_folder=release_folder,
        sentences_on_people=sentences_on_people,
        aggregator_name=report.heading.aggregator_name if report.heading.is_public else None,
        data_name=dataset.name,
        is_real=dataset.real,
        feature_settings=report.data.features,
        labels_have_gaps=labels_have_gaps,
        label_names=dataset.label_names,
    )
    model_form = ModelForm.from_student(
        released_run.trained_student.model,
        data_name=dataset.name,
        data_kind=dataset.kind,
        label_names=dataset.label_names,
        preprocessing=dataset.preprocessing,
    )
    model_form.write(release_folder)
    write_model_card(
        release_folder,
        model_form,
        privacy=published_privacy,
        release_summary=report.release,
        labels_have_gaps=labels_have_gaps,
    )


def _write_curves(
    tensorboard_writer: RunWriter,
    *,
    report: Report,
    picture_arrays: PictureArrays,
    results: Results,
) -> None:
    """Writes the curves and histograms of a run, and closes their file.

    Args:
        tensorboard_writer: writes the curves into the run's folder.
        report: the report of the run.
        picture_arrays: the arrays that are drawn on the page of the report.
        results: the results of the run, with the accuracy of each teacher.
    """
    largest_gap_of_queries = picture_arrays.gaps
    if largest_gap_of_queries is not None:
        tensorboard_writer.write_histogram("gap", values=largest_gap_of_queries)
    if len(results.accuracy_of_teachers):
        tensorboard_writer.write_histogram("teacher_accuracy", values=results.accuracy_of_teachers)
    tensorboard_writer.write_queries(
        is_answered=picture_arrays.answered, epsilon_after_query=picture_arrays.epsilon_after_query
    )
    tensorboard_writer.write_guarantee_and_scores_of(report)
    tensorboard_writer.close()
