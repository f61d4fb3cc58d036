"""What a run depends on, its price, and what is allowed in it but rarely wanted: one line per warning."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.accounting import PrivacyUnit
from pate.accounting.rounding import format_epsilon
from pate.aggregators import Aggregator
from pate.data import Dataset
from pate.models.student import Predictor
from pate.pricing import Budget, PricedRelease, budgets_of, plan_release, require_useful
from pate.pricing.remedies import OF_TRAINING, RemedySearch
from pate.report.report import Heading
from pate.run.payment import ReleaseTerms
from pate.run.places import Places
from pate.run.progress import Monitor
from pate.student import Student
from pate.teachers import Engine, Voter
from pate.validation import InvalidValue, require, require_count, require_positive
from pate.votes.shape import VoteShape

_KINDS: dict[str, type] = {
    "teacher": Voter,
    "engine": Engine,
    "aggregator": Aggregator,
    "student": Student,
}
_FEW_RECORDS = 10
_LOOKS_AT_PICTURES = "teacher=cnn student=cnn, which look at pictures"
_UNEVEN = 20  # times the width of the middle column
_ROWS = 5000
_SHOWN = 5
_FEW_GROUPS = 6
_LARGE_SHARE = 0.2
_PURPOSE = {"private": "learn it from", "test": "measure it by"}


@dataclass(frozen=True, kw_only=True)
class Plan(ReleaseTerms):
    """Everything that a run depends on."""

    load_dataset: Callable[[], Dataset]  # reads the data set
    teacher: Voter  # the recipe for teachers
    num_teachers: int | None  # T; None for kernel teachers makes one for each private group
    engine: Engine  # how teachers are trained
    student: Student  # the recipe for the student
    num_queries: int  # how many public samples are asked, the first ones of the public pool
    # only as many queries are asked as this pays for; not beside a `target_epsilon`
    max_epsilon: float | None = None
    # epsilons by the data set's budget classes; None where their names are epsilons themselves
    budgets: Any = None
    # whether a model of all private records is trained; None where that is quick
    all_records: bool | None = None
    # among whom teachers are spread evenly: the card says whom the price covers
    holders: int | None = None
    # what may be published, as text: of the aggregator as it was used and, by name, what differs from the settings
    public_settings: Callable[..., str] = lambda aggregator, **changed: repr(aggregator)
    # whether a public pool with fewer samples is asked whole: nobody named `num_queries`
    fewer_queries: bool = False
    tensorboard: bool = True  # whether curves are kept in the run's folder
    # whether the report says what the release cost on the votes at hand
    data_dependent: bool = False
    # what the run is called; nothing else depends on it
    heading: Heading = field(default_factory=Heading)
    classes: Mapping[str, float] | None = None  # epsilons by budget classes, as `fitted` finds them

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            given = getattr(self, name)
            shown = given if isinstance(given, str) else type(given).__name__
            require(
                isinstance(given, kind), name, shown, f"an object of a subclass of {name.title()}"
            )
        if self.num_teachers is not None or self.teacher.is_trained:
            require_count("teacher.num_teachers", self.num_teachers or 0)
        readable = self.teacher.votes_in_bits or self.aggregator.input_form == "centered"
        rule = "centered_votes, or teachers that vote yes or no"
        require(readable, "aggregator", type(self.aggregator).__name__, rule)
        require_count("num_queries", self.num_queries)
        rule = "no holders=: these teachers protect a group of records, and no holder as a whole"
        require(
            self.holders is None or self.teacher.covers_teachers,
            "teacher",
            type(self.teacher).__name__,
            rule,
        )
        if self.max_total_epsilon is not None:
            require_positive("max_total_epsilon", self.max_total_epsilon)
            rule = "a ledger= beside it, the file that all runs on these records are charged to"
            require(self.ledger is not None, "max_total_epsilon", self.max_total_epsilon, rule)
        _ = self.budget  # refuses what cannot be

    @property
    def budget(self) -> Budget:
        target = (
            {"target_epsilon": self.target_epsilon}
            if self.classes is None
            else {"target_epsilon": None}
        )
        return replace(super().budget, **target, max_epsilon=self.max_epsilon, classes=self.classes)

    def fitted(self, dataset: Dataset) -> Plan:
        """The plan for a data set: its budget classes, and no more queries than public samples where none are named."""
        changed: dict[str, Any] = {}
        if self.fewer_queries and self.num_queries > len(dataset.public):
            changed["num_queries"] = len(dataset.public)
        said = dict(changed)
        if dataset.budgets is not None:
            rule = "a budget that noise is solved for: no noise and no max_epsilon that is given"
            require(
                self.target_epsilon is not None and self.max_epsilon is None,
                "data.budget",
                "several",
                rule,
            )
            require(
                not self.redraw,
                "redraw",
                "true",
                "false beside data.budget, whose classes would pay again",
            )
            changed["classes"] = budgets_of(np.unique(dataset.budgets).tolist(), self.budgets)
            said["target_epsilon"] = max(changed["classes"].values())
        else:
            require(
                self.budgets is None,
                "budgets",
                self.budgets,
                "data.budget= beside it, who is in which class",
            )
        if not changed:
            return self
        return replace(self, **changed, public_settings=partial(self.public_settings, **said))

    def unit(self, dataset: Dataset) -> PrivacyUnit:
        """What of a data set's private records one change replaces together."""
        unit = dataset.privacy_unit
        return unit if self.holders is None else unit.at_one_holder

    def places(self, num_teachers: int) -> Places | None:
        """How so many teachers are spread over holders; None where there is one."""
        return None if self.holders is None else Places.evenly(num_teachers, self.holders)


