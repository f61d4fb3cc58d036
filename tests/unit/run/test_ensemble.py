"""Teachers are trained by `Ensemble.train` and asked by `vote`. Reading votes does neither."""

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
from tests.refusals import refused_parameter

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
    """Returns the partition of the private records among six teachers, which is kept in a folder."""
    rng = RandomStreams(entropy=3).generator(purpose="partition")
    return draw_partition(
        dataset.private, num_teachers=NUM_TEACHERS, partition_file=folder.partition, rng=rng
    )


def train_ensemble(
    dataset: Dataset, ensemble_folder: Path, engine: Engine, teacher: Voter | None = None
) -> tuple[Ensemble, SilentMonitor]:
    """Trains an ensemble in a folder with an engine; returns the ensemble, and the monitor of its stages of work.

    Args:
        dataset: the data set.
        ensemble_folder: the folder of the ensemble.
        engine: the engine.
        teacher: the teacher; None for linear teachers.
    """
    monitor = SilentMonitor()
    ensemble = Ensemble.train(
        teacher_recipe=teacher or LinearTeacher(device="cpu"),
        dataset=dataset,
        partition=dealt_partition(dataset=dataset, folder=EnsembleFolder(ensemble_folder)),
        num_queries=NUM_QUERIES,
        seeds=RandomStreams(entropy=3).seeds("teachers", num_seeds=NUM_TEACHERS),
        engine=engine,
        ensemble_folder=EnsembleFolder(ensemble_folder),
        monitor=monitor,
    )
    return ensemble, monitor


def vote_bits(votes: VoteSource) -> np.ndarray:
    """Returns all votes as bits, `[num_teachers, num_queries, num_labels]`."""
    return np.concatenate(list(votes.bits()))


def test_teachers_are_trained_once_and_before_votes_are_read(
    dataset: Dataset, tmp_path: Path
) -> None:
    """Teachers are trained once, by `train`, and asked once, by `vote`.

    Reading votes does neither, and nor does a second ensemble in the folder.
    """
    engine = CountingEngine()
    ensemble, monitor = train_ensemble(dataset=dataset, ensemble_folder=tmp_path, engine=engine)
    assert engine.num_trained == NUM_TEACHERS
    assert monitor.stages == ["training teachers"]
    votes = ensemble.vote()
    assert monitor.stages == ["training teachers", "casting votes"]
    first_bits = vote_bits(votes=votes)
    assert first_bits.shape == (NUM_TEACHERS, NUM_QUERIES, dataset.num_labels)
    np.testing.assert_array_equal(vote_bits(votes=votes), first_bits)
    votes.counts()
    votes.label_shares()
    assert monitor.stages == ["training teachers", "casting votes"]
    second_ensemble, monitor = train_ensemble(
        dataset=dataset, ensemble_folder=tmp_path, engine=engine
    )
    np.testing.assert_array_equal(vote_bits(votes=second_ensemble.vote()), first_bits)
    assert monitor.stages == []
    assert engine.num_trained == NUM_TEACHERS


def test_teachers_with_votes_on_disk_are_not_trained_again(
    dataset: Dataset, tmp_path: Path
) -> None:
    """If the teachers' files are lost, votes are read from the disk, and no teacher is trained.

    Confidences, which only teachers have, are refused. If the file of votes is missing too, the teachers are trained
    again, to the same votes.
    """
    ensemble, _ = train_ensemble(dataset=dataset, ensemble_folder=tmp_path, engine=CountingEngine())
    first_bits = vote_bits(votes=ensemble.vote())
    rmtree(tmp_path / "teachers")
    engine = CountingEngine()
    ensemble, _ = train_ensemble(dataset=dataset, ensemble_folder=tmp_path, engine=engine)
    votes = ensemble.vote()
    np.testing.assert_array_equal(vote_bits(votes=votes), first_bits)
    assert engine.num_trained == 0
    with pytest.raises(InvalidValue) as caught:
        next(iter(votes.confidences()))
    assert f"remove {tmp_path / 'votes.npz'}" in str(caught.value)
    (tmp_path / "votes.npz").unlink()
    ensemble, _ = train_ensemble(dataset=dataset, ensemble_folder=tmp_path, engine=engine)
    assert engine.num_trained == NUM_TEACHERS
    np.testing.assert_array_equal(vote_bits(votes=ensemble.vote()), first_bits)


