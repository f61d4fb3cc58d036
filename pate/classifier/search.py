"""The search for parameters of a `PATEClassifier` at one price: the best of a secret number of fits."""

import os
import uuid
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from pate.accounting import (
    Adjacency,
    AutoAccountant,
    Budget,
    Event,
    Ledger,
    ScoresEvent,
    TruncatedNegativeBinomial,
    calibrate,
)
from pate.accounting.ledger_entry import ChargeNote
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.classifier.classifier import PATEClassifier
from pate.classifier.fit_inputs import FitArguments
from pate.classifier.fit_ledger import require_ledger_of_fits, unit_of
from pate.classifier.fit_streams import streams_of
from pate.classifier.fit_warnings import ClassesFromLabels, GapsFromLabels, PublicGroups, SharedRows
from pate.classifier.inputs import dense, rows_of
from pate.classifier.missing_labels import without_gaps
from pate.classifier.past_fits import (
    RememberedFit,
    RememberedPrice,
    memory_unchanged,
    warn_of_past_fits,
)
from pate.classifier.samples import disjoint_group_ids
from pate.classifier.tasks import LabelSets, OneClass
from pate.errors import shown_as, users_stack_level
from pate.mechanisms.noise.rounded_gaussian import RoundedGaussian
from pate.pricing import PricedRelease
from pate.pricing.tuned_price import epsilon_of_one_run
from pate.run.random_streams import readable_seed_name
from pate.run.tuned_runs import TunedRuns
from pate.run.tuning import dominating_event
from pate.setting_names import CLASSIFIER as CLASSIFIER_SPELLING
from pate.validation import InvalidValue, require, require_probability

