"""Questions and answers of rounds: what a holder may send, what is refused, and sums of numbers split into digits."""

import io
import math
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.errors import InvalidValue
from pate_federated import Contribution, Request, Roll
from pate_federated.mailbox import AnswersAwaited, Mailbox
from pate_federated.question import KINDS, LENGTHS, MOMENTS, OPENING, SHARES, Question, SumAnswer
from pate_federated.sum_of_answers import sum_of_answers
from pate_federated.sum_terms import Limbs
from pate_federated.vote_file import VoteManifest
from small_federation.holders import NUM_LABELS, request
from tests.refusals import ANY, refused_parameter

TEACHERS = 3
WIDTH = 2
ROLL_OF_HOLDERS = Roll.numbered(num_holders=4, teachers_each=TEACHERS, max_absent=2)
STATES: dict[str, dict[str, Any]] = {
    OPENING: {},
    LENGTHS: {},
    SHARES: {"center": np.full(NUM_LABELS, 0.3), "clip": np.array(0.7)},
    MOMENTS: {
        "records_per_teacher": np.array(1.0),
        "weights": np.ones((WIDTH + 2, NUM_LABELS)),
        "label_scale": np.ones(NUM_LABELS),
        "clip": np.array(0.2),
        "pool_center": np.zeros(5),
        "projection": np.ones((5, WIDTH)),
        "variances": np.ones(WIDTH),
    },
}


def question_of(kind: str, state_changes: Mapping[str, Any] | None = None) -> Question:
    """Returns a question of a kind with its usual state.

    Args:
        kind: the kind of question.
        state_changes: arrays by name, in place of those of the usual state; None for no change.
    """
    opening_request: Request = request()
    if kind == OPENING:
        return Question.of_opening(opening_request)
    state = {
        name: np.asarray(value, dtype=np.float64)
        for name, value in (STATES[kind] | dict(state_changes or {})).items()
    }
    queries_digest = opening_request.digest
    return Question(kind=kind, asked=queries_digest, num_labels=NUM_LABELS, state=state)


def longest_sum(question: Question, num_teachers: int = TEACHERS) -> np.ndarray:
    """Returns the largest sum that clipped teachers can reach, all in the first entry."""
    total = np.zeros(question.shape, dtype=np.int64)
    if total.size:
        total.flat[0] = num_teachers * math.floor(question.reach)
    return total


def answer(
    question: Question,
    holder: str,
    vote_sum: np.ndarray | None = None,
    *,
    num_teachers: int = TEACHERS,
    queries: str | None = None,
) -> Contribution:
    """Returns the answer of a holder to a question.

    Args:
        question: the question.
        holder: the name of the holder.
        vote_sum: the sum of its teachers; None for the longest that the clip allows.
        num_teachers: the number of teachers that its manifest states.
        queries: the digest of the queries that its manifest states; None for the true one.
    """
    manifest = VoteManifest(
        holder=holder,
        queries=question.asked if queries is None else queries,
        num_teachers=num_teachers,
        num_queries=6,
        num_labels=NUM_LABELS,
        num_records=90,
        num_groups=60,
    )
    total_sent = longest_sum(question) if vote_sum is None else vote_sum
    answer_file = SumAnswer(head=manifest, question=question.digest, total=total_sent)
    return Contribution(holder=holder, votes=answer_file.to_bytes())


@pytest.mark.parametrize("kind", KINDS)
def test_question_is_unchanged_by_serialization(kind: str) -> None:
    """A question of each kind is the same, byte for byte, after it is written to bytes and read."""
    sent_question = question_of(kind)
    result = Question.from_bytes(sent_question.to_bytes())
    assert (result.kind, result.digest, result.shape) == (
        kind,
        sent_question.digest,
        sent_question.shape,
    )
    assert result.to_bytes() == sent_question.to_bytes()


