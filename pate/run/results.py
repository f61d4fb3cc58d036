"""The results of a run: what may be said of its release, its report and figures, and the files that people read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate import aggregators
from pate.accounting import Adjacency, ExactAccountant, JointLawAccountant, PldAccountant, RdpAccountant
from pate.accounting.events import failure_probability
from pate.aggregators import Release
from pate.aggregators.release import ChargedRelease
from pate.data import Dataset, Split
from pate.files.disk import write_text
from pate.files.values import published_fields
from pate.pricing import Budget, PricedRelease, ReleaseShape
from pate.pricing.priced_release import epsilon_on
from pate.pricing.remedies import group_votes_tell_more
from pate.report import Privacy, PrivacyStatement, Report, metric_intervals, per_label_metrics, privacy_card
from pate.report.metrics import CONSTANTS, Constant, Membership, PrecisionRecall, micro_f1, summarized
from pate.report.report import Baselines, DataSummary, Heading, ReleaseSummary, RunFigures, TeacherSummary, Verdict
from pate.run.bundle.form import ModelForm
from pate.run.bundle.model_card import model_card
from pate.run.folder import Workplace
from pate.run.places import Places
from pate.run.student import Prediction
from pate.student import StudentModel
from pate.validation import VERSION

_PACKAGES = ("numpy", "scipy", "torch", "scikit-learn", "hydra-core")
_POINTS = 24
_ASKED = {each.name: each for each in (RdpAccountant, PldAccountant, ExactAccountant, JointLawAccountant)}
_EACH_LABEL = ("student", "majority_vote_student", "all_records_model")
_UNITS = {
    Adjacency.REPLACE_ONE: "one private record, or group of records that belong together, replaced",
    Adjacency.ADD_REMOVE: "one teacher added or removed",
}
_OF_A_CLASS = " by another one of its budget class"
_OF_A_SESSION = ("num_hits", "remaining_hits", "num_abstained", "num_asked")


def privacy_of(
    release: Release, priced: PricedRelease, budget: Budget, *, epsilon: float, seeded: bool, unit: str | None = None
) -> Privacy:
    """The price of a release with the parameters that it was made with; all of it may be published.

    `epsilon` is the total of the ledger.
    """
    aggregator, num_teachers = priced.aggregator, priced.shape.num_teachers
    session = release if isinstance(release, ChargedRelease) else None
    test = aggregator.stability_test(num_teachers=num_teachers)
    published = published_fields(type(aggregator), vars(aggregator))
    plain = None  # what the price of a session is compared with
    if session is not None:
        plain = aggregator.plain_event(
            num_queries=session.num_asked, num_labels=session.labels.shape[1], num_teachers=num_teachers
        )
    return Privacy(
        epsilon=epsilon,
        delta=budget.target_delta,
        adjacency=str(release.adjacency),
        unit=unit or _UNITS[release.adjacency] + (_OF_A_CLASS if priced.classes else ""),
        accountant=budget.accountant().name,
        won_by=priced.won_by,
        mechanism=type(aggregator).__name__,
        num_queries=release.num_queries,
        paper_epsilon=aggregator.paper_epsilon(num_queries=release.num_queries, target_delta=budget.target_delta),
        noise_seeded=seeded,
        failure_prob=failure_probability(release.event),
        max_gap=None if test is None else test.num_teachers,
        gap_at_50=None if test is None else test.gap_to_pass(0.5),
        gap_at_95=None if test is None else test.gap_to_pass(0.95),
        target_hits=None if session is None else session.target_hits,
        plain_epsilon=None if plain is None else budget.epsilon_of(plain),
        parameters={name: value for name, value in published.items() if isinstance(value, (str, int, float, bool))},
        classes={each.name: each.epsilon for each in priced.classes},
    )


def summary_of(release: Release, true: NDArray[np.bool_] | None = None) -> ReleaseSummary:
    """How many queries were answered, and where their true labels `[Q, L]` are given how right the answers are."""
    session, labels = release if isinstance(release, ChargedRelease) else None, release.labels[release.answered]
    right = None if true is None or not len(labels) else true[release.answered]
    return ReleaseSummary(
        num_queries=release.num_queries,
        num_answered=release.num_answered,
        answer_rate=release.num_answered / release.num_queries,
        label_accuracy=None if right is None else float(np.mean(labels == right)),
        micro_f1=None if right is None else micro_f1(labels, right),
        **({} if session is None else {name: getattr(session, name) for name in _OF_A_SESSION}),
    )


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything that a finished run knows."""

    dataset: Dataset  # the data
    queries: Split  # the public samples that were asked
    release: Release  # what was released
    priced: PricedRelease  # the plan of it, with the aggregator as it was used
    histogram: NDArray[np.int64] | None  # int `[Q, L]`, the noiseless votes, or None where votes are not bits
    teacher_accuracies: NDArray[np.float64]  # `[T]`, or empty where votes are not bits
    # of the student and of the models beside it that were trained, by the names of report.json
    predictions: Mapping[str, Prediction]
    budget: Budget  # the delta of the guarantee, and the accountant
    epsilon: float  # the total of the ledger
    seed: int | None  # None where the noise came from the operating system
    student_curve: Sequence[Mapping[str, float]] = ()  # the student's values by epoch
    heading: Heading = field(default_factory=Heading)  # what the run is called
    membership: Membership | None = None  # an attack on the student
    says_data_dependent: bool = False  # whether the report says what the release cost on the votes at hand

    def report(self, *, duration_s: float) -> Report:
        """The values of report.json."""
        data, shape, true = self.dataset, self.priced.shape, self.dataset.test.labels
        scores = {
            name: summarized(self._per_label[name], micro_f1=micro_f1(each.labels, true))
            for name, each in self._models.items()
        }
        baselines = Baselines(**{item.name: scores.get(item.name) for item in fields(Baselines)})
        dependent = None
        if self.says_data_dependent and self.histogram is not None:
            terms = shape, self.budget.target_delta, self.release.answered
            dependent = epsilon_on(self.priced.aggregator, self.histogram, *terms)
        return Report(
            privacy=privacy_of(
                self.release,
                self.priced,
                self.budget,
                epsilon=self.epsilon,
                seeded=self.seed is not None,
                unit=None if data.shared is None else data.shared.unit,
            ),
            release=summary_of(self.release, self.queries.labels if data.public_labeled else None),
            teachers=TeacherSummary(
                num_teachers=shape.num_teachers,
                mean_accuracy=float(self.teacher_accuracies.mean()) if len(self.teacher_accuracies) else None,
                records_per_teacher=len(data.private) / shape.num_teachers,
            ),
            student=scores["student"],
            baselines=baselines,
            verdict=Verdict.of(
                scores["student"],
                baselines,
                num_answered=self.release.num_answered,
                remedies=self.priced.aggregator.remedies,
                better=self._better(),
            ),
            intervals={
                name: metric_intervals(each.labels, each.probabilities, true) for name, each in self._models.items()
            },
            data=DataSummary(
                name=data.name,
                real=data.real,
                num_private=len(data.private),
                num_public=len(data.public),
                num_test=len(data.test),
                num_labels=data.num_labels,
                label_cardinality=float(data.private.labels.sum(axis=1).mean()),
                features=None if data.preprocessing is None else dict(data.preprocessing.origin) or None,
            ),
            seed=self.seed,
            versions={"pate": VERSION} | {package: version(package) for package in _PACKAGES},
            duration_s=duration_s,
            heading=self.heading,
            membership=self.membership,
            data_dependent=dependent,
        )

    def figures(self, report: Report) -> RunFigures:
        """The arrays behind the pictures."""
        num_teachers, student, data = self.priced.shape.num_teachers, self.predictions["student"], self.dataset
        test = self.priced.aggregator.stability_test(num_teachers=num_teachers)
        reached = np.arange(0 if test is None else test.num_teachers + 1)
        names, gaps = self.student_curve[0].keys() if self.student_curve else (), None
        if self.histogram is not None:  # the largest of each query, "no label" and "all labels" included
            counts = np.sort(self.histogram.astype(np.min_scalar_type(num_teachers)), axis=1).astype(np.int32)
            ends = np.zeros((len(counts), 1), np.int32)
            gaps = np.diff(counts, axis=1, prepend=ends, append=ends + num_teachers).max(axis=1).astype(np.int64)
        return RunFigures(
            label_names=data.label_names,
            answered=self.release.answered,
            labels=self.release.labels,
            epsilon_after_query=self._epsilon_after_query(report.privacy.epsilon),
            gaps=gaps,
            gap_name="largest gap",
            histogram=self.histogram,
            num_teachers=num_teachers,
            pass_gaps=None if test is None else reached,
            pass_probability=None if test is None else test.pass_probabilities(reached),
            per_label={name: self._per_label[name] for name in _EACH_LABEL if name in self.predictions},
            precision_recall=PrecisionRecall.of(
                student.probabilities,
                student.labels,
                data.test.labels,
                constant=Constant.best(data.private.labels.mean(axis=0)).labels,
                threshold=student.threshold,
            ),
            student_curve={name: np.array([values[name] for values in self.student_curve]) for name in names},
        )

    @cached_property
    def _models(self) -> dict[str, Prediction]:
        """What the constants and all models that were trained say."""
        frequencies, count = self.dataset.private.labels.mean(axis=0), len(self.dataset.test)
        constants = {name: made(frequencies).for_samples(count) for name, made in CONSTANTS.items()}
        return {**{name: Prediction(*said) for name, said in constants.items()}, **self.predictions}

    @cached_property
    def _per_label(self) -> dict[str, dict[str, NDArray[np.float64]]]:
        """The metrics of each label, by model."""
        true = self.dataset.test.labels
        return {name: per_label_metrics(each.labels, each.probabilities, true) for name, each in self._models.items()}

    def _better(self) -> str:
        """A method that public numbers put far ahead on these data, in a sentence; empty where there is none."""
        groups = self.dataset.private.num_groups
        if self.dataset.kind != "features" or self.priced.aggregator.single_label:
            return ""
        centered = aggregators.CenteredVotes(noise_multiplier=1.0)
        priced = replace(self.priced, epsilon=self.epsilon)
        if not group_votes_tell_more(priced, self.budget, centered, num_groups=groups):
            return ""
        reason = f"it learns from all {groups:,} private groups"
        return f"experiment=centered_votes would do far better at this price: {reason}."

    def _epsilon_after_query(self, total: float) -> NDArray[np.float64]:
        """The price of the first q + 1 queries, `[Q]`: computed at some of them, between them the next one's.

        Where the budget's accountant asks others, the one whose figure the whole has is asked alone: a bound, and fast.
        """
        aggregator, (num_queries, num_labels) = self.priced.aggregator, self.release.labels.shape
        if aggregator.pays_in_advance:
            return np.full(num_queries, total)
        points = np.unique(np.linspace(1, num_queries, min(_POINTS, num_queries)).round().astype(int))
        budget = replace(self.budget, accountant=_ASKED.get(self.priced.won_by or "", self.budget.accountant))
        shape = {"num_labels": num_labels, "num_teachers": self.priced.shape.num_teachers}
        values = [budget.epsilon_of(aggregator.event_for(num_queries=count, **shape)) for count in points.tolist()]
        values[-1] = max(values[-1], total) if math.isfinite(total) else total
        return np.array(values)[np.searchsorted(points, np.arange(1, num_queries + 1))]


