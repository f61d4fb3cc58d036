"""The curves of a run for TensorBoard. Each event is written once, even if the run is stopped and continued."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pate.files.paths import is_regular, make_folder, owners_umask
from pate.report.report import Report
from pate.report.wording import METRIC_NAMES, MODEL_NAMES

_MOST_POINTS = 500
_PLAIN = (str, int, float, bool)
_UNCOVERED = "no_epsilon_covers_this"


class RunWriter(AbstractContextManager["RunWriter"]):
    """A writer of a run's events for TensorBoard, into one folder with mode 0700; with None, nothing is written.

    Tags that begin with `no_epsilon_covers_this` have numbers that were computed from private data or from votes
    without noise. An event is not written if the folder already has an event of that tag and step. So a run that
    repeats a stage after a kill writes no event twice. Call `flush` after each stage, since a kill loses events that
    were not flushed. Files have mode 0600.

    In TensorBoard's tab HParams, the hyper-parameters are the settings of the run. The metrics are the last values of
    its scalars.
    """

    def __init__(self, folder: Path | str | None) -> None:
        self._writer: Any = None
        self._waiting: dict[str, tuple[int, float]] = {}
        self._last_losses: list[float] = []  # of the teachers
        self._epoch_losses = np.zeros(0)  # sums over the teachers, by epoch
        self._epoch_counts = np.zeros(0, dtype=np.int64)  # how many teachers had that epoch
        if folder is not None:
            from tensorboard.backend.event_processing import event_file_loader  # these load slowly
            from torch.utils.tensorboard import SummaryWriter

            folder = make_folder(folder)
            self._name = os.path.relpath(folder.parent).removeprefix("outputs/")
            self._written: set[tuple[str, int]] = set()  # tag and step of every event in the folder
            for path in filter(is_regular, sorted(folder.glob("events.out.tfevents.*"))):
                # of tensorboard and protobuf alike, also of a file's torn end
                with suppress(Exception):
                    for event in event_file_loader.LegacyEventFileLoader(str(path)).Load():
                        self._written |= {(value.tag, event.step) for value in event.summary.value}
            with owners_umask():  # the file is made here
                self._writer = SummaryWriter(log_dir=str(folder), flush_secs=10)

    def add_teacher_losses(self, losses: ArrayLike) -> None:
        """Adds the losses of one trained teacher to the means that `write_teacher_curves` will write.

        Args:
            losses: the mean loss of the teacher in each epoch, `[num_epochs]`.
        """
        by_epoch = np.asarray(losses, dtype=np.float64)
        if not by_epoch.size:
            return
        missing = max(0, len(by_epoch) - len(self._epoch_losses))
        self._epoch_losses = np.pad(self._epoch_losses, (0, missing))
        self._epoch_counts = np.pad(self._epoch_counts, (0, missing))
        self._epoch_losses[: len(by_epoch)] += by_epoch
        self._epoch_counts[: len(by_epoch)] += 1
        self._last_losses.append(float(by_epoch[-1]))

    def write_teacher_curves(self) -> None:
        """Writes the mean loss of the teachers in each epoch, and a histogram of their last losses.

        Only teachers that were trained since this writer was made are counted, not those of an earlier process of the
        run. Teachers with a single epoch have no curve.
        """
        if len(self._epoch_losses) > 1:
            means = self._epoch_losses / self._epoch_counts
            for epoch, loss in enumerate(means.tolist()):
                self._scalar(tag=f"{_UNCOVERED}/teacher_loss", value=loss, step=epoch)
        self.histogram(name="last_teacher_loss", values=self._last_losses)

    def histogram(self, name: str, values: ArrayLike) -> None:
        """Writes a histogram of numbers that no epsilon covers: one for each teacher or query, such as gaps."""
        array = np.asarray(values, dtype=np.float64)
        tag = f"{_UNCOVERED}/{name}"
        if array.size and self._is_new(tag, step=0):
            self._writer.add_histogram(tag, array, 0)

    def queries(self, is_answered: ArrayLike, epsilon_after_query: ArrayLike) -> None:
        """Writes the answer rate and the spent epsilon after each query.

        Of more than 500 queries, it writes them after 500 queries that are evenly spaced.

        Args:
            is_answered: true for each answered query, bool `[num_queries]`.
            epsilon_after_query: the epsilon of all queries up to each query, `[num_queries]`.
        """
        flags = np.asarray(is_answered, dtype=bool)
        epsilon = np.asarray(epsilon_after_query, dtype=np.float64)
        rate = np.cumsum(flags) / np.arange(1, len(flags) + 1)
        places = np.linspace(0, len(flags) - 1, min(_MOST_POINTS, len(flags))).round().astype(int)
        for place in np.unique(places).tolist():
            self._scalar(tag="release/answer_rate", value=float(rate[place]), step=place + 1)
            self._scalar(tag="privacy/epsilon", value=float(epsilon[place]), step=place + 1)

    def hits(self, num_asked: int, *, hits: int, remaining_hits: int, epsilon: float) -> None:
        """Writes the progress of a session.

        Args:
            num_asked: the number of queries so far.
            hits: the number of hits among them.
            remaining_hits: the number of hits until the session ends.
            epsilon: the epsilon of the session.
        """
        self._scalar(tag="session/hits", value=hits, step=num_asked)
        self._scalar(tag="session/remaining_hits", value=remaining_hits, step=num_asked)
        self._scalar(tag="session/epsilon", value=epsilon, step=num_asked)
        self.flush()

    def epoch(self, epoch: int, values: Mapping[str, float], *, model: str = "student") -> None:
        """Writes the values of one epoch of a student's training.

        The first epoch is written together with the second, so a student that is solved in one step has no curve.

        Args:
            epoch: the number of the epoch.
            values: the values, such as losses, by name.
            model: the name of the student in report.json. No epsilon covers models other than "student".
        """
        group = "student" if model == "student" else f"{_UNCOVERED}/{model}"
        for name, value in values.items():
            tag = f"{group}/{name}"
            first_epoch, first_value = self._waiting.setdefault(tag, (epoch, value))
            if first_epoch != epoch:
                self._scalar(tag, first_value, step=first_epoch)
                self._scalar(tag, value, step=epoch)

    def report(self, report: Report) -> None:
        """Writes the guarantee and the scores as text, the scores as metrics, and the settings as hyper-parameters."""
        privacy = report.privacy
        heading = report.heading
        terms = [
            ("guarantee", privacy.guarantee),
            *privacy.terms,
            *privacy.mechanism_rows(report.name),
        ]
        self._text(tag="privacy/settings", rows=terms)
        rows = [("run", f"{report.name} on {report.data.name}"), ("settings", heading.overrides)]
        rows.append(("verdict", report.verdict.text))
        for model, scores in report.models.items():
            values = {name: getattr(scores, key, None) for key, name in METRIC_NAMES.items()}
            cells = [f"{name} {value:.3f}" for name, value in values.items() if value is not None]
            text = ", ".join(cells) or report.reason_without(model) or "not trained"
            rows.append((MODEL_NAMES[model], text))
        self._text(tag=f"{_UNCOVERED}/scores", rows=rows)
        for key in METRIC_NAMES:
            value = getattr(report.student, key, None)
            if value is not None:
                self._scalar(tag=f"{_UNCOVERED}/test_{key}", value=value, step=0)
        settings = {
            name: value if isinstance(value, _PLAIN) else str(value)
            for name, value in heading.compared.items()
        }
        if self._is_new(tag="_hparams_/session_start_info", step=0):
            from tensorboard.plugins.hparams.summary_v2 import hparams_pb

            self._writer.file_writer.add_summary(hparams_pb(settings, trial_id=self._name), 0)

    def flush(self) -> None:
        """Passes all events that were written so far to the operating system."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Flushes and closes the file; no event may be written afterwards."""
        if self._writer is not None:
            self._writer.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _scalar(self, tag: str, value: float, step: int) -> None:
        if np.isfinite(value) and self._is_new(tag, step):
            self._writer.add_scalar(tag, float(value), step)

    def _text(self, tag: str, rows: list[tuple[str, str]]) -> None:
        if self._is_new(tag=f"{tag}/text_summary", step=0):
            lines = [f"| {name} | {value.replace('|', '/')} |" for name, value in rows]
            self._writer.add_text(tag, "\n".join(["| | |", "|---|---|", *lines]), 0)

    def _is_new(self, tag: str, step: int) -> bool:
        """Returns True if the folder has no event of this tag and step yet, and remembers the event as written."""
        if self._writer is None:
            return False
        is_new = (tag, step) not in self._written
        self._written.add((tag, step))
        return is_new
