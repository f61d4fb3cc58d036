"""Teachers are trained where `Ensemble.train` is called, and asked where `vote` is; reading votes does neither."""

from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import numpy as np
import pytest

from pate.aggregators import GaussianVotes
from pate.data import Dataset, Partition
from pate.models import Engine, KernelTeacher, LinearTeacher, StackedEngine, TrainingJob, Voter
from pate.models.kernel_votes import KernelVotes
from pate.models.shards import PartitionedRecords
from pate.run.ensemble import Ensemble, training_progress
from pate.run.folder import EnsembleFolder
from pate.run.partition_manifest import draw_partition
from pate.run.random_streams import RandomStreams
from pate.validation import InvalidValue
from pate.votes.source import TeacherVotes, VoteSource
from tests.e2e.small_run import SilentMonitor, small_dataset
from tests.refusals import refused

NUM_TEACHERS = 6
NUM_QUERIES = 20


class CountingEngine(Engine):
    """An engine that counts the teachers that it trains."""

    def __init__(self) -> None:
        self.num_trained = 0

    def train(self, job: TrainingJob) -> None:
        self.num_trained += len(job.store.missing(len(job.seeds)))
        StackedEngine().train(job)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Returns the small data set."""
    return small_dataset()


def dealt_partition(dataset: Dataset, folder: EnsembleFolder) -> Partition:
    """Returns the partition of the private records into six parts, kept in a folder."""
    rng = RandomStreams(entropy=3).generator(purpose="partition")
    return draw_partition(
        dataset.private, num_teachers=NUM_TEACHERS, manifest=folder.partition, rng=rng
    )


def trained_ensemble(
    dataset: Dataset, path: Path, engine: Engine, teacher: Voter | None = None
) -> tuple[Ensemble, SilentMonitor]:
    """Trains an ensemble in a folder with an engine; returns the ensemble and the monitor."""
    folder = EnsembleFolder(path)
    monitor = SilentMonitor()
    ensemble = Ensemble.train(
        teacher or LinearTeacher(device="cpu"),
        dataset,
        dealt_partition(dataset=dataset, folder=folder),
        num_queries=NUM_QUERIES,
        seeds=RandomStreams(entropy=3).seeds("teachers", num_seeds=NUM_TEACHERS),
        engine=engine,
        folder=folder,
        monitor=monitor,
    )
    return ensemble, monitor


def vote_bits(votes: VoteSource) -> np.ndarray:
    """Returns all votes as bits, `[num_teachers, num_queries, num_labels]`."""
    return np.concatenate(list(votes.bits()))


def test_teachers_are_trained_once_and_before_votes_are_read(
    dataset: Dataset, tmp_path: Path
) -> None:
    """Teachers are trained by `train` and asked by `vote`.

    Reading votes, and a second ensemble in the folder, do neither.
    """
    engine = CountingEngine()
    ensemble, monitor = trained_ensemble(dataset=dataset, path=tmp_path, engine=engine)
    assert engine.num_trained == NUM_TEACHERS
    assert monitor.stages == ["training teachers"]
    votes = ensemble.vote()
    assert monitor.stages == ["training teachers", "casting votes"]
    first = vote_bits(votes=votes)
    assert first.shape == (NUM_TEACHERS, NUM_QUERIES, dataset.num_labels)
    np.testing.assert_array_equal(vote_bits(votes=votes), first)
    votes.counts()
    votes.label_shares()
    assert monitor.stages == ["training teachers", "casting votes"]
    again, monitor = trained_ensemble(dataset=dataset, path=tmp_path, engine=engine)
    np.testing.assert_array_equal(vote_bits(votes=again.vote()), first)
    assert monitor.stages == []
    assert engine.num_trained == NUM_TEACHERS


def test_teachers_with_votes_on_disk_are_not_trained_again(
    dataset: Dataset, tmp_path: Path
) -> None:
    """The teachers' files are removed.

    Votes are read from disk without training; without the votes, teachers are trained to the same votes.
    """
    first = vote_bits(
        votes=trained_ensemble(dataset=dataset, path=tmp_path, engine=CountingEngine())[0].vote()
    )
    rmtree(tmp_path / "teachers")
    engine = CountingEngine()
    votes = trained_ensemble(dataset=dataset, path=tmp_path, engine=engine)[0].vote()
    np.testing.assert_array_equal(vote_bits(votes=votes), first)
    assert engine.num_trained == 0
    with pytest.raises(InvalidValue) as caught:  # what is finer than bits is with the teachers
        next(iter(votes.confidences()))
    assert f"remove {tmp_path / 'votes.npz'}" in str(caught.value)
    (tmp_path / "votes.npz").unlink()
    votes = trained_ensemble(dataset=dataset, path=tmp_path, engine=engine)[0].vote()
    assert engine.num_trained == NUM_TEACHERS
    np.testing.assert_array_equal(vote_bits(votes=votes), first)


def test_progress_counts_the_teachers_of_an_earlier_call(dataset: Dataset, tmp_path: Path) -> None:
    """The progress of a folder is empty at first, then counts teachers, then names their votes.

    Kernel teachers have none.
    """
    folder = EnsembleFolder(tmp_path)
    partition = dealt_partition(dataset=dataset, folder=folder)
    teacher = LinearTeacher(device="cpu")
    assert training_progress(teacher, partition=partition, folder=folder) == ""
    ensemble, _ = trained_ensemble(dataset=dataset, path=tmp_path, engine=StackedEngine())
    assert (
        training_progress(teacher, partition=partition, folder=folder)
        == "6 of 6 teachers are there"
    )
    ensemble.vote()
    assert (
        training_progress(teacher, partition=partition, folder=folder)
        == "the votes of all 6 teachers are there"
    )
    assert training_progress(KernelTeacher(), partition=partition, folder=folder) == ""


def test_untrained_teachers_vote_without_an_engine(dataset: Dataset, tmp_path: Path) -> None:
    """Kernel teachers vote without training, and have no confidences for queries."""
    engine = CountingEngine()
    ensemble, _ = trained_ensemble(
        dataset=dataset, path=tmp_path, engine=engine, teacher=KernelTeacher()
    )
    assert engine.num_trained == 0
    assert isinstance(ensemble.vote(), KernelVotes)
    with refused("teacher", value="KernelTeacher"):
        next(ensemble.confidences())


def test_a_shard_has_the_records_that_the_partition_gives_its_teacher(
    dataset: Dataset, tmp_path: Path
) -> None:
    """The shards together have all private records; shard 2 has those of teacher 2."""
    partition = dealt_partition(dataset=dataset, folder=EnsembleFolder(tmp_path))
    private = dataset.private
    shards = PartitionedRecords(private.inputs, labels=private.labels, partition=partition)
    assert sum(len(shards[teacher]) for teacher in range(NUM_TEACHERS)) == len(private)
    rows = partition.indices(teacher=2)
    np.testing.assert_array_equal(shards[2].inputs, private.inputs[rows])
    np.testing.assert_array_equal(shards[2].labels, private.labels[rows])


def test_a_teacher_does_not_vote_on_a_label_that_none_of_its_records_knows(
    dataset: Dataset, tmp_path: Path
) -> None:
    """Its bits and confidences for the label are 0, and abstentions are counted by label."""
    teacher_of = dealt_partition(dataset=dataset, folder=EnsembleFolder(tmp_path)).teacher_of
    known = np.ones_like(dataset.private.labels)
    known[teacher_of == 2, 0] = False
    known[teacher_of < 2, 1] = False
    labels = np.ones_like(known) & known  # else nobody would vote against
    with_gaps = replace(dataset, private=replace(dataset.private, labels=labels, known=known))
    votes = (
        trained_ensemble(dataset=with_gaps, path=tmp_path, engine=CountingEngine())[0]
        .vote()
        .require_type(TeacherVotes)
    )
    assert votes.num_abstaining().tolist()[:3] == [1, 2, 0]
    counts = votes.counts()
    assert counts[:, :3].tolist() == [[NUM_TEACHERS - 1, NUM_TEACHERS - 2, NUM_TEACHERS]] * len(
        counts
    )
    halves = GaussianVotes(noise_std=1.0).summarize(votes)
    assert (halves[:, :3] - counts[:, :3]).tolist() == [[0, 1, 0]] * len(counts)
    right = np.ones((NUM_QUERIES, dataset.num_labels), np.bool_)
    assert votes.accuracies(right).tolist() == [1.0] * NUM_TEACHERS
    centered = next(iter(votes.votes_around(np.full(len(known[0]), 0.3), noise_multiplier=1.0)))
    assert np.all(centered[2, :, 0] == 0.3) and np.all(centered[0, :, 1] == 0.3)
