"""Votes from many places: a file for each holder of records, and all of them as one source."""

from pate.votes.holders.gathered import GatheredVotes
from pate.votes.holders.vote_file import CASTS, VoteFile, VoteManifest, queries_digest

__all__ = ["CASTS", "GatheredVotes", "VoteFile", "VoteManifest", "queries_digest"]