@pytest.mark.parametrize("kind", [LENGTHS, SHARES, MOMENTS])
def test_sum_limits_each_holder_to_its_teachers(kind: str) -> None:
    """A holder is refused if its sum is longer than its three teachers can reach within the clip.

    The total is that of the other holders.
    """
    sent_question = question_of(kind)
    too_long = longest_sum(sent_question)
    too_long.flat[0] += math.ceil(sent_question.reach * 1e-6) + 1
    unchecked_answers = [
        answer(sent_question, holder="1"),
        answer(sent_question, holder="2"),
        answer(sent_question, holder="3", vote_sum=too_long),
        answer(sent_question, holder="4", vote_sum=-too_long),
    ]
    result = sum_of_answers(
        ROLL_OF_HOLDERS, question=sent_question, unchecked_answers=unchecked_answers
    )
    assert result.holders == ("1", "2")
    np.testing.assert_array_equal(result.total, 2 * longest_sum(sent_question))
    for name in "34":
        assert result.refused[name].startswith(
            f"holder={name}: sum: expected one of 3 teachers, each within its clip"
        )


def test_lengths_whose_sum_overflows_are_refused() -> None:
    """A holder is refused if it sends lengths whose sum overflows 64 bits; the two honest ones count."""
    sent_question = question_of(kind=LENGTHS)
    total = np.zeros(sent_question.shape, dtype=np.int64)
    total[:4] = 2**62  # which add up to 0 in 64 bits
    result = sum_of_answers(
        ROLL_OF_HOLDERS,
        question=sent_question,
        unchecked_answers=[
            answer(sent_question, holder="1"),
            answer(sent_question, holder="2"),
            answer(sent_question, holder="3", vote_sum=total),
        ],
    )
    assert result.holders == ("1", "2")
    assert result.refused["3"].startswith("holder=3: sum: expected one of 3 teachers")


def with_arrays(archive_bytes: bytes, arrays: Mapping[str, Any]) -> bytes:
    """Returns the bytes of an archive in which `arrays` replace the arrays of the same names."""
    with np.load(io.BytesIO(archive_bytes), allow_pickle=False) as file:
        arrays_of_answer = {name: file[name] for name in file.files}
    out = io.BytesIO()
    np.savez(out, **(arrays_of_answer | dict(arrays)))
    return out.getvalue()


def invalid_answers(sent_question: Question) -> dict[str, tuple[Contribution, str]]:
    """Returns invalid answers of holder 2 by the name of the fault, each with words of its refusal."""
    honest_bytes = answer(sent_question, holder="2").votes or b""
    total = longest_sum(sent_question)
    return {
        "torn": (Contribution(holder="2", votes=honest_bytes[:-40]), "expected a whole answer"),
        "late": (Contribution(holder="2", problem="no answer within 5 s"), "no answer within 5 s"),
        "shape": (
            answer(sent_question, holder="2", vote_sum=np.zeros((1, NUM_LABELS + 1), np.int64)),
            "sum.shape",
        ),
        "floats": (
            Contribution(
                holder="2",
                votes=with_arrays(honest_bytes, arrays={"total": total.astype(np.float64)}),
            ),
            "sum.dtype=float64",
        ),
        "nan": (
            Contribution(
                holder="2",
                votes=with_arrays(
                    honest_bytes, arrays={"total": np.full(sent_question.shape, np.nan)}
                ),
            ),
            "sum.dtype=float64",
        ),
        "teachers": (
            answer(sent_question, holder="2", num_teachers=30),
            "num_teachers=30: expected 3",
        ),
        "name": (
            Contribution(holder="2", votes=answer(sent_question, holder="3").votes),
            "holder=3: expected 2",
        ),
        "queries": (answer(sent_question, holder="2", queries="0" * 64), "queries=others"),
        "another question": (
            Contribution(holder="2", votes=answer(question_of(kind=LENGTHS), holder="2").votes),
            "question=another",
        ),
        "large": (answer(sent_question, holder="2", vote_sum=np.zeros(2**18, np.int64)), "size="),
    }


