"""Attacks on a release with canaries, which yield a lower bound on epsilon.

A canary is an artificial record or teacher. Each of m canaries has two variants, and a secret fair coin decides which
variant takes part in the release. An attacker who sees the release guesses r of the m coins. Canaries are records,
planted into a copy of the data (`RecordAttack`), or teachers with artificial votes (`TeacherAttack`). If more guesses
are correct than the price allows, the price is refuted (`Guesses`). The release is drawn for the attack alone and never
published.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pate.accounting import (
    Accountant,
    Adjacency,
    Budget,
    Event,
    NoOpEvent,
    TruncatedNegativeBinomial,
    tuning_event,
)
from pate.aggregators import Aggregator, CenteredVotes
from pate.array_types import FloatArray
from pate.auditing.attack.aligned_sums import AlignedSums, linear_estimate
from pate.auditing.attack.guesses import Guesses
from pate.auditing.attack.records import RecordAttack, Signs
from pate.auditing.attack.teachers import TeacherAttack
from pate.data import Dataset
from pate.data.dataset import require_dataset
from pate.pricing import PricedRelease, plan_release
from pate.pricing.tuned_price import epsilon_of_one_run
from pate.progress import Monitor
from pate.run.random_streams import RandomStreams
from pate.threads import all_cores
from pate.validation import (
    InvalidValue,
    require,
    require_choice,
    require_count,
    require_probability,
)
from pate.votes.shape import VoteShape

SABOTAGE = ("noise", "clip", "charge", "features", "seed")  # ways to break a release on purpose
_LESS_NOISE = 0.1
# times the root of the number of coins: where the bound was highest for 1,000 to 20,000 Gaussian
# coins
_GUESSED = 6.0
_CANARIES = 1000
_FEWER = 4, 16  # times fewer canaries are tried: their votes are noise to each other
_REPEATS = 4  # how often each canary counts where `sabotage=clip`
_LARGEST_FACTOR = 16.0  # of mu: prices of much more take minutes
_FEWEST_GROUPS = 400  # of a release in rounds, half of which may be canaries


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """The result of an attack. No epsilon covers the result, so it must not be published."""

    epsilon: float  # the price of the release
    delta: float  # the delta of all epsilons of this result
    adjacency: str
    # the largest epsilon that the attack refutes, among the prices of this kind of release with more or less noise. Of
    # `CenteredVotes` the sums with noise are compared with their law, of other aggregators the guesses with the price
    lower_bound: float
    lower_bound_any: float  # the largest epsilon that the guesses refute, for any mechanism
    confidence: float  # the confidence of both lower bounds
    num_canaries: int  # the number of coins in all runs
    num_guesses: int  # the number of guesses
    num_correct: int  # the number of correct guesses
    unit: str  # what a canary replaces: a "record", with its whole group, or a "teacher"
    aggregator: str  # the name of the aggregator's class
    sabotage: str | None  # the part of the release that was broken on purpose; None for none
    # the expected number of runs, of which the release is the best; None for a release of one run
    tune_runs: float | None
    seconds: float  # the duration of the attack

    @property
    def refuted(self) -> bool:
        """Whether the guesses refute the price of the release."""
        return self.lower_bound > self.epsilon

    def to_json(self) -> dict[str, Any]:
        """Returns a dictionary of all fields and of `refuted`, for JSON."""
        return asdict(self) | {"refuted": self.refuted}


@dataclass(frozen=True, kw_only=True, eq=False)
class Attack:
    """An attack that plants canaries, draws a release, and guesses the variant of each canary from the release.

    With `CenteredVotes` a canary is a record in place of a private group, and every group is a teacher that votes in
    rounds. With all other aggregators a canary is a teacher, because their price covers teachers, and the votes of all
    teachers are chosen so that canaries decide the answers. The attacker knows everything except the coins and the
    noise.

    Formal guarantee: if the price of the release is valid, `AttackResult.lower_bound_any` exceeds it with a probability
    of at most 1 - confidence. The same is true of `lower_bound` if the price is valid at all deltas, and, for
    `CenteredVotes`, if the noise is Gaussian, of whatever standard deviation.

    Attributes:
        aggregator: the aggregator of the release. Its noise is replaced by the noise that the budget needs.
        budget: the budget of the release.
        num_queries: the number of queries Q.
        num_teachers: the number of teachers T; of no effect if canaries are records.
        num_canaries: the number of canaries in each run. None for 1,000, but at most a tenth of the groups or an eighth
            of the teachers. For aggregators that read counts, None also tries smaller numbers of canary teachers, with
            more runs, because the votes of canaries disturb the guesses about other canaries.
        num_runs: the number of runs, each with new coins and noise. If fewer canaries are chosen, there are more runs.
        confidence: the confidence of the lower bounds, in (0, 1).
        sabotage: the part of the release that is broken on purpose, a member of `SABOTAGE`; None for none.
        run_count: the distribution of the secret number of runs, of which the best one is released, as `tune=true`
            does; None for a release of one run. The best run is the one whose sums tell most surely of the canaries.
        seed: the seed of all coins and noise; None for random numbers of the operating system.

    Source: docs/proofs/attack.md.
    """

    aggregator: Aggregator
    budget: Budget
    num_queries: int
    num_teachers: int
    num_canaries: int | None = None
    num_runs: int = 4
    confidence: float = 0.95
    sabotage: str | None = None
    run_count: TruncatedNegativeBinomial | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        for name in ("num_queries", "num_teachers", "num_runs"):
            require_count(name, getattr(self, name))
        if self.num_canaries is not None:
            require_count("num_canaries", self.num_canaries)
        require_probability("confidence", self.confidence)
        rule = "replace_one: a canary is replaced, which add_remove counts as two changes"
        require(
            self.aggregator.adjacency is Adjacency.REPLACE_ONE,
            "adjacency",
            self.aggregator.adjacency,
            rule,
        )
        rule = "null, except with aggregator=centered_votes"
        mean_runs = None if self.run_count is None else self.run_count.mean
        require(mean_runs is None or self.of_records, "tune_runs", mean_runs, rule)
        if self.sabotage is not None:
            require_choice("sabotage", self.sabotage, SABOTAGE)
            of_records = self.sabotage not in ("features", "seed") or self.of_records
            require(
                of_records,
                "sabotage",
                self.sabotage,
                "noise, clip or charge, but for aggregator=centered_votes",
            )

    @property
    def of_records(self) -> bool:
        """Whether canaries are records, and not teachers."""
        return isinstance(self.aggregator, CenteredVotes)

    @all_cores()
    def run(self, dataset: Dataset, monitor: Monitor | None = None) -> AttackResult:
        """Plants the canaries, draws all releases, guesses the coins, and returns the result.

        Args:
            dataset: the private and public records.
            monitor: receives the progress of the attack; None for no reports.

        Raises:
            InvalidValue: there are too few groups or teachers, or no noise meets the budget.
        """
        start_time = time.monotonic()
        monitor = monitor or Monitor()
        num_units = (
            require_dataset(dataset).private.num_groups if self.of_records else self.num_teachers
        )
        rule = f"at least {_FEWEST_GROUPS} private groups or teachers for canaries among them"
        require(num_units >= _FEWEST_GROUPS, "num_teachers", num_units, rule)
        shape = VoteShape(
            num_queries=self.num_queries, num_labels=dataset.num_labels, num_teachers=num_units
        )
        priced = self._priced_run(shape)
        most_canaries = num_units // 2 if self.of_records else num_units // 8
        num_canaries = self.num_canaries or min(
            _CANARIES, num_units // 10 if self.of_records else most_canaries
        )
        require(
            num_canaries <= most_canaries,
            "num_canaries",
            num_canaries,
            f"at most {most_canaries} of {num_units}",
        )
        streams = RandomStreams.from_secret() if self.seed is None else RandomStreams(self.seed)
        rng = streams.generator("noise")
        coins: list[Signs] = []
        scores: list[FloatArray] = []
        aligned_sums = AlignedSums()
        with monitor.stage("looking for the most telling queries"):
            options = (
                priced.aggregator.scaled(_LESS_NOISE)
                if self.sabotage == "noise"
                else priced.aggregator
            )
            guesser: RecordAttack | TeacherAttack
            if isinstance(options, CenteredVotes):
                guesser = RecordAttack(
                    aggregator=options,
                    dataset=dataset,
                    num_canaries=num_canaries,
                    num_queries=self.num_queries,
                    sabotage=self.sabotage,
                )
            else:
                tries = (1, *_FEWER) if self.num_canaries is None and options.reads_counts else (1,)
                canary_counts = [num_canaries // times for times in tries]
                repeats = _REPEATS if self.sabotage == "clip" else 1
                guesser = TeacherAttack.rehearsed(
                    options, shape, canary_counts=canary_counts, repeats=repeats, rng=rng
                )
        num_runs = self.num_runs * (num_canaries // guesser.num_canaries)
        with monitor.stage("rehearsing the release", num_runs) as advance:
            for number in range(num_runs):
                coins.append((2 * rng.integers(0, 2, guesser.num_canaries) - 1).astype(np.int8))
                if isinstance(guesser, RecordAttack):
                    scores.append(self._surest_estimate(guesser, coins[-1], aligned_sums, rng))
                else:
                    scores.append(guesser.guess(coins[-1], rng))
                advance(number + 1)
        with monitor.stage("searching the price that they refute"):
            return self._result(
                priced,
                coins=np.concatenate(coins),
                scores=np.concatenate(scores),
                aligned_sums=aligned_sums,
                start_time=start_time,
            )

    def _priced_run(self, shape: VoteShape) -> PricedRelease:
        """Returns the release of one run, with the noise at which the budget pays for what is released."""
        if self.run_count is None:
            return plan_release(self.aggregator, shape, self.budget)

        def run_at(epsilon: float) -> PricedRelease:
            return plan_release(self.aggregator, shape, replace(self.budget, epsilon=epsilon))

        def event_at(epsilon: float) -> Event:
            return self._released_event(run_at(epsilon).event)

        return run_at(epsilon_of_one_run(event_at, self.budget))

    def _released_event(self, event_of_run: Event) -> Event:
        """Returns the price of what is released, from the price of one run."""
        if self.run_count is None:
            return event_of_run
        return tuning_event(event_of_run, NoOpEvent(), distribution=self.run_count)

    def _surest_estimate(
        self,
        guesser: RecordAttack,
        coins: Signs,
        aligned_sums: AlignedSums,
        rng: np.random.Generator,
    ) -> FloatArray:
        """Draws the runs of one release, and returns the estimate of the coins from the surest run, `[m]`.

        The sums of the first run are added to `aligned_sums`. A score of pure chance would publish just one run, so a
        valid price of the best run also covers the first one.

        Args:
            guesser: draws a run.
            coins: the coin of each canary, 1 or -1, `[m]`.
            aligned_sums: the sums of all releases, to which those of this one are added.
            rng: draws the canaries, the number of runs and the noise.
        """
        canaries = guesser.draw_canaries(rng)
        num_runs = 1 if self.run_count is None else self.run_count.draw(rng)
        estimates: list[FloatArray] = []
        for number in range(num_runs):
            canary_sums = guesser.canary_sums(canaries, coins, rng)
            if number == 0:
                aligned_sums.add_run(canary_sums, coins.astype(np.float64))
            estimates.append(linear_estimate(canary_sums))
        return max(estimates, key=_total_certainty)

    def _result(
        self,
        priced: PricedRelease,
        *,
        coins: Signs,
        scores: FloatArray,
        aligned_sums: AlignedSums,
        start_time: float,
    ) -> AttackResult:
        """Returns the result of the attack, from the guesses with the largest scores.

        The number of guesses depends on the number of coins alone.

        Args:
            priced: the release and its price.
            coins: 1 or -1 for each canary of all runs, `[m]` for m canaries in all.
            scores: the score of each canary: its sign is the guess, its size the confidence, `[m]`.
            aligned_sums: the sums with noise, along what the coins move; empty if canaries are teachers.
            start_time: the time at which the attack started, by `time.monotonic`.
        """
        num_guesses = min(len(coins), round(_GUESSED * math.sqrt(len(coins))))
        surest = np.argsort(-np.abs(scores), kind="stable")[:num_guesses]
        correct = int(((scores > 0) == (coins > 0))[surest].sum())
        guesses = Guesses(num_canaries=len(coins), num_guesses=num_guesses, num_correct=correct)

        def run_event_at(noise_factor: float) -> Event:
            return priced.aggregator.scaled(noise_factor).event(priced.shape)

        def accountant_of_run_at(noise_factor: float) -> Accountant:
            return self.budget.accountant().compose(run_event_at(noise_factor))

        def accountant_at(noise_factor: float) -> Accountant:
            event = self._released_event(run_event_at(noise_factor))
            return self.budget.accountant().compose(event)

        delta = self.budget.delta
        # two bounds at half of the error each hold together
        confidence = self.confidence if self.run_count is None else (1 + self.confidence) / 2
        lower_bound = 0.0
        if isinstance(priced.aggregator, CenteredVotes):
            least_mu = aligned_sums.least_mu(confidence=confidence)
            claimed_mu = 1 / priced.aggregator.votes_multiplier
            lower_bound = _epsilon_for(least_mu / claimed_mu, accountant_of_run_at, delta)
        if self.run_count is not None or not isinstance(priced.aggregator, CenteredVotes):
            by_guesses = guesses.least_price(
                accountant_at, target_delta=delta, confidence=confidence
            )
            lower_bound = max(lower_bound, by_guesses)
        epsilon = priced.epsilon
        if self.run_count is not None:
            epsilon = self.budget.epsilon_of(self._released_event(priced.event))
        return AttackResult(
            epsilon=epsilon / 2 if self.sabotage == "charge" else epsilon,
            delta=delta,
            adjacency=str(priced.aggregator.adjacency),
            lower_bound=lower_bound,
            lower_bound_any=guesses.least_epsilon(delta, confidence=self.confidence),
            confidence=self.confidence,
            num_canaries=guesses.num_canaries,
            num_guesses=guesses.num_guesses,
            num_correct=guesses.num_correct,
            unit="record" if self.of_records else "teacher",
            aggregator=type(priced.aggregator).__name__,
            sabotage=self.sabotage,
            tune_runs=None if self.run_count is None else self.run_count.mean,
            seconds=time.monotonic() - start_time,
        )


def _total_certainty(estimate: FloatArray) -> float:
    """Returns how surely an estimate tells of all coins together: the sum of its sizes."""
    return float(np.abs(estimate).sum())


def _epsilon_for(
    mu_factor: float, accountant_at: Callable[[float], Accountant], delta: float
) -> float:
    """Returns the epsilon of a release whose mu is multiplied by a factor, which is counted up to 16 alone.

    Args:
        mu_factor: the factor, >= 0; infinity for a release without noise.
        accountant_at: returns the accountant of the release after its noise is multiplied by a factor > 0.
        delta: the delta of the epsilon.
    """
    if mu_factor <= 0:
        return 0.0
    noise_factor = 1 / min(mu_factor, _LARGEST_FACTOR)
    while noise_factor < 1:
        try:
            return accountant_at(noise_factor).get_epsilon(delta)
        except InvalidValue:  # so little noise that no accountant has a price
            noise_factor = min(2 * noise_factor, 1.0)
    return accountant_at(noise_factor).get_epsilon(delta)
