"""Votes from many places: who is expected, what is asked, what counts; in rounds as well.

`pate.federated.flower` has the apps that Flower runs (extra `flower`); the rest does without it.
"""

from pate.federated.collection import Collection, collect
from pate.federated.contribution import Contribution
from pate.federated.request import Request
from pate.federated.roll import Roll

__all__ = ["Collection", "Contribution", "Request", "Roll", "collect"]
