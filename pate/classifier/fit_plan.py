"""The plan of a fit: which teachers vote, through which aggregator, and which student learns.

`PATEClassifier.fit` has the same steps for all plans. A plan prices its release before a teacher learns or votes, and
then returns the votes of its teachers. `EnsemblePlan` has scikit-learn estimators for teachers. The teachers of
`GroupVotesPlan` need no training, as those of `pate-train experiment=centered_votes`: by default there is one for each
private group.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pate.accounting import Budget, PrivacyUnit
from pate.aggregators import Release
from pate.classifier.held_out import FitScores
from pate.classifier.label_models import Model
from pate.classifier.publication import FitPrice, Publication
from pate.classifier.samples import Pools
from pate.classifier.tasks import Task
from pate.data import TableSchema
from pate.data.partition import Partition
from pate.models.student import Learner
from pate.models.student_model import Predictor
from pate.pricing import PricedRelease
from pate.votes.source import VoteSource


@dataclass(frozen=True, eq=False, kw_only=True)  # compared by identity, as its parts are
class FitPlan(ABC):
    """The plan of a fit to its private records and public samples.

    Attributes:
        label_task: the kind of labels.
        data_pools: the private records and the public samples of the fit.
        budget: the epsilon and delta that the release may cost, and the accountant that computes the price.
        num_teachers: the number of teachers, public.
        allow_useless: true prices a release whose noise hides even unanimous votes; false refuses it.
    """

    label_task: Task
    data_pools: Pools
    budget: Budget
    num_teachers: int
    allow_useless: bool

    @property
    def schema(self) -> TableSchema | None:
        """The schema that turns rows of DataFrames into numbers; None if inputs are not encoded."""
        return None

    @property
    @abstractmethod
    def student_recipe(self) -> Learner:
        """The recipe of the student."""

    @property
    @abstractmethod
    def query_inputs(self) -> Any:
        """The inputs of the queries as the student reads them, one entry for each query."""

    @property
    @abstractmethod
    def pool_inputs(self) -> Any:
        """The inputs of public samples that are no queries, from which the student learns as well; may be empty."""

    @abstractmethod
    def price(self) -> PricedRelease:
        """Checks that the plan can work, solves for the noise, and returns the priced release.

        Its doubts are reasons for warnings to the user.
        Of the private records only their number and the number of their groups is used.

        Raises:
            InvalidValue: no noise meets the budget; or the release would be useless, and `allow_useless` is False.
        """

    def rehearse(self) -> None:  # noqa: B027 - a plan without estimators needs no rehearsal
        """Fits the estimators to public samples as a test; raises `InvalidValue` if one cannot read their columns."""

    @abstractmethod
    def vote(
        self, priced_release: PricedRelease, partition: Partition, *, seeds: list[int]
    ) -> VoteSource:
        """Trains the teachers on the parts of the private records, and returns their votes on the queries.

        Args:
            priced_release: the priced release.
            partition: the assignment of private records to teachers.
            seeds: the seed of each teacher.
        """

    def price_scores(self, unit: PrivacyUnit) -> FitScores | None:
        """Returns the student's scores on private test records, priced and not drawn; None if none are released.

        Args:
            unit: the unit of privacy among the test records.
        """
        return None

    def remarks(self) -> Iterator[str]:
        """Yields remarks for the owner of the records on how the private inputs were read; here none."""
        yield from ()

    def publication(
        self, model: Model, release: Release, fit_price: FitPrice
    ) -> Publication | None:
        """Returns all that a fit may publish; None if the student cannot be published.

        Args:
            model: the result of `fitted_model`.
            release: the drawn release.
            fit_price: the price of the release.
        """
        return None

    def fitted_model(self, student: Predictor) -> Model:
        """Returns the trained student with the predictions that the task needs, such as one class for each sample."""
        return student
