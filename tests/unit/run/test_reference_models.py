"""Reference models that runs in one folder of outputs share: trained once, read if undamaged, and never published."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from pate.files.lock import file_lock
from pate.files.paths import make_folder
from pate.models import LinearStudent, LogisticStudent, MLPStudent, StudentModel
from pate.run.reference_models import ReferenceModels, reference_key
from pate.run.students import TrainedStudent
from pate.run.train import train
from tests.e2e.damage import WAYS, Way
from tests.e2e.small_run import SilentMonitor, small_dataset, small_plan, without_pictures

KEY = "0123456789abcdef" * 4
ENTRY = f"all_records_model-{KEY[:32]}"
TRAINING = "training the all-records model"


def small_model(seed: int = 0) -> StudentModel:
    """Returns a model of a few private records."""
    private = small_dataset().private.take(np.arange(60))
    return LinearStudent().fit(private.inputs, private.labels, seed=seed)


@dataclass
class CountedTraining:
    """A training that counts how often it is called."""

    num_calls: int = 0

    def __call__(self) -> TrainedStudent:
        self.num_calls += 1
        return TrainedStudent(small_model(), named_losses_of_epochs=[{"loss": 0.5}])


def trained_model(
    outputs_folder: Path,
    train_model: Callable[[], TrainedStudent],
    *,
    monitor: SilentMonitor | None = None,
) -> TrainedStudent:
    """Returns the all-records model of a folder of outputs: it is read if the folder has it, and trained if not."""
    references = ReferenceModels(outputs_folder=outputs_folder, monitor=monitor or SilentMonitor())
    return references.model(
        "all_records_model",
        model_words="all-records model",
        dependencies_digest=KEY,
        train_model=train_model,
    )


def test_a_model_is_trained_once_and_a_line_tells_where_it_lies(tmp_path: Path) -> None:
    """A reference model is trained once. A second call reads the same model, and prints its folder without its key."""
    training = CountedTraining()
    monitor = SilentMonitor()
    first = trained_model(outputs_folder=tmp_path, train_model=training, monitor=monitor)
    assert monitor.lines == []
    second = trained_model(outputs_folder=tmp_path, train_model=training, monitor=monitor)
    assert training.num_calls == 1
    assert second.named_losses_of_epochs == first.named_losses_of_epochs == [{"loss": 0.5}]
    inputs = small_dataset().test.inputs
    np.testing.assert_array_equal(
        first.model.predict_proba(inputs), second.model.predict_proba(inputs)
    )
    (line,) = monitor.lines
    assert line.startswith("the all-records model was trained before, on the same records: ")
    assert str(tmp_path / "pate_cache" / "reference_models") in line
    assert KEY[:8] not in line, "the key confirms a guess of the records"


def test_no_model_is_kept_where_other_users_can_list_it(tmp_path: Path) -> None:
    """If other users can list the folder of models, each call trains and leaves no file.

    The folder has mode 0755, and each call prints the command that changes this.
    """
    folder = make_folder(tmp_path / "pate_cache" / "reference_models")
    folder.chmod(0o755)
    training = CountedTraining()
    monitor = SilentMonitor()
    for _ in range(2):
        trained_model(outputs_folder=tmp_path, train_model=training, monitor=monitor)
    assert training.num_calls == 2
    assert list(folder.iterdir()) == []
    assert all(f"chmod 700 {folder}" in line for line in monitor.lines)
    assert len(monitor.lines) == 2


def test_only_the_owner_can_read_a_model(tmp_path: Path) -> None:
    """The files of a reference model have mode 0600, and its folders 0700."""
    trained_model(outputs_folder=tmp_path, train_model=CountedTraining())
    paths = list((tmp_path / "pate_cache").rglob("*"))
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o700}


@pytest.mark.parametrize("damage", WAYS, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", ["trained.json", "student.json", "student.safetensors"])
def test_a_damaged_model_is_trained_again(name: str, damage: Way, tmp_path: Path) -> None:
    """If a file of a stored model is damaged, the next call trains the model again, and a later call reads it."""
    training = CountedTraining()
    trained_model(outputs_folder=tmp_path, train_model=training)
    damage(tmp_path / "pate_cache" / "reference_models" / ENTRY / name)
    trained_model(outputs_folder=tmp_path, train_model=training)
    trained_model(outputs_folder=tmp_path, train_model=training)
    assert training.num_calls == 2


def test_a_file_in_the_place_of_a_model_is_replaced(tmp_path: Path) -> None:
    """A file that has the name of the model's folder is replaced by the trained model."""
    training = CountedTraining()
    folder = tmp_path / "pate_cache" / "reference_models"
    make_folder(folder)
    (folder / ENTRY).write_text("no folder")
    trained_model(outputs_folder=tmp_path, train_model=training)
    trained_model(outputs_folder=tmp_path, train_model=training)
    assert training.num_calls == 1


def test_a_run_that_is_killed_while_it_trains_leaves_no_model(tmp_path: Path) -> None:
    """If a training is interrupted, the next call trains again."""

    def train_until_killed() -> TrainedStudent:
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        trained_model(outputs_folder=tmp_path, train_model=train_until_killed)
    training = CountedTraining()
    trained_model(outputs_folder=tmp_path, train_model=training)
    assert training.num_calls == 1


