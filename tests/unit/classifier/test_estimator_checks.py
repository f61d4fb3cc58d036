"""The checks that scikit-learn has for all estimators, with the reasons why some do not apply."""

from typing import Any
from unittest import SkipTest

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from pate import PATEClassifier

# The checks call fit(X, y) on few records: public rows must be among them, and noise must be small.
CLASSIFIER = PATEClassifier(
    estimator=LogisticRegression(),
    n_teachers=3,
    epsilon=2000.0,
    public_fraction=0.5,
    allow_useless=True,
)
CLASSIFIER_OF_GROUPS = PATEClassifier(epsilon=2000.0, public_fraction=0.5, allow_useless=True)
# The checks that scikit-learn skips, with the reasons.
SKIPPED = {
    "check_array_api_input": "needs the environment variable SCIPY_ARRAY_API; inputs become numpy arrays anyway",
    "check_classifier_data_not_an_array": "needs pandas, which is optional",
    "check_classifiers_multilabel_output_format_decision_function": "there is no decision_function",
}


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pate.classifier.SeededNoise",
    "ignore::pate.classifier.RepeatedRelease",
    "ignore::pate.classifier.DoubtfulPlan",
    "ignore::pate.classifier.UngroupedFit",
    "ignore::pate.classifier.ClassesFromLabels",
)
@parametrize_with_checks([CLASSIFIER, CLASSIFIER_OF_GROUPS])
def test_the_classifier_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    """Each of scikit-learn's checks of estimators passes, without and with estimators in the classifier.

    No check is marked as an expected failure. A check that scikit-learn skips must be explained in `SKIPPED`.
    """
    try:
        check(estimator)
    except SkipTest:
        assert check.func.__name__ in SKIPPED
        pytest.skip(SKIPPED[check.func.__name__])


def test_scikit_learn_yields_many_checks() -> None:
    """scikit-learn has over 40 checks for the classifier, and the explained ones are among them.

    An exception is the check of array API inputs, which scikit-learn 1.6 does not yield.
    """
    names = {check.func.__name__ for _, check in estimator_checks_generator(CLASSIFIER)}
    assert len(names) > 40
    assert SKIPPED.keys() - {"check_array_api_input"} <= names
