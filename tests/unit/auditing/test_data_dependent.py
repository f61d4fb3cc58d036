"""Data-dependent costs: what refuses them, their closed forms, their smooth sensitivity, and refused arguments."""

import math
from collections.abc import Callable
from itertools import product
from pathlib import Path

import mpmath
import numpy as np
import pytest

from pate import accounting
from pate.accounting.event_json import event_to_json
from pate.accounting.events import Event
from pate.accounting.rdp import rdp_curve_of
from pate.array_types import FloatArray, IntArray
from pate.auditing.data_dependent import (
    DataDependentCost,
    gap_selection_cost,
    gnmax_cost,
    one_bit_cost,
)
from pate.auditing.gap_selection_divergence import log_odds_of_best_candidate
from pate.auditing.gnmax_divergence import gnmax_rdp, theorem_6_rdp
from pate.auditing.smooth_sensitivity import gnmax_smooth_sensitivity
from pate.files.strict_json import to_json
from pate.validation import InvalidValue
from tests.refusals import refused_parameter

ORDERS = np.array([1.05, 2.0, 8.0, 64.0, 4096.0])
BIT_EVENT = accounting.OneBitEvent(logits=(-5.0, -3.0, 0.0, 2.0, 2.5), reach=2)
DATA_DEPENDENT_COST = DataDependentCost(ORDERS, rdp=np.arange(5.0))
NOT_FINITE = (math.nan, math.inf, -math.inf)


def test_a_ledger_refuses_a_cost_and_writes_nothing(tmp_path: Path) -> None:
    """A data-dependent cost is secret: a ledger refuses to charge it, and its file stays unchanged."""
    ledger = accounting.Ledger(tmp_path / "ledger.db", target_delta=1e-6)
    before = (tmp_path / "ledger.db").read_bytes()
    with refused_parameter("event", value="DataDependentCost"):
        ledger.charge(DATA_DEPENDENT_COST, adjacency=ledger.adjacency, key="a")
    assert ledger.entries == []
    assert (tmp_path / "ledger.db").read_bytes() == before


def test_a_candidate_certain_in_floats_still_costs_at_large_orders() -> None:
    """If all other candidates together have probability e^-1000, the cost is negligible at Renyi order 8.

    At Renyi order 1e6, which multiplies this probability by e^1e5, the cost is large.
    """
    rdp_of_orders = gap_selection_cost(
        utilities=np.array([[1000.0, 0.0]]),
        event=accounting.BoundedRangeEvent(epsilon=0.1),
        orders=[8.0, 1e6],
    ).rdp
    assert rdp_of_orders[0] < 1e-200
    assert rdp_of_orders[1] == pytest.approx((1e5 - 1000) / 1e6, rel=1e-3)


def test_a_bit_that_is_certain_somewhere_costs_infinity_only_within_reach() -> None:
    """A query whose bit is certain costs infinity only if one change of the votes can make the bit random.

    The bit is certain at counts 0 to 2 and random at counts 3 and 4; one change moves a count by 1. So the cost is
    infinite at counts 2 and 3. The cost is 0 at counts 0 and 1, whose neighbors have the same certain bit, and below 1
    at count 4.
    """
    event = accounting.OneBitEvent(logits=(-np.inf, -np.inf, -np.inf, 0.0, 1.0), reach=1)
    rdp_of_counts = [
        one_bit_cost(statistics=np.array([count]), event=event, orders=[2.0]).rdp[0]
        for count in range(5)
    ]
    assert rdp_of_counts[:2] == [0.0, 0.0]
    assert np.isposinf(rdp_of_counts[2:4]).all()
    assert 0 < rdp_of_counts[4] < 1


@pytest.mark.parametrize(
    "use_as_event",
    [
        lambda cost: accounting.RdpAccountant().compose(cost),
        lambda cost: accounting.ExactAccountant().compose(cost),
        lambda cost: event_to_json(cost),
        lambda cost: accounting.SelfComposedEvent(cost, count=2),
        lambda cost: accounting.ApproximateEvent(cost, failure_prob=1e-9),
        lambda cost: accounting.ComposedEvent((cost,)),
    ],
)
def test_nothing_takes_a_cost_for_an_event(
    use_as_event: Callable[[DataDependentCost], object],
) -> None:
    """Accountants, composed events and `event_to_json` refuse a data-dependent cost in place of an event."""
    assert not isinstance(DATA_DEPENDENT_COST, Event)
    with pytest.raises(InvalidValue, match=r"^events?=DataDependentCost: expected an event"):
        use_as_event(DATA_DEPENDENT_COST)


