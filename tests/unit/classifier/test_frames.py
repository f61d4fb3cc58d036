"""PATEClassifier with DataFrames that its estimators read, as in scikit-learn's example of mixed types."""

from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_selection import SelectPercentile, chi2
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pate import PATEClassifier
from pate.accounting import Ledger
from tests.refusals import refused_parameter

pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::pate.classifier.RepeatedRelease")
NUM_PRIVATE = 1500
NUM_PUBLIC = 200


def table_of_passengers(num_rows: int = 2000) -> tuple[Any, np.ndarray]:
    """Returns a table like that of the Titanic, and whether each passenger survived.

    The table has words, numbers and missing cells.
    """
    rng = np.random.default_rng(0)
    age = rng.normal(loc=35, scale=12, size=num_rows)
    sex = rng.choice(["male", "female"], size=num_rows)
    ticket_class = rng.choice([1, 2, 3], size=num_rows)
    noise = rng.normal(loc=0, scale=0.5, size=num_rows)
    survived = (sex == "female") * 2.0 + (ticket_class == 1) - age / 40 + noise > 0.6
    age[rng.random(num_rows) < 0.2] = np.nan
    port = rng.choice(np.array(["S", "C", None], dtype=object), size=num_rows)
    columns = {
        "embarked": port,
        "sex": sex,
        "pclass": ticket_class,
        "age": age,
        "fare": rng.gamma(shape=2, scale=20, size=num_rows),
    }
    return pandas.DataFrame(columns), survived


def mixed_types_pipeline() -> Pipeline:
    """Returns the pipeline of scikit-learn's page *Column Transformer with Mixed Types*."""
    number_steps = Pipeline(
        [("imputer", SimpleImputer(strategy="median")), ("scaler", StandardScaler())]
    )
    word_steps = Pipeline(
        [
            ("encoder", OneHotEncoder(handle_unknown="ignore")),
            ("selector", SelectPercentile(score_func=chi2, percentile=50)),
        ]
    )
    transformers = [
        ("num", number_steps, ["age", "fare"]),
        ("cat", word_steps, ["embarked", "sex", "pclass"]),
    ]
    return Pipeline(
        [("preprocessor", ColumnTransformer(transformers)), ("classifier", LogisticRegression())]
    )


def fitted_classifier(
    estimator: Any, frame: Any, labels: np.ndarray, student: Any = None, ledger: Any = None
) -> PATEClassifier:
    """Fits a classifier to the first 1,500 rows of a frame, with the next 200 rows as public samples."""
    model = PATEClassifier(
        estimator=estimator, student=student, ledger=ledger, n_teachers=30, epsilon=20.0
    )
    public_rows = frame[NUM_PRIVATE : NUM_PRIVATE + NUM_PUBLIC]
    return model.fit(frame[:NUM_PRIVATE], labels[:NUM_PRIVATE], X_public=public_rows)


@pytest.mark.slow
def test_a_column_transformer_finds_its_columns_and_a_boosted_tree_categories() -> None:
    """Teachers with a column transformer find columns by name, and boosted trees find columns of categories.

    Both read missing cells. Their students are right for over 80% and over 75% of unseen rows.
    """
    frame, survived = table_of_passengers()
    held_out_rows = slice(NUM_PRIVATE + NUM_PUBLIC, None)
    model = fitted_classifier(estimator=mixed_types_pipeline(), frame=frame, labels=survived)
    assert model.score(frame[held_out_rows], survived[held_out_rows]) > 0.8
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert model.n_features_in_ == 5
    frame = frame.astype({"sex": "category", "embarked": "category"})
    model = fitted_classifier(
        estimator=HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=5),
        frame=frame,
        labels=survived,
    )
    assert model.score(frame[held_out_rows], survived[held_out_rows]) > 0.75


