"""Votes from many places: a file for each holder of records, and all of them as one source."""

from pate.votes.holders.gathered import GatheredVotes
from pate.votes.holders.manifest import CASTS, VoteManifest, queries_digest
from pate.votes.holders.vote_file import VoteFile

__all__ = ["CASTS", "GatheredVotes", "VoteFile", "VoteManifest", "queries_digest"]