def test_a_cost_has_no_json_form() -> None:
    """`to_json` raises a TypeError for a data-dependent cost."""
    with pytest.raises(TypeError, match="no JSON form"):
        to_json(dataclass_object=DATA_DEPENDENT_COST)


def test_a_cost_adds_to_no_number() -> None:
    """A data-dependent cost plus a number raises a TypeError."""
    with pytest.raises(TypeError, match="unsupported operand"):
        DATA_DEPENDENT_COST + 1.0


def test_a_cost_cannot_be_changed() -> None:
    """The array of divergences of a data-dependent cost is read-only."""
    with pytest.raises(ValueError, match="read-only"):
        DATA_DEPENDENT_COST.rdp[0] = 0.0


def test_the_price_is_returned_where_no_bound_on_q_applies() -> None:
    """`gnmax_rdp` and `theorem_6_rdp` return the data-independent price of GNMax if no data-dependent bound is below.

    Both functions take log q, where q is the probability that the release is not the likeliest label. For a tiny q,
    `gnmax_rdp` returns at most this price.
    """
    orders = np.array([1.5, 2e4])
    curves = gnmax_rdp(log_q=np.array([0.0, -1e-13, -1e9]), noise_std=1e7, orders=orders)
    np.testing.assert_array_equal(curves[:2], [orders / 1e14] * 2)
    assert (curves[2] <= orders / 1e14).all()
    paper = theorem_6_rdp(np.log([0.6, 0.3]), noise_std=2.0, orders=[2.0, 50.0])
    np.testing.assert_array_equal(paper, [[0.5, 12.5]] * 2)


@pytest.mark.slow
@pytest.mark.parametrize("std", [2.0, 30.0])
def test_bound_equals_the_formula_of_the_proof(std: float) -> None:
    """The Renyi curve of GNMax at random q equals the formula of the proof in 60 digits, at every Renyi order.

    The formula has a sharper case under conditions on derivatives, which the reference checks. The release is not the
    likeliest label with probability q.
    """
    rng = np.random.default_rng(1)
    log_q = -rng.uniform(low=0.3, high=60, size=40)
    orders = 1 + np.r_[rng.exponential(scale=10, size=12), 0.01, 150.0]
    rdp_of_code = gnmax_rdp(log_q, noise_std=std, orders=orders)
    rdp_of_proof = np.array(
        [[float(bound_of_proof(log_q=value, std=std, order=a)) for a in orders] for value in log_q]
    )
    np.testing.assert_allclose(rdp_of_code, rdp_of_proof, rtol=1e-9, atol=1e-13)


def bound_of_proof(log_q: float, std: float, order: float) -> mpmath.mpf:
    """Returns the proof's bound on the Renyi divergence of GNMax at Renyi order `order`, in 60 digits.

    `log_q` is the logarithm of the probability that the release is not the likeliest label.
    """
    with mpmath.workdps(60):
        x = mpmath.sqrt(-mpmath.mpf(log_q))
        s = mpmath.mpf(std)
        order = mpmath.mpf(order)
        if order >= s * x:
            return order / s**2
        q, h, g = (mpmath.exp(-(y**2)) for y in (x, x - 1 / s, x + 1 / s))
        m = mpmath.exp(-(x**2) + 2 * order * x / s - order / s**2)
        dh = h / q * (1 - 1 / (s * x))
        dg = g / q * (1 + 1 / (s * x))
        dm = m / q * (1 - order / (s * x))
        moment_of_likeliest = (1 - h) ** (1 - order)
        if dh >= 1 >= dg and dm >= max((1 - q) / (1 - h), (1 - g) / (1 - q)) ** (order - 1):
            sharper = max(
                (1 - q) ** order * (1 - h) ** (1 - order), (1 - g) ** order * (1 - q) ** (1 - order)
            )
            moment_of_likeliest = min(moment_of_likeliest, sharper)
        return min(mpmath.log(moment_of_likeliest + m) / (order - 1), order / s**2)


