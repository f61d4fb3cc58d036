"""A tuned release: the best of a secret number of runs with settings that compete, at a price fixed before the first.

    1. price      The noise of one run is solved, so that the best of all runs costs `target_epsilon`.
    2. charge     The ledger is charged, for the private records and for the test records, before anything is trained.
                  The secret choices (how many runs, and with which settings) are committed with the first charge.
    3. run        Each choice is a whole run in a folder of its own, whose scores on the test records are priced.
    4. publish    The run with the best priced micro-F1 becomes `release/`. All other runs are removed.

The number of runs, the other runs and the scores are secret, and so is the time that the runs take.
A call that was stopped goes on with the same choices (docs/proofs/tuning.md).
"""

import hashlib
import json
import math
import shutil
from collections.abc import Sequence
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
from pate.accounting.event_tree import count_leaves, failure_probability
from pate.data import Dataset
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
from pate.run.plan import Plan, price_release
from pate.run.random_streams import RandomStreams
from pate.run.score_release import ScorePrice, account_of_test_records
from pate.run.train import train
from pate.run.tuned_runs import TunedRuns
from pate.setting_names import TRAIN
from pate.threads import all_cores
from pate.validation import InvalidValue

# The name of the part of the draw that holds the secret choices.
_CHOICES = "choices"
# The name of the part that holds the digest of the release's file, as in every run.
_WRITTEN = "written"
# The table of docs/how-to/tune-settings.md: up to this epsilon a tuning was mostly worse than the default settings.
_LARGEST_TRIED = 8.0
_DOES_NOT_PAY = (
    "tune=true: on eight data sets the default won against a tuning at the same epsilon in 28 of 32 cases, up to "
    "epsilon 1 in 15 of 16 (docs/how-to/tune-settings.md)"
)
# The epsilon of one run's scores is reduced by this factor, so that their noise is at least the charged noise in spite
# of rounding.
_EPSILON_FACTOR = 1 - 1e-6
# The relative error of rounding that is allowed where two prices or two scales of noise should be equal.
_ROUNDING = 1e-9


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

    The private records are charged at most `target_epsilon` in all, and the test records `score_epsilon`, whatever the
    number of settings and of runs. Both are charged before the first run. A finished tuning is not repeated.

    Private: everything but `release/`. The number of runs, the other runs and all scores are in the owner's folder and
    ledger alone, and the runs are removed when the best one is known. How long the function takes depends on the number
    of runs, so its running time is private, too.

    Args:
        plans: the plans of the runs that compete, at least two. Of runs with equal scores, that of the earlier plan
            wins. The plans differ in settings that neither change the price of a release nor the people whom it
            protects. `target_epsilon` and `score_epsilon` are those of the whole tuning.
        output_dir: the folder of the tuned release; it may not exist yet.
        distribution: the distribution of the number of runs.
        monitor: shows the progress, which does not tell the number of runs; None shows nothing.

    Raises:
        InvalidValue: the plans cannot compete, or the folder belongs to another run or to other data. Nothing is spent
            then.
    """
    monitor = monitor or Monitor()
    if len(plans) < 2:
        raise InvalidValue("tune", f"{len(plans)} settings", rule="two or more, as of a sweep")
    tuning_folder = RunFolder(Path(output_dir))
    settings: dict[str, object] = {
        "tuned": {f"{number}": plan.settings for number, plan in enumerate(plans)},
        "eta": distribution.eta,
        "gamma": distribution.gamma,
    }
    with tuning_folder.lock_for(settings=settings):
        if tuning_folder.report.exists():
            return _finished_report(plans[0], tuning_folder=tuning_folder, monitor=monitor)
        priced_tuning = _price(plans, run_count_distribution=distribution, monitor=monitor)
        run_charge = _open_charge(
            priced_tuning, tuning_folder=tuning_folder, settings=settings, monitor=monitor
        )
        plan_indices = _secret_choices(
            priced_tuning, run_charge=run_charge, tuning_folder=tuning_folder
        )
        best_run = _best_run(
            priced_tuning, plan_indices=plan_indices, tuning_folder=tuning_folder, monitor=monitor
        )
        run_charge.require_paid()
        with monitor.stage("writing the best run"):
            return _publish(best_run, run_charge=run_charge, tuning_folder=tuning_folder)


def _finished_report(plan: Plan, *, tuning_folder: RunFolder, monitor: Monitor) -> Report:
    """Returns the report of a finished tuning; raises `InvalidValue` if a file or the charge has changed since."""
    tuning_folder.require_manifest()
    require_entered(plan.ledger, run_folder=tuning_folder)
    monitor.say(f"output_dir={tuning_folder.path}: this tuning is finished; nothing is spent again")
    return Report.read(tuning_folder.report)


@dataclass(frozen=True, eq=False, kw_only=True)  # compared by identity, as its parts are
class _Tuning:
    """The plans of the runs that compete, and the price of the best of them.

    Attributes:
        plans: the plans of the runs, one for each setting that competes; their epsilon is that of one run.
        first_plan: the first plan as the user gave it. Its ledger, cap and delta are those of the tuned release.
        datasets: the data set of each plan. Private.
        priced_release: the tuned release, with the price of publishing the best run.
        score_price: the price of the scores of one run.
        score_event: the price of comparing the scores of all runs, which the people in the test records pay.
        run_count_distribution: the distribution of the number of runs.
    """

    plans: Sequence[Plan]
    first_plan: Plan
    datasets: Sequence[Dataset]
    priced_release: PricedRelease
    score_price: ScorePrice
    score_event: Event
    run_count_distribution: TruncatedNegativeBinomial


def _price(
    plans: Sequence[Plan], *, run_count_distribution: TruncatedNegativeBinomial, monitor: Monitor
) -> _Tuning:
    """Reads the data, and solves for the epsilon of one run. Nothing is trained or spent.

    Args:
        plans: the plans that compete, each with the epsilon of the whole tuning.
        run_count_distribution: the distribution of the number of runs.
        monitor: receives the progress, and a line with the prices.

    Raises:
        InvalidValue: the plans cannot compete; or no epsilon of one run makes the best run cost what was asked for.
    """
    first_plan = plans[0]
    tuning_epsilon = _common_epsilon(plans)
    if first_plan.score_epsilon is None:
        rule = "score_epsilon= beside it, the price of comparing the runs on the test records"
        raise InvalidValue("tune", "true", rule=rule)
    with monitor.stage("reading the data"):
        datasets = _read_datasets(plans)
    dataset = datasets[0]
    budget = replace(first_plan.budget, epsilon=tuning_epsilon)

    def event_of_best(run_epsilon: float) -> Event:
        """Returns the price of publishing the best run, if each single run by itself costs `run_epsilon`."""
        run_plan = replace(first_plan, allow_useless=True)
        priced_release = _priced_at(run_epsilon, plan=run_plan, dataset=dataset)
        return tuning_event(
            base=priced_release.event, score=NoOpEvent(), distribution=run_count_distribution
        )

    # The first plan alone decides the epsilon of one run. That the best of all plans costs no more is checked below.
    with monitor.stage("pricing the release"):
        run_epsilon = epsilon_of_one_run(compute_best_run_event=event_of_best, budget=budget)
        run_event_of_each_plan = [
            _priced_at(run_epsilon, plan=run_plan, dataset=dataset_of_plan).event
            for run_plan, dataset_of_plan in zip(plans, datasets, strict=True)
        ]
    run_event = dominating_event(run_event_of_each_plan)
    tuned_runs = TunedRuns(
        base_event=run_event,
        run_count_distribution=run_count_distribution,
        num_candidates=len(plans),
    )
    score_noise_multiplier = _score_noise(
        first_plan.score_epsilon,
        target_delta=first_plan.target_delta,
        run_count_distribution=run_count_distribution,
    )
    run_score_epsilon = Budget(delta=first_plan.target_delta).epsilon_of(
        ScoresEvent(noise_multiplier=score_noise_multiplier)
    )
    run_plans = [
        replace(
            run_plan,
            target_epsilon=run_epsilon,
            score_epsilon=run_score_epsilon * _EPSILON_FACTOR,
            tuned=tuned_runs,
            max_total_epsilon=None,
            all_records=False,
            tensorboard=False,
        )
        for run_plan in plans
    ]
    priced_run = _priced_at(run_epsilon, plan=run_plans[0], dataset=dataset)
    score_price = ScorePrice.of_plan(run_plans[0], dataset=dataset)
    assert score_price is not None
    epsilon_of_best = budget.epsilon_of(tuned_runs.event)
    if epsilon_of_best > tuning_epsilon * (1 + _ROUNDING):
        rule = f"an epsilon above the {epsilon_of_best:.4g} that the best of these runs costs"
        raise InvalidValue("target_epsilon", tuning_epsilon, rule=rule)
    monitor.say(
        f"tune=true: one run costs epsilon {budget.epsilon_of(run_event):.4g}, the best of a secret number of runs "
        f"epsilon {epsilon_of_best:.4g}; {run_count_distribution.mean:.3g} runs are expected, and how many there are "
        "shows in the running time: keep it secret"
    )
    if tuning_epsilon <= _LARGEST_TRIED:
        monitor.say(_DOES_NOT_PAY)
    return _Tuning(
        plans=run_plans,
        first_plan=first_plan,
        datasets=datasets,
        priced_release=replace(
            priced_run, event=tuned_runs.event, epsilon=epsilon_of_best, won_by=None
        ),
        score_price=score_price,
        score_event=tuning_event(
            base=NoOpEvent(),
            score=ScoresEvent(noise_multiplier=score_noise_multiplier),
            distribution=run_count_distribution,
        ),
        run_count_distribution=run_count_distribution,
    )


def _read_datasets(plans: Sequence[Plan]) -> list[Dataset]:
    """Reads the data set of each plan.

    Raises `InvalidValue` if the private records, the unit of privacy or the test records of two plans differ, or if
    there are budget classes or weights of records. The charge is for the people of the first plan's data set, whichever
    run wins.
    """
    datasets = [
        require_dataset(plan.load_dataset(), allow_budgets_and_weights=True) for plan in plans
    ]
    if any(dataset.budgets is not None for dataset in datasets):
        rule = "one budget for all people: no data.budget"
        raise InvalidValue("tune", "true", rule=rule)
    for dataset in datasets:
        require_dataset(dataset)  # refuses records with weights
    if len({dataset.private_digest() for dataset in datasets}) > 1:
        rule = "settings under which all runs read the same private records"
        raise InvalidValue("tune", "true", rule=rule)
    # The digest of a table does not tell which of its columns names the groups.
    if len({plan.unit(dataset) for plan, dataset in zip(plans, datasets, strict=True)}) > 1:
        rule = "settings under which all runs have the same unit of privacy: one data.group, one holders"
        raise InvalidValue("tune", "true", rule=rule)
    if len({account_of_test_records(dataset) for dataset in datasets}) > 1:
        rule = "settings under which all runs are compared on the same test records, whose people pay for that"
        raise InvalidValue("tune", "true", rule=rule)
    return datasets


def _priced_at(epsilon: float, *, plan: Plan, dataset: Dataset) -> PricedRelease:
    """Returns the priced release of one run of a plan, with noise that makes it cost `epsilon`."""
    silent = Monitor()
    plan = replace(plan, target_epsilon=epsilon).for_dataset(dataset, monitor=silent)
    return price_release(plan, dataset=dataset, monitor=silent)


def _score_noise(
    score_epsilon: float, *, target_delta: float, run_count_distribution: TruncatedNegativeBinomial
) -> float:
    """Returns the noise multiplier of one run's scores at which comparing all runs costs `score_epsilon`.

    Args:
        score_epsilon: the epsilon that the people in the test records pay for the whole tuning.
        target_delta: the delta of that epsilon.
        run_count_distribution: the distribution of the number of runs.
    """

    def event_of_scores(noise_multiplier: float) -> Event:
        return tuning_event(
            base=NoOpEvent(),
            score=ScoresEvent(noise_multiplier=noise_multiplier),
            distribution=run_count_distribution,
        )

    return calibrate(
        event_for=event_of_scores, target_epsilon=score_epsilon, target_delta=target_delta
    )


def _common_epsilon(plans: Sequence[Plan]) -> float:
    """Returns the `target_epsilon` of the plans, which is that of the whole tuning.

    Raises:
        InvalidValue: the plans differ in epsilon, delta, `score_epsilon` or adjacency; or a plan has `redraw`; or the
            first plan has no `target_epsilon`, or has a `max_epsilon`.
    """
    first_plan = plans[0]
    for plan in plans:
        has_same_terms = (
            plan.target_epsilon == first_plan.target_epsilon
            and plan.target_delta == first_plan.target_delta
            and plan.score_epsilon == first_plan.score_epsilon
            and plan.aggregator.adjacency == first_plan.aggregator.adjacency
        )
        if not has_same_terms:
            rule = (
                "settings that the price does not depend on: "
                "one target_epsilon, target_delta, score_epsilon, adjacency"
            )
            raise InvalidValue("tune", "true", rule=rule)
        if plan.redraw:
            raise InvalidValue("tune", "true", rule="runs without redraw=true, which draw once")
    if first_plan.target_epsilon is None or first_plan.max_epsilon is not None:
        rule = "target_epsilon= beside it, which noise is solved for"
        raise InvalidValue("tune", "true", rule=rule)
    return first_plan.target_epsilon


def dominating_event(events: Sequence[Event]) -> Event:
    """Returns an event that costs at least as much as each of several events, by any accountant.

    If all events are equal, it is that event. If all consist of Gaussian noise that cannot fail, it is the Gaussian
    with the least noise.

    Args:
        events: the prices of one run under each setting.

    Raises:
        InvalidValue: the prices differ, and not all are Gaussian and without failures.

    >>> dominating_event([GaussianEvent(2.0), GaussianEvent(3.0)]).noise_multiplier < 2
    True
    """
    if len(set(events)) == 1:
        return events[0]
    noise_multipliers = []
    for event in events:
        leaf_counts = count_leaves(event)
        is_gaussian = GaussianEvent in leaf_counts.kinds and leaf_counts.kinds <= {
            GaussianEvent,
            NoOpEvent,
        }
        # The leaves do not tell the failure probabilities of an event, which are a part of its price.
        if not is_gaussian or failure_probability(event) > 0:
            rule = "settings that the price of a run does not depend on"
            raise InvalidValue("tune", "true", rule=rule)
        # A Gaussian that is composed k times costs as much as one with 1 / sqrt(k) of its noise.
        leaf_multipliers = [
            leaf.noise_multiplier / math.sqrt(count)
            for leaf, count in leaf_counts
            if isinstance(leaf, GaussianEvent)
        ]
        noise_multipliers.append(GaussianEvent.composed(leaf_multipliers).noise_multiplier)
    return GaussianEvent(noise_multiplier=min(noise_multipliers))


def _open_charge(
    priced_tuning: _Tuning,
    *,
    tuning_folder: RunFolder,
    settings: dict[str, object],
    monitor: Monitor,
) -> RunCharge:
    """Opens the account of the tuned release, and checks that the ledger has room. Nothing is charged yet.

    There must be room for two prices: that of the best run, for the people in the private records, and that of
    comparing the runs, for those in the test records.
    """
    dataset = priced_tuning.datasets[0]
    # If any plan has `start`, the people of that earlier release must be others, whichever run wins.
    starts = [plan.start for plan in priced_tuning.plans if plan.start is not None]
    charge = RunCharge.open(
        release_terms=replace(priced_tuning.first_plan, start=starts[0] if starts else None),
        priced_release=priced_tuning.priced_release,
        run_folder=tuning_folder,
        data_digest=dataset.private_digest(),
        unit=priced_tuning.first_plan.unit(dataset),
        owners_by_kind=dataset.owners,
    )
    distribution = priced_tuning.run_count_distribution
    tuning_folder.claim(
        settings,
        digests={
            "data": digest(
                [dataset_of_plan.digest() for dataset_of_plan in priced_tuning.datasets]
            ),
            "release": digest(
                [priced_tuning.priced_release.identity, distribution.eta, distribution.gamma]
            ),
            "private": dataset.private_digest(),
        },
    )
    charge.begin(monitor, redraw=False)
    score_charge = charge.score_charge(score_price=priced_tuning.score_price)
    if score_charge.account.read(score_charge.release_key) is None:
        score_charge.account.require_room(priced_tuning.score_event)
    return charge


def _secret_choices(
    priced_tuning: _Tuning, *, run_charge: RunCharge, tuning_folder: RunFolder
) -> list[int]:
    """Charges both prices, and returns for each run the index of its plan. How many runs there are is secret.

    One price is that of the best run, for the people in the private records, and the other that of comparing the runs,
    for those in the test records. The indices are drawn once, at random, and committed in one transaction with the
    charge of the private records.
    """
    streams = RandomStreams.of_run(
        secret_file=tuning_folder.training_secret, seed=priced_tuning.first_plan.seed
    )
    rng = streams.generator("tuning")
    num_runs = priced_tuning.run_count_distribution.draw(rng)
    drawn_plan_indices = rng.integers(len(priced_tuning.plans), size=num_runs)
    plan_indices_json = run_charge.record().commit(
        _CHOICES, part_content=json.dumps(drawn_plan_indices.tolist()).encode()
    )
    score_charge = run_charge.score_charge(score_price=priced_tuning.score_price)
    score_charge.account.commit(
        score_charge.release_key,
        event=priced_tuning.score_event,
        content=b"",
        charge_note=score_charge.charge_note,
        adjacency=Adjacency.REPLACE_ONE,
    )
    plan_indices: list[int] = json.loads(plan_indices_json)
    return plan_indices


@dataclass(frozen=True, eq=False)  # compared by identity, as its folder is
class _FinishedRun:
    """A finished run, and the values by which it is compared.

    Attributes:
        run_folder: the folder of the run.
        micro_f1: the run's micro-F1 on the test records, released with noise.
        plan_index: the index of the run's plan among the plans that compete.
        release_digest: the digest of the run's release.
    """

    run_folder: RunFolder
    micro_f1: float
    plan_index: int
    release_digest: str

    @property
    def rank(self) -> tuple[float, int, str]:
        """The rank of the run, larger for a better run: its micro-F1, then an earlier plan, then its digest."""
        return self.micro_f1, -self.plan_index, self.release_digest


def _best_run(
    priced_tuning: _Tuning,
    *,
    plan_indices: Sequence[int],
    tuning_folder: RunFolder,
    monitor: Monitor,
) -> _FinishedRun:
    """Runs the plan of each choice, in a folder and with a ledger of its own, and returns the best run.

    The best run has the greatest rank (`_FinishedRun.rank`). All runs stay in `tuning_folder.runs` until the best one
    is published.

    Args:
        priced_tuning: the plans that compete, with the price of one run.
        plan_indices: for each run the index of its plan.
        tuning_folder: the folder of the tuned release.
        monitor: shows that runs are trained, and not how many.
    """
    runs_folder = make_folder(tuning_folder.runs.resolve())
    streams = RandomStreams.of_run(
        secret_file=tuning_folder.training_secret, seed=priced_tuning.first_plan.seed
    )
    seeds_of_runs = streams.seeds("tuning", num_seeds=len(plan_indices))
    best_run: _FinishedRun | None = None
    with monitor.stage("training runs with competing settings; how many is secret"):
        for run_number, (plan_index, seed_of_run) in enumerate(
            zip(plan_indices, seeds_of_runs, strict=True)
        ):
            run_plan = priced_tuning.plans[plan_index]
            run_plan = replace(
                run_plan,
                ledger=runs_folder / f"{run_number:05d}.db",
                seed=None if run_plan.seed is None else seed_of_run,
            )
            run_folder = RunFolder(runs_folder / f"{run_number:05d}")
            report = train(run_plan, output_dir=run_folder.path)
            finished_run = _FinishedRun(
                run_folder=run_folder,
                micro_f1=_priced_micro_f1(report, priced_tuning=priced_tuning),
                plan_index=plan_index,
                release_digest=file_digest(run_folder.release_file, remedy=FROM_BACKUP),
            )
            if best_run is None or finished_run.rank > best_run.rank:
                best_run = finished_run
    assert best_run is not None
    return best_run


def _priced_micro_f1(report: Report, *, priced_tuning: _Tuning) -> float:
    """Returns the released micro-F1 of a run; raises `InvalidValue` if it has less noise than the charge presumes."""
    released_scores = report.privacy.scores
    assert released_scores is not None
    charged_noise = priced_tuning.score_price.event.noise_multiplier
    if released_scores.noise_multiplier < charged_noise * (1 - _ROUNDING):
        rule = "scores with the noise that was charged"
        raise InvalidValue("score_epsilon", released_scores.noise_multiplier, rule=rule)
    return released_scores.micro_f1.value


def _publish(best_run: _FinishedRun, *, run_charge: RunCharge, tuning_folder: RunFolder) -> Report:
    """Copies the files of the best run into the folder of the tuning, and removes all runs.

    Copies are new files, whose times do not tell when the best run took place.
    """
    release_content = best_run.run_folder.release_file.read_bytes()
    release_digest = hashlib.sha256(release_content).hexdigest()
    run_charge.record().commit(_WRITTEN, part_content=release_digest.encode())
    for release_file in sorted(best_run.run_folder.release.rglob("*")):
        if release_file.is_file():
            copied_file = tuning_folder.release / release_file.relative_to(
                best_run.run_folder.release
            )
            make_folder(copied_file.parent)
            with atomic_write(copied_file) as file:
                file.write(release_file.read_bytes())
    with atomic_write(tuning_folder.page) as file:
        file.write(best_run.run_folder.page.read_bytes())
    report = Report.read(best_run.run_folder.report)
    report = replace(report, privacy=replace(report.privacy, scores=None))
    tuning_folder.write_manifests(report_json=report.to_json() + "\n")
    report.write(tuning_folder.report)
    shutil.rmtree(tuning_folder.runs)
    return report