# ruff: noqa: N803 -- X is what scikit-learn calls it
# The number of steps that the score of one group is counted in.
_SCORE_STEPS = 2**20
# Warnings about the data, which are alike in all fits; those of the first fit are shown, and no other warnings of fits.
_PUBLIC_WARNINGS = (ClassesFromLabels, GapsFromLabels, PublicGroups, SharedRows)
# The epsilon of the score of one fit, as a share of the epsilon of the fit. It is a choice. By default a fit then has
# epsilon 6.0 out of 8, and the noise of a score has a standard deviation of 2.5 groups. A share of 0.1 would leave 6.3
# to the fit, with a noise of 6.5 groups; a share of 1, 4.3 with a noise of 1.1 groups.
_SCORE_EPSILON_PER_FIT_EPSILON = 0.3
# The relative error of the price that is allowed above `epsilon`, for rounding.
_PRICE_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)  # == of arrays is an array
class _SearchRecords:
    """The private records of a search, divided into groups that are fitted and groups that are scored.

    Attributes:
        inputs_to_fit: the private inputs that each fit learns from.
        labels_to_fit: the labels of `inputs_to_fit`.
        groups_to_fit: the groups of `inputs_to_fit`; None if each record is a group.
        public_inputs: the public inputs of each fit.
        inputs_to_score: the private inputs that each fit is scored on.
        labels_to_score: the labels of `inputs_to_score`.
        group_ids_to_score: the id of the group of each scored record, `[num_scored]`.
    """

    inputs_to_fit: Any
    labels_to_fit: Any
    groups_to_fit: Any
    public_inputs: Any
    inputs_to_score: Any
    labels_to_score: Any
    group_ids_to_score: IntArray

    @classmethod
    def divided(
        cls,
        inputs: Any,
        labels: Any,
        *,
        public_inputs: Any,
        groups: Any,
        test_fraction: float,
        rng: np.random.Generator,
    ) -> Self:
        """Divides private records: a share of the groups, drawn at random, is scored, and the others are fitted.

        Args:
            inputs: the private inputs.
            labels: the private labels.
            public_inputs: the public inputs.
            groups: the group of each private record; None if each record is a group.
            test_fraction: the share of the groups that is scored.
            rng: draws the groups that are scored.
        """
        if isinstance(inputs, (list, tuple)):
            inputs = np.asarray(inputs)
        if isinstance(labels, (list, tuple)) and LabelSets.from_labels(labels, None) is None:
            labels = np.asarray(labels)  # one type, wherever each record falls
        group_ids = _group_ids(inputs, groups)
        is_scored_group = _draw_groups(group_ids, test_fraction=test_fraction, rng=rng)
        is_scored = is_scored_group[group_ids]
        fitted_rows = np.flatnonzero(~is_scored)
        scored_rows = np.flatnonzero(is_scored)
        return cls(
            inputs_to_fit=rows_of(inputs, fitted_rows),
            labels_to_fit=_take(labels, fitted_rows),
            groups_to_fit=None if groups is None else _take(groups, fitted_rows),
            public_inputs=public_inputs,
            inputs_to_score=rows_of(inputs, scored_rows),
            labels_to_score=_take(labels, scored_rows),
            group_ids_to_score=group_ids[scored_rows],
        )

    def price_of(self, classifier: PATEClassifier) -> PricedRelease:
        """Returns the price of a fit of a classifier to the records that are fitted; nothing is fitted."""
        return classifier.price_of(
            self.inputs_to_fit,
            self.labels_to_fit,
            X_public=self.public_inputs,
            groups=self.groups_to_fit,
        )

    def fit_silently(self, classifier: PATEClassifier) -> list[warnings.WarningMessage]:
        """Fits a classifier to the records that are fitted, and returns the warnings of the fit.

        They are not shown, as their number would tell the secret number of fits. Later fits of this process do not
        count the fit (`past_fits.py`), as they count the search as one.
        """
        with memory_unchanged(), warnings.catch_warnings(record=True) as caught_warnings:
            warnings.simplefilter("always")
            classifier.fit(
                self.inputs_to_fit,
                self.labels_to_fit,
                X_public=self.public_inputs,
                groups=self.groups_to_fit,
            )
        return caught_warnings

    def score_silently(self, classifier: PATEClassifier) -> int:
        """Returns the score of a fit on the groups that were set apart, without any warning; see `total_score`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return total_score(
                classifier,
                self.inputs_to_score,
                self.labels_to_score,
                group_ids=self.group_ids_to_score,
            )


@dataclass(frozen=True, kw_only=True)
class _SearchPrice:
    """The price of a search.

    Attributes:
        fit_epsilon: the epsilon of one fit, which its noise is solved for.
        total_epsilon: the epsilon of the whole search.
        tuned_runs: the price of the whole search as an event, with the events of one fit and its score.
    """

    fit_epsilon: float
    total_epsilon: float
    tuned_runs: TunedRuns


@dataclass(eq=False, repr=False)  # compared and hashed by identity, as scikit-learn's estimators
class PATESearch(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A search for parameters of a `PATEClassifier` whose price is fixed before, whatever the number of parameters.

    It is what `GridSearchCV` is for models that are not private. A share of the private groups is set apart. A secret
    random number of fits learn from the other groups, each with parameters that are drawn at random. Each fit is scored
    on the groups that were set apart, with noise, and the fit with the best score is kept. All others are dropped.

    Formal guarantees:
        * What a fitted search holds is (`epsilon`, `target_delta`)-private under replace-one, for one private record,
          or for one group of records if `groups` were passed. That covers the choice of the parameters.
        * The price is charged before the first fit. It holds as long as nobody learns the number of fits, which shows
          in the time that `fit` takes.

    Edge cases: parameters that change the price of a fit are refused, unless all prices are Gaussian. With one class
    for each record, the score of a record is 1 if the class is right; with several labels, it is their F1. The score of
    a group is the mean over its records. A fit that fails ends the search, whose price stays spent.

    Args:
        estimator (PATEClassifier): the classifier, cloned for each fit. Its `epsilon`, `target_delta`, `ledger`,
            `max_total_epsilon`, `random_state` and `verbose` are not used, and its `score_epsilon` has to be None.
        param_grid (dict or list of dicts): lists of values for parameters, as in `GridSearchCV`.
        epsilon (float, default=8.0): the price of the whole search.
        target_delta (float, default=1e-6): delta of the price.
        mean_fits (float, default=5.0): the expected number of fits, above 1.
        test_fraction (float, default=0.2): the share of the groups that fits are scored on, in (0, 1).
        ledger (path, default=None): a ledger file of fits that the search is charged to.
        max_total_epsilon (float, default=None): the greatest total epsilon of all charges in that ledger.
        random_state (int, default=None): a seed, which warns (`SeededNoise`), or None for noise and choices from the
            operating system.

    Attributes:
        best_estimator_ (PATEClassifier): the best fit. Its `epsilon_` is the price of the search, and `publish` states
            this price.
        best_params_ (dict): the parameters of the best fit.
        epsilon_ (float): the price of the search.
        fit_epsilon_ (float): the epsilon of one fit, which its noise was solved for.

    Source: docs/proofs/tuning.md.
    """

    estimator: PATEClassifier
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
    _: KW_ONLY
    epsilon: float = 8.0
    target_delta: float = 1e-6
    mean_fits: float = 5.0
    test_fraction: float = 0.2
    ledger: str | os.PathLike[str] | None = None
    max_total_epsilon: float | None = None
    random_state: int | None = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_public: ArrayLike,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Makes a secret number of fits, and keeps the best.

        Args:
            X: the private inputs, as of `PATEClassifier.fit`.
            y: the private labels, as of `PATEClassifier.fit`.
            X_public: the public inputs.
            groups: the group of each record, `[num_private]`; None if each record is a group.

        Raises:
            InvalidValue: fits with different parameters have different prices, or the ledger has no room or has charges
                of `pate-train`, or an earlier fit in it had this seed. Nothing is spent then. The error is also raised
                if a fit fails after the charge.
        """
        require_probability("test_fraction", self.test_fraction)
        candidate_parameters = list(ParameterGrid(self.param_grid))
        require(
            len(candidate_parameters) > 1,
            "param_grid",
            len(candidate_parameters),
            "two or more settings",
        )
        for parameters in candidate_parameters:
            _require_replace_one(parameters.get("adjacency", self.estimator.adjacency))
        streams = streams_of(self.random_state)
        search_records = _SearchRecords.divided(
            X,
            y,
            public_inputs=X_public,
            groups=groups,
            test_fraction=self.test_fraction,
            rng=streams.generator("partition"),
        )
        private_inputs = self._read_inputs(
            X, y, candidate_parameters[0], public_inputs=X_public, groups=groups
        )

        # 1. The price of a single fit and its score, solved so that the whole search costs at most `epsilon`.
        search_price = self._price_runs(candidate_parameters, search_records)
        tuned_runs = search_price.tuned_runs
        search_to_remember = RememberedFit.from_inputs(
            private_inputs,
            price=RememberedPrice(
                epsilon=search_price.total_epsilon,
                delta=self.target_delta,
                event=tuned_runs.event,
                seed=self.random_state,
                unit=unit_of(groups),
                adjacency=Adjacency.REPLACE_ONE,
            ),
        )

        # 2. The charge, before anything is fitted.
        ledger = Ledger(
            path=self.ledger,
            adjacency=Adjacency.REPLACE_ONE,
            target_delta=self.target_delta,
            accountant=AutoAccountant,
            max_epsilon=self.max_total_epsilon,
            unit=unit_of(groups),
        )
        require_ledger_of_fits(ledger, ledger_path=self.ledger, seed=self.random_state)
        if self.ledger is None:
            warn_of_past_fits(search_to_remember.costliest_fits())
        charge_note = ChargeNote(
            description="PATESearch", seed_name=readable_seed_name(self.random_state)
        )
        ledger.commit(
            uuid.uuid4().hex,
            event=tuned_runs.event,
            content=b"",
            charge_note=charge_note,
            adjacency=Adjacency.REPLACE_ONE,
        )
        search_to_remember.remember()

        # 3. The fits. Private: all but the best one, and how many there are.
        assert isinstance(tuned_runs.score_event, ScoresEvent)
        score_noise = RoundedGaussian(std=tuned_runs.score_event.noise_multiplier * _SCORE_STEPS)
        score_rng = streams.generator("scores")
        tuning_rng = streams.generator("tuning")
        num_fits = tuned_runs.run_count_distribution.draw(tuning_rng)
        choices = tuning_rng.integers(len(candidate_parameters), size=num_fits).tolist()
        seeds = streams.seeds("student", num_seeds=num_fits)
        best_rank: tuple[int, int] | None = None
        for choice, seed in zip(choices, seeds, strict=True):
            candidate = self._unfitted_classifier(
                candidate_parameters[choice], epsilon=search_price.fit_epsilon
            )
            candidate.random_state = None if self.random_state is None else seed
            candidate._tuned_runs = tuned_runs
            caught_warnings = search_records.fit_silently(candidate)
            if best_rank is None:  # every search has a first fit
                _show_public_warnings(caught_warnings)
            fit_event = candidate.release_.event
            if dominating_event([fit_event, tuned_runs.base_event]) != tuned_runs.base_event:
                rule = "a classifier whose fits have the price that was charged"
                raise InvalidValue("estimator", type(candidate).__name__, rule=rule)
            score_in_steps = search_records.score_silently(candidate)
            noise_in_steps = int(score_noise.sample((1,), score_rng)[0])
            noisy_score = score_in_steps + noise_in_steps
            rank = (noisy_score, -choice)  # of equal scores, the first setting
            if best_rank is None or rank > best_rank:
                best_rank = rank
                self.best_estimator_ = candidate
                self.best_params_ = dict(candidate_parameters[choice])
        self.best_estimator_.spent_epsilon_ = ledger.spent_epsilon
        self.epsilon_ = self.best_estimator_.epsilon_
        self.fit_epsilon_ = search_price.fit_epsilon
        return self

    def predict(self, X: ArrayLike) -> Any:
        """Returns the predictions of the best fit, in the form of the labels."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Returns the probabilities of the best fit, `[num_samples, num_labels]`."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict_proba(X))

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Returns the accuracy of the best fit, as `PATEClassifier.score`. No epsilon covers it."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.score(X, y)

    def _read_inputs(
        self,
        inputs: Any,
        labels: Any,
        parameters: Mapping[str, Any],
        *,
        public_inputs: Any,
        groups: Any,
    ) -> Any:
        """Checks that a fit to all private records would accept them, and returns their inputs as a fit reads them.

        A fit of the search reads only the records that it learns from. So without this check, a label that only a
        scored record has could change the scores of others, and a cell that cannot be read could end the search after
        its charge. `RememberedFit` takes digests of the result.

        Raises `InvalidValue` if a fit would refuse the records.

        Args:
            inputs: the private inputs.
            labels: the private labels.
            parameters: the parameters of the candidate that reads them.
            public_inputs: the public inputs.
            groups: the group of each private record; None if each record is a group.
        """
        classifier = self._unfitted_classifier(parameters, epsilon=self.epsilon)
        fit_arguments = FitArguments(
            inputs=inputs,
            labels=labels,
            public_inputs=public_inputs,
            groups=groups,
            public_groups=None,
            public_labels=None,
        )
        with shown_as(CLASSIFIER_SPELLING), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the first fit warns
            fit_inputs, _, _ = classifier._plan_and_price(fit_arguments)
        return fit_inputs.data_pools.private_inputs

    def _price_runs(
        self, candidate_parameters: Sequence[Mapping[str, Any]], search_records: _SearchRecords
    ) -> _SearchPrice:
        """Returns the epsilon of each single fit, and the price of the whole search.

        The search may cost at most `self.epsilon`. The epsilon of a fit is the largest that this allows, if every
        candidate costs as much as the first one. The price is computed from the dearest candidate.

        Args:
            candidate_parameters: the parameters of each candidate.
            search_records: the records of the search, of which the price reads shapes alone.

        Raises:
            InvalidValue: the candidates have different prices, and not all are Gaussian; or the search costs more than
                `epsilon` with the dearest candidate.
        """
        distribution = TruncatedNegativeBinomial.of_mean(mean=self.mean_fits)
        budget = Budget(delta=self.target_delta, epsilon=self.epsilon, accountant=AutoAccountant)

        def price_of_runs(
            fit_epsilon: float, priced_parameters: Sequence[Mapping[str, Any]]
        ) -> TunedRuns:
            """Returns the price of the search if the noise of each fit is solved for `fit_epsilon`.

            Args:
                fit_epsilon: the epsilon of one fit.
                priced_parameters: the parameters of the candidates that are priced; the dearest one counts.
            """
            score_noise_multiplier = calibrate(
                event_for=ScoresEvent,
                target_epsilon=_SCORE_EPSILON_PER_FIT_EPSILON * fit_epsilon,
                target_delta=self.target_delta,
            )
            candidate_classifiers = [
                self._unfitted_classifier(parameters, epsilon=fit_epsilon)
                for parameters in priced_parameters
            ]
            return TunedRuns(
                base_event=dominating_event(
                    [
                        search_records.price_of(classifier).event
                        for classifier in candidate_classifiers
                    ]
                ),
                score_event=ScoresEvent(score_noise_multiplier),
                run_count_distribution=distribution,
                num_candidates=len(candidate_parameters),
            )

        def event_for_fit_epsilon(fit_epsilon: float) -> Event:
            """Returns the price of the search if every candidate costs as much as the first one.

            It is quick to compute, as one candidate is priced. `_price_runs` checks the price of all candidates at the
            end.
            """
            return price_of_runs(fit_epsilon, priced_parameters=candidate_parameters[:1]).event

        fit_epsilon = epsilon_of_one_run(event_for_fit_epsilon, budget)
        tuned_runs = price_of_runs(fit_epsilon, priced_parameters=candidate_parameters)
        total_epsilon = budget.epsilon_of(tuned_runs.event)
        if total_epsilon > self.epsilon * (1 + _PRICE_ROUNDING):
            rule = f"an epsilon above the {total_epsilon:.4g} that the best of these fits costs"
            raise InvalidValue("epsilon", self.epsilon, rule=rule)
        return _SearchPrice(
            fit_epsilon=fit_epsilon, total_epsilon=total_epsilon, tuned_runs=tuned_runs
        )

    def _unfitted_classifier(
        self, parameters: Mapping[str, Any], *, epsilon: float
    ) -> PATEClassifier:
        """Returns an unfitted clone of the classifier with the parameters of one candidate.

        Args:
            parameters: the candidate's parameters.
            epsilon: the epsilon of one fit.

        Raises:
            InvalidValue: the classifier would release scores, as its `score_epsilon` is not None.
        """
        classifier: PATEClassifier = clone(self.estimator)
        classifier.set_params(**clone(dict(parameters), safe=False))  # as `GridSearchCV` does
        classifier.set_params(
            epsilon=epsilon,
            target_delta=self.target_delta,
            ledger=None,
            max_total_epsilon=None,
            random_state=None,
            verbose=0,  # printed lines would tell the number of fits
        )
        if classifier.score_epsilon is not None:
            rule = "None: the score by which fits are compared is no fair estimate for the best of them"
            raise InvalidValue("score_epsilon", classifier.score_epsilon, rule=rule)
        return classifier