@pytest.mark.parametrize("name", list(invalid_answers(question_of(kind=SHARES))))
def test_invalid_answer_is_refused_by_name_and_adds_nothing(name: str) -> None:
    """An invalid answer is refused in one line with the reason, and adds nothing to the sum.

    The holder then counts as absent, which a roll may allow or not.
    """
    sent_question = question_of(kind=SHARES)
    invalid_answer, message = invalid_answers(sent_question)[name]
    result = sum_of_answers(
        ROLL_OF_HOLDERS,
        question=sent_question,
        unchecked_answers=[answer(sent_question, holder="1"), invalid_answer],
    )
    assert result.holders == ("1",)
    np.testing.assert_array_equal(result.total, longest_sum(sent_question))
    assert message in result.refused["2"] and result.refused["2"].startswith("holder=2: ")
    assert "\n" not in result.refused["2"]
    Roll.numbered(num_holders=2, teachers_each=TEACHERS, max_absent=1).require_enough(
        present_holders=result.holders, refusal_reasons=result.refused, remedy=""
    )
    with refused_parameter("absent holders", value=1, rule_words="at most max_absent=0"):
        Roll.numbered(num_holders=2, teachers_each=TEACHERS).require_enough(
            present_holders=result.holders, refusal_reasons=result.refused, remedy=""
        )


def test_duplicate_and_unknown_holders_are_refused() -> None:
    """A holder that answers twice is refused with both answers, and so is a holder that is not expected."""
    sent_question = question_of(kind=MOMENTS)
    stranger = answer(sent_question, holder="mallory")
    result = sum_of_answers(
        ROLL_OF_HOLDERS,
        question=sent_question,
        unchecked_answers=[
            answer(sent_question, holder="1"),
            answer(sent_question, holder="2"),
            answer(sent_question, holder="2"),
            stranger,
        ],
    )
    assert result.holders == ("1",)
    assert "expected one answer, and 2 came in its name" in result.refused["2"]
    assert result.refused["another"] == "holder=mallory: expected a holder on the roll"


@pytest.mark.parametrize("num_holders", [3, 40, 400])
@pytest.mark.parametrize("kind", [LENGTHS, SHARES, MOMENTS])
def test_summed_digits_give_the_sum_of_the_numbers(num_holders: int, kind: str) -> None:
    """If holders split their numbers into digits, the summed digits join to the sum of the numbers.

    Each sum of digits is below 2^32.
    """
    roll = Roll.numbered(num_holders=num_holders, teachers_each=10, max_absent=1)
    sent_question = question_of(kind)
    limbs = Limbs.of(sent_question, roll=roll)
    rng = np.random.default_rng(0)
    largest_number = 10 * math.floor(sent_question.reach)
    numbers = rng.integers(
        -largest_number, largest_number + 1, size=(num_holders, *sent_question.shape)
    )
    numbers[:, ..., 0] = largest_number
    numbers[:, ..., 1] = -largest_number
    digits = [limbs.split(numbers_of_holder) for numbers_of_holder in numbers]
    for digits_of_holder in digits:
        limbs.terms.require_sendable(numbers=digits_of_holder)
    np.testing.assert_array_equal(limbs.join(digits=np.sum(digits, axis=0)), numbers.sum(axis=0))
    assert num_holders * 2 * limbs.terms.largest_number < 2**32


def states_filled_with(
    values: Sequence[float], *, array_name: str
) -> list[tuple[str, dict[str, Any]]]:
    """Returns kinds of questions with changes of their state, each with one of `values` in all entries of one array."""
    is_of_shares = array_name in STATES[SHARES] and array_name != "clip"
    question_kind = SHARES if is_of_shares else MOMENTS
    shape = STATES[question_kind][array_name].shape
    return [(question_kind, {array_name: np.full(shape, value)}) for value in values]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        *states_filled_with([1e12, -0.1, np.nan], array_name="center"),
        *((SHARES, {"clip": np.array(value)}) for value in (1e13, 0.0, -1.0)),
        *states_filled_with([1e13, -np.inf, np.nan], array_name="weights"),
        *states_filled_with([-1.0], array_name="variances"),
        *states_filled_with([1e13], array_name="pool_center"),
        (SHARES, {"center": np.full(NUM_LABELS + 1, 0.3)}),
        (
            MOMENTS,
            {"weights": np.ones((WIDTH + 1, NUM_LABELS)), "projection": np.ones((5, WIDTH + 1))},
        ),
        (MOMENTS, {"label_scale": np.ones(NUM_LABELS - 1)}),
        (MOMENTS, {"projection": np.ones((4, WIDTH))}),
        (MOMENTS, {"projection": np.ones((1, WIDTH)), "pool_center": np.zeros(1)}),
        # the squares of the smallest and largest of these numbers are 0 or infinite, so that clips would not hold
        *states_filled_with([1e-170], array_name="clip"),
        *states_filled_with([0.5, 1e300, 0.0], array_name="records_per_teacher"),
        *states_filled_with([1e13, 1e-163], array_name="label_scale"),
        *states_filled_with([1e13, 1e-162], array_name="projection"),
    ],
)
def test_invalid_questions_are_refused_at_the_holder(kind: str, changes: dict[str, Any]) -> None:
    """A question with extreme, negative or missing numbers, or with wrong shapes, is refused when built and when read.

    Such a question could make all holders but one send a constant, so that the sum would disclose that one's numbers.
    """
    with pytest.raises(InvalidValue, match="question"):
        question_of(kind, state_changes=changes)
    with pytest.raises(InvalidValue):
        Question.from_bytes(with_arrays(question_of(kind).to_bytes(), arrays=changes))