def histograms_and_neighbors(
    num_teachers: int, num_classes: int
) -> tuple[IntArray, list[list[int]]]:
    """Returns all histograms with one vote per teacher, and for each the indices of those where one vote is moved."""
    histograms = [
        histogram
        for histogram in product(range(num_teachers + 1), repeat=num_classes)
        if sum(histogram) == num_teachers
    ]
    index_of_histogram = {histogram: i for i, histogram in enumerate(histograms)}
    moves = [
        move
        for move in product((-1, 0, 1), repeat=num_classes)
        if sorted(move) == [-1, *[0] * (len(move) - 2), 1]
    ]
    neighbors = [
        [tuple(np.add(histogram, move).tolist()) for move in moves] for histogram in histograms
    ]
    return np.array(histograms), [
        [
            index_of_histogram[histogram]
            for histogram in neighbors_of_one
            if histogram in index_of_histogram
        ]
        for neighbors_of_one in neighbors
    ]


@pytest.mark.parametrize("beta", [0.05, 0.4])
@pytest.mark.parametrize("std", [1.2, 3.0])
@pytest.mark.parametrize(("num_teachers", "num_classes"), [(12, 2), (8, 3), (5, 4)])
def test_smooth_sensitivity_covers_the_local_one_and_is_smooth(
    num_teachers: int, num_classes: int, std: float, beta: float
) -> None:
    """The smooth sensitivity of the GNMax cost is at least the largest change of the cost by one
    teacher, for all possible votes.

    The smooth sensitivities of neighboring votes differ by at most a factor of exp(beta).
    """
    histograms, neighbor_indices = histograms_and_neighbors(
        num_teachers=num_teachers, num_classes=num_classes
    )
    rdp_of_histograms = np.array(
        [
            gnmax_cost(
                votes=histogram[None], orders=2.0, noise_std=std, num_teachers=num_teachers
            ).rdp[0]
            for histogram in histograms
        ]
    )
    local_sensitivities = np.array(
        [
            np.abs(rdp_of_histograms[i] - rdp_of_histograms[indices]).max()
            for i, indices in enumerate(neighbor_indices)
        ]
    )
    smooth_sensitivities = np.array(
        [
            gnmax_smooth_sensitivity(
                votes=histogram[None],
                order=2.0,
                beta=beta,
                noise_std=std,
                num_teachers=num_teachers,
            )
            for histogram in histograms
        ]
    )
    assert (local_sensitivities <= smooth_sensitivities).all()
    assert max(
        (smooth_sensitivities[i] / smooth_sensitivities[indices]).max()
        for i, indices in enumerate(neighbor_indices)
    ) <= math.exp(beta) * (1 + 1e-12)


def normal_divergences(multiplier: float, beta: float, order: float) -> FloatArray:
    """Returns the Renyi divergence between two normal distributions at each of 2001 ratios of their variances.

    The ratios go from exp(-2 beta) to exp(2 beta), evenly in their logarithm. The means differ by the smaller standard
    deviation divided by `multiplier`.
    """
    # The ratio of the second variance to the first.
    log_variance_ratio = np.linspace(-2 * beta, 2 * beta, 2001)
    variance_ratio = np.exp(log_variance_ratio)
    shift = np.minimum(1.0, np.sqrt(variance_ratio)) / multiplier
    mixed_variance = order * variance_ratio + (1 - order)
    moment = 0.5 * order * np.log(variance_ratio) - 0.5 * np.log(mixed_variance)
    return np.asarray(order * shift**2 / (2 * mixed_variance) + moment / (order - 1))


@pytest.mark.parametrize(
    ("order", "multiplier", "beta"),
    [(8, 5, 0.06125), (20, 10, 0.0245), (4, 2, 0.01), (1.5, 3, 0.3)],
)
def test_smooth_noise_costs_the_worst_divergence_of_normals(
    order: float, multiplier: float, beta: float
) -> None:
    """The price of smooth-sensitivity noise is the largest Renyi divergence between two normals.

    Their variances differ by a factor of at most exp(2 beta). The price is at most a looser bound in closed
    form.
    """
    price = rdp_curve_of(accounting.SmoothSensitivityEvent(multiplier, beta))(
        np.array([float(order)])
    )[0]
    assert price == pytest.approx(
        normal_divergences(multiplier=multiplier, beta=beta, order=order).max(), rel=1e-9
    )
    ab = order * beta
    looser_bound = order / (2 * multiplier**2 * (1 - 2 * ab)) + (
        ab - 0.5 * math.log(1 - 2 * ab)
    ) / (order - 1)
    assert price <= looser_bound


