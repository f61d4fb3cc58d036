"""Joint prices of a noisy selection and its stability test, their calibration, and the linear programs behind them."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog

from pate import accounting
from pate.accounting.event_tree import count_leaves
from pate.accounting.joint_law import joint_rdp
from pate.accounting.linear_programs import LinearPrograms, best_multipliers, row_prices
from pate.accounting.rdp import rdp_curve
from pate.aggregators import StableTopK
from pate.array_types import FloatArray
from tests.refusals import ANY, refused_parameter

DELTA = 1e-6
TEST = accounting.ApproximateEvent(
    event=accounting.OneBitEvent(logits=(-9.0, -3.0, 0.0, 3.0), reach=1), failure_prob=1e-9
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [accounting.JointLawAccountant, accounting.AutoAccountant])
def test_get_delta_works_just_above_the_failure_probability(
    kind: type[accounting.Accountant],
) -> None:
    """At large epsilons nearly all of delta is the failure probability of the tests.

    There `get_delta` lies between this probability and the Renyi accountant's delta, and agrees
    with `get_epsilon`.
    """
    aggregator = StableTopK(selection_scale=40.0, test_std=60.0)
    spent = kind().compose(aggregator.event_for(num_queries=100, num_labels=40, num_teachers=300))
    expected = accounting.RdpAccountant().compose(
        aggregator.event_for(num_queries=100, num_labels=40, num_teachers=300)
    )
    for epsilon in (4.0, 4.5, 5.0, 5.5, 50.0):
        delta = spent.get_delta(epsilon)
        assert (
            spent.failure_prob <= delta <= expected.get_delta(epsilon) < 1.001 * spent.failure_prob
        )
        if delta > spent.failure_prob:
            assert spent.get_epsilon(delta) <= epsilon


def test_other_accountants_add_selection_and_test() -> None:
    """The Renyi accountant prices a selection with a test as the two events in turn."""
    selection_and_test = (accounting.BoundedRangeEvent(epsilon=0.1), TEST)
    selection, test = selection_and_test
    event = accounting.SelectThenTestEvent(selection_and_test, num_candidates=4)
    together = accounting.RdpAccountant().compose(
        accounting.SelfComposedEvent(event=event, count=9)
    )
    in_turn = accounting.RdpAccountant().compose(selection, count=9).compose(test, count=9)
    assert together.get_epsilon(target_delta=DELTA) == in_turn.get_epsilon(target_delta=DELTA)


@pytest.mark.parametrize(
    ("range_epsilon", "logits"),
    [
        (1e-6, (-20.0, -10.0, 0.0, 10.0)),
        (60.0, (-20.0, -10.0, 0.0, 10.0)),
        (0.1, (-math.inf, -math.inf, 0.0, math.inf)),
    ],
)
@pytest.mark.parametrize("order", [1.0001, 3.0, 1e4])
def test_extreme_parameters_give_a_price(
    range_epsilon: float, logits: tuple[float, ...], order: float
) -> None:
    """For extreme epsilons or logits, the joint price of selection and test is between 0 and the Renyi accountant's."""
    test = accounting.ApproximateEvent(
        event=accounting.OneBitEvent(logits=logits, reach=1), failure_prob=1e-9
    )
    event = accounting.SelectThenTestEvent(
        events=(accounting.BoundedRangeEvent(range_epsilon), test), num_candidates=3
    )
    assert joint_rdp(event, order) >= 0
    epsilon = (
        accounting.JointLawAccountant().compose(event, count=100).get_epsilon(target_delta=1e-5)
    )
    assert (
        0
        <= epsilon
        <= accounting.RdpAccountant().compose(event, count=100).get_epsilon(target_delta=1e-5)
    )


@pytest.mark.parametrize("num_teachers", [1, 2, 3])
@pytest.mark.parametrize("scale", [1e-4, 0.01, 1.0])
def test_few_teachers_and_little_noise_give_a_price(num_teachers: int, scale: float) -> None:
    """The joint price of a release by 1 to 3 teachers with little noise is between 0 and the Renyi accountant's."""
    event = StableTopK(selection_scale=scale, test_std=scale).event_for(
        num_queries=100, num_labels=4, num_teachers=num_teachers
    )
    joint, parts = (
        kind().compose(event).get_epsilon(target_delta=DELTA)
        for kind in (accounting.JointLawAccountant, accounting.RdpAccountant)
    )
    assert 0 <= joint <= parts


@pytest.mark.slow
def test_get_delta_searches_far_from_the_renyi_order() -> None:
    """`get_delta` inverts `get_epsilon` within 20% where the joint price needs a distant Renyi order.

    The best Renyi order of the joint price is then far from the best Renyi order of the sum of both prices.
    """
    spent = accounting.JointLawAccountant().compose(
        StableTopK(selection_scale=17.13, test_std=15.46).event_for(
            num_queries=600, num_labels=10, num_teachers=50
        )
    )
    assert spent.get_delta(spent.get_epsilon(target_delta=1e-3)) == pytest.approx(1e-3, rel=0.2)


