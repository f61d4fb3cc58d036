"""Servers that are killed at each file that they write, and holders that are absent: one price, and one charge."""

import shutil
import warnings
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from pate.aggregators import DistributedVotes, GaussianVotes
from pate.federated import Contribution
from pate.federated.holder import answer, votes_path
from pate.federated.summed_release import HolderSum, Summed
from pate.validation import InvalidValue
from tests.e2e.federated_run import SmallHolders, small_release, small_request, summed_release
from tests.e2e.small_run import NUM_TEACHERS, charges, released
from tests.e2e.stages_of_run import HOLDERS, SEED, Votes, killed_at, seeded_plan
from tests.e2e.test_parity import form_for, shipped

PLAN = seeded_plan(GaussianVotes(noise_std=1.0))
NAMES = [str(number) for number in range(1, HOLDERS + 1)]
NOISE = DistributedVotes(noise_std=2.0, num_holders=HOLDERS, max_dropouts=1)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The holders' folders, with what they answer."""
    folder = tmp_path_factory.mktemp("homes")
    for name in NAMES:
        plan, own = SmallHolders(folder, HOLDERS, PLAN)(name)
        answer(plan, small_request(), own)
    return folder


def answers(homes: Path) -> list[Contribution]:
    return [Contribution(name, votes_path(small_request(), homes / name).read_bytes()) for name in NAMES]


@pytest.fixture(scope="module")
def expected(homes: Path) -> bytes:
    """What is released if nobody dies."""
    small_release(PLAN, homes.parent / "whole").run(lambda: answers(homes))
    return released(homes.parent / "whole" / "release")


def test_a_server_killed_at_any_file_goes_on_to_the_same(homes: Path, expected: bytes, tmp_path: Path) -> None:
    kills, folder = 0, tmp_path / "killed"
    for number in count(1):
        go = partial(small_release(PLAN, folder).run, partial(answers, homes))
        killed = [killed_at(number, go, after=after) for after in (False, True)]
        kills += sum(killed)
        go()
        assert (released(folder / "release"), len(charges(folder / "release"))) == (expected, 1)
        shutil.rmtree(folder)
        if not killed[0]:
            break
    assert kills >= 20


def test_once_votes_are_complete_nobody_is_asked_again(homes: Path, expected: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    made = small_release(PLAN, folder, max_absent=1)
    for number in range(1, 40):
        if not killed_at(number, lambda: made.run(lambda: answers(homes)), after=True):
            break
        if (folder / "inbox" / "collected.json").exists():
            break
    assert not (folder / "release" / "release" / "release.npz").exists()
    made.run(lambda: pytest.fail("holders were asked again"))
    assert (released(folder / "release"), len(charges(folder / "release"))) == (expected, 1)


def test_noise_of_holders_is_released_once_or_refused_and_charged_once(homes: Path, tmp_path: Path) -> None:
    """Whoever dies between the holders' answer and the file of their sum loses it: they answer once."""
    ended = {"released": 0, "refused": 0}
    for number in range(1, 30):
        folder = tmp_path / f"try-{number}"
        shutil.copytree(homes, folder / "homes")
        made = summed_release(seeded_plan(NOISE, target_epsilon=None), folder)
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
    for name in NAMES:
        plan, folder = plans(name)
        total = total + own.numbers(plan, small_request(), votes_path(small_request(), folder), folder)
    return total.astype(np.int64), tuple(NAMES)


def test_a_release_that_is_refused_for_absence_charges_nothing(homes: Path, tmp_path: Path) -> None:
    made = small_release(PLAN, tmp_path)
    with pytest.raises(InvalidValue, match="absent holders=1: expected at most max_absent=0"):
        made.run(lambda: answers(homes)[1:])
    assert not charges(tmp_path / "release")
    made.run(lambda: answers(homes))
    assert len(charges(tmp_path / "release")) == 1


@pytest.mark.parametrize(
    "name", ["gaussian_votes", "gnmax", "powerset_gnmax", "centered_votes", "stable_top_k_not_prior"]
)
def test_a_holder_that_is_absent_changes_no_price(name: str, votes: Votes, tmp_path: Path) -> None:
    """At the price and for the T that hold when all are present."""
    aggregator, terms = shipped(name), []
    form = form_for(aggregator)
    sent = [Contribution(path.stem, path.read_bytes()) for path in votes[form]]
    asked = {"cast": "confidences"} if form == "confidences" else {}
    for present in (HOLDERS, HOLDERS - 1):
        made = small_release(seeded_plan(aggregator), tmp_path / str(present), max_absent=1, **asked)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            terms.append(made.run(lambda present=present: sent[:present]))
    assert terms[0].privacy == terms[1].privacy
    assert terms[0].num_teachers == terms[1].num_teachers == NUM_TEACHERS
    assert terms[0].release.num_queries == terms[1].release.num_queries
