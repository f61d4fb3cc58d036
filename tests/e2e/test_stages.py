"""The stages apart give what they give together: byte for byte, also when they are killed."""

import json
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pate
from pate.accounting import Ledger, RdpAccountant, SharedLedger
from pate.aggregators import Aggregator, CenteredVotes, GaussianVotes
from pate.pipeline import train
from pate.run.plan import Plan
from pate.run.stages.holder import cast_vote_file
from pate.run.stages.release import Terms
from pate.teachers import ConvexTeacher, KernelTeacher, SequentialEngine
from pate.validation import InvalidValue
from pate.votes.vote_file import VoteFile
from tests.e2e.small_run import NUM_TEACHERS, SilentMonitor, charges, released, small_dataset, small_plan, stopped
from tests.e2e.stages_of_run import (
    HOLDERS,
    SEED,
    after_kills,
    cast,
    contents,
    holder_plan,
    release,
    release_plan,
    student,
)
from tests.e2e.test_parity import require_the_same_apart, shipped

EPSILON = 50.0


def plan_of(aggregator: Aggregator, **changes: Any) -> Plan:
    shared: dict[str, Any] = {"aggregator": aggregator, "target_epsilon": EPSILON, "target_delta": 1e-5, "seed": SEED}
    return small_plan(**(shared | {"engine": SequentialEngine(), "holders": HOLDERS} | changes))


def test_votes_that_are_clipped_where_they_are_cast_are_the_same(votes: dict[str, list[Path]], tmp_path: Path) -> None:
    plan = plan_of(replace(shipped("clipped_votes"), norm="l1"))
    stopped(plan, tmp_path / "train", "training the majority")
    require_the_same_apart(plan, votes, tmp_path)


def test_all_of_what_is_published_is_the_same(votes: dict[str, list[Path]], tmp_path: Path) -> None:
    plan = plan_of(GaussianVotes(noise_std=1.0), public_settings=lambda _: "name: small\n")
    train(plan, tmp_path / "whole", SilentMonitor())
    told = {"public_settings": lambda *_, **__: "name: small\n"}
    release(release_plan(plan, **told), votes["bits"], tmp_path / "apart")
    assert (tmp_path / "apart" / "release" / "terms.json").exists()
    student(plan, tmp_path / "apart")
    assert contents(tmp_path / "whole" / "release") == contents(tmp_path / "apart" / "release")
    card = (tmp_path / "apart" / "release" / "privacy_card.md").read_text()
    assert f"from {HOLDERS} holders of records, each of which has up to {NUM_TEACHERS // HOLDERS} teachers" in card
    assert pate.load(tmp_path / "apart" / "release").labels == small_dataset().label_names


def test_a_student_from_the_folder_alone_and_in_a_folder_of_its_own(
    votes: dict[str, list[Path]], tmp_path: Path
) -> None:
    plan = plan_of(GaussianVotes(noise_std=1.0))
    release(release_plan(plan), votes["bits"], tmp_path / "apart")
    before = contents(tmp_path / "apart")
    sent = Path(shutil.copytree(tmp_path / "apart" / "release", tmp_path / "sent"))
    with pytest.raises(InvalidValue, match=r"^release=.*: expected a student in it: pate-student release="):
        pate.load(sent)
    student(plan, sent, tmp_path / "model")
    student(plan, tmp_path / "apart", tmp_path / "again")
    assert contents(tmp_path / "apart") == before
    assert contents(tmp_path / "model") == contents(tmp_path / "again")
    (tmp_path / "outside").mkdir()
    for place, output in ((tmp_path / "apart" / "release", None), (tmp_path / "other", tmp_path / "other")):
        place.mkdir(exist_ok=True)
        (place / "student").symlink_to(tmp_path / "outside")
        with pytest.raises(InvalidValue, match=r"expected no links in it, found (release/)?student; remove that$"):
            student(plan, tmp_path / "apart", output)
        (place / "student").unlink()
    assert not any((tmp_path / "outside").iterdir())
    student(plan, tmp_path / "apart")
    assert contents(tmp_path / "model") == contents(tmp_path / "apart" / "release")
    again = SilentMonitor()
    release(release_plan(plan), votes["bits"], tmp_path / "apart", again)  # with a student beside it
    assert again.lines == [
        f"output_dir={tmp_path / 'apart'}: this release is finished; nothing was drawn or spent again"
    ]
    student(plan, tmp_path / "apart")
    assert contents(tmp_path / "model") == contents(tmp_path / "apart" / "release")


