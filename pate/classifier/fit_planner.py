"""The choice of the plan of a fit: the parameters of a classifier are checked against its data and get their defaults.

`FitPlanner` returns an `EnsemblePlan` if `estimator`, `student` or `aggregator` is set, else a `GroupVotesPlan`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pate.accounting import Accountant, Adjacency, AutoAccountant, Budget, ExactAccountant
from pate.aggregators import Aggregator
from pate.classifier.ensemble import EnsemblePlan
from pate.classifier.fit_inputs import FitInputs
from pate.classifier.fit_plan import FitPlan
from pate.classifier.group_votes import GroupVotesPlan
from pate.classifier.tasks import Task
from pate.pricing import PricedRelease
from pate.validation import InvalidValue, require_count, require_positive

# The number of teachers that are estimators, if the user passes none.
_DEFAULT_NUM_TEACHERS = 100


@dataclass(frozen=True, eq=False, kw_only=True)  # compared by identity, as its parts are
class FitPlanner:
    """The parameters of a classifier that decide how a fit is planned, as the user set them.

    Attributes:
        has_estimators: whether the teachers are estimators; False if each private group votes by itself.
        teacher_estimator: the unfitted estimator of the teachers; read with estimators alone.
        student_estimator: the unfitted estimator of the student; read with estimators alone.
        aggregator: the parameter `aggregator`; None for the default of the kind of labels.
        adjacency: the parameter `adjacency`.
        epsilon: the parameter `epsilon`; None takes the noise of the aggregator as it is.
        target_delta: the parameter `target_delta`.
        make_accountant: the parameter `accountant`, which makes an empty accountant; None for the default.
        num_teachers: the parameter `n_teachers`; None for the default.
        num_queries: the parameter `n_queries`; None for the default.
        classes_are_stated: whether the parameter `classes` is set, whose names are then public.
        allow_useless: true prices a release whose noise hides even unanimous votes; false refuses it.
        num_jobs: the number of processes that fit estimators; None for the default of joblib.
        verbose: the parameter `verbose`.
    """

    has_estimators: bool
    teacher_estimator: Any
    student_estimator: Any
    aggregator: Any
    adjacency: str
    epsilon: float | None
    target_delta: float
    make_accountant: Callable[[], Accountant] | None
    num_teachers: int | None
    num_queries: int | None
    classes_are_stated: bool
    allow_useless: bool
    num_jobs: int | None
    verbose: int

    def plan(self, fit_inputs: FitInputs) -> FitPlan:
        """Checks the parameters of a fit against its data, and returns the plan of the fit.

        Raises:
            InvalidValue: a parameter is out of range, or does not fit the data.
        """
        data_pools = fit_inputs.data_pools
        num_public = data_pools.public_inputs.shape[0]
        num_queries = self._num_queries(num_public)
        num_teachers = self._num_teachers(data_pools.num_groups)
        self._check_epsilon()
        if self.has_estimators:
            return EnsemblePlan(
                label_task=fit_inputs.label_task,
                data_pools=data_pools,
                budget=self._budget,
                num_teachers=num_teachers,
                allow_useless=self.allow_useless,
                teacher_estimator=self.teacher_estimator,
                student_estimator=self.student_estimator,
                aggregator=self._aggregator_for(fit_inputs.label_task),
                num_queries=num_queries or num_public,
                num_jobs=self.num_jobs,
                verbose=max(int(self.verbose) - 1, 0),  # joblib prints from verbose=2 on
            )
        return GroupVotesPlan(
            label_task=fit_inputs.label_task,
            data_pools=data_pools,
            budget=self._budget,
            num_teachers=num_teachers,
            allow_useless=self.allow_useless,
            adjacency=Adjacency.parse(self.adjacency),
            num_queries=num_queries,
            label_names=fit_inputs.label_names,
            classes_from_labels=(
                not self.classes_are_stated and fit_inputs.label_task.names_reveal_labels
            ),
            classes_are_stated=self.classes_are_stated,
            table_schema=fit_inputs.table_schema,
            public_labels=fit_inputs.public_labels,
            held_out_records=fit_inputs.held_out_records,
        )

    def price(self, fit_plan: FitPlan) -> PricedRelease:
        """Returns the priced release of a plan, with its noise; nothing is fitted or charged.

        Raises `InvalidValue` if the plan cannot work or no noise meets the budget. It is also raised for noise that
        would hide even unanimous votes, unless `allow_useless` is set.
        """
        try:
            return fit_plan.price()
        except InvalidValue as error:
            raise self._named_by_epsilon(error) from error

    @property
    def _budget(self) -> Budget:
        """The delta of a fit, the epsilon that its noise is solved for (None takes the noise as it is), the accountant.

        The release of a fit without estimators is one Gaussian event. So `ExactAccountant` computes its least price,
        unless the user named another accountant.
        """
        default_accountant = AutoAccountant if self.has_estimators else ExactAccountant
        return Budget(
            epsilon=self.epsilon,
            delta=self.target_delta,
            accountant=self.make_accountant or default_accountant,
        )

    def _num_queries(self, num_public: int) -> int | None:
        """Returns `n_queries`, None if it is None; raises `InvalidValue` if it exceeds the number of public samples."""
        if self.num_queries is None:
            return None
        num_queries = require_count("n_queries", self.num_queries)
        if num_queries > num_public:
            rule = f"at most {num_public}, the number of public samples"
            raise InvalidValue("n_queries", num_queries, rule=rule)
        return num_queries

    def _num_teachers(self, num_groups: int) -> int:
        """Returns the number of teachers: `n_teachers` or, if it is None, its default.

        The default is 100 with estimators, and otherwise the number of private groups.

        Raises:
            InvalidValue: there are more teachers than private groups.
        """
        num_teachers = self.num_teachers
        if num_teachers is None:
            num_teachers = _DEFAULT_NUM_TEACHERS if self.has_estimators else num_groups
        require_count("n_teachers", num_teachers)
        if num_teachers > num_groups:
            rule = f"at most {num_groups}, the number of private groups"
            raise InvalidValue("n_teachers", num_teachers, rule=rule)
        return num_teachers

    def _check_epsilon(self) -> None:
        """Raises `InvalidValue` if `epsilon` is neither None nor a number > 0, or is None without an `aggregator`."""
        if self.epsilon is not None:
            require_positive("epsilon", self.epsilon)
        elif self.aggregator is None:
            rule = "a number > 0, or an aggregator with its noise"
            raise InvalidValue("epsilon", None, rule=rule)

    def _aggregator_for(self, label_task: Task) -> Aggregator:
        """Returns the parameter `aggregator` or, if it is None, the default aggregator of a task.

        Raises:
            InvalidValue: the parameter is no aggregator, or has another adjacency than the classifier.
        """
        adjacency = Adjacency.parse(self.adjacency)
        aggregator = self.aggregator
        if aggregator is None:
            return label_task.default_aggregator(adjacency)
        if not isinstance(aggregator, Aggregator):
            is_word = isinstance(aggregator, (str, type))
            shown_aggregator = aggregator if is_word else type(aggregator).__name__
            rule = "an object such as GaussianVotes(noise_std=…)"
            raise InvalidValue("aggregator", shown_aggregator, rule=rule)
        if aggregator.adjacency != adjacency:
            rule = f"{adjacency}, the adjacency of the classifier"
            raise InvalidValue("aggregator.adjacency", aggregator.adjacency, rule=rule)
        return aggregator

    def _named_by_epsilon(self, error: InvalidValue) -> InvalidValue:
        """Returns an error about the number of teachers as one about epsilon, if the user set epsilon alone.

        The pricing blames the number of teachers for a useless release. A user who did not set it can change epsilon.
        The result is about the setting `target_epsilon`, which `shown_as` shows as the parameter `epsilon`.

        Args:
            error: the error. It is returned unchanged if it is about another parameter than the number of teachers, if
                `n_teachers` is set, or if `epsilon` is None.
        """
        if error.name != "num_teachers" or self.num_teachers is not None or self.epsilon is None:
            return error
        return InvalidValue(
            "target_epsilon",
            self.epsilon,
            rule=error.rule,
            remedies=error.remedies,
            waiver=error.waiver,
        )
