"""Votes from many places: who is expected, what is asked, what counts; in rounds as well.

`pate.federated.flower` has the apps that Flower runs (extra `flower`); the rest does without it.
"""

from pate.extras import require_extra

require_extra(__name__, "train")

from pate.federated.collection import Collection, collect
from pate.federated.holder import answer_question
from pate.federated.question import Contribution, Question, Request, Roll
from pate.federated.summed_release import RoundsOfHolders

__all__ = [
    "Collection",
    "Contribution",
    "Question",
    "Request",
    "Roll",
    "RoundsOfHolders",
    "answer_question",
    "collect",
]
