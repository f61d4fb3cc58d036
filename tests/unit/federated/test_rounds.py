"""Questions and answers of rounds: what a holder may send, what is refused, and digits that give sums back."""

from __future__ import annotations

import io
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

from pate.federated import Contribution, Request, Roll
from pate.federated.rounds.gathering import gathered
from pate.federated.rounds.limbs import Limbs
from pate.federated.rounds.question import KINDS, LENGTHS, MOMENTS, OPENING, SHARES, Question
from pate.federated.rounds.sum_answer import SumAnswer
from pate.validation import InvalidValue
from pate.votes.holders import VoteManifest
from tests.unit.federated.holders import NUM_LABELS, request

TEACHERS, WIDTH = 3, 2
ROLL = Roll.numbered(4, TEACHERS, max_absent=2)
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


def question(kind: str, **changes: Any) -> Question:
    asked: Request = request()
    if kind == OPENING:
        return Question.of_opening(asked)
    state = {name: np.asarray(value, dtype=np.float64) for name, value in (STATES[kind] | changes).items()}
    return Question(kind=kind, asked=asked.digest, num_labels=NUM_LABELS, state=state)


@pytest.mark.parametrize(
    "odd",
    [
        {"clip": np.array(1e-170)},
        {"records_per_teacher": np.array(1e300)},
        {"records_per_teacher": np.array(0.0)},
        {"label_scale": np.full(NUM_LABELS, 1e-163)},
        {"projection": np.full((5, WIDTH), 1e-162)},
        {"clip": np.array(1e4)},
        {"clip": np.array(1e-13)},
        {"records_per_teacher": np.array(1e12)},
        {"label_scale": np.full(NUM_LABELS, 1e-9)},
        {"weights": np.full((WIDTH + 2, NUM_LABELS), 1e12)},
        {"pool_center": np.full(5, 1e30)},
        {"variances": np.full(WIDTH, -1.0)},
    ],
)
def test_numbers_at_the_edge_of_doubles_are_no_question(odd: dict[str, Any]) -> None:
    """Lengths of what is as small or large are not what they are, or all teachers say the same of any records."""
    with pytest.raises(InvalidValue):
        question(MOMENTS, **odd)


@pytest.mark.parametrize("odd", [{"center": np.full(NUM_LABELS, 1e12)}, {"center": np.full(NUM_LABELS, -0.1)},
                                 {"clip": np.array(1e6)}, {"clip": np.array(1e-15)}])  # fmt: skip
def test_a_center_that_no_shares_have_is_no_question(odd: dict[str, Any]) -> None:
    """Around it all holders answer the same, and their sum tells the numbers of one that was asked something else."""
    with pytest.raises(InvalidValue, match=r"question\.(center|clip): expected"):
        question(SHARES, **odd)


