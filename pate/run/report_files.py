"""The files of a run that people read."""

from __future__ import annotations

import numpy as np

from pate import __version__
from pate.data import Dataset
from pate.files.disk import write_text
from pate.report import Report, privacy_card
from pate.run.bundle.form import ModelForm
from pate.run.bundle.model_card import model_card
from pate.run.manifest import write_manifests
from pate.run.places import Places
from pate.run.results import Results
from pate.run.workplace import Workplace
from pate.student import StudentModel


def write_report_files(
    place: Workplace,
    report: Report,
    results: Results,
    *,
    model: StudentModel,
    public_settings: str,
    places: Places | None = None,
) -> None:
    """Writes them all. `report.json`, which says that the run is complete, comes last, after the digests of all.

    Args:
        place: where the run works; its events are closed.
        report: of the results.
        results: all that the run knows.
        model: the student that is published.
        public_settings: the settings that may be published, as YAML.
        places: of the holders whose teachers voted; None for one.
    """
    from pate.report.page import render_html  # loads matplotlib

    release = results.release
    folder, events, figures = place.folder, place.events, results.figures(report)
    write_text(folder.release / "config.yaml", public_settings)
    card = privacy_card(
        report.privacy,
        name=report.heading.aggregator if report.heading.is_public else None,
        dataset=report.data.name if report.data.real else f"{report.data.name} (synthetic)",
        num_answered=report.release.num_answered,
        num_labels=report.data.num_labels,
        num_teachers=report.teachers.num_teachers,
        num_hits=report.release.num_hits,
        features=report.data.features,
        places=()
        if places is None
        else places.said(release.event, results.budget, release.adjacency, num_draws=place.draw),
    )
    write_text(folder.release / "privacy_card.md", card)
    form = model_form(results.dataset, model)
    form.write(folder.release)
    write_text(folder.release / "README.md", model_card(form, report))
    write_text(folder.path / "report.html", render_html(report, figures))
    if figures.gaps is not None:
        events.gaps(figures.gaps)
    if len(results.teacher_accuracies):
        events.teacher_accuracies(results.teacher_accuracies)
    events.queries(figures.answered, figures.epsilon_after_query)
    events.report(report)
    events.close()
    write_manifests(folder, report.to_json() + "\n")
    report.write(folder.report)


def model_form(dataset: Dataset, model: StudentModel) -> ModelForm:
    """What users of the student have to know: names, preprocessing and threshold, all of them public."""
    form = dataset.preprocessing
    return ModelForm(
        name=dataset.name,
        kind=dataset.kind,
        labels=dataset.label_names,
        input_shape=tuple(model.input_shape),
        features=() if form is None else form.feature_names,
        preprocessing=form,
        threshold=model.threshold,
        model=model.kind,
        versions={"pate": __version__, "numpy": np.__version__},
    )
