"""The plan of a run with all its settings, and the price of the plan's release on a data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import numpy as np

from pate.accounting import Adjacency, Budget, PrivacyUnit
from pate.accounting.data_dependent_epsilon import DataDependentEpsilon
from pate.aggregators import Aggregator, CenteredVotes
from pate.array_types import BoolArray, IntArray
from pate.data import Dataset
from pate.errors import Remedy
from pate.models import Engine, Student, Voter
from pate.pricing import (
    PersonBudgets,
    PricedRelease,
    budget_from_settings,
    budgets_of,
    plan_release,
    require_useful,
)
from pate.pricing.expectations import is_plan_useful
from pate.pricing.priced_release import plan_or_none
from pate.pricing.remedies import remedy_search_with_progress
from pate.progress import Monitor
from pate.report.report import Heading
from pate.run.budget_classes import num_whole_groups, record_weights
from pate.run.compatibility import (
    has_teachers_as_unit,
    require_compatible,
    require_suitable,
    require_weighted_groups,
)
from pate.run.places import Places
from pate.run.release_terms import ReleaseTerms
from pate.run.released_start import ReleasedStart
from pate.setting_names import TRAIN
from pate.settings import RunSettings
from pate.validation import InvalidValue, require, require_count, require_positive
from pate.votes.label_gaps import labels_with_gaps
from pate.votes.labeled_rows import LabeledRows
from pate.votes.shape import VoteShape
from pate.votes.source import GroupVotes, VotesInRounds


class EpsilonOnVotes(Protocol):
    """The type of a function that computes the privacy cost of a release on the very votes it was drawn from.

    `pate.auditing.aggregator_cost.epsilon_on` is such a function. Its result depends on private votes, so it is no
    guarantee.
    """

    def __call__(
        self,
        aggregator: Aggregator,
        vote_counts: IntArray,
        vote_shape: VoteShape,
        target_delta: float,
        answered: BoolArray | None = None,
    ) -> DataDependentEpsilon:
        """Returns the privacy cost of a release on the votes that it was drawn from.

        Args:
            aggregator: the aggregator of the release.
            vote_counts: the number of votes for each label of each query, `[num_queries, num_labels]`.
            vote_shape: the numbers of queries, labels and teachers.
            target_delta: the delta of the cost.
            answered: true for each answered query, `[num_queries]`; None if all queries were answered.

        Raises:
            UnknownCost: no theorem bounds the cost of this aggregator on such votes.
        """


@dataclass(frozen=True, kw_only=True)
class Plan(ReleaseTerms, RunSettings):
    """The plan of a run: everything that the run depends on.

    The fields are the settings of `RunSettings`, under their names in `pate/settings.py`, and the following objects.

    Attributes:
        load_dataset: reads the data set.
        teacher: the recipe of the teachers.
        num_teachers: the number of teachers. None makes one teacher for each private group, of a kind that needs no
            training.
        engine: trains the teachers, in one process or in several.
        student: the recipe of the student.
        num_public_labels: the number of public rows, the first ones, from whose labels the student of centered votes
            starts; True for all rows, None or False for none.
        make_release_config_text: returns the text of `release/config.yaml`. It is called with the aggregator after its
            noise was solved for, and with the changed settings by name.
        epsilon_on_votes_function: computes the cost of the release on its own votes, which the report shows; None
            leaves it out.
        tensorboard: true writes curves into the run's folder.
        heading: the name of the aggregator, and the settings on the command line, for the report.
        centered_votes: settings that release centered votes (votes minus a center, `CenteredVotes`) of all private
            groups in place of this plan, for the same epsilon. The error that refuses the plan lists them if they would
            work. None if the user interface has no such settings.
        epsilon_of_class: the epsilon of each budget class; `for_dataset` sets this field. None if all groups have one
            epsilon.
    """

    load_dataset: Callable[[], Dataset]
    teacher: Voter
    num_teachers: int | None
    engine: Engine
    student: Student
    num_public_labels: bool | int | None = None
    make_release_config_text: Callable[..., str] = lambda aggregator, **changed: repr(aggregator)
    epsilon_on_votes_function: EpsilonOnVotes | None = None
    tensorboard: bool = True
    heading: Heading = field(default_factory=Heading)
    centered_votes: Remedy | None = None
    epsilon_of_class: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        _require_part("teacher", part=self.teacher, base_class=Voter)
        _require_part("engine", part=self.engine, base_class=Engine)
        _require_part("aggregator", part=self.aggregator, base_class=Aggregator)
        _require_part("student", part=self.student, base_class=Student)
        if self.num_teachers is not None or self.teacher.is_trained:
            require_count("teacher.num_teachers", self.num_teachers or 0)
        require_compatible(self.teacher, self.aggregator, num_holders=self.holders)
        require_count("num_queries", self.num_queries)
        if self.max_total_epsilon is not None:
            require_positive("max_total_epsilon", self.max_total_epsilon)
        if self.score_epsilon is not None:
            require_positive("score_epsilon", self.score_epsilon)
        _ = self.budget  # raises `InvalidValue` if the settings contradict each other

    @property
    def budget(self) -> Budget:
        """The budget of the release, with one epsilon for all private groups or an epsilon for each budget class."""
        make_accountant = self.accountant
        if self.epsilon_of_class is not None:
            return PersonBudgets.from_classes(
                self.epsilon_of_class, delta=self.target_delta, accountant=make_accountant
            )
        return budget_from_settings(
            target_delta=self.target_delta,
            target_epsilon=self.target_epsilon,
            target_mu=self.target_mu,
            max_epsilon=self.max_epsilon,  # the most that this release may cost, with noise as given
            accountant=make_accountant,
        )

    def for_dataset(self, dataset: Dataset, monitor: Monitor) -> Plan:
        """Returns this plan with the budget classes of a data set, and with no more queries than it has public samples.

        If `fewer_queries` is false, the number of queries does not change, and `price_release` refuses a number that is
        too large.

        Args:
            dataset: the data set.
            monitor: receives a line if the number of queries is reduced.

        Raises:
            InvalidValue: a setting cannot be combined with budget classes, or needs budget classes that the data set
                lacks; or the start of the student, at public labels or at an earlier release, does not fit.
        """
        plan = self._with_fewer_queries(dataset, monitor=monitor)
        plan = plan._with_budget_classes(dataset)
        plan = plan._with_start_at_public_labels(dataset)
        return plan._with_start_at_earlier_release(dataset)

    def _with_fewer_queries(self, dataset: Dataset, *, monitor: Monitor) -> Plan:
        """Returns this plan with at most as many queries as the public pool has samples, if `fewer_queries` is set."""
        pool_size = len(dataset.public)
        if not self.fewer_queries or self.num_queries <= pool_size:
            return self
        monitor.say(
            f"num_queries={self.num_queries}: the public pool has {pool_size} samples, all are asked"
        )
        make_release_config_text = partial(self.make_release_config_text, num_queries=pool_size)
        return replace(
            self, num_queries=pool_size, make_release_config_text=make_release_config_text
        )

    def _with_budget_classes(self, dataset: Dataset) -> Plan:
        """Returns this plan with the epsilon of each budget class, if the data set has budget classes.

        Raises `InvalidValue` if a setting cannot be combined with budget classes, or needs classes that the data set
        lacks.
        """
        if dataset.budgets is None:
            if self.budgets is not None:
                rule = "data.budget= beside it, who is in which class"
                raise InvalidValue("budgets", self.budgets, rule=rule)
            return self
        if self.target_epsilon is None or self.max_epsilon is not None:
            rule = "a budget that noise is solved for: no noise and no max_epsilon that is given"
            raise InvalidValue("data.budget", "several", rule=rule)
        if self.redraw:
            rule = "false beside data.budget, whose classes would pay again"
            raise InvalidValue("redraw", "true", rule=rule)
        epsilon_of_class = budgets_of(
            class_names=np.unique(dataset.budgets).tolist(), budgets=self.budgets
        )
        make_release_config_text = partial(
            self.make_release_config_text, target_epsilon=max(epsilon_of_class.values())
        )
        return replace(
            self,
            epsilon_of_class=epsilon_of_class,
            make_release_config_text=make_release_config_text,
        )

    def _with_start_at_public_labels(self, dataset: Dataset) -> Plan:
        """Returns this plan with labels of public rows as the start of its student, if `num_public_labels` asks for it.

        Raises `InvalidValue` if the pool has fewer rows, or no labels; if the aggregator does not vote in rounds; or if
        the student starts from an earlier release, too.
        """
        num_public_labels = self.num_public_labels
        if num_public_labels is None or num_public_labels is False:
            return self
        setting_name = "data.public_labels"
        public_split = dataset.public
        if self.start is not None:
            rule = "null beside start=, as a student begins at one of both"
            raise InvalidValue(setting_name, num_public_labels, rule=rule)
        require(
            dataset.public_labeled, setting_name, num_public_labels, "a public pool with labels"
        )
        num_labeled = len(public_split) if num_public_labels is True else num_public_labels
        if not (isinstance(num_labeled, int) and 1 <= num_labeled <= len(public_split)):
            rule = (
                f"true, or a number of rows from 1 to {len(public_split)}, those of the public pool"
            )
            raise InvalidValue(setting_name, num_public_labels, rule=rule)
        aggregator = self.aggregator
        if not isinstance(aggregator, CenteredVotes) or not self._votes_in_rounds(
            aggregator, dataset=dataset
        ):
            rule = "centered votes in rounds, whose student can begin at labels: experiment=centered_votes"
            raise InvalidValue(setting_name, num_public_labels, rule=rule)
        labels_of_public_rows = labels_with_gaps(
            public_split.labels, known_label_mask=public_split.known
        )
        labeled_start_rows = LabeledRows(
            labels_of_public_rows[:num_labeled], recipe=aggregator.recipe
        )
        return replace(self, aggregator=replace(aggregator, start=labeled_start_rows))

    def _votes_in_rounds(self, aggregator: CenteredVotes, *, dataset: Dataset) -> bool:
        """Returns True if the teachers of this plan vote in rounds, each of which improves a student, and not at once.

        Args:
            aggregator: the aggregator of this plan.
            dataset: the data set. Its number of private groups is the number of teachers if this plan sets none.
        """
        if issubclass(self.teacher.gives, GroupVotes):
            return True
        num_teachers = self.num_teachers or dataset.private.num_groups
        is_at_once = aggregator.casts_one_matrix(num_teachers)
        return issubclass(self.teacher.gives, VotesInRounds) and not is_at_once

    def _with_start_at_earlier_release(self, dataset: Dataset) -> Plan:
        """Returns this plan with the earlier release that its student starts from, if the setting `start` names one.

        Raises `InvalidValue` if the release does not fit the data set, or the aggregator takes no start.
        """
        if self.start is None:
            return self
        aggregator = self.aggregator
        if not isinstance(aggregator, CenteredVotes):
            rule = "none beside this aggregator; aggregator=centered_votes goes on from an earlier release"
            raise InvalidValue("start", self.start, rule=rule)
        released_start = ReleasedStart.read(self.start, dataset=dataset, recipe=aggregator.recipe)
        return replace(self, aggregator=replace(aggregator, start=released_start))

    def unit(self, dataset: Dataset) -> PrivacyUnit:
        """Returns the unit of privacy, which is a group of records.

        If there are several holders, the unit is the part of a group that one holder has.
        """
        unit = dataset.privacy_unit
        return unit if self.holders is None else unit.at_one_holder

    def places(self, num_teachers: int) -> Places | None:
        """Returns the distribution of `num_teachers` teachers over the holders; None for a run without holders."""
        if self.holders is None:
            return None
        return Places.with_equal_holders(num_teachers, num_holders=self.holders)


def price_release(
    plan: Plan, *, dataset: Dataset, monitor: Monitor, noun_for_voters: str = "teachers"
) -> PricedRelease:
    """Checks a plan on a data set, solves for its noise or its number of queries, and returns the priced release.

    Of the private records, only the number of their groups is used, and the public budget classes or weights of the
    groups if there are any.

    Args:
        plan: the plan for this data set, as `Plan.for_dataset` returns it.
        dataset: the data set.
        monitor: receives the progress, such as that of the search for better settings if the plan is refused.
        noun_for_voters: the word for those who vote, as the reason for a refusal names them.

    Raises:
        InvalidValue: the plan cannot work, or its release would be useless because of too much noise.
    """
    num_groups = dataset.private.num_groups
    num_teachers = plan.num_teachers or num_groups
    require_suitable(
        dataset,
        teacher_recipe=plan.teacher,
        aggregator=plan.aggregator,
        student_recipe=plan.student,
        num_teachers=num_teachers,
        num_queries=plan.num_queries,
    )
    plan.places(num_teachers)  # refuses teachers that cannot be spread over the holders
    require_weighted_groups(
        dataset, teacher_recipe=plan.teacher, aggregator=plan.aggregator, num_teachers=num_teachers
    )
    vote_shape = VoteShape(
        num_queries=plan.num_queries, num_labels=dataset.num_labels, num_teachers=num_teachers
    )
    with monitor.stage("pricing the release"):
        priced_release = plan_release(plan.aggregator, shape=vote_shape, budget=plan.budget)
    num_protected = plan.teacher.num_protected(num_teachers, num_groups=num_groups)
    weight_of_record = record_weights(dataset, priced_release=priced_release)
    if weight_of_record is not None:
        num_protected = num_whole_groups(dataset, weight_of_record=weight_of_record)
    # Whether a release is useful depends on how many units it protects: teachers in some plans, groups in others.
    doubts = require_useful(
        plan.aggregator,
        priced_release=replace(
            priced_release, shape=replace(vote_shape, num_teachers=num_protected)
        ),
        budget=plan.budget,
        num_groups=num_groups,
        allow_useless=plan.allow_useless,
        search=remedy_search_with_progress(monitor, spelling=TRAIN),
        # If the plan has no number of teachers, that number follows from the data, and only epsilon can be changed.
        refused_setting=_epsilon_setting_with_value(plan) if plan.num_teachers is None else None,
        other_method=_working_centered_votes(plan, dataset=dataset, vote_shape=vote_shape),
        voters=noun_for_voters,
    )
    return replace(priced_release, doubts=doubts)


def _epsilon_setting_with_value(plan: Plan) -> tuple[str, object] | None:
    """Returns the name and the value of the setting that limits a plan's epsilon.

    It is the first of `max_epsilon`, `target_mu` and `target_epsilon` that is set; None if none of them is.
    """
    if plan.max_epsilon is not None:
        return "max_epsilon", plan.max_epsilon
    if plan.target_mu is not None:
        return "target_mu", plan.target_mu
    if plan.target_epsilon is not None:
        return "target_epsilon", plan.target_epsilon
    return None


def _working_centered_votes(
    plan: Plan, *, dataset: Dataset, vote_shape: VoteShape
) -> Remedy | None:
    """Returns the settings for centered votes of all private groups, which may take the place of a refused plan.

    The result is None if the plan names no such settings, if they do not suit the plan and the data set, or if their
    release would be useless, too.

    Args:
        plan: the plan that may be refused.
        dataset: the data set.
        vote_shape: the shape of the plan's release.
    """
    is_suitable = (
        dataset.kind == "features"
        and dataset.budgets is None
        and dataset.shared is None
        and plan.holders is None
        and plan.max_epsilon is None
        and plan.aggregator.adjacency is Adjacency.REPLACE_ONE
        and not plan.aggregator.single_label
        and has_teachers_as_unit(plan.teacher)  # otherwise all groups vote already
    )
    if plan.centered_votes is None or not is_suitable:
        return None
    shape_of_groups = replace(vote_shape, num_teachers=dataset.private.num_groups)
    centered_votes = CenteredVotes(noise_multiplier=1.0)
    planned_release = plan_or_none(centered_votes, vote_shape=shape_of_groups, budget=plan.budget)
    return plan.centered_votes if is_plan_useful(planned_release) else None


def _require_part(part_name: str, *, part: object, base_class: type) -> None:
    """Raises `InvalidValue` unless a field of a plan, such as `teacher`, is an instance of `base_class`.

    Args:
        part_name: the name of the field, for the error.
        part: the value of the field.
        base_class: the class that the value must be an instance of.
    """
    if not isinstance(part, base_class):
        part_in_words = part if isinstance(part, str) else type(part).__name__
        raise InvalidValue(
            part_name, part_in_words, rule=f"an object of a subclass of {base_class.__name__}"
        )
