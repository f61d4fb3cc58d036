"""How figures read: privacy parameters rounded up, as no printed bound may be too small; the rows of tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal

from pate.report.metrics import Scores
from pate.report.report import SEEDED_WARNING, Privacy, ReleaseSummary, Report
from pate.validation import require, require_count

_DELTA_DIGITS = 3
_EXACT = Context(prec=700)  # holds any float's decimals, so that quantizing is the only rounding

# Heading of each metric, by its key in report.json; the headline first.
METRIC_NAMES = {
    "mean_average_precision": "mean AP",
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced acc.",
}
# Each model by its key in report.json, from what needs no data to what has no privacy.
MODEL_NAMES = {
    "prior": "prior",
    "best_constant": "best constant",
    "student": "private student",
    "majority_vote_student": "majority-vote student",
    "true_label_student": "true-label student",
    "all_records_model": "all-records model",
}
ADJACENCY_NAMES = {
    "replace_one": "one unit of privacy is replaced by any other",
    "add_remove": "one teacher, with all its records, is added or removed",
}


def round_up(value: float, digits: int) -> str:
    """A number with so many decimals, rounded toward plus infinity, or `inf`.

    The number is taken by its shortest decimal form, so that 3.6 prints as `3.60`; reading the result back
    as a float never gives less than `value`.

    Raises:
        InvalidValue: NaN, minus infinity, or a negative count of decimals.

    >>> round_up(7.9912, 2), round_up(3.6, 2), round_up(float("inf"), 2)
    ('8.00', '3.60', 'inf')
    """
    require_count("digits", digits, minimum=0)
    require(value > -math.inf, "value", value, "a number or plus infinity")
    if math.isinf(value):
        return "inf"
    return _ceiling(Decimal(repr(float(value))), -digits)


def format_epsilon(epsilon: float) -> str:
    """Formats an epsilon for print, rounded up: two decimals from 1 on, four below; `0` is exact."""
    return "0" if epsilon == 0 else round_up(epsilon, 2 if epsilon >= 1 else 4)


def format_claim(epsilon: float) -> str:
    """Formats what others print, to the nearest: two decimals, two digits where these would be none."""
    return f"{epsilon:.2f}" if epsilon == 0 or epsilon >= 0.01 else f"{epsilon:.2g}"


def format_delta(delta: float) -> str:
    """Formats a delta for print, rounded up to three significant digits, such as `1e-6` or `1.61e-6`.

    Raises:
        InvalidValue: delta outside [0, 1].
    """
    require(0 <= delta <= 1, "delta", delta, "a number in [0, 1]")
    exact = Decimal(repr(float(delta)))
    if exact == 0:
        return "0"
    rounded = Decimal(_ceiling(exact, exact.adjusted() - _DELTA_DIGITS + 1)).normalize()
    if rounded >= Decimal("0.001"):
        return f"{rounded:f}"
    exponent = rounded.adjusted()
    return f"{rounded.scaleb(-exponent).normalize():f}e{exponent}"


def _ceiling(value: Decimal, exponent: int) -> str:
    """Rounded up to a multiple of 10^exponent, in positional notation, never `-0`."""
    rounded = value.quantize(Decimal(1).scaleb(exponent), rounding=ROUND_CEILING, context=_EXACT)
    return f"{rounded if rounded else abs(rounded):f}"


@dataclass(frozen=True)
class Model:
    """One row of the table of models: its key in `report.json`, its name, its metrics; None if it was not trained."""

    key: str
    name: str
    scores: Scores | None


def models(report: Report) -> tuple[Model, ...]:
    """The models of a report in the order of the tables; those that were not trained have no scores."""
    found = vars(report.baselines) | {"student": report.student}
    return tuple(Model(key, name, found[key]) for key, name in MODEL_NAMES.items())


def guarantee(privacy: Privacy) -> str:
    """The guarantee in one line, epsilon and delta rounded up; an infinite epsilon is called no guarantee."""
    terms = f"{privacy.adjacency}, unit: {privacy.unit}"
    if math.isinf(privacy.epsilon):
        return f"no guarantee: epsilon is infinite ({terms})"
    bound = f"epsilon <= {format_epsilon(privacy.epsilon)} at delta = {format_delta(privacy.delta)} ({terms})"
    return f"{bound}; by class: {epsilons_of_classes(privacy)}" if privacy.classes else bound


def epsilons_of_classes(privacy: Privacy) -> str:
    """The epsilon of each class of groups with a budget of its own, rounded up."""
    return ", ".join(f"{name} {format_epsilon(epsilon)}" for name, epsilon in privacy.classes.items())


def settings(privacy: Privacy, name: str | None = None) -> tuple[tuple[str, str], ...]:
    """The price and the public parameters behind it as (name, text) rows; all of it may be published."""
    return (*terms(privacy), *parameters(privacy, name))


def terms(privacy: Privacy) -> tuple[tuple[str, str], ...]:
    """The price, and what it is a price of."""
    adjacency = privacy.adjacency
    meaning = ADJACENCY_NAMES.get(adjacency)
    noise = f"seeded: {SEEDED_WARNING}" if privacy.noise_seeded else "ChaCha20, from the operating system's entropy"
    rows = [
        ("epsilon", "infinite: no guarantee" if math.isinf(privacy.epsilon) else format_epsilon(privacy.epsilon)),
        ("delta", format_delta(privacy.delta)),
        ("adjacency", f"{adjacency} ({meaning})" if meaning else adjacency),
        ("unit of privacy", privacy.unit),
        ("accountant", accountant_of(privacy)),
        ("queries priced", str(privacy.num_queries)),
        ("noise", noise),
    ]
    if privacy.classes:
        rows.insert(1, ("epsilon of each budget class", epsilons_of_classes(privacy)))
    if privacy.plain_epsilon is not None:
        rows.append(("what plain composition would cost, not this release", format_epsilon(privacy.plain_epsilon)))
        rows.append(("target charging", charging_verdict(privacy)))
    if privacy.failure_prob is not None:
        rows.append(("failure probability, within delta", format_delta(privacy.failure_prob)))
    return tuple(rows)


def accountant_of(privacy: Privacy) -> str:
    """Its name, and whose figure it took."""
    return privacy.accountant if privacy.won_by is None else f"{privacy.accountant} (here that of {privacy.won_by})"


def parameters(privacy: Privacy, name: str | None = None, *, digits: int | None = None) -> tuple[tuple[str, str], ...]:
    """The mechanism, the name that it was configured by, and its public parameters.

    Numbers have so many digits; None shows all, as whoever checks a price needs them.
    """
    rows = [("aggregator", name)] if name and name != privacy.mechanism else []
    rows.append(("mechanism", privacy.mechanism))
    for key, value in privacy.parameters.items():
        rounded = f"{value:.{digits}g}" if digits and isinstance(value, float) else str(value)
        rows.append((f"mechanism.{key}", rounded))
    for share, gap in (("50%", privacy.gap_at_50), ("95%", privacy.gap_at_95)):
        if gap is not None or privacy.max_gap is not None:
            found = f"no gap of {privacy.max_gap} votes passes" if gap is None else f"{gap:g} votes"
            rows.append((f"gap that passes with probability {share}", found))
    return tuple(rows)


def charging_verdict(privacy: Privacy) -> str:
    """Whether target charging paid, in one sentence; empty for a mechanism that is not charged by hits."""
    if privacy.plain_epsilon is None:
        return ""
    plain, charged = format_epsilon(privacy.plain_epsilon), format_epsilon(privacy.epsilon)
    compared = f"{plain} instead of {charged} for the queries that were asked, with the same noise"
    if privacy.plain_epsilon <= privacy.epsilon:
        return f"does not pay: plain composition costs less, {compared}"
    return f"pays: plain composition costs {compared}"


def hit_counts(release: ReleaseSummary) -> str:
    """The hits of a charged mechanism in one line; empty for another."""
    if release.num_hits is None:
        return ""
    return (
        f"{release.num_hits} hits, {release.remaining_hits} remaining, {release.num_abstained} abstentions; "
        f"{release.num_asked} of {release.num_queries} queries asked"
    )


def percent(share: float) -> str:
    """A share in [0, 1] as a percentage with one decimal."""
    return f"{100 * share:.1f}%"