@pytest.mark.slow
def test_names_are_checked_when_predicting() -> None:
    """A model that was fitted to two columns refuses DataFrames with other columns or another order."""
    frame, survived = table_of_passengers()
    model = fitted_classifier(
        estimator=LogisticRegression(), frame=frame[["pclass", "fare"]], labels=survived
    )
    for other_columns in (["fare", "pclass"], ["pclass"], ["pclass", "age"]):
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame[other_columns])
    assert model.predict(frame[["pclass", "fare"]]).shape == (2000,)


@pytest.mark.slow
def test_an_estimator_without_support_for_words_is_refused_before_the_charge(
    tmp_path: Any,
) -> None:
    """An estimator of teachers or student that cannot read words is refused, and the ledger stays empty."""
    frame, survived = table_of_passengers()
    with refused_parameter("estimator", value=LogisticRegression.__name__):
        fitted_classifier(
            estimator=LogisticRegression(),
            frame=frame,
            labels=survived,
            ledger=tmp_path / "ledger.db",
        )
    with refused_parameter("student", value=LogisticRegression.__name__):
        fitted_classifier(
            estimator=mixed_types_pipeline(),
            frame=frame,
            labels=survived,
            student=LogisticRegression(),
            ledger=tmp_path / "ledger.db",
        )
    ledger_path = tmp_path / "ledger.db"
    assert not ledger_path.exists() or not Ledger.stored(ledger_path).entries


def test_inputs_that_do_not_match_are_refused_in_one_line() -> None:
    """Private and public inputs of different types or columns are refused, and so are repeated columns and infinity.

    No public rows, and fewer labels than private rows, are refused as well.
    """
    frame, survived = table_of_passengers(num_rows=60)
    model = PATEClassifier(estimator=mixed_types_pipeline(), n_teachers=2, allow_useless=True)
    with refused_parameter("X_public", value="ndarray"):
        model.fit(frame, survived, X_public=np.zeros((5, 5)))
    with refused_parameter("X_public", value="DataFrame"):
        model.fit(np.zeros((60, 5)), survived, X_public=frame)
    for public_rows, refusal in (
        (frame.drop(columns="age"), refused_parameter("X_public", rule_words="also the")),
        (
            frame.assign(more=1),
            refused_parameter("X_public.columns", rule_words="those of X, it"),
        ),
        (
            frame[frame.columns[::-1]],
            refused_parameter("X_public.columns", rule_words="those of X, they"),
        ),
        (frame[:0], refused_parameter("X_public", rule_words="sample, it")),
    ):
        with refusal:
            model.fit(frame, survived, X_public=public_rows)
    with refused_parameter("X.columns", rule_words="each name once"):
        model.fit(frame.rename(columns={"fare": "age"}), survived, X_public=frame)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(frame, survived[:-1], X_public=frame)
    with refused_parameter("X['fare'][0]", rule_words="finite numbers"):
        model.fit(frame.assign(fare=np.inf), survived, X_public=frame)


@pytest.mark.parametrize("odd_cell", ["\ud800", b"\xff"])
def test_a_cell_that_is_no_text_is_refused_without_showing_it(odd_cell: object) -> None:
    """In a column of numbers, a cell that is half of a character, or a byte that is not UTF-8, is refused."""
    frame = pandas.DataFrame({"cell": pandas.Series([0.5] * 60, dtype=object), "x": range(60)})
    frame.at[0, "cell"] = odd_cell
    labels = np.reshape(np.arange(120) % 3 == 0, (60, 2))
    model = PATEClassifier(allow_useless=True)
    with refused_parameter("X", rule_words="words of whole characters"):
        model.fit(frame[:40], labels[:40], X_public=frame[40:])


def test_a_column_may_have_the_name_of_an_attribute() -> None:
    """A DataFrame with a column of the name dtype, which is also an attribute of arrays, is read as any other."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"dtype": rng.choice(["a", "b"], 900), "x": rng.normal(size=900)})
    labels = np.stack([frame["dtype"] == "a", frame["x"] > 0], axis=1)
    model = PATEClassifier(epsilon=8.0).fit(frame[:700], labels[:700], X_public=frame[700:])
    assert (model.predict(frame[700:]) == labels[700:]).mean() > 0.7
