"""Aggregators: votes `[Q, L]` to a `Release(labels, answered, event)`; numpy and scipy only."""

from pate.files.lazy_names import lazy_names

with lazy_names(globals()):
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
