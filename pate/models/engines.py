"""The base class of engines, which train teachers and sum votes in rounds, and the engines that need one process only.

`ProcessesEngine` and `RayEngine` have modules of their own.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from pate.device import torch
from pate.models.hyperparameters import require_settings
from pate.models.training import TrainingJob
from pate.votes.round_records import RoundRecords
from pate.votes.round_sums import RoundSums, ThreadSums


class Engine(ABC):
    """A way to train the teachers that are missing in a store, and to sum the votes of teachers without training.

    A field outside its range raises `InvalidValue`.

    Formal guarantees:
        * Teachers are trained in chunks that depend on their index alone. With chunk size C, chunk c has the teachers
          c*C … (c+1)*C-1. If a teacher of a chunk is missing, the whole chunk is trained again, so a run that is
          continued after a kill ends with the same teachers, in all bytes, as a run that was not killed. Existing files
          are not changed. Isolated teachers (`Teacher.is_isolated`) are chunks of one.
        * Trained teachers wait until they have 64 MiB together, or until the last file is a second old or, if that is
          longer, a fiftieth of the training time so far. Then they are written, so files differ from run to run. An
          engine of one process checks this after each chunk. So SIGKILL loses the teachers that wait and the chunks in
          training. Any other end of a run loses no teacher that has come back from its worker.
        * Engines with equal chunk sizes train teachers with equal bytes on one kind of machine, because each chunk is
          computed by one thread. Teachers of different chunk sizes agree up to rounding.
        * Whenever `on_progress` has been called for a teacher, the teacher is in the store, however the run ends.
        * All engines that compute with numpy sum the votes of a round to the same whole numbers on one kind of machine.
          On any machine, a teacher moves a sum by no more than the price of the release covers (`ClippedMoments`).
    """

    @abstractmethod
    def train(self, job: TrainingJob) -> None:
        """Trains the missing teachers of a job and saves them in the job's store.

        Raises:
            WorkersLost: worker processes died too often.
            DeviceFull: the memory of the GPU is too small.
        """

    def round_sums(self, records: RoundRecords) -> RoundSums:
        """Returns an object that sums the votes of each round; by default it computes in threads of this process.

        No features or votes are computed before the first round is asked.

        Args:
            records: the records of teachers that vote without training.
        """
        return ThreadSums(private_records=records)


@dataclass(frozen=True)
class ThreadsEngine(Engine):
    """An engine that works in this process: it trains one chunk of teachers after another, by batched matrix products.

    Only the votes of rounds are summed in several threads.

    Attributes:
        chunk_size: the number of teachers in a chunk. On a CPU, a chunk that exceeds the cache is slower.
    """

    chunk_size: int = 16

    def __post_init__(self) -> None:
        require_settings(self)

    def train(self, job: TrainingJob) -> None:
        """Trains the missing teachers, one chunk after the other."""
        num_teachers_per_chunk = self.chunk_size
        job.run(job.chunks(num_teachers_per_chunk))


@dataclass(frozen=True)
class StackedEngine(ThreadsEngine):
    """An engine for a GPU: if a release has rounds, it sums the votes of each round on the GPU.

    It trains chunks of teachers as `ThreadsEngine` does. A teacher that has a field `device` is trained on that device,
    by default the GPU. A GPU is fast with hundreds of teachers in a chunk. Without a GPU the engine works as
    `ThreadsEngine` does.
    """

    def round_sums(self, records: RoundRecords) -> RoundSums:
        """Returns an object that sums the votes of each round on the GPU, or in threads if torch can use no GPU."""
        if not torch.cuda.is_available():
            return ThreadSums(private_records=records)
        from pate.models.gpu_sums import GpuSums

        return GpuSums(private_records=records, device=torch.device("cuda"))


@dataclass(frozen=True)
class SequentialEngine(ThreadsEngine):
    """An engine that trains one teacher after another in this process. It needs the least memory of all engines.

    The results of the other engines are compared with its results in tests.
    """

    chunk_size: int = field(default=1, init=False)
