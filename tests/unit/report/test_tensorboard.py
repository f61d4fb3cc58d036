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
    """Files of one second are read in the order of their names, where the tenth of a process is before the ninth."""
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))


def read(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder), {"scalars": 0, "histograms": 0, "tensors": 0})
    events.Reload()
    return events


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    return [(event.step, pytest.approx(event.value)) for event in read(folder).Scalars(tag)]


def test_teachers_gaps_and_accuracies_carry_the_mark(tmp_path: Path) -> None:
    with RunWriter(tmp_path) as writer:
        for teacher, loss in enumerate([0.5, 0.25, 0.75]):
            writer.teacher(teacher, loss)
        writer.histogram("teacher_accuracy", np.array([0.8, 0.9, 0.9]))
        writer.histogram("gap", np.array([1, 2, 3, 4]))
    assert scalars(tmp_path, LOSS) == [(0, 0.5), (1, 0.25), (2, 0.75)]
    events = read(tmp_path)
    assert set(events.Tags()["histograms"]) == {"no_epsilon_covers_this/teacher_accuracy", "no_epsilon_covers_this/gap"}
    gaps = events.Histograms("no_epsilon_covers_this/gap")[0].histogram_value
    assert (gaps.num, gaps.min, gaps.max, gaps.sum) == (4, 1, 4, 10)


def test_only_the_private_students_curve_is_without_mark(tmp_path: Path) -> None:
    with RunWriter(tmp_path) as writer:
        writer.epoch(0, {"loss": 1.0})
        writer.epoch(1, {"loss": 0.5})
        for epoch in range(2):
            writer.epoch(epoch, {"loss": 2.0}, model="majority_vote_student")
        writer.epoch(0, {"loss": 3.0}, model="true_label_student")
    assert scalars(tmp_path, "student/loss") == [(0, 1.0), (1, 0.5)]
    assert scalars(tmp_path, "no_epsilon_covers_this/majority_vote_student/loss") == [(0, 2.0), (1, 2.0)]
    tags = read(tmp_path).Tags()["scalars"]
    assert not any("true_label_student" in tag for tag in tags), "a single point is no curve"


def test_the_report_is_text_and_a_line_of_the_tab_hparams(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = {"aggregator": "stable_top_k_table", "target_epsilon": 8.0, "seed": None}
    heading = Heading("stable_top_k_table", given={"seed": "1"}, compared=compared)
    partial = replace(report, student=replace(report.student, balanced_accuracy=None), heading=heading)
    folder = tmp_path / "outputs" / "one" / "tensorboard"
    monkeypatch.chdir(tmp_path)
    with RunWriter(str(folder)) as writer:
        writer.report(partial)
    events = read(folder)
    assert not events.Tags()["scalars"]  # a curve of a single point tells nothing
    (text,) = events.Tensors("no_epsilon_covers_this/scores/text_summary")[0].tensor_proto.string_val
    assert "| prior | mean AP 0.117, micro-F1 0.209" in text.decode()
    assert "| run | stable_top_k_table on wordnet |\n| settings | seed=1 |" in text.decode()
    kept = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    info = HParamsPluginData.FromString(kept).session_start_info
    started = info.hparams
    assert info.group_name == "one"
    assert started["Test micro-F1 (no epsilon covers this)"].number_value == 0.38373
    assert started["Epsilon"].number_value == 7.9912
    columns = sorted(started)  # as TensorBoard does
    assert columns.index("aggregator") == sum(name[0].isupper() for name in columns) == len(columns) - 3
    assert not [name for name in columns if "balanced" in name]
    assert started["aggregator"].string_value == "stable_top_k_table"
    assert started["target_epsilon"].number_value == 8.0
    assert started["seed"].string_value == "None"
    (text,) = events.Tensors("privacy/settings/text_summary")[0].tensor_proto.string_val
    assert "| epsilon | 8.00 |" in text.decode()


def test_a_resumed_run_writes_what_is_missing_and_nothing_twice(report: Report, tmp_path: Path) -> None:
    def stage(writer: RunWriter, num_teachers: int) -> None:
        for teacher in range(num_teachers):
            writer.teacher(teacher, teacher / 8)
        writer.histogram("gap", np.arange(5))
        writer.report(replace(report, heading=Heading(compared={"seed": 1})))

    for num_teachers in (3, 5):
        with RunWriter(tmp_path) as writer:
            stage(writer, num_teachers)
            stage(writer, num_teachers)
    assert len(list(tmp_path.iterdir())) == 2
    assert scalars(tmp_path, LOSS) == [(teacher, teacher / 8) for teacher in range(5)]
    events = read(tmp_path)
    assert len(events.Histograms("no_epsilon_covers_this/gap")) == 1
    assert len(events.Tensors("privacy/settings/text_summary")) == 1


def test_a_torn_file_loses_only_its_end(tmp_path: Path) -> None:
    with RunWriter(tmp_path) as writer:
        for teacher in range(4):
            writer.teacher(teacher, 1.0)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])  # the kill came while the last event was written
    with RunWriter(tmp_path) as writer:
        for teacher in range(4):
            writer.teacher(teacher, 1.0)
    assert scalars(tmp_path, LOSS) == [(teacher, 1.0) for teacher in range(4)]


def test_nobodys_events_are_written_nowhere(report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with RunWriter(None) as writer:
        writer.teacher(0, 1.0)
        writer.hits(20, hits=2, remaining_hits=3, epsilon=8.0)
        writer.report(report)
    assert not list(tmp_path.iterdir())
