"""The verifier refutes no price of the cases in `shipped.py`, in which exported classes with a price have a case.

Only classes without an exact distribution have none, and `shipped.py` lists them with the reasons.
"""

import inspect
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from pate import aggregators, mechanisms
from pate.accounting import (
    Accountant,
    Adjacency,
    BoundedRangeEvent,
    Event,
    ExactAccountant,
    PldAccountant,
)
from pate.accounting.event_tree import failure_probability
from pate.aggregators import Aggregator, GaussianVotes, StableFixedTopK
from pate.array_types import IntArray
from pate.mechanisms import (
    CanonicalTopK,
    GapSelection,
    JointTopK,
    LimitedDomainTopK,
    OneShotTopK,
    PeelingTopK,
    StabilityTest,
    optimal_stability_table,
)
from pate.mechanisms.gap_selection import SELECTION_NOISES
from pate.testing import Claim, Verdict, all_histograms, verify
from tests.privacy.case import (
    Case,
    Distribution,
    Size,
    SmallInstance,
    by_rank,
    pairs_of_laws,
    without_failure,
)
from tests.privacy.divergences import (
    ORDERS,
    assert_covered,
    assert_refuted,
    largest_log_ratio,
    largest_range,
    largest_renyi,
    price_curve,
)
from tests.privacy.rival_distributions import (
    bits_distribution,
    gap_selection_distribution,
    released_set,
    stable_fixed_top_k_distribution,
    stable_top_k_distribution,
)
from tests.privacy.shipped import CASES, WITHOUT_DISTRIBUTION

ADJACENCIES = tuple(Adjacency)
# A case that attains this share of its price is refuted at 80% of it.
REFUTED_TIGHTNESS = 0.9
SMALLER_SIZES = [
    *(
        Size(num_labels=num_labels, num_teachers=num_teachers)
        for num_labels in (1, 2, 3)
        for num_teachers in (1, 2, 4, 6)
    ),
    Size(num_labels=4, num_teachers=1),
    Size(num_labels=4, num_teachers=3),
]


def for_cases(cases: Sequence[Case]) -> pytest.MarkDecorator:
    """Returns the mark that runs a test for each of these cases, with the name of the case as id."""
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


every_case = for_cases(CASES)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)


def verdict_of(
    case: Case,
    small_instance: SmallInstance,
    *,
    neighbors: Adjacency | None = None,
    claim: Claim | None = None,
) -> Verdict:
    """Returns the verdict on the price of a case, or on another claim about it.

    Args:
        case: the mechanism or aggregator.
        small_instance: the adjacency of the price, and the numbers of labels and teachers.
        neighbors: the adjacency of the compared histograms; None for that of the price.
        claim: None for the price of the case.
    """
    if claim is None:
        claim = price_of(case.event(case.mechanism_for(small_instance), small_instance))
    return verify(
        ranked_distribution(case, small_instance),
        num_labels=small_instance.num_labels,
        num_teachers=small_instance.num_teachers,
        adjacency=neighbors or small_instance.adjacency,
        event=claim,
        symmetric=True,
    )


@cache  # Most cases have one event for small instances of all sizes.
def price_of(event: Event) -> Claim:
    """Returns the price of an event, at the orders, epsilons and deltas of `verify`."""
    return Claim.from_event(event)


def ranked_distribution(case: Case, small_instance: SmallInstance) -> Any:
    """Returns a function from histograms to distributions, which computes that of each sorted histogram once."""
    mechanism = case.mechanism_for(small_instance)

    def distribution(histogram: IntArray) -> Mapping[Any, float]:
        return case.distribution(mechanism, histogram, small_instance)

    return by_rank(distribution, case.relabel_outcome)


@pytest.mark.slow
@every_case
@every_adjacency
def test_price_holds_on_the_largest_instance(adjacency: Adjacency, case: Case) -> None:
    """The exact divergences of a case stay within its price on all neighbors of its largest instance.

    Some divergence reaches the share `tightness` of the price.
    """
    verdict = verdict_of(case, small_instance=case.largest_instance(adjacency)).require()
    assert verdict.sound
    assert case.tightness <= verdict.ratio <= 1 + 1e-9


