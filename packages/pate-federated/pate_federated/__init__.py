"""Votes of teachers at many places: vote files, secure sums, sums in rounds, and noise that the holders draw.

The apps for Flower are in `pate_federated.flower`, which needs the extra `flower`. All other modules work without it.
"""

from typing import TYPE_CHECKING

from pate.extras import lazily

if TYPE_CHECKING:
    from pate_federated.collection import Collection, collect
    from pate_federated.distributed_votes import DistributedVotes
    from pate_federated.holder import answer_question
    from pate_federated.question import Contribution, Question, Request, Roll
    from pate_federated.rounds_of_holders import RoundsOfHolders

__version__ = "0.1.0"
__all__ = [
    "Collection",
    "Contribution",
    "DistributedVotes",
    "Question",
    "Request",
    "Roll",
    "RoundsOfHolders",
    "answer_question",
    "collect",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_LATER = {
    "collection": "Collection collect",
    "distributed_votes": "DistributedVotes",
    "holder": "answer_question",
    "question": "Contribution Question Request Roll",
    "rounds_of_holders": "RoundsOfHolders",
}
__getattr__ = lazily(__name__, names_of_module=_LATER)
