"""The stability test of a gap and the optimal table of pass probabilities, against closed forms and high precision."""

import copy
import json
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import laplace, norm

from pate.accounting import Adjacency
from pate.accounting.event_tree import count_leaves
from pate.accounting.rdp import rdp_curve
from pate.aggregators import StableTopK
from pate.mechanisms import CertifiedTable, StabilityTest, optimal_stability_table
from tests.refusals import ANY, refused_parameter


@pytest.mark.parametrize(
    "make_test",
    [
        pytest.param(StabilityTest.gaussian, id="gaussian"),
        pytest.param(StabilityTest.laplace, id="laplace"),
    ],
)
@pytest.mark.parametrize("failure_prob", [1e-12, 1e-9, 0.4, 0.6, 0.999])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_probabilities_rise_from_the_failure_probability_on_a_grid(
    make_test: Callable[..., StabilityTest], failure_prob: float, adjacency: Adjacency
) -> None:
    """The probabilities of passing rise with the gap and are multiples of 2^-53.

    A gap that one teacher can close passes with at most the failure probability.
    """
    test = make_test(test_std=2.0, failure_prob=failure_prob, num_teachers=60, adjacency=adjacency)
    pass_probs_by_gap = np.array(test.pass_probs)
    numerators_of_pass_probs = pass_probs_by_gap * 2.0**53
    assert (np.diff(pass_probs_by_gap) >= 0).all()
    assert (numerators_of_pass_probs == np.floor(numerators_of_pass_probs)).all()
    assert pass_probs_by_gap[adjacency.gap_sensitivity] <= failure_prob
    assert pass_probs_by_gap.max() <= 1 - 2.0**-40


class FixedGenerator(np.random.Generator):
    """A generator whose uniform numbers are all equal.

    Attributes:
        value: the uniform number.
    """

    value = 0.0

    def random(self, size: Any = None) -> Any:
        """Returns an array of the shape `size`, or a single number, whose entries are all `value`."""
        return np.full(size, self.value)


def test_a_draw_equal_to_the_probability_refuses() -> None:
    """A test passes if a uniform number is below the pass probability, and not if both are equal.

    So the test passes with exactly the probability that is priced, a multiple of 2^-53.
    """
    test = StabilityTest(pass_probs=(0.0, 0.0, 0.0, 0.25), failure_prob=0.1)
    rng = FixedGenerator(np.random.PCG64(0))
    assert not test(gaps=np.array([0, 1]), rng=rng).any()
    assert test(gaps=np.array([3]), rng=rng).all()
    rng.value = 0.25
    assert not test(gaps=np.array([3]), rng=rng).any()


mpmath.mp.dps = 40


def divergence_between_bits(logit_p: float, logit_q: float, order: float) -> float:
    """Returns the Renyi divergence at a Renyi order between two bits with given logits, in 40 digits."""

    def probability_of(logit: float) -> Any:
        return 1 / (1 + mpmath.exp(-mpmath.mpf(logit)))

    pairs = (
        (probability_of(logit=logit_p), probability_of(logit=logit_q)),
        (probability_of(logit=-logit_p), probability_of(logit=-logit_q)),
    )
    return float(mpmath.log(sum(p**order * q ** (1 - order) for p, q in pairs)) / (order - 1))


@pytest.mark.parametrize(
    ("order", "budget", "failure_prob"),
    [(8.0, 1e-3, 1e-9), (1.5, 0.2, 1e-6), (100.0, 1e-4, 0.01), (3.0, 2.0, 1e-12)],
)
def test_each_step_spends_the_budget_and_no_more(
    order: float, budget: float, failure_prob: float
) -> None:
    """The Renyi divergence between the pass probabilities of neighboring gaps is the budget, in the worse direction.

    An aggregator with this table can be copied and pickled.
    """
    uncertified_table = optimal_stability_table(
        order=order, rdp_budget=budget, failure_prob=failure_prob, num_levels=300
    )
    assert uncertified_table.logits[0] == pytest.approx(
        math.log(failure_prob / (1 - failure_prob)), rel=1e-12
    )
    for logit_at_gap, logit_at_next_gap in zip(
        uncertified_table.logits, uncertified_table.logits[1:], strict=False
    ):
        spent = max(
            divergence_between_bits(logit_p=logit_at_next_gap, logit_q=logit_at_gap, order=order),
            divergence_between_bits(logit_p=logit_at_gap, logit_q=logit_at_next_gap, order=order),
        )
        assert budget * (1 - 1e-6) <= spent <= budget * (1 + 1e-9)
    # scikit-learn clones aggregators by a copy, and joblib by a pickle.
    aggregator = StableTopK(selection_scale=2.0, test="table", table=uncertified_table)
    assert copy.deepcopy(aggregator) == pickle.loads(pickle.dumps(aggregator)) == aggregator


