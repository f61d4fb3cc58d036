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
        answer_path: the file.
        num_experts: the number of experts in it.
        is_masked: whether the file has the array `answered`, which marks the questions that an expert has answered.
        groups_in_prompts: integers or texts `[num_experts, n]`, the private groups in each prompt; None if the file
            has none.
    """

    answer_path: Path
    num_experts: int
    is_masked: bool
    groups_in_prompts: NDArray[Any] | None

    @classmethod
    def open(cls, answer_path: Path, public_answers: PublicAnswers) -> Self:
        """Returns the file, once the form of its arrays is checked; `blocks` checks the answers.

        Args:
            answer_path: the file.
            public_answers: the public answers, whose queries and labels the file must have.

        Raises:
            InvalidValue: the file is damaged or compressed, or its queries or labels are others.
        """
        answered_shape: tuple[int, ...] | None = None
        with reading(answer_path, rule=_RULE, remedy=_REMEDY) as archive:
            array_names = {member.removesuffix(".npy") for member in archive.namelist()}
            unknown_names = sorted(array_names.difference(_ARRAY_NAMES))
            if unknown_names:
                raise ValueError(f"unknown arrays: {', '.join(unknown_names)[:80]}")
            if "answers" not in array_names:
                raise ValueError("no array answers")
            answers_shape, _ = form_of(archive, array_name="answers", dtype_kinds="fb")
            if "answered" in array_names:
                answered_shape, _ = form_of(archive, array_name="answered", dtype_kinds="b")
            small_arrays = {
                name: read_member(archive, array_name=name, dtype_kinds="iuU")
                for name in array_names.intersection(("groups", *NAME_FORMS))
            }
        groups_in_prompts = small_arrays.get("groups")
        _require_shapes(
            answers_shape,
            answered_shape=answered_shape,
            answer_path=answer_path,
            public_answers=public_answers,
        )
        _require_groups(groups_in_prompts, num_experts=answers_shape[0], answer_path=answer_path)
        _require_names(small_arrays, answer_path=answer_path, public_answers=public_answers)
        return cls(
            answer_path=answer_path,
            num_experts=answers_shape[0],
            is_masked=answered_shape is not None,
            groups_in_prompts=groups_in_prompts,
        )

    def blocks(self, fill_values: FloatArray) -> Iterator[FloatArray]:
        """Yields blocks of the experts' probabilities, float64 `[num_experts_in_block, num_queries, num_labels]`.

        Args:
            fill_values: `[num_queries, num_labels]`, the values where an expert has not answered.

        Raises:
            InvalidValue: log-odds are not finite, or the file is damaged.
        """
        prompts_at_once = max(1, _BLOCK_ENTRIES // fill_values.size)
        for answer_block, answered_block in self._stored_blocks(prompts_at_once):
            is_answered_by_expert = (
                np.ones(answer_block.shape, dtype=np.bool_)
                if answered_block is None
                else answered_block
            )
            # A file may hold other bytes than 0 and 1 as bits, so they are checked as whole numbers.
            require_entries("answered", is_answered_by_expert.view(np.uint8) <= 1, rule="bits")
            if answer_block.dtype.kind == "b":
                require_entries("votes", answer_block.view(np.uint8) <= 1, rule="bits")
                probabilities = answer_block.astype(np.float64)
            else:
                require_entries(
                    "votes",
                    np.isfinite(answer_block) | ~is_answered_by_expert,
                    rule="finite log-odds",
                )
                probabilities = logistic(answer_block.astype(np.float64))
            yield np.where(is_answered_by_expert, probabilities, fill_values)

    def _stored_blocks(
        self, prompts_at_once: int
    ) -> Iterator[tuple[NDArray[Any], BoolArray | None]]:
        """Yields the arrays `answers` and `answered` of the file, in blocks of at most `prompts_at_once` experts.

        Both arrays are `[num_experts_in_block, num_queries, num_labels]`. The answers are log-odds or bits; `answered`
        is bool, and None if the file has none.
        """
        with reading(self.answer_path, rule=_RULE, remedy=_REMEDY) as archive:
            answer_blocks = read_rows(
                archive, array_name="answers", rows_per_block=prompts_at_once, dtype_kinds="fb"
            )
            if not self.is_masked:
                yield from ((answer_block, None) for answer_block in answer_blocks)
                return
            answered_blocks = read_rows(
                archive, array_name="answered", rows_per_block=prompts_at_once, dtype_kinds="b"
            )
            yield from zip(answer_blocks, answered_blocks, strict=True)


class ExpertAnswers(TeacherVotes):
    """The answers of experts as the votes of teachers: the probability of each label for each query.

    An expert is a language model with private examples in its prompt. `CenteredVotes` sums the votes minus a center.
    Where an expert has not answered, its vote is the center, so it adds nothing to the sum.

    Attributes:
        answer_paths: the files of answers, sorted; each holds the answers of one or more experts.
        public_answers: the answers of a model that saw no private example.
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
        self.answer_paths = tuple(sorted(paths))
        self.public_answers = public
        self._digests = distinct_digests(self.answer_paths)
        self._answer_files = [
            AnswerFile.open(answer_path, public_answers=public) for answer_path in self.answer_paths
        ]
        _require_separate_groups(self._answer_files)
        self.num_queries, self.num_labels = public.probabilities.shape
        self.num_teachers = sum(answer_file.num_experts for answer_file in self._answer_files)
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
        return (probability_block >= 0.5 for probability_block in self.confidences())

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Yields blocks of experts' probabilities, `[num_experts_in_block, num_queries, num_labels]`.

        Where an expert has not answered, the probabilities are those of the public model.
        """
        return self._probabilities(self.public_answers.probabilities)

    def votes_around(
        self, center: FloatArray, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterator[NDArray[Any]]:
        """Yields blocks of the experts' probabilities, with the center where an expert has not answered.

        `noise_multiplier` and `recipe` are not read; only sources whose votes lie along directions need them.
        """
        return self._probabilities(np.broadcast_to(center, self.public_answers.probabilities.shape))

    def label_shares(self) -> FloatArray:
        """Returns the mean of each expert's probabilities of a label over the queries, `[num_experts, num_labels]`."""
        return np.concatenate(
            [probability_block.mean(axis=1) for probability_block in self.confidences()]
        )

    def _probabilities(self, fill_values: FloatArray) -> Iterator[NDArray[Any]]:
        """Yields blocks of the probabilities in all files, with `fill_values` where an expert has not answered.

        Args:
            fill_values: `[num_queries, num_labels]`, the values to fill in.
        """
        for answer_file in self._answer_files:
            yield from answer_file.blocks(fill_values)


