"""The results of a finished run, which become its report and the arrays behind the pictures of its page.

All results may depend on private records, so only the owner may see them. `report_files.py` writes the published files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ExactAccountant, JointLawAccountant, PldAccountant, RdpAccountant
from pate.accounting.data_dependent_epsilon import DataDependentEpsilon, UnknownCost
from pate.aggregators import CenteredVotes, Release
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.data import Dataset, Split
from pate.extras import VERSION
from pate.models import StudentModel, Voter
from pate.pricing import PricedRelease
from pate.pricing.guard import group_votes_tell_more
from pate.report import Report, metric_intervals, per_label_metrics
from pate.report.bands import prevalence_bands
from pate.report.constants import CONSTANTS, Constant
from pate.report.membership import Membership
from pate.report.metrics import mean_of_defined, micro_f1, summarize_labels
from pate.report.picture_arrays import PictureArrays
from pate.report.precision_recall import PrecisionRecall
from pate.report.released_scores import ReleasedScores
from pate.report.report import DataSummary, Heading, TeacherSummary, keys_no_epsilon_covers
from pate.report.verdict import Baselines, StudentVerdict
from pate.run.charging import RunCharge
from pate.run.plan import EpsilonOnVotes
from pate.run.plan_warnings import remedies_of
from pate.run.published_price import privacy_of, summary_of
from pate.votes.source import CountableVotes, VoteSource

# The packages whose versions a report lists.
_PACKAGES = ("numpy", "scipy", "torch", "scikit-learn", "hydra-core")
# The price so far is computed after at most this many queries, for the curve of epsilon.
_MAX_PRICED_POINTS = 24
# The accountants that may take the place of one that compares several, by name.
_ACCOUNTANT_CLASSES = {
    accountant.name: accountant
    for accountant in (RdpAccountant, PldAccountant, ExactAccountant, JointLawAccountant)
}
# The models that the page shows label by label.
_MODELS_BY_LABEL = ("student", "majority_vote_student", "all_records_model")


@dataclass(frozen=True)
class Prediction:
    """The predictions of a model for the test split.

    Attributes:
        labels: true for each predicted label, `[num_test, num_labels]`.
        probabilities: the predicted probability of each label, `[num_test, num_labels]`.
        threshold: the least probability for which a label is predicted: one number for all labels, or one for each
            label. None for a baseline that predicts the same for all records.
    """

    labels: BoolArray
    probabilities: NDArray[np.floating]
    threshold: float | tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Results:
    """The results of a finished run, from which its report and the arrays of its pictures are computed.

    Attributes:
        dataset: the private, public and test records.
        queries: the public samples that teachers voted on.
        run_charge: the charge of the release in its ledger.
        priced_release: the release with its price and its aggregator, whose noise was solved for.
        vote_source: the votes of the teachers.
        release: the labels that were released from the votes.
        named_losses_of_epochs: for each epoch of the student's training, its losses by name.
        model_by_name: the student and its baselines, by their names in report.json.
        membership: the result of the membership inference attack on the student; None if it could not be measured.
        teacher_recipe: the recipe of the teachers.
        heading: the name of the aggregator, and the settings on the command line.
        epsilon_on_votes_function: computes the cost of the release on its own votes; None leaves it out of the report.
        reasons_left_out: for each baseline that was not trained, the reason, by the baseline's name.
        released_scores: the student's scores on the test records that were released; None where none were.
        private_samples_in_words: for each baseline that learned from a sample of the private records, the sample in
            words.
    """

    dataset: Dataset
    queries: Split
    run_charge: RunCharge
    priced_release: PricedRelease
    vote_source: VoteSource
    release: Release
    named_losses_of_epochs: Sequence[Mapping[str, float]]
    model_by_name: Mapping[str, StudentModel]
    membership: Membership | None
    teacher_recipe: Voter
    heading: Heading = field(default_factory=Heading)
    epsilon_on_votes_function: EpsilonOnVotes | None = None
    reasons_left_out: Mapping[str, str] = field(default_factory=dict)
    released_scores: ReleasedScores | None = None
    private_samples_in_words: Mapping[str, str] = field(default_factory=dict)

    def report(self, *, duration_s: float) -> Report:
        """Returns the report of the run; `duration_s` is the time that the run took, in seconds."""
        dataset = self.dataset
        test_split = dataset.test
        scores_of_model = {}
        intervals_of_model = {}
        for model_name, prediction in self._predictions.items():
            micro_f1_of_model = micro_f1(
                prediction.labels, true_labels=test_split.labels, known=test_split.known
            )
            scores_of_model[model_name] = summarize_labels(
                self._metrics_by_label[model_name], micro_f1=micro_f1_of_model
            )
            intervals_of_model[model_name] = metric_intervals(
                prediction.labels,
                scores=prediction.probabilities,
                true_labels=test_split.labels,
                known=test_split.known,
            )
        baseline_scores = Baselines(
            prior=scores_of_model.get("prior"),
            best_constant=scores_of_model.get("best_constant"),
            majority_vote_student=scores_of_model.get("majority_vote_student"),
            true_label_student=scores_of_model.get("true_label_student"),
            all_records_model=scores_of_model.get("all_records_model"),
            start_alone=scores_of_model.get("start_alone"),
        )
        data_dependent_epsilon = None
        reasons_left_out = dict(self.reasons_left_out)
        if self.epsilon_on_votes_function is not None:
            try:
                data_dependent_epsilon = self._data_dependent_epsilon(
                    self.epsilon_on_votes_function
                )
            except UnknownCost as error:
                reasons_left_out["data_dependent"] = str(error)
        privacy = privacy_of(drawn_release=self.release, release_charge=self.run_charge)
        average_precisions_of_model = {
            model_name: metrics["average_precision"]
            for model_name, metrics in self._metrics_by_label.items()
        }
        return Report(
            privacy=replace(privacy, scores=self.released_scores),
            release=summary_of(
                drawn_release=self.release, queries=self.queries if dataset.public_labeled else None
            ),
            teachers=self._teacher_summary(),
            student=scores_of_model["student"],
            baselines=baseline_scores,
            not_covered=keys_no_epsilon_covers(baselines=baseline_scores),
            verdict=StudentVerdict.from_scores(
                scores_of_model["student"],
                baseline_scores=baseline_scores,
                num_answered=self.release.num_answered,
                remedy_of_cause=remedies_of(
                    self.priced_release.aggregator,
                    teacher_recipe=self.teacher_recipe,
                    dataset=dataset,
                ),
                better_model_remark=self._centered_votes_remark(),
                ceiling_records_in_words=self.private_samples_in_words.get(
                    "all_records_model", "all private records"
                ),
            ),
            intervals=intervals_of_model,
            data=_data_summary(dataset),
            seed=self.run_charge.seed,
            versions={"pate": VERSION} | {package: version(package) for package in _PACKAGES},
            duration_s=duration_s,
            heading=self.heading,
            membership=self.membership,
            data_dependent=data_dependent_epsilon,
            left_out=reasons_left_out,
            sampled=self.private_samples_in_words,
            bands=prevalence_bands(dataset.private.label_shares, average_precisions_of_model),
            macro_auroc={
                model_name: mean_of_defined(metrics["auroc"])
                for model_name, metrics in self._metrics_by_label.items()
            },
        )

    def picture_arrays(self, report: Report) -> PictureArrays:
        """Returns the numbers that are drawn on the page of `report`."""
        num_teachers = self.priced_release.shape.num_teachers
        student_prediction = self._predictions["student"]
        dataset = self.dataset
        vote_counts = (
            self.vote_source.counts() if isinstance(self.vote_source, CountableVotes) else None
        )
        loss_names = self.named_losses_of_epochs[0] if self.named_losses_of_epochs else ()
        stability_test = self.priced_release.aggregator.stability_test(num_teachers=num_teachers)
        possible_gaps = np.arange(0 if stability_test is None else stability_test.num_teachers + 1)
        shown_model_names = [name for name in _MODELS_BY_LABEL if name in self.model_by_name]
        return PictureArrays(
            label_names=dataset.label_names,
            answered=self.release.answered,
            labels=self.release.labels,
            epsilon_after_query=self._epsilon_after_query(total_epsilon=report.privacy.epsilon),
            gaps=None if vote_counts is None else _largest_gaps(vote_counts, num_teachers),
            gap_name="largest gap",
            vote_counts=vote_counts,
            num_teachers=num_teachers,
            pass_gaps=None if stability_test is None else possible_gaps,
            pass_probability=None
            if stability_test is None
            else stability_test.pass_probabilities(possible_gaps),
            per_label={name: self._metrics_by_label[name] for name in shown_model_names},
            precision_recall=PrecisionRecall.from_scores(
                student_prediction.probabilities,
                predicted_labels=student_prediction.labels,
                true_labels=dataset.test.labels,
                constant_labels=Constant.best(dataset.private.label_shares).labels,
                threshold=student_prediction.threshold,
                known=dataset.test.known,
            ),
            student_curve={
                name: np.array([named_losses[name] for named_losses in self.named_losses_of_epochs])
                for name in loss_names
            },
        )

    @cached_property
    def accuracy_of_teachers(self) -> FloatArray:
        """The accuracy of each teacher on the queries, `[num_teachers]`.

        The array is empty if the votes are not yes or no for each label, or if the queries have no true labels.
        """
        if not self.dataset.public_labeled:
            return np.empty(0)
        return self.vote_source.accuracies(self.queries.labels, self.queries.known)

    def _teacher_summary(self) -> TeacherSummary:
        """Returns the number of teachers, their mean number of records, and their mean accuracy on the queries.

        The accuracy is None if it cannot be computed (`accuracy_of_teachers`).
        """
        num_teachers = self.priced_release.shape.num_teachers
        mean_accuracy_on_queries = None
        if len(self.accuracy_of_teachers):
            mean_accuracy_on_queries = float(self.accuracy_of_teachers.mean())
        return TeacherSummary(
            num_teachers=num_teachers,
            mean_accuracy=mean_accuracy_on_queries,
            records_per_teacher=len(self.dataset.private) / num_teachers,
        )

    def _data_dependent_epsilon(
        self, epsilon_on_votes_function: EpsilonOnVotes
    ) -> DataDependentEpsilon:
        """Returns the privacy cost of the release on the votes that it was drawn from, which is no guarantee.

        Raises `UnknownCost` if the votes are no bits, or if no theorem bounds the cost.
        """
        if not isinstance(self.vote_source, CountableVotes):
            raise UnknownCost(
                "votes",
                rule="a bit for each label, which the theorems are about; these are numbers",
            )
        vote_counts = self.vote_source.counts()
        if self.priced_release.aggregator.counts_abstention_as_half:
            vote_counts = vote_counts + self.vote_source.num_abstaining() // 2
        return epsilon_on_votes_function(
            aggregator=self.priced_release.aggregator,
            vote_counts=vote_counts,
            vote_shape=self.priced_release.shape,
            target_delta=self.run_charge.budget.delta,
            answered=self.release.answered,
        )

    @cached_property
    def _predictions(self) -> dict[str, Prediction]:
        """The predictions of all trained models and of the two constants for the test split, by model name.

        The constants are the prior and the best constant, which predict the same for all records.
        """
        label_shares = self.dataset.private.label_shares
        test_inputs = self.dataset.test.inputs
        predictions = {}
        for name, make_constant in CONSTANTS.items():
            labels, probabilities = make_constant(label_shares).for_samples(len(test_inputs))
            predictions[name] = Prediction(labels=labels, probabilities=probabilities)
        for name, model in self.model_by_name.items():
            predictions[name] = Prediction(
                labels=model.predict(test_inputs),
                probabilities=model.predict_proba(test_inputs),
                threshold=model.threshold,
            )
        return predictions

    @cached_property
    def _metrics_by_label(self) -> dict[str, dict[str, FloatArray]]:
        """The metrics of each model on each label of the test split.

        The keys are the model's name and then the metric's name (`per_label_metrics`); values are `[num_labels]`.
        """
        test_split = self.dataset.test
        return {
            name: per_label_metrics(
                prediction.labels,
                scores=prediction.probabilities,
                true_labels=test_split.labels,
                known=test_split.known,
            )
            for name, prediction in self._predictions.items()
        }

    def _centered_votes_remark(self) -> str:
        """Returns a sentence that recommends centered votes of all private groups, or "".

        They are recommended if they would teach a student far more at this price, with this number of groups
        (`group_votes_tell_more`). Nothing is recommended for images, or for an aggregator whose answers name exactly
        one label.
        """
        num_groups = self.dataset.private.num_groups
        if self.dataset.kind != "features" or self.priced_release.aggregator.single_label:
            return ""
        centered_votes = CenteredVotes(noise_multiplier=1.0)
        priced_release = replace(self.priced_release, epsilon=self.run_charge.epsilon)
        if not group_votes_tell_more(
            priced_release,
            budget=self.run_charge.budget,
            centered_aggregator=centered_votes,
            num_groups=num_groups,
        ):
            return ""
        reason = f"it learns from all {num_groups:,} private groups"
        return f"experiment=centered_votes would do far better at this price: {reason}."

    def _epsilon_after_query(self, total_epsilon: float) -> FloatArray:
        """Returns upper bounds on the price of the first q queries for each q, `[num_queries]`.

        If all is paid in advance, the bound is the total price for each q: so for some aggregators, for a release that
        was drawn twice or more, and for the best run of a tuning. Otherwise the price is computed after at most 24 of
        the queries. Between two of these, the bound is the price after the later one. If the budget's accountant takes
        the least price of several accountants, only the one that gave the total price is used. The result is still an
        upper bound, and is computed faster.

        Args:
            total_epsilon: the price of all queries, all draws and a tuning together.
        """
        aggregator = self.priced_release.aggregator
        num_queries = self.release.num_queries
        is_paid_in_advance = (
            aggregator.pays_in_advance
            or self.run_charge.num_draws > 1
            or self.run_charge.tuned is not None
        )
        if is_paid_in_advance:
            return np.full(num_queries, total_epsilon)
        num_points = min(_MAX_PRICED_POINTS, num_queries)
        query_counts = np.unique(np.linspace(1, num_queries, num_points).round().astype(int))
        make_budget_accountant = self.run_charge.budget.accountant
        make_accountant = _ACCOUNTANT_CLASSES.get(
            self.priced_release.won_by or "", make_budget_accountant
        )
        budget = replace(self.run_charge.budget, accountant=make_accountant)
        vote_shapes = [
            replace(self.priced_release.shape, num_queries=num_priced)
            for num_priced in query_counts.tolist()
        ]
        epsilon_after_count = [budget.epsilon_of(aggregator.event(shape)) for shape in vote_shapes]
        # The curve ends no lower than the price of the report.
        epsilon_after_count[-1] = max(epsilon_after_count[-1], total_epsilon)
        index_of_next_count = np.searchsorted(query_counts, np.arange(1, num_queries + 1))
        return np.array(epsilon_after_count)[index_of_next_count]


def _data_summary(dataset: Dataset) -> DataSummary:
    """Returns the sizes and the name of a data set, and the settings of its features."""
    features = None
    if dataset.preprocessing is not None:
        features = dict(dataset.preprocessing.origin) or None
    return DataSummary(
        name=dataset.name,
        real=dataset.real,
        num_private=len(dataset.private),
        num_groups=dataset.private.num_groups,
        num_public=len(dataset.public),
        num_test=len(dataset.test),
        num_labels=dataset.num_labels,
        label_cardinality=dataset.private.labels_per_record,
        features=features,
        known_labels=_known_labels(dataset),
    )


def _known_labels(dataset: Dataset) -> dict[str, float]:
    """Returns the share of known labels in the private, public and test split, by the split's name.

    It is empty if all labels of private records are known.
    """
    if dataset.private.known is None:
        return {}
    splits = {"private": dataset.private, "public": dataset.public, "test": dataset.test}
    return {
        name: 1.0 if split.known is None else float(split.known.mean())
        for name, split in splits.items()
    }


def _largest_gaps(vote_counts: NDArray[np.integer], num_teachers: int) -> IntArray:
    """Returns, for each query, the largest difference between two neighbors in the sorted vote counts, `[num_queries]`.

    The numbers 0 and `num_teachers` are added to the counts before they are sorted. So the gap below the least count
    and the gap above the greatest count are included: "all labels" and "no label" are possible answers.

    Args:
        vote_counts: the number of votes for each label of each query, `[num_queries, num_labels]`.
        num_teachers: the number of teachers.
    """
    # Sorting is several times as fast in the smallest type that holds the counts.
    counts_sorted_in_query = np.sort(
        vote_counts.astype(np.min_scalar_type(num_teachers)), axis=1
    ).astype(np.int32)
    zeros_column = np.zeros((len(counts_sorted_in_query), 1), np.int32)
    gaps = np.diff(
        counts_sorted_in_query, axis=1, prepend=zeros_column, append=zeros_column + num_teachers
    )
    return np.asarray(gaps.max(axis=1).astype(np.int64))
