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

Scalar = str | int | float | bool | None

NUM_PUBLIC_LABELS = "num_public_labels"
"""The parameter of a release that says how many public rows have labels at which the student began."""

_OPTIONAL = (
    "paper_epsilon",
    "failure_prob",
    "max_gap",
    "gap_at_50",
    "gap_at_95",
    "target_hits",
    "plain_epsilon",
)


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
    """The price of an earlier release that a release started from, as that release states it."""

    sha256: str  # of the manifest of the earlier release, which lists the digests of its files
    epsilon: float  # what the people of the earlier release paid, by its own statement; infinity means no guarantee
    delta: float  # the delta at which `epsilon` holds

    def __post_init__(self) -> None:
        require(self.epsilon >= 0, "start.epsilon", self.epsilon, "a number >= 0 or infinity")
        require(0 <= self.delta < 1, "start.delta", self.delta, "a number in [0, 1)")

    @property
    def sentence(self) -> str:
        """The facts in two sentences: what the release started from, and who pays what."""
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
    """

    epsilon: float  # bound, >= 0; infinity means no guarantee and is written as `"inf"`
    delta: float  # the delta at which `epsilon` holds, in [0, 1), failure probabilities included
    adjacency: str  # `replace_one` or `add_remove`
    unit: str  # the private records that one change replaces together, in words
    accountant: str  # name of the accountant
    mechanism: str  # name of the aggregator
    num_queries: int  # queries that were priced, refused ones included
    # epsilon by the paper's own accounting, no bound; None if it has no formula
    paper_epsilon: float | None = None
    # whether the noise came from a seed, which protects nobody who knows the seed
    noise_seeded: bool = False
    # share of `delta` that the mechanism itself uses up over all queries, or None
    failure_prob: float | None = None
    # the largest gap that the teachers can make, in votes, for a mechanism with a stability test, or None
    max_gap: int | None = None
    # the gap that passes the stability test with probability 1/2, in votes; None if no gap does
    gap_at_50: float | None = None
    gap_at_95: float | None = None  # the gap that passes with probability 0.95
    # the mechanism's public parameters by name
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    # hits after which the session of a charged mechanism halts, or None
    target_hits: int | None = None
    # epsilon at `delta` of plain composition of the queries that were asked, for a charged mechanism, or None.
    # Infinity if its failure probabilities alone exceed `delta`.
    plain_epsilon: float | None = None
    # the accountant whose figure `epsilon` is, if `accountant` takes the least of several; otherwise None
    won_by: str | None = None
    # the epsilon of each class of groups with a budget of its own, none above `epsilon`; empty without such classes
    classes: Mapping[str, float] = field(default_factory=dict)
    # the columns whose values make a unit; empty if no column does, or it is not known
    unit_columns: tuple[str, ...] = ()
    # the most that attacks find in the release; None for an infinite epsilon, and in reports of earlier versions
    attacks: AttackBounds | None = None
    # the scores on test records, which were released at a price of their own; None where none were
    scores: ReleasedScores | None = None
    # the price of the earlier release that this one started from, as its folder states it; None where there is none
    start: EarlierPrice | None = None
    # the runs of which the release is the best; None for a release that was not tuned
    tuning: Tuning | None = None

    def __post_init__(self) -> None:
        require(self.epsilon >= 0, "privacy.epsilon", self.epsilon, "a number >= 0 or infinity")
        require(0 <= self.delta < 1, "privacy.delta", self.delta, "a number in [0, 1)")
        require_count("privacy.num_queries", self.num_queries, minimum=0)
        for name in _OPTIONAL:
            value = getattr(self, name)
            require(value is None or value >= 0, f"privacy.{name}", value, "a number >= 0 or None")

    @property
    def guarantee(self) -> str:
        """The guarantee in one line, with epsilon and delta rounded up; an infinite epsilon is called no guarantee."""
        bound = guarantee_line(self.epsilon, self.delta, adjacency=self.adjacency, unit=self.unit)
        has_classes = self.classes and math.isfinite(self.epsilon)
        return f"{bound}; by class: {self.of_classes}" if has_classes else bound

    @property
    def weakness(self) -> str:
        """A warning that a large epsilon protects a single person little; empty for a small or an infinite epsilon."""
        is_weak = WEAK_EPSILON < self.epsilon < math.inf
        return f"epsilon above {WEAK_EPSILON} promises one person little" if is_weak else ""

    @property
    def of_classes(self) -> str:
        """The epsilon of each budget class, rounded up, in one line."""
        return ", ".join(
            f"{name} {format_epsilon(epsilon)}" for name, epsilon in self.classes.items()
        )

    @property
    def asked_accountant(self) -> str:
        """The name of the accountant; if it took the least of several prices, also whose price was the least."""
        if self.won_by is None:
            return self.accountant
        return f"{self.accountant} (here that of {self.won_by})"

    @property
    def charging(self) -> str:
        """A sentence on whether charging by hits gave a smaller price; empty for other mechanisms."""
        if self.plain_epsilon is None:
            return ""
        verdict = "pays: plain composition costs"
        if self.plain_epsilon <= self.epsilon:
            verdict = "does not pay: plain composition costs less,"
        plain = format_epsilon(self.plain_epsilon)
        charged = format_epsilon(self.epsilon)
        return f"{verdict} {plain} instead of {charged} for the queries that were asked, with the same noise"

    @property
    def terms(self) -> list[tuple[str, str]]:
        """The epsilon, the delta, and what they are for, as rows (name, text); all of it may be published."""
        is_infinite = math.isinf(self.epsilon)
        epsilon = "infinite: no guarantee" if is_infinite else format_epsilon(self.epsilon)
        meaning = ADJACENCY_NAMES.get(self.adjacency)
        adjacency = f"{self.adjacency} ({meaning})" if meaning else self.adjacency
        noise = "ChaCha20, from the operating system's entropy"
        if self.noise_seeded:
            noise = f"seeded: {SEEDED_WARNING}"
        rows = [("epsilon", epsilon)]
        if self.classes:
            rows.append(("epsilon of each budget class", self.of_classes))
        rows += [
            ("delta", format_delta(self.delta)),
            ("adjacency", adjacency),
            ("unit of privacy", self.unit),
            ("accountant", self.asked_accountant),
            ("queries priced", str(self.num_queries)),
            ("noise", noise),
        ]
        if self.attacks is not None:
            rows += self.attacks.rows
        if self.tuning is not None:
            rows += self.tuning.rows
        if self.plain_epsilon is not None:
            name = "what plain composition would cost, not this release"
            rows.append((name, format_epsilon(self.plain_epsilon)))
            rows.append(("target charging", self.charging))
        if self.failure_prob is not None:
            rows.append(("failure probability, within delta", format_delta(self.failure_prob)))
        return rows

    def mechanism_rows(
        self, name: str | None = None, *, digits: int | None = None
    ) -> list[tuple[str, str]]:
        """Returns the mechanism and its public parameters as rows (name, text); all of it may be published.

        Args:
            name: the name of the mechanism in the configuration; None shows its class.
            digits: the number of significant digits; None prints all digits, which are needed to check the price.
        """
        rows = [("aggregator", name)] if name and name != self.mechanism else []
        rows.append(("mechanism", self.mechanism))
        for key, value in self.parameters.items():
            is_rounded = digits and isinstance(value, float)
            rows.append((f"mechanism.{key}", f"{value:.{digits}g}" if is_rounded else str(value)))
        if self.max_gap is not None or self.gap_at_50 is not None:
            rows.append(("gap that passes with probability 50%", self._gap_text(self.gap_at_50)))
        if self.max_gap is not None or self.gap_at_95 is not None:
            rows.append(("gap that passes with probability 95%", self._gap_text(self.gap_at_95)))
        return rows

    def _gap_text(self, gap: float | None) -> str:
        """Returns a gap as a number of votes; for None, a phrase that not even the largest possible gap passes."""
        return f"no gap of {self.max_gap} votes passes" if gap is None else f"{gap:g} votes"
