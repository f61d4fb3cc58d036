"""Holders have different labels, or records whose labels are unknown, in vote files and in rounds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pate.aggregators import CenteredVotes, GaussianVotes
from pate.data import Dataset, Split
from pate.files.paths import make_folder
from pate.models import KernelTeacher, LinearTeacher, SequentialEngine
from pate.models.teacher import Voter
from pate.run.plan import Plan
from pate_federated import Roll
from pate_federated.question import LENGTHS, SHARES
from pate_federated.vote_casting import HolderPlan
from small_federation.exchange import Exchanges, rounds_plan, small_rounds
from small_federation.stages import cast_votes, release, release_plan
from tests.e2e.small_run import (
    NUM_HOLDERS,
    NUM_TEACHERS,
    SilentMonitor,
    release_bytes_of_run,
    run_until_released,
    seeded_plan,
    small_dataset,
)

TEACHERS = {"north": 12, "south": 12}
LABELS = {"north": [0, 1, 2], "south": [4, 1, 0]}  # nobody has label_3


def labels_of(split: Split, columns: list[int]) -> Split:
    """Returns a split with only some of its labels."""
    return replace(split, labels=split.labels[:, columns])


def load_own_data(holder: str) -> Dataset:
    """Returns half of the small run's private records, with only the labels that a holder has."""
    dataset = small_dataset()
    rows = slice(0, 480) if holder == "north" else slice(480, 960)
    columns = LABELS[holder]
    return replace(
        dataset,
        label_names=tuple(dataset.label_names[column] for column in columns),
        private=labels_of(dataset.private.take(rows), columns),
        public=labels_of(dataset.public, columns),
        test=labels_of(dataset.test, columns),
    )


def plan_of(
    holder: str, teacher: Voter, load: Callable[[str], Dataset] = load_own_data
) -> HolderPlan:
    """Returns the plan of a holder with 12 teachers and its own records."""
    return HolderPlan(
        load_dataset=lambda: load(holder),
        teacher=teacher,
        num_teachers=TEACHERS[holder],
        engine=SequentialEngine(),
        holder=holder,
        num_queries=40,
        seed=1,
        settings={"holder": holder},
    )


@pytest.mark.slow
def test_votes_on_different_labels_are_released_on_all_of_them(tmp_path: Path) -> None:
    """If two holders have two of four labels in common, all four are released, each with over 80% right.

    The card names the labels that one holder lacks. Teachers without a label do not move its majority.
    """
    paths = [
        cast_votes(plan_of(holder, teacher=LinearTeacher(device="cpu")), vote_folder=tmp_path)
        for holder in TEACHERS
    ]
    plan = release_plan(seeded_plan(GaussianVotes(noise_std=1.0)))
    monitor = SilentMonitor()
    terms = release(
        plan, vote_paths=paths, output_folder=tmp_path / "many" / "release", monitor=monitor
    )
    assert terms.num_labels == 4
    few = "Labels of few teachers: label_2 (12 teachers of 1 holder), label_4 (12 teachers of 1 holder)."
    assert few in monitor.lines
    card = (tmp_path / "many" / "release" / "release" / "privacy_card.md").read_text()
    assert f"- {few}" in card.replace("\\", "")
    with np.load(tmp_path / "many" / "release" / "release" / "release.npz") as arrays:
        assert arrays["label_names"].tolist() == ["label_0", "label_1", "label_2", "label_4"]
        true_labels = small_dataset().public.labels[: len(arrays["labels"]), [0, 1, 2, 4]]
        assert (arrays["labels"] == true_labels).mean(axis=0).min() > 0.8


def exchanged(folder: Path, teacher: Voter, load: Callable[[str], Dataset]) -> Exchanges:
    """Returns an exchange with both holders, whose folders lie in `folder`."""

    def plan_and_folder_of(holder: str) -> tuple[HolderPlan, Path]:
        make_folder(folder / holder)
        return replace(plan_of(holder, teacher, load), num_queries=None), folder / holder

    return Exchanges(plan_and_folder_of=plan_and_folder_of, roll=Roll(holders=TEACHERS))


@pytest.mark.slow
@pytest.mark.parametrize(
    "teacher", [KernelTeacher(), LinearTeacher(device="cpu")], ids=["kernel", "linear"]
)
def test_rounds_of_holders_with_different_labels_release_all_asked_labels(
    teacher: Voter, tmp_path: Path
) -> None:
    """Rounds of holders with different labels release all labels that the server asks for.

    The server asks for the prevalence too. For labels that a holder has, over 80% of the values are right, and over 70%
    for each label. The card says of which label there are no teachers.
    """
    plan = replace(rounds_plan(), teacher=teacher, target_epsilon=30.0)
    plan = replace(plan, aggregator=replace(plan.aggregator, rounds=5))
    server = replace(small_rounds(plan, folder=tmp_path), roll=Roll(holders=TEACHERS))
    exchange = exchanged(tmp_path, teacher, load_own_data)
    terms = server.run(exchange=exchange, monitor=SilentMonitor())
    assert {LENGTHS, SHARES} <= set(exchange.asked)
    assert terms.num_labels == 5
    folder = tmp_path / "release" / "release"
    card = (folder / "privacy_card.md").read_text().replace("\\", "")
    assert "- Labels of few teachers: label_3 (0 teachers of 0 holders), label_2 (12" in card
    with np.load(folder / "release.npz") as arrays:
        true_labels = small_dataset().public.labels[: len(arrays["labels"])]
        right = (arrays["labels"] == true_labels).mean(axis=0)[[0, 1, 2, 4]]
        assert right.min() > 0.7 and right.mean() > 0.8


