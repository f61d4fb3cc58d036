"""How a whole ensemble is trained: what every engine promises."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pate.teachers.engines.job import TrainingJob


class WorkersLost(ChildProcessError, RuntimeError):
    """Processes that trained teachers died, more often than the engine replaces them; what was saved is safe."""


class Engine(ABC):
    """A way to train the teachers that a store lacks.

    Formal guarantees:
        * Teachers are trained in chunks fixed by their index: chunk c holds teachers c*C … (c+1)*C-1. A
          chunk with a missing member is trained again as a whole, so a killed run, started again, ends with
          the same bytes as one that was not. Files already there are not touched. Teachers that are trained
          `alone` are chunks of one.
        * A chunk's teachers reach the disk in one step: nothing that was trained to its end is trained again.
        * Engines with equal chunk size give equal bytes on one kind of machine: each chunk is computed on
          one thread, in whatever process. With another chunk size teachers agree up to rounding.
        * Whatever ends a run (a signal, a dead worker, an error in one teacher), the teachers reported
          before are in the store.
    """

    @abstractmethod
    def train(self, job: TrainingJob) -> None:
        """Trains the teachers that the job's store lacks and saves them there.

        Raises:
            WorkersLost: worker processes died.
            DeviceFull: a chunk takes more than the GPU's memory.
        """


def train_here(job: TrainingJob, chunk_size: int) -> None:
    """Trains chunk after chunk in this process."""
    for chunk in job.chunks(chunk_size):
        job.report(job.task(chunk).save_states(job.store))