@pytest.mark.parametrize("lowest", [-1000.0, -709.0])
def test_denormal_passing_probabilities_cost_the_sum_of_parts(lowest: float) -> None:
    """If passing probabilities grow by e^50 from gap to gap, the joint divergence is the sum of both divergences.

    The log odds of passing begin at `lowest`. The sum is that of the Renyi divergences of the selection and of the
    test, compared at two Renyi orders.
    """
    logits = tuple(lowest + 50.0 * gap for gap in range(7))
    test = accounting.OneBitEvent(logits=logits, reach=2)
    event = accounting.SelectThenTestEvent(
        events=(
            accounting.BoundedRangeEvent(epsilon=0.1),
            accounting.ApproximateEvent(event=test, failure_prob=1e-9),
        ),
        num_candidates=2,
    )
    for order in (2.0, 40.0):
        parts = float(rdp_curve(count_leaves(event), orders=np.array([order]))[0])
        assert (
            joint_rdp(event, order)
            == parts
            >= bit_rdp(logit=logits[2], other=logits[1], order=order)
        )


def bit_rdp(logit: float, other: float, order: float) -> float:
    """Returns the Renyi divergence between bits with the logits `logit` and `other`, in mpmath."""
    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(logit)))
        q = 1 / (1 + mpmath.exp(-mpmath.mpf(other)))
        moment = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
        return float(mpmath.log(moment) / (order - 1))


def random_programs(
    rng: np.random.Generator, *, value_scale: float, num_programs: int
) -> LinearPrograms:
    """Returns `num_programs` random linear programs with 60 types and four rows each.

    The rows are sums of shared arrays with weights of each program. The values are a shared array plus values of each
    program, all scaled by `value_scale`.
    """
    shared_terms = np.vstack(
        [
            rng.random(size=60),
            [1.0, -1.0, *rng.normal(size=58)],
            rng.normal(size=(3, 60)) - 0.2,
            np.ones(60),
        ]
    )
    term_weights = np.concatenate([np.eye(5, 6)[None]] * num_programs)
    term_weights[:, 0, 0] = value_scale
    term_weights[:, 2:, 5] = -0.1 * rng.random(size=(num_programs, 3))
    added_values = value_scale * rng.random(size=(num_programs, 60))
    magnitude_bounds = np.abs(term_weights) @ np.abs(shared_terms).max(axis=1)
    magnitude_bounds[:, 0] += added_values.max(axis=1)
    return LinearPrograms(
        shared_terms=shared_terms,
        term_weights=term_weights,
        magnitude_bounds=magnitude_bounds,
        added_values=added_values,
    )


