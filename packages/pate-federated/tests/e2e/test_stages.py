"""Vote, release and student in separate steps give the bytes of one run, also if the steps are killed."""

import json
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pate
from pate.accounting import Ledger, RdpAccountant, SharedLedger
from pate.aggregators import CenteredVotes, GaussianVotes
from pate.errors import InvalidValue
from pate.models import ConvexTeacher, KernelTeacher
from pate.run.train import train
from pate.run.votes_release import Terms
from pate_federated.vote_casting import cast_vote_file
from pate_federated.vote_file import VoteFile
from small_federation.stages import (
    Votes,
    after_kills,
    cast_votes,
    holder_plan,
    release,
    release_plan,
    train_student,
)
from tests.e2e.shipped_aggregators import shipped_aggregator
from tests.e2e.small_run import (
    NUM_HOLDERS,
    NUM_TEACHERS,
    SEED,
    SilentMonitor,
    charges_beside,
    contents,
    release_bytes_of_run,
    seeded_plan,
    small_dataset,
)
from tests.refusals import ANY, refused_parameter

GAUSSIAN_VOTES = GaussianVotes(noise_std=1.0)
PLAN = seeded_plan(GAUSSIAN_VOTES)


def test_stages_publish_the_same_student_as_a_run(votes: Votes, tmp_path: Path) -> None:
    """Release and student in separate steps publish the same files as one run of `train`, byte for byte.

    Symbolic links in the folder are refused, and repeated steps change nothing.
    """
    ledger = tmp_path / "of_whole.db"  # one seed draws once in a ledger
    changed = replace(PLAN, make_release_config_text=lambda _: "name: small\n", ledger=ledger)
    train(changed, output_dir=tmp_path / "whole")
    plan = replace(release_plan(PLAN), make_release_config_text=lambda *_: "name: small\n")
    release(plan, vote_paths=votes["bits"], output_folder=tmp_path / "apart")
    before = contents(tmp_path / "apart")
    sent_release = Path(shutil.copytree(tmp_path / "apart" / "release", tmp_path / "sent"))
    with refused_parameter("release", value=ANY, rule_words="student in"):
        pate.load(sent_release)
    train_student(PLAN, release_folder=sent_release, output_folder=tmp_path / "model")
    train_student(PLAN, release_folder=tmp_path / "apart", output_folder=tmp_path / "again")
    assert contents(tmp_path / "apart") == before
    assert contents(tmp_path / "model") == contents(tmp_path / "again")
    (tmp_path / "outside").mkdir()
    for folder_with_link, output in (
        (tmp_path / "apart" / "release", None),
        (tmp_path / "other", tmp_path / "other"),
    ):
        folder_with_link.mkdir(exist_ok=True)
        (folder_with_link / "student").symlink_to(tmp_path / "outside")
        with pytest.raises(
            InvalidValue, match=r"expected no links in it, found (release/)?student; remove that$"
        ):
            train_student(PLAN, release_folder=tmp_path / "apart", output_folder=output)
        (folder_with_link / "student").unlink()
    assert not any((tmp_path / "outside").iterdir())
    later_monitor = SilentMonitor()
    for _ in range(2):
        train_student(PLAN, release_folder=tmp_path / "apart")
        for item in ("whole", "apart"):
            assert contents(tmp_path / "model") == contents(tmp_path / item / "release")
        # The release is made again with a student beside it.
        release(
            plan, vote_paths=votes["bits"], output_folder=tmp_path / "apart", monitor=later_monitor
        )
    finished = f"output_dir={tmp_path / 'apart'}: this release is finished; nothing was drawn or spent again"
    assert later_monitor.lines == [finished, finished]
    card = (tmp_path / "model" / "privacy_card.md").read_text()
    assert (
        f"from {NUM_HOLDERS} holders of records, each of which has up to {NUM_TEACHERS // NUM_HOLDERS} teachers"
        in card
    )
    model = pate.load(tmp_path / "model")
    assert model.labels == small_dataset().label_names and model.privacy is not None
    assert (
        model.privacy.unit
        == "one group of records, those with one number in group_ids, at one holder"
    )