def test_a_vote_file_is_its_owner_s_alone_and_says_nothing_of_the_records(votes: dict[str, list[Path]]) -> None:
    path = votes["bits"][2]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    head = VoteFile.open(path).manifest
    assert (head.holder, head.num_teachers, head.num_records) == ("3", NUM_TEACHERS // HOLDERS, 240)
    private = small_dataset().private_digest()
    assert private not in head.to_text()
    assert {file.manifest.queries for file in map(VoteFile.open, votes["bits"])} == {head.queries}


def test_a_real_holder_deals_its_own_records(tmp_path: Path) -> None:
    plan = plan_of(GaussianVotes(noise_std=1.0))
    own = replace(holder_plan(plan, 1), holder="hospital", holders=None, seed=None)
    path = cast(own, tmp_path)
    head = VoteFile.open(path).manifest
    assert (head.holder, head.num_groups) == ("hospital", 960)
    first = path.read_bytes()
    path.unlink()
    with pytest.raises(InvalidValue, match=r"output_dir=.*: expected a new folder or this run's own"):
        cast(replace(own, settings={"name": "another"}), tmp_path)
    (tmp_path / "hospital.work" / "cast.sha256").unlink()
    assert cast(own, tmp_path).read_bytes() == first


def test_a_killed_holder_goes_on_to_the_same_votes(votes: dict[str, list[Path]], tmp_path: Path) -> None:
    plan, kills = holder_plan(plan_of(GaussianVotes(noise_std=1.0)), 2), 0
    for folder in after_kills(tmp_path, lambda folder: cast(plan, folder)):
        assert cast(plan, folder).read_bytes() == votes["bits"][1].read_bytes()
        assert not list(folder.rglob("*.partial"))
        kills += 1
    assert kills > 8


@pytest.mark.parametrize("seed", [SEED, None])
def test_a_killed_release_is_drawn_once_and_charged_once(
    seed: int | None, votes: dict[str, list[Path]], tmp_path: Path
) -> None:
    plan, results = plan_of(GaussianVotes(noise_std=1.0), seed=seed), []

    def ours(folder: Path) -> Terms:
        return release(release_plan(plan, ledger=folder.with_suffix(".db")), votes["bits"], folder)

    for folder in after_kills(tmp_path, ours):
        before = released(folder) if (folder / "release" / "release.npz").exists() else None
        ours(folder)
        results.append(released(folder))
        assert before in (None, results[-1])
        assert len(charges(folder)) == len(SharedLedger.stored(folder.with_suffix(".db")).entries) == 1
        student(plan, folder)
        assert not (folder / "release" / "terms.json").exists()
    assert len(results) > 8
    assert seed is None or len(set(results)) == 1


def test_a_killed_student_is_trained_to_the_same_bytes(votes: dict[str, list[Path]], tmp_path: Path) -> None:
    plan = plan_of(GaussianVotes(noise_std=1.0))
    release(release_plan(plan), votes["bits"], tmp_path / "apart")
    wanted = Path(shutil.copytree(tmp_path / "apart", tmp_path / "wanted"))
    student(plan, wanted)

    def copied(folder: Path) -> None:
        student(plan, Path(shutil.copytree(tmp_path / "apart", folder)))

    kills = 0
    for folder in after_kills(tmp_path, copied):
        student(plan, folder)
        assert contents(folder / "release") == contents(wanted / "release")
        kills += 1
    assert kills > 4


def test_one_ledger_holds_all_releases_of_the_holders_and_its_cap(votes: dict[str, list[Path]], tmp_path: Path) -> None:
    plan, ledger = plan_of(GaussianVotes(noise_std=1.0), target_epsilon=5.0), tmp_path / "ledger.db"
    release(release_plan(plan), votes["bits"], tmp_path / "first")
    for _ in range(2):  # the first call charges the ledger for what is finished
        release(release_plan(plan, ledger=ledger, max_total_epsilon=6.0), votes["bits"], tmp_path / "first")
    other = release_plan(plan, ledger=ledger, max_total_epsilon=6.0, seed=7)
    with pytest.raises(InvalidValue, match=r"max_total_epsilon=6: expected room for this release"):
        release(other, votes["bits"][:3], tmp_path / "second")  # some of the holders
    assert len(SharedLedger.stored(ledger).entries) == 1
    assert not (tmp_path / "second").exists()


def test_a_ledger_of_other_data_is_refused(votes: dict[str, list[Path]], tmp_path: Path) -> None:
    plan, ledger = plan_of(GaussianVotes(noise_std=1.0)), tmp_path / "ledger.db"
    SharedLedger(ledger, target_delta=1e-5, accountant=RdpAccountant).account("others").charge(
        plan.aggregator.event_for(num_queries=1, num_labels=1, num_teachers=1), adjacency="replace_one", key="x"
    )
    with pytest.raises(InvalidValue, match=r"ledger=.*: expected a new file, or the ledger of releases of small"):
        release(release_plan(plan, ledger=ledger), votes["bits"], tmp_path / "apart")
    assert not (tmp_path / "apart").exists()
    assert len(SharedLedger.stored(ledger).entries) == 1


def test_a_folder_of_other_votes_is_refused(votes: dict[str, list[Path]], tmp_path: Path) -> None:
    plan = plan_of(GaussianVotes(noise_std=1.0), target_epsilon=None)
    release(release_plan(plan), votes["bits"][:2], tmp_path)
    with pytest.raises(InvalidValue, match=r"(data|release)=another: expected the (data|release) that this run began"):
        release(release_plan(plan), votes["bits"], tmp_path)
    with pytest.raises(InvalidValue, match=r"data=another: expected the data that this run began"):
        release(release_plan(plan), votes["bits"][2:], tmp_path)
    assert Ledger.stored(tmp_path / "ledger.db").epsilon > 0
    assert len(charges(tmp_path)) == 1


def test_rounds_name_the_ways_that_there_are(votes: dict[str, list[Path]], tmp_path: Path) -> None:
    plan = plan_of(CenteredVotes(noise_multiplier=1.0, rounds=3))
    with pytest.raises(InvalidValue, match=r"aggregator\.rounds: expected aggregator\.rounds=1.*pate\.federated"):
        release(release_plan(plan), votes["confidences"], tmp_path / "apart")
    plan = plan_of(CenteredVotes(noise_multiplier=1.0))
    with pytest.raises(InvalidValue, match=r"cast=bits: expected vote files of pate-vote cast=confidences.*share=0"):
        release(release_plan(plan), votes["bits"], tmp_path / "apart")
    assert not (tmp_path / "apart").exists()


def test_teachers_without_bits_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    plan = plan_of(GaussianVotes(noise_std=1.0))
    for teacher in (KernelTeacher(), ConvexTeacher()):
        with pytest.raises(InvalidValue, match=rf"teacher={type(teacher).__name__}: expected teachers that vote yes"):
            cast_vote_file(holder_plan(plan, 1, teacher=teacher), tmp_path / "votes.npz", tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_a_prior_needs_the_queries_that_were_asked(votes: dict[str, list[Path]], tmp_path: Path) -> None:
    plan = plan_of(shipped("stable_top_k_not_prior"))
    with pytest.raises(InvalidValue, match=r"queries=None: expected the public samples that were asked"):
        release(release_plan(plan, queries=None), votes["bits"], tmp_path / "apart")


def test_a_student_of_other_samples_or_an_altered_release_is_refused(
    votes: dict[str, list[Path]], tmp_path: Path
) -> None:
    plan = plan_of(GaussianVotes(noise_std=1.0))
    release(release_plan(plan), votes["bits"], tmp_path / "apart")

    def moved() -> Any:
        data = small_dataset()
        inputs = data.public.inputs + np.float32(1)
        return type(data)(**{**vars(data), "public": type(data.public)(**{**vars(data.public), "inputs": inputs})})

    with pytest.raises(InvalidValue, match=r"queries=others: expected those that the teachers answered"):
        student(plan_of(plan.aggregator, load_dataset=moved), tmp_path / "apart")
    terms = json.loads((tmp_path / "apart" / "release" / "terms.json").read_text())
    file = tmp_path / "apart" / "release" / "privacy_card.md"
    file.write_text(file.read_text().replace(f"{terms['privacy']['epsilon']:.2f}", "0.10"))
    with pytest.raises(InvalidValue, match=r"privacy_card\.md: expected the file as it was released"):
        student(plan, tmp_path / "apart")
    with pytest.raises(InvalidValue, match=r"release=.*nowhere: expected the folder that pate-release wrote"):
        student(plan, tmp_path / "nowhere")
