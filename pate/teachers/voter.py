"""What every kind of teacher is to a run: a recipe for the votes of an ensemble."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from pate.validation import InvalidValue
from pate.votes.source import VoteSource

if TYPE_CHECKING:
    from pate.run.ensemble import Ensemble


class Voter(ABC):
    """A recipe for the votes of teachers, each of which knows only its own private records.

    Attributes:
        is_trained: whether teachers learn from their records, of the class: their number then has to be given, and
            few records teach them little.
        votes_in_rounds: whether they may vote in rounds, of the class; else they cast one matrix of votes.
        covers_teachers: whether the price covers all records of a teacher together, of the class; else a group of them.
        votes_in_bits: whether they answer yes or no, of the class; else centered votes alone can read them.
    """

    is_trained: ClassVar[bool] = True
    votes_in_rounds: ClassVar[bool] = True
    covers_teachers: ClassVar[bool] = True
    votes_in_bits: ClassVar[bool] = True

    @property
    def minds_scale(self) -> bool:
        """Whether its teachers suffer from inputs of very different widths, as linear ones do."""
        return False

    def num_protected(self, num_teachers: int, num_groups: int) -> int:
        """How many parts of the private records are each bounded in what they change: teachers, or groups."""
        return num_teachers if self.covers_teachers else num_groups

    @abstractmethod
    def votes_of(self, ensemble: Ensemble) -> VoteSource:
        """The votes of an ensemble on its queries; trains what has to be trained once they are read."""

    def check(self, input_shape: tuple[int, ...]) -> None:  # noqa: B027 - most teachers take all
        """Raises `InvalidValue` where such inputs are not for these teachers: asked before anything is spent."""

    def require_reader(self, aggregator: str, input_form: str) -> None:
        """Raises `InvalidValue` where an aggregator that reads votes in such a form cannot read these teachers'.

        Args:
            aggregator: its name, for the message.
            input_form: see `pate.aggregators.Aggregator`.
        """
        if not self.votes_in_bits and input_form != "centered":
            raise InvalidValue(f"aggregator={aggregator}: expected centered_votes, or teachers that vote yes or no")
