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
from pate.auditing.attack.aligned_sums import AlignedSums, CoinEvidence, linear_estimate
from pate.auditing.attack.guesses import Guesses
from pate.auditing.attack.records import RecordAttack, Signs, draw_signs
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

# The parts of a release that an attack can break on purpose.
SABOTAGE = ("noise", "clip", "charge", "features", "seed")
# The factor of the noise with `sabotage="noise"`.
_SABOTAGED_NOISE_FACTOR = 0.1
# The number of teachers that vote like each canary with `sabotage="clip"`.
_SABOTAGED_TEACHERS_PER_CANARY = 4
# The number of guesses, as a multiple of the root of the number of coins. The lower bound was highest at this multiple
# for 1,000 to 20,000 Gaussian coins.
_GUESSES_PER_ROOT = 6.0
# The number of canaries in each run, unless the caller passes another or there are too few groups or teachers.
_NUM_CANARIES = 1000
# The divisors of smaller numbers of canaries that are tried. The votes of canaries are noise to each other.
_CANARY_DIVISORS = (1, 4, 16)
# The largest factor of mu whose price is computed. Prices of much larger factors take minutes.
_MAX_MU_FACTOR = 16.0
# The smallest number of private groups or of teachers. Half of the groups, or an eighth of the teachers, may be
# canaries. The number is a choice. By default 400 groups have 160 coins in 4 runs, and 400 teachers at most 200. If all
# guesses about them are right, `lower_bound_any` is 3.2 for groups and 3.3 for teachers, at delta 1e-6.
_MIN_UNITS = 400


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """The result of an attack. No epsilon covers the result, so it must not be published.

    Attributes:
        epsilon: the price that the release claims.
        delta: the delta of all epsilons of this result.
        adjacency: the adjacency of the price.
        lower_bound: the largest epsilon that the attack refutes, among the prices of this kind of release with more or
            less noise. For `CenteredVotes` it follows from the distribution of the noisy sums, and for other
            aggregators from the number of correct guesses. For the best of several tuning runs of `CenteredVotes` it is
            the larger one of both bounds.
        lower_bound_any: the largest epsilon that the guesses refute, for any mechanism.
        confidence: the confidence of each of the two lower bounds.
        num_canaries: the number of canaries in all repetitions of the attack (`Attack.num_runs`); each has one coin.
        num_guesses: the number of coins that were guessed: those of the most certain guesses.
        num_correct: the number of correct guesses.
        unit: the unit that a canary replaces: a "record", with its whole group, or a "teacher".
        aggregator: the name of the aggregator's class.
        sabotage: the part of the release that was broken on purpose; None for none.
        tune_runs: the expected number of tuning runs, of which each release is the best; None without tuning.
        seconds: the duration of the attack.
    """

    epsilon: float
    delta: float
    adjacency: str
    lower_bound: float
    lower_bound_any: float
    confidence: float
    num_canaries: int
    num_guesses: int
    num_correct: int
    unit: str
    aggregator: str
    sabotage: str | None
    tune_runs: float | None
    seconds: float

    @property
    def refuted(self) -> bool:
        """Whether the attack refutes the price of the release: `lower_bound` exceeds `epsilon`."""
        return self.lower_bound > self.epsilon

    def to_json(self) -> dict[str, Any]:
        """Returns a dictionary of all fields and of `refuted`, for JSON."""
        return asdict(self) | {"refuted": self.refuted}


