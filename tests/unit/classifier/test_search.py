"""A search for parameters is charged as one release before its first fit, and does not reveal the number of fits."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.tree import DecisionTreeClassifier

from pate import accounting
from pate.aggregators import GNMax
from pate.classifier import ClassesFromLabels, PATEClassifier, PATESearch, RepeatedRelease
from pate.classifier.search import _draw_groups, _group_ids, total_score
from tests.refusals import refused_parameter

# The settings that are compared by a search.
PARAM_GRID = {"n_queries": [60, 100]}


def labeled_records(seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns 700 private inputs with two labels that are easy to learn, and 200 public inputs."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((900, 4))
    return inputs[:700], inputs[:700, :2] > 0, inputs[700:]


def fitted_search(
    *,
    mean_fits: float = 3.0,
    test_fraction: float = 0.2,
    ledger: Path | None = None,
    max_total_epsilon: float | None = None,
) -> PATESearch:
    """Returns a search over the grid of this file that was fitted at epsilon 6.

    Args:
        mean_fits: the expected number of fits.
        test_fraction: the share of the groups that fits are scored on.
        ledger: the file that the search is charged to; None for no file.
        max_total_epsilon: the cap of the ledger; None for no cap.
    """
    search = PATESearch(
        estimator=PATEClassifier(),
        param_grid=PARAM_GRID,
        epsilon=6.0,
        mean_fits=mean_fits,
        test_fraction=test_fraction,
        ledger=ledger,
        max_total_epsilon=max_total_epsilon,
    )
    inputs, labels, public_inputs = labeled_records()
    return search.fit(inputs, labels, X_public=public_inputs)


@pytest.mark.slow
def test_the_search_is_charged_as_one_tuned_release(tmp_path: Path) -> None:
    """The ledger has one charge, whose epsilon the report of the best fit states, beside the size of the grid."""
    ledger_path = tmp_path / "ledger.db"
    search = fitted_search(ledger=ledger_path)
    [charge] = accounting.Ledger.stored(ledger_path).entries
    assert isinstance(charge.event, accounting.TuningEvent)
    assert isinstance(charge.event.score, accounting.ScoresEvent)
    assert search.fit_epsilon_ < charge.epsilon <= 6.0
    assert search.epsilon_ == search.best_estimator_.epsilon_ == charge.epsilon
    assert search.best_estimator_.spent_epsilon_ == charge.epsilon
    statement = search.best_estimator_.report()
    assert statement.epsilon >= charge.epsilon
    assert statement.tuning is not None and statement.tuning.num_candidates == 2
    assert search.best_params_["n_queries"] in PARAM_GRID["n_queries"]


@pytest.mark.slow
def test_the_best_fit_predicts_and_the_search_says_nothing() -> None:
    """The best fit is better than chance, and no warning or attribute tells the number of fits."""
    inputs, labels, _ = labeled_records()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = fitted_search()
    assert (search.predict(inputs) == labels).mean() > 0.7
    assert search.predict_proba(inputs).shape == labels.shape
    assert {name for name in vars(search) if name.endswith("_")} == {
        "best_estimator_",
        "best_params_",
        "epsilon_",
        "fit_epsilon_",
    }


@pytest.mark.slow
def test_a_search_beyond_the_cap_is_refused(tmp_path: Path) -> None:
    """If the ledger's cap is below the price, the search is refused, and nothing is charged."""
    ledger_path = tmp_path / "ledger.db"
    with refused_parameter("max_epsilon", value=1.0):
        fitted_search(ledger=ledger_path, max_total_epsilon=1.0)
    assert not ledger_path.exists() or not accounting.Ledger.stored(ledger_path).entries


@pytest.mark.slow
def test_classes_that_are_read_from_labels_warn_once() -> None:
    """A search warns once if its classes are read from labels."""
    inputs, labels, public_inputs = labeled_records()
    class_names = np.where(labels[:, 0], "yes", "no")
    search = PATESearch(
        estimator=PATEClassifier(), param_grid=PARAM_GRID, epsilon=6.0, mean_fits=3.0
    )
    with pytest.warns(ClassesFromLabels) as caught:
        search.fit(inputs, class_names, X_public=public_inputs)
    assert len(caught) == 1


def test_a_share_of_all_groups_is_refused() -> None:
    """A search that would score all groups is refused, as no group would be left to fit."""
    with refused_parameter("test_fraction", value=1.0):
        fitted_search(test_fraction=1.0)


