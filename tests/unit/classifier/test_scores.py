"""PATEClassifier with scores at a price: what is charged, what is published, and what is refused before a charge."""

import json
import pickle
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
from pate.errors import UNSAID
from pate.run.score_release import ScoreCharge
from tests.refusals import ANY, refused

NUM_PRIVATE = 900
NUM_TEST = 300
pytestmark = pytest.mark.filterwarnings(
    "ignore::pate.classifier.RepeatedRelease", "ignore::pate.classifier.DoubtfulPlan"
)


def arguments(**changed: Any) -> dict[str, Any]:
    """Returns the arguments of a fit to rows of four columns, with three labels and test records.

    Args:
        **changed: arguments that replace these.
    """
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((NUM_PRIVATE + NUM_TEST + 400, 4))
    labels = (inputs[:, :3] > 0).astype(int)
    test = slice(NUM_PRIVATE, NUM_PRIVATE + NUM_TEST)
    return {
        "X": inputs[:NUM_PRIVATE],
        "y": labels[:NUM_PRIVATE],
        "X_public": inputs[test.stop :],
        "X_test": inputs[test],
        "y_test": labels[test],
    } | changed


def grouped(**changed: Any) -> dict[str, Any]:
    """Returns the arguments of a fit in which each group has two private records or two test records."""
    numbers = np.arange(NUM_PRIVATE + NUM_TEST) // 2
    groups = {"groups": numbers[:NUM_PRIVATE], "groups_test": numbers[NUM_PRIVATE:]}
    return arguments(**groups) | changed


@pytest.mark.slow
def test_scores_are_charged_to_the_ledger_of_all_fits(tmp_path: Path) -> None:
    """A ledger file has a charge of the release and one of the scores; their prices add up."""
    path = tmp_path / "ledger.db"
    model = PATEClassifier(epsilon=2.0, score_epsilon=1.0, ledger=path).fit(**arguments())
    release, scores = Ledger.stored(path).entries
    assert release.event == model.release_.event
    assert isinstance(scores.event, ScoresEvent)
    assert model.scores_ is not None
    assert scores.event.noise_multiplier == model.scores_.noise_multiplier
    assert model.epsilon_ < model.spent_epsilon_ < 3.0
    assert model.spent_epsilon_ == Ledger.stored(path).spent_epsilon


@pytest.mark.slow
def test_without_a_ledger_private_people_pay_for_the_release_alone() -> None:
    """In memory, scores have an account of their own, as their people are in no private record."""
    model = PATEClassifier(epsilon=2.0, score_epsilon=1.0).fit(**grouped())
    assert model.spent_epsilon_ == model.epsilon_
    assert model.scores_ is not None
    assert model.scores_.epsilon <= 1.0
    assert model.scores_.num_groups == NUM_TEST // 2
    assert "one value of groups" in model.scores_.unit


@pytest.mark.slow
def test_a_fit_with_scores_holds_no_test_record() -> None:
    """The pickle of a fitted classifier has no row of inputs or labels of the test records."""
    data = arguments()
    content = pickle.dumps(PATEClassifier(epsilon=2.0, score_epsilon=1.0).fit(**data))
    assert data["X_test"][0].astype(np.float32).tobytes() not in content
    assert (data["y_test"] == 1).tobytes()[:60] not in content


@pytest.mark.slow
def test_released_scores_are_published_and_reported(tmp_path: Path) -> None:
    """The model card, the privacy card, privacy.json and `report` have the scores in `scores_`."""
    model = PATEClassifier(epsilon=2.0, score_epsilon=4.0).fit(**arguments())
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
    model = PATEClassifier(epsilon=2.0, score_epsilon=1.0).fit(**arguments())
    model.set_params(score_epsilon=None)
    model.fit(**arguments(X_test=None, y_test=None))
    model.publish(tmp_path / "release")
    assert model.scores_ is None
    assert "scores" not in json.loads((tmp_path / "release" / "privacy.json").read_text())


@pytest.mark.slow
def test_scores_of_classes_are_those_of_the_most_probable_one() -> None:
    """At a large `score_epsilon`, micro-F1 of one class per record is the share of right classes."""
    data = arguments()
    data["y"] = data["y"][:, 0] + data["y"][:, 1]
    data["y_test"] = data["y_test"][:, 0] + data["y_test"][:, 1]
    model = PATEClassifier(epsilon=4.0, classes=[0, 1, 2], score_epsilon=200.0).fit(**data)
    assert model.scores_ is not None
    share = model.score(data["X_test"], data["y_test"])
    assert model.scores_.micro_f1.value == pytest.approx(share, abs=0.01)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.GapsFromLabels")
def test_test_records_may_have_the_gaps_and_tables_of_private_ones() -> None:
    """Tables with labels that are missing here and there are scored."""
    data = arguments()
    columns = ["a", "b", "c"]
    for name in ("X", "X_public", "X_test"):
        data[name] = pd.DataFrame(data[name], columns=[*columns, "d"])
    for name in ("y", "y_test"):
        labels = data[name].astype(float)
        labels[::7, 1] = np.nan
        data[name] = pd.DataFrame(labels, columns=columns)
    model = PATEClassifier(epsilon=4.0, score_epsilon=50.0).fit(**data)
    assert model.scores_ is not None
    assert model.scores_.accuracy.value > 0.8