def write_price(
    folder: Path, privacy: Privacy, released: ReleaseSummary, shape: ReleaseShape, *, data: str, **told: Any
) -> None:
    """The privacy card, and the same price for programs; `told` is told to the card."""
    counts: dict[str, Any] = {"num_labels": shape.num_labels, "num_teachers": shape.num_teachers}
    counts["num_answered"] = released.num_answered
    card = privacy_card(privacy, dataset=data, **counts, num_hits=released.num_hits, **told)
    write_text(folder / "privacy_card.md", card)
    PrivacyStatement.of(privacy, data=data, **counts).write(folder)


def write_report_files(
    place: Workplace,
    report: Report,
    results: Results,
    *,
    model: StudentModel,
    public_settings: str,
    places: Places | None = None,
) -> None:
    """Writes what people read, and closes the events; `report.json`, which says that the run is complete, last."""
    from pate.report.page import render_html  # loads matplotlib

    release, data, folder, events = results.release, results.dataset, place.folder, place.events
    figures = results.figures(report)
    write_text(folder.release / "config.yaml", public_settings)
    write_price(
        folder.release,
        report.privacy,
        report.release,
        results.priced.shape,
        name=report.heading.aggregator if report.heading.is_public else None,
        data=data.name if data.real else f"{data.name} (synthetic)",
        features=report.data.features,
        places=places.said(release, results.budget, num_draws=place.draw) if places is not None else (),
    )
    form = ModelForm.of(model, data.name, data.kind, data.label_names, data.preprocessing)
    form.write(folder.release)
    write_text(folder.release / "README.md", model_card(form, report.privacy, report.release))
    write_text(folder.path / "report.html", render_html(report, figures))
    if figures.gaps is not None:
        events.histogram("gap", figures.gaps)
    if len(results.teacher_accuracies):
        events.histogram("teacher_accuracy", results.teacher_accuracies)
    events.queries(figures.answered, figures.epsilon_after_query)
    events.report(report)
    events.close()
    folder.write_manifests(report.to_json() + "\n")
    report.write(folder.report)
