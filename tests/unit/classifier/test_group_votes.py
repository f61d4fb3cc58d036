"""PATEClassifier without estimators: each private group is a teacher; inputs are arrays or DataFrames."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier

import pate
from pate import PATEClassifier
from pate.accounting import ExactAccountant, Ledger
from pate.aggregators import CenteredVotes, GaussianVotes
from pate.classifier import (
    ClassesFromLabels,
    DoubtfulPlan,
    SeededNoise,
    UngroupedFit,
    UnlikePublic,
)
from pate.classifier.frames import encode_records
from pate.classifier.label_models import LabelModel
from pate.data import Table, TableSchema
from tests.refusals import ANY, Refusal, refused_parameter

# The numbers of private and public rows of the table of patients.
NUM_PRIVATE = 2000
NUM_PUBLIC = 400
# The words of the texts in the table of patients.
WORDS = np.array(["cough", "fever", "rash", "pain", "sleep", "sugar", "heart", "lung"])
pytestmark = pytest.mark.filterwarnings("ignore::pate.classifier.RepeatedRelease")


def inputs_and_labels(num_rows: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs of four columns, and three labels as 0 and 1, each the sign of a column."""
    inputs = np.random.default_rng(0).standard_normal((num_rows, 4))
    return inputs, (inputs[:, :3] > 0).astype(int)