@pytest.mark.slow
@for_cases([case for case in CASES if case.epsilon == 4.0])
@every_adjacency
def test_no_log_ratio_is_above_epsilon(adjacency: Adjacency, case: Case) -> None:
    """For cases of epsilon 4, probabilities on neighbors differ by at most the factor exp(4), outside of failures.

    For cases that attain 90% of their price, the factor exp(3.2) is refuted.
    """
    small_instance = SmallInstance(
        adjacency,
        num_labels=case.largest_size.num_labels,
        num_teachers=min(3, case.largest_size.num_teachers),
    )
    failure = failure_probability(case.event(case.mechanism_for(small_instance), small_instance))
    assert verdict_of(case, small_instance, claim=Claim(deltas=((4.0, failure + 1e-12),))).sound
    if case.tightness >= REFUTED_TIGHTNESS:
        assert verdict_of(
            case, small_instance, claim=Claim(deltas=((0.8 * 4.0, 0.9 * failure),))
        ).refuted


@pytest.mark.slow
@every_case
@every_adjacency
def test_price_holds_on_smaller_instances(adjacency: Adjacency, case: Case) -> None:
    """The price of a case holds on all neighbors of instances of up to 4 labels and 6 teachers."""
    for size in SMALLER_SIZES:
        if size.num_labels >= case.min_labels and size <= case.largest_size:
            small_instance = SmallInstance(
                adjacency, num_labels=size.num_labels, num_teachers=size.num_teachers
            )
            assert verdict_of(case, small_instance).require().sound


@for_cases([case for case in CASES if case.replace_one_refuted_at_size])
def test_add_remove_price_is_refuted_under_replace_one(case: Case) -> None:
    """The price of a case for add-remove holds on add-remove neighbors.

    Negative control: on replace-one neighbors the same price is refuted.
    """
    assert case.replace_one_refuted_at_size is not None
    num_labels, num_teachers = case.replace_one_refuted_at_size
    small_instance = SmallInstance(
        Adjacency.ADD_REMOVE, num_labels=num_labels, num_teachers=num_teachers
    )
    laws: dict[tuple[int, ...], Distribution] = {}

    def compute_law_once(
        mechanism: Any, histogram: IntArray, small_instance: SmallInstance
    ) -> Distribution:
        """Returns the distribution of the case on a histogram, computed once for the verdicts of both adjacencies."""
        counts = tuple(histogram.tolist())
        if counts not in laws:
            laws[counts] = case.distribution(mechanism, histogram, small_instance)
        return laws[counts]

    case_with_cached_laws = replace(case, distribution=compute_law_once)
    assert verdict_of(case_with_cached_laws, small_instance).sound
    assert verdict_of(
        case_with_cached_laws, small_instance, neighbors=Adjacency.REPLACE_ONE
    ).refuted


@for_cases([case for case in CASES if case.failure_reached_at_size])
@every_adjacency
def test_a_failure_10_percent_too_small_is_refuted(adjacency: Adjacency, case: Case) -> None:
    """The failure probability of a case is a valid delta at the epsilon of the case, and 90% of it is refuted.

    If the case has no epsilon, this holds at epsilon 50.
    """
    assert case.failure_reached_at_size is not None
    num_labels, num_teachers = case.failure_reached_at_size
    small_instance = SmallInstance(adjacency, num_labels=num_labels, num_teachers=num_teachers)
    failure_prob = failure_probability(
        case.event(case.mechanism_for(small_instance), small_instance)
    )
    epsilon = 50.0 if case.epsilon is None else case.epsilon
    for factor in (1.0, 0.9):
        claim = Claim(deltas=((epsilon, factor * failure_prob),))
        assert verdict_of(case, small_instance, claim=claim).refuted == (factor < 1)