def _require_shapes(
    answers_shape: tuple[int, ...],
    *,
    answered_shape: tuple[int, ...] | None,
    answer_path: Path,
    public_answers: PublicAnswers,
) -> None:
    """Raises `InvalidValue` unless answers have queries and labels as the public answers, and a mask has their shape.

    Args:
        answers_shape: the shape of the array `answers`.
        answered_shape: the shape of the array `answered`; None if the file has none.
        answer_path: the file.
        public_answers: the public answers.
    """
    num_queries, num_labels = public_answers.probabilities.shape
    fits = (
        len(answers_shape) == 3
        and answers_shape[0] > 0
        and answers_shape[1:] == public_answers.probabilities.shape
    )
    if not fits:
        rule = (
            f"[num_experts, {num_queries}, {num_labels}], queries and labels as in public_answers"
        )
        raise InvalidValue(f"votes={answer_path}, answers.shape", list(answers_shape), rule=rule)
    if answered_shape not in (None, answers_shape):
        name = f"votes={answer_path}, answered.shape"
        raise InvalidValue(
            name, list(answered_shape or ()), rule=f"{list(answers_shape)}, as answers"
        )


def _require_groups(
    groups_in_prompts: NDArray[Any] | None, *, num_experts: int, answer_path: Path
) -> None:
    """Raises `InvalidValue` unless the private groups of a file have one row for each expert.

    Args:
        groups_in_prompts: `[num_experts, n]`, the private groups in each prompt; None if the file has none.
        num_experts: the number of experts in the file.
        answer_path: the file.
    """
    if groups_in_prompts is None:
        return
    has_rows = (
        groups_in_prompts.ndim == 2
        and groups_in_prompts.shape[1] > 0
        and len(groups_in_prompts) == num_experts
    )
    if not has_rows:
        rule = f"[{num_experts}, n], the private groups in each prompt"
        raise InvalidValue(
            f"votes={answer_path}, groups.shape", list(groups_in_prompts.shape), rule=rule
        )


def _require_names(
    small_arrays: Mapping[str, NDArray[Any]], *, answer_path: Path, public_answers: PublicAnswers
) -> None:
    """Raises `InvalidValue` if a file has names of queries or labels that differ from those of the public answers.

    Args:
        small_arrays: the arrays of the file but for the answers, by name.
        answer_path: the file.
        public_answers: the public answers.
    """
    expected_names = {
        "record_ids": public_answers.record_ids,
        "label_names": np.array(public_answers.label_names),
    }
    for array_name, public_names in expected_names.items():
        if array_name in small_arrays:
            is_equal = np.array_equal(
                small_arrays[array_name].astype(np.str_), public_names.astype(np.str_)
            )
            if not is_equal:
                rule = "those of public_answers, in their order"
                raise InvalidValue(f"votes={answer_path}, {array_name}", "others", rule=rule)


def _require_separate_groups(answer_files: Sequence[AnswerFile]) -> None:
    """Raises `InvalidValue` if one private group is in the prompts of two experts.

    Files without groups are not checked. A prompt may hold several records of a group.
    """
    groups_of_files = [
        answer_file.groups_in_prompts
        for answer_file in answer_files
        if answer_file.groups_in_prompts is not None
    ]
    if not groups_of_files:
        return
    num_prompts = sum(map(len, groups_of_files))
    first_prompt = 0
    group_ids_of_entries: list[NDArray[np.str_]] = []
    prompts_of_entries: list[IntArray] = []
    for groups_of_file in groups_of_files:
        group_ids_of_entries.append(groups_of_file.astype(np.str_).ravel())
        prompts_of_entries.append(
            np.repeat(
                np.arange(first_prompt, first_prompt + len(groups_of_file)), groups_of_file.shape[1]
            )
        )
        first_prompt += len(groups_of_file)
    prompt_of_entry = np.concatenate(prompts_of_entries)
    _, group_of_entry = np.unique(np.concatenate(group_ids_of_entries), return_inverse=True)
    # The first prompt of each group must be the only one of that group.
    num_groups = int(group_of_entry.max()) + 1
    first_prompt_of_group = np.full(num_groups, fill_value=num_prompts)
    np.minimum.at(first_prompt_of_group, group_of_entry, prompt_of_entry)
    if (first_prompt_of_group[group_of_entry] != prompt_of_entry).any():
        rule = "each private group in one prompt alone; the price is for one prompt, and a group in two pays twice"
        raise InvalidValue("groups", "a group in two prompts", rule=rule)
