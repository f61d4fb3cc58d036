"""Sums of votes in rounds over shards: the same bytes for any shards, threads and storage, with little memory.

A shard has the records of some teachers.
"""

import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pate.array_types import Float32Array, IntArray
from pate.files import array_rows
from pate.pool import pool_of
from pate.votes import round_shard
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.feature_rows import FeatureStorage, whole_features
from pate.votes.public_kernel import PublicKernel
from pate.votes.public_pca import PublicPCA
from pate.votes.round_records import RoundRecords
from pate.votes.round_shard import RoundShard
from pate.votes.round_sums import ThreadSums
from pate.votes.round_votes import RoundQuestion
from tests.memory import measure_memory
from tests.refusals import refused_parameter

NUM_TEACHERS = 130
NUM_LABELS = 3
RECORDS_PER_TEACHER = 2.5
RNG = np.random.default_rng(0)
POOL = RNG.normal(size=(300, 8)).astype(np.float32)
NUM_COMPONENTS = 3
KERNEL = PublicKernel(
    landmarks=RNG.normal(size=(5, 9)),
    kernel_width=0.5,
    component_weights=RNG.normal(size=(5, NUM_COMPONENTS)),
    linear_weights=RNG.normal(size=(9, NUM_COMPONENTS)),
)
DIRECTIONS = replace(PublicPCA.fit(POOL, max_directions=8), kernel=KERNEL)
QUESTION_ON_STUDENT = RoundQuestion(
    student_weights=RNG.normal(size=(DIRECTIONS.width + 1, NUM_LABELS)),
    label_scale=np.array([0.7, 1.0, 1.9]),
    moment_clipping=ClippedMoments(clip=0.4, num_teachers=NUM_TEACHERS),
)
TEACHER_WEIGHTS = RNG.random(NUM_TEACHERS)
# The number of records of each teacher.
TEACHER_SIZES = {
    "one record": np.ones(NUM_TEACHERS, dtype=np.int64),
    "few records": RNG.integers(2, 33, size=NUM_TEACHERS),
    "many records": RNG.integers(33, 70, size=NUM_TEACHERS),
    "any records": RNG.integers(0, 60, size=NUM_TEACHERS),
}


def records_of(
    teacher_sizes: IntArray,
    *,
    are_weighted: bool = False,
    storage: FeatureStorage | None = None,
) -> RoundRecords:
    """Returns random records of teachers with the given numbers of records, in random order."""
    rng = np.random.default_rng(1)
    teacher_of = rng.permutation(np.repeat(np.arange(len(teacher_sizes)), teacher_sizes))
    num_records = len(teacher_of)
    record_lengths = 10.0 ** rng.integers(-3, 3, size=(num_records, 1))
    return RoundRecords(
        inputs=(rng.normal(size=(num_records, 8)) * record_lengths).astype(np.float32),
        labels=rng.random((num_records, NUM_LABELS)) < 0.3,
        teacher_of=teacher_of,
        num_teachers=len(teacher_sizes),
        public_pca=DIRECTIONS,
        records_per_teacher=RECORDS_PER_TEACHER,
        teacher_weights=TEACHER_WEIGHTS if are_weighted else None,
        feature_storage=storage or FeatureStorage(),
    )


