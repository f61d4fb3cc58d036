"""Teacher votes as bits, on disk and counted. Needs numpy alone."""

from pate.votes.histogram import histogram
from pate.votes.store import VoteStore

__all__ = ["VoteStore", "histogram"]
