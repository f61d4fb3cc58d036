"""Servers that are killed at each file that they write, and holders that are absent: one price, and one charge."""

import shutil
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pate.aggregators import DistributedVotes, GaussianVotes
from pate.federated import Contribution, Roll
from pate.federated.collection import FederatedRelease
from pate.federated.holder import answer, votes_path
from pate.federated.summed_release import HolderSum, Summed, SummedRelease
from pate.validation import InvalidValue
from tests.e2e.federated_run import SEED, SmallHolders, federated_plan, small_release, small_request
from tests.e2e.small_run import NUM_TEACHERS, charges, released
from tests.e2e.stages_of_run import killed_at, release_plan
from tests.e2e.test_parity import form_for, shipped

HOLDERS = 4
PLAN = federated_plan(GaussianVotes(noise_std=1.0), HOLDERS)
NOISE = DistributedVotes(noise_std=2.0, num_holders=HOLDERS, max_dropouts=1)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The holders' folders, with what they answer."""
    folder = tmp_path_factory.mktemp("homes")
    for number in range(1, HOLDERS + 1):
        plan, own = SmallHolders(folder, HOLDERS, PLAN)(str(number))
        answer(plan, small_request(), own)
    return folder


def answers(homes: Path) -> list[Contribution]:
    names = [str(number) for number in range(1, HOLDERS + 1)]
    return [Contribution(name, votes_path(small_request(), homes / name).read_bytes()) for name in names]


def test_a_server_killed_at_any_file_goes_on_with_the_same_votes_noise_and_charge(homes: Path, tmp_path: Path) -> None:
    whole = small_release(PLAN, tmp_path / "whole", HOLDERS)
    whole.run(lambda: answers(homes))
    expected, number, kills = released(tmp_path / "whole" / "release"), 0, 0
    while True:
        number += 1
        folder = tmp_path / "killed"
        go = partial(small_release(PLAN, folder, HOLDERS).run, partial(answers, homes))
        killed = [killed_at(number, go, after=after) for after in (False, True)]
        kills += sum(killed)
        go()
        assert (released(folder / "release"), len(charges(folder / "release"))) == (expected, 1)
        shutil.rmtree(folder)
        if not killed[0]:
            break
    assert kills >= 20


def test_holders_that_answer_otherwise_after_a_kill_change_nothing_once_votes_are_complete(
    homes: Path, tmp_path: Path
) -> None:
    made = small_release(PLAN, tmp_path / "whole", HOLDERS)
    made.run(lambda: answers(homes))
    expected = released(tmp_path / "whole" / "release")
    folder = tmp_path / "killed"
    made = small_release(PLAN, folder, HOLDERS, max_absent=1)
    for number in range(1, 40):
        if not killed_at(number, lambda: made.run(lambda: answers(homes)), after=True):
            break
        if (folder / "inbox" / "collected.json").exists():
            break
    assert not (folder / "release" / "release" / "release.npz").exists()
    made.run(lambda: pytest.fail("holders were asked again"))
    assert (released(folder / "release"), len(charges(folder / "release"))) == (expected, 1)


def noisy(homes: Path) -> SummedRelease:
    folder = homes.parent
    return SummedRelease(
        plan=release_plan(federated_plan(NOISE, HOLDERS, target_epsilon=None)),
        roll=Roll.numbered(HOLDERS, NUM_TEACHERS // HOLDERS, max_absent=1),
        request=small_request(),
        inbox=folder / "inbox",
        output_dir=folder / "release",
        dataset="small",
    )


def test_noise_of_holders_is_released_once_or_refused_and_charged_once(homes: Path, tmp_path: Path) -> None:
    """Whoever dies between the holders' answer and the file of their sum loses it: they answer once."""
    ended = {"released": 0, "refused": 0}
    for number in range(1, 30):
        folder = tmp_path / f"try-{number}"
        shutil.copytree(homes, folder / "homes")
        made = noisy(folder / "homes")
        go = partial(made.run, partial(summed, folder / "homes", HolderSum(made.terms, NOISE, seed=SEED)))
        if not killed_at(number, go, after=number % 2 == 0):
            break
        try:
            go()
            ended["released"] += 1
        except InvalidValue as error:
            assert "was not answered before" in str(error)
            assert not (folder / "release" / "release" / "release.npz").exists()
            ended["refused"] += 1
        assert len(charges(folder / "release")) == 1
        shutil.rmtree(folder)
    assert ended["released"] >= 5 and ended["refused"] >= 1, ended


def summed(homes: Path, own: HolderSum) -> Summed:
    """What a secure sum of all holders gives."""
    plans, total = SmallHolders(homes, HOLDERS, PLAN), np.zeros((1, 1))
    for number in range(1, HOLDERS + 1):
        plan, folder = plans(str(number))
        total = total + own.numbers(plan, small_request(), votes_path(small_request(), folder), folder)
    return total.astype(np.int64), tuple(str(number) for number in range(1, HOLDERS + 1))


def test_a_release_that_is_refused_for_absence_charges_nothing(homes: Path, tmp_path: Path) -> None:
    made: FederatedRelease = small_release(PLAN, tmp_path, HOLDERS)
    with pytest.raises(InvalidValue, match="absent holders=1: expected at most max_absent=0"):
        made.run(lambda: answers(homes)[1:])
    assert not charges(tmp_path / "release")
    made.run(lambda: answers(homes))
    assert len(charges(tmp_path / "release")) == 1


@pytest.mark.parametrize(
    "name", ["gaussian_votes", "gnmax", "powerset_gnmax", "centered_votes", "stable_top_k_not_prior"]
)
def test_a_release_with_a_holder_absent_costs_what_it_costs_with_all(
    name: str, votes: dict[str, list[Path]], tmp_path: Path
) -> None:
    """At the price and for the T that hold when all are present."""
    aggregator, terms = shipped(name), []
    form = form_for(aggregator)
    sent = [Contribution(path.stem, path.read_bytes()) for path in votes[form]]
    asked = {"cast": "confidences"} if form == "confidences" else {}
    for count in (HOLDERS, HOLDERS - 1):
        made = small_release(federated_plan(aggregator, HOLDERS), tmp_path / str(count), HOLDERS, max_absent=1, **asked)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            terms.append(made.run(lambda count=count: sent[:count]))
    assert terms[0].privacy == terms[1].privacy
    assert terms[0].num_teachers == terms[1].num_teachers == NUM_TEACHERS
    assert terms[0].release.num_queries == terms[1].release.num_queries
