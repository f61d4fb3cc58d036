"""Teachers that are scikit-learn estimators: their confidences, seeds, and estimators that are refused."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from pate.models import Shard, SklearnTeacher
from tests.refusals import ANY, refused_parameter


def confidences_of_one_teacher(estimator, shard):
    """Fits one teacher to a shard, and returns the function from inputs to confidences."""
    teacher = SklearnTeacher(estimator)
    (state,) = teacher.fit_many(shards=[shard], seeds=[3])

    def confidences(inputs):
        return teacher.predict_many(states=[state], inputs=inputs)[0]

    return confidences


def varying_labels(shard):
    """Returns the numbers of the labels that are true for some records of a shard and false for others."""
    return np.flatnonzero(shard.labels.any(axis=0) & ~shard.labels.all(axis=0))


def test_logistic_regression_equals_one_fit_per_label(shards, queries):
    """A teacher with logistic regression has the confidences of one regression for each label that varies."""
    predict_confidences = confidences_of_one_teacher(
        estimator=LogisticRegression(C=0.3), shard=shards[2]
    )
    confidences = predict_confidences(inputs=queries)
    for label in varying_labels(shard=shards[2]):
        reference = LogisticRegression(C=0.3).fit(shards[2].inputs, shards[2].labels[:, label])
        np.testing.assert_allclose(
            confidences[:, label], reference.predict_proba(queries)[:, 1], atol=1e-6
        )


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(n_estimators=5),
        KNeighborsClassifier(n_neighbors=3),
        MLPClassifier(hidden_layer_sizes=(4,), max_iter=5),
        LinearSVC(),
        LinearRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("num_varying", [0, 1, 2, 5])
def test_any_estimator_and_any_number_of_varying_labels(estimator, num_varying, shards, queries):
    """An estimator can be fitted to records in which 0, 1, 2 or 5 of five labels vary.

    The confidence in a constant label is its value, and the confidences in the others vary.
    """
    labels = np.arange(30)[:, None] % np.arange(2, 7) == 0
    labels[:, num_varying:] = [True, False, True, False, True][num_varying:]
    first_shard = shards[0]
    shard = Shard(inputs=first_shard.inputs, labels=labels)
    predict_confidences = confidences_of_one_teacher(estimator=estimator, shard=shard)
    confidences = predict_confidences(inputs=queries)
    assert confidences.shape == (50, 5)
    assert (confidences[:, num_varying:] == labels[0, num_varying:]).all()
    assert (confidences[:, :num_varying].std(axis=0) > 0).all()


def test_equal_seeds_give_equal_teachers(shards, queries):
    """Two teachers with the same seed on one shard vote the same, and one with another seed votes otherwise."""
    teacher = SklearnTeacher(
        make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=3))
    )
    states = teacher.fit_many(shards=[shards[0]] * 3, seeds=[1, 1, 2])
    first, second, third = teacher.predict_many(states=states, inputs=queries)
    assert (first == second).all()
    assert (first != third).any()


def test_estimators_that_cannot_be_fitted_are_refused_with_the_label() -> None:
    """A value that is no estimator is refused, and so is an estimator that fails on a rare label, which is named."""
    for no_estimator in (3, DecisionTreeClassifier):
        with refused_parameter("estimator", value=ANY, rule_words="an unfitted scikit-learn"):
            SklearnTeacher(no_estimator)
    labels = np.zeros((12, 2), dtype=bool)
    labels[:6, 0] = True
    labels[0, 1] = True
    shard = Shard(
        inputs=np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32), labels=labels
    )
    estimator = CalibratedClassifierCV(LinearSVC(), cv=3)
    with refused_parameter(
        "teacher.estimator",
        value="CalibratedClassifierCV",
        rule_words="label 1, which 1 of 12 records have",
    ):
        SklearnTeacher(estimator).fit_many(shards=[shard], seeds=[0])
