"""A tuned release: the best of a secret number of runs with settings that compete, at a price fixed before the first.

    1. price      The noise of one run is solved, so that the best of all runs costs `target_epsilon`.
    2. charge     The ledger is charged, for the private records and for the test records, before anything is trained.
                  The secret choices (how many runs, and with which settings) are committed with the charge.
    3. run        Each choice is a whole run in a folder of its own, whose scores on the test records are priced.
    4. publish    The run with the best priced micro-F1 becomes `release/`. All other runs are removed.

The number of runs, the other runs and all scores but the winner's are secret, and so is the time that the runs take.
A call that was stopped goes on with the same choices (docs/proofs/tuning.md).
"""

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from pate.accounting import (
    Adjacency,
    Budget,
    Event,
    GaussianEvent,
    NoOpEvent,
    ScoresEvent,
    TruncatedNegativeBinomial,
    calibrate,
    tuning_event,
)
from pate.accounting.event_tree import count_leaves
from pate.data.dataset import require_dataset
from pate.errors import shown_as
from pate.files.atomic import atomic_write
from pate.files.digests import digest, file_digest
from pate.files.paths import make_folder
from pate.files.reading import FROM_BACKUP
from pate.pricing import PricedRelease
from pate.pricing.tuned_price import epsilon_of_one_run
from pate.progress import Monitor
from pate.report import Report
from pate.run.charging import RunCharge, require_entered
from pate.run.folder import RunFolder
from pate.run.plan import Plan, price
from pate.run.random_streams import RandomStreams
from pate.run.score_release import ScorePrice
from pate.run.train import train
from pate.run.tuned_runs import TunedRuns
from pate.setting_names import TRAIN
from pate.threads import all_cores
from pate.validation import InvalidValue, require

_CHOICES = "choices"  # the part of the draw that holds the secret choices
_WRITTEN = "written"  # as of every run: the digest of the release's file
# by the table of docs/how-to/tune-settings.md
_LARGEST_TRIED = 8.0
_DOES_NOT_PAY = (
    "tune=true: on eight data sets the default won against a tuning at the same epsilon in 28 of 32 cases, up to "
    "epsilon 1 in 15 of 16 (docs/how-to/tune-settings.md)"
)
_LESS_EPSILON = 1 - 1e-6  # of one run's scores, whose noise is at least the charged noise


@all_cores()
@shown_as(TRAIN)
def tune(
    plans: Sequence[Plan],
    output_dir: str | PathLike[str],
    *,
    distribution: TruncatedNegativeBinomial,
    monitor: Monitor | None = None,
) -> Report:
    """Publishes the best of a secret number of runs with settings that compete, and returns its report.

    The private records are charged `target_epsilon` in all, and the test records `score_epsilon`, whatever the number
    of settings and of runs. Both are charged before the first run. A finished tuning is not repeated.

    Private: everything but `release/`. The number of runs, the other runs and their scores are in the owner's folder
    alone, until the best run is known; then they are removed. How long the function takes depends on the number of
    runs, so its running time is private, too.

    Args:
        plans: the runs that compete, at least two, in the order that breaks ties. They differ in settings that the
            price of a release does not depend on. `target_epsilon` and `score_epsilon` are those of the whole tuning.
        output_dir: the folder of the tuned release; it may not exist yet.
        distribution: the distribution of the number of runs.
        monitor: shows the progress, which does not tell the number of runs; None shows nothing.

    Raises:
        InvalidValue: the plans cannot compete, or the folder belongs to another run or to other data. Nothing is spent
            then.
    """
    monitor = monitor or Monitor()
    require(len(plans) > 1, "tune", f"{len(plans)} settings", "two or more, as of a sweep")
    folder = RunFolder(Path(output_dir))
    settings: dict[str, object] = {
        "tuned": {f"{number}": plan.settings for number, plan in enumerate(plans)},
        "eta": distribution.eta,
        "gamma": distribution.gamma,
    }
    with folder.opened(settings):
        if folder.report.exists():
            folder.require_manifest()
            require_entered(plans[0].ledger, folder)
            monitor.say(
                f"output_dir={folder.path}: this tuning is finished; nothing is spent again"
            )
            return Report.read(folder.report)
        tuning = _price(plans, folder, distribution, monitor)
        charge = _charge(tuning, folder, settings, monitor)
        choices = _secret_choices(tuning, charge, folder)
        best = _best_run(tuning, choices, folder, monitor)
        charge.require_paid()
        with monitor.stage("writing the best run"):
            return _publish(best, charge, folder)


