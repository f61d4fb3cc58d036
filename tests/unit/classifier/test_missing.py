"""Missing cells and missing labels, in pandas' nullable columns and in other containers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from pate import PATEClassifier
from pate.classifier.inputs import numbers_of
from pate.classifier.missing_labels import require_labels
from pate.classifier.tasks import LabelSets
from tests.refusals import refused_parameter

pd = pytest.importorskip("pandas")
NUM_ROWS = 120
RNG = np.random.default_rng(0)
INPUTS = pd.DataFrame(RNG.integers(0, 9, size=(NUM_ROWS, 3)), columns=["a", "b", "c"])
LABELS = (INPUTS[["a", "b"]] > 4).astype(int)


def with_gaps(frame: Any, dtype: str) -> Any:
    """Returns a frame converted to a dtype, with missing cells in the first column of every seventh row."""
    converted = frame.astype(dtype)
    converted.iloc[::7, 0] = np.nan if dtype == "float64" else pd.NA
    return converted


def predictions_of_dtype(dtype: str) -> np.ndarray:
    """Returns the predictions of a seeded fit to inputs of a dtype with missing cells."""
    model = PATEClassifier(
        estimator=DecisionTreeClassifier(), n_teachers=10, epsilon=30.0, random_state=0
    )
    inputs_with_gaps = with_gaps(INPUTS, dtype=dtype)
    public_inputs = with_gaps(INPUTS[:40] + 0.0, dtype="float64").astype(dtype)
    model.fit(inputs_with_gaps, LABELS, X_public=public_inputs)
    return np.asarray(model.predict(inputs_with_gaps))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*rows of X_public are rows of X", "ignore:random_state")
def test_nullable_columns_with_gaps_are_floats_with_gaps() -> None:
    """Columns of Int64 with missing cells give the predictions of float64 with NaN, to the bit."""
    assert np.array_equal(
        predictions_of_dtype(dtype="Int64"), predictions_of_dtype(dtype="float64")
    )


@pytest.mark.parametrize("dtype", ["Int8", "Int64", "Float64", "int64[pyarrow]", "double[pyarrow]"])
def test_numbers_of_a_nullable_column_have_nan_in_gaps(dtype: str) -> None:
    """A column of a nullable dtype becomes floats, with NaN in exactly its missing cells."""
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    numbers = numbers_of(inputs=with_gaps(INPUTS, dtype=dtype))
    assert np.flatnonzero(np.isnan(numbers[:, 0])).tolist() == list(range(0, NUM_ROWS, 7))
    assert np.array_equal(numbers[:, 1:], INPUTS[["b", "c"]])


# Three labels, of which the last one is missing, by the type of their container.
LABELS_WITH_GAP = {
    "Int64": pd.Series([0, 1, None], dtype="Int64"),
    "boolean": pd.Series([True, False, None], dtype="boolean"),
    "string": pd.Series(["no", "yes", None], dtype="string"),
    "category": pd.Series(["no", "yes", None], dtype="category"),
    "object": np.array(["no", "yes", None], object),
    "list": ["no", "yes", pd.NA],
    "NaT": np.array(["no", "yes", pd.NaT], object),
    "NaN among words": ["no", "yes", float("nan")],
}


@pytest.mark.parametrize("container", LABELS_WITH_GAP)
def test_a_missing_label_is_refused_with_its_position(container: str) -> None:
    """A missing third label is refused as `y[2]`, in each container of `LABELS_WITH_GAP`."""
    with refused_parameter("y[2]", rule_words="a label for"):
        require_labels(LABELS_WITH_GAP[container])


def test_a_missing_label_of_several_is_refused_with_its_position() -> None:
    """A missing label of several is refused by its row and column, and complete labels of five forms pass."""
    labels_of_frame = LABELS.astype("Int64")
    require_labels(labels_of_frame)
    labels_of_frame.iloc[3, 1] = pd.NA
    with refused_parameter("y[3, 1]", rule_words="a label for"):
        require_labels(labels_of_frame)
    for labels in (["no", "yes"], [{"flu"}, set()], np.array([[0, 1], [1, 0]]), [[0, 1], [1, 0]]):
        require_labels(labels)


@pytest.mark.parametrize(
    ("labels", "name", "value"),
    [
        (1, "y", "int"),
        ("no", "y", "str"),
        ({"no", "yes"}, "y", "set"),
        (pd.NA, "y", "NAType"),
        (np.array(1), "y.shape", ()),
    ],
)
def test_single_values_and_sets_are_no_labels_of_samples(
    labels: Any, name: str, value: object
) -> None:
    """A fit refuses a number, a text, a missing value and a set without order in place of labels of samples."""
    with refused_parameter(name, value=value, rule_words="labels of samples"):
        PATEClassifier(epsilon=1.0).fit(INPUTS, labels, X_public=INPUTS)


def test_sets_of_other_values_than_words_are_refused() -> None:
    """Sets of numbers are refused as labels, as only sets of words are accepted."""
    with refused_parameter("y", value="sets of other values"):
        LabelSets.from_labels([{0, 1}, {1}], classes=None)