def cost_at_order_2(rdp: float, failure_prob: float = 0.0) -> DataDependentCost:
    """Returns a data-dependent cost with one divergence, at Renyi order 2."""
    return DataDependentCost(orders=np.array([2.0]), rdp=np.array([rdp]), failure_prob=failure_prob)


def gnmax_cost_of_five_teachers(votes: list, noise_std: float = 1.0) -> DataDependentCost:
    """Returns the data-dependent cost of GNMax for the votes of 5 teachers at Renyi order 2."""
    return gnmax_cost(votes=np.array(votes), noise_std=noise_std, num_teachers=5, orders=2.0)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("orders", lambda: DataDependentCost(orders=np.array([1.0]), rdp=np.array([0.1]))),
        ("rdp.shape", lambda: DataDependentCost(orders=np.array([2.0]), rdp=np.array([0.1, 0.2]))),
        ("rdp", lambda: cost_at_order_2(rdp=-0.1)),
        ("rdp", lambda: cost_at_order_2(rdp=math.nan)),
        ("failure_prob", lambda: cost_at_order_2(rdp=0.1, failure_prob=1.0)),
        (
            "orders",
            lambda: DATA_DEPENDENT_COST + DataDependentCost(orders=ORDERS + 1, rdp=np.ones(5)),
        ),
        (
            "utilities.shape",
            lambda: gap_selection_cost(
                utilities=np.zeros(3),
                event=accounting.BoundedRangeEvent(epsilon=1.0),
                orders=ORDERS,
            ),
        ),
        ("utilities.shape", lambda: log_odds_of_best_candidate(utilities=np.zeros((2, 1)))),
        (
            "statistics[0]",
            lambda: one_bit_cost(statistics=np.array([5]), event=BIT_EVENT, orders=ORDERS),
        ),
        ("votes.shape", lambda: gnmax_cost_of_five_teachers(votes=[[5]])),
        ("votes.shape", lambda: gnmax_cost_of_five_teachers(votes=[5, 0])),
        ("votes[0].sum", lambda: gnmax_cost_of_five_teachers(votes=[[3, 3]])),
        ("votes[0, 0]", lambda: gnmax_cost_of_five_teachers(votes=[[6, -1]])),
        ("noise_std", lambda: gnmax_cost_of_five_teachers(votes=[[5, 0]], noise_std=0)),
    ],
)
def test_impossible_costs_are_refused(name: str, make: Callable[[], object]) -> None:
    """`make` computes a cost from one impossible argument, and the error is about the parameter `name`."""
    with pytest.raises(InvalidValue, match=": expected ") as caught:
        make()
    assert caught.value.name == name


@pytest.mark.parametrize("target_delta", [0.0, 1.0, 1.005, -1e-5, math.nan])
def test_a_delta_beyond_0_to_1_is_refused(target_delta: float) -> None:
    """A cost with a failure probability refuses deltas outside of (0, 1), as accountants do."""
    cost = cost_at_order_2(rdp=0.1, failure_prob=0.01)
    with refused_parameter("target_delta", value=target_delta, rule_words="a number in (0"):
        cost.epsilon(target_delta)


@pytest.mark.parametrize("target_delta", [0.005, 0.01])
def test_a_delta_that_failures_use_up_is_refused_as_by_accountants(target_delta: float) -> None:
    """If the failure probability is `target_delta` or more, the error of a cost is that of an accountant."""
    accountant = accounting.RdpAccountant().compose(
        accounting.ApproximateEvent(
            accounting.GaussianEvent(noise_multiplier=1.0), failure_prob=0.01
        )
    )
    messages = []
    for get_epsilon in (
        cost_at_order_2(rdp=0.1, failure_prob=0.01).epsilon,
        accountant.get_epsilon,
    ):
        with refused_parameter("failure_prob") as caught:
            get_epsilon(target_delta)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_utilities_that_are_not_finite_are_refused(bad: float) -> None:
    """`log_odds_of_best_candidate` refuses nan and infinite utilities by their position."""
    with refused_parameter("utilities[1, 1]"):
        log_odds_of_best_candidate(utilities=np.array([[0.0, 1.0], [2.0, bad]]))
