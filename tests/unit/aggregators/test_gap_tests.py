"""Gap tests: the fields of an aggregator that determine them, their price after tuning, and their scaling."""

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.accounting.event_tree import count_leaves
from pate.accounting.rdp import rdp_curve
from pate.aggregators import StableTopK
from pate.aggregators.gap_tests import GapTest, GaussianTest, LaplaceTest, ReadyTableTest, TableTest
from pate.mechanisms import CertifiedTable
from tests.refusals import ANY, refused_parameter

GAUSSIAN_TEST = GaussianTest(std=10.0, failure_prob=1e-6)
LAPLACE_TEST = LaplaceTest(std=10.0, failure_prob=1e-6)
TABLE_TEST = TableTest(renyi_order=4.0, rdp_budget=0.01, failure_prob=1e-6)


@pytest.mark.parametrize(
    ("aggregator", "gap_test"),
    [
        pytest.param(
            StableTopK(selection_scale=5.0, failure_prob=1e-6, test_std=10.0),
            GAUSSIAN_TEST,
            id="gaussian",
        ),
        pytest.param(
            StableTopK(selection_scale=5.0, failure_prob=1e-6, test="laplace", test_std=10.0),
            LAPLACE_TEST,
            id="laplace",
        ),
        pytest.param(
            StableTopK(
                selection_scale=5.0,
                failure_prob=1e-6,
                test="table",
                table_order=4.0,
                table_budget=0.01,
            ),
            TABLE_TEST,
            id="table",
        ),
    ],
)
def test_the_fields_of_an_aggregator_make_its_test(
    aggregator: StableTopK, gap_test: GapTest
) -> None:
    """An aggregator has the gap test that its fields determine, also after it was scaled.

    Its stability test for 200 teachers is that of the gap test.
    """
    assert aggregator.gap_test == gap_test
    assert aggregator.scaled(noise_factor=3.0).gap_test == gap_test.scaled(noise_factor=3.0)
    assert aggregator.stability_test(num_teachers=200) == gap_test.for_votes(
        num_teachers=200, adjacency=Adjacency.REPLACE_ONE
    )


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(
    "gap_test",
    [
        pytest.param(GAUSSIAN_TEST, id="gaussian"),
        pytest.param(LAPLACE_TEST, id="laplace"),
        pytest.param(TABLE_TEST, id="table"),
    ],
)
def test_a_tuned_test_costs_its_budget(gap_test: GapTest, adjacency: Adjacency) -> None:
    """A test tuned to a Renyi divergence of 0.02 at Renyi order 6 costs 0.02 within 0.1%."""
    tuned = gap_test.tuned(renyi_order=6.0, rdp=0.02, num_teachers=300, adjacency=adjacency)
    event = tuned.for_votes(num_teachers=300, adjacency=adjacency).event
    rdp = float(rdp_curve(count_leaves(event), orders=np.array([6.0]))[0])
    # Probabilities are rounded to multiples of 2**-53, which changes small ones in a table the most.
    assert rdp == pytest.approx(0.02, rel=1e-3)


def test_a_ready_table_keeps_its_price() -> None:
    """A test from a ready table is not changed by tuning, and refuses to be scaled."""
    stability_test = TABLE_TEST.for_votes(num_teachers=50, adjacency=Adjacency.REPLACE_ONE)
    ready_test = ReadyTableTest(CertifiedTable.from_test(stability_test, order=4.0))
    tuned_test = ready_test.tuned(
        renyi_order=6.0, rdp=0.02, num_teachers=50, adjacency=Adjacency.REPLACE_ONE
    )
    assert tuned_test == ready_test
    with refused_parameter("table", value=ANY):
        ready_test.scaled(noise_factor=2.0)


@pytest.mark.parametrize("renyi_order", [1.0, np.inf, np.nan])
def test_a_table_test_refuses_an_order_by_the_name_of_its_field(renyi_order: float) -> None:
    """A table cannot be made for an order that is not a finite number above 1."""
    with refused_parameter("renyi_order", value=renyi_order):
        TableTest(renyi_order=renyi_order, rdp_budget=0.01, failure_prob=1e-6)
