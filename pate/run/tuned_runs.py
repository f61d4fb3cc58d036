"""The public facts of a tuned release, the best of a secret number of runs: the runs that competed, and its price."""

from dataclasses import dataclass, field

from pate.accounting import Event, NoOpEvent, TruncatedNegativeBinomial, tuning_event
from pate.accounting.budget import Budget
from pate.report.tuning import Tuning


@dataclass(frozen=True, kw_only=True)
class TunedRuns:
    """The runs of which a tuned release is the best, as far as they are public.

    The number of runs that took place is no part of it: that number is secret (docs/proofs/tuning.md).

    Attributes:
        base_event: the price of one run, whatever its settings.
        run_count_distribution: the distribution of the number of runs.
        num_candidates: the number of settings that competed.
        score_event: the price of the score of one run for the people in the private records; `NoOpEvent` if only other
            people, those in the test records, pay for it.
    """

    base_event: Event
    run_count_distribution: TruncatedNegativeBinomial
    num_candidates: int
    score_event: Event = field(default_factory=NoOpEvent)

    @property
    def event(self) -> Event:
        """The price of publishing the best run, for the people in the private records, whatever the number of runs."""
        return tuning_event(
            base=self.base_event, score=self.score_event, distribution=self.run_count_distribution
        )

    def statement(self, budget: Budget) -> Tuning:
        """Returns the published statement of the tuning.

        Args:
            budget: the budget of the release, whose delta and accountant give the epsilon of one run.
        """
        return Tuning(
            eta=self.run_count_distribution.eta,
            gamma=self.run_count_distribution.gamma,
            mean_runs=round(self.run_count_distribution.mean, 6),
            num_candidates=self.num_candidates,
            run_epsilon=budget.epsilon_of(self.base_event),
        )