def plain_sum_of_votes(round_records: RoundRecords) -> IntArray:
    """Returns the sum of all votes, computed one teacher at a time from the residuals of all records."""
    features = np.trunc(DIRECTIONS.with_constant(round_records.inputs) * 2.0**14)
    half_weights = QUESTION_ON_STUDENT.student_weights / 2**15
    bits = 38 - int(np.frexp(np.linalg.norm(half_weights, axis=0).max())[1])
    half_logits = np.ldexp(features @ np.trunc(np.ldexp(half_weights, bits)), -bits)
    residuals = round_records.labels - 0.5 * (1 + np.tanh(half_logits.astype(np.float32)))
    moment_clipping = QUESTION_ON_STUDENT.moment_clipping
    total = np.zeros(QUESTION_ON_STUDENT.student_weights.shape, dtype=np.int64)
    for teacher in range(round_records.num_teachers):
        rows = np.flatnonzero(round_records.teacher_of == teacher)
        if len(rows) == 0:
            continue
        scale = QUESTION_ON_STUDENT.label_scale * np.sqrt(len(rows) / RECORDS_PER_TEACHER)
        own_features = features[rows]
        own_residuals = residuals[rows] * scale
        teacher_weight = (
            1.0
            if round_records.teacher_weights is None
            else float(round_records.teacher_weights[teacher])
        )
        if len(rows) == 1:
            total += moment_clipping.sum_of_single(
                own_features, residuals=own_residuals, teacher_weights=teacher_weight
            )
        elif len(rows) <= 32:
            total += moment_clipping.sum_of_small(
                own_features[None], residuals=own_residuals[None], teacher_weights=teacher_weight
            )
        else:
            mean_moments = own_features.T @ own_residuals / (2**14 * len(rows))
            total += moment_clipping.sum_of_means(
                mean_moments[None], teacher_weights=teacher_weight
            )
    return total


def total_over_shards(round_records: RoundRecords, num_shards: int) -> IntArray:
    """Returns the sum over shards that are filled as workers fill them."""
    totals = []
    for shard_records in round_records.shards(num_shards):
        shard: RoundShard = pickle.loads(pickle.dumps(shard_records.empty_shard()))
        for block in shard_records.blocks():
            half = len(block.labels) // 2
            shard.append(record_inputs=block.inputs[:half], record_labels=block.labels[:half])
            shard.append(record_inputs=block.inputs[half:], record_labels=block.labels[half:])
        totals.append(shard.total(QUESTION_ON_STUDENT))
        shard.close()
    return np.asarray(np.sum(totals, axis=0))


