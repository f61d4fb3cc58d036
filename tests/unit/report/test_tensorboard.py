"""The curves of a run for TensorBoard: tags, means over teachers, and runs that are killed and continued."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.summary.writer import event_file_writer

from pate.report import Report
from pate.report.report import Heading
from pate.report.tensorboard import RunWriter

LOSS = "no_epsilon_covers_this/teacher_loss"


@pytest.fixture(autouse=True)
def _files_counted_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the numbers of files begin at zero for each test.

    TensorBoard reads files of the same second in the order of their names, in which 10 comes before 9.
    """
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))


def events_in(folder: Path) -> EventAccumulator:
    """Returns all events in the files of a folder, without a limit on their number."""
    events = EventAccumulator(
        str(folder), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0}
    )
    events.Reload()
    return events


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    """Returns the step and the value of each scalar of a tag."""
    return [
        (event.step, pytest.approx(event.value)) for event in events_in(folder=folder).Scalars(tag)
    ]


def test_figures_of_teachers_have_the_tag_of_no_epsilon(tmp_path: Path) -> None:
    """Losses and accuracies of teachers, and gaps of vote counts, are under the tag `no_epsilon_covers_this`.

    Losses are averaged over teachers, and accuracies, gaps and last losses are histograms.
    """
    with RunWriter(folder=tmp_path) as writer:
        for losses_by_epoch in ([1.0, 0.5], [0.75, 0.25], [2.0, 0.75]):
            writer.add_teacher_losses(losses_by_epoch)
        writer.write_teacher_curves()
        writer.write_histogram("teacher_accuracy", values=np.array([0.8, 0.9, 0.9]))
        writer.write_histogram("gap", values=np.array([1, 2, 3, 4]))
    # Each point is the mean over the teachers that have the epoch.
    assert scalars(folder=tmp_path, tag=LOSS) == [(0, 1.25), (1, 0.5)]
    events = events_in(folder=tmp_path)
    names = ("teacher_accuracy", "gap", "last_teacher_loss")
    assert set(events.Tags()["histograms"]) == {f"no_epsilon_covers_this/{name}" for name in names}
    last = events.Histograms("no_epsilon_covers_this/last_teacher_loss")[0].histogram_value
    assert (last.num, last.min, last.max, last.sum) == (3, 0.25, 0.75, 1.5)
    gaps = events.Histograms("no_epsilon_covers_this/gap")[0].histogram_value
    assert (gaps.num, gaps.min, gaps.max, gaps.sum) == (4, 1, 4, 10)


def test_teacher_curves_are_averaged_over_the_teachers_that_have_the_epoch(
    tmp_path: Path,
) -> None:
    """The loss of each epoch is the mean over the teachers that have the epoch.

    One teacher has three epochs, and one has a single epoch. Teachers that all have a single epoch give no curve.
    """
    with RunWriter(folder=tmp_path / "solved") as writer:
        for loss in (0.5, 0.25):
            writer.add_teacher_losses(losses_of_one_teacher=[loss])
        writer.write_teacher_curves()
    assert not events_in(folder=tmp_path / "solved").Tags()["scalars"]
    with RunWriter(folder=tmp_path / "short") as writer:
        writer.add_teacher_losses(losses_of_one_teacher=[1.0, 0.5, 0.25])
        writer.add_teacher_losses(losses_of_one_teacher=[3.0])
        writer.write_teacher_curves()
    assert scalars(folder=tmp_path / "short", tag=LOSS) == [(0, 2.0), (1, 0.5), (2, 0.25)]


def test_only_the_students_curve_lacks_the_tag_of_no_epsilon(tmp_path: Path) -> None:
    """The student's losses are under `student/loss`, and those of other models under `no_epsilon_covers_this`."""
    with RunWriter(folder=tmp_path) as writer:
        for epoch, loss in enumerate((1.0, 0.5)):
            writer.write_epoch(epoch, values_by_name={"loss": loss})
        for epoch in range(2):
            writer.write_epoch(
                epoch, values_by_name={"loss": 2.0}, model_name="majority_vote_student"
            )
        writer.write_epoch(epoch=0, values_by_name={"loss": 3.0}, model_name="true_label_student")
    assert scalars(folder=tmp_path, tag="student/loss") == [(0, 1.0), (1, 0.5)]
    assert scalars(folder=tmp_path, tag="no_epsilon_covers_this/majority_vote_student/loss") == [
        (0, 2.0),
        (1, 2.0),
    ]
    tags = events_in(folder=tmp_path).Tags()["scalars"]
    assert not any("true_label_student" in tag for tag in tags), "a single point is no curve"