def test_a_budget_below_rounding_errors_ends_the_table() -> None:
    """No level of a table rises where the budget is too small for any rise in floats; the search ends all the same."""
    stability_table = optimal_stability_table(
        order=2.0, rdp_budget=1e-30, failure_prob=1e-6, num_levels=4
    )
    assert 1 <= len(stability_table.logits) <= 4
    assert stability_table.logits[-1] == pytest.approx(stability_table.logits[0], rel=1e-15)


TEST_OF_12_TEACHERS = StabilityTest.gaussian(test_std=2.0, failure_prob=1e-3, num_teachers=12)


def optimal_table(
    order: float, rdp_budget: float, failure_prob: float, adjacency: str
) -> CertifiedTable:
    """Returns the certified optimal table for 100 teachers at a Renyi order."""
    uncertified_table = optimal_stability_table(
        order=order, rdp_budget=rdp_budget, failure_prob=failure_prob, num_levels=101
    )
    test = StabilityTest.from_table(uncertified_table, num_teachers=100, adjacency=adjacency)
    return CertifiedTable.from_test(test, order=order)


def worst_divergence(table: CertifiedTable) -> Any:
    """Returns the largest Renyi divergence over all pairs of gaps within the sensitivity, with 80 digits.

    Of each pair, both directions are compared.
    """
    reach = table.adjacency.gap_sensitivity
    order = mpmath.mpf(table.order)
    worst = mpmath.mpf(0)
    with mpmath.workdps(80):
        for gap, numerator in enumerate(table.numerators):
            neighbors = table.numerators[max(gap - reach, 0) : gap + reach + 1]
            for neighbor in neighbors:
                p = mpmath.mpf(numerator) / 2**53
                q = mpmath.mpf(neighbor) / 2**53
                moment = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
                worst = max(worst, mpmath.log(moment) / (order - 1))
        return worst


@pytest.mark.parametrize(
    ("order", "budget", "failure_prob"),
    [(7.5, 1.5e-3, 1e-9), (1.5, 0.3, 1e-6), (200.0, 1e-4, 1e-12), (4.0, 2.0, 0.01)],
)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_certificate_is_the_rounded_tables_cost(
    order: float, budget: float, failure_prob: float, adjacency: str
) -> None:
    """The table's `rdp` is at least the exact divergence of its rounded probabilities, and barely more.

    Pass probabilities are rounded to multiples of 2^-53. The price of the table's event at this Renyi order is the
    same.
    """
    table = optimal_table(
        order=order, rdp_budget=budget, failure_prob=failure_prob, adjacency=adjacency
    )
    exact_rdp = worst_divergence(table=table)
    assert exact_rdp <= table.rdp <= exact_rdp * (1 + mpmath.mpf(1e-15))
    leaf_events_with_counts = count_leaves(table.test.event)
    rdp_of_event = float(rdp_curve(leaf_events_with_counts, orders=np.array([order]))[0])
    assert table.rdp * (1 - 1e-9) <= rdp_of_event <= table.rdp * (1 + 1e-6)


def test_certificate_covers_both_directions() -> None:
    """A table's certified divergence `rdp` covers both directions, so also a refusal that becomes 10^8 times as likely.

    The pass probability falls from nearly 1 to 0.9.
    """
    stability_test = StabilityTest(
        pass_probs=(0.2, 0.2, 0.5, 0.9, 1 - 1e-9), failure_prob=0.2, adjacency="add_remove"
    )
    table = CertifiedTable.from_test(stability_test, order=4.0)
    exact_rdp = worst_divergence(table=table)
    assert 17 < exact_rdp <= table.rdp <= exact_rdp * (1 + mpmath.mpf(1e-15))
    # The rounded integers are certified, because one grid step is a ten thousandth of 1e-12.
    rounded_table = optimal_table(
        order=7.5, rdp_budget=1.5e-3, failure_prob=1e-12, adjacency="add_remove"
    )
    assert 1.5e-3 < rounded_table.rdp < 1.5e-3 * 1.1


def test_a_file_gives_back_the_same_table_and_test(tmp_path: Path) -> None:
    """A table that is saved and loaded has the same digest and pass probabilities.

    The file holds numerators over 2^53.
    """
    table = optimal_table(order=7.5, rdp_budget=1.5e-3, failure_prob=1e-9, adjacency="replace_one")
    table.save(tmp_path / "table.json")
    loaded_table = CertifiedTable.load(tmp_path / "table.json")
    assert loaded_table == table
    assert loaded_table.digest == table.digest
    loaded_test = loaded_table.test_for(num_teachers=100, adjacency=table.adjacency)
    assert loaded_test.pass_probs == table.test.pass_probs
    values = json.loads((tmp_path / "table.json").read_text())
    assert values["num_teachers"] == 100
    exact_probs = [Fraction(numerator, values["denominator"]) for numerator in values["numerators"]]
    assert [Fraction(prob) for prob in loaded_table.test.pass_probs] == exact_probs


