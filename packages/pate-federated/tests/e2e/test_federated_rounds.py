"""Holders in this process give the release of `pate-train`, also if the server is killed; absences change no price."""

import shutil
import warnings
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from pate.aggregators import GaussianVotes
from pate.errors import InvalidValue
from pate.files.paths import make_folder
from pate.models import ConvexTeacher, KernelTeacher, SequentialEngine
from pate.run.plan import Plan
from pate_federated import Contribution, Question, Roll, RoundsOfHolders, answer_question
from pate_federated.distributed_votes import DistributedVotes
from pate_federated.holder import answer_request, votes_path
from pate_federated.holder_sum import HolderSum
from pate_federated.sum_file import Summed
from pate_federated.vote_casting import HolderPlan
from small_federation.exchange import (
    Exchanges,
    SmallHolders,
    SpoilAnswer,
    rounds_plan,
    small_release,
    small_request,
    small_rounds,
    summed_release,
)
from small_federation.stages import Votes, killed_at, require_the_same, train_student
from tests.e2e.shipped_aggregators import form_for, shipped_aggregator
from tests.e2e.small_run import (
    NUM_HOLDERS,
    NUM_TEACHERS,
    SEED,
    SilentMonitor,
    charges_beside,
    release_bytes_of_run,
    run_until,
    run_until_released,
    seeded_plan,
    small_dataset,
)
from tests.refusals import Refusal, refused_parameter


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a run of `train` in rounds, stopped after its student is trained."""
    folder = tmp_path_factory.mktemp("train") / "train"
    run_until(rounds_plan(), folder, stage="training the majority")
    return folder


def server_and_exchange(
    folder: Path,
    plan: Plan | None = None,
    *,
    spoil_answer: SpoilAnswer | None = None,
    max_absent: int = 0,
) -> tuple[RoundsOfHolders, Exchanges]:
    """Returns a server in a folder, and its exchange of questions and answers with holders.

    Teachers that are in the folder are not trained again.

    Args:
        folder: the folder of the server and the holders.
        plan: the settings of the run; None for `rounds_plan()`.
        spoil_answer: replaces answers of holders; None replaces no answer.
        max_absent: the number of holders that may be absent.
    """
    run_plan = plan or rounds_plan()
    release = small_rounds(run_plan, folder=folder, max_absent=max_absent)
    holders = SmallHolders(folder / "holders", num_holders=NUM_HOLDERS, plan=run_plan)
    return release, Exchanges(plan_and_folder_of=holders, roll=release.roll, spoil=spoil_answer)


def test_rounds_of_holders_give_the_release_of_pate_train(whole: Path, tmp_path: Path) -> None:
    """Rounds of four holders, with linear or kernel teachers, give the same release as `train`, with one charge."""
    release, exchange = server_and_exchange(tmp_path)
    release.run(exchange=exchange, monitor=SilentMonitor())
    assert len(charges_beside(tmp_path / "release")) == 1  # for the prevalence and all rounds
    train_student(rounds_plan(), release_folder=tmp_path / "release")
    require_the_same(train=whole, apart=tmp_path / "release")
    kernel_plan = replace(rounds_plan(), teacher=KernelTeacher())
    release, exchange = server_and_exchange(tmp_path / "kernel", plan=kernel_plan)
    release.run(exchange=exchange)
    train_folder = tmp_path / "whole" / "train"
    assert release_bytes_of_run(tmp_path / "kernel" / "release") == run_until_released(
        kernel_plan, folder=train_folder
    )


def test_each_group_of_a_holder_may_be_a_teacher(tmp_path: Path) -> None:
    """If each of the 480 records at each of two holders is a teacher, over 85% of the released labels are right.

    A server that expects 12 teachers of a holder refuses its 480.
    """
    plan = replace(rounds_plan(), teacher=KernelTeacher(), num_teachers=None, target_epsilon=3.0)
    dataset = small_dataset()
    shares = {"north": slice(0, 480), "south": slice(480, 960)}

    def plan_and_folder_of(holder: str) -> tuple[HolderPlan, Path]:
        holder_plan = HolderPlan(
            load_dataset=lambda: replace(dataset, private=dataset.private.take(shares[holder])),
            teacher=KernelTeacher(),
            num_teachers=None,
            engine=SequentialEngine(),
            holder=holder,
            settings={"holder": holder},
        )
        make_folder(tmp_path / holder)
        return holder_plan, tmp_path / holder

    release = replace(
        small_rounds(plan, folder=tmp_path),
        roll=Roll(holders={"north": 480, "south": 480}, max_absent=0),
    )
    terms = release.run(
        exchange=Exchanges(plan_and_folder_of=plan_and_folder_of, roll=release.roll)
    )
    assert terms.num_teachers == 960
    with np.load(tmp_path / "release" / "release" / "release.npz") as arrays:
        labels = dataset.public.labels[: len(arrays["labels"])]
        assert (arrays["labels"] == labels).mean() > 0.85
    uneven_release = replace(
        small_rounds(plan, folder=tmp_path / "few"),
        roll=Roll(holders={"north": 480, "south": 12}, max_absent=0),
    )
    with refused_parameter("absent holders", value=1, rule_words="num_teachers=480: expected 12"):
        uneven_release.run(
            exchange=Exchanges(plan_and_folder_of=plan_and_folder_of, roll=uneven_release.roll)
        )


@pytest.mark.parametrize(
    ("plan", "refusal"),
    [
        (
            seeded_plan(GaussianVotes(noise_std=1.0)),
            refused_parameter("aggregator", rule_words="centered_votes in"),
        ),
        (
            replace(rounds_plan(), holders=None, teacher=ConvexTeacher()),
            refused_parameter("absent holders", value=4, rule_words="teacher=ConvexTeacher"),
        ),
        (
            replace(rounds_plan(), holders=None, teacher=KernelTeacher(nonlinear=True)),
            refused_parameter("absent holders", value=4, rule_words="teacher.nonlinear=true"),
        ),
    ],
)
def test_unsupported_settings_of_rounds_are_refused_before_the_charge(
    plan: Plan, refusal: Refusal, tmp_path: Path
) -> None:
    """An aggregator or a teacher that cannot be used in rounds of holders is refused, and nothing is charged."""
    release, exchange = server_and_exchange(tmp_path, plan)
    with refusal:
        release.run(exchange=exchange)
    assert not charges_beside(tmp_path / "release")


def test_interrupted_server_releases_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    """A server killed at any of several files and run again makes the same release as `train`, with one charge."""
    killed = 0
    (_, exchange) = server_and_exchange(tmp_path)
    for number in range(3, 60, 7):
        release, _ = server_and_exchange(tmp_path / str(number))
        killed += killed_at(
            file_number=number, task=partial(release.run, exchange), after=bool(number % 2)
        )
        release.run(exchange=exchange)
        assert release_bytes_of_run(release.output_dir) == release_bytes_of_run(whole)
        assert len(charges_beside(release.output_dir)) == 1
    assert killed >= 3


def fail_from_second_question(kind: str, holder: str) -> SpoilAnswer:
    """Returns a function that makes one holder fail from the second question of a kind on.

    Args:
        kind: the kind of the questions.
        holder: the name of the holder.
    """
    digests: list[str] = []

    def fail_or_answer(question: Question, name: str) -> Contribution | None:
        if question.kind != kind or name != holder:
            return None
        digests.append(question.digest)
        return (
            Contribution(holder=name, problem="its app failed (RuntimeError)")
            if len(set(digests)) > 1
            else None
        )

    return fail_or_answer


def test_holder_that_fails_between_rounds_is_left_out_of_the_sum_at_the_same_price(
    whole: Path, tmp_path: Path
) -> None:
    """If holder 3 of 4 fails in the second round, and one absence is allowed, that round sums the other three.

    Price and number of teachers are those of all holders.
    """
    monitor = SilentMonitor()
    (release, exchange) = server_and_exchange(
        tmp_path, spoil_answer=fail_from_second_question(kind="moments", holder="3"), max_absent=1
    )
    terms = release.run(exchange=exchange, monitor=monitor)
    assert "holder=3: its app failed (RuntimeError)" in monitor.lines
    present = [
        sorted(np.load(path)["holders"].tolist()) for path in release.inbox.glob("moments-*.npz")
    ]
    assert sorted(present) == [["1", "2", "3", "4"], ["1", "2", "4"]]
    # the second round had fewer teachers in it
    assert release_bytes_of_run(tmp_path / "release") != release_bytes_of_run(whole)
    assert (
        charges_beside(tmp_path / "release")[0]["epsilon"]
        == charges_beside(whole)[0]["epsilon"]
        <= terms.privacy.epsilon
    )
    assert terms.num_teachers == 24


def test_holder_absent_at_the_opening_may_answer_later_rounds(tmp_path: Path) -> None:
    """A holder that answers the opening question too late counts as absent there, and is in all five later sums."""

    def answer_late(question: Question, holder: str) -> Contribution | None:
        if holder != "2" or question.kind != "opening":
            return None
        plan, folder = exchange.plan_and_folder_of(holder)
        answer_question(plan, question=question, folder=folder)
        return Contribution(holder=holder, problem="no answer within 5 s")

    release, exchange = server_and_exchange(tmp_path, spoil_answer=answer_late, max_absent=1)
    release.run(exchange=exchange)
    present = [sorted(np.load(path)["holders"].tolist()) for path in release.inbox.glob("*-*.npz")]
    assert present == [["1", "2", "3", "4"]] * 5


@pytest.mark.parametrize("moments_are_lost", [False, True])
def test_round_with_too_many_absences_is_asked_again(
    moments_are_lost: bool, whole: Path, tmp_path: Path
) -> None:
    """If a holder fails in the second round and no absence is allowed, the run is refused after its charge.

    A second run asks only for that round, and makes the same release as `train` without another charge. If the file
    with the sum of the first round is lost, the noisy sum is read from the ledger. If the whole inbox is lost, the
    folder is refused.
    """
    release, exchange = server_and_exchange(
        tmp_path, spoil_answer=fail_from_second_question(kind="moments", holder="3")
    )
    with refused_parameter("absent holders", value=1, rule_words="holder=3:"):
        release.run(exchange=exchange)
    assert len(charges_beside(tmp_path / "release")) == 1  # and nothing is published
    assert not (tmp_path / "release" / "release" / "release.npz").exists()
    for path in release.inbox.glob("moments-*.npz") if moments_are_lost else ():
        path.unlink()
    _, again = server_and_exchange(tmp_path)
    release.run(again)
    assert again.asked == ["moments"]
    assert release_bytes_of_run(tmp_path / "release") == release_bytes_of_run(whole)
    assert len(charges_beside(tmp_path / "release")) == 1
    (tmp_path / "release" / "manifest.json").unlink()
    shutil.rmtree(release.inbox)
    with refused_parameter("data", value="another"):
        release.run(again)


PLAN = seeded_plan(GaussianVotes(noise_std=1.0))
HOLDER_NAMES = [str(number) for number in range(1, NUM_HOLDERS + 1)]
DISTRIBUTED_VOTES = DistributedVotes(noise_std=2.0, num_holders=NUM_HOLDERS, max_dropouts=1)


@pytest.fixture(scope="module")
def homes_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a folder for each of four holders, which has its vote file."""
    folder = tmp_path_factory.mktemp("homes")
    for holder in HOLDER_NAMES:
        plan, home = SmallHolders(folder, num_holders=NUM_HOLDERS, plan=PLAN)(holder)
        answer_request(plan, request=small_request(), folder=home)
    return folder