@pytest.mark.parametrize("accountant_class", [ExactAccountant, PldAccountant])
@for_cases([case for case in CASES if case.is_sharply_priced])
@every_adjacency
def test_prices_of_sharper_accountants_hold_and_are_nearly_attained(
    adjacency: Adjacency, case: Case, accountant_class: type[Accountant]
) -> None:
    """The exact and the PLD accountant's price of one release hold on all pairs, and over 80% of them are attained.

    For three releases, only the worst pair is compared. This pair does not refute the price, and attains over 60% of
    it.
    """
    small_instance = SmallInstance(adjacency, num_labels=3, num_teachers=3)
    once, thrice = (
        verify(
            ranked_distribution(case, small_instance),
            event=case.event(case.mechanism_for(small_instance), small_instance),
            num_labels=3,
            num_teachers=3,
            adjacency=adjacency,
            symmetric=True,
            count=count,
            accountant=accountant_class,
            orders=(),
            epsilons=(0.5, 2.0),
            deltas=(1e-3,),
        )
        for count in (1, 3)
    )
    assert once.require().sound
    # Of several releases only the worst pair is compared, so their verdict never states that the price is sound.
    assert not thrice.require().sound
    assert once.ratio > 0.8
    assert thrice.ratio > 0.6


def distribution_of_package(
    mechanism: Any, histogram: IntArray, small_instance: SmallInstance
) -> Mapping[Any, float]:
    """Returns the distribution that a selection or an aggregator of the package computes."""
    if isinstance(mechanism, GapSelection):
        return dict(
            zip(
                mechanism.candidates.tolist(),
                mechanism.probabilities(histogram).tolist(),
                strict=True,
            )
        )
    return mechanism.distribution(histogram, num_teachers=small_instance.num_teachers)


REWRITTEN = (gap_selection_distribution, stable_top_k_distribution, stable_fixed_top_k_distribution)


@for_cases([case for case in CASES if case.distribution in REWRITTEN])
def test_distributions_of_the_package_equal_independent_ones(case: Case) -> None:
    """The package computes the same distribution of a case as `rival_distributions.py`.

    A selection of a size k is compared by k. A stable set with peeled labels is compared by the labels that are
    released.
    """
    small_instance = case.largest_instance(Adjacency.REPLACE_ONE)
    mechanism = case.mechanism_for(small_instance)
    for histogram in all_histograms(small_instance.num_labels, small_instance.num_teachers)[::97]:
        expected = Counter[Any]()
        for outcome, p in case.distribution(mechanism, histogram, small_instance).items():
            is_set_of_fixed_size = isinstance(mechanism, StableFixedTopK)
            released = released_set(outcome, k=mechanism.k) if is_set_of_fixed_size else outcome
            expected[released] += p
        computed = distribution_of_package(mechanism, histogram, small_instance)
        assert computed.keys() <= expected.keys()
        assert {outcome: computed.get(outcome, 0.0) for outcome in expected} == pytest.approx(
            dict(expected), rel=1e-8, abs=1e-12
        )


@pytest.mark.slow
def test_two_picks_with_the_noise_of_one_are_refuted() -> None:
    """Negative control: two peeled labels with the noise of one exceed the price.

    So the noise scale must grow with the root of the number of picks.
    """
    (case,) = (
        case
        for case in CASES
        if case.name == "StableFixedTopK-2-gaussian-10000.0-0.001-4.0-10000.0"
    )
    for adjacency in ADJACENCIES:
        case_with_noise_of_one_pick = replace(
            case, distribution=partial(stable_fixed_top_k_distribution, noise_growth_exponent=0.0)
        )
        assert verdict_of(
            case_with_noise_of_one_pick,
            small_instance=SmallInstance(adjacency, num_labels=4, num_teachers=4),
        ).renyi.exceeds


@pytest.mark.slow
@for_cases([case for case in CASES if case.has_stability_test])
@every_adjacency
def test_curve_holds_without_sets_that_the_neighbor_does_not_have(
    adjacency: Adjacency, case: Case
) -> None:
    """The Renyi divergence stays within the price if the sets that the neighbor cannot release count as refusals.

    The probability of these sets is at most the failure probability. For cases with `is_curve_attained`, the divergence
    exceeds 90% of the price.
    """
    small_instance = case.largest_instance(adjacency)
    first_laws, second_laws, outcomes = pairs_of_laws(case, small_instance)
    first_laws, second_laws, failure_probs = without_failure(first_laws, second_laws, outcomes)
    event = case.event(case.mechanism_for(small_instance), small_instance)
    exact = largest_renyi(first_laws, second_laws)
    price = price_curve(event)
    assert failure_probs.max() <= failure_probability(event) * (1 + 1e-9)
    assert_covered(renyi_divergence=exact, renyi_price=price)
    if case.is_curve_attained:
        assert_refuted(renyi_divergence=exact, renyi_price=0.9 * price)