def test_a_table_that_costs_more_than_it_claims_is_refused(tmp_path: Path) -> None:
    """A table is refused if its claimed divergence is lowered, or claimed for a larger Renyi order.

    Its file is refused if one probability in it is raised.
    """
    table = optimal_table(order=7.5, rdp_budget=1.5e-3, failure_prob=1e-9, adjacency="replace_one")
    with refused_parameter("rdp", value=ANY, rule_words="at least 0.0015"):
        replace(table, rdp=0.9 * table.rdp)
    for rdp, order in ((table.rdp, 8.0), (float(np.nextafter(table.rdp, 0.0)), table.order)):
        with refused_parameter("rdp", value=ANY, rule_words="what the table costs at order"):
            replace(table, rdp=rdp, order=order)
    table_path = tmp_path / "table.json"
    table.save(table_path)
    numerator = table.numerators[60]
    raised_text = table_path.read_text().replace(str(numerator), str(numerator + 2**40))
    table_path.write_text(raised_text)
    with refused_parameter("table", value=ANY, rule_words="at least"):
        CertifiedTable.load(table_path)


@pytest.mark.parametrize(("adjacency", "sensitivity"), [("replace_one", 2), ("add_remove", 1)])
@pytest.mark.parametrize("test_std", [0.7, 3.0, 100.0])
@pytest.mark.parametrize("noise_name", ["gaussian", "laplace"])
def test_pass_probabilities_equal_their_closed_form(
    noise_name: str, test_std: float, adjacency: Adjacency, sensitivity: int
) -> None:
    """The pass probabilities of a test are those of a noisy gap above a threshold, at most 1 - 2^-40.

    The noisy gap is max(`sensitivity`, gap) + noise, where `sensitivity` is the gap that one teacher can close. The
    threshold lies above `sensitivity` by an amount that the noise exceeds with the failure probability.
    """
    if noise_name == "gaussian":
        make_test = StabilityTest.gaussian
        noise = norm(scale=test_std)
    else:
        make_test = StabilityTest.laplace
        noise = laplace(scale=test_std / math.sqrt(2))
    test = make_test(test_std=test_std, adjacency=adjacency, failure_prob=1e-3, num_teachers=50)
    threshold = sensitivity + noise.isf(1e-3)
    raised_gaps = np.maximum(sensitivity, np.arange(51))
    expected_probs_by_gap = np.minimum(noise.sf(threshold - raised_gaps), 1 - 2.0**-40)
    np.testing.assert_allclose(test.pass_probs, expected_probs_by_gap, rtol=1e-9)


@dataclass(frozen=True)
class InvalidParameters:
    """The parameters of a stability test with noise, of which one is impossible.

    Attributes:
        invalid: the name of the impossible parameter.
        test_std: the standard deviation of the noise.
        failure_prob: the pass probability at gaps up to the sensitivity.
        num_teachers: the number of teachers.
        adjacency: the name of the adjacency.
    """

    invalid: str
    test_std: float = 1.0
    failure_prob: float = 1e-3
    num_teachers: int = 50
    adjacency: str = "replace_one"


INVALID_PARAMETERS = [
    InvalidParameters(invalid="test_std", test_std=0.0),
    InvalidParameters(invalid="failure_prob", failure_prob=0.0),
    InvalidParameters(invalid="failure_prob", failure_prob=1.0),
    InvalidParameters(invalid="num_teachers", num_teachers=0),
    InvalidParameters(invalid="adjacency", adjacency="swap"),
]
CERTIFIED_STABILITY_TABLE = CertifiedTable.from_test(TEST_OF_12_TEACHERS, order=3.0)


@pytest.mark.parametrize("parameters", INVALID_PARAMETERS, ids=str)
def test_gaussian_test_refuses_an_impossible_parameter(parameters: InvalidParameters) -> None:
    """`StabilityTest.gaussian` names the impossible parameter."""
    with refused_parameter(parameters.invalid, value=ANY):
        StabilityTest.gaussian(
            test_std=parameters.test_std,
            failure_prob=parameters.failure_prob,
            num_teachers=parameters.num_teachers,
            adjacency=parameters.adjacency,  # type: ignore[arg-type]
        )


@pytest.mark.parametrize("parameters", INVALID_PARAMETERS, ids=str)
def test_laplace_test_refuses_an_impossible_parameter(parameters: InvalidParameters) -> None:
    """`StabilityTest.laplace` names the impossible parameter."""
    with refused_parameter(parameters.invalid, value=ANY):
        StabilityTest.laplace(
            test_std=parameters.test_std,
            failure_prob=parameters.failure_prob,
            num_teachers=parameters.num_teachers,
            adjacency=parameters.adjacency,  # type: ignore[arg-type]
        )