def answers(homes_folder: Path) -> list[Contribution]:
    """Returns the contributions of all four holders, which are their vote files."""
    return [
        Contribution(
            holder=name,
            votes=votes_path(small_request(), holder_folder=homes_folder / name).read_bytes(),
        )
        for name in HOLDER_NAMES
    ]


@pytest.fixture(scope="module")
def expected(homes_folder: Path) -> bytes:
    """Returns the bytes of the release that an undisturbed server makes of these votes."""
    small_release(PLAN, folder=homes_folder.parent / "whole").run(lambda: answers(homes_folder))
    return release_bytes_of_run(homes_folder.parent / "whole" / "release")


def test_server_interrupted_at_any_file_makes_the_same_release(
    homes_folder: Path, expected: bytes, tmp_path: Path
) -> None:
    """A server that is killed at any file it writes, and run again, makes the release of an undisturbed one.

    The server is killed before a file and, in a second run, after the file of the same number. The ledger has one
    charge.
    """
    kills = 0
    folder = tmp_path / "killed"
    for number in count(1):
        run_release = partial(small_release(PLAN, folder).run, partial(answers, homes_folder))
        killed = [
            killed_at(file_number=number, task=run_release, after=after) for after in (False, True)
        ]
        kills += sum(killed)
        run_release()
        assert (
            release_bytes_of_run(folder / "release"),
            len(charges_beside(folder / "release")),
        ) == (
            expected,
            1,
        )
        shutil.rmtree(folder)
        if not killed[0]:
            break
    assert kills >= 20


