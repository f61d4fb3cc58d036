"""Everything that ships with a price and an exact distribution, run by `test_shipped.py`.

To add a mechanism, add a `Case`; an aggregator brings its own in `tests/cases`. A `subject` is made for an adjacency
and the numbers of labels and teachers; `distribution` is its exact distribution for one histogram and `event` its
price, by default `.distribution` and `.event`.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

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
)
from pate.mechanisms.gap_selection import Ranking
from pate.mechanisms.noise.kinds import UNIT_NOISES
from tests.cases.discovery import CASE_FILES
from tests.privacy.case import (
    Case,
    Counts,
    Distribution,
    Shape,
    rename_bits,
    rename_indices,
    rename_number,
    rename_set,
    rename_short_set,
)


def _top_k(kind: type, *, tightness: float = 0.9, k: int = 2, min_labels: int = 1, **options: Any) -> Case:
    def subject(shape: Shape) -> Any:
        return kind(k=min(k, shape.num_labels), adjacency=shape.adjacency, **options)

    name = "-".join([kind.__name__, *map(str, options.values())])
    rename = {CanonicalTopK: rename_set, TopStableTopK: rename_short_set}.get(kind, rename_indices)
    return Case(name, subject, tightness=tightness, min_labels=min_labels, rename=rename)


def _slow_distribution(mechanism: Any, histogram: Counts, _: Shape) -> Distribution:
    """Once for all histograms with the same differences: adding a constant to all counts changes nothing."""
    return _distribution_of_differences(mechanism, tuple((histogram - histogram.min()).tolist()))


@cache
def _distribution_of_differences(mechanism: Any, counts: tuple[int, ...]) -> Distribution:
    return mechanism.distribution(np.array(counts))


def _gaps(noise: str, *, tightness: float = 0.9, **options: Any) -> Case:
    def subject(shape: Shape) -> GapSelection:
        return GapSelection(
            noise=noise,
            noise_scale=1.0,
            num_labels=shape.num_labels,
            num_teachers=shape.num_teachers,
            adjacency=shape.adjacency,
            **options,
        )

    def distribution(selection: GapSelection, histogram: Counts, _: Shape) -> Distribution:
        return dict(enumerate(selection.probabilities(histogram).tolist()))

    min_labels = 1 if options.get("padded") else 2
    return Case(
        "-".join(["GapSelection", noise, *map(str, options)]),
        subject,
        distribution,
        tightness=tightness,
        min_labels=min_labels,
        rename=rename_number,
    )


def _test_of_size(kind: str, k: int) -> Case:
    def subject(shape: Shape) -> StabilityTest:
        make = getattr(StabilityTest, kind)
        return make(test_std=1.0, failure_prob=0.05, num_teachers=shape.num_teachers, adjacency=shape.adjacency)

    def distribution(test: StabilityTest, histogram: Counts, shape: Shape) -> Distribution:
        size = np.array([min(k, shape.num_labels - 1)])
        ranking = Ranking.of(histogram[None])
        gap = ranking.gaps(padded=True, num_teachers=shape.num_teachers)[0, size]
        passed = float(test.pass_probabilities(gap)[0])
        return {tuple(ranking.top(size)[0].tolist()): passed, None: 1 - passed}

    return Case(f"StabilityTest-{kind}-{k}", subject, distribution, min_labels=2, rename=rename_bits)


def _peel_distribution(peeling: SubsetPeeling, histogram: Counts, shape: Shape) -> Distribution:
    return peeling.distribution_of(histogram, np.ones(shape.num_labels, dtype=bool), min(2, shape.num_labels))


def _value_of(statistic: str, histogram: Counts) -> Any:
    """The largest count, or how far it is above the next."""
    falling = np.sort(histogram)[::-1]
    return falling[0] if statistic == "count" else falling[0] - falling[1]


def _threshold(kind: type, statistic: str, **options: Any) -> Case:
    def subject(shape: Shape) -> Any:
        return kind(epsilon=1.0, statistic=statistic, adjacency=shape.adjacency, **options)

    def distribution(test: Any, histogram: Counts, shape: Shape) -> Distribution:
        more = {"largest": 2 * shape.num_teachers} if kind is AboveThreshold else {}
        return dict(enumerate(test.probabilities(_value_of(statistic, histogram), **more).tolist()))

    return Case(f"{kind.__name__}-{statistic}", subject, distribution, min_labels=2, rename=rename_number)


def _boundary_distribution(wrapper: BoundaryWrapper, histogram: Counts, _: Shape) -> Distribution:
    return dict(enumerate(wrapper.probabilities(histogram).tolist()))


def _twice_distribution(twice: RunTwice, histogram: Counts, _: Shape) -> Distribution:
    once = twice.mechanism.probabilities(histogram)
    return dict(enumerate(np.outer(once, once).ravel().tolist()))


def _selection(shape: Shape) -> GapSelection:
    return GapSelection(
        noise_scale=2.0, num_labels=shape.num_labels, num_teachers=shape.num_teachers, adjacency=shape.adjacency
    )


CASES = (
    _top_k(PeelingTopK, epsilon=2.0),
    _top_k(PermuteAndFlipTopK, epsilon=2.0),
    _top_k(OneShotTopK, epsilon=2.0),
    _top_k(JointTopK, epsilon=2.0, tightness=0.6),
    _top_k(PermuteAndFlipJointTopK, epsilon=2.0, tightness=0.6),
    _top_k(JointTopK, k=1, min_labels=2, epsilon=2.5, tightness=0.6),
    _top_k(PermuteAndFlipJointTopK, k=1, min_labels=2, epsilon=2.5, tightness=0.6),
    _top_k(CanonicalTopK, k=1, min_labels=2, epsilon=2.5, tightness=0.6),
    *(_top_k(CanonicalTopK, epsilon=2.0, noise=noise, tightness=0.45) for noise in UNIT_NOISES),
    _top_k(LipschitzTopK, epsilon=2.0),
    replace(
        _top_k(GammaTopK, epsilon=2.0, k=1, tightness=0.5), distribution=_slow_distribution, largest=(3, 3)
    ),  # 0.2 s a histogram
    _top_k(LaplaceTopK, epsilon=2.0, tightness=0.8),
    replace(_top_k(LaplaceTopK, epsilon=0.2, failure_prob=1e-4, tightness=0.65), rename=rename_set),
    _top_k(TopStableTopK, epsilon=2.0, failure_prob=1e-3, domain_size=2, min_labels=3),
    _top_k(LimitedDomainTopK, epsilon=2.0, failure_prob=1e-3, domain_size=2, min_labels=2),
    Case(
        "SubsetPeeling",
        lambda shape: SubsetPeeling(noise_scale=1.0, adjacency=shape.adjacency),
        _peel_distribution,
        tightness=0.4,
        rename=rename_set,
    ),
    _gaps("gumbel"),
    _gaps("exponential"),
    _gaps("laplace", tightness=0.8),
    _gaps("gaussian", tightness=0.4),
    _gaps("gumbel", tightness=0.85, padded=True, regularizer=lambda k: -1.5 * k),
    *(_test_of_size(kind, k) for kind in ("gaussian", "laplace") for k in (1, 2)),
    *(_threshold(AboveThreshold, statistic, threshold=2) for statistic in ("count", "gap")),
    *(_threshold(BetweenThresholds, statistic, lower=1, upper=3) for statistic in ("count", "gap")),
    Case(
        "BoundaryWrapper",
        lambda s: BoundaryWrapper(_selection(s)),
        _boundary_distribution,
        tightness=0.6,
        min_labels=3,
        rename=rename_number,
    ),
    Case("RunTwice", lambda s: RunTwice(_selection(s)), _twice_distribution, min_labels=3, rename=rename_number),
    *(distribution for file in CASE_FILES for distribution in file.distributions),
)

WITHOUT_DISTRIBUTION = {
    "Prevalence": "real numbers; its steps in test_centered_votes.py",
    "SparseVector": "a session over many queries",
    "SweepTopK": "a session over many queries",
    "VoteRounds": "real numbers; test_vote_rounds.py",
    **{file.kind.__name__: file.without_distribution for file in CASE_FILES if file.without_distribution},
}
"""What has a price and no exact distribution of one histogram, and where else it is looked at."""