def test_the_report_is_text_and_a_line_of_the_tab_hparams(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scores of a report are written as scalars, its facts as texts, and its settings into the tab HParams."""
    terms_of_run = {"aggregator": "stable_top_k_table", "target_epsilon": 8.0, "seed": None}
    heading = Heading(
        aggregator_name="stable_top_k_table", given={"seed": "1"}, compared=terms_of_run
    )
    report_with_heading = replace(
        report, student=replace(report.student, balanced_accuracy=None), heading=heading
    )
    folder = tmp_path / "outputs" / "one" / "tensorboard"
    monkeypatch.chdir(tmp_path)
    with RunWriter(folder=str(folder)) as writer:
        writer.write_guarantee_and_scores_of(report_with_heading)
    events = events_in(folder=folder)
    scores = {
        "mean_average_precision": 0.31375,
        "micro_f1": 0.38373,
        "macro_f1": 0.25374,
        "accuracy": 0.91371,
    }
    tags = {f"no_epsilon_covers_this/test_{name}": value for name, value in scores.items()}
    assert set(events.Tags()["scalars"]) == tags.keys()  # the metrics of the tab HParams
    for tag, value in tags.items():
        assert scalars(folder=folder, tag=tag) == [(0, value)]
    (text,) = events.Tensors("no_epsilon_covers_this/scores/text_summary")[
        0
    ].tensor_proto.string_val
    assert "| prior | mean AP 0.117, micro-F1 0.209" in text.decode()
    assert "| run | stable_top_k_table on wordnet |\n| settings | seed=1 |" in text.decode()
    session_bytes = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    session_info = HParamsPluginData.FromString(session_bytes).session_start_info
    hyperparameters = session_info.hparams
    assert session_info.group_name == "one"
    assert set(hyperparameters) == set(terms_of_run)  # settings alone, no result
    assert hyperparameters["aggregator"].string_value == "stable_top_k_table"
    assert hyperparameters["target_epsilon"].number_value == 8.0
    assert hyperparameters["seed"].string_value == "None"
    (text,) = events.Tensors("privacy/settings/text_summary")[0].tensor_proto.string_val
    assert "| epsilon | 8.00 |" in text.decode()


def test_a_continued_run_writes_each_event_once(report: Report, tmp_path: Path) -> None:
    """A folder has each event once although each of two runs writes all stages of its work twice."""

    def write_events(writer: RunWriter, num_teachers: int) -> None:
        """Writes the events of all stages of a run with a number of teachers."""
        for teacher in range(num_teachers):
            writer.add_teacher_losses(losses_of_one_teacher=[teacher / 8, teacher / 4])
        writer.write_teacher_curves()
        writer.write_histogram("gap", values=np.arange(5))
        writer.write_guarantee_and_scores_of(replace(report, heading=Heading(compared={"seed": 1})))

    for num_teachers in (3, 5):
        with RunWriter(folder=tmp_path) as writer:
            write_events(writer=writer, num_teachers=num_teachers)
            write_events(writer=writer, num_teachers=num_teachers)
    assert len(list(tmp_path.iterdir())) == 2
    # The means are those of teachers 0, 1 and 2, as the first run wrote them.
    assert scalars(folder=tmp_path, tag=LOSS) == [(0, 1 / 8), (1, 1 / 4)]
    events = events_in(folder=tmp_path)
    assert len(events.Histograms("no_epsilon_covers_this/gap")) == 1
    assert len(events.Tensors("privacy/settings/text_summary")) == 1


def test_an_incomplete_file_of_events_loses_only_its_end(tmp_path: Path) -> None:
    """If a file of events has lost its last bytes, a new writer in the folder completes the curve."""
    with RunWriter(folder=tmp_path) as writer:
        for epoch in range(4):
            writer.write_epoch(epoch, values_by_name={"loss": 1.0})
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])  # the kill came while the last event was written
    with RunWriter(folder=tmp_path) as writer:
        for epoch in range(4):
            writer.write_epoch(epoch, values_by_name={"loss": 1.0})
    assert scalars(folder=tmp_path, tag="student/loss") == [(epoch, 1.0) for epoch in range(4)]


def test_a_writer_without_a_folder_writes_nothing(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer whose folder is None accepts all events and writes no file."""
    monkeypatch.chdir(tmp_path)
    with RunWriter(folder=None) as writer:
        writer.add_teacher_losses(losses_of_one_teacher=[1.0, 0.5])
        writer.write_teacher_curves()
        writer.write_hits(
            num_asked=20, num_charged_hits=2, num_remaining_hits=3, whole_session_epsilon=8.0
        )
        writer.write_guarantee_and_scores_of(report)
    assert not list(tmp_path.iterdir())
