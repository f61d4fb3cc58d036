"""Votes of teachers: on disk one bit each, counted, and in each form that an aggregator reads. Needs numpy alone."""

from pate.files.lazy_names import lazy_names
from pate.votes.histogram import histogram

with lazy_names(globals()):
    from pate.votes.source import VoteSource
    from pate.votes.store import VoteStore
    from pate.votes.stored_votes import StoredVotes

__all__ = ["StoredVotes", "VoteSource", "VoteStore", "histogram"]
