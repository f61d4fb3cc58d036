"""Aggregators: votes `[Q, L]` to a `Release(labels, answered, event)`; numpy and scipy only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    from pate.aggregators.boundary import BoundaryMax, BoundaryTopK
    from pate.aggregators.centered_votes import CenteredRelease, CenteredVotes
    from pate.aggregators.clipped_votes import ClippedVotes
    from pate.aggregators.confident import ConfidentGNMax, ConfidentVotes
    from pate.aggregators.distributed_votes import DistributedVotes
    from pate.aggregators.fixed_top_k import FixedTopK
    from pate.aggregators.gaussian_votes import GaussianVotes
    from pate.aggregators.gnmax import GNMax, PowersetGNMax
    from pate.aggregators.not_prior_top_k import NotPriorTopK
    from pate.aggregators.prevalence import Prevalence
    from pate.aggregators.release import Release, TrainingSet
    from pate.aggregators.stable_top_k import StableFixedTopK, StableTopK
    from pate.aggregators.target_charging import TargetChargedAggregator

_MODULE_OF = {
    "Aggregator": "pate.aggregators.aggregator",
    "BoundaryMax": "pate.aggregators.boundary",
    "BoundaryTopK": "pate.aggregators.boundary",
    "CenteredRelease": "pate.aggregators.centered_votes",
    "CenteredVotes": "pate.aggregators.centered_votes",
    "ClippedVotes": "pate.aggregators.clipped_votes",
    "ConfidentGNMax": "pate.aggregators.confident",
    "ConfidentVotes": "pate.aggregators.confident",
    "DistributedVotes": "pate.aggregators.distributed_votes",
    "ExpectedRelease": "pate.aggregators.aggregator",
    "FixedTopK": "pate.aggregators.fixed_top_k",
    "GNMax": "pate.aggregators.gnmax",
    "GaussianVotes": "pate.aggregators.gaussian_votes",
    "NotPriorTopK": "pate.aggregators.not_prior_top_k",
    "PerQueryAggregator": "pate.aggregators.aggregator",
    "PowersetGNMax": "pate.aggregators.gnmax",
    "Prevalence": "pate.aggregators.prevalence",
    "PriorRule": "pate.aggregators.aggregator",
    "Release": "pate.aggregators.release",
    "ReleaseContext": "pate.aggregators.aggregator",
    "StableFixedTopK": "pate.aggregators.stable_top_k",
    "StableTopK": "pate.aggregators.stable_top_k",
    "TargetChargedAggregator": "pate.aggregators.target_charging",
    "TeacherVotesAggregator": "pate.aggregators.aggregator",
    "TrainingSet": "pate.aggregators.release",
    "UselessReleaseWarning": "pate.aggregators.aggregator",
    "counts_for": "pate.aggregators.aggregator",
}

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


def __getattr__(name: str) -> Any:
    """Loads a name when it is first asked for (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