@for_cases([case for case in CASES if case.is_range_attained])
@every_adjacency
def test_a_bounded_range_is_attained_and_not_exceeded(adjacency: Adjacency, case: Case) -> None:
    """The largest range of log ratios over all neighbors equals the epsilon of the event."""
    small_instance = SmallInstance(adjacency, num_labels=4, num_teachers=3)
    event = case.event(case.mechanism_for(small_instance), small_instance)
    assert isinstance(event, BoundedRangeEvent)
    first, second, _ = pairs_of_laws(case, small_instance)
    assert largest_range(first_laws=first, second_laws=second) == pytest.approx(
        event.epsilon, rel=1e-9
    )


@every_adjacency
def test_a_domain_of_all_labels_fails_never_and_attains_nearly_its_epsilon(
    adjacency: Adjacency,
) -> None:
    """Limited-domain top-k never fails and has log ratios of at most epsilon 4 if its domain has every label.

    The largest log ratio is over 93% of epsilon.
    """

    def mechanism_for(small_instance: SmallInstance) -> LimitedDomainTopK:
        return LimitedDomainTopK(
            k=1,
            epsilon=4.0,
            domain_size=4,
            failure_prob=0.5,
            adjacency=small_instance.adjacency,
        )

    case = Case(name="limited domain", mechanism_for=mechanism_for)
    first, second, _ = pairs_of_laws(
        case, small_instance=SmallInstance(adjacency, num_labels=4, num_teachers=4)
    )
    assert 0.93 * 4.0 < largest_log_ratio(first_laws=first, second_laws=second) <= 4.0 * (1 + 1e-9)


@every_case
def test_distributions_treat_labels_alike_up_to_the_tie_break(case: Case) -> None:
    """A histogram has the distribution of its sorted counts, once ranks are renamed to labels.

    `by_rank` relies on this.
    """
    small_instance = SmallInstance(
        Adjacency.REPLACE_ONE, num_labels=max(3, case.min_labels), num_teachers=2
    )
    mechanism = case.mechanism_for(small_instance)
    sorted_laws = {}  # many histograms have the same sorted counts
    for histogram in all_histograms(small_instance.num_labels, num_teachers=2):
        order = np.argsort(-histogram, kind="stable")
        distribution = case.distribution(mechanism, histogram, small_instance)
        counts = histogram[order]
        if tuple(counts) not in sorted_laws:
            sorted_laws[tuple(counts)] = case.distribution(mechanism, counts, small_instance)
        law_of_ranks = sorted_laws[tuple(counts)]
        expected = {
            case.relabel_outcome(outcome, order.tolist()): p for outcome, p in law_of_ranks.items()
        }
        for outcome in distribution.keys() | expected.keys():
            assert math.isclose(
                distribution.get(outcome, 0.0),
                expected.get(outcome, 0.0),
                rel_tol=1e-9,
                abs_tol=1e-15,
            )


def test_every_mechanism_and_aggregator_with_a_price_is_in_the_list() -> None:
    """Every exported class with a price has a case in `shipped.py`, or a reason why it has no distribution."""
    small_instance = SmallInstance(Adjacency.REPLACE_ONE, num_labels=3, num_teachers=3)
    classes_of_cases = {type(case.mechanism_for(small_instance)) for case in CASES}
    exported = [
        getattr(module, name) for module in (mechanisms, aggregators) for name in module.__all__
    ]
    priced_classes = {
        member
        for member in exported
        if inspect.isclass(member)
        and not inspect.isabstract(member)
        and (isinstance(getattr(member, "event", None), property) or issubclass(member, Aggregator))
    }
    assert len(priced_classes) >= 10
    without_distribution = {cls for cls in priced_classes if cls.__name__ in WITHOUT_DISTRIBUTION}
    assert (
        sorted(cls.__name__ for cls in priced_classes - classes_of_cases - without_distribution)
        == []
    )
    assert not any(
        hasattr(cls, method)
        for cls in without_distribution
        for method in ("distribution", "probabilities", "distribution_of")
    )