def _show_public_warnings(caught_warnings: Sequence[warnings.WarningMessage]) -> None:
    """Shows those caught warnings that are about the data, in the line of the user's call."""
    for warning in caught_warnings:
        if issubclass(warning.category, _PUBLIC_WARNINGS):
            warnings.warn(warning.message, warning.category, stacklevel=users_stack_level())


def _require_replace_one(adjacency: str) -> None:
    """Raises `InvalidValue` unless an adjacency is replace-one, the only one that a search has a price for."""
    if Adjacency.parse(adjacency) is not Adjacency.REPLACE_ONE:
        rule = "replace_one, under which one group is replaced"
        raise InvalidValue("adjacency", adjacency, rule=rule)


def total_score(
    classifier: PATEClassifier, inputs: Any, labels: Any, *, group_ids: IntArray
) -> int:
    """Returns the sum of the scores of all groups of some records, in steps of 2^-20.

    The score of a group is the mean over its records and at most 1, which is 2^20 steps. So one replaced group changes
    the sum by at most 2^20 steps.

    Args:
        classifier: the fitted classifier.
        inputs: the inputs of the records.
        labels: their true labels, in the form of the labels of the fit.
        group_ids: the id of the group of each record, `[num_records]`.
    """
    prediction_scores = _prediction_scores(classifier, inputs, true_labels=labels)
    _, index_of_group, group_sizes = np.unique(group_ids, return_inverse=True, return_counts=True)
    group_mean_scores = np.bincount(index_of_group, weights=prediction_scores) / group_sizes
    group_scores_in_steps = np.clip(
        np.floor(group_mean_scores * _SCORE_STEPS), 0, _SCORE_STEPS
    ).astype(np.int64)
    return int(group_scores_in_steps.sum())


