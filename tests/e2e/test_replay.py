"""Runs on two neighboring data sets that are made to draw the same releases show others nothing that differs."""

import bz2
import csv
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from pate import PATEClassifier
from pate.aggregators import TrainingSet
from pate.aggregators.record import MemoryRecord
from pate.data import Arrays, Dataset, Split, embedded
from pate.data.texts.vectors import TextVectors
from pate.features import Text
from pate.models.student_model import Predictor
from pate.progress import StageOpener, unwatched
from pate.report import Report
from pate.run import train as run_train
from pate.run.ledger_record import LedgerRecord
from pate.run.run_parts import PricedRun
from pate.run.score_release import ScoreCharge
from pate.run.score_sums import ScoreDesign
from pate.run.students import StudentTrainer, TrainedStudent
from pate.testing import Leaked, ReleaseTape, Replay, replay
from pate.validation import require
from scripts.synth_faces.face_copy import FaceCopy
from tests.e2e.commands import call
from tests.e2e.small_run import without_pictures

pytestmark = pytest.mark.slow


class Writer(Protocol):
    """A function that writes data to a folder, and returns the settings of `pate-train` that name the files.

    With `is_neighbor` it writes the neighboring data set.
    """

    def __call__(self, folder: Path, is_neighbor: bool) -> list[str]: ...


SETTINGS = ("all_records=false", "logger=none", "allow_useless=true", "seed=3")
VOTES = ("teacher=linear", "student=linear", "aggregator=gaussian_votes", "num_queries=30")
FEW = ("teacher.num_teachers=12", "target_epsilon=50", "accountant=rdp")
# What only the owner of the data sees on a terminal: the verdict, the rows of models that no epsilon covers, the number
# of private rows, remarks on private files, times, and paths of report and ledger.
LINES_FOR_OWNER = (
    "constant|^(prior|majority-vote student) |private records( of|$)|^data.private"
    "|: \\d+\\.\\d s|report: |ledger="
)


def is_for_owner(printed_line: str) -> bool:
    """Returns True if a printed line is for the owner alone, or has a time or a folder in it."""
    return re.search(LINES_FOR_OWNER, printed_line) is not None


def write_arrays(folder: Path, is_neighbor: bool, *, images: bool = False) -> list[str]:
    """Writes arrays of 260 private groups, with inputs `[5]` or, if `images`, `[1, 16, 16]`.

    In the neighboring data set, one of the groups has other labels, far inputs and more rows.
    """
    rng = np.random.default_rng(0)
    shape = (1, 16, 16) if images else (5,)
    sizes = {"private": 260, "public": 60, "test": 60}
    for split_number, (split, size) in enumerate(sizes.items()):
        inputs = rng.random((size, *shape)).astype(np.float32)
        flat = inputs.reshape(size, -1)
        labels = np.stack([flat[:, label] > 0.4 + 0.1 * label for label in range(3)], axis=1)
        groups = 1000 * split_number + np.arange(size)
        if split == "private" and is_neighbor:
            inputs[0] = 1.0 if images else 1e6
            labels[0] = ~labels[0]
            inputs = np.concatenate([inputs, inputs[:1], inputs[:1]])
            labels = np.concatenate([labels, labels[:1], ~labels[:1]])
            groups = np.concatenate([groups, [0, 0]])
        np.savez(folder / f"{split}.npz", inputs=inputs, labels=labels, groups=groups)
    return ["data=arrays", *(f"data.{split}={folder / split}.npz" for split in sizes)]


def write_test_neighbor(folder: Path, is_neighbor: bool) -> list[str]:
    """Writes the arrays of `write_arrays`; one test record has other labels and far inputs in the neighbor."""
    words = write_arrays(folder, is_neighbor=False)
    if is_neighbor:
        with np.load(folder / "test.npz") as test:
            arrays = dict(test)
        arrays["inputs"][0] = 1e6
        arrays["labels"][0] = ~arrays["labels"][0]
        np.savez(folder / "test.npz", **arrays)
    return words


def write_images(folder: Path, is_neighbor: bool) -> list[str]:
    """Writes the arrays of `write_arrays` with inputs in the shape of small images."""
    return write_arrays(folder, is_neighbor, images=True)


