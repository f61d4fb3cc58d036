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
    from pate.aggregators.confident import ConfidentGNMax, ConfidentVotes
    from pate.aggregators.distributed_votes import DistributedVotes
    from pate.aggregators.fixed_top_k import FixedTopK
    from pate.aggregators.gaussian_votes import ClippedVotes, GaussianVotes
    from pate.aggregators.gnmax import GNMax, PowersetGNMax
    from pate.aggregators.not_prior_top_k import NotPriorTopK
    from pate.aggregators.prevalence import Prevalence
    from pate.aggregators.release import Release, TrainingSet
    from pate.aggregators.stable_top_k import StableFixedTopK, StableTopK
    from pate.aggregators.target_charging import TargetChargedAggregator

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


_LATER = {
    "aggregator": "Aggregator ExpectedRelease PerQueryAggregator PriorRule ReleaseContext TeacherVotesAggregator "
    "UselessReleaseWarning counts_for",
    "boundary": "BoundaryMax BoundaryTopK",
    "centered_votes": "CenteredRelease CenteredVotes",
    "confident": "ConfidentGNMax ConfidentVotes",
    "distributed_votes": "DistributedVotes",
    "fixed_top_k": "FixedTopK",
    "gaussian_votes": "ClippedVotes GaussianVotes",
    "gnmax": "GNMax PowersetGNMax",
    "not_prior_top_k": "NotPriorTopK",
    "prevalence": "Prevalence",
    "release": "Release TrainingSet",
    "stable_top_k": "StableFixedTopK StableTopK",
    "target_charging": "TargetChargedAggregator",
}


def __getattr__(name: str) -> Any:
    """Loads a name when it is first asked for (PEP 562)."""
    for module, names in _LATER.items():
        if name in names.split():
            globals()[name] = value = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
