"""PATEClassifier: its release and price, its refusals, and its use with scikit-learn's tools."""

import linecache
import pickle
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import sklearn
from joblib import parallel_config
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pate import PATEClassifier
from pate.accounting import (
    Adjacency,
    AutoAccountant,
    GaussianEvent,
    Ledger,
    RdpAccountant,
    SharedLedger,
)
from pate.aggregators import BoundaryMax, ClippedVotes, GaussianVotes, GNMax, StableTopK
from pate.classifier import GapsFromLabels, RepeatedRelease, SeededNoise, SharedRows, UngroupedFit
from pate.classifier.tasks import Task
from pate.validation import InvalidValue
from tests.refusals import ANY, Refusal, refused_parameter

pytestmark = pytest.mark.filterwarnings(
    "ignore::pate.classifier.DoubtfulPlan", "ignore::pate.classifier.ClassesFromLabels"
)

# An estimator that is fitted to all labels at once, so that tests are quick.
TREE = DecisionTreeClassifier(max_depth=3)


class LabeledData(NamedTuple):
    """The data of a fit.

    Attributes:
        inputs: the private inputs.
        labels: the labels of the private inputs, in any form that a fit accepts.
        public_inputs: the public inputs.
    """

    inputs: Any
    labels: Any
    public_inputs: Any


@pytest.fixture(scope="module")
def data_with_labels() -> LabeledData:
    """Returns 1,200 private inputs, their three labels as bits, and 300 public inputs.

    A label is 1 if its column of the inputs is above 0.
    """
    inputs = np.random.default_rng(0).standard_normal((1500, 4))
    return LabeledData(
        inputs=inputs[:1200],
        labels=(inputs[:1200, :3] > 0).astype(int),
        public_inputs=inputs[1200:],
    )


@pytest.fixture(scope="module")
def data_with_classes() -> LabeledData:
    """Returns 1,200 private inputs, their class out of a, b and c, and 300 public inputs."""
    rng = np.random.default_rng(0)
    codes = rng.integers(low=0, high=3, size=1500)
    inputs = rng.standard_normal((1500, 4)) + 3.0 * np.eye(4)[codes]
    classes = np.array(["a", "b", "c"])[codes]
    return LabeledData(inputs=inputs[:1200], labels=classes[:1200], public_inputs=inputs[1200:])


def fitted_classifier(
    labeled_data: LabeledData,
    estimator: Any = TREE,
    *,
    student: Any = None,
    aggregator: Any = None,
    n_teachers: int = 30,
    n_queries: int | None = None,
    epsilon: float | None = 8.0,
    random_state: int | None = None,
    n_jobs: int | None = None,
    ledger: Any = None,
    max_total_epsilon: float | None = None,
) -> PATEClassifier:
    """Returns a classifier that was fitted to private inputs and labels, and public inputs.

    The arguments after the data are parameters of `PATEClassifier`.

    Args:
        labeled_data: the private inputs, their labels, and the public inputs.
        estimator: the estimator of the teachers.
        student: the estimator of the student; None for that of the teachers.
        aggregator: the aggregator; None for the default one.
        n_teachers: the number of teachers.
        n_queries: the number of public inputs that are queries; None for all.
        epsilon: the epsilon for which the noise is solved; None for the noise of the aggregator.
        random_state: the seed; None for noise from the operating system.
        n_jobs: the number of workers.
        ledger: the path of the file that the fit is charged to; None for no file.
        max_total_epsilon: the largest epsilon of all fits in the ledger; None for no cap.
    """
    model = PATEClassifier(
        estimator=estimator,
        student=student,
        aggregator=aggregator,
        n_teachers=n_teachers,
        n_queries=n_queries,
        epsilon=epsilon,
        random_state=random_state,
        n_jobs=n_jobs,
        ledger=ledger,
        max_total_epsilon=max_total_epsilon,
        allow_useless=True,
        accountant=RdpAccountant,
    )
    return model.fit(labeled_data.inputs, labeled_data.labels, X_public=labeled_data.public_inputs)