@dataclass(frozen=True, eq=False)
class _Tuning:
    """The plans of the runs that compete, and the price of the best of them.

    Attributes:
        plans: the plan of one run for each setting, at the price of one run.
        terms: the plan whose terms the tuned release is charged under.
        priced: the tuned release, with the price of the best run.
        score_price: the price of comparing the runs, of the people in the test records.
        data: the digest of the private records.
        data_digest: the digest of the whole data set.
        unit: the unit of privacy.
        owners: the people whose records these are.
    """

    plans: Sequence[Plan]
    terms: Plan
    priced: PricedRelease
    score_price: ScorePrice
    score_event: Event
    open_charge: Callable[[RunFolder], RunCharge]
    digests: dict[str, str]
    distribution: TruncatedNegativeBinomial


def _price(
    plans: Sequence[Plan],
    folder: RunFolder,
    distribution: TruncatedNegativeBinomial,
    monitor: Monitor,
) -> _Tuning:
    """Reads the data, and solves for the price of one run. Nothing is trained or spent."""
    first = plans[0]
    total_epsilon = _total_epsilon(plans)
    score_epsilon = first.score_epsilon
    if score_epsilon is None:
        rule = "score_epsilon= beside it, the price of comparing the runs on the test records"
        raise InvalidValue("tune", "true", rule=rule)
    with monitor.stage("reading the data"):
        datasets = [plan.load_dataset() for plan in plans]
        for dataset in datasets:
            require_dataset(dataset)
    dataset = datasets[0]
    private_digests = {dataset.private_digest() for dataset in datasets}
    rule = "settings under which all runs read the same private records"
    require(len(private_digests) == 1, "tune", "true", rule)
    require(dataset.budgets is None, "tune", "true", "one budget for all people: no data.budget")
    budget = replace(first.budget, epsilon=total_epsilon)

    def priced_at(epsilon: float) -> list[PricedRelease]:
        """Returns each run with the noise of an epsilon."""
        silent = Monitor()
        return [
            price(
                replace(plan, target_epsilon=epsilon).for_dataset(its_dataset, silent),
                its_dataset,
                silent,
            )
            for plan, its_dataset in zip(plans, datasets, strict=True)
        ]

    with monitor.stage("pricing the release"):
        run_epsilon = epsilon_of_one_run(
            lambda epsilon: tuning_event(
                price(
                    replace(first, target_epsilon=epsilon, allow_useless=True).for_dataset(
                        dataset, Monitor()
                    ),
                    dataset,
                    Monitor(),
                ).event,
                NoOpEvent(),
                distribution,
            ),
            budget,
        )
        base = dominating_event([priced.event for priced in priced_at(run_epsilon)])
    tuned = TunedRuns(base=base, distribution=distribution, num_candidates=len(plans))
    score_noise = calibrate(
        lambda noise: tuning_event(NoOpEvent(), ScoresEvent(noise), distribution),
        target_epsilon=score_epsilon,
        target_delta=first.target_delta,
    )
    run_score_epsilon = Budget(delta=first.target_delta).epsilon_of(ScoresEvent(score_noise))
    run_plans = [
        replace(
            plan,
            target_epsilon=run_epsilon,
            score_epsilon=run_score_epsilon * _LESS_EPSILON,
            tuned=tuned,
            max_total_epsilon=None,
            all_records=False,
            tensorboard=False,
        )
        for plan in plans
    ]
    of_one = price(run_plans[0].for_dataset(dataset, Monitor()), dataset, Monitor())
    score_price = ScorePrice.of_plan(run_plans[0], dataset)
    assert score_price is not None
    epsilon = budget.epsilon_of(tuned.event)
    rule = f"an epsilon above the {epsilon:.4g} that the best of these runs costs"
    require(epsilon <= total_epsilon * (1 + 1e-9), "target_epsilon", total_epsilon, rule)
    priced = replace(of_one, event=tuned.event, epsilon=epsilon, won_by=None)
    monitor.say(
        f"tune=true: one run costs epsilon {budget.epsilon_of(base):.4g}, the best of a secret number of runs "
        f"epsilon {epsilon:.4g}; {distribution.mean:.3g} runs are expected, and how many there are shows in the "
        "running time: keep it secret"
    )
    if total_epsilon <= _LARGEST_TRIED:
        monitor.say(_DOES_NOT_PAY)
    return _Tuning(
        plans=run_plans,
        terms=first,
        priced=priced,
        score_price=score_price,
        score_event=tuning_event(NoOpEvent(), ScoresEvent(score_noise), distribution),
        open_charge=lambda run_folder: RunCharge.open(
            first,
            priced,
            run_folder,
            data=dataset.private_digest(),
            unit=first.unit(dataset),
            owners=dataset.owners,
        ),
        digests={
            "data": digest([its_dataset.digest() for its_dataset in datasets]),
            "release": digest([priced.identity, distribution.eta, distribution.gamma]),
            "private": dataset.private_digest(),
        },
        distribution=distribution,
    )


