"""The published statement that a release is the best of a secret number of runs (`pate.accounting.TuningEvent`)."""

from __future__ import annotations

from dataclasses import dataclass

from pate.accounting.rounding import format_epsilon
from pate.validation import require, require_count, require_non_negative


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The public facts of a tuned release, by which its price can be computed again. All of them may be published.

    The number of runs has a truncated negative binomial distribution, and is secret.

    Attributes:
        eta: the shape of the distribution, > -1.
        gamma: the other parameter of the distribution, in (0, 1); the smaller it is, the more runs are expected.
        mean_runs: the expected number of runs, >= 1.
        num_candidates: the number of settings that competed.
        run_epsilon: the epsilon of one run; infinity without noise.
    """

    eta: float
    gamma: float
    mean_runs: float
    num_candidates: int
    run_epsilon: float

    def __post_init__(self) -> None:
        require(self.eta > -1, "tuning.eta", self.eta, "a number > -1")
        require(0 < self.gamma < 1, "tuning.gamma", self.gamma, "a number in (0, 1)")
        require(self.mean_runs >= 1, "tuning.mean_runs", self.mean_runs, "a number >= 1")
        require_count("tuning.num_candidates", self.num_candidates)
        if self.run_epsilon != float("inf"):
            require_non_negative("tuning.run_epsilon", self.run_epsilon)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The facts as rows (name, text): the competing settings, the distribution of runs, the epsilon of one run."""
        return [
            ("settings that competed", str(self.num_candidates)),
            (
                "runs of which this is the best",
                f"a secret random number, {self.mean_runs:g} expected (truncated negative binomial, "
                f"eta {self.eta:g}, gamma {self.gamma:g})",
            ),
            ("epsilon of one run, not of this release", format_epsilon(self.run_epsilon)),
        ]