def write_table(folder: Path, is_neighbor: bool) -> list[str]:
    """Writes a table with numbers, words, dates and gaps.

    In the neighboring data set, the first person has values like nobody else's.
    """
    rng = np.random.default_rng(0)
    rows = []
    for person in range(330):
        part = ("private", "public", "private", "private", "test", "private")[person % 6]
        age, dose = f"{rng.normal(loc=50, scale=15):.1f}", f"{rng.normal():.3f}"
        ward = ("north", "south", "")[rng.integers(3)]
        seen = f"20{rng.integers(10, 25)}-0{rng.integers(1, 9)}-1{rng.integers(9)}"
        labels = [int(float(age) > 50), int(float(dose) > 0)]
        row = [part, person, age, dose, ward, seen, *labels]
        if person == 0 and is_neighbor:
            strange_row = [part, person, "-900000", "", "secret ward", "1900-01-01"]
            rows += [[*strange_row, 1 - labels[0], 1]] * 7
        else:
            rows.append(row)
    with (folder / "all.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["part", "person", "age", "dose", "ward", "seen", "flu", "cough"])
        writer.writerows(rows)
    return [
        "data=table",
        f"data.path={folder}/all.csv",
        "data.split=part",
        "data.labels=[flu,cough]",
        "data.group=person",
    ]


def write_gap(folder: Path, is_neighbor: bool) -> list[str]:
    """Writes the table of `write_table`.

    In the neighboring data set, one private person has an empty cell in place of a label. Nobody else has one.
    """
    words = write_table(folder, is_neighbor=False)
    if is_neighbor:
        table = folder / "all.csv"
        head, first, *others = table.read_text().splitlines()
        without_label = f"{first.rpartition(',')[0]},"
        table.write_text("\n".join([head, without_label, *others]) + "\n")
    return [*words, "data.uncertain=missing"]


def write_texts(folder: Path, is_neighbor: bool) -> list[str]:
    """Writes short texts; that of one private person has words of its own in the neighbor."""
    rng = np.random.default_rng(0)
    words = ["fever", "pain", "night", "cold", "rest", "water", "walk", "sleep", "heart", "breath"]
    for split, size in {"private": 220, "public": 60, "test": 40}.items():
        rows = []
        for number in range(size):
            note = " ".join(rng.choice(words, 5))
            label = int("fever" in note)
            if split == "private" and number == 0 and is_neighbor:
                note, label = "xylophone quixotic zugzwang " * 40, 1 - label
            rows.append([note, label, int("cold" in note)])
        with (folder / f"{split}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["note", "flu", "cough"], *rows])
    files = [f"data.{split}={folder}/{split}.csv" for split in ("private", "public", "test")]
    return ["data=table", *files, "data.text=[note]", "data.labels=[flu,cough]"]


def write_pictures(folder: Path, is_neighbor: bool) -> list[str]:
    """Writes pictures in a folder; one private picture has another size and other labels in the neighbor."""
    rng = np.random.default_rng(0)
    rows = [["file", "split", "red", "green"]]
    (folder / "pictures").mkdir()
    for number in range(140):
        split = ("private", "private", "private", "public", "test")[number % 5]
        labels = rng.random(2) < 0.5
        levels = rng.integers(low=0, high=60, size=(12, 12, 3), dtype=np.uint8)
        levels[..., :2] += (labels * 180).astype(np.uint8)
        if number == 0 and is_neighbor:
            labels = ~labels
            levels = np.full((40, 25, 3), 255, np.uint8)
        Image.fromarray(levels).save(folder / "pictures" / f"{number}.png")
        rows.append([f"{number}.png", split, *map(str, labels.astype(int))])
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return [
        "data=image_folder",
        f"data.root={folder}/pictures",
        f"data.table={folder}/labels.csv",
        "data.labels=[red,green]",
        "data.image_size=8",
    ]


def write_faces(folder: Path, is_neighbor: bool) -> list[str]:
    """Writes cartoon faces as a copy of CelebA; in the neighbor, the first one is white and has other attributes."""
    FaceCopy(count=200, image_size=12, form="csv").write(folder / "faces")
    if is_neighbor:
        white = Image.new("RGB", (12, 12), "white")
        white.save(next((folder / "faces").rglob("000001.jpg")))
        table = next((folder / "faces").rglob("list_attr_celeba.csv"))
        head, first, *others = table.read_text().splitlines()
        name, *values = first.split(",")
        flipped = [name, *("-1" if value == "1" else "1" for value in values)]
        table.write_text("\n".join([head, ",".join(flipped), *others]) + "\n")
    return [f"data.root={folder}/faces", f"data.cache={folder}/cache"]


def write_wordnet(folder: Path, is_neighbor: bool) -> list[str]:
    """Writes a small part of WordNet-40.

    In the neighboring data set, one private family of synsets has far inputs, other labels and one more synset.
    """
    with np.load(embedded.ARCHIVE) as arrays:
        parts = dict(arrays)
    ends = np.append(0, np.cumsum(parts["split_sizes"]))
    sizes = (80, 60, 300)  # public, test, private
    taken = np.concatenate(
        [start + np.arange(size) for start, size in zip(ends, sizes, strict=False)]
    )
    names = ("features", "labels", "record_ids", "group_ids")
    small = {name: parts[name][taken] for name in names}
    small["record_ids"] = np.arange(len(taken), dtype=np.int32)
    lines = [f"gloss of number {number % 50}" for number in range(len(taken))]
    if is_neighbor:
        first = sum(sizes[:2])
        family = small["group_ids"] == small["group_ids"][first]
        small["features"][family] = 127
        small["labels"][family] ^= 255
        small = {
            name: np.append(values, values[first : first + 1], axis=0)
            for name, values in small.items()
        }
        small["record_ids"][-1] = len(taken)
        sizes = (80, 60, 301)
        lines[first] = "xylophone quixotic zugzwang " * 40
        lines.append(lines[first])
    np.savez(
        folder / "wordnet40.npz",
        **small,
        label_names=parts["label_names"],
        split_sizes=np.array(sizes),
    )
    (folder / "glosses.txt.bz2").write_bytes(bz2.compress("\n".join(lines).encode()))
    return ["data=wordnet"]


def write_digits(folder: Path, is_neighbor: bool) -> list[str]:
    """Writes the digits of scikit-learn.

    In the neighboring data set, the twelve digits of which one private group's images are composed are black and have
    other labels.
    """
    pixels, digits = load_digits(return_X_y=True)
    if is_neighbor:
        pool = np.random.default_rng(0).permutation(len(digits))[:12]
        pixels[pool] = 16
        digits[pool] = (digits[pool] + 1) % 10
    np.savez(folder / "digits.npz", pixels=pixels, digits=digits)
    return ["data=digits_grid", "data.num_private=300", "data.num_public=60", "data.num_test=40"]


def write_hub_folder(folder: Path, is_neighbor: bool) -> list[str]:
    """Writes the arrays of `write_arrays` as a data set in the format that Hugging Face saves."""
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()  # of the writing here, which show times
    write_arrays(folder, is_neighbor)
    splits = {}
    for split in ("private", "public", "test"):
        with np.load(folder / f"{split}.npz") as arrays:
            columns = {name: arrays[name].tolist() for name in arrays.files}
        for number, label in enumerate(zip(*columns.pop("labels"), strict=True)):
            columns[f"label_{number}"] = list(map(int, label))
        splits[split] = datasets.Dataset.from_dict(columns)
    datasets.DatasetDict(splits).save_to_disk(str(folder / "saved"))
    return [
        "data=huggingface",
        f"data.path={folder}/saved",
        "data.inputs=[inputs]",
        "data.labels=[label_0,label_1,label_2]",
        "data.group=groups",
    ]


def use_embedded_files(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Makes WordNet-40 of this package and scikit-learn's digits come from the files in a folder, if it has them."""
    if (folder / "wordnet40.npz").exists():
        patch.setattr(embedded, "ARCHIVE", folder / "wordnet40.npz")
        patch.setattr(embedded, "GLOSSES", folder / "glosses.txt.bz2")
    if (folder / "digits.npz").exists():
        with np.load(folder / "digits.npz") as arrays:
            digits = arrays["pixels"], arrays["digits"]
        patch.setattr("sklearn.datasets.load_digits", lambda **_: digits)


CENTERED = ("experiment=centered_votes", "num_queries=60")
RUNS: dict[str, tuple[Writer, Sequence[str]]] = {
    "arrays": (write_arrays, (*VOTES, *FEW)),
    "table": (write_table, (*VOTES, *FEW, "features=none")),
    "table in rounds": (write_table, CENTERED),
    "declared gaps": (write_gap, (*VOTES, *FEW, "features=none")),
    "declared gaps in rounds": (write_gap, CENTERED),
    "texts": (write_texts, (*VOTES, *FEW)),
    "images": (write_images, (*VOTES, *FEW)),
    "pictures": (write_pictures, (*VOTES, *FEW)),
    "wordnet": (write_wordnet, CENTERED),
    "wordnet as texts": (write_wordnet, (*VOTES, *FEW, "features=text")),
    "digits_grid": (write_digits, (*VOTES, *FEW)),
    "huggingface": (write_hub_folder, (*VOTES, *FEW)),
    "session": (write_arrays, (*VOTES, *FEW, "aggregator=boundary_max")),
    "experiment=centered_votes": (write_arrays, CENTERED),
    "labels of public rows": (write_arrays, (*CENTERED, "data.public_labels=40")),
    "priced scores": (write_arrays, (*CENTERED, "score_epsilon=.5")),
    "experiment=centered_votes_400": (
        write_arrays,
        ("experiment=centered_votes_400", "teacher.num_teachers=40", "num_queries=30"),
    ),
    "experiment=labels": (write_arrays, ("experiment=labels", "num_queries=60")),
    "experiment=first": (write_arrays, ("experiment=first", *FEW, "num_queries=30")),
    "experiment=quick": (write_arrays, ("experiment=quick", *FEW, "num_queries=30")),
    "experiment=digits_grid": (
        write_images,
        ("experiment=digits_grid", *FEW, "num_queries=20", "teacher=linear", "student=linear"),
    ),
    "experiment=synth_faces_800": (
        write_faces,
        (
            "experiment=synth_faces_800",
            "teacher.num_teachers=8",
            "teacher.epochs=1",
            "engine=sequential",
            "accountant=rdp",
            "student.epochs=1",
            "student.grid=4",
            "num_queries=10",
            "data.image_size=16",
        ),
    ),
    "experiment=celeba_zhu_wang": (
        write_faces,
        (
            "experiment=celeba_zhu_wang",
            "teacher=linear",
            "teacher.num_teachers=12",
            "student=linear",
            "num_queries=20",
            "accountant=rdp",
            "data.image_size=12",
        ),
    ),
}
"""The kinds of data, and all experiments that ship, on small data and with teachers that take no minutes."""


CONF = Path(__file__).resolve().parents[2] / "conf"
KINDS = {
    "arrays": "arrays",
    "digits_grid": "digits_grid",
    "huggingface": "huggingface",
    "image_folder": "pictures",
    "table": "table",
    "wordnet": "wordnet",
}
"""The run that stands for each kind of data in `conf/data` except `celeba`, by its name there."""


@contextmanager
def releases_through(release_tape: ReleaseTape) -> Iterator[None]:
    """Sends each part that a run releases through a tape.

    The tape stores the parts of the first run, and hands them out in the second run.
    """
    release_part = LedgerRecord.part
    draw_scores = ScoreCharge._draw

    def release_part_through_tape(
        ledger_record: LedgerRecord, name: str, draw: Callable[[], Any]
    ) -> Any:
        return release_part(ledger_record, name, draw=partial(release_tape.part, name, draw=draw))

    def draw_scores_through_tape(
        self: ScoreCharge,
        model: Predictor,
        *,
        test_split: Split,
        score_design: ScoreDesign,
        rng: np.random.Generator,
    ) -> bytes:
        return release_tape.part(
            "scores",
            draw=partial(
                draw_scores, self, model, test_split=test_split, score_design=score_design, rng=rng
            ),
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LedgerRecord, "part", release_part_through_tape)
        patch.setattr(ScoreCharge, "_draw", draw_scores_through_tape)
        yield


def replay_on_neighbor(write_data: Writer, settings: Sequence[str], folder: Path) -> Replay[Any]:
    """Runs `pate-train` on data, then with the same releases on a neighboring data set; returns what differs."""

    def run_on(data_name: str, release_tape: ReleaseTape) -> Path:
        data_folder = folder / data_name
        data_folder.mkdir()
        data_settings = write_data(folder=data_folder, is_neighbor=data_name == "neighbor")
        output_settings = [f"output_dir={data_folder}/run", f"ledger={data_folder}/ledger.db"]
        with (
            releases_through(release_tape),
            without_pictures(),
            pytest.MonkeyPatch.context() as patch,
        ):
            use_embedded_files(patch, folder=data_folder)
            ended = call(
                "train", arguments=[*data_settings, *SETTINGS, *settings, *output_settings]
            )
        sys.stdout.write(ended.stdout)
        sys.stderr.write(ended.stderr)
        if ended.returncode:
            raise RuntimeError(ended.stderr.splitlines()[-1])
        return data_folder / "run" / "release"

    return replay(run_on, data="original", neighbor="neighbor", hidden=is_for_owner)


def test_every_experiment_and_kind_of_data_is_replayed() -> None:
    """Each experiment and each kind of data in `conf/` has a run in `RUNS`."""
    words_of_runs = {word for _, settings in RUNS.values() for word in settings}
    assert {f"experiment={path.stem}" for path in CONF.glob("experiment/*.yaml")} <= words_of_runs
    kinds_of_data = {path.stem for path in CONF.glob("data/*.yaml")}
    assert kinds_of_data == {*KINDS, "celeba"}  # celeba by its two experiments


@pytest.mark.parametrize("kind", KINDS)
def test_writer_names_its_kind_of_data(kind: str, tmp_path: Path) -> None:
    """The run that `KINDS` names for a kind of data reads data of that kind."""
    write_data, _ = RUNS[KINDS[kind]]
    assert f"data={kind}" in write_data(folder=tmp_path, is_neighbor=False)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_shows_nothing_but_its_releases(name: str, tmp_path: Path) -> None:
    """If their releases are equal, two runs on neighboring data sets publish equal files and print equal lines.

    Lines that only the owner sees are left out.
    """
    write_data, settings = RUNS[name]
    result = replay_on_neighbor(write_data, settings, folder=tmp_path)
    assert not result.first.refusal, result.first.refusal
    assert result.parts
    assert ("scores" in result.parts) == ("score_epsilon=.5" in settings)
    assert "privacy.json" in result.first.returned
    result.require_sound()


def standardize_by_private_rows(patch: pytest.MonkeyPatch) -> None:
    """Plants a leak: public and test inputs are centered on the mean of private inputs."""
    load_arrays = Arrays.load

    def load_and_center(self: Arrays) -> Dataset:
        dataset = load_arrays(self)
        center = np.asarray(dataset.private.inputs).mean(axis=0)
        splits = {
            name: replace(split, inputs=np.asarray(split.inputs) - center)
            for name, split in (("public", dataset.public), ("test", dataset.test))
        }
        return replace(dataset, **splits)

    patch.setattr(Arrays, "load", load_and_center)


def take_words_of_private_texts(patch: pytest.MonkeyPatch) -> None:
    """Plants a leak: the vocabulary of texts has words of private texts."""
    fit_texts = Text.fit_texts

    def fit_to_private_texts_too(
        self: Text, cache_folder: Path, texts: Sequence[str], open_stage: StageOpener = unwatched
    ) -> TextVectors:
        with (cache_folder.parent / "private.csv").open() as file:
            private_texts = [row["note"] for row in csv.DictReader(file)]
        all_texts = [*texts, *private_texts]
        return fit_texts(self, cache_folder, texts=all_texts, open_stage=open_stage)

    patch.setattr(Text, "fit_texts", fit_to_private_texts_too)


def publish_number_of_rows(patch: pytest.MonkeyPatch) -> None:
    """Plants a leak: `config.yaml` states the number of private rows."""
    write_report = run_train.write_report

    def write_report_and_num_rows(run: PricedRun, **report_parts: Any) -> Report:
        report = write_report(run, **report_parts)
        with (run.run_folder.release / "config.yaml").open("a") as file:
            file.write(f"num_rows: {len(run.dataset.private)}\n")
        return report

    patch.setattr(run_train, "write_report", write_report_and_num_rows)


def refuse_by_private_labels(patch: pytest.MonkeyPatch) -> None:
    """Plants a leak: the run refuses data whose first private record has the first label."""
    require_dataset = run_train.require_dataset

    def refuse_first_label(dataset: Dataset, **options: Any) -> Dataset:
        has_label = bool(dataset.private.labels[0, 0])
        require(
            condition=not has_label,
            name="data.labels",
            value="the first",
            rule="labels that are rare enough",
        )
        return require_dataset(dataset, **options)

    patch.setattr(run_train, "require_dataset", refuse_first_label)


REMEMBERED_PRIVATE_INPUTS: list[np.ndarray] = []


def choose_threshold_by_private_scores(patch: pytest.MonkeyPatch) -> None:
    """Plants a leak: the threshold of the student is its mean score on private records."""
    fit_student = StudentTrainer.fit

    def fit_and_choose_threshold(
        student_trainer: StudentTrainer,
        model_name: str,
        *,
        training_set: TrainingSet,
        seed: int,
        on_losses: Callable[..., None] | None = None,
    ) -> TrainedStudent:
        trained = fit_student(
            student_trainer, model_name, training_set=training_set, seed=seed, on_losses=on_losses
        )
        scores = trained.model.predict_proba(REMEMBERED_PRIVATE_INPUTS[-1])
        model = replace(trained.model, threshold=float(scores.mean()))  # type: ignore[type-var]
        return replace(trained, model=model)

    load_arrays = Arrays.load

    def load_and_remember(self: Arrays) -> Dataset:
        dataset = load_arrays(self)
        REMEMBERED_PRIVATE_INPUTS.append(np.asarray(dataset.private.inputs))
        return dataset

    patch.setattr(Arrays, "load", load_and_remember)
    patch.setattr(StudentTrainer, "fit", fit_and_choose_threshold)


FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, str]] = {
    "scaler": (standardize_by_private_rows, "arrays", "student/student.safetensors"),
    "vocabulary": (take_words_of_private_texts, "texts", "text-"),
    "number of rows": (publish_number_of_rows, "arrays", "config.yaml"),
    "number of rows of wordnet": (publish_number_of_rows, "wordnet", "config.yaml"),
    "refusal": (refuse_by_private_labels, "arrays", "refusal"),
    "threshold": (choose_threshold_by_private_scores, "arrays", "schema.json.threshold"),
}
"""Faults to plant, each with the run that shows it, and words of the place where it shows."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str, tmp_path: Path) -> None:
    """Runs into which a leak was planted differ on neighboring data sets, in the expected place."""
    plant_fault, run_name, words_of_place = FAULTS[fault]
    write_data, settings = RUNS[run_name]
    with pytest.MonkeyPatch.context() as patch:
        plant_fault(patch)
        result = replay_on_neighbor(write_data, settings=settings, folder=tmp_path)
    with pytest.raises(Leaked) as caught:
        result.require_sound()
    assert any(words_of_place in leak.place for leak in caught.value.leaks), caught.value


@pytest.mark.filterwarnings("ignore")
def test_a_fit_shows_nothing_but_its_release(tmp_path: Path) -> None:
    """If their releases are equal, classifiers fitted to neighboring data sets publish equal files and warn alike."""

    def fit_to(data_name: str, release_tape: ReleaseTape) -> Path:
        folder = tmp_path / data_name
        folder.mkdir()
        write_arrays(folder=folder, is_neighbor=data_name == "neighbor")
        private = np.load(folder / "private.npz")
        public = np.load(folder / "public.npz")
        release_part = MemoryRecord.part

        def release_part_through_tape(
            memory_record: MemoryRecord, name: str, draw: Callable[[], Any]
        ) -> Any:
            return release_part(
                memory_record, name, draw=partial(release_tape.part, name, draw=draw)
            )

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MemoryRecord, "part", release_part_through_tape)
            patch.setattr(
                "pate.classifier.past_fits._fits_by_record_digest", {}
            )  # as in a process of its own
            model = PATEClassifier(epsilon=1.0, random_state=3, allow_useless=True)
            model.fit(
                private["inputs"],
                private["labels"],
                X_public=public["inputs"],
                groups=private["groups"],
            )
        model.publish(folder / "release")
        return folder / "release"

    result = replay(fit_to, data="original", neighbor="neighbor")
    assert not result.first.refusal, result.first.refusal
    assert result.parts
    result.require_sound()


def test_a_refused_plan_is_refused_alike(tmp_path: Path) -> None:
    """A plan whose labels would tell too little is refused with the same line on neighboring data sets."""
    few = ("teacher.num_teachers=12", "target_epsilon=.1", "allow_useless=false")
    result = replay_on_neighbor(write_data=write_arrays, settings=(*VOTES, *few), folder=tmp_path)
    assert "allow_useless" in result.first.refusal
    assert not result.parts
    result.require_sound()


def test_a_test_record_changes_nothing_but_released_scores(tmp_path: Path) -> None:
    """If their released scores are equal, two runs that differ in a test record publish the same files."""
    result = replay_on_neighbor(
        write_data=write_test_neighbor, settings=(*CENTERED, "score_epsilon=.5"), folder=tmp_path
    )
    assert not result.first.refusal, result.first.refusal
    in_files = [leak for leak in result.leaks if not leak.place.startswith("stdout")]
    assert in_files == []  # on a terminal the owner sees all scores