def _total_epsilon(plans: Sequence[Plan]) -> float:
    """Returns the epsilon of the whole tuning; raises `InvalidValue` where plans have no common one."""
    first = plans[0]
    for plan in plans:
        same = (
            plan.target_epsilon == first.target_epsilon
            and plan.target_delta == first.target_delta
            and plan.score_epsilon == first.score_epsilon
            and plan.aggregator.adjacency == first.aggregator.adjacency
        )
        rule = "settings that the price does not depend on: one target_epsilon, target_delta, score_epsilon, adjacency"
        require(same, "tune", "true", rule)
        rule = "runs without redraw=true, which draw once"
        require(not plan.redraw, "tune", "true", rule)
    if first.target_epsilon is None or first.max_epsilon is not None:
        rule = "target_epsilon= beside it, which noise is solved for"
        raise InvalidValue("tune", "true", rule=rule)
    return first.target_epsilon


def dominating_event(events: Sequence[Event]) -> Event:
    """Returns a price that each of several prices is at most: of equal prices that one, of Gaussians the largest.

    Args:
        events: the prices of one run under each setting.

    Raises:
        InvalidValue: the prices differ, and not all are Gaussian.

    >>> dominating_event([GaussianEvent(2.0), GaussianEvent(3.0)]).noise_multiplier < 2
    True
    """
    if len(set(events)) == 1:
        return events[0]
    multipliers = []
    for event in events:
        counts = count_leaves(event)
        rule = "settings that the price of a run does not depend on"
        is_gaussian = counts.kinds <= {GaussianEvent, NoOpEvent} and GaussianEvent in counts.kinds
        require(is_gaussian, "tune", "true", rule)
        values = [
            leaf.noise_multiplier / math.sqrt(count)
            for leaf, count in counts
            if isinstance(leaf, GaussianEvent)
        ]
        multipliers.append(GaussianEvent.composed(values).noise_multiplier)
    return GaussianEvent(min(multipliers))