def watched_search(monitor: Monitor) -> RemedySearch:
    """A search for settings that work, of which a monitor is told."""
    return RemedySearch(say=monitor.say, stage=monitor.stage)


def price(plan: Plan, dataset: Dataset, monitor: Monitor | None = None) -> PricedRelease:
    """Checks that a plan works on a data set, solves for what its budget leaves open, and prices the release."""
    monitor = monitor or Monitor()
    plan = plan.fitted(dataset)
    groups = dataset.private.num_groups
    num_teachers = plan.num_teachers or groups
    require_parts(
        dataset,
        plan.aggregator,
        plan.teacher,
        plan.student,
        num_teachers=num_teachers,
        num_queries=plan.num_queries,
    )
    _ = plan.places(num_teachers)  # refuses what cannot be
    shape = VoteShape(
        num_queries=plan.num_queries, num_labels=dataset.num_labels, num_teachers=num_teachers
    )
    if dataset.budgets is not None or (
        dataset.shared is not None and dataset.shared.weights is not None
    ):
        setting = "data.budget"
        cost = ""
        by = plan.aggregator.budgets_by
        if dataset.budgets is None and (shared := dataset.shared) is not None:
            setting = f"data.group=[{','.join(shared.names)}]"
            cost = (
                f"; linked records are {shared.num_groups} groups, the largest of {shared.largest}"
            )
        heeded = plan.teacher.takes_weights and by == "weights" and num_teachers == groups
        if not heeded and (dataset.budgets is None or by != "teachers"):
            rule = (
                "teacher=kernel aggregator=centered_votes, with one teacher for each "
                f"of {groups} private groups{cost}"
            )
            raise InvalidValue(f"{setting}: expected {rule}")
    with monitor.stage("pricing the release"):
        priced = plan_release(plan.aggregator, shape, plan.budget, names=OF_TRAINING)
    protected = plan.teacher.num_protected(num_teachers, groups)
    if (weights := record_weights(dataset, priced)) is not None:
        protected = max(
            1, math.floor(weights[np.unique(dataset.private.group_ids, return_index=True)[1]].sum())
        )
    counted = replace(priced, shape=replace(shape, num_teachers=protected))
    doubts = require_useful(
        plan.aggregator,
        counted,
        plan.budget,
        names=OF_TRAINING,
        num_groups=groups,
        allow_useless=plan.allow_useless,
        search=watched_search(monitor),
    )
    return replace(priced, doubts=doubts)