@pytest.mark.slow
def test_many_labels_give_a_student_and_its_price(data_with_labels: LabeledData) -> None:
    """A fit with three labels at epsilon 4 releases 300 queries at the price of its event, and predicts bits.

    The student is right for over 60% of the private labels.
    """
    model = fitted_classifier(labeled_data=data_with_labels, epsilon=4.0)
    price = RdpAccountant().compose(model.release_.event).get_epsilon(target_delta=1e-6)
    assert 3.99 < model.epsilon_ <= 4.0
    assert model.epsilon_ == price == model.spent_epsilon_
    assert (model.delta_, model.adjacency_) == (1e-6, Adjacency.REPLACE_ONE)
    assert model.release_.labels.shape == (300, 3)
    assert [classes.tolist() for classes in model.classes_] == [[0, 1]] * 3
    inputs, bits, public_inputs = data_with_labels
    predicted = model.predict(public_inputs)
    probabilities = model.predict_proba(public_inputs)
    assert predicted.shape == probabilities.shape == (300, 3)
    np.testing.assert_array_equal(predicted, probabilities >= 0.5)
    assert (model.predict(inputs) == bits).mean() > 0.6


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pate.classifier.SeededNoise", "ignore::pate.classifier.RepeatedRelease"
)
def test_sparse_rows_and_sets_of_words_make_the_same_release(data_with_labels: LabeledData) -> None:
    """Inputs as sparse matrices, and labels as sets of words, give the release of dense arrays and bits at a seed.

    Predictions have the form of the labels. Public rows that are private rows give a warning.
    """
    inputs, bits, public_inputs = data_with_labels
    words = np.array(["cold", "flu", "mumps"])
    label_sets = [set(words[row == 1].tolist()) for row in bits]
    model_of_bits = fitted_classifier(labeled_data=data_with_labels, random_state=0)
    model_of_sets = fitted_classifier(
        labeled_data=LabeledData(inputs=inputs, labels=label_sets, public_inputs=public_inputs),
        random_state=0,
    )
    sparse_model = fitted_classifier(
        labeled_data=LabeledData(
            inputs=sparse.coo_array(inputs),
            labels=bits,
            public_inputs=sparse.csc_matrix(public_inputs),
        ),
        random_state=0,
    )
    for other_model in (model_of_sets, sparse_model):
        np.testing.assert_array_equal(other_model.release_.labels, model_of_bits.release_.labels)
    np.testing.assert_array_equal(
        sparse_model.predict(sparse.csr_array(inputs)), model_of_bits.predict(inputs)
    )
    assert [set(row) for row in model_of_sets.predict(inputs[:9])] == [
        set(words[row == 1]) for row in model_of_bits.predict(inputs[:9])
    ]
    assert model_of_sets.score(inputs, label_sets) == model_of_bits.score(inputs, bits)
    sets_of_one_word = [words & {"flu"} for words in label_sets]
    binary_model = fitted_classifier(
        labeled_data=LabeledData(
            inputs=inputs, labels=sets_of_one_word, public_inputs=public_inputs
        ),
        random_state=0,
    )
    assert set(binary_model.predict(inputs)) == {("flu",), ()}
    for private_inputs in (inputs, sparse.csr_array(inputs)):
        overlapping_data = LabeledData(
            inputs=private_inputs, labels=bits, public_inputs=inputs[:300]
        )
        with pytest.warns(SharedRows, match=r"^300 of 300 rows of X_public are rows of X"):
            fitted_classifier(labeled_data=overlapping_data)


@pytest.mark.slow
def test_warnings_of_a_fit_name_the_line_that_calls_it(data_with_labels: LabeledData) -> None:
    """All warnings of a fit, and of its price alone, show the user's line, however deep the warning function is.

    The fits are of a clone without groups, with a seed, with missing labels, and with public rows that are private.
    """
    inputs, bits, _ = data_with_labels
    labels = bits.astype(float)
    labels[0, 0] = np.nan
    model = clone(PATEClassifier(random_state=0))
    with warnings.catch_warnings(record=True) as caught_by_fits:
        warnings.simplefilter("always")
        for _ in range(2):
            model.fit(inputs, labels, X_public=inputs[:300])
    with warnings.catch_warnings(record=True) as caught_by_price:
        warnings.simplefilter("always")
        model.price_of(inputs, labels, X_public=inputs[:300])
    categories_of_fits = {warning.category for warning in caught_by_fits}
    assert categories_of_fits == {
        GapsFromLabels,
        RepeatedRelease,
        SeededNoise,
        SharedRows,
        UngroupedFit,
    }
    assert {warning.category for warning in caught_by_price} == {SharedRows}
    for caught, call in ((caught_by_fits, "model.fit("), (caught_by_price, "model.price_of(")):
        for warning in caught:
            assert warning.filename == __file__
            assert call in linecache.getline(warning.filename, warning.lineno)


@pytest.mark.slow
def test_digits_are_learned_at_a_moderate_price() -> None:
    """A fit with 40 teachers by nearest neighbors predicts over 40% of digits right, at epsilon 8 or less."""
    inputs, digits = load_digits(return_X_y=True)
    digits_data = LabeledData(
        inputs=inputs[:1200], labels=digits[:1200], public_inputs=inputs[1200:1350]
    )
    model = fitted_classifier(
        labeled_data=digits_data,
        estimator=KNeighborsClassifier(n_neighbors=3),
        n_teachers=40,
        n_queries=100,
    )
    assert model.epsilon_ <= 8
    assert model.score(inputs[1350:], digits[1350:]) > 0.4