@dataclass(frozen=True, kw_only=True, eq=False)  # compared by identity, as its parts are
class Attack:
    """An attack that plants canaries, draws a release, and guesses the variant of each canary from the release.

    A canary is an artificial record or teacher in one of two variants, which a fair coin of its own chooses.

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
        num_canaries: the number of canaries in each repetition. None for 1,000, but at most a tenth of the groups or an
            eighth of the teachers. For aggregators that read counts, None also tries smaller numbers of canary
            teachers, with more repetitions, because the votes of canaries disturb the guesses about other canaries.
        num_runs: the number of repetitions, each with new coins and a release of its own. If fewer canaries are chosen,
            there are more repetitions.
        confidence: the confidence of the lower bounds, in (0, 1).
        sabotage: the part of the release that is broken on purpose, a member of `SABOTAGE`; None for none.
        run_count: the distribution of the secret number of tuning runs, of which the best one is released, as
            `tune=true` does; None without tuning. The best run is that with the most certain estimate of the coins.
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
        for setting_name in ("num_queries", "num_teachers", "num_runs"):
            require_count(setting_name, getattr(self, setting_name))
        if self.num_canaries is not None:
            require_count("num_canaries", self.num_canaries)
        require_probability("confidence", self.confidence)
        if self.aggregator.adjacency is not Adjacency.REPLACE_ONE:
            rule = "replace_one: a canary is replaced, which add_remove counts as two changes"
            raise InvalidValue("adjacency", self.aggregator.adjacency, rule=rule)
        if self.run_count is not None and not self.of_records:
            rule = "null, except with aggregator=centered_votes"
            raise InvalidValue("tune_runs", self.run_count.mean, rule=rule)
        if self.sabotage is not None:
            require_choice("sabotage", self.sabotage, choices=SABOTAGE)
        if self.sabotage in ("features", "seed") and not self.of_records:
            rule = "noise, clip or charge, but for aggregator=centered_votes"
            raise InvalidValue("sabotage", self.sabotage, rule=rule)

    @property
    def of_records(self) -> bool:
        """Whether canaries are records, and not teachers."""
        return isinstance(self.aggregator, CenteredVotes)

    @all_cores()
    def run(self, dataset: Dataset, monitor: Monitor | None = None) -> AttackResult:
        """Plants the canaries, draws a release in each repetition, guesses the coins, and returns the result.

        Args:
            dataset: the private and public records.
            monitor: receives the progress of the attack; None for no reports.

        Raises:
            InvalidValue: there are too few groups or teachers, or no noise meets the budget.
        """
        start_time = time.monotonic()
        monitor = monitor or Monitor()
        num_units = self.num_teachers
        if self.of_records:
            num_units = require_dataset(dataset).private.num_groups
        parameter = "private.num_groups" if self.of_records else "num_teachers"
        rule = f"at least {_MIN_UNITS} private groups or teachers for canaries among them"
        require(num_units >= _MIN_UNITS, parameter, num_units, rule)
        vote_shape = VoteShape(
            num_queries=self.num_queries, num_labels=dataset.num_labels, num_teachers=num_units
        )
        priced_release = self._priced_run(vote_shape)
        num_canaries = self._num_canaries_among(num_units)
        streams = RandomStreams.from_secret() if self.seed is None else RandomStreams(self.seed)
        rng = streams.generator("noise")
        with monitor.stage("looking for the most telling votes"):
            guesser = self._guesser(
                priced_release,
                dataset=dataset,
                vote_shape=vote_shape,
                num_canaries=num_canaries,
                rng=rng,
            )
        coin_signs_of_runs: list[Signs] = []
        scores_of_runs: list[FloatArray] = []
        aligned_sums = AlignedSums()
        num_runs = self.num_runs * (num_canaries // guesser.num_canaries)
        with monitor.stage("rehearsing the release", num_runs) as advance:
            for run_number in range(num_runs):
                coin_signs = draw_signs(rng, size=guesser.num_canaries)
                if isinstance(guesser, RecordAttack):
                    run_scores, evidence_of_first_run = self._surest_estimate(
                        guesser, coin_signs=coin_signs, rng=rng
                    )
                    aligned_sums.add_run(
                        evidence_of_first_run, coin_signs=coin_signs.astype(np.float64)
                    )
                else:
                    run_scores = guesser.guess(coin_signs=coin_signs, rng=rng)
                coin_signs_of_runs.append(coin_signs)
                scores_of_runs.append(run_scores)
                advance(run_number + 1)
        with monitor.stage("searching the price that they refute"):
            return self._result(
                priced_release,
                coin_signs=np.concatenate(coin_signs_of_runs),
                guess_scores=np.concatenate(scores_of_runs),
                aligned_sums=aligned_sums,
                start_time=start_time,
            )

    def _num_canaries_among(self, num_units: int) -> int:
        """Returns the largest number of canaries in a repetition; raises `InvalidValue` if too many are asked for.

        Args:
            num_units: the number of private groups, or of teachers.
        """
        if self.of_records:
            max_canaries = num_units // 2
            default = min(_NUM_CANARIES, num_units // 10)
        else:
            max_canaries = num_units // 8
            default = min(_NUM_CANARIES, max_canaries)
        num_canaries = default if self.num_canaries is None else self.num_canaries
        rule = f"at most {max_canaries} of {num_units}"
        require(num_canaries <= max_canaries, "num_canaries", num_canaries, rule)
        return num_canaries

    def _guesser(
        self,
        priced_release: PricedRelease,
        *,
        dataset: Dataset,
        vote_shape: VoteShape,
        num_canaries: int,
        rng: np.random.Generator,
    ) -> RecordAttack | TeacherAttack:
        """Returns the attack of one repetition: a `RecordAttack` for `CenteredVotes`, else a `TeacherAttack`.

        Args:
            priced_release: the release of one tuning run, or the only one.
            dataset: the private and public records.
            vote_shape: the numbers of queries, labels and teachers.
            num_canaries: the largest number of canaries in each repetition.
            rng: draws the simulated releases by which a `TeacherAttack` chooses votes.
        """
        aggregator = priced_release.aggregator
        if self.sabotage == "noise":
            aggregator = aggregator.scaled(_SABOTAGED_NOISE_FACTOR)
        if isinstance(aggregator, CenteredVotes):
            return RecordAttack(
                aggregator=aggregator,
                dataset=dataset,
                num_canaries=num_canaries,
                num_queries=self.num_queries,
                sabotage=self.sabotage,
            )
        canary_counts = [num_canaries]
        if self.num_canaries is None and aggregator.reads_counts:
            canary_counts = [num_canaries // divisor for divisor in _CANARY_DIVISORS]
        return TeacherAttack.rehearse(
            aggregator,
            shape=vote_shape,
            canary_counts=canary_counts,
            teachers_per_canary=_SABOTAGED_TEACHERS_PER_CANARY if self.sabotage == "clip" else 1,
            rng=rng,
        )

    def _priced_run(self, vote_shape: VoteShape) -> PricedRelease:
        """Returns the plan of one tuning run, with noise at which the budget pays for the best of all tuning runs.

        Without `run_count` there is one run, and the budget pays for it. With it, no run gets less than a sixteenth of
        the budget's epsilon; the best of such runs may cost more than the budget.
        """
        if self.run_count is None:
            return plan_release(self.aggregator, shape=vote_shape, budget=self.budget)

        def run_at(epsilon: float) -> PricedRelease:
            """Returns the release of one tuning run at an epsilon."""
            run_budget = replace(self.budget, epsilon=epsilon)
            return plan_release(self.aggregator, shape=vote_shape, budget=run_budget)

        def make_event_of_best(epsilon: float) -> Event:
            """Returns the price of the best tuning run, if each of these runs has the epsilon."""
            return self._event_of_best(run_at(epsilon).event)

        return run_at(epsilon_of_one_run(make_event_of_best, self.budget))

    def _event_of_best(self, run_event: Event) -> Event:
        """Returns the price of the release, from the price of one tuning run.

        The release is the best of a secret number of tuning runs, or one run without `run_count`.
        """
        if self.run_count is None:
            return run_event
        return tuning_event(base=run_event, score=NoOpEvent(), distribution=self.run_count)

    def _surest_estimate(
        self, guesser: RecordAttack, *, coin_signs: Signs, rng: np.random.Generator
    ) -> tuple[FloatArray, list[CoinEvidence]]:
        """Draws the tuning runs of one release; returns the surest run's estimate of coins, and the first run's sums.

        The surest run has the estimate with the largest sum of absolute values. The sums of the first run are those of
        a run that was chosen without regard to its outcome, so their noise has its usual distribution. The price of the
        best run covers the first run too, as it covers the best run by any score (docs/proofs/attack.md).

        Args:
            guesser: draws a run.
            coin_signs: the coin of each canary, 1 or -1, `[m]`.
            rng: draws the canaries, the number of runs and the noise.

        Returns:
            The estimate, `[m]`, and one `CoinEvidence` for each sum of the first run.
        """
        canaries = guesser.draw_canaries(rng)
        num_runs = 1 if self.run_count is None else self.run_count.draw(rng)
        evidence_of_first_run = guesser.draw_evidence(canaries, coin_signs=coin_signs, rng=rng)
        run_estimates = [linear_estimate(evidence_of_first_run)]
        for _ in range(num_runs - 1):
            evidence_of_run = guesser.draw_evidence(canaries, coin_signs=coin_signs, rng=rng)
            run_estimates.append(linear_estimate(evidence_of_run))
        return max(run_estimates, key=_certainty), evidence_of_first_run

    def _result(
        self,
        priced_release: PricedRelease,
        *,
        coin_signs: Signs,
        guess_scores: FloatArray,
        aligned_sums: AlignedSums,
        start_time: float,
    ) -> AttackResult:
        """Returns the result of the attack, from the guesses with the largest absolute scores.

        The number of guesses depends on the number of coins alone.

        Args:
            priced_release: the release and its price.
            coin_signs: 1 or -1 for each canary of all repetitions, `[m]` for m canaries in all.
            guess_scores: the score of each canary: its sign is the guess, its size the confidence, `[m]`.
            aligned_sums: the sums with noise, projected onto their shift by the coins; empty if canaries are teachers.
            start_time: the time at which the attack started, by `time.monotonic`.
        """
        num_guesses = min(len(coin_signs), round(_GUESSES_PER_ROOT * math.sqrt(len(coin_signs))))
        surest_canaries = np.argsort(-np.abs(guess_scores), kind="stable")[:num_guesses]
        is_correct = (guess_scores > 0) == (coin_signs > 0)
        guesses = Guesses(
            num_canaries=len(coin_signs),
            num_guesses=num_guesses,
            num_correct=int(is_correct[surest_canaries].sum()),
        )

        def run_event(noise_factor: float) -> Event:
            """Returns the price of one tuning run, as an event, with the aggregator's noise multiplied by a factor."""
            return priced_release.aggregator.scaled(noise_factor).event(priced_release.shape)

        def run_accountant(noise_factor: float) -> Accountant:
            """Returns the accountant of one tuning run, with the aggregator's noise multiplied by a factor."""
            return self.budget.accountant().compose(run_event(noise_factor))

        def release_accountant(noise_factor: float) -> Accountant:
            """Returns the accountant of the release, with the noise of each tuning run multiplied by a factor."""
            event = self._event_of_best(run_event(noise_factor))
            return self.budget.accountant().compose(event)

        delta = self.budget.delta
        # Two bounds at half of the error each hold together.
        confidence = self.confidence if self.run_count is None else (1 + self.confidence) / 2
        lower_bound = 0.0
        if isinstance(priced_release.aggregator, CenteredVotes):
            least_mu = aligned_sums.least_mu(confidence=confidence)
            claimed_mu = 1 / priced_release.aggregator.votes_multiplier
            lower_bound = _epsilon_of_mu_factor(
                least_mu / claimed_mu,
                accountant_at_noise_factor=run_accountant,
                delta=delta,
            )
        if self.run_count is not None or not isinstance(priced_release.aggregator, CenteredVotes):
            bound_by_guesses = guesses.least_price(
                release_accountant, target_delta=delta, confidence=confidence
            )
            lower_bound = max(lower_bound, bound_by_guesses)
        epsilon = priced_release.epsilon
        if self.run_count is not None:
            epsilon = self.budget.epsilon_of(self._event_of_best(priced_release.event))
        if self.sabotage == "charge":
            epsilon = epsilon / 2
        return AttackResult(
            epsilon=epsilon,
            delta=delta,
            adjacency=str(priced_release.aggregator.adjacency),
            lower_bound=lower_bound,
            lower_bound_any=guesses.least_epsilon(delta, confidence=self.confidence),
            confidence=self.confidence,
            num_canaries=guesses.num_canaries,
            num_guesses=guesses.num_guesses,
            num_correct=guesses.num_correct,
            unit="record" if self.of_records else "teacher",
            aggregator=type(priced_release.aggregator).__name__,
            sabotage=self.sabotage,
            tune_runs=None if self.run_count is None else self.run_count.mean,
            seconds=time.monotonic() - start_time,
        )


def _certainty(coin_estimate: FloatArray) -> float:
    """Returns the certainty of an estimate of all coins together: the sum of its absolute values."""
    return float(np.abs(coin_estimate).sum())


def _epsilon_of_mu_factor(
    mu_factor: float, *, accountant_at_noise_factor: Callable[[float], Accountant], delta: float
) -> float:
    """Returns the epsilon of a release whose mu is multiplied by a factor; a factor above 16 counts as 16.

    The noise is divided by the factor. Where no accountant has a price for so little noise, the factor is halved until
    one has, down to 1. The epsilon is 0 for the factor 0.

    Args:
        mu_factor: the factor, >= 0; infinity for a release without noise.
        accountant_at_noise_factor: returns the accountant of the release after its noise is multiplied by a factor > 0.
        delta: the delta of the epsilon.
    """
    if mu_factor <= 0:
        return 0.0
    noise_factor = 1 / min(mu_factor, _MAX_MU_FACTOR)
    while noise_factor < 1:
        try:
            return accountant_at_noise_factor(noise_factor).get_epsilon(delta)
        except InvalidValue:  # so little noise that no accountant has a price
            noise_factor = min(2 * noise_factor, 1.0)
    return accountant_at_noise_factor(noise_factor).get_epsilon(delta)
