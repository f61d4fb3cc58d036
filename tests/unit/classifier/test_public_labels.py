"""PATEClassifier with labels of some public samples, from which the student starts: benefit and refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from pate import PATEClassifier
from pate.classifier.public_labels import read_public_labels
from pate.classifier.tasks import LabelSets, OneClass, Task
from pate.errors import NOT_SHOWN
from pate.report import PrivacyStatement
from tests.refusals import ANY, refused_parameter

# Labels of public samples that are no sets of words, the name in the refusal, and the value that it shows.
NO_WORD_SETS: list[tuple[Any, str, object]] = [
    (np.array([1, 0]), "y_public", NOT_SHOWN),
    ([1, 0], "y_public", NOT_SHOWN),
    ([None, ("a",)], "y_public", NOT_SHOWN),
    (["a", "b"], "y_public", NOT_SHOWN),
    ([[["a"]]], "y_public", NOT_SHOWN),
    (pd.Series([1.0, np.nan]), "y_public", NOT_SHOWN),
    ("ab", "y_public", "str"),
    ({"a", "b"}, "y_public", "set"),
    (1, "y_public", "int"),
    (np.array("a"), "y_public.shape", ()),
]

pytestmark = pytest.mark.filterwarnings("ignore::pate.classifier.RepeatedRelease")


def inputs_and_labels(num_rows: int = 1200) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs of six columns, and three labels, each the sign of a column with noise."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((num_rows, 6))
    noise = 0.5 * rng.standard_normal((num_rows, 3))
    return inputs, (inputs[:, :3] + noise > 0).astype(int)


def mean_roc_area(y_public: Any, epsilon: float = 0.4) -> float:
    """Returns the mean area under the ROC curves of a fit to 400 private records and 400 public samples.

    Args:
        y_public: the labels of the first public samples; None for no labels.
        epsilon: the epsilon of the fit.
    """
    inputs, labels = inputs_and_labels()
    model = PATEClassifier(epsilon=epsilon, allow_useless=True, random_state=0)
    model.fit(inputs[:400], labels[:400], X_public=inputs[400:800], y_public=y_public)
    return float(roc_auc_score(labels[800:], model.predict_proba(inputs[800:])))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.SeededNoise")
@pytest.mark.filterwarnings("ignore::pate.classifier.DoubtfulPlan")
def test_labels_of_public_samples_help_at_a_small_epsilon() -> None:
    """At epsilon 0.4, 200 labeled public samples raise the area under the ROC curve by over 0.03, to over 0.85."""
    _, labels = inputs_and_labels()
    public_labels = labels[400:600].astype(float)
    public_labels[::7, 1] = np.nan
    assert mean_roc_area(y_public=None) + 0.03 < mean_roc_area(y_public=public_labels) > 0.85


@pytest.mark.slow
def test_a_publication_names_the_number_of_public_labels(tmp_path: Path) -> None:
    """config.yaml, privacy.json and the card of a published fit say how many public samples had labels."""
    inputs, labels = inputs_and_labels()
    model = PATEClassifier(epsilon=2.0, allow_useless=True)
    model.fit(inputs[:400], labels[:400], X_public=inputs[400:800], y_public=labels[400:500])
    model.publish(tmp_path / "release")
    settings = yaml.safe_load((tmp_path / "release" / "config.yaml").read_text())
    assert settings["data"]["public_labels"] == 100
    statement = PrivacyStatement.read(tmp_path / "release", remedy="")
    assert statement.parameters["num_public_labels"] == 100
    card = (tmp_path / "release" / "privacy_card.md").read_text()
    assert "The labels of the first 100 public samples" in card


@pytest.mark.parametrize(
    ("label_task", "y_public", "expected"),
    [
        (Task(num_labels=2), [[0, 1], [1, 1]], [[False, True], [True, True]]),
        (Task(num_labels=2), [[0, np.nan], [1, 1]], [[0, -1], [1, 1]]),
        (
            OneClass(class_names=np.array(["a", "b"])),
            np.array(["b", "a"]),
            [[False, True], [True, False]],
        ),
        (LabelSets(words=["a", "b"]), [("b",), ()], [[False, True], [False, False]]),
    ],
)
def test_public_labels_have_the_forms_of_private_ones(
    label_task: Task, y_public: Any, expected: list[Any]
) -> None:
    """Rows of 0 and 1 with gaps, classes and sets of words are read as labels of public samples."""
    labels = read_public_labels(
        y_public, label_task=label_task, num_public=5, classes_are_stated=True
    )
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize(
    ("label_task", "y_public", "name", "value"),
    [
        (Task(num_labels=2), [[0, 1]] * 6, "len(y_public)", 6),
        (Task(num_labels=2), np.zeros((0, 2)), "len(y_public)", 0),
        (Task(num_labels=2), [[0, 1, 1]], "y_public.shape", (1, 3)),
        (Task(num_labels=2), [[0, 2]], "y_public[0, 1]", NOT_SHOWN),
        (OneClass(class_names=np.array(["a", "b"])), np.array(["c"]), "y_public[0]", NOT_SHOWN),
        (LabelSets(words=["a", "b"]), [("c",)], "y_public", ANY),
        (Task(num_labels=2), np.array(1), "y_public.shape", ()),
        (OneClass(class_names=np.array(["a", "b"])), np.array("a"), "y_public.shape", ()),
        (OneClass(class_names=np.array(["a", "b"])), [pd.NA], "y_public[0]", NOT_SHOWN),
        *((LabelSets(words=["a", "b"]), *case) for case in NO_WORD_SETS),
    ],
)
def test_public_labels_of_another_form_are_refused(
    label_task: Task, y_public: Any, name: str, value: Any
) -> None:
    """Public labels of no or too many samples, other columns, other numbers and unknown words are refused.

    So are labels that are no sets of words for a task of words, and one value in place of the labels of all samples.
    """
    with refused_parameter(name, value=value):
        read_public_labels(y_public, label_task=label_task, num_public=5, classes_are_stated=True)


def test_public_words_need_the_names_of_all_classes() -> None:
    """Public words are refused without `classes`, as the refusal of an unknown word would reveal private labels."""
    with refused_parameter("y_public", value="given", rule_words="classes="):
        read_public_labels(
            [("a",)], label_task=LabelSets(words=["a"]), num_public=5, classes_are_stated=False
        )


@pytest.mark.parametrize("y_public", [np.zeros((20, 3), int), np.full((20, 3), np.nan)])
def test_public_labels_without_a_present_one_are_refused(y_public: np.ndarray) -> None:
    """Public labels that are all 0, or all unknown, are refused by the name of their argument."""
    inputs, labels = inputs_and_labels()
    with refused_parameter("y_public", value="no label is 1"):
        PATEClassifier().fit(inputs[:400], labels[:400], X_public=inputs[400:], y_public=y_public)


def test_public_labels_beside_estimators_are_refused() -> None:
    """Public labels are refused with an estimator, as only the student of private groups can start from labels."""
    inputs, labels = inputs_and_labels()
    model = PATEClassifier(estimator=LogisticRegression(), epsilon=1.0)
    with refused_parameter("y_public", value="given"):
        model.fit(inputs[:400], labels[:400], X_public=inputs[400:800], y_public=labels[400:500])


def test_public_labels_beside_a_public_fraction_are_refused() -> None:
    """Public labels are refused with `public_fraction`, as only samples in X_public can have them."""
    inputs, labels = inputs_and_labels()
    model = PATEClassifier(public_fraction=0.2, epsilon=1.0)
    with refused_parameter("y_public", value="given"):
        model.fit(inputs[:400], labels[:400], y_public=labels[400:500])