def test_progress_counts_the_teachers_of_an_earlier_call(dataset: Dataset, tmp_path: Path) -> None:
    """The text on progress is empty before any training, then counts trained teachers, then says that all voted.

    For kernel teachers, which are not trained, the text is always empty.
    """
    partition = dealt_partition(dataset=dataset, folder=EnsembleFolder(tmp_path))
    teacher = LinearTeacher(device="cpu")
    assert (
        training_progress(teacher, partition=partition, ensemble_folder=EnsembleFolder(tmp_path))
        == ""
    )
    ensemble, _ = train_ensemble(dataset=dataset, ensemble_folder=tmp_path, engine=StackedEngine())
    progress = training_progress(
        teacher, partition=partition, ensemble_folder=EnsembleFolder(tmp_path)
    )
    assert progress == "6 of 6 teachers are there"
    ensemble.vote()
    progress = training_progress(
        teacher, partition=partition, ensemble_folder=EnsembleFolder(tmp_path)
    )
    assert progress == "the votes of all 6 teachers are there"
    assert (
        training_progress(
            KernelTeacher(), partition=partition, ensemble_folder=EnsembleFolder(tmp_path)
        )
        == ""
    )


def test_untrained_teachers_vote_without_an_engine(dataset: Dataset, tmp_path: Path) -> None:
    """Kernel teachers vote without training, and have no confidences for queries."""
    engine = CountingEngine()
    ensemble, _ = train_ensemble(
        dataset=dataset, ensemble_folder=tmp_path, engine=engine, teacher=KernelTeacher()
    )
    assert engine.num_trained == 0
    assert isinstance(ensemble.vote(), KernelVotes)
    with refused_parameter("teacher", value="KernelTeacher"):
        next(ensemble.confidences())


def test_a_shard_has_the_records_that_the_partition_gives_its_teacher(
    dataset: Dataset, tmp_path: Path
) -> None:
    """The shards together have as many records as there are private ones, and shard 2 has those of teacher 2."""
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
    """A teacher none of whose records know a label abstains from it.

    Teacher 2 knows nothing of label 0, and teachers 0 and 1 nothing of label 1. Abstentions are counted by label. For
    an aggregator of counts, they add half of their number, rounded down. In votes around a center, each is the center.
    The accuracy of a teacher does not count them.
    """
    teacher_of = dealt_partition(dataset=dataset, folder=EnsembleFolder(tmp_path)).teacher_of
    known = np.ones_like(dataset.private.labels)
    known[teacher_of == 2, 0] = False
    known[teacher_of < 2, 1] = False
    # All known labels are present, so every teacher that knows a label votes for it.
    labels = known.copy()
    dataset_with_unknown_labels = replace(
        dataset, private=replace(dataset.private, labels=labels, known=known)
    )
    ensemble, _ = train_ensemble(
        dataset=dataset_with_unknown_labels, ensemble_folder=tmp_path, engine=CountingEngine()
    )
    votes = ensemble.vote().require_type(TeacherVotes)
    assert votes.num_abstaining().tolist()[:3] == [1, 2, 0]
    counts = votes.counts()
    expected_counts = [NUM_TEACHERS - 1, NUM_TEACHERS - 2, NUM_TEACHERS]
    assert counts[:, :3].tolist() == [expected_counts] * NUM_QUERIES
    counts_with_halves = GaussianVotes(noise_std=1.0).summarize(votes)
    halves_of_abstentions = counts_with_halves[:, :3] - counts[:, :3]
    assert halves_of_abstentions.tolist() == [[0, 1, 0]] * NUM_QUERIES
    true_labels = np.ones((NUM_QUERIES, dataset.num_labels), np.bool_)
    assert votes.accuracies(true_labels).tolist() == [1.0] * NUM_TEACHERS
    center = np.full(dataset.num_labels, 0.3)
    centered_votes = next(iter(votes.votes_around(center, noise_multiplier=1.0)))
    assert np.all(centered_votes[2, :, 0] == 0.3)
    assert np.all(centered_votes[0, :, 1] == 0.3)
