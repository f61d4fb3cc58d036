"""PATEClassifier with scores that are released at a price: what is charged, published or refused."""

import json
import pickle
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import pate
from pate import PATEClassifier
from pate.accounting import Ledger, ScoresEvent
from pate.classifier import PATESearch, RepeatedRelease, SharedRows
from pate.errors import NOT_SHOWN
from pate.run.score_release import ScoreCharge
from tests.refusals import ANY, refused_parameter

NUM_PRIVATE = 900
NUM_TEST = 300
NUM_PUBLIC = 400
pytestmark = pytest.mark.filterwarnings(
    "ignore::pate.classifier.RepeatedRelease", "ignore::pate.classifier.DoubtfulPlan"
)


@dataclass(frozen=True, kw_only=True)
class FitData:
    """The data of a fit with test records.

    Attributes:
        inputs: the private inputs.
        labels: the labels of the private records.
        public_inputs: the public inputs.
        test_inputs: the inputs of the test records; None for no test records.
        test_labels: the labels of the test records; None for none.
        groups: the group of each private record; None for no groups.
        public_groups: the group of each public sample; None for no groups.
        test_groups: the group of each test record; None for no groups.
    """

    inputs: Any
    labels: Any
    public_inputs: Any
    test_inputs: Any
    test_labels: Any
    groups: Any = None
    public_groups: Any = None
    test_groups: Any = None

    def fit_model(self, model: PATEClassifier) -> PATEClassifier:
        """Fits a classifier to this data."""
        return model.fit(
            self.inputs,
            self.labels,
            X_public=self.public_inputs,
            groups=self.groups,
            groups_public=self.public_groups,
            X_test=self.test_inputs,
            y_test=self.test_labels,
            groups_test=self.test_groups,
        )


