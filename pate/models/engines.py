"""Engines, which train the teachers that a store lacks; here those of one process.

`ProcessesEngine` and `RayEngine` have modules of their own. Engines of equal chunk size leave the same bytes.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from pate.models.hyperparameters import require_settings
from pate.models.training import TrainingJob


class Engine(ABC):
    """A way to train the teachers that a store lacks; a setting outside its range raises `InvalidValue`.

    Formal guarantees:
        * Teachers are trained in chunks fixed by their index: chunk c holds teachers c*C … (c+1)*C-1. A
          chunk with a missing member is trained again as a whole, so a killed run, started again, ends with
          the same bytes as one that was not. Files already there are not touched. Teachers that
          are isolated (`Teacher.is_isolated`) are chunks of one.
        * A chunk's teachers reach the disk in one step. They wait for others no longer than a second or a fiftieth of
          the training, so that SIGKILL costs no more; whatever else ends a run, nothing is trained again.
        * Engines with equal chunk size give equal bytes on one kind of machine: each chunk is computed on
          one thread, in whatever process. With another chunk size teachers agree up to rounding.
        * Whatever ends a run (a signal, a dead worker, an error in one teacher), the teachers reported
          before are in the store.
    """

    @abstractmethod
    def train(self, job: TrainingJob) -> None:
        """Trains and saves the teachers that the job's store lacks; raises `WorkersLost` or `DeviceFull`."""


@dataclass(frozen=True)
class StackedEngine(Engine):
    """Trains a chunk of teachers at a time in this process, by batched matrix products: the way for a GPU.

    Attributes:
        chunk_size: teachers in a batch. On a CPU a chunk that exceeds the cache is slower; a GPU likes hundreds.
    """

    chunk_size: int = 16

    def __post_init__(self) -> None:
        require_settings(self)

    def train(self, job: TrainingJob) -> None:
        """Trains the missing teachers, one chunk after the other."""
        job.run(job.chunks(self.chunk_size))


@dataclass(frozen=True)
class SequentialEngine(StackedEngine):
    """Trains teachers one at a time in this process: the least memory, and the reference for the others."""

    chunk_size: int = field(default=1, init=False)
