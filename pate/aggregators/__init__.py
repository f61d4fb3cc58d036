"""Aggregators: votes `[Q, L]` to a `Release(labels, answered, event)`; numpy and scipy only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pate.aggregators.aggregator import Aggregator
    from pate.aggregators.centered_release import CenteredRelease
    from pate.aggregators.centered_votes import CenteredVotes
    from pate.aggregators.clipped_votes import ClippedVotes
    from pate.aggregators.confident_gnmax import ConfidentGNMax
    from pate.aggregators.confident_votes import ConfidentVotes
    from pate.aggregators.distributed.distributed_votes import DistributedVotes
    from pate.aggregators.expected.expected_release import ExpectedRelease
    from pate.aggregators.expected.useless import UselessReleaseWarning
    from pate.aggregators.fixed_top_k import FixedTopK
    from pate.aggregators.gaussian_votes import GaussianVotes
    from pate.aggregators.gnmax import GNMax
    from pate.aggregators.histogram import HistogramAggregator, PerQueryAggregator
    from pate.aggregators.per_teacher import TeacherVotesAggregator
    from pate.aggregators.powerset_gnmax import PowersetGNMax
    from pate.aggregators.prevalence import Prevalence
    from pate.aggregators.release import NoisyScores, Release, TrainingSet
    from pate.aggregators.release_context import PriorRule, ReleaseContext
    from pate.aggregators.rounds.rounds_release import RoundsRelease
    from pate.aggregators.rounds.vote_rounds import VoteRounds
    from pate.aggregators.stable.stable_fixed_top_k import StableFixedTopK
    from pate.aggregators.stable.stable_top_k import StableTopK
    from pate.aggregators.target_charging.aggregator import ChargedRelease, TargetChargedAggregator
    from pate.aggregators.target_charging.boundary_max import BoundaryMax
    from pate.aggregators.target_charging.boundary_top_k import BoundaryTopK
    from pate.aggregators.target_charging.not_prior_top_k import NotPriorTopK
    from pate.aggregators.target_charging.rounds import Round
    from pate.aggregators.vote_counts import counts_for

_MODULE_OF = {
    "Aggregator": "pate.aggregators.aggregator",
    "BoundaryMax": "pate.aggregators.target_charging.boundary_max",
    "BoundaryTopK": "pate.aggregators.target_charging.boundary_top_k",
    "CenteredRelease": "pate.aggregators.centered_release",
    "CenteredVotes": "pate.aggregators.centered_votes",
    "ChargedRelease": "pate.aggregators.target_charging.aggregator",
    "ClippedVotes": "pate.aggregators.clipped_votes",
    "ConfidentGNMax": "pate.aggregators.confident_gnmax",
    "ConfidentVotes": "pate.aggregators.confident_votes",
    "DistributedVotes": "pate.aggregators.distributed.distributed_votes",
    "ExpectedRelease": "pate.aggregators.expected.expected_release",
    "FixedTopK": "pate.aggregators.fixed_top_k",
    "GNMax": "pate.aggregators.gnmax",
    "GaussianVotes": "pate.aggregators.gaussian_votes",
    "HistogramAggregator": "pate.aggregators.histogram",
    "NoisyScores": "pate.aggregators.release",
    "NotPriorTopK": "pate.aggregators.target_charging.not_prior_top_k",
    "PerQueryAggregator": "pate.aggregators.histogram",
    "PowersetGNMax": "pate.aggregators.powerset_gnmax",
    "Prevalence": "pate.aggregators.prevalence",
    "PriorRule": "pate.aggregators.release_context",
    "Release": "pate.aggregators.release",
    "ReleaseContext": "pate.aggregators.release_context",
    "Round": "pate.aggregators.target_charging.rounds",
    "RoundsRelease": "pate.aggregators.rounds.rounds_release",
    "StableFixedTopK": "pate.aggregators.stable.stable_fixed_top_k",
    "StableTopK": "pate.aggregators.stable.stable_top_k",
    "TargetChargedAggregator": "pate.aggregators.target_charging.aggregator",
    "TeacherVotesAggregator": "pate.aggregators.per_teacher",
    "TrainingSet": "pate.aggregators.release",
    "UselessReleaseWarning": "pate.aggregators.expected.useless",
    "VoteRounds": "pate.aggregators.rounds.vote_rounds",
    "counts_for": "pate.aggregators.vote_counts",
}

__all__ = [
    "Aggregator",
    "BoundaryMax",
    "BoundaryTopK",
    "CenteredRelease",
    "CenteredVotes",
    "ChargedRelease",
    "ClippedVotes",
    "ConfidentGNMax",
    "ConfidentVotes",
    "DistributedVotes",
    "ExpectedRelease",
    "FixedTopK",
    "GNMax",
    "GaussianVotes",
    "HistogramAggregator",
    "NoisyScores",
    "NotPriorTopK",
    "PerQueryAggregator",
    "PowersetGNMax",
    "Prevalence",
    "PriorRule",
    "Release",
    "ReleaseContext",
    "Round",
    "RoundsRelease",
    "StableFixedTopK",
    "StableTopK",
    "TargetChargedAggregator",
    "TeacherVotesAggregator",
    "TrainingSet",
    "UselessReleaseWarning",
    "VoteRounds",
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