# ------------------------------------------------------------------------------------ prices beside each other


@every_adjacency
def test_a_bit_costs_less_than_the_noisy_numbers_it_hides(adjacency: Adjacency) -> None:
    """The bit of a stability test costs at most its noisy gap, a sens^2 / (2 std^2) at each Renyi order a.

    The bits of four labels cost at most their four noisy counts.
    """
    for std in (0.1, 0.5, 1.0, 3.0):
        test = StabilityTest.gaussian(
            test_std=std, failure_prob=0.05, num_teachers=6, adjacency=adjacency
        )
        assert (
            price_curve(test.event) <= ORDERS * adjacency.gap_sensitivity**2 / (2 * std**2)
        ).all()
        aggregator = GaussianVotes(noise_std=std, adjacency=adjacency)
        event_of_four_bits = aggregator.event_for(num_queries=1, num_labels=4, num_teachers=6)
        assert (price_curve(event_of_four_bits) <= 4 * ORDERS / (2 * std**2)).all()


@every_adjacency
def test_a_table_costs_its_budget_at_its_order_and_rho_is_the_zcdp_of_a_release(
    adjacency: Adjacency,
) -> None:
    """The table of a stability test costs its budget at its own Renyi order, and more at twice this order.

    Mechanisms with a parameter rho cost at most rho times the Renyi order.
    """
    table = optimal_stability_table(order=4.0, rdp_budget=0.5, failure_prob=0.05, num_levels=7)
    event_of_table = StabilityTest.from_table(table, num_teachers=20, adjacency=adjacency).event
    assert price_curve(event_of_table, renyi_orders=np.array([4.0]))[0] == pytest.approx(
        0.5, rel=1e-6
    )
    assert price_curve(event_of_table, renyi_orders=np.array([8.0]))[0] > 0.5
    for rho in (0.01, 0.5):
        gammas = (
            CanonicalTopK(gamma=gamma, k=2, rho=rho, adjacency=adjacency)
            for gamma in (0.0, 0.25, 0.5, 1.0)
        )
        for mechanism in (
            PeelingTopK(k=2, rho=rho, adjacency=adjacency),
            OneShotTopK(k=2, rho=rho, adjacency=adjacency),
            JointTopK(k=2, rho=rho, adjacency=adjacency),
            *gammas,
        ):
            assert (price_curve(mechanism.event) <= rho * ORDERS * (1 + 1e-9)).all()


@pytest.mark.parametrize("noise", SELECTION_NOISES)
@every_adjacency
def test_a_regularizer_does_not_change_the_price(adjacency: Adjacency, noise: str) -> None:
    """A selection has the same event with a regularizer, which adds equal numbers to the gaps of both neighbors."""
    plain = GapSelection(
        noise=noise, noise_scale=1.0, num_labels=4, num_teachers=6, padded=True, adjacency=adjacency
    ).event
    assert (
        GapSelection(
            noise=noise,
            regularizer=lambda k: -1.5 * abs(k - 2),
            noise_scale=1.0,
            num_labels=4,
            num_teachers=6,
            padded=True,
            adjacency=adjacency,
        ).event
        == plain
    )


def test_counts_that_are_not_cut_exceed_the_price_of_bits() -> None:
    """The price of a released bit holds if counts are cut to within 9 noise stds of the threshold, as the package does.

    Negative control: if counts are not cut, the bit exceeds this price.
    """
    event = GaussianVotes(noise_std=0.1).event_for(num_queries=1, num_labels=1, num_teachers=6)
    for cut_in_stds, refuted in ((9.0, False), (1e9, True)):

        def distribution(counts: IntArray, cut_in_stds: float = cut_in_stds) -> dict[Any, float]:
            return bits_distribution(counts, noise_std=0.1, num_teachers=6, cut_in_stds=cut_in_stds)

        verdict = verify(
            distribution,
            adjacency=Adjacency.REPLACE_ONE,
            event=event,
            num_labels=1,
            num_teachers=6,
        )
        assert verdict.renyi.exceeds == refuted
