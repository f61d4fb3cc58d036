"""Labels and groups in another order than the records, ids that floats round, and the cap that a first fit sets."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pate import PATEClassifier
from pate.accounting import Ledger
from pate.classifier.inputs import require_order_of_rows
from pate.classifier.samples import Pools
from tests.refusals import ANY, refused_parameter

pytestmark = pytest.mark.filterwarnings(
    "ignore::pate.classifier.DoubtfulPlan",
    "ignore::pate.classifier.RepeatedRelease",
    "ignore::pate.classifier.ClassesFromLabels",
    "ignore::pate.classifier.SeededNoise",
)
RECORDS = pd.DataFrame(np.random.default_rng(0).standard_normal((500, 3)), columns=list("abc"))
RECORDS.index = [f"record {number}" for number in range(500)]
LABELS = pd.DataFrame({"up": RECORDS["a"] > 0, "right": RECORDS["b"] > 0}).astype(int)
GROUPS = pd.Series(np.arange(500) // 2, index=RECORDS.index)
PUBLIC_RECORDS = RECORDS[:100].reset_index(drop=True) + 0.5


@pytest.mark.parametrize("name", ["y", "groups"])
def test_values_in_another_order_than_the_records_are_refused(name: str) -> None:
    """Labels or groups with the index of X in reverse order are refused under their name."""
    arguments = {"y": LABELS, "groups": GROUPS}
    arguments[name] = arguments[name][::-1]
    with refused_parameter(name, value=ANY, rule_words="reindex"):
        PATEClassifier().fit(
            RECORDS, arguments["y"], X_public=PUBLIC_RECORDS, groups=arguments["groups"]
        )


def test_public_groups_in_another_order_are_refused() -> None:
    """`fit` refuses groups of public samples whose index is that of X_public in reverse order."""
    public_groups = pd.Series(np.arange(1000, 1100), index=PUBLIC_RECORDS.index)[::-1]
    with refused_parameter("groups_public", value="Series", rule_words="to_numpy"):
        PATEClassifier().fit(
            RECORDS, LABELS, X_public=PUBLIC_RECORDS, groups=GROUPS, groups_public=public_groups
        )


def test_values_with_other_index_labels_are_taken_by_position() -> None:
    """Groups in an array or list, or with an index of numbers beside records with an index of names, are accepted."""
    for groups in (GROUPS.reset_index(drop=True), GROUPS.to_numpy(), list(GROUPS)):
        require_order_of_rows(name="groups", row_values=groups, inputs=RECORDS, rows_name="X")


def test_float_ids_that_are_rounded_are_refused() -> None:
    """Ids from 2**53 on are refused in an array of floats, which round 2**53 + 1, and kept apart in a list."""
    ids = [2**53, 2**53 + 1, 0.5]
    inputs = np.zeros((3, 1), np.float32)
    targets = np.zeros((3, 1), np.bool_)
    with refused_parameter("groups.dtype", value="float64"):
        Pools.cut(
            inputs,
            targets,
            groups=np.array(ids),
            public_inputs=inputs,
            public_fraction=None,
        )
    pools = Pools.cut(inputs, targets, groups=ids, public_inputs=inputs, public_fraction=None)
    assert pools.num_groups == 3


@pytest.mark.slow
def test_one_column_of_labels_is_one_label() -> None:
    """Labels as a DataFrame of one column give the same release and classes as the column alone."""
    inputs_as_array = RECORDS.to_numpy()
    models = [
        PATEClassifier(epsilon=8.0, random_state=0).fit(inputs, labels, X_public=public_inputs)
        for inputs, labels, public_inputs in (
            (RECORDS, LABELS[["up"]], PUBLIC_RECORDS),
            (RECORDS, LABELS["up"], PUBLIC_RECORDS),
            (
                inputs_as_array,
                LABELS[["up"]].astype(bool).astype(object),
                PUBLIC_RECORDS.to_numpy(),
            ),
        )
    ]
    assert [model.classes_.tolist() for model in models] == [[0, 1], [0, 1], [False, True]]
    np.testing.assert_array_equal(models[0].release_.labels, models[1].release_.labels)


@pytest.mark.slow
def test_a_refused_first_fit_leaves_no_cap(tmp_path: Path) -> None:
    """A first fit that is refused under a cap of 1 leaves no file, so that the next fit may set a cap of 10."""
    ledger_path = tmp_path / "ledger"
    model = PATEClassifier(epsilon=8.0, ledger=ledger_path, max_total_epsilon=1.0)
    with refused_parameter("max_epsilon", value=1.0, rule_words="nothing is spent"):
        model.fit(RECORDS, LABELS, X_public=PUBLIC_RECORDS)
    assert not ledger_path.exists()
    model.set_params(max_total_epsilon=10.0).fit(RECORDS, LABELS, X_public=PUBLIC_RECORDS)
    assert Ledger.stored(ledger_path).guaranteed_epsilon == 10.0
    assert "total of the ledger" not in repr(model)
    model.set_params(epsilon=1.0).fit(RECORDS, LABELS, X_public=PUBLIC_RECORDS)
    assert "; total of the ledger: epsilon" in repr(model)
    assert "total of the ledger" in model._repr_mimebundle_()["text/html"]


def test_the_cap_of_an_empty_ledger_names_the_way_out(tmp_path: Path) -> None:
    """A ledger with a cap of 1 and no charge refuses a fit under a cap of 10; the error says that it is empty."""
    Ledger(tmp_path / "ledger", target_delta=1e-6, max_epsilon=1.0)
    model = PATEClassifier(epsilon=8.0, ledger=tmp_path / "ledger", max_total_epsilon=10.0)
    with refused_parameter("max_epsilon", value=10.0, rule_words="the ledger has no charge"):
        model.fit(RECORDS, LABELS, X_public=PUBLIC_RECORDS)


@pytest.mark.slow
def test_a_useless_default_fit_is_refused_by_its_epsilon() -> None:
    """A fit at a tiny epsilon, without a number of teachers, is refused for its epsilon, in words on private groups."""
    with refused_parameter("target_epsilon", value=0.001, rule_words="private groups"):
        PATEClassifier(epsilon=0.001).fit(RECORDS, LABELS, X_public=PUBLIC_RECORDS)


@pytest.mark.slow
def test_price_of_refuses_a_useless_default_fit_as_fit_does() -> None:
    """`price_of` at a tiny epsilon, without a number of teachers, is refused as `fit` is."""
    with refused_parameter("target_epsilon", value=0.001, rule_words="private groups"):
        PATEClassifier(epsilon=0.001).price_of(RECORDS, LABELS, X_public=PUBLIC_RECORDS)
