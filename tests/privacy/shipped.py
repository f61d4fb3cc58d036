"""Lists the cases of everything that the package ships with a price and an exact distribution, for `test_shipped.py`.

A new mechanism needs a `Case` here; a new aggregator brings its own in `tests/cases`. `Case.mechanism_for` makes the
mechanism or aggregator for an adjacency and for numbers of labels and teachers. By default the exact distribution and
the price of a case are those that the mechanism or aggregator computes itself.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from pate.array_types import IntArray
from pate.mechanisms import (
    AboveThreshold,
    BetweenThresholds,
    BoundaryWrapper,
    CanonicalTopK,
    GammaTopK,
    GapSelection,
    JointTopK,
    LaplaceTopK,
    LimitedDomainTopK,
    LipschitzTopK,
    OneShotTopK,
    PeelingTopK,
    PermuteAndFlipJointTopK,
    PermuteAndFlipTopK,
    RunTwice,
    StabilityTest,
    SubsetPeeling,
    TopStableTopK,
    optimal_stability_table,
)
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.vote_ranking import VoteRanking
from tests.cases.discovery import CASE_FILES
from tests.privacy.case import (
    LARGEST_SIZE,
    REFUTED_AT_SIZE,
    Case,
    Distribution,
    Size,
    SmallInstance,
    rename_bits,
    rename_indices,
    rename_number,
    rename_set,
    rename_short_set,
)
from tests.privacy.rival_distributions import gap_selection_distribution


def _name_of_parameters(make_mechanism: partial[Any]) -> str:
    """Returns the parameters of a mechanism as `name=value`, with `noise` and `gamma` last."""
    parameters = sorted(
        make_mechanism.keywords.items(), key=lambda item: item[0] in ("noise", "gamma")
    )
    return "-".join(f"{name}={value}" for name, value in parameters)


def _case_of_top_k(
    make_mechanism: partial[Any],
    tightness: float,
    *,
    k: int = 2,
    largest_size: Size = LARGEST_SIZE,
    min_labels: int = 1,
    failure_reached_at_size: Size | None = None,
) -> Case:
    """Returns the case of a top-k mechanism, which `make_mechanism` builds from `k` and `adjacency`."""

    def mechanism_for(small_instance: SmallInstance) -> Any:
        return make_mechanism(
            k=min(k, small_instance.num_labels), adjacency=small_instance.adjacency
        )

    mechanism_class = make_mechanism.func
    relabel_outcome: Callable[[Any, list[int]], Any] = rename_indices
    if mechanism_class is CanonicalTopK:
        relabel_outcome = rename_set
    elif mechanism_class is TopStableTopK:
        relabel_outcome = rename_short_set
    parameters = make_mechanism.keywords
    has_gumbel_noise = parameters.get("noise", "gumbel") == "gumbel"
    return Case(
        name=f"{mechanism_class.__name__}-{k}-{_name_of_parameters(make_mechanism)}",
        mechanism_for=mechanism_for,
        tightness=tightness,
        largest_size=largest_size,
        min_labels=min_labels,
        replace_one_refuted_at_size=(
            Size(largest_size.num_labels, num_teachers=min(3, largest_size.num_teachers))
            if tightness
            else None
        ),
        relabel_outcome=relabel_outcome,
        epsilon=parameters.get("epsilon"),
        failure_reached_at_size=failure_reached_at_size,
        # The exponential mechanism over sequences or sets of labels, whose price is a bounded range.
        is_range_attained=mechanism_class in (JointTopK, CanonicalTopK) and has_gumbel_noise,
        is_sharply_priced=mechanism_class is PeelingTopK and parameters == {"epsilon": 4.0},
    )


def _cases_of_pure_dp_top_k(make_mechanism: partial[Any], tightness: float) -> list[Case]:
    """Returns the cases of a pure-DP top-k mechanism, which `make_mechanism` builds from an epsilon, k and adjacency.

    In the case of k = 2 and epsilon 4, the share `tightness` of the price must be attained on four labels and six
    teachers. Three cases of other k and epsilon are for two teachers, and no share must be attained.
    """
    return [
        _case_of_top_k(make_mechanism=partial(make_mechanism, epsilon=4.0), tightness=tightness),
        *(
            _case_of_top_k(
                make_mechanism=partial(make_mechanism, epsilon=epsilon),
                tightness=0.0,
                k=k,
                largest_size=Size(num_labels=4, num_teachers=2),
                min_labels=1 + (k == 1),
            )
            for k, epsilon in ((1, 2.5), (2, 0.5), (3, 2.0))
        ),
    ]


def _slow_distribution(mechanism: Any, histogram: IntArray, _: SmallInstance) -> Distribution:
    """Returns the distribution of a mechanism, computed once for all histograms with the same differences of counts.

    A constant that is added to all counts does not change it.
    """
    return _distribution_of_differences(
        mechanism, counts=tuple((histogram - histogram.min()).tolist())
    )


@cache
def _distribution_of_differences(mechanism: Any, counts: tuple[int, ...]) -> Distribution:
    """Returns the distribution of a mechanism for counts whose smallest is 0."""
    return mechanism.distribution(np.array(counts))


def _case_of_gap_selection(
    noise: str,
    *,
    tightness: float,
    padded: bool,
    noise_scale: float = 1.0,
    max_k: int | None = None,
    regularizer: Callable[[int], float] | None = None,
) -> Case:
    """Returns the case of a gap selection with one kind of noise."""

    def mechanism_for(small_instance: SmallInstance) -> GapSelection:
        return GapSelection(
            noise=noise,
            noise_scale=noise_scale,
            adjacency=small_instance.adjacency,
            num_labels=small_instance.num_labels,
            num_teachers=small_instance.num_teachers,
            padded=padded,
            max_k=max_k,
            regularizer=regularizer,
        )

    name = f"GapSelection-{noise}-{noise_scale}-padded={padded}"
    if max_k is not None:
        name += f"-max_k={max_k}"
    if regularizer is not None:
        name += "-regularizer"
    return Case(
        name=name,
        mechanism_for=mechanism_for,
        distribution=gap_selection_distribution,
        tightness=tightness,
        min_labels=1 if padded else 2,
        replace_one_refuted_at_size=REFUTED_AT_SIZE if tightness else None,
        relabel_outcome=rename_number,
        # The exponential mechanism, whose price is a bounded range.
        is_range_attained=noise == "gumbel" and not padded and max_k is None,
        is_sharply_priced=name == "GapSelection-gumbel-1.0-padded=False",
    )


def _prefer_two_labels(k: int) -> float:
    """Returns the value that a regularizer, which prefers two labels, adds for k labels."""
    return -1.5 * abs(k - 2)


def _case_of_stability_test(test_kind: str, *, k: int, failure_prob: float) -> Case:
    """Returns the case of a stability test of the gap below the k largest counts."""

    def mechanism_for(small_instance: SmallInstance) -> StabilityTest:
        if test_kind == "table":
            return StabilityTest.from_table(
                optimal_stability_table(
                    failure_prob=failure_prob, order=4.0, rdp_budget=0.5, num_levels=7
                ),
                num_teachers=small_instance.num_teachers,
                adjacency=small_instance.adjacency,
            )
        return getattr(StabilityTest, test_kind)(
            test_std=1.0,
            failure_prob=failure_prob,
            num_teachers=small_instance.num_teachers,
            adjacency=small_instance.adjacency,
        )

    def distribution(
        test: StabilityTest, histogram: IntArray, small_instance: SmallInstance
    ) -> Distribution:
        size = np.array([min(k, small_instance.num_labels - 1)])
        ranking = VoteRanking.from_counts(histogram[None])
        gap = ranking.gaps(with_outer_gaps=True, num_teachers=small_instance.num_teachers)[0, size]
        passed = float(test.pass_probabilities(gap)[0])
        return {tuple(ranking.top(size)[0].tolist()): passed, None: 1 - passed}

    name = f"StabilityTest-{test_kind}-{k}-{failure_prob}"
    return Case(
        name=name,
        mechanism_for=mechanism_for,
        distribution=distribution,
        tightness=0.999,
        min_labels=2,
        relabel_outcome=rename_bits,
        failure_reached_at_size=Size(num_labels=2, num_teachers=6),
        has_stability_test=True,
        is_curve_attained=True,
        is_sharply_priced=(test_kind, k, failure_prob) == ("gaussian", 1, 0.05),
    )


def _peel_distribution(
    peeling: SubsetPeeling, histogram: IntArray, small_instance: SmallInstance
) -> Distribution:
    """Returns the distribution of the two labels that subset peeling picks among all labels."""
    return peeling.distribution_of(
        histogram,
        candidate_mask=np.ones(small_instance.num_labels, dtype=bool),
        num_picks=min(2, small_instance.num_labels),
    )


def _largest_count_or_gap(statistic: str, histogram: IntArray) -> Any:
    """Returns the largest count, or the gap between it and the next one."""
    falling = np.sort(histogram)[::-1]
    return falling[0] if statistic == "count" else falling[0] - falling[1]


def _case_of_threshold(make_mechanism: partial[Any], statistic: str) -> Case:
    """Returns the case of a threshold call on the largest count, or on the gap between it and the next one.

    `make_mechanism` builds the call from `epsilon`, `statistic` and `adjacency`.
    """

    def mechanism_for(small_instance: SmallInstance) -> Any:
        return make_mechanism(epsilon=1.0, statistic=statistic, adjacency=small_instance.adjacency)

    def distribution(test: Any, histogram: IntArray, small_instance: SmallInstance) -> Distribution:
        count_or_gap = _largest_count_or_gap(statistic, histogram)
        if isinstance(test, AboveThreshold):
            probabilities = test.probabilities(
                count_or_gap, largest=2 * small_instance.num_teachers
            )
        else:
            probabilities = test.probabilities(count_or_gap)
        return dict(enumerate(probabilities.tolist()))

    refuted_at_size = None if statistic == "count" else REFUTED_AT_SIZE
    name = f"{make_mechanism.func.__name__}-{statistic}"
    return Case(
        name=name,
        mechanism_for=mechanism_for,
        distribution=distribution,
        min_labels=2,
        replace_one_refuted_at_size=refuted_at_size,
        relabel_outcome=rename_number,
    )


def _boundary_distribution(
    wrapper: BoundaryWrapper, histogram: IntArray, _: SmallInstance
) -> Distribution:
    """Returns the probability of each outcome of a boundary wrapper, by the index of the outcome."""
    return dict(enumerate(wrapper.probabilities(histogram).tolist()))


def _twice_distribution(twice: RunTwice, histogram: IntArray, _: SmallInstance) -> Distribution:
    """Returns the probability of each pair of outcomes of two runs, by the index of the pair."""
    law = twice.mechanism.probabilities(histogram)
    return dict(enumerate(np.outer(law, law).ravel().tolist()))


def _make_selection(small_instance: SmallInstance) -> GapSelection:
    """Returns a gap selection of noise scale 2 for a small instance."""
    return GapSelection(
        noise_scale=2.0,
        num_labels=small_instance.num_labels,
        num_teachers=small_instance.num_teachers,
        adjacency=small_instance.adjacency,
    )


# the share of its price that Lipschitz top-k reaches, by noise
LIPSCHITZ_TIGHTNESS = {
    "exponential": 0.9,
    "gumbel": 0.89,
    "half_logistic": 0.9,
    "laplace": 0.84,
    "logistic": 0.62,
}
# the share of its price that a gap selection reaches, by noise: without and with padding
GAP_TIGHTNESS = {
    "gumbel": (0.99, 0.8),
    "exponential": (0.99, 0.84),
    "laplace": (0.81, 0.71),
    "gaussian": (0.59, 0.5),
}

CASES = (
    *(
        case
        for mechanism_class in (PeelingTopK, PermuteAndFlipTopK, OneShotTopK)
        for case in _cases_of_pure_dp_top_k(make_mechanism=partial(mechanism_class), tightness=0.9)
    ),
    *_cases_of_pure_dp_top_k(make_mechanism=partial(LaplaceTopK), tightness=0.84),
    *_cases_of_pure_dp_top_k(make_mechanism=partial(JointTopK), tightness=0.63),
    *_cases_of_pure_dp_top_k(make_mechanism=partial(PermuteAndFlipJointTopK), tightness=0.66),
    *(
        case
        for noise, tightness in LIPSCHITZ_TIGHTNESS.items()
        for case in _cases_of_pure_dp_top_k(
            make_mechanism=partial(LipschitzTopK, noise=noise), tightness=tightness
        )
    ),
    *(
        case
        for noise in UNIT_NOISES
        for gamma, tightness in ((1.0, 0.9), (0.5, 0.49))
        for case in _cases_of_pure_dp_top_k(
            make_mechanism=partial(CanonicalTopK, noise=noise, gamma=gamma), tightness=tightness
        )
    ),
    *(
        _case_of_top_k(make_mechanism=partial(mechanism_class, rho=rho), tightness=0.9)
        for mechanism_class in (PeelingTopK, OneShotTopK)
        for rho in (0.01, 0.5)
    ),
    *(
        _case_of_top_k(make_mechanism=partial(JointTopK, rho=rho), tightness=0.4)
        for rho in (0.01, 0.5)
    ),
    *(
        _case_of_top_k(make_mechanism=partial(CanonicalTopK, rho=0.5, gamma=gamma), tightness=0.4)
        for gamma in (0.0, 0.25, 0.5, 1.0)
    ),
    replace(
        _case_of_top_k(
            make_mechanism=partial(GammaTopK, epsilon=2.0),
            tightness=0.5,
            k=1,
            largest_size=Size(num_labels=3, num_teachers=3),
        ),
        distribution=_slow_distribution,
    ),
    replace(
        _case_of_top_k(
            make_mechanism=partial(GammaTopK, epsilon=4.0),
            tightness=0.9,
            k=1,
            largest_size=Size(num_labels=3, num_teachers=2),
        ),
        distribution=_slow_distribution,
    ),
    replace(
        _case_of_top_k(
            make_mechanism=partial(LaplaceTopK, epsilon=0.2, failure_prob=1e-4), tightness=0.65
        ),
        relabel_outcome=rename_set,
        replace_one_refuted_at_size=None,
    ),
    _case_of_top_k(
        make_mechanism=partial(TopStableTopK, epsilon=2.0, failure_prob=1e-3, domain_size=2),
        tightness=0.9,
        min_labels=3,
    ),
    *(
        _case_of_top_k(
            make_mechanism=partial(
                LimitedDomainTopK,
                domain_size=domain_size,
                epsilon=epsilon,
                failure_prob=failure_prob,
            ),
            # Larger domains fail rarely, or never.
            tightness=0.9 if domain_size < 3 else 0.0,
            failure_reached_at_size=Size(num_labels=4, num_teachers=3) if domain_size < 3 else None,
            k=k,
            min_labels=max(domain_size, 2),
        )
        for k, domain_size in ((2, 2), (2, 3), (2, 4), (1, 2), (1, 1), (3, 3))
        for epsilon, failure_prob in ((0.5, 0.05), (2.0, 1e-3), (4.0, 1e-3))
    ),
    Case(
        name="SubsetPeeling",
        mechanism_for=lambda small_instance: SubsetPeeling(
            noise_scale=1.0, adjacency=small_instance.adjacency
        ),
        distribution=_peel_distribution,
        tightness=0.4,
        relabel_outcome=rename_set,
    ),
    *(
        _case_of_gap_selection(
            noise,
            tightness=GAP_TIGHTNESS[noise][padded],
            noise_scale=noise_scale,
            padded=padded,
        )
        for noise in GAP_TIGHTNESS
        for padded in (False, True)
        for noise_scale in (0.5, 1.0, 3.0)
    ),
    *(
        _case_of_gap_selection(noise, tightness=0.0, noise_scale=0.5, padded=padded, max_k=max_k)
        for noise in GAP_TIGHTNESS
        for padded in (False, True)
        for max_k in (1, 2, 3)
    ),
    *(
        _case_of_gap_selection(noise, tightness=0.0, padded=True, regularizer=_prefer_two_labels)
        for noise in GAP_TIGHTNESS
    ),
    *(
        _case_of_stability_test(test_kind, k=k, failure_prob=failure_prob)
        for test_kind in ("gaussian", "laplace", "table")
        for k in (1, 2)
        for failure_prob in (0.3, 0.05, 1e-4)
    ),
    *(
        _case_of_threshold(make_mechanism=partial(AboveThreshold, threshold=2), statistic=statistic)
        for statistic in ("count", "gap")
    ),
    *(
        _case_of_threshold(
            make_mechanism=partial(BetweenThresholds, lower=1, upper=3), statistic=statistic
        )
        for statistic in ("count", "gap")
    ),
    Case(
        name="BoundaryWrapper",
        mechanism_for=lambda small_instance: BoundaryWrapper(_make_selection(small_instance)),
        distribution=_boundary_distribution,
        tightness=0.6,
        min_labels=3,
        replace_one_refuted_at_size=Size(num_labels=4, num_teachers=4),
        relabel_outcome=rename_number,
    ),
    Case(
        name="RunTwice",
        mechanism_for=lambda small_instance: RunTwice(_make_selection(small_instance)),
        distribution=_twice_distribution,
        min_labels=3,
        relabel_outcome=rename_number,
    ),
    *(distribution for file in CASE_FILES for distribution in file.distributions),
)

WITHOUT_DISTRIBUTION = {
    "Prevalence": "real numbers; its steps in test_centered_votes.py",
    "SparseVector": "a session over many queries",
    "SweepTopK": "a session over many queries",
    **{
        file.kind.__name__: file.reason_for_no_distribution
        for file in CASE_FILES
        if file.reason_for_no_distribution
    },
}
"""The classes with a price and without an exact distribution of one histogram, each with the reason."""
