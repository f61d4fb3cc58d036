"""Messages between the server and the holders: requests for votes, questions for sums, and the answers to both.

A `Roll` lists the holders that the server expects answers from.
"""

import hashlib
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from pate.array_types import Float32Array, FloatArray, IntArray
from pate.errors import InvalidValue
from pate.files.arrays import UNREADABLE, ArrayForm, arrays_of, npz_bytes
from pate.run.queries import queries_digest
from pate.validation import (
    require,
    require_choice,
    require_count,
    require_entries,
    require_moderate,
    require_text,
)
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.clipping import ClippedSum
from pate.votes.label_shares import NUM_LENGTH_CLASSES
from pate.votes.public_pca import PublicPCA
from pate_federated.vote_file import CASTS, VoteManifest

T = TypeVar("T")

# The largest number of bytes of a holder's name, so that it can be the name of a file.
_MAX_NAME_BYTES = 200
# The largest number of characters that an error shows of the name of an unknown holder.
_MAX_SHOWN = 40
# The largest number of queries times labels in one request.
MAX_CELLS = 2**28
# the arrays of the public samples of a request
SAMPLES = {
    "inputs": ArrayForm(dtype_kinds="f"),
    "ids": ArrayForm(dtype_kinds="iuU", shape=(None,)),
    "label_names": ArrayForm(dtype_kinds="U", shape=(None,)),
}
_FORMS = SAMPLES | {
    "cast": ArrayForm(dtype_kinds="U", shape=()),
    "vote_clip": ArrayForm(dtype_kinds="i", shape=()),
}


@contextmanager
def refusing_unreadable(name: str, rule: str) -> Iterator[None]:
    """Raises `InvalidValue` in place of an error within the `with` block that comes from bytes that cannot be read.

    Args:
        name: the name of the value in the message of the error.
        rule: the rule that the value breaks.
    """
    try:
        yield
    except InvalidValue:
        raise
    except (*UNREADABLE, OSError):
        raise InvalidValue(name, rule=rule) from None


def require_head(head: VoteManifest, queries_digest: str, **expected: Any) -> None:
    """Raises `InvalidValue` unless the head of a holder's votes (`VoteManifest`) has the expected values.

    Args:
        head: the head of a holder's votes.
        queries_digest: the expected digest of the queries.
        **expected: the expected values of other fields, by name.
    """
    for field_name, expected_value in expected.items():
        field_value = getattr(head, field_name)
        require(field_value == expected_value, field_name, field_value, str(expected_value))
    require(head.queries == queries_digest, "queries", "others", "those that were asked")


@dataclass(frozen=True)
class Roll:
    """The expected holders of a release with their numbers of teachers.

    The total number of teachers is public under replace-one. It does not change if holders are absent.

    Attributes:
        holders: the number of teachers of each holder, by the holder's name.
        max_absent: the largest number of holders that may be absent or refused; with more, no release is completed.

    Raises:
        InvalidValue: there is no holder. A name cannot be the name of a file, or two names differ only in case or in
            the form of Unicode. A number of teachers is no whole number >= 1. `max_absent` is not between 0 and the
            number of holders less 1.
    """

    holders: Mapping[str, int] = field(default_factory=dict)
    max_absent: int = 0

    def __post_init__(self) -> None:
        require(len(self.holders) > 0, "holders", self.holders, "at least one holder")
        for holder_name, num_teachers in self.holders.items():
            require_text("holder", holder_name)
            is_file_name = PurePath(holder_name).name == holder_name and not holder_name.startswith(
                "."
            )
            is_short = len(holder_name.encode()) <= _MAX_NAME_BYTES
            require(
                is_file_name and is_short,
                "holder",
                holder_name,
                f"a name that a file can have, of at most {_MAX_NAME_BYTES} bytes",
            )
            require_count(f"holders[{holder_name}]", num_teachers)
        folded_names = {
            unicodedata.normalize("NFC", holder_name).casefold() for holder_name in self.holders
        }
        rule = (
            "names that differ by more than how letters are written: some disks take them for one"
        )
        require(len(folded_names) == len(self.holders), "holders", "two of one name", rule)
        require_count("max_absent", self.max_absent, minimum=0)
        rule = f"less than the {len(self.holders)} holders"
        require(self.max_absent < len(self.holders), "max_absent", self.max_absent, rule)

    @classmethod
    def numbered(cls, num_holders: int, teachers_each: int, *, max_absent: int = 0) -> Self:
        """Returns a roll of holders named 1, 2, ..., each with the same number of teachers.

        Args:
            num_holders: the number of holders.
            teachers_each: the number of teachers of each holder.
            max_absent: the largest number of holders that may be absent.
        """
        numbered_names = (
            str(number) for number in range(1, require_count("holders", num_holders) + 1)
        )
        return cls(holders=dict.fromkeys(numbered_names, teachers_each), max_absent=max_absent)

    @property
    def num_teachers(self) -> int:
        """The number of teachers of all holders, absent holders included."""
        return sum(self.holders.values())

    def require_enough(
        self, present_holders: Collection[str], refusal_reasons: Mapping[str, str], remedy: str
    ) -> None:
        """Raises `InvalidValue` if more than `max_absent` holders are absent.

        Args:
            present_holders: the names of the holders with a valid answer.
            refusal_reasons: the reason for each holder whose answer is not valid, by name.
            remedy: the end of the message, with advice for the server.
        """
        absent = [name for name in self.holders if name not in present_holders]
        why = "; ".join(refusal_reasons.get(name, f"holder={name}: no answer") for name in absent)
        rule = f"at most max_absent={self.max_absent} ({why}); {remedy}"
        require(len(absent) <= self.max_absent, "absent holders", len(absent), rule)


