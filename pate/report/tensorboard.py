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

# The largest number of points of a curve over queries.
_MAX_POINTS = 500
# The types of hyper-parameters that TensorBoard shows as they are.
_HPARAM_TYPES = (str, int, float, bool)
# The beginning of the tags of numbers that no epsilon covers.
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
        """Opens a file for events in a folder, which is made if it does not exist; None writes nothing."""
        self._writer: Any = None
        # The first epoch and its value for each tag, which are written together with the second epoch.
        self._first_epoch_of_tag: dict[str, tuple[int, float]] = {}
        # The loss of each teacher in its last epoch.
        self._last_epoch_losses_of_teachers: list[float] = []
        # For each epoch, the sum of the teachers' losses, and the number of teachers that had the epoch.
        self._loss_sums_of_epochs = np.zeros(0)
        self._teacher_counts_of_epochs = np.zeros(0, dtype=np.int64)
        if folder is not None:
            from tensorboard.backend.event_processing import event_file_loader  # these load slowly
            from torch.utils.tensorboard import SummaryWriter

            folder = make_folder(folder)
            # The name of the run; "outputs" is the folder in which `pate-train` makes runs unless told otherwise.
            self._run_name = os.path.relpath(folder.parent).removeprefix("outputs/")
            # The tag and the step of every event in the folder.
            self._written: set[tuple[str, int]] = set()
            for event_file in filter(is_regular, sorted(folder.glob("events.out.tfevents.*"))):
                # TensorBoard and protobuf raise several kinds of errors, for example at the torn end of a file.
                with suppress(Exception):
                    for event in event_file_loader.LegacyEventFileLoader(str(event_file)).Load():
                        self._written |= {(value.tag, event.step) for value in event.summary.value}
            # The file is made here.
            with owners_umask():
                self._writer = SummaryWriter(log_dir=str(folder), flush_secs=10)

    def add_teacher_losses(self, losses_of_one_teacher: ArrayLike) -> None:
        """Adds the losses of one trained teacher to the means that `write_teacher_curves` will write.

        Args:
            losses_of_one_teacher: the mean loss of the teacher in each epoch, `[num_epochs]`.
        """
        teacher_losses = np.asarray(losses_of_one_teacher, dtype=np.float64)
        num_epochs = len(teacher_losses)
        if num_epochs == 0:
            return
        num_new_epochs = max(0, num_epochs - len(self._loss_sums_of_epochs))
        self._loss_sums_of_epochs = np.pad(self._loss_sums_of_epochs, (0, num_new_epochs))
        self._teacher_counts_of_epochs = np.pad(self._teacher_counts_of_epochs, (0, num_new_epochs))
        self._loss_sums_of_epochs[:num_epochs] += teacher_losses
        self._teacher_counts_of_epochs[:num_epochs] += 1
        self._last_epoch_losses_of_teachers.append(float(teacher_losses[-1]))

    def write_teacher_curves(self) -> None:
        """Writes the mean loss of the teachers in each epoch, and a histogram of their last losses.

        Only teachers that were trained since this writer was made are counted, not those of an earlier process of the
        run. There is no curve if no teacher has a second epoch.
        """
        if len(self._loss_sums_of_epochs) > 1:
            mean_losses = self._loss_sums_of_epochs / self._teacher_counts_of_epochs
            for epoch, mean_loss in enumerate(mean_losses.tolist()):
                self._scalar(tag=f"{_UNCOVERED}/teacher_loss", value=mean_loss, step=epoch)
        self.write_histogram("last_teacher_loss", values=self._last_epoch_losses_of_teachers)

    def write_histogram(self, histogram_name: str, values: ArrayLike) -> None:
        """Writes a histogram of numbers that no epsilon covers, such as the gap of each query.

        Nothing is written if `values` is empty.

        Args:
            histogram_name: the name of the histogram, to which the tag adds `no_epsilon_covers_this`.
            values: the numbers, one for each teacher or each query.
        """
        float_values = np.asarray(values, dtype=np.float64)
        tag = f"{_UNCOVERED}/{histogram_name}"
        if float_values.size and self._is_new(tag, step=0):
            self._writer.add_histogram(tag, values=float_values, global_step=0)

    def write_queries(self, is_answered: ArrayLike, epsilon_after_query: ArrayLike) -> None:
        """Writes the answer rate and the spent epsilon after each query.

        Of more than 500 queries, it writes them after 500 queries that are evenly spaced.

        Args:
            is_answered: true for each answered query, bool `[num_queries]`.
            epsilon_after_query: the epsilon of all queries up to each query, `[num_queries]`.
        """
        answered_flags = np.asarray(is_answered, dtype=bool)
        epsilons = np.asarray(epsilon_after_query, dtype=np.float64)
        answer_rates = np.cumsum(answered_flags) / np.arange(1, len(answered_flags) + 1)
        num_points = min(_MAX_POINTS, len(answered_flags))
        spaced_query_indices = (
            np.linspace(0, len(answered_flags) - 1, num_points).round().astype(int)
        )
        for query_index in np.unique(spaced_query_indices).tolist():
            num_asked = query_index + 1
            self._scalar(
                tag="release/answer_rate", value=float(answer_rates[query_index]), step=num_asked
            )
            self._scalar(tag="privacy/epsilon", value=float(epsilons[query_index]), step=num_asked)

    def write_hits(
        self,
        num_asked: int,
        *,
        num_charged_hits: int,
        num_remaining_hits: int,
        whole_session_epsilon: float,
    ) -> None:
        """Writes the progress of a session.

        Args:
            num_asked: the number of queries so far.
            num_charged_hits: the number of hits among them, that is, of queries that are paid for.
            num_remaining_hits: the number of hits until the session ends.
            whole_session_epsilon: the epsilon of the whole session, the same after each query.
        """
        self._scalar(tag="session/hits", value=num_charged_hits, step=num_asked)
        self._scalar(tag="session/remaining_hits", value=num_remaining_hits, step=num_asked)
        self._scalar(tag="session/epsilon", value=whole_session_epsilon, step=num_asked)
        self.flush()

    def write_epoch(
        self, epoch: int, values_by_name: Mapping[str, float], *, model_name: str = "student"
    ) -> None:
        """Writes the values of one epoch of a student's training.

        The first epoch is written together with the second, so a student that is solved in one step has no curve.

        Args:
            epoch: the number of the epoch.
            values_by_name: the values, such as losses, by name.
            model_name: the name of the student in report.json. No epsilon covers models other than "student".
        """
        group = "student" if model_name == "student" else f"{_UNCOVERED}/{model_name}"
        for value_name, value_of_epoch in values_by_name.items():
            tag = f"{group}/{value_name}"
            first_epoch, value_of_first_epoch = self._first_epoch_of_tag.setdefault(
                tag, (epoch, value_of_epoch)
            )
            if first_epoch != epoch:
                # From the third epoch on, `_scalar` skips the first one, which is written already.
                self._scalar(tag=tag, value=value_of_first_epoch, step=first_epoch)
                self._scalar(tag=tag, value=value_of_epoch, step=epoch)

    def write_guarantee_and_scores_of(self, report: Report) -> None:
        """Writes the guarantee and the models' scores as text, and the student's scores as metrics.

        The settings of the run are written as hyper-parameters.
        """
        privacy = report.privacy
        heading = report.heading
        guarantee_rows = [
            ("guarantee", privacy.guarantee),
            *privacy.terms,
            *privacy.mechanism_rows(aggregator_name=report.name),
        ]
        self._text(tag="privacy/settings", table_rows=guarantee_rows)
        score_rows = [
            ("run", f"{report.name} on {report.data.name}"),
            ("settings", heading.overrides),
        ]
        score_rows.append(("verdict", report.verdict.text))
        for model_name, scores in report.models.items():
            score_by_metric = {
                metric_name: getattr(scores, metric_key, None)
                for metric_key, metric_name in METRIC_NAMES.items()
            }
            cells = [
                f"{metric_name} {score:.3f}"
                for metric_name, score in score_by_metric.items()
                if score is not None
            ]
            scores_text = ", ".join(cells) or report.reason_without(model_name) or "not trained"
            score_rows.append((MODEL_NAMES[model_name], scores_text))
        self._text(tag=f"{_UNCOVERED}/scores", table_rows=score_rows)
        student_scores = report.student
        for metric_key in METRIC_NAMES:
            score = getattr(student_scores, metric_key, None)
            if score is not None:
                self._scalar(tag=f"{_UNCOVERED}/test_{metric_key}", value=score, step=0)
        compared_settings = {
            setting_name: setting if isinstance(setting, _HPARAM_TYPES) else str(setting)
            for setting_name, setting in heading.compared.items()
        }
        if self._is_new("_hparams_/session_start_info", step=0):
            from tensorboard.plugins.hparams.summary_v2 import hparams_pb

            hparams_summary = hparams_pb(compared_settings, trial_id=self._run_name)
            self._writer.file_writer.add_summary(hparams_summary, global_step=0)

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

    def _scalar(self, *, tag: str, value: float, step: int) -> None:
        """Writes a number as an event, unless it is not finite, or the folder has an event of this tag and step."""
        if np.isfinite(value) and self._is_new(tag, step=step):
            self._writer.add_scalar(tag, scalar_value=float(value), global_step=step)

    def _text(self, *, tag: str, table_rows: list[tuple[str, str]]) -> None:
        """Writes rows (name, text) as a table in Markdown, unless the folder has an event of this tag already."""
        if self._is_new(f"{tag}/text_summary", step=0):
            lines = [
                f"| {row_name} | {row_text.replace('|', '/')} |"
                for row_name, row_text in table_rows
            ]
            markdown_table = "\n".join(["| | |", "|---|---|", *lines])
            self._writer.add_text(tag, text_string=markdown_table, global_step=0)

    def _is_new(self, tag: str, *, step: int) -> bool:
        """Returns True if the folder has no event of this tag and step yet, and remembers the event as written.

        The result is False if the writer has no folder, as it writes nothing then.
        """
        if self._writer is None:
            return False
        is_new = (tag, step) not in self._written
        self._written.add((tag, step))
        return is_new