def _prediction_scores(classifier: PATEClassifier, inputs: Any, *, true_labels: Any) -> FloatArray:
    """Returns the score of each record in [0, 1], `[num_records]`.

    With one class for each record, the score is 1 if the predicted class is right, and 0 otherwise. With several
    labels, it is the F1 of the record's predicted labels, or 1 if there are neither true nor predicted labels. Unknown
    labels count as absent, and words of a set that the fit does not know are left out.

    The arguments are those of `total_score`; `true_labels` are its `labels`.
    """
    label_task = classifier._task
    predicted_labels = classifier.predict(inputs)
    if isinstance(label_task, OneClass):
        true_classes = np.asarray(true_labels).ravel()  # a fit also accepts `[num_records, 1]`
        is_right = np.asarray(predicted_labels) == true_classes
        return np.asarray(is_right, np.float64)
    if isinstance(label_task, LabelSets):
        predicted_labels = label_task.encode(predicted_labels)
        # The fit knows the words of its own records, which may lack words of the scored records.
        known_words = set(label_task.classes.tolist())
        true_labels = label_task.encode(
            [known_words.intersection(true_words) for true_words in true_labels]
        )
    is_predicted = np.asarray(predicted_labels) > 0
    labels_without_gaps, _ = without_gaps(true_labels)
    is_true = np.asarray(labels_without_gaps) > 0
    num_common_by_record = (is_predicted & is_true).sum(axis=1)
    predicted_plus_true_by_record = is_predicted.sum(axis=1) + is_true.sum(axis=1)
    # F1 of a record without true and predicted labels is 1.
    f1_by_record = 2 * num_common_by_record / np.maximum(predicted_plus_true_by_record, 1)
    return np.asarray(np.where(predicted_plus_true_by_record > 0, f1_by_record, 1.0))