def table_of_patients(num_rows: int = 4000) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns a table and three labels that depend on its cells.

    The columns of the table are a number with gaps, a word, a code, a date and a text.
    """
    rng = np.random.default_rng(3)
    word_indices_of_notes = rng.integers(low=0, high=len(WORDS), size=(num_rows, 4))
    ages = rng.normal(loc=50, scale=18, size=num_rows)
    ages[rng.random(num_rows) < 0.1] = np.nan
    wards = rng.choice(["a", "b", "c"], size=num_rows)
    diagnosis_codes = rng.choice([401, 402], size=num_rows)
    days_after_new_year = rng.integers(low=0, high=99, size=num_rows)
    frame = pd.DataFrame(
        {
            "age": ages,
            "ward": wards,
            "code": pd.Categorical(diagnosis_codes),
            "admitted": pd.Timestamp("2024-01-01") + pd.to_timedelta(days_after_new_year, unit="D"),
            "note": [" ".join(WORDS[indices]) for indices in word_indices_of_notes],
        }
    )
    labels = pd.DataFrame(
        {
            "flu": (word_indices_of_notes < 2).any(axis=1).astype(int),
            "old": (np.nan_to_num(ages, nan=50) > 60).astype(int),
            "ward c": (frame["ward"] == "c").astype(int),
        }
    )
    return frame, labels


def fitted_to_patients(
    random_state: int | None = None,
) -> tuple[PATEClassifier, pd.DataFrame, pd.DataFrame]:
    """Returns a classifier that was fitted to the table of patients at epsilon 4, unseen rows, and their labels.

    Args:
        random_state: the seed; None for noise from the operating system.
    """
    frame, labels = table_of_patients()
    public_rows = slice(NUM_PRIVATE, NUM_PRIVATE + NUM_PUBLIC)
    model = PATEClassifier(epsilon=4.0, random_state=random_state)
    model.fit(frame[:NUM_PRIVATE], labels[:NUM_PRIVATE], X_public=frame[public_rows])
    return model, frame[public_rows.stop :], labels[public_rows.stop :]


@pytest.mark.slow
def test_one_epsilon_pays_for_votes_of_all_groups() -> None:
    """A fit without estimators at epsilon 1 spends at least 0.99, by the exact accountant.

    Predictions of three labels are over 90% right.
    """
    inputs, labels = inputs_and_labels()
    model = PATEClassifier(epsilon=1.0).fit(
        inputs[:2000], labels[:2000], X_public=inputs[2000:2200]
    )
    assert isinstance(model.aggregator_, CenteredVotes)
    assert model.release_.num_queries == 200
    price = ExactAccountant().compose(model.release_.event).get_epsilon(model.delta_)
    assert 0.99 < model.epsilon_ == price == model.spent_epsilon_ <= 1.0
    held_out_inputs = inputs[2200:]
    assert (model.predict(held_out_inputs) == labels[2200:]).mean() > 0.9
    assert model.predict_proba(held_out_inputs).shape == (800, 3)
    assert [names.tolist() for names in model.classes_] == [[0, 1]] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        PATEClassifier(estimator=LogisticRegression()),
        PATEClassifier(aggregator=GaussianVotes(noise_std=1.0)),
        PATEClassifier(student=LogisticRegression()),
    ],
    ids=["estimator", "aggregator", "student"],
)
def test_a_part_of_an_ensemble_means_teachers_that_are_estimators(model: PATEClassifier) -> None:
    """A fit with an estimator, an aggregator or a student trains estimators as teachers."""
    inputs, labels = inputs_and_labels()
    model.set_params(epsilon=30.0, n_queries=20, allow_useless=True)
    model.fit(inputs[:2000], labels[:2000], X_public=inputs[2000:2200])
    assert isinstance(model.student_, LabelModel)
    assert isinstance(model.aggregator_, GaussianVotes)


@pytest.mark.slow
def test_the_number_of_teachers_may_be_smaller_than_that_of_groups() -> None:
    """A fit with 400 teachers for 2,000 records, each a group of its own, has over 80% of labels right.

    More teachers than groups are refused.
    """
    inputs, labels = inputs_and_labels()
    model = PATEClassifier(n_teachers=400, epsilon=8.0)
    model.fit(inputs[:2000], labels[:2000], X_public=inputs[2000:2200])
    assert (model.predict(inputs[2200:]) == labels[2200:]).mean() > 0.8
    with refused_parameter("n_teachers", value=2001, rule_words="at most 2000"):
        PATEClassifier(n_teachers=2001).fit(inputs[:2000], labels[:2000], X_public=inputs[2000:])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.SeededNoise")
def test_a_sparse_matrix_gives_the_release_of_a_dense_one() -> None:
    """At a seed, sparse inputs give the scores and predictions of dense inputs."""
    inputs, labels = inputs_and_labels()
    model = PATEClassifier(epsilon=2.0, random_state=0)
    private_inputs, public_inputs = inputs[:2000], inputs[2000:2200]
    dense_model = clone(model).fit(
        private_inputs, labels[:2000], X_public=public_inputs, groups=np.arange(2000)
    )
    sparse_model = clone(model).fit(
        sparse.csr_array(private_inputs),
        labels[:2000],
        X_public=sparse.csr_array(public_inputs),
        groups=np.arange(2000),
    )
    np.testing.assert_array_equal(sparse_model.release_.scores, dense_model.release_.scores)
    np.testing.assert_array_equal(
        sparse_model.predict(sparse.csr_array(inputs)), dense_model.predict(inputs)
    )


def test_a_release_that_noise_would_drown_is_refused_before_the_charge(tmp_path: Path) -> None:
    """A fit to 60 records at epsilon 0.1 is refused with a larger epsilon as the remedy, and no ledger is made."""
    inputs, labels = inputs_and_labels()
    model = PATEClassifier(epsilon=0.1, ledger=tmp_path / "ledger.db")
    with refused_parameter(
        "target_epsilon", value=0.1, remedies=("target_epsilon",), waiver="allow_useless"
    ) as caught:
        model.fit(inputs[:60], labels[:60], X_public=inputs[2000:2200])
    assert str(caught.value).startswith("epsilon=0.1: expected")
    assert "60 private groups" in str(caught.value)
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "refusal"),
    [
        (
            PATEClassifier(adjacency="add_remove"),
            refused_parameter("adjacency", value="add_remove"),
        ),
        (PATEClassifier(epsilon=None), refused_parameter("epsilon", value=None)),
        (
            PATEClassifier(n_queries=60),
            refused_parameter("n_queries", value=60, rule_words="at most 50"),
        ),
    ],
    ids=["adjacency", "epsilon", "queries"],
)
def test_parameters_that_votes_of_groups_cannot_have_are_refused_before_the_charge(
    model: PATEClassifier, refusal: Refusal, tmp_path: Path
) -> None:
    """A fit without estimators refuses `add_remove`, no epsilon, and more queries than public samples.

    The ledger stays empty.
    """
    inputs, labels = inputs_and_labels()
    ledger_path = tmp_path / "ledger.db"
    with refusal:
        model.set_params(ledger=ledger_path).fit(
            inputs[:2000], labels[:2000], X_public=inputs[2000:2050]
        )
    assert not ledger_path.exists() or not Ledger.stored(ledger_path).entries


@pytest.mark.slow
def test_equal_public_samples_are_refused_before_the_charge(tmp_path: Path) -> None:
    """Public samples that are all equal are refused, as groups vote along the directions in which samples differ."""
    inputs, labels = inputs_and_labels()
    ledger_path = tmp_path / "ledger.db"
    with refused_parameter("X_public", value="all alike"):
        PATEClassifier(ledger=ledger_path).fit(
            inputs[:2000], labels[:2000], X_public=np.ones((50, 4))
        )
    assert not ledger_path.exists() or not Ledger.stored(ledger_path).entries


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.ClassesFromLabels")
def test_one_class_per_sample_is_the_most_probable_class() -> None:
    """The predicted digit has the largest of ten probabilities with the sum 1, and over 75% of digits are right."""
    inputs, digits = load_digits(return_X_y=True)
    model = PATEClassifier(epsilon=8.0).fit(
        inputs[:1300], digits[:1300], X_public=inputs[1300:1500]
    )
    held_out_inputs = inputs[1500:]
    probabilities = model.predict_proba(held_out_inputs)
    assert probabilities.sum(axis=1) == pytest.approx(1.0)
    np.testing.assert_array_equal(model.predict(held_out_inputs), probabilities.argmax(axis=1))
    assert model.score(held_out_inputs, digits[1500:]) > 0.75


@pytest.mark.slow
def test_only_classes_that_are_read_from_private_labels_warn() -> None:
    """A fit without `classes=` warns if it reads the set of classes or words from private labels.

    There is no warning if `classes` is passed, or if labels are booleans or bits.
    """
    inputs, labels = inputs_and_labels()
    bits_of_label = labels[:2000, 0]

    def fit_to_labels(training_labels: Any, classes: list[int] | None = None) -> PATEClassifier:
        """Fits a classifier to labels of 2,000 records; `classes` are all classes, or None to read them."""
        model = PATEClassifier(epsilon=2.0, classes=classes)
        return model.fit(inputs[:2000], training_labels, X_public=inputs[2000:2200])

    with pytest.warns(ClassesFromLabels, match=r"set of classes was read from the private y"):
        fit_to_labels(training_labels=bits_of_label)
    with pytest.warns(ClassesFromLabels, match=r"set of words was read"):
        fit_to_labels(training_labels=[{"flu"} if bit else set() for bit in bits_of_label])
    assert fit_to_labels(training_labels=bits_of_label, classes=[0, 1]).classes_.tolist() == [0, 1]
    assert fit_to_labels(training_labels=bits_of_label == 1).classes_.tolist() == [False, True]
    fit_to_labels(training_labels=labels[:2000])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.UnlikePublic")
def test_a_table_needs_no_pipeline() -> None:
    """A fit reads a DataFrame with numbers, words, dates and texts.

    Each label is over 85% right, also after pickling.
    """
    model, frame, labels = fitted_to_patients()
    assert (model.predict(frame) == labels.to_numpy()).mean(axis=0).min() > 0.85
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert model.n_features_in_ == 5
    unpickled_model = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(unpickled_model.predict_proba(frame), model.predict_proba(frame))


@pytest.mark.slow
def test_the_schema_of_a_table_is_that_of_its_public_rows() -> None:
    """The kinds of the columns, and the range of ages, are those of the public rows."""
    frame, _ = table_of_patients()
    model, _, _ = fitted_to_patients()
    public_rows = frame[NUM_PRIVATE : NUM_PRIVATE + NUM_PUBLIC]
    schema = model._table_schema
    assert isinstance(schema, TableSchema)
    kinds = {name: column["kind"] for name, column in schema.plain()["columns"].items()}
    assert kinds == {
        "age": "number",
        "ward": "category",
        "code": "category",
        "admitted": "date",
        "note": "text",
    }
    age = schema.plain()["columns"]["age"]
    assert (age["min"], age["max"]) == (public_rows["age"].min(), public_rows["age"].max())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.SeededNoise")
@pytest.mark.filterwarnings("ignore::pate.classifier.UnlikePublic")
def test_a_table_of_another_library_gives_the_release_of_a_dataframe() -> None:
    """A fit to Arrow tables gives the release, predictions and report of a fit to DataFrames at a seed.

    Tables are read by Arrow's PyCapsule interface, which DataFrames of polars have as well.
    """
    pyarrow = pytest.importorskip("pyarrow")
    frame, labels = table_of_patients()
    public_rows = slice(NUM_PRIVATE, NUM_PRIVATE + NUM_PUBLIC)
    model, _, _ = fitted_to_patients(random_state=0)
    model_of_arrow = PATEClassifier(epsilon=4.0, random_state=0).fit(
        pyarrow.Table.from_pandas(frame[:NUM_PRIVATE], preserve_index=False),
        pyarrow.Table.from_pandas(labels[:NUM_PRIVATE], preserve_index=False),
        X_public=pyarrow.Table.from_pandas(frame[public_rows], preserve_index=False),
    )
    np.testing.assert_array_equal(model_of_arrow.release_.scores, model.release_.scores)
    held_out_rows = frame[public_rows.stop :]
    arrow_held_out = pyarrow.Table.from_pandas(held_out_rows, preserve_index=False)
    np.testing.assert_array_equal(
        model_of_arrow.predict(arrow_held_out), model.predict(held_out_rows)
    )
    assert model_of_arrow.report() == model.report()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.SeededNoise")
@pytest.mark.filterwarnings("ignore::pate.classifier.ClassesFromLabels")
def test_a_column_of_another_library_has_the_labels_of_a_list() -> None:
    """A fit to one Arrow column of classes, as a Series of polars is one, gives the release of a fit to a list."""
    pyarrow = pytest.importorskip("pyarrow")
    inputs, labels = inputs_and_labels(num_rows=900)
    classes = np.where(labels[:700, 0], "flu", "cough").tolist()
    scores_of_columns = [
        PATEClassifier(epsilon=8.0, random_state=0, allow_useless=True)
        .fit(inputs[:700], column, X_public=inputs[700:])
        .release_.scores
        for column in (classes, pyarrow.chunked_array([classes[:300], classes[300:]]))
    ]
    np.testing.assert_array_equal(*scores_of_columns)


# 480 random names of 32 hexadecimal digits.
NAMES_OF_RECORDS = np.random.default_rng(0).bytes(16 * 480).hex(" ", 16).split()


@pytest.mark.parametrize(
    ("cells", "refusal"),
    [
        ([[1, 2]] * 480, refused_parameter("X", rule_words="no lists")),
        (NAMES_OF_RECORDS, refused_parameter("X_public", value="DataFrame", rule_words="texts")),
    ],
    ids=["lists", "names of records"],
)
def test_columns_that_are_no_features_are_refused(cells: list[Any], refusal: Refusal) -> None:
    """A DataFrame is refused if a column has lists, or a different name in each row."""
    inputs, labels = inputs_and_labels(num_rows=480)
    frame = pd.DataFrame({"number": inputs[:, 0], "other": cells})
    with refusal:
        PATEClassifier().fit(frame[:300], labels[:300], X_public=frame[300:])


@pytest.mark.slow
def test_a_fitted_classifier_holds_no_private_record() -> None:
    """With twice as many private records, the size of the pickle changes by less than 500 bytes."""
    inputs, labels = inputs_and_labels()

    def size_of_pickle(num_private: int) -> int:
        """Returns the number of bytes of a pickled classifier that was fitted to a number of private records."""
        model = PATEClassifier(epsilon=2.0)
        model.fit(inputs[:num_private], labels[:num_private], X_public=inputs[2000:2200])
        return len(pickle.dumps(model))

    assert abs(size_of_pickle(num_private=1000) - size_of_pickle(num_private=2000)) < 500


@pytest.mark.slow
def test_equal_rows_of_a_table_of_few_words_give_no_warning() -> None:
    """A fit to a table of few words does not warn of shared rows, although many rows are equal."""
    frame, labels = table_of_patients()
    frame = frame[["ward", "code"]]
    PATEClassifier(epsilon=4.0).fit(
        frame[:NUM_PRIVATE],
        labels[["ward c"]][:NUM_PRIVATE].assign(old=labels["old"]),
        X_public=frame[NUM_PRIVATE:],
    )


@pytest.mark.slow
def test_a_table_is_read_as_pate_train_reads_its_files(tmp_path: Path) -> None:
    """A DataFrame gets the schema and the inputs that `data=table` of `pate-train` gives the same rows in files.

    For the files, `data.text` names the column of texts, and `data.category` the column of codes.
    """
    frame, labels = table_of_patients()
    table = frame.astype({"code": int}).join(labels)
    private_rows = table[:NUM_PRIVATE]
    public_rows = table[NUM_PRIVATE : NUM_PRIVATE + NUM_PUBLIC]
    test_rows = table[NUM_PRIVATE + NUM_PUBLIC :]
    private_rows.to_parquet(tmp_path / "private.parquet", index=False)
    public_rows.to_parquet(tmp_path / "public.parquet", index=False)
    test_rows.to_parquet(tmp_path / "test.parquet", index=False)
    reader = Table(
        private=str(tmp_path / "private.parquet"),
        public=str(tmp_path / "public.parquet"),
        test=str(tmp_path / "test.parquet"),
        labels=tuple(labels.columns),
        text=("note",),
        category=("code",),
    )
    dataset = reader.load()
    model, _, _ = fitted_to_patients()
    encoded_records = encode_records(frame[:NUM_PRIVATE], schema=model._table_schema, name="X")
    assert model._table_schema.plain() == dataset.preprocessing.plain()
    np.testing.assert_array_equal(encoded_records.features, dataset.private.inputs)


@pytest.mark.slow
def test_a_cell_of_another_kind_is_refused_without_being_shown(tmp_path: Path) -> None:
    """A private word in a column of numbers is refused without being shown, and nothing is charged."""
    frame, labels = table_of_patients()
    frame["age"] = frame["age"].astype(object)
    frame.loc[7, "age"] = "alice"
    model = PATEClassifier(epsilon=4.0, ledger=tmp_path / "ledger.db")
    with refused_parameter("X.age", rule_words="numbers") as caught:
        model.fit(
            frame[:NUM_PRIVATE],
            labels[:NUM_PRIVATE],
            X_public=frame[NUM_PRIVATE:].astype({"age": float}),
        )
    assert "alice" not in str(caught.value)
    ledger_path = tmp_path / "ledger.db"
    assert not ledger_path.exists() or not Ledger.stored(ledger_path).entries


@pytest.mark.parametrize(
    ("column", "cell"), [("empty", None), ("price", "3,5"), ("day", "04.03.2024")]
)
def test_a_public_column_that_cannot_be_read_is_refused(column: str, cell: str | None) -> None:
    """A public column is refused under its name if it is empty, or if all its cells are "3,5" or "04.03.2024".

    So a number with a comma, and a date with points, are not guessed.
    """
    frame, labels = table_of_patients()
    frame[column] = pd.Series([cell] * len(frame), dtype=object)
    with refused_parameter(f"X_public.{column}", value="no cell" if cell is None else ANY):
        PATEClassifier().fit(
            frame[:NUM_PRIVATE], labels[:NUM_PRIVATE], X_public=frame[NUM_PRIVATE:]
        )


@pytest.mark.slow
def test_a_model_of_a_table_predicts_tables_alone() -> None:
    """A model of a DataFrame refuses another order of columns, and an array."""
    model, frame, _ = fitted_to_patients()
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[frame.columns[::-1]])
    with refused_parameter("X", value="ndarray"):
        model.predict(np.zeros((3, 5)))


@pytest.mark.slow
def test_new_words_in_a_table_warn() -> None:
    """A prediction for three rows with a word that no public row has warns with the column and the number of cells."""
    model, frame, _ = fitted_to_patients()
    with pytest.warns(UnlikePublic, match=r"^X\.ward: 3 cells, 3 with a word") as caught:
        model.predict(frame[:3].assign(ward="z"))
    assert caught[0].filename == __file__


@pytest.mark.slow
def test_a_private_column_that_public_rows_do_not_explain_warns() -> None:
    """A fit warns of a private column if no public row has any of its words."""
    frame, labels = table_of_patients()
    private_rows = frame[:NUM_PRIVATE].assign(ward="z")
    with pytest.warns(DoubtfulPlan, match=r"^X\.ward: every cell is missing, or has no known word"):
        PATEClassifier(epsilon=4.0).fit(
            private_rows, labels[:NUM_PRIVATE], X_public=frame[NUM_PRIVATE:]
        )


@pytest.mark.slow
def test_cells_in_another_notation_than_in_the_fit_are_refused() -> None:
    """A prediction for numbers with commas is refused under the column, with the advice to convert them."""
    model, frame, _ = fitted_to_patients()
    with refused_parameter("X.age", rule_words="numbers", hint_words="pandas.to_numeric"):
        model.predict(frame.astype({"age": object}).assign(age="3,5"))


def test_columns_of_an_array_with_very_different_ranges_warn() -> None:
    """A fit warns of a public column that is about 30 times as wide as the other columns."""
    inputs, labels = inputs_and_labels()
    inputs[:, 3] *= 30
    with pytest.warns(DoubtfulPlan, match="widest column of the public inputs is 2. times"):
        PATEClassifier(epsilon=2.0).fit(inputs[:2000], labels[:2000], X_public=inputs[2000:2200])


def test_a_clone_without_groups_warns() -> None:
    """A fit of a clone without groups warns, as tools of scikit-learn make clones and may drop groups."""
    inputs, labels = inputs_and_labels()
    with pytest.warns(UngroupedFit):
        clone(PATEClassifier(epsilon=2.0)).fit(
            inputs[:2000], labels[:2000], X_public=inputs[2000:2200]
        )


@pytest.mark.slow
def test_a_published_model_of_a_table_predicts_data_frames_as_before(tmp_path: Path) -> None:
    """The published model of a fit to a DataFrame predicts for a DataFrame as the classifier does.

    The labels of the model are the columns of the labels. The card has the name given to `publish`, and
    the column of ages.
    """
    model, frame, labels = fitted_to_patients()
    bundle = model.publish(tmp_path / "release", name="ward records")
    assert bundle.labels == tuple(labels.columns)
    assert bundle.form.name == "ward records"
    loaded_bundle = pate.load(tmp_path / "release")
    first_rows = frame[:100]
    np.testing.assert_allclose(
        loaded_bundle.predict_proba(first_rows), model.predict_proba(first_rows), atol=1e-5
    )
    np.testing.assert_array_equal(loaded_bundle.predict(first_rows), model.predict(first_rows))
    card = (tmp_path / "release" / "README.md").read_text()
    assert "ward records" in card
    assert "| age | number |" in card


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.ClassesFromLabels")
def test_a_published_model_of_classes_predicts_one_class(tmp_path: Path) -> None:
    """The published model of a fit to digits predicts exactly one class for each record, that of the classifier.

    Publication needs `public_classes=True`. The model cannot be written as ONNX.
    """
    inputs, digits = load_digits(return_X_y=True)
    model = PATEClassifier(epsilon=8.0).fit(
        inputs[:1300], digits[:1300], X_public=inputs[1300:1500]
    )
    with refused_parameter("public_classes", value=False):
        model.publish(tmp_path / "release")
    assert not (tmp_path / "release").exists()
    bundle = model.publish(tmp_path / "release", public_classes=True)
    assert bundle.labels == tuple("0123456789")
    assert bundle.privacy.stated_public == ("classes",)
    for name in ("README.md", "privacy_card.md"):
        assert (
            "public by the statement of the data owner" in (tmp_path / "release" / name).read_text()
        )
    held_out_inputs = inputs[1500:]
    np.testing.assert_allclose(
        bundle.predict_proba(held_out_inputs), model.predict_proba(held_out_inputs), atol=1e-6
    )
    np.testing.assert_array_equal(
        bundle.predict(held_out_inputs).argmax(axis=1), model.predict(held_out_inputs)
    )
    assert bundle.predict(held_out_inputs).sum(axis=1).tolist() == [1] * len(held_out_inputs)
    assert "which of 10 classes a record has" in (tmp_path / "release" / "README.md").read_text()
    with refused_parameter("to_onnx", value="classes"):
        bundle.to_onnx(tmp_path / "model.onnx")


@pytest.mark.slow
def test_publish_refuses_a_folder_with_files_and_an_unfitted_classifier(tmp_path: Path) -> None:
    """A second `publish` into the same folder is refused, and so is `publish` of a classifier that is not fitted."""
    inputs, labels = inputs_and_labels()
    model = PATEClassifier(epsilon=2.0).fit(
        inputs[:2000], labels[:2000], X_public=inputs[2000:2200]
    )
    model.publish(tmp_path / "release")
    with refused_parameter("folder", value=tmp_path / "release"):
        model.publish(tmp_path / "release")
    with pytest.raises(NotFittedError):
        PATEClassifier().publish(tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_an_estimator_is_not_published_but_its_price_is_reported(tmp_path: Path) -> None:
    """A fit with a scikit-learn estimator cannot be published, but its report states epsilon, mechanism and unit."""
    inputs, labels = inputs_and_labels()
    model = PATEClassifier(estimator=RidgeClassifier(), epsilon=8.0, allow_useless=True)
    model.fit(inputs[:2000], labels[:2000], X_public=inputs[2000:2200])
    with refused_parameter("estimator", value="RidgeClassifier"):
        model.publish(tmp_path / "release")
    assert not (tmp_path / "release").exists()
    statement = model.report()
    assert (statement.epsilon, statement.mechanism) == (8.0, "GaussianVotes")
    assert statement.unit == "one row"


@pytest.mark.slow
def test_no_file_of_a_published_fit_has_the_seed_or_the_path_of_the_ledger(tmp_path: Path) -> None:
    """No file of a published fit has its seed or the path of its ledger; the report says that noise was seeded."""
    inputs, labels = inputs_and_labels()
    model = PATEClassifier(epsilon=2.0, random_state=20231107, ledger=tmp_path / "ledger.db")
    with pytest.warns(SeededNoise):
        model.fit(inputs[:2000], labels[:2000], X_public=inputs[2000:2200])
    model.publish(tmp_path / "release")
    for path in (tmp_path / "release").rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert b"20231107" not in content
        assert b"ledger.db" not in content
    assert model.report().noise == "seeded"