@pytest.mark.slow
def test_a_second_run_waits_for_the_first_and_reads_its_model(tmp_path: Path) -> None:
    """While one run trains the model, a second run waits, and then reads it without training."""
    started = threading.Event()
    may_end = threading.Event()

    def train_slowly() -> TrainedStudent:
        started.set()
        assert may_end.wait(timeout=60)
        return TrainedStudent(small_model(), named_losses_of_epochs=())

    first = threading.Thread(target=trained_model, args=(tmp_path, train_slowly))
    first.start()
    assert started.wait(timeout=60)
    training = CountedTraining()
    monitor = SilentMonitor()
    second = threading.Thread(
        target=trained_model, args=(tmp_path, training), kwargs={"monitor": monitor}
    )
    second.start()
    while not monitor.stages:
        second.join(timeout=0.01)
    may_end.set()
    for thread in (first, second):
        thread.join(timeout=60)
    assert monitor.stages == ["waiting for the all-records model of another run"]
    assert training.num_calls == 0


def test_a_whole_model_is_read_without_its_lock(tmp_path: Path) -> None:
    """A stored model is read even while its lock is held."""
    trained_model(outputs_folder=tmp_path, train_model=CountedTraining())
    lock = tmp_path / "pate_cache" / "reference_models" / f"{ENTRY}.lock"
    with file_lock(lock, wait=False):
        # With the lock, this call would wait for ever.
        trained_model(outputs_folder=tmp_path, train_model=CountedTraining())


def test_a_folder_that_cannot_be_written_keeps_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the folder of models cannot be made, each call trains, without an error."""

    def refuse_folder(folder: Path) -> Path:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr("pate.run.reference_models.make_folder", refuse_folder)
    training = CountedTraining()
    trained_model(outputs_folder=tmp_path, train_model=training)
    trained_model(outputs_folder=tmp_path, train_model=training)
    assert training.num_calls == 2


def test_a_full_disk_is_no_reason_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full when the folder of models is made, the error is raised."""

    def fill_disk(folder: Path) -> Path:
        raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr("pate.run.reference_models.make_folder", fill_disk)
    with pytest.raises(OSError, match="No space left"):
        trained_model(outputs_folder=tmp_path, train_model=CountedTraining())


class OwnStudent(LinearStudent):
    """A student of the user's own class, whose code may change between two runs."""


def key_of(
    *students: LinearStudent | MLPStudent | LogisticStudent, seed: int = 0, record_digest: str = "a"
) -> str | None:
    """Returns the key of a model of `students` on some records."""
    return reference_key(
        "all_records_model", student_recipes=students, seed=seed, record_digests=[record_digest]
    )


def test_a_key_depends_on_recipes_seed_and_records() -> None:
    """Models of different recipes, seeds or records have different keys, and equal ones have the same key."""
    keys = [
        key_of(LinearStudent()),
        key_of(LogisticStudent()),
        key_of(LogisticStudent(), MLPStudent()),
        key_of(LogisticStudent(), MLPStudent(hidden=65)),
        key_of(LinearStudent(), seed=1),
        key_of(LinearStudent(), record_digest="b"),
    ]
    assert len(set(keys)) == len(keys)
    assert key_of(LinearStudent()) == keys[0]


def test_models_of_own_classes_are_not_shared(tmp_path: Path) -> None:
    """A student of the user's own class has no key: its model is trained each time, and not stored."""
    assert key_of(OwnStudent()) is None
    training = CountedTraining()
    references = ReferenceModels(outputs_folder=tmp_path, monitor=SilentMonitor())
    for _ in range(2):
        references.model(
            "all_records_model",
            model_words="all-records model",
            dependencies_digest=None,
            train_model=training,
        )
    assert training.num_calls == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_runs_in_one_folder_train_what_depends_on_the_data_once(tmp_path: Path) -> None:
    """Of three runs in one folder, the first trains the all-records model, and the others read it.

    The true-label student is trained once for each recipe of a student. Neither model is published.
    """
    plan_with_all_records_model = replace(small_plan(), all_records=True, seed=None)
    monitors = [SilentMonitor() for _ in range(3)]
    plan_of_other_student = replace(
        plan_with_all_records_model, student=LogisticStudent(), settings={"name": "other"}
    )
    with without_pictures():
        first = train(
            plan_with_all_records_model, output_dir=tmp_path / "first", monitor=monitors[0]
        )
        second = train(plan_of_other_student, output_dir=tmp_path / "second", monitor=monitors[1])
        third = train(
            plan_with_all_records_model, output_dir=tmp_path / "third", monitor=monitors[2]
        )
    assert [monitor.stages.count(TRAINING) for monitor in monitors] == [1, 0, 0]
    true_label_stage = "training the true label student"
    assert [monitor.stages.count(true_label_stage) for monitor in monitors] == [1, 1, 0]
    assert first.baselines.all_records_model == second.baselines.all_records_model
    assert first.baselines.true_label_student == third.baselines.true_label_student
    assert first.baselines.true_label_student != second.baselines.true_label_student
    published = [path.name for path in (tmp_path / "third" / "release").rglob("*")]
    assert not [name for name in published if "all_records" in name or "true_label" in name]


@pytest.mark.slow
def test_other_private_records_have_another_ceiling(tmp_path: Path) -> None:
    """A run on other private records in the same folder trains its own all-records model."""
    plan_with_all_records_model = replace(small_plan(), all_records=True)
    dataset = small_dataset()
    dataset_of_900_records = replace(dataset, private=dataset.private.take(np.arange(900)))
    plan_on_900_records = replace(
        plan_with_all_records_model, load_dataset=lambda: dataset_of_900_records
    )
    monitor = SilentMonitor()
    with without_pictures():
        train(plan_with_all_records_model, output_dir=tmp_path / "first")
        train(plan_on_900_records, output_dir=tmp_path / "second", monitor=monitor)
    assert TRAINING in monitor.stages