def _group_ids(inputs: Any, groups: Any) -> IntArray:
    """Returns the id of each record's group, 0, 1, …, `[num_private]`; without groups, each record is one.

    Two names are one group if they are one in a fit. So a person with two spellings is not scored twice.
    """
    num_records = np.shape(inputs)[0]
    if groups is None:
        return np.arange(num_records, dtype=np.int64)
    return disjoint_group_ids("groups", groups, num_rows=num_records, other_groups_by_argument={})


def _draw_groups(
    group_ids: IntArray, *, test_fraction: float, rng: np.random.Generator
) -> BoolArray:
    """Draws groups that are set apart; returns True for each of them, bool `[num_groups]`.

    At least one group is set apart, and at least one is not; `InvalidValue` is raised if there is only one.

    Args:
        group_ids: the id of each record's group, 0, 1, …, `[num_private]`.
        test_fraction: the share of the groups that is set apart, rounded to a whole number of groups.
        rng: the generator that draws.
    """
    num_groups = int(group_ids.max()) + 1
    require(num_groups > 1, "groups", num_groups, "at least 2, of which one is scored")
    num_scored = min(max(round(test_fraction * num_groups), 1), num_groups - 1)
    is_scored = np.zeros(num_groups, dtype=np.bool_)
    is_scored[rng.permutation(num_groups)[:num_scored]] = True
    return is_scored


def _take(values: Any, row_indices: IntArray) -> Any:
    """Returns the entries of labels or groups at some rows.

    The result is a DataFrame, a Series or an array if the values are one, an array for a sparse matrix, or else a list.
    """
    values = dense(values)
    if hasattr(values, "iloc"):
        return values.iloc[row_indices]
    if isinstance(values, np.ndarray):
        return values[row_indices]
    return [values[row] for row in row_indices.tolist()]