def with_gaps() -> Dataset:
    """Returns the small run's data set, with about half of the private labels unknown."""
    dataset = small_dataset()
    private = dataset.private
    known = np.random.default_rng(3).random(private.labels.shape) < 0.5
    return replace(dataset, private=replace(private, labels=private.labels & known, known=known))


@pytest.mark.slow
@pytest.mark.parametrize(
    "teacher", [KernelTeacher(), LinearTeacher(device="cpu")], ids=["kernel", "linear"]
)
def test_rounds_of_holders_with_gaps_give_the_release_of_pate_train(
    teacher: Voter, tmp_path: Path
) -> None:
    """If half of the labels are unknown, rounds of four holders give the same release as one run on all records."""
    plan: Plan = replace(rounds_plan(), teacher=teacher, load_dataset=with_gaps)
    server = small_rounds(plan, tmp_path)

    def plan_and_folder_of(holder: str) -> tuple[HolderPlan, Path]:
        make_folder(tmp_path / "holders" / holder)
        return HolderPlan(
            load_dataset=with_gaps,
            teacher=teacher,
            num_teachers=NUM_TEACHERS // NUM_HOLDERS,
            engine=plan.engine,
            holder=holder,
            holders=NUM_HOLDERS,
            seed=plan.seed,
            settings={"holder": holder},
        ), tmp_path / "holders" / holder

    server.run(
        exchange=Exchanges(plan_and_folder_of=plan_and_folder_of, roll=server.roll),
        monitor=SilentMonitor(),
    )
    train = run_until_released(plan, folder=tmp_path / "whole" / "train")
    assert release_bytes_of_run(tmp_path / "release") == train


@pytest.mark.slow
@pytest.mark.parametrize(
    "aggregator",
    [
        GaussianVotes(noise_std=1.0),
        CenteredVotes(noise_multiplier=1.0, rounds=1),
    ],
    ids=["gaussian", "centered"],
)
def test_files_of_holders_with_gaps_give_the_release_of_pate_train(
    aggregator: GaussianVotes | CenteredVotes, tmp_path: Path
) -> None:
    """If labels are unknown, files of bits, or of confidences, give the same release as one run on all records."""
    plan: Plan = replace(seeded_plan(aggregator), load_dataset=with_gaps)
    form = "confidences" if isinstance(aggregator, CenteredVotes) else "bits"
    paths = []
    for number in range(1, NUM_HOLDERS + 1):
        holder_plan = HolderPlan(
            load_dataset=with_gaps,
            teacher=plan.teacher,
            num_teachers=NUM_TEACHERS // NUM_HOLDERS,
            engine=plan.engine,
            holder=str(number),
            holders=NUM_HOLDERS,
            num_queries=plan.num_queries,
            cast=form,
            seed=plan.seed,
            settings={"holder": str(number)},
        )
        paths.append(cast_votes(holder_plan, vote_folder=tmp_path))
    release(release_plan(plan), vote_paths=paths, output_folder=tmp_path / "apart" / "release")
    train = run_until_released(plan, folder=tmp_path / "whole" / "train")
    assert release_bytes_of_run(tmp_path / "apart" / "release") == train


def united_data() -> Dataset:
    """Returns the small run's data set, in which only the labels that its holder has are known of a private record."""
    dataset = small_dataset()
    private = dataset.private
    known = np.zeros_like(private.labels)
    known[:480, LABELS["north"]] = True
    known[480:, LABELS["south"]] = True
    return replace(dataset, private=replace(private, labels=private.labels & known, known=known))


@pytest.mark.slow
def test_rounds_of_holders_release_what_one_run_with_all_records_does(tmp_path: Path) -> None:
    """Rounds of two holders with different labels give the same release as one run on all records.

    Each group votes by itself. In the one run, labels that the holder of a record lacks are unknown.
    """
    # Rounds of several holders have linear features alone.
    plan: Plan = replace(
        rounds_plan(),
        teacher=KernelTeacher(nonlinear=False),
        num_teachers=None,
        holders=None,
        load_dataset=united_data,
    )
    roll = Roll(holders={"north": 480, "south": 480})
    server = replace(small_rounds(plan, folder=tmp_path), roll=roll)

    def plan_and_folder_of(holder: str) -> tuple[HolderPlan, Path]:
        make_folder(tmp_path / holder)
        holder_plan = plan_of(holder, teacher=KernelTeacher())
        return replace(holder_plan, num_teachers=None, num_queries=None), tmp_path / holder

    server.run(
        exchange=Exchanges(plan_and_folder_of=plan_and_folder_of, roll=roll),
        monitor=SilentMonitor(),
    )
    train = run_until_released(plan, folder=tmp_path / "whole" / "train")
    assert release_bytes_of_run(tmp_path / "release") == train
