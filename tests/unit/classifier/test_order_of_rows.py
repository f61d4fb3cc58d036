"""Labels and groups that belong to other rows than they stand at, or whose ids a float cannot hold."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pate import PATEClassifier
from pate.accounting import Ledger
from pate.classifier.inputs import require_order_of_rows
from pate.classifier.samples import Pools
from tests.refusals import ANY, refused

pytestmark = pytest.mark.filterwarnings(
    "ignore::pate.classifier.DoubtfulPlan",
    "ignore::pate.classifier.RepeatedRelease",
    "ignore::pate.classifier.ClassesFromLabels",
    "ignore::pate.classifier.SeededNoise",
)
FRAME = pd.DataFrame(np.random.default_rng(0).standard_normal((500, 3)), columns=list("abc"))
FRAME.index = [f"record {number}" for number in range(500)]
LABELS = pd.DataFrame({"up": FRAME["a"] > 0, "right": FRAME["b"] > 0}).astype(int)
GROUPS = pd.Series(np.arange(500) // 2, index=FRAME.index)
PUBLIC = FRAME[:100].reset_index(drop=True) + 0.5


@pytest.mark.parametrize("name", ["y", "groups"])
def test_values_in_another_order_than_the_records_are_refused(name: str) -> None:
    """Labels or groups have the index of X in reverse order. The fit is refused under their name."""
    values = {"y": LABELS, "groups": GROUPS}
    values[name] = values[name][::-1]
    with refused(name, value=ANY, rule="reindex"):
        PATEClassifier().fit(FRAME, values["y"], X_public=PUBLIC, groups=values["groups"])


def test_public_groups_in_another_order_are_refused() -> None:
    """The groups of public samples have the index of X_public in reverse order. The fit is refused."""
    public_groups = pd.Series(np.arange(1000, 1100), index=PUBLIC.index)[::-1]
    with refused("groups_public", value="Series", rule="to_numpy"):
        PATEClassifier().fit(
            FRAME, LABELS, X_public=PUBLIC, groups=GROUPS, groups_public=public_groups
        )


def test_values_with_other_index_labels_are_taken_by_position() -> None:
    """Groups with the index 0, 1, … beside records with names as index are accepted, and so are arrays."""
    for values in (GROUPS.reset_index(drop=True), GROUPS.to_numpy(), list(GROUPS)):
        require_order_of_rows(name="groups", values=values, rows=FRAME, rows_name="X")


def test_float_ids_that_are_rounded_are_refused() -> None:
    """Two ids from 2**53 on are equal as floats. An array of floats is refused; a list keeps them apart."""
    ids = [2**53, 2**53 + 1, 0.5]
    inputs = np.zeros((3, 1), np.float32)
    targets = np.zeros((3, 1), np.bool_)
    with refused("groups.dtype", value="float64"):
        Pools.cut(inputs, targets, groups=np.array(ids), public=inputs, fraction=None)
    pools = Pools.cut(inputs, targets, groups=ids, public=inputs, fraction=None)
    assert pools.num_groups == 3


@pytest.mark.slow
def test_one_column_of_labels_is_one_label() -> None:
    """A DataFrame of one column is read as its column."""
    inputs = FRAME.to_numpy()
    models = [
        PATEClassifier(epsilon=8.0, random_state=0).fit(X, y, X_public=public)
        for X, y, public in (
            (FRAME, LABELS[["up"]], PUBLIC),
            (FRAME, LABELS["up"], PUBLIC),
            (inputs, LABELS[["up"]].astype(bool).astype(object), PUBLIC.to_numpy()),
        )
    ]
    assert [model.classes_.tolist() for model in models] == [[0, 1], [0, 1], [False, True]]
    np.testing.assert_array_equal(models[0].release_.labels, models[1].release_.labels)


@pytest.mark.slow
def test_a_refused_first_fit_leaves_no_cap(tmp_path: Path) -> None:
    """A fit at epsilon 2 is refused under a cap of 1. No file is left, so the next fit sets a cap of 10."""
    path = tmp_path / "ledger"
    model = PATEClassifier(epsilon=8.0, ledger=path, max_total_epsilon=1.0)
    with refused("max_epsilon", value=1.0, rule="nothing is spent"):
        model.fit(FRAME, LABELS, X_public=PUBLIC)
    assert not path.exists()
    model.set_params(max_total_epsilon=10.0).fit(FRAME, LABELS, X_public=PUBLIC)
    assert Ledger.stored(path).guaranteed_epsilon == 10.0
    assert "total of the ledger" not in repr(model)
    model.set_params(epsilon=1.0).fit(FRAME, LABELS, X_public=PUBLIC)
    assert "; total of the ledger: epsilon" in repr(model)
    assert "total of the ledger" in model._repr_mimebundle_()["text/html"]


def test_the_cap_of_an_empty_ledger_names_the_way_out(tmp_path: Path) -> None:
    """A file has a cap of 1 and no charge. A fit under a cap of 10 is refused, and the error says what would help."""
    Ledger(tmp_path / "ledger", target_delta=1e-6, max_epsilon=1.0)
    model = PATEClassifier(epsilon=8.0, ledger=tmp_path / "ledger", max_total_epsilon=10.0)
    with refused("max_epsilon", value=10.0, rule="the ledger has no charge"):
        model.fit(FRAME, LABELS, X_public=PUBLIC)


@pytest.mark.slow
def test_a_useless_default_fit_is_refused_by_its_epsilon() -> None:
    """A fit without a number of teachers has a tiny epsilon. The error is about epsilon and private groups."""
    with refused("target_epsilon", value=0.001, rule="private groups"):
        PATEClassifier(epsilon=0.001).fit(FRAME, LABELS, X_public=PUBLIC)


@pytest.mark.slow
def test_price_of_refuses_a_useless_default_fit_as_fit_does() -> None:
    """Without a number of teachers, the error of `price_of` is about epsilon and private groups, too."""
    with refused("target_epsilon", value=0.001, rule="private groups"):
        PATEClassifier(epsilon=0.001).price_of(FRAME, LABELS, X_public=PUBLIC)
