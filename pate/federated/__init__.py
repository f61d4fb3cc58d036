"""Votes from many places: who is expected, what is asked, what counts; and the apps that Flower runs.

`pate.federated.apps` and what stands beside it in that folder need Flower (extra `flower`); the rest does not.
"""

from pate.federated.collection import Collection, collect
from pate.federated.contribution import Contribution
from pate.federated.request import Request
from pate.federated.roll import Roll

__all__ = ["Collection", "Contribution", "Request", "Roll", "collect"]