def record_weights(dataset: Dataset, priced: PricedRelease) -> NDArray[np.float64] | None:
    """What the group of each private record counts, `[num_private]`; None where all count once."""
    if dataset.budgets is None or priced.aggregator.budgets_by == "teachers":
        return dataset.weights
    return _of_records(dataset, {each.name: each.weight for each in priced.classes})


def taught(dataset: Dataset, priced: PricedRelease) -> Dataset:
    """What teachers learn from: where budgets pay for several teachers, a group is with so many of them."""
    if all(each.teachers == 1 for each in priced.classes):
        return dataset
    return dataset.repeated(
        _of_records(dataset, {each.name: each.teachers for each in priced.classes})
    )


def _of_records(dataset: Dataset, of_class: Mapping[str, float]) -> NDArray[Any]:
    names, places = np.unique(np.asarray(dataset.budgets), return_inverse=True)
    return np.asarray(np.array([of_class[name] for name in names.tolist()])[places])


def said_of_weights(dataset: Dataset, priced: PricedRelease) -> Iterator[str]:
    """What whoever runs it should know of groups that count differently."""
    if dataset.budgets is None:
        return
    groups = np.unique(dataset.private.group_ids, return_index=True)[1]
    for each in priced.classes:
        count = int((dataset.budgets[groups] == each.name).sum())
        price = f"epsilon <= {format_epsilon(each.epsilon)}"
        share = (
            f"is with {each.teachers} teachers"
            if each.teachers > 1
            else f"counts {each.weight:.3g}"
        )
        yield f"data.budget={each.name}: {count:,} groups, {price}, each {share}"
    largest = f"the largest budget, {priced.classes[-1].budget:g}, is in place of target_epsilon"
    yield f"data.budget: {largest}; who is in which class is taken as public, and no epsilon protects it"


def require_parts(
    dataset: Dataset,
    aggregator: Aggregator,
    teacher: Voter,
    student: Student,
    *,
    num_teachers: int,
    num_queries: int,
) -> None:
    """Raises `InvalidValue` where parts of a run do not go together; nothing has been trained or spent."""
    aggregator.check_run()
    groups = dataset.private.num_groups
    pool = len(dataset.public)
    require(
        num_teachers <= groups,
        "num_teachers",
        num_teachers,
        f"at most {groups}, the number of private groups",
    )
    require(num_queries <= pool, "num_queries", num_queries, f"at most {pool}, the public pool")
    teacher.check(dataset.input_shape)
    student.check(dataset.input_shape, dataset.num_labels)


def plan_warnings(
    dataset: Dataset, aggregator: Aggregator, teacher: Voter, student: Student, *, num_teachers: int
) -> Iterator[str]:
    """Before anything is trained or spent, one line for each; they look at true labels: for the data owner alone."""
    setting = f"teacher.num_teachers={num_teachers}"
    if teacher.is_trained:
        remedy = "fewer teachers, or experiment=centered_votes, whose teachers need one each"
        yield from few_records(setting, len(dataset.private), num_teachers, remedy)
    yield from dataset.notes
    yield from uneven_records(dataset)
    if not dataset.public_labeled:
        yield "data: the public records have no labels, so how right teachers and release are is not measured"
    if aggregator.single_label and dataset.private.labels.sum(axis=1).mean() > 1:
        yield warning_of_one_label(aggregator)
    minding = [
        name for name, part in (("teacher", teacher), ("student", student)) if part.minds_scale
    ]
    if minding and dataset.kind == "features":
        yield from uneven_inputs(" and ".join(minding), dataset.public.inputs[:_ROWS])
    if minding and dataset.kind == "images":
        parts = " and ".join(minding)
        yield f"data: the inputs are raw pixels, and linear: {parts}; features=patches helps, or {_LOOKS_AT_PICTURES}"


