"""Aggregators: votes `[Q, L]` to a `Release(labels, answered, event)`; numpy and scipy only."""

from typing import TYPE_CHECKING

from pate.validation import lazily

if TYPE_CHECKING:
    from pate.aggregators.aggregator import (
        Aggregator,
        ExpectedRelease,
        PerQueryAggregator,
        PriorRule,
        ReleaseContext,
        TeacherVotesAggregator,
        UselessReleaseWarning,
        counts_for,
    )
    from pate.aggregators.centered_votes import CenteredRelease, CenteredVotes, Prevalence
    from pate.aggregators.gaussian_votes import (
        ClippedVotes,
        ConfidentGNMax,
        ConfidentVotes,
        DistributedVotes,
        GaussianVotes,
        GNMax,
        PowersetGNMax,
    )
    from pate.aggregators.release import Release, TrainingSet
    from pate.aggregators.stable_top_k import FixedTopK, StableFixedTopK, StableTopK
    from pate.aggregators.target_charging import (
        BoundaryMax,
        BoundaryTopK,
        NotPriorTopK,
        TargetChargedAggregator,
    )

__all__ = [
    "Aggregator",
    "BoundaryMax",
    "BoundaryTopK",
    "CenteredRelease",
    "CenteredVotes",
    "ClippedVotes",
    "ConfidentGNMax",
    "ConfidentVotes",
    "DistributedVotes",
    "ExpectedRelease",
    "FixedTopK",
    "GNMax",
    "GaussianVotes",
    "NotPriorTopK",
    "PerQueryAggregator",
    "PowersetGNMax",
    "Prevalence",
    "PriorRule",
    "Release",
    "ReleaseContext",
    "StableFixedTopK",
    "StableTopK",
    "TargetChargedAggregator",
    "TeacherVotesAggregator",
    "TrainingSet",
    "UselessReleaseWarning",
    "counts_for",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_LATER = {
    "aggregator": "Aggregator ExpectedRelease PerQueryAggregator PriorRule ReleaseContext TeacherVotesAggregator "
    "UselessReleaseWarning counts_for",
    "centered_votes": "CenteredRelease CenteredVotes Prevalence",
    "gaussian_votes": "ClippedVotes ConfidentGNMax ConfidentVotes DistributedVotes GaussianVotes GNMax PowersetGNMax",
    "release": "Release TrainingSet",
    "stable_top_k": "FixedTopK StableFixedTopK StableTopK",
    "target_charging": "BoundaryMax BoundaryTopK NotPriorTopK TargetChargedAggregator",
}
__getattr__ = lazily(__name__, _LATER)