@pytest.mark.slow
def test_the_price_depends_on_nothing_private(data_with_labels: LabeledData) -> None:
    """The event of a release stays the same if all private inputs are negated and all labels inverted."""
    inputs, bits, public_inputs = data_with_labels
    model = fitted_classifier(labeled_data=data_with_labels)
    model_of_other_data = fitted_classifier(
        labeled_data=LabeledData(inputs=-inputs, labels=1 - bits, public_inputs=public_inputs)
    )
    assert model_of_other_data.release_.event == model.release_.event


@pytest.mark.slow
def test_noise_is_fresh_and_a_seed_repeats_it(data_with_labels: LabeledData) -> None:
    """Two fits without a seed release different labels; two with `random_state=5` release equal labels, and warn."""
    aggregator = GaussianVotes(noise_std=30.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedRelease)
        first, second = (
            fitted_classifier(labeled_data=data_with_labels, aggregator=aggregator, epsilon=None)
            for _ in range(2)
        )
        assert (first.release_.labels != second.release_.labels).any()
        with pytest.warns(
            SeededNoise, match="random_state=5: the noise comes from this seed and protects nobody"
        ):
            first, second = (
                fitted_classifier(
                    labeled_data=data_with_labels,
                    aggregator=aggregator,
                    epsilon=None,
                    random_state=5,
                )
                for _ in range(2)
            )
        np.testing.assert_array_equal(first.release_.labels, second.release_.labels)


@pytest.mark.slow
@pytest.mark.parametrize(
    "aggregator",
    [
        StableTopK(selection_scale=2.0, test="table", table_order=4.0, table_budget=0.5),
        BoundaryMax(selection_scale=2.0, target_hits=20),
        ClippedVotes(noise_std=2.0, vote_clip=1),
    ],
    ids=lambda aggregator: type(aggregator).__name__,
)
@pytest.mark.filterwarnings("ignore:aggregator=BoundaryMax")  # for one label a sample, on many
def test_any_aggregator_serves_either_task(
    aggregator: Any, data_with_labels: LabeledData, data_with_classes: LabeledData
) -> None:
    """An aggregator is calibrated to epsilon 20 for many labels and for one class, and the student predicts."""
    for labeled_data in (data_with_labels, data_with_classes):
        model = fitted_classifier(labeled_data=labeled_data, aggregator=aggregator, epsilon=20.0)
        assert 0 < model.epsilon_ <= 20
        assert len(model.predict(labeled_data.public_inputs)) == 300


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.RepeatedRelease")
def test_probabilities_need_a_student_that_predicts_them(data_with_labels: LabeledData) -> None:
    """A classifier has `predict_proba` only if its student predicts probabilities, as trees do and ridge does not."""
    _, _, public_inputs = data_with_labels
    model_without = fitted_classifier(labeled_data=data_with_labels, estimator=RidgeClassifier())
    assert not hasattr(model_without, "predict_proba")
    model = fitted_classifier(
        labeled_data=data_with_labels,
        estimator=RidgeClassifier(),
        student=DecisionTreeClassifier(max_depth=2),
    )
    assert isinstance(model.student_.models[0], DecisionTreeClassifier)
    assert model.predict_proba(public_inputs).shape == (300, 3)


@pytest.mark.slow
def test_groups_stay_with_one_teacher(data_with_labels: LabeledData) -> None:
    """A fit to records of 30 groups accepts 30 teachers, and refuses 31."""
    inputs, bits, public_inputs = data_with_labels
    groups = np.repeat(np.arange(30), repeats=40)
    model = PATEClassifier(estimator=TREE, n_teachers=30, allow_useless=True).fit(
        inputs, bits, X_public=public_inputs, groups=groups.astype(str)
    )
    assert model.release_.num_queries == 300
    with refused_parameter("n_teachers", value=31, rule_words="at most 30"):
        PATEClassifier(estimator=TREE, n_teachers=31).fit(
            inputs, bits, X_public=public_inputs, groups=groups
        )


