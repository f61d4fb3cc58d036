"""Aggregators, which turn the votes of teachers into a `Release` of labels with its price; numpy and scipy suffice."""

from typing import TYPE_CHECKING

from pate.extras import lazily

if TYPE_CHECKING:
    from pate.aggregators.aggregator import Aggregator
    from pate.aggregators.answers import Answers
    from pate.aggregators.boundary import BoundaryMax, BoundaryTopK
    from pate.aggregators.centered_release import CenteredRelease
    from pate.aggregators.centered_votes import CenteredVotes
    from pate.aggregators.clipped_votes import ClippedVotes
    from pate.aggregators.confident import ConfidentGNMax, ConfidentVotes
    from pate.aggregators.expectation import (
        ExpectedRelease,
        UselessReleaseWarning,
        expected_release,
    )
    from pate.aggregators.fixed_top_k import FixedTopK
    from pate.aggregators.gaussian_votes import GaussianVotes
    from pate.aggregators.gnmax import GNMax
    from pate.aggregators.not_prior import NotPriorTopK
    from pate.aggregators.powerset import PowersetGNMax
    from pate.aggregators.prevalence import Prevalence
    from pate.aggregators.prior_rule import PriorRule
    from pate.aggregators.record import MemoryRecord, ReleaseRecord
    from pate.aggregators.release import Release
    from pate.aggregators.session import TargetChargedAggregator
    from pate.aggregators.stable_fixed_top_k import StableFixedTopK
    from pate.aggregators.stable_top_k import StableTopK
    from pate.aggregators.training_set import TrainingSet
    from pate.aggregators.vote_counts import counts_for

__all__ = [
    "Aggregator",
    "Answers",
    "BoundaryMax",
    "BoundaryTopK",
    "CenteredRelease",
    "CenteredVotes",
    "ClippedVotes",
    "ConfidentGNMax",
    "ConfidentVotes",
    "ExpectedRelease",
    "FixedTopK",
    "GNMax",
    "GaussianVotes",
    "MemoryRecord",
    "NotPriorTopK",
    "PowersetGNMax",
    "Prevalence",
    "PriorRule",
    "Release",
    "ReleaseRecord",
    "StableFixedTopK",
    "StableTopK",
    "TargetChargedAggregator",
    "TrainingSet",
    "UselessReleaseWarning",
    "counts_for",
    "expected_release",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_LATER = {
    "aggregator": "Aggregator",
    "centered_release": "CenteredRelease",
    "centered_votes": "CenteredVotes",
    "clipped_votes": "ClippedVotes",
    "confident": "ConfidentGNMax ConfidentVotes",
    "expectation": "ExpectedRelease UselessReleaseWarning expected_release",
    "fixed_top_k": "FixedTopK",
    "gaussian_votes": "GaussianVotes",
    "gnmax": "GNMax",
    "powerset": "PowersetGNMax",
    "prevalence": "Prevalence",
    "prior_rule": "PriorRule",
    "answers": "Answers",
    "training_set": "TrainingSet",
    "record": "MemoryRecord ReleaseRecord",
    "release": "Release",
    "stable_fixed_top_k": "StableFixedTopK",
    "stable_top_k": "StableTopK",
    "vote_counts": "counts_for",
    "boundary": "BoundaryMax BoundaryTopK",
    "not_prior": "NotPriorTopK",
    "session": "TargetChargedAggregator",
}
__getattr__ = lazily(__name__, names_of_module=_LATER)
