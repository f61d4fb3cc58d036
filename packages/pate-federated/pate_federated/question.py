"""Who is expected to answer, what is asked, votes on public samples or a sum over teachers, and which answers count."""

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
from pate.votes.label_shares import NUM_LENGTHS
from pate.votes.public_pca import PublicPCA
from pate.votes.weighted import Integers
from pate_federated.vote_file import CASTS, VoteManifest

Array = NDArray[np.float64]
T = TypeVar("T")

_LONGEST_NAME = 200
_SHOWN = 40
MOST_CELLS = 2**28  # labels of queries that a teacher is asked about in one request, Q times L
# the arrays that say what is asked about
SAMPLES = {
    "inputs": ArrayForm("f"),
    "ids": ArrayForm("iuU", (None,)),
    "label_names": ArrayForm("U", (None,)),
}
_FORMS = SAMPLES | {"cast": ArrayForm("U", ()), "vote_clip": ArrayForm("i", ())}


@contextmanager
def expected(name: str, rule: str) -> Iterator[None]:
    """Says of bytes that are no such message what was expected."""
    try:
        yield
    except InvalidValue:
        raise
    except (*UNREADABLE, OSError):
        raise InvalidValue(name, rule=rule) from None


def require_head(head: VoteManifest, queries: str, **wanted: Any) -> None:
    """Raises unless a holder vouches for what was asked of it."""
    for name, value in wanted.items():
        entry = getattr(head, name)
        require(entry == value, name, entry, str(value))
    require(head.queries == queries, "queries", "others", "those that were asked")


@dataclass(frozen=True)
class Roll:
    """The holders of a release and their teachers. T is public under replace-one, so nobody's absence changes it.

    Attributes:
        holders: how many teachers each holder has, by name.
        max_absent: how many holders may be absent or refused; with more there is no release.
    """

    holders: Mapping[str, int] = field(default_factory=dict)
    max_absent: int = 0

    def __post_init__(self) -> None:
        require(len(self.holders) > 0, "holders", "{}", "at least one holder")
        for name, count in self.holders.items():
            require_text("holder", name)
            plain = PurePath(name).name == name and not name.startswith(".")
            short = len(name.encode()) <= _LONGEST_NAME
            require(
                plain and short,
                "holder",
                name,
                f"a name that a file can have, of at most {_LONGEST_NAME} bytes",
            )
            require_count(f"holders[{name}]", count)
        alike = {unicodedata.normalize("NFC", name).casefold() for name in self.holders}
        rule = (
            "names that differ by more than how letters are written: some disks take them for one"
        )
        require(len(alike) == len(self.holders), "holders", "two of one name", rule)
        require_count("max_absent", self.max_absent, minimum=0)
        rule = f"less than the {len(self.holders)} holders"
        require(self.max_absent < len(self.holders), "max_absent", self.max_absent, rule)

    @classmethod
    def numbered(cls, num_holders: int, teachers_each: int, *, max_absent: int = 0) -> Self:
        """Holders 1, 2, …, with as many teachers each."""
        names = (str(number) for number in range(1, require_count("holders", num_holders) + 1))
        return cls(dict.fromkeys(names, teachers_each), max_absent)

    @property
    def num_teachers(self) -> int:
        """T, of all holders, absent ones included."""
        return sum(self.holders.values())

    def require_enough(
        self, present: Collection[str], refused: Mapping[str, str], remedy: str
    ) -> None:
        """Raises where more holders are absent than may be, with the reasons; nothing was charged then."""
        absent = [name for name in self.holders if name not in present]
        why = "; ".join(refused.get(name, f"holder={name}: no answer") for name in absent)
        rule = f"at most max_absent={self.max_absent} ({why}); {remedy}"
        require(len(absent) <= self.max_absent, "absent holders", len(absent), rule)


@dataclass(frozen=True)
class Contribution:
    """One answer. Nothing in it is believed before it was looked at.

    Attributes:
        holder: whose answer it is; where transport says who sent it, that name and not the one in the message.
        votes: a vote file or a sum, as bytes; None where there is none.
        problem: why there is none, in words that say nothing of records or votes.
    """

    holder: str
    votes: bytes | None = field(default=None, repr=False)
    problem: str = "no answer"