def test_vote_file_has_mode_0600_and_no_record_data(votes: Votes, tmp_path: Path) -> None:
    """Only its owner can read a vote file, and its manifest does not have the digest of the records.

    A holder with a name and no seed casts the same file again from its folder of work, and refuses other settings.
    """
    path = votes["bits"][2]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    head = VoteFile.open(path).manifest
    assert (head.holder, head.num_teachers, head.num_records) == (
        "3",
        NUM_TEACHERS // NUM_HOLDERS,
        240,
    )
    assert small_dataset().private_digest() not in head.to_text()
    assert {file.manifest.queries for file in map(VoteFile.open, votes["bits"])} == {head.queries}
    # this holder has a data set of its own, with all 960 records
    plan_of_holder = replace(
        holder_plan(PLAN, holder=1), holder="hospital", holders=None, seed=None
    )
    path = cast_votes(plan_of_holder, vote_folder=tmp_path)
    head = VoteFile.open(path).manifest
    first = path.read_bytes()
    assert (head.holder, head.num_groups) == ("hospital", 960)
    path.unlink()
    with refused_parameter("output_dir", value=ANY, rule_words="new folder or this run's own"):
        cast_votes(replace(plan_of_holder, settings={"name": "another"}), vote_folder=tmp_path)
    (tmp_path / "hospital.work" / "cast.sha256").unlink()
    assert cast_votes(plan_of_holder, vote_folder=tmp_path).read_bytes() == first


def test_interrupted_holder_casts_the_same_votes(votes: Votes, tmp_path: Path) -> None:
    """A holder that is killed at any file it writes then casts the vote file of an undisturbed holder."""
    plan = holder_plan(PLAN, holder=2)
    killed = list(after_kills(tmp_path, task=lambda folder: cast_votes(plan, vote_folder=folder)))
    for folder in killed:
        assert cast_votes(plan, vote_folder=folder).read_bytes() == votes["bits"][1].read_bytes()
        assert not list(folder.rglob("*.partial"))
    assert len(killed) > 8


@pytest.mark.parametrize("seed", [SEED, None])
def test_a_killed_release_is_drawn_once_and_charged_once(
    seed: int | None, votes: Votes, tmp_path: Path
) -> None:
    """A release that is killed at any file it writes, and made again, has one charge, with or without a seed.

    A release.npz that was there before the second call does not change.
    """
    plan = replace(PLAN, seed=seed)
    results = []

    def release_into(folder: Path) -> Terms:
        return release(
            plan=replace(release_plan(plan), ledger=folder.with_suffix(".db")),
            vote_paths=votes["bits"],
            output_folder=folder,
        )

    for folder in after_kills(tmp_path, task=release_into):
        before = (
            release_bytes_of_run(folder) if (folder / "release" / "release.npz").exists() else None
        )
        release_into(folder)
        results.append(release_bytes_of_run(folder))
        assert before in (None, results[-1])
        assert len(SharedLedger.stored(folder.with_suffix(".db")).entries) == 1
        train_student(plan, release_folder=folder)
        assert not (folder / "release" / "terms.json").exists()
    assert len(results) > 8
    assert seed is None or len(set(results)) == 1


def test_interrupted_training_gives_an_identical_student(votes: Votes, tmp_path: Path) -> None:
    """If the training of a student is killed at any file it writes, and repeated, it gives the undisturbed student."""
    release(plan=release_plan(PLAN), vote_paths=votes["bits"], output_folder=tmp_path / "apart")
    expected_folder = Path(shutil.copytree(tmp_path / "apart", tmp_path / "wanted"))
    train_student(PLAN, release_folder=expected_folder)

    def train_on_copy(folder: Path) -> None:
        train_student(PLAN, release_folder=Path(shutil.copytree(tmp_path / "apart", folder)))

    killed = list(after_kills(tmp_path, task=train_on_copy))
    for folder in killed:
        train_student(PLAN, release_folder=folder)
        assert contents(folder / "release") == contents(expected_folder / "release")
    assert len(killed) > 4