@pytest.fixture(params=["memory", "file", "anew"])
def storage(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> FeatureStorage:
    """Returns a storage of features of each kind."""
    if request.param == "file":
        monkeypatch.setattr(array_rows, "MAX_BYTES_IN_MEMORY", 0)
    return FeatureStorage(keeps_features=request.param != "anew", folder=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("are_weighted", [False, True], ids=["alike", "by weight"])
@pytest.mark.parametrize("teacher_sizes", TEACHER_SIZES.values(), ids=TEACHER_SIZES)
def test_sums_have_the_bytes_of_a_plain_computation(
    teacher_sizes: IntArray, are_weighted: bool
) -> None:
    """The sum over one shard, three, or more shards than teachers equals the sum over single teachers."""
    records = records_of(teacher_sizes=teacher_sizes, are_weighted=are_weighted)
    expected_total = plain_sum_of_votes(round_records=records)
    assert np.any(expected_total)
    np.testing.assert_array_equal(ThreadSums(records).total(QUESTION_ON_STUDENT), expected_total)
    for num_shards in (1, 3, 150):
        np.testing.assert_array_equal(
            total_over_shards(round_records=records, num_shards=num_shards), expected_total
        )


@pytest.mark.parametrize("num_threads", [1, 3])
def test_sums_have_the_same_bytes_with_any_storage_and_threads(
    storage: FeatureStorage, num_threads: int
) -> None:
    """Features in memory, in a file, or made anew give the same sums, also in two shards."""
    teacher_sizes = TEACHER_SIZES["any records"]
    expected_total = ThreadSums(records_of(teacher_sizes=teacher_sizes)).total(QUESTION_ON_STUDENT)
    records = records_of(teacher_sizes=teacher_sizes, storage=storage)
    sums = ThreadSums(records)
    with pool_of(num_threads):
        for _ in range(2):
            np.testing.assert_array_equal(sums.total(QUESTION_ON_STUDENT), expected_total)
        np.testing.assert_array_equal(
            total_over_shards(round_records=records, num_shards=2), expected_total
        )
    sums.close()
    sums.close()


def test_shards_hold_each_teacher_whole_and_once() -> None:
    """Shards have about equal numbers of records, and each teacher with records is in one of them."""
    records = records_of(teacher_sizes=TEACHER_SIZES["any records"])
    shards = records.shards(num_shards=4)
    teachers = np.concatenate([shard.teacher_indices for shard in shards])
    assert sorted(teachers) == np.flatnonzero(TEACHER_SIZES["any records"]).tolist()
    for shard in shards:
        np.testing.assert_array_equal(
            shard.teacher_sizes, TEACHER_SIZES["any records"][shard.teacher_indices]
        )
        owners = records.teacher_of[shard.dataset_rows]
        np.testing.assert_array_equal(owners, np.repeat(shard.teacher_indices, shard.teacher_sizes))
        assert abs(len(shard.dataset_rows) - len(records.labels) / 4) <= 60


@pytest.mark.parametrize("num_shards", [1, 2, 4, 8])
def test_equal_teachers_are_cut_into_equal_shards(num_shards: int) -> None:
    """Eight teachers with three records each make shards with equal numbers of teachers."""
    records = records_of(teacher_sizes=np.full(8, 3))
    num_teachers_of_shards = [
        len(shard.teacher_indices) for shard in records.shards(num_shards=num_shards)
    ]
    assert num_teachers_of_shards == [8 // num_shards] * num_shards


def test_teachers_without_records_have_no_vote() -> None:
    """The sum is zero if no teacher has a record."""
    records = records_of(teacher_sizes=np.zeros(3, dtype=np.int64))
    assert not ThreadSums(records).total(QUESTION_ON_STUDENT).any()
    assert not total_over_shards(round_records=records, num_shards=2).any()


def test_records_of_single_teachers_are_not_copied() -> None:
    """With one record per teacher, blocks are slices of the data set and no copies of selected rows."""
    (shard,) = records_of(teacher_sizes=TEACHER_SIZES["one record"]).shards(num_shards=1)
    np.testing.assert_array_equal(shard.dataset_rows, np.arange(NUM_TEACHERS))
    for block in shard.blocks():
        assert np.shares_memory(block.inputs, shard.records.inputs)
        assert np.shares_memory(block.labels, shard.records.labels)


def test_a_large_teacher_is_multiplied_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum for one teacher is the same up to rounding if its records are multiplied 7 at a time."""
    records = records_of(teacher_sizes=np.array([50]))
    total_at_once = ThreadSums(records).total(QUESTION_ON_STUDENT)
    monkeypatch.setattr(round_shard, "_MAX_PRODUCT_ROWS", 7)
    np.testing.assert_allclose(
        ThreadSums(records).total(QUESTION_ON_STUDENT), total_at_once, atol=2
    )


def test_a_shard_with_missing_records_is_refused() -> None:
    """A shard refuses to answer before all of its records were added."""
    (shard_records,) = records_of(teacher_sizes=TEACHER_SIZES["few records"]).shards(num_shards=1)
    shard = shard_records.empty_shard()
    (block,) = shard_records.blocks()
    shard.append(record_inputs=block.inputs[1:], record_labels=block.labels[1:])
    with refused_parameter("num_records", value=len(block.labels) - 1):
        shard.total(QUESTION_ON_STUDENT)


@pytest.mark.parametrize("num_rows", [1, 15, 64, 300])
def test_features_of_a_record_do_not_depend_on_its_block(num_rows: int) -> None:
    """The last record of a block has the features that it has alone.

    Features are whole numbers, whose lengths are at most 2^14 and above 2^14 - 8.
    """
    inputs = POOL[:num_rows]
    features = whole_features(DIRECTIONS, inputs)
    np.testing.assert_array_equal(features[-1:], whole_features(DIRECTIONS, inputs[-1:]))
    assert features.dtype == np.int16
    lengths = np.linalg.norm(features.astype(np.float64), axis=1)
    assert (lengths <= 2**14).all()
    assert (lengths > 2**14 - 8).all()


def test_a_full_disk_is_refused_before_features_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features that need more than the free space are refused, unless they are made anew."""
    monkeypatch.setattr(array_rows, "MAX_BYTES_IN_MEMORY", 0)
    with refused_parameter("scratch", value=True, rule_words="false, or"):
        FeatureStorage(folder=tmp_path).require_room(num_rows=10**12, num_features=1000)
    FeatureStorage(keeps_features=False).require_room(num_rows=10**12, num_features=1000)
    FeatureStorage(folder=tmp_path).require_room(num_rows=1, num_features=2)


KILLED_SCRIPT = """
import os, signal, sys
from pathlib import Path
from pate.files import array_rows
from pate.votes import feature_rows
from pate.votes.round_sums import ThreadSums
from tests.unit.votes.test_round_shard import QUESTION_ON_STUDENT, TEACHER_SIZES, records_of
array_rows.MAX_BYTES_IN_MEMORY = 0
storage = feature_rows.FeatureStorage(folder=Path(sys.argv[1]))
sums = ThreadSums(records_of(teacher_sizes=TEACHER_SIZES["any records"], storage=storage))
sums.total(QUESTION_ON_STUDENT)
print(os.listdir(sys.argv[1]), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
@pytest.mark.slow
def test_scratch_files_have_no_name_even_after_a_kill(tmp_path: Path) -> None:
    """Features in a scratch file leave no file in the folder, neither while they are used nor after a kill."""
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert killed.stdout == "[]\n"
    assert list(tmp_path.iterdir()) == []


class GeneratedInputs:
    """Inputs that are drawn when they are read, so that they take no memory, as a data set on a disk."""

    def __init__(self, num_records: int) -> None:
        self.shape = (num_records, 64)

    def __getitem__(self, rows: slice) -> Float32Array:
        """Returns the inputs of a range of records."""
        rng = np.random.default_rng(rows.start)
        return rng.random(size=(rows.stop - rows.start, 64), dtype=np.float32)


def peak_bytes_per_record(max_bytes_in_memory: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """Returns the largest memory that a round over 200,000 records takes, in bytes per record.

    Args:
        max_bytes_in_memory: the largest size of features that stay in memory, in bytes.
        monkeypatch: sets this size.
    """
    monkeypatch.setattr(array_rows, "MAX_BYTES_IN_MEMORY", max_bytes_in_memory)
    num_records = 200_000
    inputs = GeneratedInputs(num_records=num_records)
    public_pca = PublicPCA.fit(inputs[slice(0, 300)], max_directions=64)
    records = RoundRecords(
        inputs=inputs,
        labels=np.zeros((num_records, 20), dtype=np.bool_),
        teacher_of=np.arange(num_records),
        num_teachers=num_records,
        public_pca=public_pca,
        records_per_teacher=1.0,
    )
    question = RoundQuestion(
        student_weights=np.ones((public_pca.width + 1, 20)),
        label_scale=np.ones(20),
        moment_clipping=ClippedMoments(clip=1.0, num_teachers=num_records),
    )

    def ask_one_round() -> None:
        sums = ThreadSums(records)
        sums.total(question)
        sums.close()

    return measure_memory(ask_one_round).peak_memory / num_records


@pytest.mark.slow
def test_a_scratch_file_leaves_little_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a scratch file, a round needs less memory than a fifth of the records' features as doubles.

    Control: features in memory, 132 bytes a record, need over 100 bytes a record more.
    """
    peak_bytes_with_scratch_file = peak_bytes_per_record(
        max_bytes_in_memory=0, monkeypatch=monkeypatch
    )
    assert peak_bytes_with_scratch_file < 66 * 8 / 5
    assert (
        peak_bytes_per_record(max_bytes_in_memory=2**30, monkeypatch=monkeypatch)
        > peak_bytes_with_scratch_file + 100
    )
