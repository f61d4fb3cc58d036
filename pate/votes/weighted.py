"""Values of teachers with weights: a teacher of weight w counts w times in a sum."""

from __future__ import annotations

from abc import ABC

from pate.array_types import FloatArray


class Weighted(ABC):
    """Votes or label shares of teachers, each with a public weight.

    Attributes:
        num_teachers: the number of teachers, public.
        num_labels: the number of labels.
        weights: public, `[num_teachers]` in [0, 1], the weight of each teacher; None for 1.
    """

    num_teachers: int
    num_labels: int
    weights: FloatArray | None = None

    @property
    def total_weight(self) -> float:
        """The sum of the weights of all teachers; the number of teachers if they have no weights."""
        return self.num_teachers if self.weights is None else float(self.weights.sum())
