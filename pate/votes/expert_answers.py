"""The answers of experts as votes: of language models that each saw a few private examples in their prompt.

An expert is one prompt with its private examples. It answers all queries, with the log-odds of each label or with bits.
`CenteredVotes.around` sums the experts' probabilities minus those of a public model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.files.archives import form_of, read_member, read_rows, reading
from pate.validation import InvalidValue, require, require_entries
from pate.votes.foreign import distinct_digests
from pate.votes.public_answers import NAME_FORMS, PublicAnswers, logistic
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.source import TeacherVotes

_RULE = (
    "answers of experts: the array answers, floats or bits [num_experts, num_queries, num_labels]"
)
_REMEDY = "write it anew, with numpy.savez"
# The arrays that a file may have.
_ARRAY_NAMES = ("answers", "answered", "groups", *NAME_FORMS)
_BLOCK_ENTRIES = 2**21  # the largest number of answers in a block, unless one expert has more


@dataclass(frozen=True)
class AnswerFile:
    """A file of the answers of experts, which are read a block of experts at a time.

    Attributes:
        path: the file.
        num_experts: the number of experts in it.
        is_masked: whether the file has the array `answered`, which marks the questions that an expert has answered.
        groups: integers or texts `[num_experts, n]`, the private groups in each prompt; None if the file has none.
    """

    path: Path
    num_experts: int
    is_masked: bool
    groups: NDArray[Any] | None

    @classmethod
    def open(cls, path: Path, public: PublicAnswers) -> Self:
        """Returns the file, once the form of its arrays is checked; `blocks` checks the answers.

        Args:
            path: the file.
            public: the public answers, whose queries and labels the file must have.

        Raises:
            InvalidValue: the file is damaged or compressed, or its queries or labels are others.
        """
        mask_shape: tuple[int, ...] | None = None
        with reading(path, rule=_RULE, remedy=_REMEDY) as archive:
            names = {member.removesuffix(".npy") for member in archive.namelist()}
            unknown = sorted(names.difference(_ARRAY_NAMES))
            if unknown:
                raise ValueError(f"unknown arrays: {', '.join(unknown)[:80]}")
            if "answers" not in names:
                raise ValueError("no array answers")
            shape, _ = form_of(archive, array_name="answers", dtype_kinds="fb")
            if "answered" in names:
                mask_shape, _ = form_of(archive, array_name="answered", dtype_kinds="b")
            small_arrays = {
                name: read_member(archive, array_name=name, dtype_kinds="iuU")
                for name in names.intersection(("groups", *NAME_FORMS))
            }
        groups = small_arrays.get("groups")
        _require_shapes(shape, mask_shape=mask_shape, path=path, public_answers=public)
        _require_groups(groups, num_experts=shape[0], path=path)
        _require_names(small_arrays, path=path, public_answers=public)
        return cls(path=path, num_experts=shape[0], is_masked=mask_shape is not None, groups=groups)

    def blocks(self, unanswered: FloatArray) -> Iterator[FloatArray]:
        """Yields blocks of the experts' probabilities, float64 `[num_experts_in_block, num_queries, num_labels]`.

        Args:
            unanswered: `[num_queries, num_labels]`, the values where an expert has not answered.

        Raises:
            InvalidValue: log-odds are not finite, or the file is damaged.
        """
        experts_at_once = max(1, _BLOCK_ENTRIES // unanswered.size)
        for block, mask in self._stored_blocks(num_experts=experts_at_once):
            answered = np.ones(block.shape, dtype=np.bool_) if mask is None else mask
            # A file may hold other bytes than 0 and 1 as bits, so they are checked as whole numbers.
            require_entries("answered", answered.view(np.uint8) <= 1, rule="bits")
            if block.dtype.kind == "b":
                require_entries("votes", block.view(np.uint8) <= 1, rule="bits")
                probabilities = block.astype(np.float64)
            else:
                require_entries("votes", np.isfinite(block) | ~answered, rule="finite log-odds")
                probabilities = logistic(block.astype(np.float64))
            yield np.where(answered, probabilities, unanswered)

    def _stored_blocks(self, num_experts: int) -> Iterator[tuple[NDArray[Any], BoolArray | None]]:
        """Yields the arrays `answers` and `answered` of the file, in blocks of at most `num_experts` experts.

        Both arrays are `[num_experts_in_block, num_queries, num_labels]`. The answers are log-odds or bits; `answered`
        is bool, and None if the file has none.
        """
        with reading(self.path, rule=_RULE, remedy=_REMEDY) as archive:
            blocks = read_rows(
                archive, array_name="answers", block_rows=num_experts, dtype_kinds="fb"
            )
            if not self.is_masked:
                yield from ((block, None) for block in blocks)
                return
            masks = read_rows(
                archive, array_name="answered", block_rows=num_experts, dtype_kinds="b"
            )
            yield from zip(blocks, masks, strict=True)


class ExpertAnswers(TeacherVotes):
    """The answers of experts as the votes of teachers: the probability of each label for each query.

    An expert is a language model with private examples in its prompt. `CenteredVotes` sums the votes minus a center.
    Where an expert has not answered, its vote is the center, so it adds nothing to the sum.

    Attributes:
        paths: the files of answers, sorted; each holds the answers of one or more experts.
        public: the answers of a model that saw no private example.
        record_ids: the public name of each query.
        label_names: the name of each label.
    """

    records_per_teacher = 1.0

    def __init__(self, paths: Sequence[Path], public: PublicAnswers) -> None:
        """Opens all files; the answers themselves are read when they are asked for.

        Args:
            paths: the files; they must hold different experts.
            public: the public answers.

        Raises:
            InvalidValue: a file is missing, damaged, or there twice; it has other queries or labels than the public
                answers; or one private group is in the prompts of two experts.
        """
        require(bool(paths), "votes", [], "at least one file of answers")
        self.paths = tuple(sorted(paths))
        self.public = public
        self._digests = distinct_digests(self.paths)
        self._files = [AnswerFile.open(path, public) for path in self.paths]
        _require_separate_groups(self._files)
        self.num_queries, self.num_labels = public.probabilities.shape
        self.num_teachers = sum(file.num_experts for file in self._files)
        self.record_ids = public.record_ids
        self.label_names = public.label_names

    @property
    def digest(self) -> str:
        """A digest of all files, by which an interrupted release is found again. No epsilon covers it."""
        return hashlib.sha256(b"answers of experts" + b"".join(self._digests)).hexdigest()

    def bits(self) -> Iterator[BoolArray]:
        """Yields blocks of bits, True for each probability of at least 1/2.

        Where an expert has not answered, the bits are those of the public model.
        """
        return (block >= 0.5 for block in self.confidences())

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Yields blocks of experts' probabilities, `[num_experts_in_block, num_queries, num_labels]`.

        Where an expert has not answered, the probabilities are those of the public model.
        """
        return self._probabilities(self.public.probabilities)

    def votes_around(
        self, center: FloatArray, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterator[NDArray[Any]]:
        """Yields blocks of the experts' probabilities, with the center where an expert has not answered.

        `noise_multiplier` and `recipe` are not read; only sources whose votes lie along directions need them.
        """
        return self._probabilities(np.broadcast_to(center, self.public.probabilities.shape))

    def label_shares(self) -> FloatArray:
        """Returns the mean of each expert's probabilities of a label over the queries, `[num_experts, num_labels]`."""
        return np.concatenate([block.mean(axis=1) for block in self.confidences()])

    def _probabilities(self, unanswered: FloatArray) -> Iterator[NDArray[Any]]:
        """Yields blocks of the probabilities in all files, with `unanswered` where an expert has not answered.

        Args:
            unanswered: `[num_queries, num_labels]`, the values to fill in.
        """
        for file in self._files:
            yield from file.blocks(unanswered)


def _require_shapes(
    shape: tuple[int, ...],
    *,
    mask_shape: tuple[int, ...] | None,
    path: Path,
    public_answers: PublicAnswers,
) -> None:
    """Raises `InvalidValue` unless answers have queries and labels as the public answers, and a mask has their shape.

    Args:
        shape: the shape of the array `answers`.
        mask_shape: the shape of the array `answered`; None if the file has none.
        path: the file.
        public_answers: the public answers.
    """
    num_queries, num_labels = public_answers.probabilities.shape
    fits = len(shape) == 3 and shape[0] > 0 and shape[1:] == public_answers.probabilities.shape
    if not fits:
        rule = (
            f"[num_experts, {num_queries}, {num_labels}], queries and labels as in public_answers"
        )
        raise InvalidValue(f"votes={path}, answers.shape", list(shape), rule=rule)
    if mask_shape not in (None, shape):
        name = f"votes={path}, answered.shape"
        raise InvalidValue(name, list(mask_shape or ()), rule=f"{list(shape)}, as answers")


def _require_groups(groups: NDArray[Any] | None, *, num_experts: int, path: Path) -> None:
    """Raises `InvalidValue` unless the private groups of a file have one row for each expert.

    Args:
        groups: `[num_experts, n]`, the private groups in each prompt; None if the file has none.
        num_experts: the number of experts in the file.
        path: the file.
    """
    if groups is None:
        return
    has_rows = groups.ndim == 2 and groups.shape[1] > 0 and len(groups) == num_experts
    if not has_rows:
        rule = f"[{num_experts}, n], the private groups in each prompt"
        raise InvalidValue(f"votes={path}, groups.shape", list(groups.shape), rule=rule)


def _require_names(
    small_arrays: Mapping[str, NDArray[Any]], *, path: Path, public_answers: PublicAnswers
) -> None:
    """Raises `InvalidValue` if a file has names of queries or labels that differ from those of the public answers.

    Args:
        small_arrays: the arrays of the file but for the answers, by name.
        path: the file.
        public_answers: the public answers.
    """
    expected_names = {
        "record_ids": public_answers.record_ids,
        "label_names": np.array(public_answers.label_names),
    }
    for name, expected in expected_names.items():
        if name in small_arrays:
            is_equal = np.array_equal(small_arrays[name].astype(np.str_), expected.astype(np.str_))
            if not is_equal:
                rule = "those of public_answers, in their order"
                raise InvalidValue(f"votes={path}, {name}", "others", rule=rule)


def _require_separate_groups(answer_files: Sequence[AnswerFile]) -> None:
    """Raises `InvalidValue` if one private group is in the prompts of two experts.

    Files without groups are not checked. A prompt may hold several records of a group.
    """
    groups = [file.groups for file in answer_files if file.groups is not None]
    if not groups:
        return
    num_experts = sum(map(len, groups))
    first = 0
    ids: list[NDArray[np.str_]] = []
    experts: list[IntArray] = []
    for block in groups:
        ids.append(block.astype(np.str_).ravel())
        experts.append(np.repeat(np.arange(first, first + len(block)), block.shape[1]))
        first += len(block)
    expert_of_entry = np.concatenate(experts)
    _, group_of_entry = np.unique(np.concatenate(ids), return_inverse=True)
    # The first expert of each group must be the only one of that group.
    num_groups = int(group_of_entry.max()) + 1
    first_expert_of_group = np.full(num_groups, fill_value=num_experts)
    np.minimum.at(first_expert_of_group, group_of_entry, expert_of_entry)
    if (first_expert_of_group[group_of_entry] != expert_of_entry).any():
        rule = "each private group in one prompt alone; the price is for one prompt, and a group in two pays twice"
        raise InvalidValue("groups", "a group in two prompts", rule=rule)