def exact_remainders(programs: LinearPrograms, dual_multipliers: FloatArray) -> FloatArray:
    """Returns the result of `LinearPrograms.remainders`, computed in fractions, `[num_programs, num_types]`."""
    to_fractions = np.vectorize(Fraction, otypes=[object])
    weights_of_programs = to_fractions(programs.term_weights)
    shared_terms = to_fractions(programs.shared_terms)
    added_values = to_fractions(programs.added_values)
    programs_of = zip(
        added_values, weights_of_programs, to_fractions(dual_multipliers), strict=True
    )
    return np.stack(
        [
            value + weights[0] @ shared_terms - dual_multiplier @ (weights[1:] @ shared_terms)
            for value, weights, dual_multiplier in programs_of
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("value_scale", [1e-6, 1.0, 1e8])
def test_bounds_of_linear_programs_are_rounded_up(value_scale: float) -> None:
    """The bound of each of 40 random linear programs is at least the value in fractions, and at most 1e-9 more.

    Plain double precision is below the exact value for some of them.
    """
    programs = random_programs(np.random.default_rng(0), value_scale=value_scale, num_programs=40)
    dual_multipliers, attained = best_multipliers(programs)
    remainders = programs.remainders(dual_multipliers)
    bounds = programs.bounds(dual_multipliers, remainders_by_program_and_type=remainders)
    exact = exact_remainders(programs, dual_multipliers).max(axis=1)
    for value, bound in zip(exact, bounds, strict=True):
        assert value <= Fraction(bound) <= value * Fraction(1 + 1e-9)
    assert (attained <= bounds * (1 + 1e-9)).all()
    assert (attained >= bounds * (1 - 1e-4)).all(), "the multipliers are good"
    rounded_values = remainders.max(axis=1)
    assert any(
        Fraction(rounded) < value for value, rounded in zip(exact, rounded_values, strict=True)
    ), "plain double precision is below the exact value for some programs"


def test_a_bound_beyond_double_precision_is_infinite() -> None:
    """A linear program with an infinite value or a nan has an infinite bound.

    A valid program beside two such programs keeps its finite bound.
    """
    added_values = np.array([[1.0, np.inf], [1.0, np.nan], [1.0, 2.0]])
    magnitude_bounds = np.array([[np.inf, 1.0], [np.nan, 1.0], [2.0, 1.0]])
    programs = LinearPrograms(
        shared_terms=np.array([[1.0, -1.0]]),
        term_weights=np.array([[[0.0], [1.0]]] * 3),
        magnitude_bounds=magnitude_bounds,
        added_values=added_values,
    )
    dual_multipliers, attained = best_multipliers(programs)
    assert dual_multipliers[:2].ravel().tolist() == attained[:2].ravel().tolist() == [0.0, 0.0]
    zero_multipliers = np.zeros((3, 1))
    assert programs.bounds(zero_multipliers, programs.remainders(zero_multipliers)).tolist() == [
        np.inf,
        np.inf,
        pytest.approx(2.0),
    ]


PENALTY = 20.0


def largest_mean(values: FloatArray, constraint_rows: FloatArray) -> float:
    """Returns the largest mean of `values` over all distributions that satisfy the rows, by SciPy's solver.

    The mean of the first row must be 0, and the means of the other rows must be at most 0. A violation costs
    `PENALTY` for each unit.
    """
    violations = np.hstack([-np.eye(len(constraint_rows)), np.eye(len(constraint_rows))[:, :1]])
    costs = np.concatenate([-values, np.full(violations.shape[1], PENALTY)])
    rows_with_violations = np.hstack([constraint_rows, violations])
    row_of_sum = np.concatenate([np.ones(len(values)), np.zeros(violations.shape[1])])
    solution = linprog(
        costs,
        A_ub=rows_with_violations[1:],
        b_ub=np.zeros(len(constraint_rows) - 1),
        A_eq=np.stack([rows_with_violations[0], row_of_sum]),
        b_eq=[0.0, 1.0],
    )
    assert solution.status == 0
    return -float(solution.fun)


def bound_of_prices(
    values: FloatArray, constraint_rows: FloatArray, dual_prices: FloatArray
) -> float:
    """Returns the upper bound, by dual prices, on the mean of `values` over all distributions that satisfy the rows.

    The last of the dual prices, `[num_constraints + 1]`, is not used.
    """
    return float((values - dual_prices[:-1] @ constraint_rows).max())


@pytest.mark.slow
@pytest.mark.parametrize("num_constraints", [1, 2, 6])
@pytest.mark.parametrize("num_types", [1, 2, 30, 300])
def test_the_optimum_agrees_with_the_solver_of_scipy(num_constraints: int, num_types: int) -> None:
    """`row_prices` of 40 random linear programs has the optimum of SciPy's solver, and dual prices that prove it.

    A program has `num_constraints` rows, some of which are all zeros, and one variable for each of `num_types` types.
    """
    rng = np.random.default_rng(num_constraints)
    values_by_program = rng.uniform(low=-1, high=1, size=(40, num_types))
    constraint_rows_by_program = rng.uniform(low=-1, high=1, size=(40, num_constraints, num_types))
    is_kept = rng.random(size=(40, num_constraints, 1)) < 0.9  # the other rows are all zeros
    constraint_rows_by_program = constraint_rows_by_program * is_kept
    for values_of_program, constraint_rows_of_program, dual_prices in zip(
        values_by_program,
        constraint_rows_by_program,
        row_prices(values_by_program, constraint_rows_by_program),
        strict=True,
    ):
        expected_optimum = largest_mean(
            values_of_program, constraint_rows=constraint_rows_of_program
        )
        assert dual_prices[-1] == pytest.approx(expected_optimum, abs=1e-5)
        assert bound_of_prices(
            values=values_of_program,
            constraint_rows=constraint_rows_of_program,
            dual_prices=dual_prices,
        ) == pytest.approx(expected_optimum, abs=1e-5)
        assert (dual_prices[1:-1] >= -1e-9).all()
        assert np.abs(dual_prices[:-1]).max() <= PENALTY * (1 + 1e-9)


@pytest.mark.parametrize(
    ("name", "events", "num_candidates"),
    [
        ("events", (), 4),
        ("events", (TEST,), 4),
        ("events", (TEST, accounting.BoundedRangeEvent(epsilon=0.1)), 4),
        ("events", (accounting.GaussianEvent(noise_multiplier=1.0), TEST), 4),
        (
            "events",
            (
                accounting.BoundedRangeEvent(epsilon=0.1),
                accounting.ApproximateEvent(
                    event=accounting.GaussianEvent(noise_multiplier=1.0), failure_prob=1e-9
                ),
            ),
            4,
        ),
        ("num_candidates", (accounting.BoundedRangeEvent(epsilon=0.1), TEST), 1),
    ],
)
def test_select_then_test_refuses_other_events(
    name: str, events: tuple[accounting.Event, ...], num_candidates: int
) -> None:
    """`SelectThenTestEvent` takes a selection of bounded range and a noisy bit, for 2 or more candidates.

    Other events or one candidate are refused with an error about the parameter `name`.
    """
    with refused_parameter(name, value=ANY):
        accounting.SelectThenTestEvent(events, num_candidates)
