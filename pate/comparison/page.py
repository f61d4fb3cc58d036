"""The page of a comparison, one self-contained file, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pate.comparison.frontier import Frontier, Line, Point
from pate.comparison.picture import frontier_picture
from pate.comparison.run import METRICS, Run
from pate.files.atomic import write_text
from pate.report import html_elements
from pate.report.page import page, section
from pate.report.privacy_coverage import SEEDED_WARNING, PrivacyCoverage
from pate.report.rounding import format_delta
from pate.report.tables import ADJACENCY_NAMES, METRIC_NAMES, MODEL_NAMES

NOT_COVERED = (
    "No epsilon covers this comparison. Each release has its own price, but all of them come from the same private "
    "data, next to scores on true labels: keep the folder inside, or compare on public or synthetic data. To choose an "
    "aggregator by looking here and then release with it on the same data is a choice that no epsilon pays for."
)
"""What a comparison is not; the console says it, too."""

_WARNING = "No epsilon covers this comparison: keep it inside."
_OUT_OF_REACH = "out of reach"
_LEGEND = {
    PrivacyCoverage.COVERED: "Computed from public parameters alone.",
    PrivacyCoverage.UNCOVERED: "Scored with true labels, and taken from many releases of the same data.",
}


def write_page(path: Path, frontier: Frontier, parameters: dict[str, list[tuple[float, str]]]) -> None:
    """Writes frontier.html atomically. It is the data owner's.

    Args:
        path: the file.
        frontier: what is shown.
        parameters: what the calibrator found, in words, by method and epsilon.
    """
    write_text(path, render_page(frontier, parameters))


def render_page(frontier: Frontier, parameters: dict[str, list[tuple[float, str]]]) -> str:
    """Renders the page that `write_page` writes; every text in it is escaped."""
    shown = [metric for metric in dict.fromkeys([frontier.metric, *METRICS]) if frontier.has_levels(metric)]
    num_lines = len(frontier.lines)
    frontiers = "".join(html_elements.figure(frontier_picture(frontier, metric)) for metric in shown[:2])
    metrics = dict.fromkeys([frontier.metric, *METRICS])
    scores = "".join(_scores(frontier, metric) for metric in metrics) + _baselines(frontier)
    return page(
        "comparison of methods",
        f"{num_lines} method{'s' * (num_lines != 1)} on {frontier.dataset}",
        notices=html_elements.verdict(verdict(frontier))
        + html_elements.warning_link(_WARNING, "caveats", "What that means"),
        legend=_LEGEND,
        sections=(
            section("frontiers", "Frontier", frontiers),
            section("scores", "Scores", scores),
            section("goals", "Cheapest epsilon", _goals(frontier)),
            section("entrants", "Who asked whom", _entrants(frontier) + _parameters(parameters)),
            f'<section id="caveats"><h2>What no epsilon covers</h2>{_notices(frontier)}</section>',
        ),
    )


def verdict(frontier: Frontier) -> str:
    """Who is best at the smallest and at the largest epsilon, and how much of the reachable that is."""
    name, low, high = METRIC_NAMES[frontier.metric], frontier.floor(), frontier.ceiling()
    found = [(epsilon, best) for epsilon in frontier.epsilons if (best := frontier.best_at(epsilon)) is not None]
    if not found:
        return "Every method is out of reach at every epsilon that was tried."
    said = []
    for epsilon, (line, mean) in dict(found[:1] + found[-1:]).items():
        worth = f"{frontier.reached(mean):.0%} of the reachable" if high > low else "better than a constant"
        worth = worth if mean > low else "no better than a constant"
        said.append(f"at epsilon {epsilon:g} {line.title} with {mean:.3f}, {worth}")
    scale = f"A constant has {low:.3f}, the {baseline_title(frontier.ceiling_name)} {high:.3f}."
    return f"Best {name} {'; '.join(said)}. {scale}"


def goal_names(frontier: Frontier) -> list[str]:
    """The goals as headings: the share of the way, and the score that it is."""
    return [f"{share:.0%} of the way ({frontier.goal(share):.3f})" for share in frontier.shares]


def goal_cells(frontier: Frontier, line: Line) -> list[str]:
    """The cheapest epsilon of a line for each goal."""
    found = [frontier.cheapest(line, share) for share in frontier.shares]
    return [html_elements.DASH if epsilon is None else f"{epsilon:g}" for epsilon in found]


def score(point: Point) -> str:
    """Mean, and standard deviation where there are several seeds; or that there is none."""
    if point.mean is None:
        return _OUT_OF_REACH if point.note else html_elements.DASH
    return f"{point.mean:.3f}" if point.std is None else f"{point.mean:.3f} ± {point.std:.3f}"


def _notices(frontier: Frontier) -> str:
    """What a reader must know before any number."""
    notices = [html_elements.notice(NOT_COVERED, kind="warning")]
    notices.append(html_elements.notice(f"Every release had a seed: {SEEDED_WARNING}.", kind="plain"))
    if not frontier.real:
        text = "Synthetic data: this comparison shows that the pipeline works and is no evidence of anything else."
        notices.append(html_elements.notice(text, kind="warning"))
    priced = next((run for run in frontier.runs if not run.is_baseline), None)
    if priced is not None:
        notices.append(html_elements.notice(_terms(priced, frontier), kind="plain"))
    return "".join(notices)


def _terms(run: Run, frontier: Frontier) -> str:
    """What all methods have in common."""
    count = len({item.seed for item in frontier.runs if item.seed is not None})
    seeds = "seed" if count == 1 else f"{count} seeds"
    meaning = ADJACENCY_NAMES.get(run.adjacency or "", "")
    return (
        f"The same {run.num_queries} queries and the same {seeds} of noise and student for all. delta "
        f"{format_delta(run.delta or 0.0)}, {run.adjacency} ({meaning}), {run.accountant} accountant. The teachers "
        "were trained once: the bars show what noise and student vary, not what another partition would. The noise at "
        "each epsilon is the calibrator's, which sees no votes."
    )


def _goals(frontier: Frontier) -> str:
    caption = (
        f"The smallest epsilon tried at which {METRIC_NAMES[frontier.metric]} reaches a share of "
        f"the way from a constant to the {baseline_title(frontier.ceiling_name)}; a dash where none did."
    )
    rows = [(line.title, goal_cells(frontier, line), None) for line in frontier.ranked]
    return html_elements.table(caption, ["method (teachers)", *goal_names(frontier)], rows, PrivacyCoverage.UNCOVERED)


def _scores(frontier: Frontier, metric: str) -> str:
    """One metric: one row per aggregator, a column an epsilon."""
    by_title = {line.title: line for line in frontier.lines_of(metric)}
    first = metric == frontier.metric
    rows = []
    for line in frontier.ranked:
        cells = [_breakable(score(_at(by_title[line.title], epsilon))) for epsilon in frontier.epsilons]
        rows.append((line.title, [*cells, f"{frontier.mean_over_epsilons(line):.3f}"] if first else cells, None))
    head = ["method (teachers)", *(f"epsilon {epsilon:g}" for epsilon in frontier.epsilons)]
    over = "mean and standard deviation over the seeds" if frontier.has_spread else "of one seed"
    caption = f"{METRIC_NAMES[metric]} on {frontier.num_test:,} test samples, {over}."
    if (error := frontier.test_error(metric)) is not None:
        caption += f" Another test set would move a score by up to {error:.3f} (95%)."
    if first:
        caption += " The best mean over all epsilons first; a constant stands in where a method is out of reach."
    return html_elements.table(caption, [*head, "mean"] if first else head, rows, PrivacyCoverage.UNCOVERED)


def _baselines(frontier: Frontier) -> str:
    rows = [(baseline_name(run), [_number(getattr(run, key)) for key in METRICS], None) for run in frontier.baselines]
    return html_elements.table(
        "Models to hold them against; none is private.",
        ["model", *METRIC_NAMES.values()],
        rows,
        PrivacyCoverage.UNCOVERED,
    )


def baseline_title(name: str) -> str:
    """A baseline in words."""
    return MODEL_NAMES.get(name, name)


def baseline_name(run: Run) -> str:
    """A baseline with its teachers, where it has any."""
    name = baseline_title(run.aggregator)
    return f"{name}, {run.num_teachers:,} {run.teacher} teachers" if run.num_teachers else name


def _entrants(frontier: Frontier) -> str:
    """Teachers, student, and mean answers by epsilon."""
    head = [
        "method (teachers)",
        "teachers",
        "student",
        *(f"epsilon {epsilon:g}" for epsilon in frontier.epsilons),
    ]
    rows = []
    for line in frontier.ranked:
        answers = [_at(line, epsilon).num_answered for epsilon in frontier.epsilons]
        cells = [html_elements.DASH if answered is None else f"{answered:.0f}" for answered in answers]
        rows.append((line.title, [line.teacher, line.student, *cells], None))
    return html_elements.table(
        "Teachers, student, and the mean number of answers at each epsilon.", head, rows, PrivacyCoverage.UNCOVERED
    )


def _parameters(parameters: dict[str, list[tuple[float, str]]]) -> str:
    rows = [(f"{name} at {epsilon:g}", text) for name, found in parameters.items() for epsilon, text in found]
    return html_elements.facts("What the calibrator solved for, from public parameters.", rows, PrivacyCoverage.COVERED)


def _breakable(text: str) -> str:
    """A mean and its deviation in two lines at most, the sign with the latter."""
    return text.replace("± ", "±\N{NO-BREAK SPACE}")


def _at(line: Line, epsilon: float) -> Point:
    points: Sequence[Point] = [point for point in line.points if point.epsilon == epsilon]
    return points[0] if points else Point(epsilon, None, None, None)


def _number(value: float | None) -> str:
    return html_elements.DASH if value is None else f"{value:.3f}"