@pytest.mark.parametrize(
    ("model", "refusal"),
    [
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=0),
            refused_parameter("n_teachers", value=0),
            id="no teachers",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=1201),
            refused_parameter("n_teachers", value=1201),
            id="more teachers than records",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, epsilon=-1.0),
            refused_parameter("epsilon", value=-1.0),
            id="negative epsilon",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, epsilon=None),
            refused_parameter("epsilon", value=None),
            id="no epsilon",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, target_delta=0.0),
            refused_parameter("target_delta", value=0.0),
            id="delta 0",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, target_delta=1e-20),
            refused_parameter("target_delta", value=1e-20),
            id="delta below all failures",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, n_queries=0),
            refused_parameter("n_queries", value=0),
            id="no queries",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, n_queries=301),
            refused_parameter("n_queries", value=301),
            id="more queries than public rows",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, adjacency="replace"),
            refused_parameter("adjacency", value="replace"),
            id="unknown adjacency",
        ),
        pytest.param(
            PATEClassifier(
                estimator=TREE,
                n_teachers=30,
                adjacency="add_remove",
                aggregator=GNMax(noise_std=1.0),
            ),
            refused_parameter("aggregator.adjacency", value="replace_one"),
            id="two adjacencies",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, random_state=-1),
            refused_parameter("random_state", value=-1),
            id="negative seed",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, random_state=np.random.RandomState(0)),
            refused_parameter("random_state", value="RandomState(MT19937)"),
            id="generator as the seed",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, aggregator="gnmax"),
            refused_parameter("aggregator", value="gnmax", rule_words="object such"),
            id="name of an aggregator",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, aggregator=GNMax),
            refused_parameter("aggregator", value="<class 'pate.aggregators.gnmax.GNMax'>"),
            id="class of an aggregator",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, accountant="rdp"),
            refused_parameter("accountant", value="rdp"),
            id="name of an accountant",
        ),
        pytest.param(
            PATEClassifier(estimator="linear", n_teachers=30),
            refused_parameter("estimator", value="linear"),
            id="name of an estimator",
        ),
        pytest.param(
            PATEClassifier(estimator=StandardScaler(), n_teachers=30),
            refused_parameter("estimator", value="StandardScaler()"),
            id="estimator without predictions",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, student=GNMax),
            refused_parameter("student", value="<class 'pate.aggregators.gnmax.GNMax'>"),
            id="student that is no estimator",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, classes=["a", "b"]),
            refused_parameter("y[0]", rule_words="classes"),
            id="too few classes",
        ),
        pytest.param(
            PATEClassifier(estimator=Ridge(), n_teachers=30),
            refused_parameter("estimator", value="Ridge"),
            id="regressor as the estimator",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, student=Ridge()),
            refused_parameter("student", value="Ridge"),
            id="regressor as the student",
        ),
        pytest.param(
            PATEClassifier(estimator=TREE, n_teachers=30, public_fraction=0.1),
            refused_parameter("X_public", value="given"),
            id="public rows given twice",
        ),
    ],
)
def test_mistakes_are_named_before_anything_is_spent(
    model: PATEClassifier, refusal: Refusal, data_with_classes: LabeledData, tmp_path: Path
) -> None:
    """A fit is refused if a parameter is impossible or contradicts the data, and its ledger stays empty.

    The error names the parameter or the data.
    """
    ledger_path = tmp_path / "ledger.db"
    model.set_params(allow_useless=True, ledger=ledger_path)
    with refusal:
        model.fit(
            data_with_classes.inputs,
            data_with_classes.labels,
            X_public=data_with_classes.public_inputs,
        )
    assert not ledger_path.exists() or not Ledger.stored(ledger_path).entries


def test_a_cap_without_a_ledger_is_refused(data_with_classes: LabeledData) -> None:
    """A cap on all fits needs a ledger file, so `max_total_epsilon` alone is refused."""
    with refused_parameter("max_total_epsilon", value=3.0):
        fitted_classifier(labeled_data=data_with_classes, max_total_epsilon=3.0)


def test_a_ledger_in_memory_is_refused(data_with_classes: LabeledData) -> None:
    """The parameter `ledger` must be the path of a file, so a `Ledger` object is refused."""
    with refused_parameter("ledger", value="Ledger"):
        fitted_classifier(labeled_data=data_with_classes, ledger=Ledger(target_delta=1e-6))


def test_clone_and_pickle_keep_everything(data_with_labels: LabeledData) -> None:
    """A classifier that was pickled predicts the same at the same price; a clone has its aggregator, but no price."""
    model = fitted_classifier(
        labeled_data=data_with_labels, aggregator=GaussianVotes(noise_std=2.0), epsilon=None
    )
    unpickled_model = pickle.loads(pickle.dumps(model))
    _, _, public_inputs = data_with_labels
    np.testing.assert_array_equal(
        unpickled_model.predict(public_inputs), model.predict(public_inputs)
    )
    assert unpickled_model.epsilon_ == model.epsilon_
    cloned_model = clone(model)
    assert cloned_model.get_params()["aggregator"] == model.aggregator
    assert not hasattr(cloned_model, "epsilon_")


@pytest.mark.slow
def test_a_fitted_classifier_holds_no_private_record(data_with_labels: LabeledData) -> None:
    """A fit to half of the records with twice the teachers changes the size of the pickle by less than 500 bytes."""
    inputs, bits, public_inputs = data_with_labels
    model = fitted_classifier(labeled_data=data_with_labels, estimator=GaussianNB(), n_teachers=20)
    half_of_data = LabeledData(inputs=inputs[:600], labels=bits[:600], public_inputs=public_inputs)
    with pytest.warns(RepeatedRelease):
        model_of_half = fitted_classifier(
            labeled_data=half_of_data, estimator=GaussianNB(), n_teachers=40
        )
    assert abs(len(pickle.dumps(model_of_half)) - len(pickle.dumps(model))) < 500