def test_complete_votes_are_not_asked_for_again(
    homes_folder: Path, expected: bytes, tmp_path: Path
) -> None:
    """A server that is killed between the collection of all votes and the release then asks no holder again.

    The release is the same, with one charge.
    """
    folder = tmp_path / "killed"
    release = small_release(PLAN, folder, max_absent=1)
    for number in range(1, 40):
        if not killed_at(
            file_number=number, task=lambda: release.run(lambda: answers(homes_folder)), after=True
        ):
            break
        if (folder / "inbox" / "collected.json").exists():
            break
    assert not (folder / "release" / "release" / "release.npz").exists()
    release.run(lambda: pytest.fail("holders were asked again"))
    assert (release_bytes_of_run(folder / "release"), len(charges_beside(folder / "release"))) == (
        expected,
        1,
    )


def test_noise_of_holders_is_released_once_or_refused_and_charged_once(
    homes_folder: Path, tmp_path: Path
) -> None:
    """A server of noisy sums that is killed at any file and run again releases or refuses, with one charge.

    The server refuses if holders had answered and the sum was not yet written, as holders answer only once.
    """
    ended = {"released": 0, "refused": 0}
    for number in range(1, 30):
        folder = tmp_path / f"try-{number}"
        shutil.copytree(homes_folder, folder / "homes")
        release = summed_release(
            replace(seeded_plan(DISTRIBUTED_VOTES), target_epsilon=None), folder
        )
        run_release = partial(
            release.run,
            partial(
                summed,
                folder / "homes",
                HolderSum(release.terms, noise=DISTRIBUTED_VOTES, seed=SEED),
            ),
        )
        if not killed_at(file_number=number, task=run_release, after=number % 2 == 0):
            break
        try:
            run_release()
            ended["released"] += 1
        except InvalidValue as error:
            assert "was not answered before" in str(error)
            assert not (folder / "release" / "release" / "release.npz").exists()
            ended["refused"] += 1
        assert len(charges_beside(folder / "release")) == 1
        shutil.rmtree(folder)
    assert ended["released"] >= 5 and ended["refused"] >= 1, ended