def test_a_question_is_about_the_labels_and_samples_of_its_opening() -> None:
    """A question is accepted beside its own request.

    A question is refused if its pool center is far larger than the samples of the request, or if the request has
    another number of features or labels.
    """
    opening_request = replace(request(), inputs=np.ones((6, 5), dtype=np.float32))
    question_of(kind=MOMENTS).require_part_of(opening_request)
    with refused_parameter("question.pool_center", value="others"):
        question_of(kind=MOMENTS, state_changes={"pool_center": np.full(5, 1e4)}).require_part_of(
            opening_request
        )
    with refused_parameter("question.pool_center", value="others"):
        question_of(kind=MOMENTS).require_part_of(request())
    with refused_parameter("question.num_labels", value=4):
        question_of(kind=LENGTHS).require_part_of(replace(request(), label_names=("a", "b", "c")))


def zip_of_arrays(arrays: Mapping[str, Any], *, compression: int) -> bytes:
    """Returns a zip archive of arrays, as `np.savez` writes it.

    Args:
        arrays: the arrays by name.
        compression: the method of compression, a constant of `zipfile`.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array), allow_pickle=True)
            archive.writestr(f"{name}.npy", member.getvalue())
    return out.getvalue()


def header_of_array(shape: tuple[int, ...], descr: str) -> bytes:
    """Returns the bytes of a `.npy` file with a header for this shape, and without entries."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        out, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return out.getvalue()


def large_messages() -> dict[str, bytes]:
    """Returns short messages that could take far more memory, or run code, when they are read, by the kind of trick."""
    opening_arrays = {
        "ids": np.arange(6),
        "label_names": np.array(["a", "b"]),
        "cast": np.array("bits"),
        "vote_clip": np.array(0),
        "kind": np.array(OPENING),
        "asked": np.array(""),
        "num_labels": np.array(2),
    }
    result = {
        "compressed": zip_of_arrays(
            opening_arrays | {"inputs": np.zeros((6, 2**23), np.float32)},
            compression=zipfile.ZIP_DEFLATED,
        ),
        "compressed names": zip_of_arrays(
            opening_arrays | {"inputs": np.ones((6, 2)), "label_names": np.array(["a" * 2**24])},
            compression=zipfile.ZIP_DEFLATED,
        ),
        "objects": zip_of_arrays(
            opening_arrays | {"inputs": np.array([{}], dtype=object)},
            compression=zipfile.ZIP_STORED,
        ),
    }
    for name, member in {
        "promised": header_of_array(shape=(2**40, 2**10), descr="<f4"),
        "texts of no length": header_of_array(shape=(2**33,), descr="<U0"),
        "no features": header_of_array(shape=(2**33, 0), descr="<f4"),
    }.items():
        out = io.BytesIO(zip_of_arrays(opening_arrays, compression=zipfile.ZIP_STORED))
        with zipfile.ZipFile(out, "a") as archive:
            archive.writestr("inputs.npy", member)
        result[name] = out.getvalue()
    return result