@pytest.mark.slow
def test_a_search_warns_and_its_ledger_adds_up_the_prices(
    data_with_labels: LabeledData, tmp_path: Path
) -> None:
    """A warning adds up the prices of the fits of a grid search on the same records, and a ledger those of all fits.

    The search has two epsilons and two folds, so each record is in three of its five fits, whose prices the last
    warning adds up. With a ledger, five entries are stored, and their total is above the price of the best fit.
    """
    inputs, bits, public_inputs = data_with_labels
    param_grid = {"epsilon": [2.0, 4.0]}
    search = GridSearchCV(
        PATEClassifier(estimator=TREE, n_teachers=20, allow_useless=True),
        param_grid=param_grid,
        cv=2,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(inputs, bits, X_public=public_inputs)
    assert any(warning.category is UngroupedFit for warning in caught)
    messages = [str(warning.message) for warning in caught if warning.category is RepeatedRelease]
    assert len(messages) == 3  # the first fit on each of two folds has no earlier one
    assert (
        "fit 3 of this process on the same records: each fit is a release of its own"
        in messages[-1]
    )
    # both settings on its fold, and the last fit with the best, at their common delta
    match = re.search(r"add up, here to at least epsilon ([\d.]+) at delta 1e-6", messages[-1])
    assert match is not None
    assert 4.0 < float(match[1]) < 6 + search.best_params_["epsilon"]
    search = GridSearchCV(
        PATEClassifier(
            estimator=TREE, n_teachers=20, allow_useless=True, ledger=str(tmp_path / "ledger")
        ),
        param_grid=param_grid,
        cv=2,
    )
    with pytest.warns(UngroupedFit):
        search.fit(inputs, bits, X_public=public_inputs)
    ledger = Ledger(tmp_path / "ledger", target_delta=1e-6, accountant=AutoAccountant)
    assert len(ledger.entries) == 5  # two settings on two folds, and the last fit on all
    assert search.best_estimator_.spent_epsilon_ == ledger.epsilon > search.best_estimator_.epsilon_


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.UngroupedFit")
def test_a_seeded_search_has_no_finite_total_price(
    data_with_labels: LabeledData, tmp_path: Path
) -> None:
    """Cross-validation with a seed warns that no total price exists; with a ledger its second fit is refused.

    Two fits with the same noise differ only by their votes, so one changed record can show.
    """
    inputs, bits, public_inputs = data_with_labels
    model = PATEClassifier(estimator=TREE, n_teachers=20, allow_useless=True, random_state=1)
    fit_params = {"X_public": public_inputs}
    with (
        pytest.warns(SeededNoise),
        pytest.warns(RepeatedRelease, match="no sum of epsilons covers fits that share"),
    ):
        cross_val_score(
            estimator=model, X=inputs, y=bits, cv=3, params=fit_params, error_score="raise"
        )
    model.set_params(ledger=tmp_path / "ledger")
    with (
        pytest.warns(SeededNoise),
        refused_parameter("random_state", value=1),
    ):
        cross_val_score(
            estimator=model, X=inputs, y=bits, cv=2, params=fit_params, error_score="raise"
        )


def test_groups_reach_the_classifier_by_metadata_routing(data_with_labels: LabeledData) -> None:
    """With metadata routing, a search passes the groups to its fits.

    The training records of each fit belong to 30 of the 60 groups. These are too few for 50 teachers, so the fit is
    refused. The fit can notice this only because the groups are passed to it.
    """
    inputs, bits, public_inputs = data_with_labels
    groups = np.repeat(np.arange(60), repeats=20)
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedRelease)
        model = PATEClassifier(estimator=TREE, n_teachers=50).set_fit_request(
            X_public=True, groups=True
        )
        search = GridSearchCV(
            model, param_grid={"epsilon": [4.0]}, cv=GroupKFold(n_splits=2), error_score="raise"
        )
        with refused_parameter("n_teachers", value=50, rule_words="at most 30"):
            search.fit(inputs, bits, X_public=public_inputs, groups=groups)


# The groups of 1,200 records of 120 persons.
PERSONS = np.repeat(np.arange(120), repeats=10)
# The unit of privacy of a fit with groups, as a classifier states it.
ONE_PERSON = "one value of groups, with all its rows"


