"""Centered votes in rounds from many places: holders are asked for sums, each against what was released before."""

from pate.federated.rounds.holder import answer_question
from pate.federated.rounds.question import Question
from pate.federated.rounds.rounds_release import RoundsOfHolders

__all__ = ["Question", "RoundsOfHolders", "answer_question"]
