"""The files of a run that people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pate.files.atomic import write_text
from pate.report import Report, privacy_card, render_html
from pate.run.manifest import write_manifests
from pate.run.results import Results
from pate.run.workplace import Workplace


def write_report_files(
    place: Workplace, report: Report, results: Results, *, public_settings: str, settings: Mapping[str, Any]
) -> None:
    """Writes them all. `report.json`, which says that the run is complete, comes last, after the digests of all.

    Args:
        place: where the run works; its events are closed.
        report: of the results.
        results: all that the run knows.
        public_settings: the settings that may be published, as YAML.
        settings: all of them, by which TensorBoard compares runs; the owner's alone.
    """
    folder, events, figures = place.folder, place.events, results.figures(report)
    write_text(folder.release / "config.yaml", public_settings)
    card = privacy_card(
        report.privacy,
        dataset=report.data.name if report.data.real else f"{report.data.name} (synthetic)",
        num_answered=report.release.num_answered,
        num_labels=report.data.num_labels,
        num_teachers=report.teachers.num_teachers,
        num_hits=report.release.num_hits,
    )
    write_text(folder.release / "privacy_card.md", card)
    write_text(folder.path / "report.html", render_html(report, figures))
    if figures.gaps is not None:
        events.gaps(figures.gaps)
    if len(results.teacher_accuracies):
        events.teacher_accuracies(results.teacher_accuracies)
    events.queries(figures.answered, figures.epsilon_after_query)
    events.report(report, named_values(settings))
    events.close()
    write_manifests(folder, report.to_json() + "\n")
    report.write(folder.report)


def named_values(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested settings by their names on the command line; a node with a class has the class's last name for a value.

    >>> named_values({"seed": 1, "aggregator": {"_target_": "pate.aggregators.GNMax", "noise_std": 2.0}})
    {'seed': 1, 'aggregator': 'GNMax', 'aggregator.noise_std': 2.0}
    """
    found: dict[str, Any] = {}
    for name, value in settings.items():
        path = f"{above}.{name}" if above else str(name)
        if name == "_target_":
            found[above] = str(value).rpartition(".")[2]
        elif isinstance(value, Mapping):
            found |= named_values(value, path)
        elif value is not None:
            found[path] = value
    return found
