"""The price of a release, as reports and cards print it.

Epsilon and delta are rounded up, so that no printed bound is too small.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pate.accounting.attack_bounds import AttackBounds
from pate.accounting.rounding import format_delta, format_epsilon
from pate.pricing.guard import WEAK_EPSILON
from pate.report.released_scores import ReleasedScores
from pate.report.tuning import Tuning
from pate.report.wording import ADJACENCY_NAMES, SEEDED_WARNING
from pate.validation import require, require_count

# The type of a public parameter.
Scalar = str | int | float | bool | None

# The fields of `Privacy` that are None or a number >= 0.
_NONE_OR_NON_NEGATIVE = (
    "paper_epsilon",
    "failure_prob",
    "max_gap",
    "gap_at_50",
    "gap_at_95",
    "target_hits",
    "plain_epsilon",
)

NUM_LABELED_AT_START = "num_public_labels"
"""The name of the parameter that says with the labels of how many public rows the student began."""


def guarantee_line(epsilon: float, delta: float, *, adjacency: str, unit: str) -> str:
    """Returns a guarantee in one line, with epsilon and delta rounded up; infinity is called no guarantee.

    Args:
        epsilon: the bound.
        delta: the delta at which the bound holds.
        adjacency: the adjacency of the bound.
        unit: the unit of privacy, in words.

    >>> guarantee_line(0.99, 1e-6, adjacency="replace_one", unit="one row")
    'epsilon <= 0.9900 at delta = 1e-6 (replace_one, unit: one row)'
    """
    terms = f"{adjacency}, unit: {unit}"
    if math.isinf(epsilon):
        return f"no guarantee: epsilon is infinite ({terms})"
    return f"epsilon <= {format_epsilon(epsilon)} at delta = {format_delta(delta)} ({terms})"


@dataclass(frozen=True)
class EarlierPrice:
    """The price of an earlier release that a release started from, as that release states it.

    Attributes:
        sha256: the digest of the manifest of the earlier release, which lists the digests of its files.
        epsilon: the epsilon that the earlier release states for its own people; infinity means no guarantee.
        delta: the delta at which `epsilon` holds.
    """

    sha256: str
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        require(self.epsilon >= 0, "start.epsilon", self.epsilon, "a number >= 0 or infinity")
        require(0 <= self.delta < 1, "start.delta", self.delta, "a number in [0, 1)")

    @property
    def text(self) -> str:
        """The earlier release and its price, and who pays for which release, in two sentences."""
        epsilon = "infinite" if math.isinf(self.epsilon) else format_epsilon(self.epsilon)
        return (
            f"The student started from an earlier release (SHA-256 {self.sha256}), which states epsilon {epsilon} at "
            f"delta {format_delta(self.delta)}. Each person pays for the releases that hold their own records: once, "
            "unless they are in both."
        )


@dataclass(frozen=True)
class Privacy:
    """The price of a drawn release, in its report. It is a guarantee that depends on neither votes nor noise.

    All fields may be published; `PrivacyStatement` is the form in which they are written to a file. A `PricedRelease`
    is a release that is planned and not drawn yet. A `Quote` explains the price of a planned release.

    For a mechanism with a stability test, the gap of a query is the lead of the selected labels over the others, in
    votes. A larger gap passes the test with a larger probability.

    Attributes:
        epsilon: the bound, >= 0; infinity means no guarantee and is written as `"inf"`.
        delta: the delta at which `epsilon` holds, in [0, 1), failure probabilities included.
        adjacency: `replace_one` or `add_remove`.
        unit: the private records that one change replaces together, in words.
        accountant: the name of the accountant.
        mechanism: the name of the aggregator's class.
        num_queries: the number of queries that were priced, refused ones included.
        paper_epsilon: epsilon by the paper's own accounting, no bound; None if the paper has no formula.
        noise_seeded: whether the noise came from a seed; then whoever knows the seed can remove the noise.
        failure_prob: the part of `delta` that the mechanism itself uses up over all queries and draws; 0 or None if it
            uses none.
        max_gap: the largest gap that the teachers can make; None for a mechanism without a stability test.
        gap_at_50: the smallest gap that passes the stability test with probability 0.5 or more; None if no gap does.
        gap_at_95: the smallest gap that passes the stability test with probability 0.95 or more; None if no gap does.
        parameters: the mechanism's public parameters by name.
        target_hits: the number of hits, queries that are paid for, after which the session of a mechanism charged by
            hits halts; None for others.
        plain_epsilon: for such a mechanism, epsilon at `delta` of all draws of the asked queries under plain
            composition. Infinity if the failure probabilities of plain composition alone exceed `delta`. None for
            others.
        won_by: the accountant that computed `epsilon`, if `accountant` takes the minimum of several; otherwise None.
        classes: the epsilon of each class of groups with a budget of its own, none above `epsilon`; empty without such
            classes.
        unit_columns: the columns whose values make a unit; empty if no column does, or if it is not known.
        attacks: upper bounds on the success of attacks on the release; None for an infinite epsilon, and in reports of
            earlier versions.
        scores: the scores on test records, released at a price of their own; None where none were released.
        start: the price of the earlier release that this one started from, as its folder states it; None for none.
        tuning: the tuning whose best run the release is; None for a release that was not tuned.
    """

    epsilon: float
    delta: float
    adjacency: str
    unit: str
    accountant: str
    mechanism: str
    num_queries: int
    paper_epsilon: float | None = None
    noise_seeded: bool = False
    failure_prob: float | None = None
    max_gap: int | None = None
    gap_at_50: float | None = None
    gap_at_95: float | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    target_hits: int | None = None
    plain_epsilon: float | None = None
    won_by: str | None = None
    classes: Mapping[str, float] = field(default_factory=dict)
    unit_columns: tuple[str, ...] = ()
    attacks: AttackBounds | None = None
    scores: ReleasedScores | None = None
    start: EarlierPrice | None = None
    tuning: Tuning | None = None

    def __post_init__(self) -> None:
        require(self.epsilon >= 0, "privacy.epsilon", self.epsilon, "a number >= 0 or infinity")
        require(0 <= self.delta < 1, "privacy.delta", self.delta, "a number in [0, 1)")
        require_count("privacy.num_queries", self.num_queries, minimum=0)
        for field_name in _NONE_OR_NON_NEGATIVE:
            number = getattr(self, field_name)
            require(
                number is None or number >= 0,
                f"privacy.{field_name}",
                number,
                "a number >= 0 or None",
            )

    @property
    def guarantee(self) -> str:
        """The guarantee in one line, with epsilon and delta rounded up; an infinite epsilon is called no guarantee."""
        bound = guarantee_line(self.epsilon, self.delta, adjacency=self.adjacency, unit=self.unit)
        if self.classes and math.isfinite(self.epsilon):
            return f"{bound}; by class: {self.class_epsilons}"
        return bound

    @property
    def weak_epsilon_warning(self) -> str:
        """A warning that a large epsilon protects a single person little; empty for a small or an infinite epsilon."""
        if WEAK_EPSILON < self.epsilon < math.inf:
            return f"epsilon above {WEAK_EPSILON} promises one person little"
        return ""

    @property
    def class_epsilons(self) -> str:
        """The epsilon of each budget class, rounded up, in one line."""
        return ", ".join(
            f"{class_name} {format_epsilon(class_epsilon)}"
            for class_name, class_epsilon in self.classes.items()
        )

    @property
    def accountant_text(self) -> str:
        """The name of the accountant; if it compares several accountants, also the one with the least price."""
        if self.won_by is None:
            return self.accountant
        return f"{self.accountant} (here that of {self.won_by})"

    @property
    def charging_sentence(self) -> str:
        """A text on whether charging by hits costs less than plain composition of the queries that were asked.

        It is empty for a mechanism that is not charged by hits.
        """
        if self.plain_epsilon is None:
            return ""
        cost_by_plain_composition = format_epsilon(self.plain_epsilon)
        charged = format_epsilon(self.epsilon)
        if self.plain_epsilon <= self.epsilon:
            verdict = f"does not pay: plain composition costs less, {cost_by_plain_composition} instead of {charged}"
        else:
            verdict = (
                f"pays: plain composition costs {cost_by_plain_composition} instead of {charged}"
            )
        return f"{verdict} for the queries that were asked, with the same noise"

    @property
    def terms(self) -> list[tuple[str, str]]:
        """The price and its terms, as rows (name, text); all of it may be published."""
        epsilon_text = format_epsilon(self.epsilon)
        if math.isinf(self.epsilon):
            epsilon_text = "infinite: no guarantee"
        adjacency_text = self.adjacency
        if adjacency_text in ADJACENCY_NAMES:
            adjacency_text += f" ({ADJACENCY_NAMES[adjacency_text]})"
        noise_text = "ChaCha20, from the operating system's entropy"
        if self.noise_seeded:
            noise_text = f"seeded: {SEEDED_WARNING}"
        rows = [("epsilon", epsilon_text)]
        if self.classes:
            rows.append(("epsilon of each budget class", self.class_epsilons))
        rows += [
            ("delta", format_delta(self.delta)),
            ("adjacency", adjacency_text),
            ("unit of privacy", self.unit),
            ("accountant", self.accountant_text),
            ("queries priced", str(self.num_queries)),
            ("noise", noise_text),
        ]
        if self.attacks is not None:
            rows += self.attacks.rows
        if self.tuning is not None:
            rows += self.tuning.rows
        if self.plain_epsilon is not None:
            cost_by_plain_composition = format_epsilon(self.plain_epsilon)
            rows.append(
                ("what plain composition would cost, not this release", cost_by_plain_composition)
            )
            rows.append(("target charging", self.charging_sentence))
        if self.failure_prob is not None:
            rows.append(("failure probability, within delta", format_delta(self.failure_prob)))
        return rows

    def mechanism_rows(
        self, aggregator_name: str | None = None, *, digits: int | None = None
    ) -> list[tuple[str, str]]:
        """Returns the mechanism and its public parameters as rows (name, text); all of it may be published.

        Args:
            aggregator_name: the name of the aggregator in the configuration; None shows the name of its class alone.
            digits: the number of significant digits; None prints all digits, which are needed to check the price.
        """
        rows = []
        if aggregator_name and aggregator_name != self.mechanism:
            rows.append(("aggregator", aggregator_name))
        rows.append(("mechanism", self.mechanism))
        for parameter_name, parameter in self.parameters.items():
            parameter_text = str(parameter)
            if digits and isinstance(parameter, float):
                parameter_text = f"{parameter:.{digits}g}"
            rows.append((f"mechanism.{parameter_name}", parameter_text))
        # All three are None for a mechanism without a stability test.
        if self.max_gap is not None or self.gap_at_50 is not None:
            rows.append(("gap that passes with probability 50%", self._gap_text(self.gap_at_50)))
        if self.max_gap is not None or self.gap_at_95 is not None:
            rows.append(("gap that passes with probability 95%", self._gap_text(self.gap_at_95)))
        return rows

    def _gap_text(self, gap: float | None) -> str:
        """Returns the smallest gap that passes the stability test with some probability, as a number of votes.

        For None, the text says that not even `max_gap`, the largest possible gap, passes with this probability.
        """
        if gap is None:
            return f"no gap of {self.max_gap} votes passes"
        return f"{gap:g} votes"
