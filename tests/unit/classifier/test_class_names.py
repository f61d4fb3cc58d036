"""The names of the classes of a fit: they are read from labels or passed, and published by a statement of the owner."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate import PATEClassifier
from pate.classifier.tasks import task_of
from tests.refusals import refused_parameter

pytestmark = pytest.mark.filterwarnings(
    "ignore::pate.classifier.DoubtfulPlan",
    "ignore::pate.classifier.RepeatedRelease",
    "ignore::pate.classifier.ClassesFromLabels",
)
# 600 private inputs and 150 public ones.
INPUTS = np.random.default_rng(0).standard_normal((750, 3))
IS_POSITIVE = INPUTS[:600, 0] > 0
# The class of each private record.
CLASS_NAMES = np.where(IS_POSITIVE, "ill", "healthy").astype(object)


def fitted_classifier(labels: Any, classes: Any = None) -> PATEClassifier:
    """Returns a classifier that was fitted at epsilon 8 to 600 private records with the given labels."""
    return PATEClassifier(epsilon=8.0, classes=classes).fit(
        INPUTS[:600], labels, X_public=INPUTS[600:]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "label_of_each_record",
    [CLASS_NAMES, [{"ill"} if is_ill else {"healthy"} for is_ill in IS_POSITIVE]],
    ids=["classes", "sets of words"],
)
def test_names_that_are_read_from_labels_are_published_by_statement_alone(
    label_of_each_record: Any, tmp_path: Path
) -> None:
    """A fit that reads its classes from y is published with `public_classes=True`, and refused without."""
    model = fitted_classifier(labels=label_of_each_record)
    with refused_parameter("public_classes", value=False, rule_words="classes"):
        model.publish(tmp_path / "release")
    assert not (tmp_path / "release").exists()
    bundle = model.publish(tmp_path / "release", public_classes=True)
    assert bundle.privacy.stated_public == ("classes",)


def test_classes_that_the_owner_passed_are_published_as_a_statement(tmp_path: Path) -> None:
    """A fit with `classes` is published, and the cards say that the epsilon does not cover the names of the classes."""
    model = fitted_classifier(labels=CLASS_NAMES, classes=["healthy", "ill", "unknown"])
    bundle = model.publish(tmp_path / "release")
    assert bundle.privacy == model.report()
    assert bundle.privacy.stated_public == ("classes",)
    card = (tmp_path / "release" / "privacy_card.md").read_text()
    assert "- The names of the classes: they are public by the statement" in card
    assert (
        "does not cover the names of the classes"
        in (tmp_path / "release" / "README.md").read_text()
    )


@pytest.mark.parametrize(
    "labels",
    [IS_POSITIVE, IS_POSITIVE.astype(int), INPUTS[:600, :2] > 0],
    ids=["booleans", "zeros and ones", "two labels"],
)
def test_bits_are_published_without_a_statement(labels: Any, tmp_path: Path) -> None:
    """A fit to labels that are false or true, or 0 or 1, is published without `public_classes=True`.

    Such labels have no names that come from private records, so the report states no names to be public.
    """
    bundle = fitted_classifier(labels=labels).publish(tmp_path / "release")
    assert bundle.privacy.stated_public == ()
    assert "stated_public" not in (tmp_path / "release" / "privacy.json").read_text()


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1, 2]),
        np.array([0.0, 1.0, 2.0]),
        np.array([0, 1, 2.0], dtype=object),
    ],
    ids=["integers", "floats", "objects"],
)
def test_whole_numbers_have_one_name_whatever_their_type(labels: np.ndarray) -> None:
    """Classes 0, 1 and 2 are named as integers if y has integers, floats, or one float among integers."""
    task, bits = task_of(labels, classes=None)
    assert task.label_names == ("0", "1", "2")
    assert bits.tolist() == np.eye(3, dtype=bool).tolist()