def test_what_grows_when_it_is_read_is_refused_before_it_does() -> None:
    """Ten kilobytes that would be 400 megabytes; and more votes than a holder can keep."""
    for read, name in ((Request.from_bytes, "request"), (Question.from_bytes, "question")):
        file, inputs = io.BytesIO(), np.zeros((1_000_000, 100), np.float32)
        np.savez_compressed(file, inputs=inputs, ids=np.arange(10), label_names=np.array(["a"]), cast=np.array("bits"),
                            vote_clip=np.array(0), kind=np.array(OPENING))  # fmt: skip
        del inputs
        tracemalloc.start()
        with pytest.raises(InvalidValue, match=f"^{name}: expected"):
            read(file.getvalue())
        assert tracemalloc.get_traced_memory()[1] < 2e7
        tracemalloc.stop()
    many = np.zeros((2**26 // 40 + 1, 1), np.float32)
    names = tuple(f"label {number}" for number in range(40))
    with pytest.raises(InvalidValue, match=r"len\(inputs\)=1677722: expected at most 1,677,721 for 40 labels"):
        Request(inputs=many, record_ids=np.arange(len(many)), label_names=names)


def longest(asked: Question, teachers: int = TEACHERS) -> np.ndarray:
    """As long as the sum of so many teachers can be, all of it in one entry."""
    total = np.zeros(asked.shape, dtype=np.int64)
    if total.size:
        total.flat[0] = teachers * math.floor(asked.reach)
    return total


def answer(asked: Question, holder: str, total: np.ndarray | None = None, **head: Any) -> Contribution:
    said: dict[str, Any] = {"holder": holder, "queries": asked.asked, "num_teachers": TEACHERS, "num_records": 90}
    said |= {"num_queries": 6, "num_labels": NUM_LABELS, "num_groups": 60}
    sent = longest(asked) if total is None else total
    return Contribution(holder, SumAnswer(VoteManifest(**(said | head)), asked.digest, sent).to_bytes())


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_travels_as_it_is(kind: str) -> None:
    asked = question(kind)
    found = Question.from_bytes(asked.to_bytes())
    assert (found.kind, found.digest, found.shape) == (kind, asked.digest, asked.shape)
    assert found.to_bytes() == asked.to_bytes()


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("other", {}),
        (SHARES, {"center": np.full(NUM_LABELS + 1, 0.3)}),
        (SHARES, {"clip": np.array(0.0)}),
        (MOMENTS, {"weights": np.full((WIDTH + 1, NUM_LABELS), np.nan)}),
        (MOMENTS, {"label_scale": np.ones(NUM_LABELS - 1)}),
        (MOMENTS, {"projection": np.ones((4, WIDTH))}),
    ],
)
def test_a_question_that_no_server_asks_is_refused(kind: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        question(kind, **changes) if kind in KINDS else Question(kind=kind, asked="", num_labels=NUM_LABELS)
    with pytest.raises(InvalidValue, match="expected a question as"):
        Question.from_bytes(b"PK torn")


@pytest.mark.parametrize("kind", [LENGTHS, SHARES, MOMENTS])
def test_answers_are_added_up_and_no_holder_is_worth_more_than_its_teachers(kind: str) -> None:
    asked = question(kind)
    too_long = longest(asked)
    too_long.flat[0] += math.ceil(asked.reach * 1e-6) + 1
    sent = [answer(asked, "1"), answer(asked, "2"), answer(asked, "3", too_long), answer(asked, "4", -too_long)]
    found = gathered(ROLL, asked, sent)
    assert found.holders == ("1", "2")
    np.testing.assert_array_equal(found.total, 2 * longest(asked))
    for name in "34":
        assert found.refused[name].startswith(f"holder={name}: sum: expected one of 3 teachers, each within its clip")


def test_lengths_whose_sum_overflows_are_refused() -> None:
    asked = question(LENGTHS)
    total = np.zeros(asked.shape, dtype=np.int64)
    total[:4] = 2**62  # which add up to 0 in 64 bits
    found = gathered(ROLL, asked, [answer(asked, "1"), answer(asked, "2"), answer(asked, "3", total)])
    assert found.holders == ("1", "2")
    assert found.refused["3"].startswith("holder=3: sum: expected one of 3 teachers")


def without_array(data: bytes, **arrays: Any) -> bytes:
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        there = {name: file[name] for name in file.files}
    out = io.BytesIO()
    np.savez(out, **(there | arrays))
    return out.getvalue()


def spoiled(asked: Question) -> dict[str, tuple[Contribution, str]]:
    good = answer(asked, "2").votes or b""
    total = longest(asked)
    return {
        "torn": (Contribution("2", good[:-40]), "expected a whole answer"),
        "late": (Contribution("2", problem="no answer within 5 s"), "no answer within 5 s"),
        "shape": (answer(asked, "2", np.zeros((1, NUM_LABELS + 1), np.int64)), "sum.shape"),
        "floats": (Contribution("2", without_array(good, total=total.astype(np.float64))), "sum.dtype=float64"),
        "nan": (Contribution("2", without_array(good, total=np.full(asked.shape, np.nan))), "sum.dtype=float64"),
        "teachers": (answer(asked, "2", num_teachers=30), "num_teachers=30: expected 3"),
        "name": (Contribution("2", answer(asked, "3").votes), "holder=3: expected 2"),
        "queries": (answer(asked, "2", queries="0" * 64), "queries=others"),
        "another question": (Contribution("2", answer(question(LENGTHS), "2").votes), "question=another"),
        "large": (answer(asked, "2", np.zeros(2**18, np.int64)), "size="),
    }


@pytest.mark.parametrize("name", list(spoiled(question(SHARES))))
def test_what_does_not_count_is_refused_by_name_and_adds_nothing(name: str) -> None:
    asked = question(SHARES)
    sent, message = spoiled(asked)[name]
    found = gathered(ROLL, asked, [answer(asked, "1"), sent])
    assert found.holders == ("1",)
    np.testing.assert_array_equal(found.total, longest(asked))
    assert message in found.refused["2"] and found.refused["2"].startswith("holder=2: ")
    assert "\n" not in found.refused["2"]
    found.require_enough(Roll.numbered(2, TEACHERS, max_absent=1))
    with pytest.raises(InvalidValue, match="absent holders=1: expected at most max_absent=0"):
        found.require_enough(Roll.numbered(2, TEACHERS))


def test_two_answers_in_one_name_are_both_refused_and_strangers_add_nothing() -> None:
    asked = question(MOMENTS)
    stranger = answer(asked, "mallory")
    found = gathered(ROLL, asked, [answer(asked, "1"), answer(asked, "2"), answer(asked, "2"), stranger])
    assert found.holders == ("1",)
    assert "expected one answer, and 2 came in its name" in found.refused["2"]
    assert found.refused["another"] == "holder=mallory: expected a holder on the roll"


@pytest.mark.parametrize("holders", [3, 40, 400])
@pytest.mark.parametrize("kind", [LENGTHS, SHARES, MOMENTS])
def test_digits_of_sums_give_the_sum_of_the_numbers(holders: int, kind: str) -> None:
    roll = Roll.numbered(holders, 10, max_absent=1)
    asked = question(kind)
    limbs = Limbs.of(asked, roll)
    rng, most = np.random.default_rng(0), 10 * math.floor(asked.reach)
    numbers = rng.integers(-most, most + 1, size=(holders, *asked.shape))
    numbers[:, ..., 0], numbers[:, ..., 1] = most, -most
    digits = [limbs.split(each) for each in numbers]
    for each in digits:
        limbs.terms.require_sendable(each)
    np.testing.assert_array_equal(limbs.joined(np.sum(digits, axis=0)), numbers.sum(axis=0))
    assert holders * 2 * limbs.terms.most < 2**32