def summed(homes_folder: Path, holder_side: HolderSum) -> Summed:
    """Adds up the numbers of all four holders without masks, and returns the sum and the holders' names.

    Args:
        homes_folder: the folder of the holders' folders.
        holder_side: computes the numbers of one holder.
    """
    small_holders = SmallHolders(homes_folder, num_holders=NUM_HOLDERS, plan=PLAN)
    total = np.zeros((1, 1))
    for holder in HOLDER_NAMES:
        plan, folder = small_holders(holder)
        total = total + holder_side.numbers(
            plan, small_request(), vote_path=votes_path(small_request(), folder), folder=folder
        )
    return total.astype(np.int64), tuple(HOLDER_NAMES)


def test_release_refused_for_absences_charges_nothing(homes_folder: Path, tmp_path: Path) -> None:
    """If one of four holders is absent and no absence is allowed, the release is refused and nothing is charged.

    Once all holders answer, it is released and charged once.
    """
    release = small_release(PLAN, folder=tmp_path)
    with refused_parameter("absent holders", value=1):
        release.run(lambda: answers(homes_folder)[1:])
    assert not charges_beside(tmp_path / "release")
    release.run(lambda: answers(homes_folder))
    assert len(charges_beside(tmp_path / "release")) == 1


@pytest.mark.parametrize(
    "name",
    ["gaussian_votes", "gnmax", "powerset_gnmax", "centered_votes", "stable_top_k_not_prior"],
)
def test_absent_holder_does_not_change_the_price(name: str, votes: Votes, tmp_path: Path) -> None:
    """If a holder is absent, the price of a release and its numbers of teachers and queries do not change.

    Five aggregators are tried.
    """
    aggregator = shipped_aggregator(name)
    terms = []
    form = form_for(aggregator)
    sent = [Contribution(holder=path.stem, votes=path.read_bytes()) for path in votes[form]]
    cast = "confidences" if form == "confidences" else "bits"
    for num_present in (NUM_HOLDERS, NUM_HOLDERS - 1):
        served = small_release(
            seeded_plan(aggregator), folder=tmp_path / str(num_present), max_absent=1
        )
        release = replace(served, request=replace(small_request(), cast=cast))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            terms.append(release.run(lambda num_present=num_present: sent[:num_present]))
    assert terms[0].privacy == terms[1].privacy
    assert terms[0].num_teachers == terms[1].num_teachers == NUM_TEACHERS
    assert terms[0].release.num_queries == terms[1].release.num_queries