def _charge(
    tuning: _Tuning, folder: RunFolder, settings: dict[str, object], monitor: Monitor
) -> RunCharge:
    """Opens the account of the tuned release, and checks that both prices fit. Nothing is charged yet."""
    charge = tuning.open_charge(folder)
    folder.claim(settings, **tuning.digests)
    charge.begin(monitor, redraw=False)
    scores = charge.of_scores(tuning.score_price)
    if scores.account.read(scores.key) is None:
        scores.account.require_room(tuning.score_event)
    return charge


def _secret_choices(tuning: _Tuning, charge: RunCharge, folder: RunFolder) -> list[int]:
    """Charges both prices, and returns the setting of each run, by its place; their number is secret.

    The choices are drawn once, and committed in one transaction with the charge of the private records.
    """
    streams = RandomStreams.of_run(folder.training_secret, tuning.terms.seed)
    rng = streams.generator("tuning")
    num_runs = tuning.distribution.draw(rng)
    drawn = rng.integers(len(tuning.plans), size=num_runs)
    content = charge.record().commit(_CHOICES, json.dumps(drawn.tolist()).encode())
    scores = charge.of_scores(tuning.score_price)
    scores.account.commit(
        scores.key, tuning.score_event, b"", scores.note, adjacency=Adjacency.REPLACE_ONE
    )
    choices: list[int] = json.loads(content)
    return choices


@dataclass(frozen=True, eq=False)
class _Run:
    """A finished run: its folder, and what it is compared by."""

    folder: RunFolder
    rank: tuple[
        float, int, str
    ]  # its priced score, the place of its setting, and the digest of its release


def _best_run(tuning: _Tuning, choices: Sequence[int], folder: RunFolder, monitor: Monitor) -> _Run:
    """Runs all choices, each in a folder and with a ledger of its own, and returns the run with the best score.

    Runs that are not the best are removed as soon as that is known.
    """
    runs = make_folder(folder.runs.resolve())
    seeds = RandomStreams.of_run(folder.training_secret, tuning.terms.seed).seeds(
        "tuning", num_seeds=len(choices)
    )
    best: _Run | None = None
    with monitor.stage("training runs with competing settings; how many is secret"):
        for number, (choice, seed) in enumerate(zip(choices, seeds, strict=True)):
            plan = tuning.plans[choice]
            run_folder = RunFolder(runs / f"{number:05d}")
            plan = replace(
                plan,
                ledger=runs / f"{number:05d}.db",
                seed=None if plan.seed is None else seed,
            )
            report = train(plan, run_folder.path)
            scores = report.privacy.scores
            assert scores is not None
            rule = "scores with the noise that was charged"
            is_paid = scores.noise_multiplier >= tuning.score_price.event.noise_multiplier * (
                1 - 1e-9
            )
            require(is_paid, "score_epsilon", scores.noise_multiplier, rule)
            release_digest = file_digest(run_folder.release / "release.npz", remedy=FROM_BACKUP)
            rank = (scores.micro_f1.value, -choice, release_digest)
            if best is None or rank > best.rank:
                best = _Run(run_folder, rank)
    assert best is not None
    return best


def _publish(best: _Run, charge: RunCharge, folder: RunFolder) -> Report:
    """Copies the files of the best run into the folder of the tuning, and removes all runs.

    Copies are new files, whose times do not tell when the best run took place.
    """
    content = (best.folder.release / "release.npz").read_bytes()
    charge.record().commit(_WRITTEN, hashlib.sha256(content).hexdigest().encode())
    for path in sorted(best.folder.release.rglob("*")):
        if path.is_file():
            copy = folder.release / path.relative_to(best.folder.release)
            make_folder(copy.parent)
            with atomic_write(copy) as file:
                file.write(path.read_bytes())
    with atomic_write(folder.page) as file:
        file.write(best.folder.page.read_bytes())
    report = Report.read(best.folder.report)
    report = replace(report, privacy=replace(report.privacy, scores=None))
    folder.write_manifests(report.to_json() + "\n")
    report.write(folder.report)
    shutil.rmtree(folder.runs)
    return report