@contextmanager
def collected_messages(warning_class: type[Warning]) -> Iterator[list[str]]:
    """Yields a list that has the messages of all warnings of one kind when the `with` block has ended."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    messages += [str(warning.message) for warning in caught if warning.category is warning_class]


@pytest.mark.slow
@pytest.mark.parametrize("in_pipeline", [False, True], ids=["alone", "in a pipeline"])
def test_a_search_without_metadata_routing_warns_of_missing_groups(
    in_pipeline: bool, data_with_labels: LabeledData
) -> None:
    """Each of the three fits of a search without metadata routing warns, and protects one row.

    Without metadata routing, a search passes the groups to its splitter alone.
    """
    inputs, bits, public_inputs = data_with_labels
    model: Any = PATEClassifier(estimator=TREE, n_teachers=20, allow_useless=True)
    param_grid = {"epsilon": [8.0]}
    if in_pipeline:
        model = Pipeline([("pate", model)])
        param_grid = {"pate__epsilon": [8.0]}
    search = GridSearchCV(
        model, param_grid=param_grid, cv=GroupKFold(n_splits=2), error_score="raise"
    )
    with collected_messages(UngroupedFit) as messages:
        if in_pipeline:
            search.fit(inputs, bits, groups=PERSONS, pate__X_public=public_inputs)
        else:
            search.fit(inputs, bits, groups=PERSONS, X_public=public_inputs)
    assert len(messages) == 3, "two folds and the last fit"
    for message in messages:
        assert "its epsilon is for one row" in message
        assert "enable_metadata_routing=True" in message
    best_classifier = search.best_estimator_[-1] if in_pipeline else search.best_estimator_
    assert best_classifier.unit_ == "one row"
    assert repr(best_classifier).endswith("(replace_one, unit: one row)")


@pytest.mark.slow
@pytest.mark.parametrize("in_pipeline", [False, True], ids=["alone", "in a pipeline"])
def test_with_metadata_routing_a_search_protects_groups(
    in_pipeline: bool, data_with_labels: LabeledData
) -> None:
    """With metadata routing, no fit of a search or of cross-validation warns, and the best fit protects a group."""
    inputs, bits, public_inputs = data_with_labels
    with sklearn.config_context(enable_metadata_routing=True):
        model: Any = PATEClassifier(estimator=TREE, n_teachers=20, allow_useless=True)
        model = model.set_fit_request(X_public=True, groups=True)
        param_grid = {"epsilon": [8.0]}
        if in_pipeline:
            model = Pipeline([("pate", model)])
            param_grid = {"pate__epsilon": [8.0]}
        search = GridSearchCV(
            model, param_grid=param_grid, cv=GroupKFold(n_splits=2), error_score="raise"
        )
        with collected_messages(UngroupedFit) as messages:
            search.fit(inputs, bits, groups=PERSONS, X_public=public_inputs)
            cross_val_score(
                estimator=model,
                X=inputs,
                y=bits,
                cv=GroupKFold(n_splits=2),
                params={"groups": PERSONS, "X_public": public_inputs},
                error_score="raise",
            )
    assert not messages
    best_classifier = search.best_estimator_[-1] if in_pipeline else search.best_estimator_
    assert best_classifier.unit_ == ONE_PERSON
    assert repr(best_classifier).endswith(f"(replace_one, unit: {ONE_PERSON})")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.RepeatedRelease")
def test_a_ledger_distinguishes_groups_of_different_columns(
    data_with_labels: LabeledData, tmp_path: Path
) -> None:
    """A ledger with a fit that has groups by the column `mrn` refuses fits with groups by another column or array."""
    inputs, bits, public_inputs = data_with_labels
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"mrn": PERSONS, "visit": np.repeat(np.arange(240), repeats=5)})
    model = PATEClassifier(
        estimator=TREE, n_teachers=20, allow_useless=True, ledger=tmp_path / "ledger"
    )
    model.fit(inputs, bits, X_public=public_inputs, groups=frame["mrn"])
    assert model.unit_ == "one value of groups, here the column mrn, with all its rows"
    for other_groups in (frame["visit"], PERSONS):
        with refused_parameter("unit", value=ANY, rule_words="one value of"):
            model.fit(inputs, bits, X_public=public_inputs, groups=other_groups)
    assert len(Ledger.stored(tmp_path / "ledger").entries) == 1


@pytest.mark.slow
def test_cross_validation_and_a_clone_without_groups_warn(data_with_labels: LabeledData) -> None:
    """Fits of clones without groups warn, as those of a cross-validation.

    A fit of a clone with groups does not warn, nor does a fit without groups of a classifier that is no clone.
    """
    inputs, bits, public_inputs = data_with_labels
    model = PATEClassifier(estimator=TREE, n_teachers=20, allow_useless=True)
    with collected_messages(UngroupedFit) as messages_of_folds:
        cross_val_score(
            estimator=model,
            X=inputs,
            y=bits,
            params={"X_public": public_inputs},
            error_score="raise",
            cv=GroupKFold(n_splits=2),
            groups=PERSONS,
        )
    assert len(messages_of_folds) == 2
    with collected_messages(UngroupedFit) as messages_of_clone:
        clone(model).fit(inputs, bits, X_public=public_inputs)
    assert len(messages_of_clone) == 1
    with collected_messages(UngroupedFit) as other_messages:
        clone(model).fit(inputs, bits, X_public=public_inputs, groups=PERSONS)
        # Whoever calls `fit` knows that there are no groups.
        model.fit(inputs, bits, X_public=public_inputs)
        Pipeline([("pate", model)]).fit(inputs, bits, pate__X_public=public_inputs)
    assert not other_messages


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.RepeatedRelease")
def test_a_fitted_model_states_its_unit_of_privacy(data_with_labels: LabeledData) -> None:
    """The attribute `unit_` of a fitted model is one row, one group, or one teacher under add_remove.

    The repr and the HTML of the model of rows state its unit. The repr of a clone, which is not fitted, states none.
    """
    inputs, bits, public_inputs = data_with_labels
    model = PATEClassifier(estimator=TREE, n_teachers=20, allow_useless=True, epsilon=8.0)
    assert "unit" not in repr(model) and "unit" not in model._repr_html_()
    model.fit(inputs, bits, X_public=public_inputs)
    assert model.unit_ == "one row"
    assert "unit" not in repr(clone(model))
    assert "fitted: epsilon <= 8.00 at delta = 1e-6 (replace_one, unit: one row)" in repr(model)
    html = model._repr_html_()
    assert "PATEClassifier" in html
    for text in ("<td>8.00</td>", "<td>1e-6</td>", "<td>replace_one</td>", "<td>one row</td>"):
        assert text in html and text in model._repr_mimebundle_()["text/html"]
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert "text/html" not in model._repr_mimebundle_()
    model.fit(inputs, bits, X_public=public_inputs, groups=PERSONS)
    assert model.unit_ == ONE_PERSON
    model.set_params(adjacency="add_remove").fit(
        inputs, bits, X_public=public_inputs, groups=PERSONS
    )
    assert model.unit_ == (
        f"one teacher, with all its records; to replace {ONE_PERSON}, counts as two such changes"
    )


@pytest.mark.slow
def test_a_ledger_of_fits_adds_up_prices_of_one_unit(
    data_with_labels: LabeledData, tmp_path: Path
) -> None:
    """A ledger with a fit that protects groups refuses a fit that protects rows, and its file stays as it is."""
    inputs, bits, public_inputs = data_with_labels
    model = PATEClassifier(
        estimator=TREE, n_teachers=20, allow_useless=True, ledger=tmp_path / "ledger.db"
    )
    model.fit(inputs, bits, X_public=public_inputs, groups=PERSONS)
    stored_ledger = (tmp_path / "ledger.db").read_bytes()
    with refused_parameter("unit", value="one row", rule_words=ONE_PERSON):
        model.fit(inputs, bits, X_public=public_inputs)
    assert (tmp_path / "ledger.db").read_bytes() == stored_ledger


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_labels(data_with_labels: LabeledData) -> None:
    """At a seed, one worker and two give the same released labels.

    The workers are threads, as these start quickly. A pickled task keeps its number of labels, as processes need.
    """
    with pytest.warns(SeededNoise), warnings.catch_warnings(), parallel_config(backend="threading"):
        warnings.simplefilter("ignore", RepeatedRelease)
        first, second = (
            fitted_classifier(
                labeled_data=data_with_labels,
                n_teachers=8,
                n_jobs=num_workers,
                random_state=0,
                epsilon=50.0,
            )
            for num_workers in (1, 2)
        )
    np.testing.assert_array_equal(first.release_.labels, second.release_.labels)
    assert pickle.loads(pickle.dumps(Task(num_labels=3))).num_labels == 3


@pytest.mark.slow
def test_each_teacher_imputes_missing_values(data_with_labels: LabeledData) -> None:
    """Inputs with NaN are accepted if both the teachers and the student are pipelines with an imputer.

    They are refused if neither has an imputer, or the student has none. A prediction for an infinite input is refused.
    """
    inputs = data_with_labels.inputs.copy()
    targets = data_with_labels.labels
    public_inputs = data_with_labels.public_inputs.copy()
    inputs[::7, 3] = np.nan
    public_inputs[::5, 2] = np.nan
    with_imputer = make_pipeline("passthrough", SimpleImputer(), LogisticRegression())
    model = PATEClassifier(estimator=with_imputer, n_teachers=20, allow_useless=True).fit(
        inputs, targets, X_public=public_inputs
    )
    assert not np.isnan(model.predict_proba(public_inputs)).any()
    for without_imputer in (LogisticRegression(), make_pipeline(LogisticRegression())):
        with pytest.raises(ValueError, match="contains NaN"):
            PATEClassifier(estimator=without_imputer, n_teachers=20, allow_useless=True).fit(
                inputs, targets, X_public=public_inputs
            )
        with pytest.raises(ValueError, match="contains NaN"):
            PATEClassifier(
                estimator=with_imputer, student=without_imputer, n_teachers=20, allow_useless=True
            ).fit(inputs, targets, X_public=public_inputs)
    public_inputs[0, 0] = np.inf
    with pytest.raises(ValueError, match="contains infinity"):
        model.predict(public_inputs)


@pytest.mark.slow
def test_a_cap_on_all_fits_refuses_a_fit_before_its_teachers(
    data_with_labels: LabeledData, tmp_path: Path
) -> None:
    """A second fit that would exceed the cap `max_total_epsilon` is refused before a teacher is fitted.

    The ledger file stays as it is. It stores the cap, and a later fit with a larger cap is refused.
    """

    class NeverFitted(DecisionTreeClassifier):
        """An estimator that fails if it is fitted."""

        def fit(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("a teacher was fitted")

    ledger_path = tmp_path / "ledger"
    first = fitted_classifier(
        labeled_data=data_with_labels,
        n_teachers=20,
        ledger=ledger_path,
        epsilon=2.0,
        max_total_epsilon=2.5,
    )
    assert first.epsilon_ <= first.spent_epsilon_ <= 2.5
    stored_ledger = ledger_path.read_bytes()
    with refused_parameter("max_epsilon", value=2.5):
        fitted_classifier(
            labeled_data=data_with_labels,
            estimator=NeverFitted(),
            n_teachers=20,
            ledger=ledger_path,
            epsilon=2.0,
        )
    with refused_parameter("max_epsilon", value=9.0):
        fitted_classifier(
            labeled_data=data_with_labels,
            n_teachers=20,
            ledger=ledger_path,
            epsilon=2.0,
            max_total_epsilon=9.0,
        )
    assert ledger_path.read_bytes() == stored_ledger


def test_a_fit_refuses_a_ledger_of_runs(data_with_labels: LabeledData, tmp_path: Path) -> None:
    """A fit refuses a ledger of runs, which has an account for each data set.

    Two folds of the same people would count as two data sets, each with the whole budget.
    """
    ledger_of_runs = SharedLedger(tmp_path / "ledger", target_delta=1e-6, accountant=RdpAccountant)
    for num_charges, data_digest in enumerate(("one data set", "another"), start=1):
        ledger_of_runs.account(data=data_digest).charge(
            GaussianEvent(noise_multiplier=9.0), adjacency="replace_one", key=data_digest
        )
        with pytest.raises(InvalidValue, match=r"^(ledger|data)=.*: expected"):
            fitted_classifier(
                labeled_data=data_with_labels, n_teachers=20, ledger=tmp_path / "ledger"
            )
        assert len(ledger_of_runs.entries) == num_charges


# A label that one record in twenty has. A teacher of twenty records sees it once on average.
RARE_LABEL = np.tile([True, *[False] * 19], 60)


def test_a_teacher_that_cannot_be_fitted_charges_nothing_and_names_the_label(
    tmp_path: Path,
) -> None:
    """An estimator that cannot be fitted to a teacher with few records of a label is refused, and nothing is charged.

    The error names the label.
    """
    inputs = np.random.default_rng(0).standard_normal((1300, 3))
    targets = (inputs[:1200] > 0).astype(int)
    targets[:, 2] = RARE_LABEL
    estimator = CalibratedClassifierCV(RidgeClassifier(), cv=3)
    ledger_path = tmp_path / "ledger"
    with refused_parameter(
        "estimator", value="CalibratedClassifierCV", rule_words="(label 2, which "
    ):
        fitted_classifier(
            labeled_data=LabeledData(
                inputs=inputs[:1200], labels=targets, public_inputs=inputs[1200:]
            ),
            estimator=estimator,
            n_teachers=60,
            ledger=ledger_path,
        )
    assert not ledger_path.exists() or Ledger.stored(ledger_path).entries == []


@pytest.mark.parametrize(
    "student",
    [KNeighborsClassifier(n_neighbors=10_000), LogisticRegression(C=-1.0)],
    ids=["more neighbors than samples", "negative C"],
)
def test_a_student_that_cannot_be_fitted_leaves_the_release_that_was_paid(
    data_with_labels: LabeledData, student: Any
) -> None:
    """A student that cannot be fitted after the release is refused.

    The classifier keeps its release, which was paid for, and the release has the training set of the student.
    """
    inputs, targets, public_inputs = data_with_labels
    model = PATEClassifier(
        estimator=TREE, student=student, n_teachers=30, allow_useless=True, accountant=RdpAccountant
    )
    with refused_parameter("student", value=ANY, rule_words="one that can"):
        model.fit(inputs, targets, X_public=public_inputs)
    assert model.release_.num_queries == len(public_inputs)
    assert len(model.release_.training_set(public_inputs).inputs) == len(public_inputs)