@dataclass(frozen=True)
class Contribution:
    """The answer of one holder as it arrived, before any check.

    Attributes:
        holder: the name of the sender, as the transport or its app tells it. Votes whose head has another name are
            refused.
        votes: the bytes of a vote file or of a sum; None if the holder sent none.
        problem: the reason for missing votes, in words that disclose nothing about records or votes.
    """

    holder: str
    votes: bytes | None = field(default=None, repr=False)
    problem: str = "no answer"


def valid_answers(
    roll: Roll, unchecked_answers: Iterable[Contribution], read_answer: Callable[[str, bytes], T]
) -> tuple[dict[str, T], dict[str, str]]:
    """Returns the valid answers of the holders on a roll, and the reason for each other holder.

    An answer is valid if its holder is on the roll and sent votes once, and if `read_answer` accepts the bytes. Two
    answers of one holder are both refused, since only one of them can be genuine.

    Args:
        roll: the expected holders.
        unchecked_answers: the answers as they arrived, in any order.
        read_answer: a function of the holder's name and the bytes that returns the parsed answer, and raises
            `InvalidValue` to refuse it.

    Returns:
        The parsed valid answers by holder, and the reason for each holder without one. Senders that are not on the roll
        share one reason, under the name `another`.
    """
    contributions = list(unchecked_answers)
    num_answers = Counter(
        contribution.holder for contribution in contributions if contribution.votes is not None
    )
    answer_of: dict[str, T] = {}
    refused = {name: f"holder={name}: no answer" for name in roll.holders}
    for contribution in contributions:
        is_known = contribution.holder in roll.holders
        problem = ""
        if not is_known:
            problem = "expected a holder on the roll"
        elif num_answers[contribution.holder] > 1:
            problem = (
                f"expected one answer, and {num_answers[contribution.holder]} came in its name"
            )
        elif contribution.votes is None:
            problem = contribution.problem
        else:
            try:
                answer_of[contribution.holder] = read_answer(
                    contribution.holder, contribution.votes
                )
            except InvalidValue as error:
                problem = str(error)
        if problem:
            # a stranger's name and words can be anything: what a line can show
            line = f"holder={contribution.holder if is_known else contribution.holder[:_MAX_SHOWN]}: {problem}"
            refused[contribution.holder if is_known else "another"] = "".join(
                letter if letter.isprintable() else " " for letter in line
            )
    return dict(sorted(answer_of.items())), {
        name: line for name, line in refused.items() if name not in answer_of
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """A request for votes on public samples, which are the queries of one release. All of it is public.

    Attributes:
        inputs: float32 `[num_queries, ...]`, the samples as teachers read them, finite and at most 1e12 in size. The
            number of queries times labels is at most `MAX_CELLS`.
        record_ids: `[num_queries]`, the public names of the queries.
        label_names: the name of each label.
        cast: the form of the votes, one of `CASTS`: bits, or confidences for an aggregator that reads them.
        vote_clip: the largest number of labels of a query that a teacher votes for; None for all.
    """

    inputs: Float32Array
    record_ids: NDArray[Any]
    label_names: tuple[str, ...]
    cast: str = "bits"
    vote_clip: int | None = None

    def __post_init__(self) -> None:
        inputs_shape = np.shape(self.inputs)
        require(
            len(inputs_shape) > 0 and math.prod(inputs_shape) > 0,
            "inputs.shape",
            inputs_shape,
            "at least one query, of numbers",
        )
        require_moderate("inputs", np.asarray(self.inputs))
        is_same = len(self.record_ids) == len(self.inputs)
        require(
            is_same,
            "len(record_ids)",
            len(self.record_ids),
            f"{len(self.inputs)}, one for each query",
        )
        require(len(self.label_names) > 0, "label_names", "()", "at least one label")
        cells = self.num_queries * self.num_labels
        require(cells <= MAX_CELLS, "queries times labels", cells, f"at most {MAX_CELLS}")
        require_choice("cast", self.cast, CASTS)
        if self.vote_clip is not None:
            require_count("vote_clip", self.vote_clip)

    @property
    def num_queries(self) -> int:
        """The number of queries."""
        return len(self.inputs)

    @property
    def num_labels(self) -> int:
        """The number of labels."""
        return len(self.label_names)

    @cached_property
    def digest(self) -> str:
        """The digest of the inputs and the public names of the queries; labels and form of the votes are not in it."""
        return queries_digest(np.asarray(self.inputs, dtype=np.float32), self.record_ids)

    def samples(self) -> dict[str, NDArray[Any]]:
        """Returns the queries as arrays by name, in the forms that `SAMPLES` lists."""
        inputs = np.asarray(self.inputs, dtype=np.float32)
        label_name_array = np.array(self.label_names, np.str_)
        return {
            "inputs": inputs,
            "ids": np.asarray(self.record_ids),
            "label_names": label_name_array,
        }

    def to_bytes(self) -> bytes:
        """Returns the request as the bytes of an .npz file."""
        vote_clip_array = np.array(self.vote_clip or 0, np.int64)
        return npz_bytes(
            {**self.samples(), "cast": np.array(self.cast), "vote_clip": vote_clip_array}
        )

    @classmethod
    def of_samples(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        *,
        cast: str = "bits",
        vote_clip: int | None = None,
    ) -> Self:
        """Returns a request for votes on samples.

        Args:
            arrays: the samples by name, in the forms that `SAMPLES` lists.
            cast: the field `cast` of the request.
            vote_clip: the field `vote_clip` of the request.
        """
        return cls(
            inputs=np.asarray(arrays["inputs"], dtype=np.float32),
            record_ids=arrays["ids"],
            label_names=tuple(arrays["label_names"].tolist()),
            cast=cast,
            vote_clip=vote_clip,
        )

    @classmethod
    def from_bytes(cls, request_bytes: bytes) -> Self:
        """Returns the request in bytes that `to_bytes` made; raises `InvalidValue` for bytes of another form."""
        with refusing_unreadable(name="request", rule="a request as pate_federated sends it"):
            arrays = arrays_of(npz_bytes=request_bytes, forms=_FORMS)
            return cls.of_samples(
                arrays, cast=str(arrays["cast"]), vote_clip=int(arrays["vote_clip"]) or None
            )


# The kinds of questions: the heads of holders; the lengths of their teachers' label shares; the clipped sum of label
# shares; the clipped sum of a round's votes.
OPENING, LENGTHS, SHARES, MOMENTS = KINDS = ("opening", "lengths", "shares", "moments")
_RULE = "a question as pate_federated asks it"
# The arrays that every question has.
_HEAD = {
    "kind": ArrayForm(dtype_kinds="U", shape=()),
    "asked": ArrayForm(dtype_kinds="U", shape=()),
    "num_labels": ArrayForm(dtype_kinds="i", shape=()),
}
# The array that a question about shares has if labels have gaps.
_GAPS = "have_gaps"
# The smallest and the largest clip, as multiples of the length of the longest vote. A far longer clip would round all
# votes to 0, and a far shorter one would leave nothing of them.
_MIN_CLIP_RATIO = 1e-12
_MAX_CLIP_RATIO = 1e3
# The largest entry of the pool's center, as a multiple of the largest input.
_MAX_CENTER_RATIO = 100
# The bounds of lengths, whose squares are finite.
_SIZE = (1e-50, 1e12)
# The bounds of other numbers.
_ANY = (-1e12, 1e12)
# The arrays of each kind: a letter for the size of each axis, and the bounds of the entries. Beyond these bounds a
# server could make all holders but one answer a constant. L counts labels; E is L, or 2 L if labels have gaps; d counts
# inputs and k directions; D is k + 1, for a constant, or k + 2, for a height too.
_QUESTION_STATES: Mapping[str, Mapping[str, tuple[str, tuple[float, float]]]] = {
    OPENING: {},
    LENGTHS: {},
    SHARES: {"center": ("E", (0, 1)), "clip": ("", _SIZE)},
    MOMENTS: {
        "records_per_teacher": ("", (1, 1e12)),
        "weights": ("DL", _ANY),
        "label_scale": ("L", _SIZE),
        "clip": ("", _SIZE),
        "pool_center": ("d", _ANY),
        "projection": ("dk", _ANY),
        "variances": ("k", (0, 1e30)),
    },
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """A question from the server, which each holder answers with a sum over its teachers.

    All of a question is public, or was released and charged before the question is sent.

    Attributes:
        kind: the kind of sum, one of `KINDS`.
        asked: the digest of the samples in the opening, the same in all questions of a release.
        num_labels: the number of labels.
        state: float64 arrays by name, the public values that the sum depends on. All entries are finite: a center of
            shares is in [0, 1], `clip` and `label_scale` in [1e-50, 1e12], `records_per_teacher` in [1, 1e12],
            `variances` in [0, 1e30], and all others in [-1e12, 1e12].
        opening: the public samples on which trained teachers give confidences, in the first question alone; else None.
        have_gaps: whether labels of records may be unknown at some holder. Every holder then appends known shares to
            the label shares of its teachers. Only questions about shares say so.
    """

    kind: str
    asked: str
    num_labels: int
    state: Mapping[str, FloatArray] = field(default_factory=dict)
    opening: Request | None = None
    have_gaps: bool = False

    def __post_init__(self) -> None:
        forms = _QUESTION_STATES.get(self.kind, {"": ("", _ANY)})
        sizes = {"L": self.num_labels, "E": self.num_entries}
        is_sound = (self.opening is not None) == (
            self.kind == OPENING
        ) and self.state.keys() == forms.keys()
        for name, (axes, _) in forms.items() if is_sound else ():
            shape = self.state[name].shape
            is_sound = is_sound and len(axes) == len(shape)
            is_sound = is_sound and all(
                sizes.setdefault(axis_letter, size) == size
                for axis_letter, size in zip(axes, shape, strict=True)
            )
        if is_sound and self.kind == MOMENTS:
            is_sound = sizes["k"] <= sizes["d"] and sizes["D"] - sizes["k"] in (1, 2)
            is_sound = (
                is_sound and float(np.abs(self.state["projection"]).max(initial=0.0)) >= _SIZE[0]
            )
        if not is_sound or (self.have_gaps and self.kind not in (LENGTHS, SHARES)):
            raise InvalidValue("question", rule=_RULE)
        require_count("question.num_labels", self.num_labels)
        for name, value in self.state.items():
            low, high = forms[name][1]
            rule = f"finite numbers from {low:g} to {high:g}"
            require_entries(f"question.{name}", (value >= low) & (value <= high), rule)
        if "clip" in self.state:
            longest = math.sqrt(self.num_entries)
            clip = float(self.state["clip"])
            if self.kind == MOMENTS:
                longest = float(np.linalg.norm(self.state["label_scale"]))
                longest /= math.sqrt(float(self.state["records_per_teacher"]))
            rule = f"{_MIN_CLIP_RATIO:g} to {_MAX_CLIP_RATIO:g} times as long as what a teacher may say"
            is_in_range = _MIN_CLIP_RATIO * longest <= clip <= _MAX_CLIP_RATIO * longest
            require(is_in_range, "question.clip", clip, rule)

    @classmethod
    def of_opening(cls, request: Request) -> Self:
        """Returns the first question of a release in rounds, about all samples of a request."""
        return cls(
            kind=OPENING, asked=request.digest, num_labels=request.num_labels, opening=request
        )

    @property
    def num_entries(self) -> int:
        """The number of entries of a teacher's vector of shares: one for each label, or two if labels have gaps."""
        return 2 * self.num_labels if self.have_gaps else self.num_labels

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the sum that the question asks for."""
        if self.kind == MOMENTS:
            return self.state["weights"].shape
        return {OPENING: (0,), LENGTHS: (NUM_LENGTH_CLASSES,), SHARES: (1, self.num_entries)}[
            self.kind
        ]

    @property
    def most_bytes(self) -> int:
        """The largest number of bytes of a holder's answer."""
        return 8 * math.prod(self.shape) + HEADS

    @property
    def name(self) -> str:
        """The name, without ending, of the question's files: its kind and the first digits of its digest."""
        return f"{self.kind}-{self.digest[:16]}"

    @property
    def reach(self) -> float:
        """The largest l2 length, in steps, of one teacher's part of the sum.

        Replacing a teacher moves the sum by at most twice this length.
        """
        return float(self.clipped_sum.l2_sensitivity) / 2 if "clip" in self.state else 1.0

    @property
    def clipped_sum(self) -> Any:
        """The mechanism that clips and sums label shares or the votes of a round, with the clip of the question."""
        clip = float(self.state["clip"])
        return (
            ClippedSum(clip, sum_shape=(1, self.num_entries))
            if self.kind == SHARES
            else ClippedMoments(clip, num_teachers=1)
        )

    @property
    def public_pca(self) -> PublicPCA:
        """The public directions of the features that the question's weights belong to."""
        projection = self.state["projection"]
        has_height = len(self.state["weights"]) > projection.shape[1] + 1
        return PublicPCA(
            center=self.state["pool_center"],
            projection=projection,
            variances=self.state["variances"],
            has_height=has_height,
        )

    def require_possible(self, total: IntArray, num_teachers: int) -> None:
        """Raises `InvalidValue` for a sum that the answers of `num_teachers` teachers cannot have.

        A possible sum has the shape `shape`, and its l2 length is at most `num_teachers` times `reach`. For the kind
        "lengths" the rule on the length is replaced: the sum has numbers of teachers >= 0, together at most
        `num_teachers`.
        """
        require(total.shape == self.shape, "sum.shape", total.shape, str(self.shape))
        if self.kind == LENGTHS:
            # Python's integers do not overflow
            is_possible = bool((total >= 0).all()) and sum(total.tolist()) <= num_teachers
        else:
            is_possible = math.sqrt(
                float((total.astype(np.float64) ** 2).sum())
            ) <= num_teachers * self.reach * (1 + 1e-9)
        rule = f"one of {num_teachers} teachers, each within its clip; this one is longer"
        if not is_possible:
            raise InvalidValue("sum", rule=rule)

    def require_part_of(self, opening: Request) -> None:
        """Raises `InvalidValue` if the number of labels, or the pool's center, does not fit an opening.

        The center of the kind "moments" needs the shape of a sample. None of its entries may be more than 100 times as
        large as the largest entry of the samples.

        Args:
            opening: the first request of the release in rounds, which has the samples and labels of all its questions.
        """
        require(
            self.num_labels == opening.num_labels,
            "question.num_labels",
            self.num_labels,
            str(opening.num_labels),
        )
        if self.kind == MOMENTS:
            center = self.state["pool_center"]
            inputs = np.asarray(opening.inputs)
            is_near = (
                center.shape == inputs.shape[1:]
                and np.abs(center).max() <= _MAX_CENTER_RATIO * np.abs(inputs).max()
            )
            rule = f"one for each feature of the samples, up to {_MAX_CENTER_RATIO} times as large as they are"
            require(bool(is_near), "question.pool_center", "others", rule)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the kind, `asked`, the number of labels, `have_gaps` and the state, in hexadecimal digits."""
        digest = hashlib.sha256(repr(("question", self.kind, self.asked, self.num_labels)).encode())
        if self.have_gaps:
            digest.update(b"gaps")
        for name in sorted(self.state):
            digest.update(repr((name, self.state[name].shape)).encode())
            digest.update(np.ascontiguousarray(self.state[name], dtype="<f8").data)
        return digest.hexdigest()

    def to_bytes(self) -> bytes:
        """Returns the question as the bytes of an .npz file."""
        state_arrays = {
            name: np.asarray(value, dtype=np.float64) for name, value in self.state.items()
        }
        sample_arrays = {} if self.opening is None else self.opening.samples()
        gap_arrays = {_GAPS: np.array(self.have_gaps)} if self.have_gaps else {}
        return npz_bytes(
            {
                "kind": np.array(self.kind),
                "asked": np.array(self.asked),
                "num_labels": np.array(self.num_labels, np.int64),
                **state_arrays,
                **sample_arrays,
                **gap_arrays,
            }
        )

    @classmethod
    def from_bytes(cls, question_bytes: bytes) -> Self:
        """Returns the question in bytes that `to_bytes` made; raises `InvalidValue` for bytes of another form."""
        with refusing_unreadable(name="question", rule=_RULE):
            states = {
                name: axes
                for state in _QUESTION_STATES.values()
                for name, (axes, _) in state.items()
            }
            state_forms = {
                name: ArrayForm(dtype_kinds="f", shape=(None,) * len(axes))
                for name, axes in states.items()
            }
            gap_forms = {_GAPS: ArrayForm(dtype_kinds="b", shape=())}
            arrays = arrays_of(
                npz_bytes=question_bytes,
                forms=_HEAD,
                optional_forms=SAMPLES | state_forms | gap_forms,
            )
            kind = str(arrays["kind"])
            have_gaps = bool(arrays.pop(_GAPS, False))
            if (
                arrays.keys()
                != _HEAD.keys() | (SAMPLES if kind == OPENING else _QUESTION_STATES[kind]).keys()
            ):
                raise ValueError("arrays of another kind")
            if kind == OPENING:
                return cls.of_opening(Request.of_samples(arrays))
            state = {
                name: np.asarray(arrays[name], dtype=np.float64) for name in _QUESTION_STATES[kind]
            }
            return cls(
                kind=kind,
                asked=str(arrays["asked"]),
                num_labels=int(arrays["num_labels"]),
                state=state,
                have_gaps=have_gaps,
            )


# The number of bytes that names and headers of a file may have.
HEADS = 2**20
# The arrays of an answer.
_ANSWER = {
    "head": ArrayForm(dtype_kinds="U", shape=()),
    "question": ArrayForm(dtype_kinds="U", shape=()),
    "total": ArrayForm(dtype_kinds="biuf"),
}


@dataclass(frozen=True, eq=False)
class SumAnswer:
    """The answer of a holder to a question. No epsilon covers the sum, so only the aggregator may read it.

    Attributes:
        head: the statements of the holder, the same in all of its answers.
        question: the digest of the question.
        total: the sum over the holder's teachers, int64, in steps; for the kind "lengths" numbers of teachers.
    """

    head: VoteManifest
    question: str
    total: IntArray

    def to_bytes(self) -> bytes:
        """Returns the answer as the bytes of an .npz file."""
        vote_head_text = np.array(self.head.to_text())
        question_digest = np.array(self.question)
        return npz_bytes(
            {
                "head": vote_head_text,
                "question": question_digest,
                "total": self.total.astype(np.int64),
            }
        )

    @classmethod
    def from_bytes(cls, answer_bytes: bytes, question: Question) -> Self:
        """Returns the answer in some bytes; raises `InvalidValue` if it is damaged or no answer to the question.

        The name of the holder, its numbers of teachers and labels, and the shape of the sum are not checked.

        Args:
            answer_bytes: the bytes.
            question: the question that must be answered.
        """
        with refusing_unreadable(name="answer", rule="a whole answer, as pate_federated makes it"):
            size = len(answer_bytes)
            most = question.most_bytes
            require(size <= most, "size", size, f"at most {most} bytes, which such a sum takes")
            arrays = arrays_of(npz_bytes=answer_bytes, forms=_ANSWER)
            head = VoteManifest.from_text(str(arrays["head"]))
            total = arrays["total"]
        require(
            str(arrays["question"]) == question.digest,
            "question",
            "another",
            "the one that was asked",
        )
        require(total.dtype == np.int64, "sum.dtype", total.dtype, "int64, whole numbers of steps")
        require_head(head, queries_digest=question.asked)
        return cls(head=head, question=question.digest, total=total)
