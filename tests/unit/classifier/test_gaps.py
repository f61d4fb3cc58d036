"""A fit of labels of which some are missing."""

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
from tests.refusals import ANY, refused

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(3000, 4)).astype(np.float32)
LABELS = INPUTS[:, :2] > 0.5
KNOWN = RNG.random(LABELS.shape) < 0.3
GAPS = np.where(KNOWN, LABELS, np.nan)
FORMS = {
    "floats": GAPS,
    "masked": np.ma.masked_array(LABELS.astype(int), mask=~KNOWN),
    "objects": np.where(KNOWN, LABELS, None),
    "lists": np.where(KNOWN, LABELS.astype(object), None).tolist(),
    "frame": pd.DataFrame(GAPS, columns=["a", "b"]),
    "nullable": pd.DataFrame(GAPS, columns=["a", "b"]).astype("Int64"),
}


@pytest.mark.parametrize("form", FORMS)
def test_missing_labels_of_any_form_are_gaps(form: str) -> None:
    """NaN, None, pandas.NA and masked entries become 0, with a mask of what is known."""
    filled, known = without_gaps(FORMS[form])
    assert known is not None and np.array_equal(known, KNOWN)
    np.testing.assert_array_equal(filled, LABELS & KNOWN)


@pytest.mark.parametrize("labels", [LABELS, LABELS.astype(float), [["a"], []], ["x", None]])
def test_labels_without_gaps_stay_as_they_are(labels: Any) -> None:
    """Whole labels, sets of words and classes are passed on."""
    same, known = without_gaps(labels)
    assert same is labels and known is None


def test_a_masked_array_without_masked_entries_has_a_mask() -> None:
    """Who passes a masked array says that labels may be missing, whether any is or not."""
    _, known = without_gaps(np.ma.masked_array(LABELS.astype(int)))
    assert known is not None and known.all()


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pate.classifier.SeededNoise", "ignore::pate.classifier.RepeatedRelease"
)
def test_a_fit_leaves_missing_labels_out() -> None:
    """With 30% of the labels the fit predicts nearly as well as with all, and better than with 0 for missing ones."""
    rows = slice(0, 2000)

    def accuracy_of_fit(training_labels: Any) -> float:
        model = PATEClassifier(epsilon=3.0, random_state=0)
        model.fit(INPUTS[rows], training_labels[rows], X_public=INPUTS[2000:2400])
        return float((model.predict(INPUTS[2400:]) == LABELS[2400:]).mean())

    with_gaps = accuracy_of_fit(training_labels=np.ma.masked_invalid(GAPS))
    assert with_gaps > 0.85 and with_gaps > accuracy_of_fit(training_labels=LABELS & KNOWN) + 0.05


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pate.classifier.SeededNoise", "ignore::pate.classifier.RepeatedRelease"
)
def test_estimators_are_fitted_to_known_labels() -> None:
    """An ensemble of trees learns each label from the records that know it."""
    model = PATEClassifier(
        estimator=DecisionTreeClassifier(max_depth=3), n_teachers=20, epsilon=50.0, random_state=0
    )
    model.fit(INPUTS[:2000], np.ma.masked_invalid(GAPS[:2000]), X_public=INPUTS[2000:2400])
    assert (model.predict(INPUTS[2400:]) == LABELS[2400:]).mean() > 0.85


def test_a_missing_class_is_refused() -> None:
    """Of one class for each record none may be missing, as a record without it teaches nothing."""
    classes = np.where(KNOWN[:, 0], LABELS[:, 0].astype(object), None)
    with refused("y[1]", value=ANY, rule="none missing"):
        PATEClassifier(epsilon=3.0).fit(INPUTS[:2000], classes[:2000], X_public=INPUTS[2000:])


@pytest.mark.slow
@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.filterwarnings(
    "ignore::pate.classifier.SeededNoise", "ignore::pate.classifier.RepeatedRelease"
)
def test_cards_of_a_fit_say_that_labels_may_be_missing(tmp_path: Path, has_gaps: bool) -> None:
    """Both cards say that labels may be missing if some are, and otherwise nothing of it."""
    labels = np.ma.masked_invalid(GAPS[:1000]) if has_gaps else LABELS[:1000]
    model = PATEClassifier(epsilon=8.0, random_state=0)
    model.fit(INPUTS[:1000], labels, X_public=INPUTS[1000:1100]).publish(tmp_path / "release")
    for name in ("README.md", "privacy_card.md"):
        text = (tmp_path / "release" / name).read_text()
        assert ("abels of private records may be missing" in text) == has_gaps


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pate.classifier.SeededNoise", "ignore::pate.classifier.RepeatedRelease"
)
def test_gaps_that_are_read_from_records_are_a_warning() -> None:
    """One missing cell decides how the release is made, so a fit warns; masked arrays decide it by themselves."""
    labels = LABELS[:1000].astype(float)
    labels[0, 0] = np.nan
    model = PATEClassifier(epsilon=8.0, random_state=0)
    with pytest.warns(GapsFromLabels, match=r"masked_invalid\(y\)"):
        model.fit(INPUTS[:1000], labels, X_public=INPUTS[1000:1100])
    from_nan = model.predict_proba(INPUTS[1000:1100])
    model.fit(INPUTS[:1000], np.ma.masked_invalid(labels), X_public=INPUTS[1000:1100])
    np.testing.assert_array_equal(model.predict_proba(INPUTS[1000:1100]), from_nan)