def remedies_of(aggregator: Aggregator, teacher: Voter, dataset: Dataset) -> Mapping[str, str]:
    """Returns what helps against each loss: the aggregator's remedies, with what suits these teachers and inputs."""
    remedies = dict(aggregator.remedies)
    if not teacher.is_trained or "the teachers" not in remedies:
        return remedies
    if dataset.kind == "images" and teacher.minds_scale:
        remedies["the teachers"] = (
            f"features=patches, or {_LOOKS_AT_PICTURES}, or more records for each teacher"
        )
    elif dataset.kind == "images":
        remedies["the teachers"] = "more records for each teacher, more epochs, or features=patches"
    elif not teacher.minds_scale:
        remedies["the teachers"] = "more records for each teacher, or other features"
    return remedies


def few_records(setting: str, num_records: int, num_teachers: int, remedy: str) -> Iterator[str]:
    """Of an ensemble whose teachers learn little, or that is none."""
    records = num_records / num_teachers
    if num_teachers == 1:
        yield f"{setting}: one teacher is no ensemble: one record can change its whole vote; take 50 or more"
    elif records < _FEW_RECORDS:
        yield f"{setting}: {records:.1f} private records per teacher teach it little; {remedy}"


def uneven_records(dataset: Dataset) -> Iterator[str]:
    """Of labels that no record or every one has, and of a group that has a large part of the records."""
    for split, labels in (("private", dataset.private.labels), ("test", dataset.test.labels)):
        for share, whose, effect in ((0.0, "no", "no positive"), (1.0, "every", "nothing else")):
            if names := [
                dataset.label_names[place] for place in np.flatnonzero(labels.mean(axis=0) == share)
            ]:
                shown = ", ".join(names[:_SHOWN]) + (
                    f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
                )
                yield f"data.labels: {whose} {split} record has {shown}: there is {effect} to {_PURPOSE[split]}"
    groups, counts = np.unique(dataset.private.group_ids, return_counts=True)
    if len(groups) >= _FEW_GROUPS and counts.max() >= _LARGE_SHARE * counts.sum():
        found = f"one has {counts.max()} of {counts.sum()} private records"
        yield f"data.group: {found}; all are with one teacher, which has one vote like the others"


def uneven_inputs(parts: str, public_inputs: ArrayLike) -> Iterator[str]:
    """Of linear models on columns of very different widths, judged by public inputs alone."""
    rows = np.asarray(public_inputs, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2:
        return
    with np.errstate(invalid="ignore"):
        widths = np.nanstd(np.where(np.isfinite(rows), rows, np.nan), axis=0)
    widths = widths[widths > 0]
    if len(widths) > 1 and widths.max() > _UNEVEN * np.median(widths):
        times = f"{widths.max() / np.median(widths):.0f} times as wide as the middle one"
        yield f"data: the widest column of the public inputs is {times}, and linear: {parts}; scale the columns"


def student_is_the_prior(
    model: Predictor,
    public_inputs: NDArray[np.float32],
    *,
    helps: str = "less noise in the release",
) -> Iterator[str]:
    """Of a student that says the same of every public sample: what was released taught it nothing."""
    rows = public_inputs[:_ROWS]
    if len(rows) > 1 and len(np.unique(model.predict(rows), axis=0)) == 1:
        yield f"student: it predicts the same labels for every public sample, as the prior does; what helps: {helps}"


def warning_of_one_label(aggregator: Aggregator) -> str:
    """What an aggregator for one label per sample does to samples with several."""
    name = type(aggregator).__name__
    return f"aggregator={name}: names one label per query; any others that it has count as absent"
