"""The progress of a release in rounds: each round is a step, and each drawn round has a speed."""

from collections.abc import Callable

import numpy as np

from pate.aggregators.record import Arrays, MemoryRecord
from pate.run.round_progress import RoundProgressRecord, Rounds
from pate.votes.moment_votes import MomentVotes
from tests.unit.models.small_rounds import question_of, records_of


def test_each_round_is_a_step_with_its_speed() -> None:
    """A round over 1,000 rows that takes two seconds is a step with a speed of 500 rows per second.

    A part of the release that is no round, such as the prevalence of labels, is no step.
    """
    steps: list[tuple[int, str]] = []
    record = progress_record(MemoryRecord(), steps=steps)
    record.part("prevalence", draw=draw_prevalence)
    record.part("step-0", draw=draw_total)
    record.part("step-1", draw=draw_total)
    assert steps == [(1, "500 rows per second"), (2, "500 rows per second")]
    assert record.committed(name="step-1") is not None


def test_a_round_that_is_read_back_has_no_speed() -> None:
    """A round that was stored before and is read back is a step without a speed."""
    memory_record = MemoryRecord()
    memory_record.part("step-0", draw=draw_total)
    steps: list[tuple[int, str]] = []
    record = progress_record(memory_record, steps=steps)
    record.part("step-0", draw=draw_total)
    record.part("step-1", draw=draw_total)
    assert steps == [(1, ""), (2, "500 rows per second")]


def test_features_that_are_made_are_counted_up_to_all_rows() -> None:
    """Rows whose features are made are counted up to all rows, although a second process may read some rows again."""
    steps: list[tuple[int, str]] = []
    record = progress_record(MemoryRecord(), steps=steps)
    for _ in range(3):
        record.report_rows(400)
    notes = [f"features of {number} of 1,000 rows" for number in ("400", "800", "1,000")]
    assert steps == [(0, note) for note in notes]


def test_rows_that_are_read_after_the_stage_are_not_reported() -> None:
    """Rows that are read within the block of a stage are reported, and rows that are read after the block are not.

    If a release was read back, its run reads records for a baseline after the stage of the release has ended.
    """
    private_records = records_of()
    votes = MomentVotes(
        inputs=private_records.inputs,
        labels=private_records.labels,
        teacher_of=private_records.teacher_of,
        num_teachers=private_records.num_teachers,
        public_pca=private_records.public_pca,
        public_inputs=private_records.inputs[:9],
        records_per_teacher=1.0,
    )
    reported_row_counts: list[int] = []
    with Rounds(votes, num_rounds=1).reporting_rows(reported_row_counts.append):
        votes.total(question_of(round_records=private_records))
        assert sum(reported_row_counts) == len(private_records.labels)
        votes.close()
    votes.total(question_of(round_records=private_records))
    assert sum(reported_row_counts) == len(private_records.labels)


def draw_prevalence() -> Arrays:
    """Returns the arrays of the prevalence of two labels."""
    return {"prevalence": np.zeros(2)}


def draw_total() -> Arrays:
    """Returns the array that a release stores for a round, `total`: the sum of votes, here of 2 x 2 zeros."""
    return {"total": np.zeros((2, 2))}


def progress_record(record: MemoryRecord, *, steps: list[tuple[int, str]]) -> RoundProgressRecord:
    """Returns a record of 1,000 rows that adds its steps to a list.

    The clock of the record goes on by two seconds whenever it is read.
    """

    def advance(done: int, note: str = "") -> None:
        steps.append((done, note))

    return RoundProgressRecord(
        record, num_private_records=1000, advance=advance, clock=ticking_clock(seconds=2.0)
    )


def ticking_clock(seconds: float) -> Callable[[], float]:
    """Returns a clock that goes on by `seconds` whenever it is read."""
    times = iter(np.arange(100) * seconds)
    return lambda: float(next(times))
