"""Fits to labels of which some are missing, in all forms that mark a missing label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from pate import PATEClassifier
from pate.classifier import GapsFromLabels
from pate.classifier.missing_labels import without_gaps
from tests.refusals import ANY, refused_parameter

# 3,000 inputs with two labels, of which 30% are known. `LABELS_WITH_NAN` has NaN in place of unknown labels.
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(3000, 4)).astype(np.float32)
LABELS = INPUTS[:, :2] > 0.5
KNOWN = RNG.random(LABELS.shape) < 0.3
LABELS_WITH_NAN = np.where(KNOWN, LABELS, np.nan)
# The labels with gaps in each form in which a fit accepts them.
LABELS_BY_FORM = {
    "floats": LABELS_WITH_NAN,
    "masked": np.ma.masked_array(LABELS.astype(int), mask=~KNOWN),
    "objects": np.where(KNOWN, LABELS, None),
    "lists": np.where(KNOWN, LABELS.astype(object), None).tolist(),
    "frame": pd.DataFrame(LABELS_WITH_NAN, columns=["a", "b"]),
    "nullable": pd.DataFrame(LABELS_WITH_NAN, columns=["a", "b"]).astype("Int64"),
}


@pytest.mark.parametrize("form", LABELS_BY_FORM)
def test_missing_labels_of_any_form_are_gaps(form: str) -> None:
    """NaN, None, pandas.NA and masked entries become 0, with a mask of what is known."""
    filled, known = without_gaps(LABELS_BY_FORM[form])
    assert known is not None and np.array_equal(known, KNOWN)
    np.testing.assert_array_equal(filled, LABELS & KNOWN)


@pytest.mark.parametrize(
    "unchanged_labels",
    [LABELS, LABELS.astype(float), [["a"], []], ["x", None]],
    ids=["booleans", "floats", "sets of words", "classes"],
)
def test_labels_without_gaps_stay_as_they_are(unchanged_labels: Any) -> None:
    """Labels without gaps, sets of words, and classes are returned as the same object, without a mask.

    Classes are returned so even if one record has None in place of its class, as here.
    """
    filled, known = without_gaps(unchanged_labels)
    assert filled is unchanged_labels and known is None


def test_a_masked_array_without_masked_entries_has_a_mask() -> None:
    """A masked array of which no entry is masked has a mask, as its owner says that labels may be missing."""
    _, known = without_gaps(np.ma.masked_array(LABELS.astype(int)))
    assert known is not None and known.all()


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pate.classifier.SeededNoise", "ignore::pate.classifier.RepeatedRelease"
)
def test_a_fit_leaves_missing_labels_out() -> None:
    """A fit to the known 30% of the labels is right for over 85% of unseen labels.

    This is at least 5 points more than for a fit with 0 in place of missing labels.
    """
    private_rows = slice(0, 2000)

    def accuracy_of_fit(training_labels: Any) -> float:
        """Returns the share of right labels of unseen records after a fit to the training labels of 2,000 records."""
        model = PATEClassifier(epsilon=3.0, random_state=0)
        model.fit(INPUTS[private_rows], training_labels[private_rows], X_public=INPUTS[2000:2400])
        return float((model.predict(INPUTS[2400:]) == LABELS[2400:]).mean())

    accuracy_with_gaps = accuracy_of_fit(training_labels=np.ma.masked_invalid(LABELS_WITH_NAN))
    assert accuracy_with_gaps > 0.85
    assert accuracy_with_gaps > accuracy_of_fit(training_labels=LABELS & KNOWN) + 0.05


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pate.classifier.SeededNoise", "ignore::pate.classifier.RepeatedRelease"
)
def test_estimators_are_fitted_to_known_labels() -> None:
    """A fit with trees as teachers, to labels of which 30% are known, is right for over 85% of unseen labels."""
    model = PATEClassifier(
        estimator=DecisionTreeClassifier(max_depth=3), n_teachers=20, epsilon=50.0, random_state=0
    )
    model.fit(
        INPUTS[:2000], np.ma.masked_invalid(LABELS_WITH_NAN[:2000]), X_public=INPUTS[2000:2400]
    )
    assert (model.predict(INPUTS[2400:]) == LABELS[2400:]).mean() > 0.85


def test_a_missing_class_is_refused() -> None:
    """A missing class is refused if each record has one class, as the record would teach nothing."""
    classes = np.where(KNOWN[:, 0], LABELS[:, 0].astype(object), None)
    with refused_parameter("y[1]", value=ANY, rule_words="none missing"):
        PATEClassifier(epsilon=3.0).fit(INPUTS[:2000], classes[:2000], X_public=INPUTS[2000:])


@pytest.mark.slow
@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.filterwarnings(
    "ignore::pate.classifier.SeededNoise", "ignore::pate.classifier.RepeatedRelease"
)
def test_cards_of_a_fit_say_that_labels_may_be_missing(tmp_path: Path, has_gaps: bool) -> None:
    """Both cards of a published fit say that labels may be missing if some are, and otherwise do not mention it.

    The report of the fit is what `privacy.json` states, with the released shares of known labels.
    """
    labels = np.ma.masked_invalid(LABELS_WITH_NAN[:1000]) if has_gaps else LABELS[:1000]
    model = PATEClassifier(epsilon=8.0, random_state=0)
    model.fit(INPUTS[:1000], labels, X_public=INPUTS[1000:1100])
    bundle = model.publish(tmp_path / "release")
    assert bundle.privacy == model.report()
    assert bool(bundle.privacy.known_shares) == has_gaps
    for name in ("README.md", "privacy_card.md"):
        text = (tmp_path / "release" / name).read_text()
        assert ("abels of private records may be missing" in text) == has_gaps


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pate.classifier.SeededNoise", "ignore::pate.classifier.RepeatedRelease"
)
def test_gaps_that_are_read_from_records_are_a_warning() -> None:
    """A fit to labels with one NaN warns that a private cell decides how the release is made.

    A fit to a masked array does not warn. Both fits predict the same.
    """
    labels = LABELS[:1000].astype(float)
    labels[0, 0] = np.nan
    model = PATEClassifier(epsilon=8.0, random_state=0)
    with pytest.warns(GapsFromLabels, match=r"masked_invalid\(y\)"):
        model.fit(INPUTS[:1000], labels, X_public=INPUTS[1000:1100])
    probabilities_of_nan = model.predict_proba(INPUTS[1000:1100])
    model.fit(INPUTS[:1000], np.ma.masked_invalid(labels), X_public=INPUTS[1000:1100])
    np.testing.assert_array_equal(model.predict_proba(INPUTS[1000:1100]), probabilities_of_nan)