@pytest.mark.parametrize(
    "pass_probs",
    [
        pytest.param((), id="none"),
        pytest.param((0.0, 0.0, 0.0, 1.5), id="above 1"),
        pytest.param((0.0, 0.0, 0.0, math.nan), id="NaN"),
        pytest.param((0.01, 0.0, 0.0, 0.5), id="decreasing"),
        pytest.param((0.0, 0.0, 0.02, 0.5), id="above failure_prob at the sensitivity"),
    ],
)
def test_impossible_pass_probabilities_are_refused(pass_probs: tuple[float, ...]) -> None:
    """Pass probabilities must be rising probabilities, at most `failure_prob` up to the sensitivity."""
    with refused_parameter("pass_probs", value=ANY):
        StabilityTest(pass_probs=pass_probs, failure_prob=0.01)


@pytest.mark.parametrize(
    ("invalid", "gap"), [("gaps[0]", 13), ("gaps[0]", -1), ("gaps.dtype", 1.5)]
)
def test_a_gap_that_no_votes_have_is_refused(invalid: str, gap: float) -> None:
    """A gap must be a whole number in 0..num_teachers."""
    with refused_parameter(invalid, value=ANY):
        TEST_OF_12_TEACHERS(np.array([gap]), rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("invalid", "order", "rdp_budget", "failure_prob", "num_levels"),
    [
        ("order", 1.0, 0.1, 1e-6, 5),
        ("order", math.inf, 0.1, 1e-6, 5),
        ("rdp_budget", 8.0, 0.0, 1e-6, 5),
        ("failure_prob", 8.0, 0.1, 1.0, 5),
        ("num_levels", 8.0, 0.1, 1e-6, 0),
    ],
)
def test_optimal_table_refuses_an_impossible_argument(
    invalid: str, order: float, rdp_budget: float, failure_prob: float, num_levels: int
) -> None:
    """`optimal_stability_table` names the impossible argument."""
    with refused_parameter(invalid, value=ANY):
        optimal_stability_table(
            order=order, rdp_budget=rdp_budget, failure_prob=failure_prob, num_levels=num_levels
        )


@pytest.mark.parametrize(
    ("invalid", "numerators"),
    [
        pytest.param("numerators", (0, 0, 0, 2**53), id="too large"),
        pytest.param("numerators", (0, 0, 0, -1), id="negative"),
        pytest.param("numerators", (0, 0, 0, 0.5), id="no whole number"),
        pytest.param("pass_probs", (1, 1, 1, 5, 4), id="decreasing"),
        pytest.param("pass_probs", (2**50,) * 4, id="above failure_prob at the sensitivity"),
        pytest.param("rdp", (0, 0, 0, 2**20), id="more costly than the claim"),
    ],
)
def test_certified_table_refuses_impossible_numerators(
    invalid: str, numerators: tuple[float, ...]
) -> None:
    """A certified table with other numerators is refused, by the name of the rule that they break."""
    with refused_parameter(invalid, value=ANY):
        replace(CERTIFIED_STABILITY_TABLE, numerators=numerators)


def test_certified_table_refuses_the_order_1() -> None:
    """The Renyi order of a certified table must exceed 1."""
    with refused_parameter("order", value=ANY):
        replace(CERTIFIED_STABILITY_TABLE, order=1.0)


def test_certified_table_refuses_an_unknown_adjacency() -> None:
    """The adjacency of a certified table must be a known one."""
    with refused_parameter("adjacency", value=ANY):
        replace(CERTIFIED_STABILITY_TABLE, adjacency="sideways")


def test_file_that_is_no_table_is_refused_in_one_line(tmp_path: Path) -> None:
    """`CertifiedTable.load` refuses a missing file, a file of other JSON, and a table with contradictory fields."""
    path = tmp_path / "table.json"
    with refused_parameter("table", value=ANY, rule_words="a file that"):
        CertifiedTable.load(path)
    CertifiedTable.from_test(TEST_OF_12_TEACHERS, order=3.0).save(path)
    values = json.loads(path.read_text())
    contradictions = [
        json.dumps(values | {key: 7}) for key in ("num_teachers", "format", "denominator")
    ]
    damaged = ["", "[]", "{}", "3", '{"format": "pate stability table", "order": 2}']
    for text in contradictions + damaged:
        path.write_text(text)
        with refused_parameter("table", value=ANY, rule_words="the JSON of") as refusal:
            CertifiedTable.load(path)
        assert "\n" not in str(refusal.value)
