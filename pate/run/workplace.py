"""Where the stages of a run work: its folder, its randomness, and who watches."""

from __future__ import annotations

from dataclasses import dataclass

from pate.report.tensorboard import RunWriter
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
        events: TensorBoard's, or nobody's.
        draw: how often the release is drawn with fresh noise, this time included.
    """

    folder: RunFolder
    randomness: Randomness
    monitor: Monitor
    events: RunWriter
    draw: int = 1

    @classmethod
    def of(
        cls, folder: RunFolder, randomness: Randomness, monitor: Monitor, *, draw: int = 1, tensorboard: bool = True
    ) -> Workplace:
        """That of a run in a folder that is its own."""
        events = RunWriter(folder.path / "tensorboard" if tensorboard else None)
        return cls(folder, randomness, monitor, events, draw)