def test_one_group_is_refused() -> None:
    """A search over one group, under two spellings, is refused, as it could not be both fitted and scored."""
    inputs, labels, public_inputs = labeled_records()
    search = PATESearch(estimator=PATEClassifier(), param_grid=PARAM_GRID)
    with refused_parameter("groups", value=1):
        search.fit(inputs, labels, X_public=public_inputs, groups=["Ann", "ann"] * 350)


@pytest.mark.filterwarnings("ignore::pate.classifier.SeededNoise")
def test_a_label_that_one_record_alone_has_is_refused_wherever_it_falls() -> None:
    """A label that is none of the stated classes is refused, whether its record would be fitted or scored.

    Of the eight seeds, at least one draws the record among those that are scored.
    """
    inputs, labels, public_inputs = labeled_records()
    class_names: list[object] = labels[:, 0].astype(int).tolist()
    class_names[5] = "other"
    for seed in range(8):
        search = PATESearch(
            estimator=PATEClassifier(classes=[0, 1]), param_grid=PARAM_GRID, random_state=seed
        )
        with refused_parameter("y[0]", rule_words="one of the classes"):
            search.fit(inputs, class_names, X_public=public_inputs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.SeededNoise")
def test_a_cell_that_cannot_be_read_is_refused_before_the_charge(tmp_path: Path) -> None:
    """A word in a column of numbers is refused before the charge, whether its record would be fitted or scored."""
    inputs, labels, public_inputs = labeled_records()
    frame = pd.DataFrame(inputs, columns=list("abcd")).astype({"a": object})
    frame.loc[5, "a"] = "many"
    for seed in range(6):
        ledger_path = tmp_path / f"{seed}.db"
        search = PATESearch(
            estimator=PATEClassifier(),
            param_grid=PARAM_GRID,
            random_state=seed,
            ledger=ledger_path,
        )
        with refused_parameter("X.a"):
            search.fit(frame, labels, X_public=pd.DataFrame(public_inputs, columns=list("abcd")))
        assert not ledger_path.exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.SeededNoise")
def test_a_seed_that_the_ledger_knows_is_refused(tmp_path: Path) -> None:
    """A second search with the seed of the first is refused by their ledger, as both would have the same noise."""
    inputs, labels, public_inputs = labeled_records()
    search = PATESearch(
        estimator=PATEClassifier(),
        param_grid=PARAM_GRID,
        random_state=5,
        mean_fits=1.5,
        ledger=tmp_path / "ledger.db",
    ).fit(inputs, labels, X_public=public_inputs)
    with refused_parameter("random_state", value=5):
        search.fit(inputs, ~labels, X_public=public_inputs)
    assert len(accounting.Ledger.stored(tmp_path / "ledger.db").entries) == 1


def test_a_mean_of_one_fit_is_refused() -> None:
    """A search whose expected number of fits is 1 is refused, as that number has to be above 1."""
    with refused_parameter("mean", value=1.0):
        fitted_search(mean_fits=1.0)


def test_a_grid_of_one_setting_is_refused() -> None:
    """A search over a grid of one setting is refused."""
    inputs, labels, public_inputs = labeled_records()
    with refused_parameter("param_grid", value=1):
        PATESearch(estimator=PATEClassifier(), param_grid={"n_queries": [60]}).fit(
            inputs, labels, X_public=public_inputs
        )


def test_a_grid_with_another_adjacency_is_refused() -> None:
    """A search is charged under replace-one, so no setting of its grid may release under add/remove."""
    inputs, labels, public_inputs = labeled_records()
    search = PATESearch(
        estimator=PATEClassifier(estimator=DecisionTreeClassifier(max_depth=2), n_teachers=50),
        param_grid={
            "adjacency": ["add_remove"],
            "aggregator": [GNMax(noise_std=5.0, adjacency=accounting.Adjacency.ADD_REMOVE)],
            "estimator__max_depth": [2, 3],
        },
    )
    with refused_parameter("adjacency", value="add_remove"):
        search.fit(inputs, labels, X_public=public_inputs)


def test_spellings_of_a_person_are_one_group_of_a_search() -> None:
    """Names that are one group in a fit are one group in the division of a search, and so in its scores."""
    ids = _group_ids(np.zeros((6, 1)), ["Ann", "ann", "7", "7.0", " Bob", "Bob"])
    assert ids.tolist() == [1, 1, 0, 0, 2, 2]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pate.classifier.SeededNoise")
def test_later_fits_count_a_search_as_one_fit() -> None:
    """The warning of a later fit adds the price of the search to its own, and counts the search as one fit."""
    rng = np.random.default_rng(77)
    inputs = rng.standard_normal((900, 4))
    labels = inputs[:, :2] > 0
    search = PATESearch(
        estimator=PATEClassifier(),
        param_grid=PARAM_GRID,
        epsilon=6.0,
        mean_fits=20.0,
        random_state=0,
    ).fit(inputs[:700].tolist(), labels[:700], X_public=inputs[700:])
    assert search.epsilon_ > 5.0
    with pytest.warns(RepeatedRelease, match="fit 2 of this process") as caught:
        PATEClassifier(epsilon=6.0).fit(inputs[:700], labels[:700], X_public=inputs[700:])
    match = re.search(r"add up, here to at least epsilon ([\d.]+) at", str(caught[0].message))
    assert match is not None
    assert 10.0 < float(match[1]) < 12.0


@pytest.mark.slow
def test_a_record_that_a_search_only_scored_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fit to the records that a search scored, and did not fit, is the second fit of this process on them.

    A second search on all records warns as well, and counts the fit before.
    """
    inputs, labels, public_inputs = labeled_records(seed=78)
    drawn_masks: list[np.ndarray] = []

    def draw_groups(*arguments: Any, **settings: Any) -> np.ndarray:
        """Returns whether each group is scored, and keeps the answer."""
        drawn_masks.append(_draw_groups(*arguments, **settings))
        return drawn_masks[-1]

    monkeypatch.setattr("pate.classifier.search._draw_groups", draw_groups)
    search = PATESearch(
        estimator=PATEClassifier(),
        param_grid=PARAM_GRID,
        epsilon=6.0,
        mean_fits=1.5,
        test_fraction=0.5,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedRelease)
        search.fit(inputs, labels, X_public=public_inputs)
    (is_scored,) = drawn_masks
    assert 100 < is_scored.sum() < len(inputs)
    with pytest.warns(RepeatedRelease, match="fit 2 of this process"):
        PATEClassifier(epsilon=6.0).fit(
            inputs[is_scored], labels[is_scored], X_public=public_inputs
        )
    with pytest.warns(RepeatedRelease, match="fit 3 of this process"):
        search.fit(inputs, labels, X_public=public_inputs)


def test_unknown_labels_are_scored_as_absent() -> None:
    """Labels with None, as a fit accepts them, have the score of labels with 0 in its place."""
    inputs, labels, public_inputs = labeled_records()
    classifier = PATEClassifier(epsilon=6.0).fit(inputs, labels, X_public=public_inputs)
    known = np.arange(60).reshape(30, 2) % 3 > 0
    groups = np.arange(30)
    labels_with_none = np.where(known, labels[:30].astype(object), None).tolist()
    score = total_score(classifier, inputs=inputs[:30], labels=labels_with_none, group_ids=groups)
    assert score == total_score(
        classifier, inputs=inputs[:30], labels=labels[:30] & known, group_ids=groups
    )


@pytest.mark.slow
def test_a_search_reads_sparse_labels() -> None:
    """Labels in a sparse matrix, which a fit accepts, are divided and scored as well."""
    inputs, labels, public_inputs = labeled_records()
    search = PATESearch(
        estimator=PATEClassifier(), param_grid=PARAM_GRID, epsilon=6.0, mean_fits=1.5
    )
    search.fit(inputs, sparse.coo_array(labels.astype(int)), X_public=public_inputs)
    assert (search.predict(inputs) == labels).mean() > 0.7


def test_classes_in_a_column_are_scored_one_by_one() -> None:
    """Classes `[n, 1]`, which a fit accepts, have the score of classes `[n]`."""
    inputs, labels, public_inputs = labeled_records()
    classes = labels[:, 0]
    classifier = PATEClassifier(epsilon=6.0).fit(inputs, classes, X_public=public_inputs)
    groups = np.arange(30)
    score = total_score(classifier, inputs=inputs[:30], labels=classes[:30, None], group_ids=groups)
    assert score == total_score(
        classifier, inputs=inputs[:30], labels=classes[:30], group_ids=groups
    )


@pytest.mark.parametrize("changed_group", [0, 5])
def test_one_group_moves_the_score_by_at_most_its_steps(changed_group: int) -> None:
    """One changed group of five records moves the sum of scores by at most 2^20 steps, the largest score of a group."""
    inputs, labels, public_inputs = labeled_records()
    classifier = PATEClassifier(epsilon=6.0).fit(inputs, labels, X_public=public_inputs)
    groups = np.arange(30) // 5
    true_labels = labels[:30]
    flipped_labels = true_labels.copy()
    flipped_labels[groups == changed_group] ^= True
    score = total_score(classifier, inputs=inputs[:30], labels=true_labels, group_ids=groups)
    other_score = total_score(
        classifier, inputs=inputs[:30], labels=flipped_labels, group_ids=groups
    )
    assert 0 < abs(score - other_score) <= 2**20
