"""Votes of teachers: counted, stored on disk, and in each form that an aggregator reads. Needs numpy alone."""

from pate.votes.counts import histogram
from pate.votes.expert_answers import ExpertAnswers
from pate.votes.public_answers import PublicAnswers
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.shape import VoteShape
from pate.votes.source import VoteSource
from pate.votes.vote_store import StoredVotes, VoteStore

__all__ = [
    "DEFAULT_RECIPE",
    "ExpertAnswers",
    "PublicAnswers",
    "Recipe",
    "StoredVotes",
    "VoteShape",
    "VoteSource",
    "VoteStore",
    "histogram",
]