def test_one_ledger_holds_all_releases_of_the_holders_and_its_cap(
    votes: Votes, tmp_path: Path
) -> None:
    """A ledger has one charge for a release that is repeated, and refuses another release that would exceed the cap.

    The other release is from three of the same holders. A ledger with charges for other data is refused as well.
    """
    plan = replace(PLAN, target_epsilon=5.0)
    ledger = tmp_path / "all.db"
    other_ledger = tmp_path / "others.db"
    release(plan=release_plan(plan), vote_paths=votes["bits"], output_folder=tmp_path / "first")
    for _ in range(2):  # the first call charges the ledger for what is finished
        release(
            plan=replace(release_plan(plan), ledger=ledger, max_total_epsilon=6.0),
            vote_paths=votes["bits"],
            output_folder=tmp_path / "first",
        )
    other = replace(release_plan(plan), ledger=ledger, max_total_epsilon=6.0, seed=7)
    with refused_parameter("max_epsilon", value=6.0):
        # These are the votes of some of the holders.
        release(plan=other, vote_paths=votes["bits"][:3], output_folder=tmp_path / "second")
    event = GAUSSIAN_VOTES.event_for(num_queries=1, num_labels=1, num_teachers=1)
    account = SharedLedger(other_ledger, target_delta=1e-5, accountant=RdpAccountant).account(
        data="others"
    )
    account.charge(event, adjacency="replace_one", key="x")
    with refused_parameter("ledger", value=ANY, rule_words="new file"):
        release(
            plan=replace(release_plan(plan), ledger=other_ledger),
            vote_paths=votes["bits"],
            output_folder=tmp_path / "second",
        )
    assert (
        len(SharedLedger.stored(ledger).entries)
        == len(SharedLedger.stored(other_ledger).entries)
        == 1
    )
    assert not (tmp_path / "second").exists()


def test_folder_of_another_plan_is_refused(votes: Votes, tmp_path: Path) -> None:
    """A folder with the release of two holders' votes refuses other votes, and charges nothing for them."""
    plan = replace(PLAN, target_epsilon=None)
    folder = tmp_path / "release"
    release(plan=release_plan(plan), vote_paths=votes["bits"][:2], output_folder=folder)
    with refused_parameter("data", value="another"):
        release(plan=release_plan(plan), vote_paths=votes["bits"], output_folder=folder)
    with refused_parameter("data", value="another"):
        release(plan=release_plan(plan), vote_paths=votes["bits"][2:], output_folder=folder)
    assert Ledger.stored(tmp_path / "ledger.db").epsilon > 0
    assert len(charges_beside(folder)) == 1


def test_unsupported_settings_of_stages_are_refused_before_reading(
    votes: Votes, tmp_path: Path
) -> None:
    """A release refuses rounds, bits in place of confidences, and an aggregator with a prior but without queries.

    A vote file of teachers that cast no votes is refused too. No file is written. The refusal of rounds advises
    `rounds=1`.
    """
    several = CenteredVotes(noise_multiplier=1.0)
    prior = shipped_aggregator("stable_top_k_not_prior")
    for aggregator, form, refusal in (
        (
            replace(several, rounds=3),
            "confidences",
            refused_parameter("aggregator.rounds", rule_words="aggregator.rounds=1"),
        ),
        (several, "bits", refused_parameter("cast", value="bits")),
        (prior, "bits", refused_parameter("queries", value=None)),
    ):
        with refusal:
            release(
                plan=replace(release_plan(seeded_plan(aggregator)), queries=None),
                vote_paths=votes[form],
                output_folder=tmp_path / "apart",
            )
    for teacher in (KernelTeacher(), ConvexTeacher()):
        with pytest.raises(
            InvalidValue,
            match=rf"teacher={type(teacher).__name__}: expected teachers that vote yes",
        ):
            cast_vote_file(
                replace(holder_plan(PLAN, holder=1), teacher=teacher),
                output=tmp_path / "votes.npz",
                output_dir=tmp_path / "work",
            )
    assert not any(tmp_path.iterdir())


def test_a_student_of_other_samples_or_releases_is_refused(votes: Votes, tmp_path: Path) -> None:
    """A student is refused if its queries are not the released ones, or if the privacy card was edited."""
    release(plan=release_plan(PLAN), vote_paths=votes["bits"], output_folder=tmp_path / "apart")
    data = small_dataset()
    moved = replace(data, public=replace(data.public, inputs=data.public.inputs + np.float32(1)))
    with refused_parameter("queries", value="others"):
        train_student(
            plan=replace(PLAN, load_dataset=lambda: moved), release_folder=tmp_path / "apart"
        )
    terms = json.loads((tmp_path / "apart" / "release" / "terms.json").read_text())
    file = tmp_path / "apart" / "release" / "privacy_card.md"
    file.write_text(file.read_text().replace(f"{terms['privacy']['epsilon']:.2f}", "0.10"))
    with refused_parameter("file", value=ANY, rule_words="was released"):
        train_student(PLAN, release_folder=tmp_path / "apart")


def test_the_folder_of_a_run_is_no_release_to_learn_from(tmp_path: Path) -> None:
    """A student is refused on the folder of a run, which has trained its own."""
    train(PLAN, output_dir=tmp_path / "run")
    with refused_parameter("release", value=tmp_path / "run", rule_words="is not trained again"):
        train_student(PLAN, release_folder=tmp_path / "run", output_folder=tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()