@pytest.mark.process
def test_claimed_size_of_a_message_takes_no_memory(tmp_path: Path) -> None:
    """Each of `large_messages` is refused in one line, with less than 64 MiB of memory.

    A request of 2 MB once took 4.9 GB.
    """
    for name, data in large_messages().items():
        (tmp_path / name).write_bytes(data)
    script = """
import resource, sys
from pathlib import Path
from pate_federated import Request
from pate_federated import Question
from pate.errors import InvalidValue
resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sorted(Path(sys.argv[1]).iterdir()):
    for kind in (Request, Question):
        try:
            kind.from_bytes(path.read_bytes())
        except InvalidValue as error:
            assert str(error).count(chr(10)) == 0
        else:
            raise AssertionError(path)
taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # kB
assert taken < 2**16, taken
print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True
    )
    assert done.stdout.strip() == "refused", done.stderr
    assert max(path.stat().st_size for path in tmp_path.iterdir()) < 2**22


def test_request_beyond_the_cell_limit_is_refused() -> None:
    """A request with 2^17 queries and 2^12 labels is refused, as at most 2^28 votes are allowed."""
    large_inputs = np.zeros((2**17, 1), dtype=np.float32)
    with refused_parameter("queries times labels", value=ANY, rule_words="at most 268435456"):
        Request(
            inputs=large_inputs,
            record_ids=np.arange(2**17),
            label_names=tuple(map(str, range(2**12))),
        )


def test_mailbox_reads_only_the_files_of_holders(tmp_path: Path) -> None:
    """Of seven entries in the mailbox, only the one that is an answer of a holder is read.

    Pipes, folders, dangling links, a device and a file of 1 TiB are refused without being read. So is a stranger's
    file.
    """
    sent_question = question_of(kind=SHARES)
    names = ("1", "2", "3", "4", "5", "6")
    mailbox = Mailbox(
        folder=tmp_path, roll=Roll.numbered(num_holders=6, teachers_each=TEACHERS, max_absent=5)
    )
    with pytest.raises(AnswersAwaited) as awaited:
        mailbox(sent_question)
    folder = awaited.value.answer_folder
    (folder / "1.npz").write_bytes(answer(sent_question, holder="1").votes or b"")
    os.mkfifo(folder / "2.npz")
    (folder / "3.npz").mkdir()
    (folder / "4.npz").symlink_to(folder / "nowhere")
    with (folder / "5.npz").open("wb") as file:
        file.truncate(2**40)
    (folder / "6.npz").symlink_to("/dev/zero")
    os.mkfifo(folder / "stranger\x1b[31m.npz")
    result = mailbox(sent_question)
    assert result.holders == ("1",)
    for name in names[1:]:
        assert result.refused[name].startswith(f"holder={name}: expected a file of at most"), (
            result.refused[name]
        )
    assert (
        result.refused["another"].isprintable()
        and "expected a holder on the roll" in result.refused["another"]
    )


@pytest.mark.parametrize(
    "names",
    [("é", "e\u0301"), ("North", "north"), ("a" * 201,), ("é" * 101,), ("a\x1bb",), ("a\0",)],
)
def test_holder_names_that_differ_only_on_some_disks_are_refused(names: tuple[str, ...]) -> None:
    """A `Roll` of holders refuses names that are too long or cannot be printed, and two names that are alike.

    Two names are alike if they differ only in case or in the form of Unicode; some disks take them for one.
    """
    with pytest.raises(InvalidValue, match="holder"):
        Roll(holders=dict.fromkeys(names, 1))


@pytest.mark.parametrize(
    ("kind", "clip"), [(SHARES, 1e4), (SHARES, 1e-13), (MOMENTS, 1e4), (MOMENTS, 1e-13)]
)
def test_degenerate_clip_in_a_question_is_refused(kind: str, clip: float) -> None:
    """A question is refused if its clip is over 1000 times, or below 1e-12 times, the length of the longest vote."""
    with refused_parameter("question.clip", value=ANY, rule_words="1e-12 to 1000"):
        question_of(kind, state_changes={"clip": np.array(clip)})