def _without(data: dict[str, Any], name: str) -> dict[str, Any]:
    return data | {name: None}


@pytest.mark.parametrize(
    ("data", "parameters", "name", "value"),
    [
        (_without(arguments(), "X_test"), {}, "X_test", None),
        (_without(arguments(), "y_test"), {}, "y_test", None),
        (arguments(), {"score_epsilon": None}, "X_test", "given"),
        (arguments(), {"score_epsilon": 0.0}, "score_epsilon", 0.0),
        (arguments(), {"estimator": LogisticRegression()}, "score_epsilon", 1.0),
        (_without(grouped(), "groups_test"), {}, "groups_test", None),
        (_without(grouped(), "groups"), {}, "groups_test", "given"),
        (grouped(groups_test=np.arange(NUM_TEST)), {}, "groups_test", UNSAID),
        (
            grouped(groups_public=np.arange(400) + NUM_PRIVATE // 2),
            {},
            "groups_test",
            UNSAID,
        ),
        (
            grouped(
                groups=pd.Series(np.arange(NUM_PRIVATE), name="mrn"),
                groups_test=pd.Series(np.arange(NUM_TEST) + NUM_PRIVATE, name="visit"),
            ),
            {},
            "groups_test.name",
            "visit",
        ),
        (arguments(y_test=np.zeros((NUM_TEST, 2))), {}, "y_test.shape", (NUM_TEST, 2)),
        (arguments(y_test=np.zeros((5, 3))), {}, "len(y_test)", 5),
        (arguments(y_test=np.full((NUM_TEST, 3), 2)), {}, "y_test[0, 0]", UNSAID),
        (arguments(y_test=np.full((NUM_TEST, 3), np.nan)), {}, "y_test", UNSAID),
        (arguments(X_test=pd.DataFrame(np.zeros((NUM_TEST, 4)))), {}, "X_test", ANY),
    ],
)
def test_what_has_no_scores_is_refused_before_a_charge(
    tmp_path: Path, data: dict[str, Any], parameters: dict[str, Any], name: str, value: Any
) -> None:
    """A price without test records, people in two parts, and labels of another form leave no ledger."""
    path = tmp_path / "ledger.db"
    settings: dict[str, Any] = {"epsilon": 2.0, "score_epsilon": 1.0, "ledger": path} | parameters
    with refused(name, value=value):
        PATEClassifier(**settings).fit(**data)
    assert not path.exists()


def test_a_cap_without_room_for_scores_is_refused_before_a_charge(tmp_path: Path) -> None:
    """A cap that the release alone would fill refuses the fit, and no file is left."""
    path = tmp_path / "ledger.db"
    model = PATEClassifier(epsilon=2.0, score_epsilon=1.0, ledger=path, max_total_epsilon=2.0)
    with refused("max_epsilon", value=2.0):
        model.fit(**arguments())
    assert not path.exists()


@pytest.mark.slow
def test_a_ledger_without_room_for_scores_refuses_the_fit(tmp_path: Path) -> None:
    """Where an earlier fit leaves room for the release alone, a fit with scores charges nothing."""
    path = tmp_path / "ledger.db"
    cap: dict[str, Any] = {"ledger": path, "max_total_epsilon": 3.0}
    unscored = arguments(X_test=None, y_test=None)
    PATEClassifier(epsilon=1.5, **cap).fit(**unscored)
    with refused("max_epsilon", value=3.0):
        PATEClassifier(epsilon=1.5, score_epsilon=2.8, **cap).fit(**arguments())
    assert len(Ledger.stored(path).entries) == 1
    PATEClassifier(epsilon=1.5, **cap).fit(**unscored)


@pytest.mark.slow
def test_a_second_release_of_scores_warns() -> None:
    """Test records of an earlier fit in this process are named, though the private ones are others."""
    first = arguments()
    PATEClassifier(epsilon=2.0, score_epsilon=1.0).fit(**first)
    second = arguments(X=first["X"] + 1)
    with pytest.warns(RepeatedRelease, match="fit 2 of this process"):
        PATEClassifier(epsilon=2.0, score_epsilon=1.0).fit(**second)


@pytest.mark.slow
def test_test_rows_among_private_rows_warn() -> None:
    """Without groups, test rows that are private rows are probably the same people."""
    data = arguments()
    with pytest.warns(SharedRows, match="rows of X_test are rows of X"):
        PATEClassifier(epsilon=2.0, score_epsilon=1.0).fit(
            **data | {"X_test": data["X"][:NUM_TEST]}
        )


@pytest.mark.slow
def test_failed_scores_leave_the_student_that_was_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If scores cannot be drawn, the student and its release stay and are published without scores."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ScoreCharge, "release", interrupted)
    model = PATEClassifier(epsilon=2.0, score_epsilon=1.0)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.fit(**arguments())
    assert "is spent" in caught.value.__notes__[0]
    model.publish(tmp_path / "release")
    assert model.scores_ is None


def test_a_search_releases_no_scores() -> None:
    """The fits of a `PATESearch` are compared by scores of its own, so a price of others is refused."""
    data = arguments()
    search = PATESearch(PATEClassifier(score_epsilon=1.0), {"n_queries": [300, 400]})
    with refused("score_epsilon", value=1.0):
        search.fit(data["X"], data["y"], X_public=data["X_public"])