def data_with_test_records() -> FitData:
    """Returns data of a fit with test records: inputs of four columns, and three labels, the signs of three columns."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((NUM_PRIVATE + NUM_TEST + NUM_PUBLIC, 4))
    labels = (inputs[:, :3] > 0).astype(int)
    test_rows = slice(NUM_PRIVATE, NUM_PRIVATE + NUM_TEST)
    return FitData(
        inputs=inputs[:NUM_PRIVATE],
        labels=labels[:NUM_PRIVATE],
        public_inputs=inputs[test_rows.stop :],
        test_inputs=inputs[test_rows],
        test_labels=labels[test_rows],
    )


def data_with_groups() -> FitData:
    """Returns data in which each group has two private records or two test records."""
    group_ids = np.arange(NUM_PRIVATE + NUM_TEST) // 2
    return replace(
        data_with_test_records(),
        groups=group_ids[:NUM_PRIVATE],
        test_groups=group_ids[NUM_PRIVATE:],
    )


def data_without_test_records() -> FitData:
    """Returns the data of a fit without scores."""
    return replace(data_with_test_records(), test_inputs=None, test_labels=None)


@pytest.mark.slow
def test_scores_are_charged_to_the_ledger_of_all_fits(tmp_path: Path) -> None:
    """A ledger file has one charge of the release and one of the scores, whose prices are added up."""
    ledger_path = tmp_path / "ledger.db"
    model = data_with_test_records().fit_model(
        PATEClassifier(epsilon=2.0, score_epsilon=1.0, ledger=ledger_path)
    )
    release_charge, score_charge = Ledger.stored(ledger_path).entries
    assert release_charge.event == model.release_.event
    assert isinstance(score_charge.event, ScoresEvent)
    assert model.scores_ is not None
    assert score_charge.event.noise_multiplier == model.scores_.noise_multiplier
    assert model.epsilon_ < model.spent_epsilon_ < 3.0
    assert model.spent_epsilon_ == Ledger.stored(ledger_path).spent_epsilon


@pytest.mark.slow
def test_without_a_ledger_private_people_pay_for_the_release_alone() -> None:
    """Without a ledger, the spent epsilon is that of the release alone, as test records have other groups."""
    model = data_with_groups().fit_model(PATEClassifier(epsilon=2.0, score_epsilon=1.0))
    assert model.spent_epsilon_ == model.epsilon_
    assert model.scores_ is not None
    assert model.scores_.epsilon <= 1.0
    assert model.scores_.num_groups == NUM_TEST // 2
    assert "one value of groups" in model.scores_.unit


@pytest.mark.slow
def test_a_fit_with_scores_holds_no_test_record() -> None:
    """The pickle of a fitted classifier lacks the first test input and the labels of the first 20 test records."""
    data = data_with_test_records()
    model = data.fit_model(PATEClassifier(epsilon=2.0, score_epsilon=1.0))
    content = pickle.dumps(model)
    assert data.test_inputs[0].astype(np.float32).tobytes() not in content
    assert (data.test_labels == 1).tobytes()[:60] not in content


@pytest.mark.slow
def test_released_scores_are_published_and_reported(tmp_path: Path) -> None:
    """The model card, the privacy card, privacy.json and `report` have the same scores as `scores_`."""
    model = data_with_test_records().fit_model(PATEClassifier(epsilon=2.0, score_epsilon=4.0))
    bundle = model.publish(tmp_path / "release")
    assert bundle.privacy == model.report() == pate.load(tmp_path / "release").privacy
    assert model.scores_ is not None
    assert model.report().scores == model.scores_
    readme = (tmp_path / "release" / "README.md").read_text()
    card = (tmp_path / "release" / "privacy_card.md").read_text()
    assert "model-index" in readme
    for score in model.scores_.by_name.values():
        assert str(score) in readme
        assert str(score) in card


@pytest.mark.slow
def test_a_fit_without_a_price_has_no_scores(tmp_path: Path) -> None:
    """Without `score_epsilon`, `scores_` is None, and privacy.json has no key for scores."""
    model = data_with_test_records().fit_model(PATEClassifier(epsilon=2.0, score_epsilon=1.0))
    model.set_params(score_epsilon=None)
    data_without_test_records().fit_model(model)
    model.publish(tmp_path / "release")
    assert model.scores_ is None
    assert "scores" not in json.loads((tmp_path / "release" / "privacy.json").read_text())


@pytest.mark.slow
def test_scores_of_classes_are_those_of_the_most_probable_one() -> None:
    """At a large `score_epsilon`, micro-F1 of one class per record is the share of right classes."""
    data = data_with_test_records()
    data_with_classes = replace(
        data,
        labels=data.labels[:, :2].sum(axis=1),
        test_labels=data.test_labels[:, :2].sum(axis=1),
    )
    model = PATEClassifier(epsilon=4.0, classes=[0, 1, 2], score_epsilon=200.0)
    data_with_classes.fit_model(model)
    assert model.scores_ is not None
    share_of_right = model.score(data_with_classes.test_inputs, data_with_classes.test_labels)
    assert model.scores_.micro_f1.value == pytest.approx(share_of_right, abs=0.01)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.GapsFromLabels")
def test_test_records_may_have_the_gaps_and_tables_of_private_ones() -> None:
    """A fit to tables with missing labels releases scores on test records that are tables with missing labels."""
    data = data_with_test_records()
    data_of_tables = FitData(
        inputs=table_of_inputs(data.inputs),
        labels=table_with_gaps(data.labels),
        public_inputs=table_of_inputs(data.public_inputs),
        test_inputs=table_of_inputs(data.test_inputs),
        test_labels=table_with_gaps(data.test_labels),
    )
    model = data_of_tables.fit_model(PATEClassifier(epsilon=4.0, score_epsilon=50.0))
    assert model.scores_ is not None
    assert model.scores_.accuracy.value > 0.8


def table_of_inputs(inputs: np.ndarray) -> pd.DataFrame:
    """Returns inputs as a table with four named columns."""
    return pd.DataFrame(inputs, columns=["a", "b", "c", "d"])


def table_with_gaps(labels: np.ndarray) -> pd.DataFrame:
    """Returns labels as a table in which the second label of every seventh record is missing."""
    values = labels.astype(float)
    values[::7, 1] = np.nan
    return pd.DataFrame(values, columns=["a", "b", "c"])


@pytest.mark.parametrize(
    ("data", "name", "value"),
    [
        pytest.param(
            replace(data_with_test_records(), test_inputs=None), "X_test", None, id="no inputs"
        ),
        pytest.param(
            replace(data_with_test_records(), test_labels=None), "y_test", None, id="no labels"
        ),
        pytest.param(
            replace(data_with_groups(), test_groups=None), "groups_test", None, id="no test groups"
        ),
        pytest.param(
            replace(data_with_groups(), groups=None), "groups_test", "given", id="no groups"
        ),
        pytest.param(
            replace(data_with_groups(), test_groups=np.arange(NUM_TEST)),
            "groups_test",
            NOT_SHOWN,
            id="groups of private records",
        ),
        pytest.param(
            replace(data_with_groups(), public_groups=np.arange(NUM_PUBLIC) + NUM_PRIVATE // 2),
            "groups_test",
            NOT_SHOWN,
            id="groups of public samples",
        ),
        pytest.param(
            replace(
                data_with_groups(),
                groups=pd.Series(np.arange(NUM_PRIVATE), name="mrn"),
                test_groups=pd.Series(np.arange(NUM_TEST) + NUM_PRIVATE, name="visit"),
            ),
            "groups_test.name",
            "visit",
            id="groups of another column",
        ),
        pytest.param(
            replace(data_with_test_records(), test_labels=np.zeros((NUM_TEST, 2))),
            "y_test.shape",
            (NUM_TEST, 2),
            id="two of three labels",
        ),
        pytest.param(
            replace(data_with_test_records(), test_labels=np.zeros((5, 3))),
            "len(y_test)",
            5,
            id="labels of five records",
        ),
        pytest.param(
            replace(data_with_test_records(), test_labels=np.full((NUM_TEST, 3), 2)),
            "y_test[0, 0]",
            NOT_SHOWN,
            id="a label 2",
        ),
        pytest.param(
            replace(data_with_test_records(), test_labels=np.full((NUM_TEST, 3), np.nan)),
            "y_test",
            NOT_SHOWN,
            id="missing labels",
        ),
        pytest.param(
            replace(data_with_test_records(), test_inputs=pd.DataFrame(np.zeros((NUM_TEST, 4)))),
            "X_test",
            ANY,
            id="a table beside arrays",
        ),
    ],
)
def test_impossible_test_records_are_refused_before_a_charge(
    tmp_path: Path, data: FitData, name: str, value: Any
) -> None:
    """Missing inputs, labels or groups of test records, groups in two parts of the data, and other forms are refused.

    No ledger file is left.
    """
    ledger_path = tmp_path / "ledger.db"
    with refused_parameter(name, value=value):
        data.fit_model(PATEClassifier(epsilon=2.0, score_epsilon=1.0, ledger=ledger_path))
    assert not ledger_path.exists()


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        pytest.param(
            PATEClassifier(epsilon=2.0, score_epsilon=None), "X_test", "given", id="no price"
        ),
        pytest.param(
            PATEClassifier(epsilon=2.0, score_epsilon=0.0), "score_epsilon", 0.0, id="price 0"
        ),
        pytest.param(
            PATEClassifier(estimator=LogisticRegression(), epsilon=2.0, score_epsilon=1.0),
            "score_epsilon",
            1.0,
            id="estimators",
        ),
    ],
)
def test_test_records_without_a_price_are_refused_before_a_charge(
    tmp_path: Path, model: PATEClassifier, name: str, value: Any
) -> None:
    """Test records without a price, at price 0, or with estimators are refused, and leave no ledger."""
    ledger_path = tmp_path / "ledger.db"
    with refused_parameter(name, value=value):
        data_with_test_records().fit_model(model.set_params(ledger=ledger_path))
    assert not ledger_path.exists()


def test_a_cap_without_room_for_scores_is_refused_before_a_charge(tmp_path: Path) -> None:
    """A fit whose release alone would fill the cap is refused together with its scores, and no file is left."""
    ledger_path = tmp_path / "ledger.db"
    model = PATEClassifier(
        epsilon=2.0, score_epsilon=1.0, ledger=ledger_path, max_total_epsilon=2.0
    )
    with refused_parameter("max_epsilon", value=2.0):
        data_with_test_records().fit_model(model)
    assert not ledger_path.exists()


@pytest.mark.slow
def test_a_ledger_without_room_for_scores_refuses_the_fit(tmp_path: Path) -> None:
    """A ledger with room for the release alone refuses a fit with scores, which charges nothing."""
    ledger_path = tmp_path / "ledger.db"
    data_without_test_records().fit_model(
        PATEClassifier(epsilon=1.5, ledger=ledger_path, max_total_epsilon=3.0)
    )
    with refused_parameter("max_epsilon", value=3.0):
        data_with_test_records().fit_model(
            PATEClassifier(
                epsilon=1.5, score_epsilon=2.8, ledger=ledger_path, max_total_epsilon=3.0
            )
        )
    assert len(Ledger.stored(ledger_path).entries) == 1
    data_without_test_records().fit_model(
        PATEClassifier(epsilon=1.5, ledger=ledger_path, max_total_epsilon=3.0)
    )


@pytest.mark.slow
def test_a_second_release_of_scores_warns() -> None:
    """A second fit in a process with the same test records warns, although its private records are different."""
    data = data_with_test_records()
    data.fit_model(PATEClassifier(epsilon=2.0, score_epsilon=1.0))
    data_of_others = replace(data, inputs=data.inputs + 1)
    with pytest.warns(RepeatedRelease, match="fit 2 of this process"):
        data_of_others.fit_model(PATEClassifier(epsilon=2.0, score_epsilon=1.0))


@pytest.mark.slow
def test_test_rows_among_private_rows_warn() -> None:
    """A fit without groups warns of test rows that are also private rows."""
    data = data_with_test_records()
    overlapping_data = replace(data, test_inputs=data.inputs[:NUM_TEST])
    with pytest.warns(SharedRows, match="rows of X_test are rows of X"):
        overlapping_data.fit_model(PATEClassifier(epsilon=2.0, score_epsilon=1.0))


@pytest.mark.slow
def test_failed_scores_leave_the_student_that_was_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit that is interrupted while it releases scores keeps its student, which is published without scores.

    The error notes that the price of the release is spent.
    """

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ScoreCharge, "release", interrupt)
    model = PATEClassifier(epsilon=2.0, score_epsilon=1.0)
    with pytest.raises(KeyboardInterrupt) as caught:
        data_with_test_records().fit_model(model)
    assert "is spent" in caught.value.__notes__[0]
    model.publish(tmp_path / "release")
    assert model.scores_ is None


def test_a_search_releases_no_scores() -> None:
    """A `PATESearch` refuses a classifier with `score_epsilon`, as it compares its fits by scores of its own."""
    data = data_with_test_records()
    search = PATESearch(
        estimator=PATEClassifier(score_epsilon=1.0), param_grid={"n_queries": [300, 400]}
    )
    with refused_parameter("score_epsilon", value=1.0):
        search.fit(data.inputs, data.labels, X_public=data.public_inputs)