def counted(
    roll: Roll, contributions: Iterable[Contribution], read: Callable[[str, bytes], T]
) -> tuple[dict[str, T], dict[str, str]]:
    """What `read` makes of each answer that counts, by holder, and a line for each other holder and for strangers.

    An answer counts where its holder is on the roll and answered once, and `read` does not refuse it. A holder that
    answers twice is refused, as nobody can say which answer is the holder's.
    """
    all_contributions = list(contributions)
    answers = Counter(
        contribution.holder for contribution in all_contributions if contribution.votes is not None
    )
    answer_of: dict[str, T] = {}
    refused = {name: f"holder={name}: no answer" for name in roll.holders}
    for each in all_contributions:
        is_known = each.holder in roll.holders
        problem = ""
        if not is_known:
            problem = "expected a holder on the roll"
        elif answers[each.holder] > 1:
            problem = f"expected one answer, and {answers[each.holder]} came in its name"
        elif each.votes is None:
            problem = each.problem
        else:
            try:
                answer_of[each.holder] = read(each.holder, each.votes)
            except InvalidValue as error:
                problem = str(error)
        if problem:
            # a stranger's name and words can be anything: what a line can show
            line = f"holder={each.holder if is_known else each.holder[:_SHOWN]}: {problem}"
            refused[each.holder if is_known else "another"] = "".join(
                c if c.isprintable() else " " for c in line
            )
    return dict(sorted(answer_of.items())), {
        name: line for name, line in refused.items() if name not in answer_of
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """The questions of one release. All of it is public.

    Attributes:
        inputs: float32 `[Q, …]`, as teachers take them: finite, up to 1e12; Q L is at most `MOST_CELLS`.
        record_ids: `[Q]`, what the queries are called.
        label_names: L.
        cast: one of `CASTS`: bits, or confidences where the aggregator reads them.
        vote_clip: the most labels of a query that a teacher votes for; None for all.
    """

    inputs: NDArray[np.float32]
    record_ids: NDArray[Any]
    label_names: tuple[str, ...]
    cast: str = "bits"
    vote_clip: int | None = None

    def __post_init__(self) -> None:
        shape = np.shape(self.inputs)
        require(
            len(shape) > 0 and math.prod(shape) > 0,
            "inputs.shape",
            shape,
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
        require(cells <= MOST_CELLS, "queries times labels", cells, f"at most {MOST_CELLS}")
        require_choice("cast", self.cast, CASTS)
        if self.vote_clip is not None:
            require_count("vote_clip", self.vote_clip)

    @property
    def num_queries(self) -> int:
        """The number of queries, Q."""
        return len(self.inputs)

    @property
    def num_labels(self) -> int:
        """The number of labels, L."""
        return len(self.label_names)

    @cached_property
    def digest(self) -> str:
        """The digest of the queries' inputs and ids."""
        return queries_digest(np.asarray(self.inputs, dtype=np.float32), self.record_ids)

    def samples(self) -> dict[str, NDArray[Any]]:
        """The arrays of `SAMPLES`."""
        inputs = np.asarray(self.inputs, dtype=np.float32)
        names = np.array(self.label_names, np.str_)
        return {"inputs": inputs, "ids": np.asarray(self.record_ids), "label_names": names}

    def to_bytes(self) -> bytes:
        """Returns the request as the bytes of an .npz file."""
        clip = np.array(self.vote_clip or 0, np.int64)
        return npz_bytes(**self.samples(), cast=np.array(self.cast), vote_clip=clip)

    @classmethod
    def of_samples(cls, arrays: Mapping[str, NDArray[Any]], **form: Any) -> Self:
        """Makes a request from the arrays of samples."""
        inputs = np.asarray(arrays["inputs"], dtype=np.float32)
        names = tuple(arrays["label_names"].tolist())
        return cls(inputs=inputs, record_ids=arrays["ids"], label_names=names, **form)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` made; raises `InvalidValue` for anything else."""
        with expected("request", "a request as pate_federated sends it"):
            arrays = arrays_of(data, _FORMS)
            return cls.of_samples(
                arrays, cast=str(arrays["cast"]), vote_clip=int(arrays["vote_clip"]) or None
            )


# Who are you; how long are your teachers' label shares; their clipped sum; the clipped sum of a round's votes.
OPENING, LENGTHS, SHARES, MOMENTS = KINDS = ("opening", "lengths", "shares", "moments")
_RULE = "a question as pate_federated asks it"
_HEAD = {"kind": ArrayForm("U", ()), "asked": ArrayForm("U", ()), "num_labels": ArrayForm("i", ())}
_SHORTEST = 1e-12
_LONGEST = 1e3
_FAR = 100  # largest inputs of the opening that the center of the pool may be away
# of lengths whose squares are numbers; of others
_SIZE = (1e-50, 1e12)
_ANY = (-1e12, 1e12)
# The arrays of each kind: the sizes of their axes, a letter for each, and between which numbers their entries are.
# Beyond these all holders but one could be made to say a constant. L are labels; D is k, a constant and a height.
_STATES: Mapping[str, Mapping[str, tuple[str, tuple[float, float]]]] = {
    OPENING: {},
    LENGTHS: {},
    SHARES: {"center": ("L", (0, 1)), "clip": ("", _SIZE)},
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
    """One question. All of it is public, or was released under the price before it is asked.

    Attributes:
        kind: one of `KINDS`.
        asked: the digest of the samples in the opening; all questions of a release name the same.
        num_labels: L.
        state: float64 arrays, by name: what the sum depends on beside the holder's teachers. Entries are finite: a
            center of shares is in [0, 1], `clip` and `label_scale` are in [1e-50, 1e12], `records_per_teacher` is in
            [1, 1e12], `variances` are in [0, 1e30], others are in [-1e12, 1e12].
        opening: of the first question, the public samples that trained teachers are asked of.
    """

    kind: str
    asked: str
    num_labels: int
    state: Mapping[str, Array] = field(default_factory=dict)
    opening: Request | None = None

    def __post_init__(self) -> None:
        forms = _STATES.get(self.kind, {"": ("", _ANY)})
        sizes = {"L": self.num_labels}
        good = (self.opening is not None) == (
            self.kind == OPENING
        ) and self.state.keys() == forms.keys()
        for name, (axes, _) in forms.items() if good else ():
            shape = self.state[name].shape
            good = good and len(axes) == len(shape)
            good = good and all(
                sizes.setdefault(axis, size) == size for axis, size in zip(axes, shape, strict=True)
            )
        if good and self.kind == MOMENTS:
            good = sizes["k"] <= sizes["d"] and sizes["D"] - sizes["k"] in (1, 2)
            good = good and float(np.abs(self.state["projection"]).max(initial=0.0)) >= _SIZE[0]
        if not good:
            raise InvalidValue("question", rule=_RULE)
        require_count("question.num_labels", self.num_labels)
        for name, value in self.state.items():
            low, high = forms[name][1]
            rule = f"finite numbers from {low:g} to {high:g}"
            require_entries(f"question.{name}", (value >= low) & (value <= high), rule)
        if "clip" in self.state:
            # no clip so long that votes of any records are cut to 0 on its grid, or so short that none count
            longest = math.sqrt(self.num_labels)
            clip = float(self.state["clip"])
            if self.kind == MOMENTS:
                longest = float(np.linalg.norm(self.state["label_scale"]))
                longest /= math.sqrt(float(self.state["records_per_teacher"]))
            rule = f"{_SHORTEST:g} to {_LONGEST:g} times as long as what a teacher may say"
            require(_SHORTEST * longest <= clip <= _LONGEST * longest, "question.clip", clip, rule)

    @classmethod
    def of_opening(cls, request: Request) -> Self:
        """Makes the question that opens rounds, about all samples of a request."""
        return cls(
            kind=OPENING, asked=request.digest, num_labels=request.num_labels, opening=request
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the sum."""
        if self.kind == MOMENTS:
            return self.state["weights"].shape
        return {OPENING: (0,), LENGTHS: (NUM_LENGTHS,), SHARES: (1, self.num_labels)}[self.kind]

    @property
    def most_bytes(self) -> int:
        """How long an answer can be."""
        return 8 * math.prod(self.shape) + HEADS

    @property
    def name(self) -> str:
        """Of files."""
        return f"{self.kind}-{self.digest[:16]}"

    @property
    def reach(self) -> float:
        """How long the part of one teacher can be, in steps: half of what replacing it can move."""
        return float(self.clipped.l2_sensitivity) / 2 if "clip" in self.state else 1.0

    @property
    def clipped(self) -> Any:
        """The clipped sum of shares, or of a round's votes."""
        clip = float(self.state["clip"])
        return (
            ClippedSum(clip, (1, self.num_labels))
            if self.kind == SHARES
            else ClippedMoments(clip, num_teachers=1)
        )

    @property
    def directions(self) -> PublicPCA:
        """The public directions that the question's weights belong to."""
        projection = self.state["projection"]
        has_height = len(self.state["weights"]) > projection.shape[1] + 1
        return PublicPCA(self.state["pool_center"], projection, self.state["variances"], has_height)

    def require_possible(self, total: Integers, num_teachers: int) -> None:
        """Raises for what no such teachers can have as their sum: more than a teacher's worth each."""
        require(total.shape == self.shape, "sum.shape", total.shape, str(self.shape))
        if self.kind == LENGTHS:
            # where nothing overflows
            good = bool((total >= 0).all()) and sum(total.tolist()) <= num_teachers
        else:
            good = math.sqrt(
                float((total.astype(np.float64) ** 2).sum())
            ) <= num_teachers * self.reach * (1 + 1e-9)
        rule = f"one of {num_teachers} teachers, each within its clip; this one is longer"
        if not good:
            raise InvalidValue("sum", rule=rule)

    def require_of(self, opening: Request) -> None:
        """Raises for a question that is not about the labels and samples of its opening."""
        require(
            self.num_labels == opening.num_labels,
            "question.num_labels",
            self.num_labels,
            str(opening.num_labels),
        )
        if self.kind == MOMENTS:
            center = self.state["pool_center"]
            inputs = np.asarray(opening.inputs)
            near = (
                center.shape == inputs.shape[1:]
                and np.abs(center).max() <= _FAR * np.abs(inputs).max()
            )
            rule = f"one for each feature of the samples, up to {_FAR} times as large as they are"
            require(bool(near), "question.pool_center", "others", rule)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of what is asked, in hexadecimal."""
        digest = hashlib.sha256(repr(("question", self.kind, self.asked, self.num_labels)).encode())
        for name in sorted(self.state):
            digest.update(repr((name, self.state[name].shape)).encode())
            digest.update(np.ascontiguousarray(self.state[name], dtype="<f8").data)
        return digest.hexdigest()

    def to_bytes(self) -> bytes:
        """Returns the question as the bytes of an .npz file."""
        state = {name: np.asarray(value, dtype=np.float64) for name, value in self.state.items()}
        samples = {} if self.opening is None else self.opening.samples()
        return npz_bytes(
            kind=np.array(self.kind),
            asked=np.array(self.asked),
            num_labels=np.array(self.num_labels, np.int64),
            **state,
            **samples,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` made; raises `InvalidValue` for anything else."""
        with expected("question", _RULE):
            states = {name: axes for state in _STATES.values() for name, (axes, _) in state.items()}
            forms = {name: ArrayForm("f", (None,) * len(axes)) for name, axes in states.items()}
            arrays = arrays_of(data, _HEAD, beside=SAMPLES | forms)
            kind = str(arrays["kind"])
            if (
                arrays.keys()
                != _HEAD.keys() | (SAMPLES if kind == OPENING else _STATES[kind]).keys()
            ):
                raise ValueError("arrays of another kind")
            if kind == OPENING:
                return cls.of_opening(Request.of_samples(arrays))
            state = {name: np.asarray(arrays[name], dtype=np.float64) for name in _STATES[kind]}
            return cls(
                kind=kind,
                asked=str(arrays["asked"]),
                num_labels=int(arrays["num_labels"]),
                state=state,
            )


HEADS = 2**20  # bytes for names and headers of a file
_ANSWER = {"head": ArrayForm("U", ()), "question": ArrayForm("U", ()), "total": ArrayForm("biuf")}


@dataclass(frozen=True, eq=False)
class SumAnswer:
    """One answer. No epsilon covers it: only the aggregator may have it."""

    head: VoteManifest  # what the holder vouches for, the same in all of its answers
    question: str  # the digest of what was asked
    total: Integers  # int64, in steps

    def to_bytes(self) -> bytes:
        """Returns the answer as the bytes of an .npz file."""
        head = np.array(self.head.to_text())
        question = np.array(self.question)
        return npz_bytes(head=head, question=question, total=self.total.astype(np.int64))

    @classmethod
    def from_bytes(cls, data: bytes, question: Question, **wanted: Any) -> Self:
        """An answer to this question, whose head says what is wanted; raises `InvalidValue` for any other."""
        with expected("answer", "a whole answer, as pate_federated makes it"):
            size = len(data)
            most = question.most_bytes
            require(size <= most, "size", size, f"at most {most} bytes, which such a sum takes")
            arrays = arrays_of(data, _ANSWER)
            head = VoteManifest.from_text(str(arrays["head"]))
            total = arrays["total"]
        require(
            str(arrays["question"]) == question.digest,
            "question",
            "another",
            "the one that was asked",
        )
        require(total.dtype == np.int64, "sum.dtype", total.dtype, "int64, whole numbers of steps")
        require_head(head, question.asked, **wanted)
        return cls(head, question.digest, total)
