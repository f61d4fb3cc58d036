"""The search for parameters of a `PATEClassifier` at one price: the best of a secret number of fits."""

import os
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
    Ledger,
    ScoresEvent,
    TruncatedNegativeBinomial,
    calibrate,
)
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.classifier.classifier import PATEClassifier
from pate.classifier.fit_ledger import unit_of
from pate.classifier.fit_warnings import ClassesFromLabels, GapsFromLabels, PublicGroups, SharedRows
from pate.classifier.inputs import rows_of
from pate.classifier.tasks import LabelSets, OneClass
from pate.mechanisms.noise.rounded_gaussian import RoundedGaussian
from pate.pricing.tuned_price import epsilon_of_one_run
from pate.run.random_streams import RandomStreams
from pate.run.tuned_runs import TunedRuns
from pate.run.tuning import dominating_event
from pate.validation import require, require_probability

# ruff: noqa: N803 -- X is what scikit-learn calls it
_STEPS = 2**20  # of the score of one group
# of warnings that are about public facts, and alike in all fits
_PUBLIC_WARNINGS = (ClassesFromLabels, GapsFromLabels, PublicGroups, SharedRows)
_SCORE_SHARE = 0.3  # of the epsilon of one fit, which its score has beside the fit


@dataclass(eq=False, repr=False)
class PATESearch(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A search for parameters of a `PATEClassifier` whose price is fixed before, whatever the number of parameters.

    It is what `GridSearchCV` is for models that are not private. A share of the private groups is set apart. A secret
    random number of fits is made of the other groups, each with parameters that are drawn at random. Each fit is scored
    on the groups that were set apart, with noise, and the fit with the best score is kept. All others are dropped.

    Formal guarantees:
        * What a fitted search holds is (`epsilon`, `target_delta`)-private under replace-one, for one private record,
          or for one group of records if `groups` were passed. That covers the choice of the parameters.
        * The price is charged before the first fit. It holds as long as nobody learns the number of fits, which shows
          in the time that `fit` takes.

    Edge cases: parameters that change the price of a fit are refused, unless all prices are Gaussian. The score of a
    record is 1 for the right class, and of several labels their F1; the score of a group is the mean over its records.

    Args:
        estimator (PATEClassifier): the classifier, cloned for each fit. Its `epsilon`, `target_delta`, `ledger`,
            `max_total_epsilon` and `random_state` are not used.
        param_grid (dict or list of dicts): lists of values for parameters, as in `GridSearchCV`.
        epsilon (float, default=8.0): the price of the whole search.
        target_delta (float, default=1e-6): delta of the price.
        mean_fits (float, default=5.0): the expected number of fits, above 1.
        test_fraction (float, default=0.2): the share of the groups that fits are scored on, in (0, 1).
        ledger (path, default=None): a ledger file that the search is charged to.
        max_total_epsilon (float, default=None): the greatest total epsilon of all charges in that ledger.
        random_state (int, default=None): a seed, or None for noise and choices from the operating system.

    Attributes:
        best_estimator_ (PATEClassifier): the best fit; its `epsilon_` is the price of the search, as is what it
            publishes.
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
            InvalidValue: the parameters have different prices, or the ledger has no room. Nothing is spent then.
        """
        require_probability("test_fraction", self.test_fraction)
        candidates = list(ParameterGrid(self.param_grid))
        require(len(candidates) > 1, "param_grid", len(candidates), "two or more settings")
        rule = "replace_one, under which one group is replaced"
        adjacency = Adjacency.parse(self.estimator.adjacency)
        require(adjacency is Adjacency.REPLACE_ONE, "adjacency", adjacency, rule)
        streams = (
            RandomStreams.from_secret()
            if self.random_state is None
            else RandomStreams(self.random_state)
        )
        rng = streams.generator("tuning")
        numbers = _group_numbers(X, groups)
        is_scored = _drawn_groups(numbers, self.test_fraction, streams.generator("partition"))
        fitted_rows = np.flatnonzero(~is_scored[numbers])
        scored_rows = np.flatnonzero(is_scored[numbers])
        own = {
            "X": rows_of(X, fitted_rows),
            "y": _taken(y, fitted_rows),
            "X_public": X_public,
            "groups": None if groups is None else _taken(groups, fitted_rows),
        }

        # 1. The price: of one fit and its score, so that the best of all fits costs epsilon.
        distribution = TruncatedNegativeBinomial.of_mean(self.mean_fits)
        budget = Budget(delta=self.target_delta, epsilon=self.epsilon, accountant=AutoAccountant)

        def runs_at(epsilon: float, of_params: Sequence[Mapping[str, Any]]) -> TunedRuns:
            """Returns the price of the search if one fit, with any of some parameters, has the noise of an epsilon."""
            score_noise = calibrate(
                ScoresEvent, target_epsilon=_SCORE_SHARE * epsilon, target_delta=self.target_delta
            )
            prices = [self._model(params, epsilon).price_of(**own) for params in of_params]
            return TunedRuns(
                base=dominating_event([price.event for price in prices]),
                score=ScoresEvent(score_noise),
                distribution=distribution,
                num_candidates=len(candidates),
            )

        fit_epsilon = epsilon_of_one_run(
            lambda epsilon: runs_at(epsilon, candidates[:1]).event, budget
        )
        tuned = runs_at(fit_epsilon, candidates)
        price = budget.epsilon_of(tuned.event)
        rule = f"an epsilon above the {price:.4g} that the best of these fits costs"
        require(price <= self.epsilon * (1 + 1e-9), "epsilon", self.epsilon, rule)

        # 2. The charge, before anything is fitted.
        ledger = Ledger(
            self.ledger,
            adjacency=adjacency,
            target_delta=self.target_delta,
            accountant=AutoAccountant,
            max_epsilon=self.max_total_epsilon,
            unit=unit_of(groups),
        )
        ledger.charge(tuned.event, adjacency=adjacency, description="PATESearch")

        # 3. The fits. Private: all but the best one, and how many there are.
        assert isinstance(tuned.score, ScoresEvent)
        noise = RoundedGaussian(tuned.score.noise_multiplier * _STEPS)
        noises = streams.generator("scores")
        num_fits = distribution.draw(rng)
        choices = rng.integers(len(candidates), size=num_fits).tolist()
        seeds = streams.seeds("student", num_seeds=num_fits)
        best_rank: tuple[int, int] | None = None
        for choice, seed in zip(choices, seeds, strict=True):
            model = self._model(candidates[choice], fit_epsilon)
            model.random_state = None if self.random_state is None else seed
            model._tuned = tuned
            caught = _fitted(model, own)
            if best_rank is None:  # of the first fit, which every search has
                for warning in caught:
                    if issubclass(warning.category, _PUBLIC_WARNINGS):
                        warnings.warn(warning.message, warning.category, stacklevel=2)
            rule = "fits at the price that was charged"
            dominated = dominating_event([model.release_.event, tuned.base]) == tuned.base
            require(dominated, "estimator", type(model).__name__, rule)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                steps = _score_steps(
                    model,
                    rows_of(X, scored_rows),
                    _taken(y, scored_rows),
                    groups=numbers[scored_rows],
                )
            score = steps + int(noise.sample((1,), noises)[0])
            rank = (score, -choice)
            if best_rank is None or rank > best_rank:
                best_rank = rank
                self.best_estimator_ = model
                self.best_params_ = dict(candidates[choice])
        self.best_estimator_.spent_epsilon_ = ledger.spent_epsilon
        self.epsilon_ = self.best_estimator_.epsilon_
        self.fit_epsilon_ = fit_epsilon
        return self

    def _model(self, params: Mapping[str, Any], epsilon: float) -> PATEClassifier:
        """Returns an unfitted classifier with parameters, at the epsilon of one fit."""
        model: PATEClassifier = clone(self.estimator)
        model.set_params(**clone(dict(params), safe=False))
        model.set_params(
            epsilon=epsilon,
            target_delta=self.target_delta,
            ledger=None,
            max_total_epsilon=None,
            random_state=None,
            verbose=0,  # lines would tell the number of fits
        )
        rule = "None: the score by which fits are compared is no fair estimate for the best of them"
        require(model.score_epsilon is None, "score_epsilon", model.score_epsilon, rule)
        return model

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


def _fitted(model: PATEClassifier, own: Mapping[str, Any]) -> list[warnings.WarningMessage]:
    """Fits a model without any warning, as their number would tell the number of fits; returns the warnings.

    Args:
        model: the classifier to fit.
        own: the arguments of the fit.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(**own)
    return caught


def _group_numbers(X: ArrayLike, groups: ArrayLike | None) -> IntArray:
    """Returns the number of each record's group, `[num_private]`."""
    if groups is None:
        return np.arange(np.shape(X)[0], dtype=np.int64)
    numbers: IntArray = np.unique(np.asarray(groups), return_inverse=True)[1]
    return numbers


def _drawn_groups(numbers: IntArray, fraction: float, rng: np.random.Generator) -> BoolArray:
    """Returns which groups are set apart, a fixed number of them at random, `[num_groups]`."""
    num_groups = int(numbers.max()) + 1
    num_scored = min(max(round(fraction * num_groups), 1), num_groups - 1)
    is_scored = np.zeros(num_groups, dtype=np.bool_)
    is_scored[rng.permutation(num_groups)[:num_scored]] = True
    return is_scored


def _taken(values: Any, rows: IntArray) -> Any:
    """Returns some entries of labels or groups, in the form that they have."""
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if isinstance(values, np.ndarray):
        return values[rows]
    return [values[row] for row in rows.tolist()]


def _score_steps(model: PATEClassifier, inputs: Any, labels: Any, *, groups: IntArray) -> int:
    """Returns the sum of the scores of all groups, in steps of 2^-20, of which a group has at most 2^20.

    Args:
        model: the fit.
        inputs: the inputs of the scored records.
        labels: their true labels, in the form of the labels of the fit.
        groups: the number of the group of each scored record.
    """
    predicted = model.predict(inputs)
    task = model._task
    if isinstance(task, OneClass):
        scores = (np.asarray(predicted) == np.asarray(labels)).astype(np.float64)
    else:
        if isinstance(task, LabelSets):
            predicted = task.encode(predicted)
            words = set(
                task.classes.tolist()
            )  # of the fit, which may lack some of the scored groups
            labels = task.encode([words.intersection(row) for row in labels])
        told = np.asarray(predicted) > 0
        true = np.asarray(np.ma.filled(labels, 0)) > 0
        sizes = told.sum(axis=1) + true.sum(axis=1)
        scores = np.where(sizes > 0, 2 * (told & true).sum(axis=1) / np.maximum(sizes, 1), 1.0)
    _, places, counts = np.unique(groups, return_inverse=True, return_counts=True)
    means = np.bincount(places, weights=scores) / counts
    steps = np.clip(np.floor(means * _STEPS), 0, _STEPS).astype(np.int64)
    return int(steps.sum())
