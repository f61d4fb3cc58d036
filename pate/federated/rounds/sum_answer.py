"""A holder's answer to a question: the sum over its teachers, and at the opening what it vouches for."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from pate.federated.rounds.question import Question
from pate.files.arrays import UNREADABLE, ArrayForm, arrays_of
from pate.validation import InvalidValue, require
from pate.votes.clipping import Integers
from pate.votes.vote_file import VoteManifest

_RULE = "a whole answer, as pate.federated.rounds makes it"
_HEADS = 2**20  # bytes for names and headers
_FORMS = {"head": ArrayForm("U", ()), "question": ArrayForm("U", ()), "total": ArrayForm("biuf")}


def most_bytes(question: Question) -> int:
    """How long an answer to a question can be."""
    return 8 * math.prod(question.shape) + _HEADS


@dataclass(frozen=True, eq=False)
class SumAnswer:
    """One answer. No epsilon covers it: only the aggregator may have it.

    Attributes:
        head: what the holder vouches for, the same in all of its answers.
        question: the digest of what was asked.
        total: int64, in steps.
    """

    head: VoteManifest
    question: str
    total: Integers

    def to_bytes(self) -> bytes:
        """An .npz file without pickles; equal answers give equal bytes."""
        file = io.BytesIO()
        head, question = np.array(self.head.to_text()), np.array(self.question)
        np.savez(file, allow_pickle=False, head=head, question=question, total=self.total.astype(np.int64))
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, question: Question) -> Self:
        """An answer to this question.

        Raises:
            InvalidValue: a torn answer, one to another question, one of another shape.
        """
        try:
            size, most = len(data), most_bytes(question)
            require(size <= most, "size", size, f"at most {most} bytes, which such a sum takes")
            arrays = arrays_of(data, _FORMS)
            total = arrays["total"]
            found = cls(VoteManifest.from_text(str(arrays["head"])), str(arrays["question"]), total)
        except InvalidValue:
            raise
        except (*UNREADABLE, OSError):
            raise InvalidValue(f"answer: expected {_RULE}") from None
        require(found.question == question.digest, "question", "another", "the one that was asked")
        require(total.dtype == np.int64, "sum.dtype", total.dtype, "int64, whole numbers of steps")
        require(total.shape == question.shape, "sum.shape", total.shape, str(question.shape))
        return found
