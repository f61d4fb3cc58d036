"""Where the stages of a run work: its folder, its randomness, and who watches."""

from __future__ import annotations

from dataclasses import dataclass

from pate.files.kept_arrays import KeptArrays
from pate.report import RunWriter
from pate.run.folder import RunFolder
from pate.run.progress import Monitor
from pate.run.randomness import Randomness


@dataclass(frozen=True)
class Workplace:
    """What every stage of a run is given.

    Attributes:
        folder: the run's.
        randomness: streams for each purpose.
        monitor: shows progress.
        events: TensorBoard's.
    """

    folder: RunFolder
    randomness: Randomness
    monitor: Monitor
    events: RunWriter

    @classmethod
    def of(cls, folder: RunFolder, seed: int | None, monitor: Monitor) -> Workplace:
        """That of a run in a folder that is its own."""
        return cls(folder, Randomness(folder.path, seed), monitor, RunWriter(folder.path / "tensorboard"))

    @property
    def kept(self) -> KeptArrays:
        """Intermediate results that are neither drawn nor summed twice."""
        return KeptArrays(self.folder.path)
