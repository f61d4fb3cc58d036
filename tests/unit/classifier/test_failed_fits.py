"""Fits of `PATEClassifier` that fail: before the charge the model stays as it was, later it keeps the price."""

import pickle
import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from pate import PATEClassifier
from pate.accounting import Ledger
from pate.aggregators import CenteredVotes
from pate.classifier import RepeatedRelease
from pate.classifier.group_votes import GroupVotesPlan
from pate.models import LowRankStudent
from tests.refusals import refused_parameter

pytestmark = pytest.mark.filterwarnings(
    "ignore::pate.classifier.DoubtfulPlan", "ignore::pate.classifier.RepeatedRelease"
)
NUM_PRIVATE = 600


class FailingStudent(ClassifierMixin, BaseEstimator):
    """A student that raises an error of a given class when it is fitted."""

    def __init__(self, error_class: type[BaseException] = ValueError) -> None:
        self.error_class = error_class

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:  # noqa: N803
        """Raises the error."""
        raise self.error_class("no")

    def predict(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Returns 0 for each sample."""
        return np.zeros(len(X))


def labeled_data(num_features: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns 600 private inputs, their two labels as bits, and 150 public inputs."""
    inputs = np.random.default_rng(0).standard_normal((NUM_PRIVATE + 150, num_features))
    return inputs[:NUM_PRIVATE], (inputs[:NUM_PRIVATE, :2] > 0).astype(int), inputs[NUM_PRIVATE:]


INPUTS, LABELS, PUBLIC_INPUTS = labeled_data()


def fitted_classifier(ledger: Path | None = None) -> PATEClassifier:
    """Returns a classifier that was fitted to the data of this file at epsilon 0.5, with or without a ledger."""
    return PATEClassifier(epsilon=0.5, ledger=ledger).fit(INPUTS, LABELS, X_public=PUBLIC_INPUTS)


def epsilon_of_release(model: PATEClassifier) -> float:
    """Returns the epsilon of the event of the release that a classifier holds."""
    return Ledger(target_delta=1e-6).price(model.release_.event)


@pytest.mark.slow
@pytest.mark.parametrize("error_class", [ValueError, KeyError, UserWarning])
def test_a_failed_student_leaves_the_price_of_the_new_release(
    error_class: type[Exception], tmp_path: Path
) -> None:
    """If the student of a second fit fails, the classifier has the second price and release, and predicts as before.

    The first fit has epsilon 0.5, and the second one 30. The classifier cannot be published.
    """
    model = fitted_classifier(ledger=tmp_path / "ledger")
    first_release = model.release_
    first_predictions = model.predict(PUBLIC_INPUTS)
    pickle.loads(pickle.dumps(model)).publish(tmp_path / "first")
    model.set_params(epsilon=30.0, student=FailingStudent(error_class), n_teachers=20)
    with refused_parameter(
        "student", value="FailingStudent", rule_words="the release is paid and stays"
    ):
        model.fit(INPUTS, LABELS, X_public=PUBLIC_INPUTS)
    assert model.release_ is not first_release
    assert model.epsilon_ == pytest.approx(epsilon_of_release(model), rel=1e-3)
    assert 29 < model.epsilon_ <= 30
    assert model.report().epsilon == 30.0
    assert model.report().mechanism == type(model.aggregator_).__name__ == "GaussianVotes"
    assert model.spent_epsilon_ == Ledger.stored(tmp_path / "ledger").spent_epsilon
    assert "epsilon <= 30.0" in repr(model)
    assert "no student was fitted to this release" in repr(model)
    np.testing.assert_array_equal(model.predict(PUBLIC_INPUTS), first_predictions)
    with refused_parameter("student_", value="ReleasedModel"):
        model.publish(tmp_path / "release")
    assert not (tmp_path / "release").exists()


@pytest.mark.slow
def test_the_first_fit_whose_student_fails_reports_its_price() -> None:
    """If the student of the first fit fails, report and repr of the classifier state the price that was paid."""
    model = PATEClassifier(epsilon=30.0, student=FailingStudent(KeyError), n_teachers=20)
    with refused_parameter("student", value="FailingStudent"):
        model.fit(INPUTS, LABELS, X_public=PUBLIC_INPUTS)
    assert model.report().epsilon == 30.0
    assert "epsilon <= 30.0" in repr(model)
    assert "no student was fitted to this release" in repr(model)
    assert not hasattr(model, "student_")


@pytest.mark.slow
def test_a_failed_student_of_released_weights_is_named_by_its_recipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a student fails for which the user passed no estimator, the error names the package's `LowRankStudent`."""

    def raise_value_error(*args: Any, **kwargs: Any) -> None:
        raise ValueError("no")

    monkeypatch.setattr(LowRankStudent, "learn", raise_value_error)
    with refused_parameter(
        "student", value="LowRankStudent", rule_words="the release is paid and stays"
    ):
        fitted_classifier()


@pytest.mark.slow
def test_an_interrupted_student_leaves_the_release_and_says_that_it_is_spent() -> None:
    """Ctrl-C during the training of the student leaves the release and its price, and a note in the error says so."""
    model = PATEClassifier(epsilon=30.0, student=FailingStudent(KeyboardInterrupt), n_teachers=20)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.fit(INPUTS, LABELS, X_public=PUBLIC_INPUTS)
    assert "is spent: release_ is the release" in caught.value.__notes__[0]
    assert model.epsilon_ == pytest.approx(epsilon_of_release(model), rel=1e-3)


@pytest.mark.slow
def test_an_interrupted_draw_says_that_its_price_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a draw after its charge leaves the earlier release, and a note says that the price is spent."""
    model = fitted_classifier(ledger=tmp_path / "ledger")
    first_release = model.release_

    def interrupt(self: Any, votes: Any, rng: Any, record: Any) -> None:
        def interrupt_draw() -> dict[str, np.ndarray]:
            raise KeyboardInterrupt

        record.part("rounds", draw=interrupt_draw)

    monkeypatch.setattr(CenteredVotes, "release", interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.fit(INPUTS, LABELS, X_public=PUBLIC_INPUTS)
    assert "is spent: its release is lost" in caught.value.__notes__[0]
    assert model.release_ is first_release
    assert len(Ledger.stored(tmp_path / "ledger").entries) == 2


def test_a_fit_that_spends_nothing_leaves_the_model_whole() -> None:
    """A classifier predicts as before after a second fit that was refused before its charge."""
    model = fitted_classifier()
    first_predictions = model.predict(PUBLIC_INPUTS)
    attributes = dict(vars(model))
    inputs, labels, public_inputs = labeled_data(num_features=5)
    with refused_parameter("n_teachers", value=601):
        model.set_params(n_teachers=601).fit(inputs, labels, X_public=public_inputs)
    model.set_params(n_teachers=None)
    assert vars(model) == attributes
    np.testing.assert_array_equal(model.predict(PUBLIC_INPUTS), first_predictions)


@pytest.mark.slow
def test_a_fit_that_is_stopped_before_its_charge_is_no_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fit that Ctrl-C stopped before its charge does not count: the next fit is the first release of its records."""
    inputs = INPUTS + 1e-3  # records of no other test
    with monkeypatch.context() as patch:

        def interrupt(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(GroupVotesPlan, "vote", interrupt)
        with pytest.raises(KeyboardInterrupt):
            PATEClassifier(epsilon=0.5).fit(inputs, LABELS, X_public=PUBLIC_INPUTS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedRelease)
        PATEClassifier(epsilon=0.5).fit(inputs, LABELS, X_public=PUBLIC_INPUTS)
    with pytest.warns(RepeatedRelease, match="fit 2 of this process"):
        PATEClassifier(epsilon=0.5).fit(inputs, LABELS, X_public=PUBLIC_INPUTS)
